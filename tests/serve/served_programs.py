"""What the tests of the server serve."""

from typing import NamedTuple

import weft
from weft import nn


class Told(NamedTuple):
    out: weft.Tensor
    steps: int


class Served(nn.Module):
    def __init__(self):
        super().__init__()
        weft.manual_seed(0)
        self.layer = nn.Linear(2, 3)

    def forward(self, x, steps: int = 1):
        out = self.layer(x)
        for _ in range(steps - 1):
            out = out * 2
        return Told(out, steps)

    @weft.jit.export
    def echo(self, x):
        return x

    @weft.jit.export
    def total(self, tree):
        if isinstance(tree, (list, tuple)):
            return sum([self.total(child) for child in tree])
        return self.layer(weft.tensor([float(tree), 1.0])).sum()

    @weft.jit.export
    def kind(self, x):
        return "tuple" if isinstance(x, tuple) else "dict" if isinstance(x, dict) else "other"

    @weft.jit.export
    def spin(self, x, turns: int):
        while turns > 0:
            x = x + 1
            turns -= 1
        return x

    @weft.jit.export
    def told(self, x, turns: int):
        """Says that it runs."""
        print("spins")
        return self.spin(x, turns)

    @weft.jit.export
    def heavy(self, n: int):
        x = weft.ones(n, n)
        return (x @ x).sum()

    @weft.jit.export
    def words(self, s: str):
        return len(s.split())

    @weft.jit.export
    def keyed(self, x):
        return {1: x, "1": x} if x > 0 else {1: x, 2.5: x}
