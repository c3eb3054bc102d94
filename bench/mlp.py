"""Small multilayer perceptrons: inference on one sample, and a whole training step with Adam."""

import harness


def one_sample(torch):
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    )
    x = torch.randn(1, 8)

    def step():
        with torch.no_grad():
            return model(x)

    return step


def adam_step(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


ROWS = [
    harness.Row("MLP 8-64-64-2, one sample, no grad", one_sample, ratio=6),
    harness.Row("MLP 64-128-10, batch 32, step with Adam", adam_step, ratio=6),
]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
