"""A binary Tree-LSTM learns ListOps: plain recursion over one tree, batched by one line.

ListOps (Nangia & Bowman 2018, arXiv:1804.06028) nests MAX, MIN, MED and SM (sum modulo 10) over
digits: [MAX 2 9 [MIN 4 7 ] 0 ] is 9. The expressions are drawn here, by the published grammar. The
trees are binary, (((("[MAX", 2), 9), ...), "]"), as in the paper; the model is Tai et al.'s (2015).
"""

import argparse
import random
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

import weft
from weft import Tensor, nn

OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "[MAX": max,
    "[MIN": min,
    "[MED": lambda args: int(statistics.median(args)),
    "[SM": lambda args: sum(args) % 10,
}
INDEX: dict[Any, int] = {token: i for i, token in enumerate([*range(10), *OPERATORS, "]"])}
BATCH, LR = 16, 1e-2


def expression(rng: random.Random, depth: int) -> tuple[Any, int]:
    """A random expression, nested at most `depth` deep, as (tree, value)."""
    operator = rng.choice(list(OPERATORS))
    tree: Any = operator
    values: list[int] = []
    for _ in range(rng.randint(2, 5)):
        nested = depth > 1 and rng.random() < 0.25
        arg, value = expression(rng, depth - 1) if nested else (rng.randrange(10),) * 2
        tree, values = (tree, arg), [*values, value]
    return (tree, "]"), OPERATORS[operator](values)


class TreeLSTM(nn.Module):
    """Reads a tree of tokens, returns the scores of the ten digits, shape (10,)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.leaf = nn.Embedding(len(INDEX), 2 * dim)
        self.gates = nn.Linear(2 * dim, 5 * dim)
        self.out = nn.Linear(dim, 10)
        nn.init.normal_(self.leaf.weight, std=0.5)

    def state(self, tree: Any) -> tuple[Tensor, ...]:
        """The states (h, c) of a node, each of shape (dim,)."""
        if not isinstance(tree, tuple):
            return self.leaf(weft.tensor(INDEX[tree])).chunk(2)
        (h_left, c_left), (h_right, c_right) = self.state(tree[0]), self.state(tree[1])
        i, o, f_left, f_right, u = self.gates(weft.cat([h_left, h_right])).chunk(5)
        c = i.sigmoid() * u.tanh() + f_left.sigmoid() * c_left + f_right.sigmoid() * c_right
        return o.sigmoid() * c.tanh(), c

    def forward(self, tree: Any) -> Tensor:
        return self.out(self.state(tree)[0])


def draw_curve(losses: list[float], path: Path) -> str:
    """Save the loss curve as a picture, if matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "no picture of the loss: matplotlib is not installed"
    axes = (figure := Figure(figsize=(7, 4))).subplots()
    axes.plot(losses)
    axes.set(xlabel="step", ylabel="cross-entropy, running mean", title="Tree-LSTM on ListOps")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return f"loss curve: {path}"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--trees", type=int, default=100000, help="training trees")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--depth", type=int, default=3, help="deepest nesting")
    parser.add_argument("--dim", type=int, default=64, help="size of h and of c")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="one tree at a time, unbatched")
    parser.add_argument("--out", type=Path, default=Path("out/listops.png"))
    args = parser.parse_args()
    rng = random.Random(args.seed)
    weft.manual_seed(args.seed)
    test = dict(expression(rng, args.depth) for _ in range(max(100, args.trees // 100)))
    drawn = (expression(rng, args.depth) for _ in range(args.trees))
    train = [(tree, value) for tree, value in drawn if tree not in test]
    model: nn.Module = TreeLSTM(args.dim)
    rank, size = 0, 1
    if (dist := weft.distributed).is_torchelastic_launched():  # by `weft launch -n 2`
        dist.init_process_group()
        rank, size = dist.get_rank(), dist.get_world_size()
        model = nn.parallel.DistributedDataParallel(model)  # each has its share of a batch
    optimizer = weft.optim.Adam(model.parameters(), lr=LR)
    weft.autobatch.enabled = not args.plain

    @weft.autobatch(out_stack=True)  # the one line that batches
    def losses_of(tree: Any, value: int) -> Tensor:
        return nn.functional.cross_entropy(model(tree), weft.tensor(value))

    steps = args.epochs * len(train) // BATCH
    losses = [2.3]
    for step in (progress := tqdm(range(steps), unit_scale=BATCH, unit=" trees", disable=rank > 0)):
        optimizer.param_groups[0]["lr"] = LR * (1 - step / steps)
        optimizer.zero_grad()
        batch = [train[k % len(train)] for k in range(step * BATCH, (step + 1) * BATCH)]
        loss = losses_of(*zip(*batch[rank::size], strict=True)).mean()
        loss.backward()
        optimizer.step()
        losses.append(losses[-1] + 0.03 * (loss.item() - losses[-1]))
        progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    if rank > 0:
        return
    with weft.no_grad():
        scores = weft.autobatch(model)(test)
    hits = sum(int(s.argmax()) == value for s, value in zip(scores, test.values(), strict=True))
    majority = max(Counter(test.values()).values()) / len(test)
    print(f"test accuracy {hits / len(test):.3f} on {len(test)} unseen trees", end=", ")
    print(f"majority class {majority:.3f}\n{draw_curve(losses, args.out)}")


if __name__ == "__main__":
    main()
