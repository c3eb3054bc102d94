"""A binary Tree-LSTM learns ListOps, one tree at a time, in plain recursion.

ListOps (Nangia & Bowman 2018, arXiv:1804.06028) nests MAX, MIN, MED and SM (sum modulo 10) over
digits: [MAX 2 9 [MIN 4 7 ] 0 ] is 9. Nothing is downloaded: the expressions are drawn here, from
--seed, by the published grammar (2 to 5 arguments, each an expression with probability 1/4, else
a digit), nested at most --depth deep. As in the paper the trees are binary and branch to the left,
(((("[MAX", 2), 9), ...), "]"). The model is Tai et al.'s (2015, arXiv:1503.00075).
"""

import argparse
import random
import statistics
from collections import Counter
from pathlib import Path

from tqdm import tqdm

import weft
from weft import nn

OPERATORS = {
    "[MAX": max,
    "[MIN": min,
    "[MED": lambda args: int(statistics.median(args)),
    "[SM": lambda args: sum(args) % 10,
}
INDEX = {token: i for i, token in enumerate([*range(10), *OPERATORS, "]"])}
BATCH, LR = 16, 1e-2


def expression(rng, depth):
    """A random expression, nested at most `depth` deep, as (tree, value)."""
    operator = rng.choice(list(OPERATORS))
    tree, values = operator, []
    for _ in range(rng.randint(2, 5)):
        nested = depth > 1 and rng.random() < 0.25
        arg, value = expression(rng, depth - 1) if nested else (rng.randrange(10),) * 2
        tree, values = (tree, arg), [*values, value]
    return (tree, "]"), OPERATORS[operator](values)


class TreeLSTM(nn.Module):
    """Reads a tree of tokens, returns the scores of the ten digits, shape (10,)."""

    def __init__(self, dim):
        super().__init__()
        self.leaf = nn.Embedding(len(INDEX), 2 * dim)
        self.gates = nn.Linear(2 * dim, 5 * dim)
        self.out = nn.Linear(dim, 10)
        nn.init.normal_(self.leaf.weight, std=0.5)

    def state(self, tree):
        """The states (h, c) of a node, each of shape (dim,)."""
        if not isinstance(tree, tuple):
            return self.leaf(weft.tensor(INDEX[tree])).chunk(2)
        (h_left, c_left), (h_right, c_right) = self.state(tree[0]), self.state(tree[1])
        i, o, f_left, f_right, u = self.gates(weft.cat([h_left, h_right])).chunk(5)
        c = i.sigmoid() * u.tanh() + f_left.sigmoid() * c_left + f_right.sigmoid() * c_right
        return o.sigmoid() * c.tanh(), c

    def forward(self, tree):
        return self.out(self.state(tree)[0])


def draw_curve(losses, path):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=100000, help="training trees")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--depth", type=int, default=3, help="deepest nesting")
    parser.add_argument("--dim", type=int, default=64, help="size of h and of c")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/listops.png"))
    args = parser.parse_args()
    rng = random.Random(args.seed)
    weft.manual_seed(args.seed)
    test = dict(expression(rng, args.depth) for _ in range(max(100, args.trees // 100)))
    drawn = (expression(rng, args.depth) for _ in range(args.trees))
    train = [(tree, value) for tree, value in drawn if tree not in test]
    model = TreeLSTM(args.dim)
    optimizer = weft.optim.Adam(model.parameters(), lr=LR)
    steps = args.epochs * len(train) // BATCH
    losses, running = [], 2.3
    progress = tqdm(total=steps * BATCH, unit=" trees")
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = LR * (1 - step / steps)
        optimizer.zero_grad()
        for k in range(step * BATCH, (step + 1) * BATCH):
            tree, value = train[k % len(train)]
            loss = nn.functional.cross_entropy(model(tree), weft.tensor(value))
            (loss / BATCH).backward()
            running += 0.002 * (loss.item() - running)
        optimizer.step()
        losses.append(running)
        progress.set_postfix(loss=f"{running:.3f}", refresh=False)
        progress.update(BATCH)
    progress.close()
    with weft.no_grad():
        hits = sum(model(tree).argmax().item() == value for tree, value in test.items())
    majority = max(Counter(test.values()).values())
    print(f"test accuracy {hits / len(test):.3f} on {len(test)} unseen trees", end=", ")
    print(f"majority class {majority / len(test):.3f}\n{draw_curve(losses, args.out)}")


if __name__ == "__main__":
    main()
