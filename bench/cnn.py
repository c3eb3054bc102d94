"""A small CNN on 64 images of 28 x 28: a training step with SGD."""

import harness


def model_of(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 10),
    )  # fmt: skip


def training_step(torch):
    F = torch.nn.functional
    model = model_of(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, targets = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step


ROWS = [harness.Row("CNN 2 conv + BN + pool, 64 x 1 x 28 x 28, SGD step", training_step, ratio=1.4)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
