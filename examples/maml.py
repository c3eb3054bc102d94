"""MAML (Finn, Abbeel & Levine 2017): parameters from which one gradient step learns a task.

The tasks are the paper's: sine waves of random amplitude and phase, ten points each. The outer
gradient goes through the inner step, so it has second derivatives (`create_graph=True`). Reported:
the error on new tasks before and after one step, and after one step from parameters that were
trained on all tasks alike. With the defaults the step brings 3.1 to 0.5, without MAML to 2.4.
"""

import argparse
import math
from collections.abc import Callable, Sequence

from tqdm import tqdm

import weft
from weft import Tensor, nn
from weft.nn import functional as F

STEP = 0.01

Points = Callable[[int], tuple[Tensor, Tensor]]


def task() -> Points:
    """A function that draws n points (x, y) of one random wave."""
    amplitude, phase = 0.1 + 4.9 * weft.rand(()), math.pi * weft.rand(())

    def points(n: int) -> tuple[Tensor, Tensor]:
        x = 10 * weft.rand(n, 1) - 5
        return x, amplitude * weft.sin(x + phase)

    return points


def network(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
    )


def run(model: nn.Sequential, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """The network with other parameters than its own."""
    for layer, (w, b) in zip(model[::2], zip(parameters[::2], parameters[1::2])):
        x = F.linear(x, w, b)
        x = x if layer is model[-1] else x.relu()
    return x


def adapted(model: nn.Sequential, x: Tensor, y: Tensor, create_graph: bool) -> list[Tensor]:
    """The parameters after one step on (x, y), as a function of those before."""
    parameters = list(model.parameters())
    loss = F.mse_loss(run(model, parameters, x), y)
    grads = weft.autograd.grad(loss, parameters, create_graph=create_graph)
    return [p - STEP * g for p, g in zip(parameters, grads)]


def train(model: nn.Sequential, steps: int, meta: bool) -> None:
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-3)
    for _ in (progress := tqdm(range(steps), unit=" steps")):
        losses: list[Tensor] = []
        for _ in range(8):
            points = task()
            parameters: list[Tensor] = [*model.parameters()]
            if meta:
                parameters = adapted(model, *points(10), create_graph=True)
            x, y = points(10)
            losses.append(F.mse_loss(run(model, parameters, x), y))
        loss = weft.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress.set_postfix(loss=f"{loss.item():.2f}")


def evaluate(model: nn.Sequential, tasks: int) -> tuple[float, float]:
    """Mean squared error on new tasks before and after one step."""
    before: list[Tensor] = []
    after: list[Tensor] = []
    for _ in range(tasks):
        points = task()
        parameters = adapted(model, *points(10), create_graph=False)
        x, y = points(100)
        with weft.no_grad():
            before.append(F.mse_loss(model(x), y))
            after.append(F.mse_loss(run(model, parameters, x), y))
    return float(weft.stack(before).mean()), float(weft.stack(after).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--width", type=int, default=40)
    parser.add_argument("--tasks", type=int, default=200, help="new tasks to test on")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    results: list[tuple[float, float]] = []
    for meta in (False, True):
        weft.manual_seed(args.seed)
        model = network(args.width)
        train(model, args.steps, meta)
        results.append(evaluate(model, args.tasks))
    (_, alike), (before, after) = results
    print(
        f"error {before:.2f}, after one step {after:.2f}; trained alike, after one step {alike:.2f}"
    )


if __name__ == "__main__":
    main()
