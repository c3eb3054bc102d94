"""The price of one small operation: nearly all of it is bookkeeping, not arithmetic."""

import harness

CHAIN = 1000


def add(torch):
    a, b = torch.randn(4), torch.randn(4)
    return lambda: a + b


def chain(torch, nodes=CHAIN):
    x, b = torch.ones(4, requires_grad=True), torch.full((4,), 1 + 1 / nodes)
    ones = torch.ones(4)

    def step():
        y = x
        for _ in range(nodes):
            y = y * b
        x.grad = None
        y.backward(ones)
        return x.grad

    return step


ROWS = [
    harness.Row("a + b, 4 floats, no grad", add, ratio=12),
    harness.Row("chain of y * b, forward + backward, per op", chain, ratio=20, per=CHAIN),
]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
