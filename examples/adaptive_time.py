"""Adaptive computation time (Graves 2016): the network decides how long to think.

The task is the paper's parity: a vector of a few ones and minus ones, then zeros; is the number
of ones odd? (Data are drawn from --seed, as in the paper.) Each example runs a GRU cell until its
halting unit has spent a budget of one: an ordinary `while` on a tensor's value, for one example,
batched by one line. Reported: accuracy beside guessing, and the number of steps. With the defaults
0.995.
"""

import argparse
import statistics
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

import weft
from weft import Tensor, nn

MOST_STEPS, EPSILON, TIME_PENALTY = 12, 0.01, 0.003


def draw(size: int, generator: weft.Generator) -> tuple[Tensor, int]:
    """One vector and whether it has an odd number of ones."""
    count = int(weft.randint(1, size + 1, (), generator=generator))
    x = weft.zeros(size)
    x[:count] = weft.randint(0, 2, (count,), generator=generator) * 2.0 - 1
    return x, int((x == 1).sum()) % 2


class Thinker(nn.Module):
    """Returns the scores of even and odd, the ponder cost, and the steps taken."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(size + 1, dim)
        self.halt = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, 2)
        nn.init.constant_(self.halt.get_parameter("bias"), 1.0)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int]:
        state = answer = weft.zeros(self.cell.hidden_size)
        spent, steps = weft.zeros(()), 0
        while True:
            first = weft.tensor([1.0 if steps == 0 else 0.0])
            state = self.cell(weft.cat([x, first]), state)
            p = self.halt(state).sigmoid().squeeze()
            steps += 1
            if spent + p >= 1 - EPSILON or steps == MOST_STEPS:
                rest = 1 - spent
                return self.out(answer + rest * state), steps + rest, steps
            answer = answer + p * state
            spent = spent + p


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--examples", type=int, default=30000)
    parser.add_argument("--size", type=int, default=6, help="numbers in a vector")
    parser.add_argument("--dim", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="one example at a time, unbatched")
    args = parser.parse_args()
    weft.manual_seed(args.seed)
    generator = weft.Generator().manual_seed(args.seed)
    model = Thinker(args.size, args.dim)
    optimizer = weft.optim.Adam(model.parameters(), lr=3e-3)
    weft.autobatch.enabled = not args.plain

    @weft.autobatch
    def think(x: Tensor, odd: int) -> tuple[Tensor, bool, int]:
        scores, cost, steps = model(x)
        loss = nn.functional.cross_entropy(scores, weft.tensor(odd)) + TIME_PENALTY * cost
        return loss, scores.argmax().item() == odd, steps

    def draws(count: int) -> Iterator[tuple[Any, ...]]:
        return zip(*[draw(args.size, generator) for _ in range(count)], strict=True)

    right = 0.5
    for step in (progress := tqdm(range(args.examples // 32), unit=" batches")):
        optimizer.zero_grad()
        losses, hits, _ = zip(*think(*draws(32)), strict=True)
        weft.stack(losses).mean().backward()
        right += 0.1 * (statistics.mean(hits) - right)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            progress.set_postfix(accuracy=f"{right:.3f}")
    with weft.no_grad():
        _, hits, steps = zip(*think(*draws(max(200, args.examples // 40))), strict=True)
    print(
        f"accuracy {statistics.mean(hits):.3f} on {len(hits)} new vectors, guessing 0.500", end=", "
    )
    print(f"{statistics.mean(steps):.2f} steps each, {min(steps)} to {max(steps)}")


if __name__ == "__main__":
    main()
