"""A chain of pointwise operations over more floats than the caches hold: memory traffic."""

import harness


def chain(torch):
    x, y = torch.rand(4_000_000), torch.rand(4_000_000)

    def step():
        with torch.no_grad():
            z = x * y + x
            z = torch.tanh(z) * 0.5
            return torch.sigmoid(torch.exp(-z) - y)

    return step


ROWS = [harness.Row("8 pointwise ops on 4 M floats, forward", chain, ratio=2)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
