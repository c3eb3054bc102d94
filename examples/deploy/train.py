"""A model with a loop, a branch and a `while` on values, trained, scripted and saved as two files.

    python examples/deploy/train.py            # writes model.weft and model.onnx

It reads numbers one by one, as many as there are, and says how sure it is that their sum is
positive. What is too small to matter is passed over, and while it is unsure it thinks again.
"""

import argparse
import math
import random

import weft as torch
from weft import nn


class Reader(nn.Module):
    """For numbers [n]: the probability that their sum is positive, and how often it thought."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.read, self.think = nn.GRUCell(1, width), nn.GRUCell(width, width)
        self.score = nn.Linear(width, 1)

    def forward(self, x):
        h = torch.zeros(1, self.width)
        for number in x:
            if number.abs() < 0.01:
                continue
            h = self.read(number.reshape(1, 1), h)
        score, thoughts = self.score(h), 0
        while score.abs().sum() < 1 and thoughts < 3:
            h = self.think(h, h)
            score, thoughts = self.score(h), thoughts + 1
        return torch.sigmoid(score).reshape(1), thoughts


def examples(count: int) -> tuple[list[torch.Tensor], list[float]]:
    """Rows of unlike length, and whether their sums are positive."""
    rows = [[random.uniform(-1, 1) for _ in range(random.randint(1, 8))] for _ in range(count)]
    return [torch.tensor(row) for row in rows], [float(math.fsum(row) > 0) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--weft", default="model.weft")
    parser.add_argument("--onnx", default="model.onnx")
    options = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    @torch.autobatch
    def loss_of(row, label):
        found, _ = model(row)
        return nn.functional.binary_cross_entropy(found, torch.tensor([label]))

    for _ in range(options.steps):
        optimizer.zero_grad()
        torch.stack(loss_of(*examples(32))).mean().backward()
        optimizer.step()

    rows, labels = examples(500)
    with torch.no_grad():
        right = sum((model(row)[0].item() > 0.5) == label for row, label in zip(rows, labels))
    print(f"accuracy {right / len(rows):.3f} on {len(rows)} unseen rows")

    torch.jit.script(model.eval()).save(options.weft)
    torch.onnx.export(
        model, (torch.ones(3),), options.onnx, input_names=["x"],
        output_names=["probability", "thoughts"], dynamic_shapes={"x": {0: "n"}},
    )  # fmt: skip


if __name__ == "__main__":
    main()
