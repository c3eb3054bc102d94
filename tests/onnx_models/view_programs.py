"""Programs of views and writes through them, of tensors whose sizes are free, drawn by a seed.

A view may have no element in the example, or one, and many in a run, or the reverse: each program
is refused by `weft.onnx.export`, or gives in ONNX Runtime what it gives in eager, of all sizes.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from alias_programs import function_in

HEAD = """import weft

def f(x):
    n = x.shape[0]
"""
START = ("a = x * 2", "b = x + 1", "v = a[1:]", "w = b.t()")


class Drawn:
    """One program, of an argument of n by 3."""

    def __init__(self, seed: int) -> None:
        self.draw, self.lines = random.Random(seed), list[str]()
        for line in START:
            self.add(1, line)
        if self.draw.random() < 0.3:
            self.grown()
        for _ in range(self.draw.randint(2, 8)):
            self.statement(1, 0)
        names = self.draw.sample(["a", "b", "v", "w", "a.sum()", "v.flatten()"], 3)
        self.add(1, f"return {', '.join(names)}")
        self.text = HEAD + "\n".join(self.lines) + "\n"

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def one(self, *texts: str) -> str:
        return self.draw.choice(texts)

    def grown(self) -> None:
        """A tensor of as many rows as a Loop makes."""
        self.add(1, "rows = []")
        self.add(1, f"for i in range({self.one('n', 'n - 1', '0, n, 2')}):")
        self.add(2, f"rows.append({self.one('x[i] * 2', 'a[i]', 'x[i].clone()')})")
        self.add(1, f"{self.one('a', 'b', 'v')} = weft.stack(rows)")

    def name(self) -> str:
        return self.one("a", "b", "v", "w", "v", "w")

    def bound(self) -> str:
        """One end of a slice."""
        return self.one("", "0", "1", "2", "3", "5", "7", "-1", "-2", "-4", "n // 2", "n - 1",
                        "n - 3", "min(n, 4)", "-n", "n")  # fmt: skip

    def part(self) -> str:
        """What is within brackets."""
        step = self.one("", "", "", ":2", ":3")
        rows = f"{self.bound()}:{self.bound()}{step}"
        return self.one(rows, rows, rows, f":, {rows}", f"{rows}, {rows}", f"..., {rows}",
                        self.one("0", "-1", "1", "n // 2"), f"{rows}, 0")  # fmt: skip

    def view(self, depth: int = 0) -> str:
        v = self.name()
        inner = v if depth > 1 else self.view(depth + 1)
        return self.one(
            v, f"{v}[{self.part()}]", f"{v}[{self.part()}]", f"{inner}[{self.part()}]",
            f"{inner}.t()", f"{v}.reshape(-1)", f"{inner}.flatten()", f"{inner}.contiguous()",
            f"{v}.unsqueeze(0)", f"{v}.view(-1)", f"{v}.diagonal()",
            f"{inner}.narrow(0, {self.one('0, 1', '1, n - 1', 'n, 0', '0, n // 2')})",
            f"{v}.T", f"{v}.mT", f"{v}.swapaxes(0, -1)", f"{v}.unfold(0, 1, 1)",
            f"{inner}.transpose(0, -1)", f"{v}.expand(2, *{v}.shape)", f"{v}.detach()",
            f"{v}.float()", f"{v}.select(0, 0)", f"{v}.unbind(1)[0]", f"{inner}.reshape(-1, 3)",
            f"{inner}.view({v}.shape)", f"weft.movedim({inner}, 0, -1)",
        )  # fmt: skip

    def value(self) -> str:
        v = self.view(1)
        return self.one(f"{v}.clone()", f"{v} + 1", f"{v} * {v}", f"{v}.cumsum(0)", f"{v}.flip(0)",
                        f"weft.cat([{v}, {v}])", f"weft.relu({v})", f"{v}.sum(0)",
                        f"{v}.unfold(0, 2, 1).clone()")  # fmt: skip

    def write(self) -> str:
        v, part = self.view(1), self.part()
        name = self.name()
        return self.one(
            f"{name} += 100", f"{name}.mul_(3)", f"{name}.fill_(7)", f"{v}.add_(10)",
            f"{name}[{part}] = -5", f"{name}[{name} > 1] = 9", f"{v}.zero_()",
            f"{name}[{part}] += 1", f"{v}[{part}] *= -1", f"{name}[{part}].add_(3)",
            f"{name}.masked_fill_({name} < 4, 0.5)", f"{name} += {name}.clone()",
            f"{v}.copy_({name}.sum())", f"{name}.index_fill_(0, weft.arange({name}.shape[0]), 2)",
            f"{name}[{part}] = {name}[{part}].clone() * 2", f"{name} -= x.sum()", f"{v}.neg_()",
            f"{name}.clamp_(-3, 8)", f"{name}[{part}] = x.mean()",
        )  # fmt: skip

    def statement(self, at: int, depth: int) -> None:
        kind = self.draw.randrange(20)
        if kind < 7:
            self.add(at, f"{self.one('v', 'w', 'v', 'w', 'a', 'b')} = {self.view()}")
        elif kind < 9:
            self.add(at, f"{self.one('a', 'b', 'v', 'w')} = {self.value()}")
        elif kind == 17 and depth < 2:
            test = self.one("n > 3", "n > 1", "x.sum() > 4", "v.shape[0] > 1", "a.sum() > 20")
            self.add(at, f"if {test}:")
            self.block(at + 1, depth + 1)
            if self.draw.random() < 0.5:
                self.add(at, "else:")
                self.block(at + 1, depth + 1)
        elif kind == 18 and depth < 2:
            self.add(at, f"for k in range({self.one('n', '2', 'n - 2', 'v.shape[0]')}):")
            if self.draw.random() < 0.5:
                self.add(at + 1, f"{self.one('a', 'b')}[{self.one('k', 'k:', ':k')}] += 1")
            self.block(at + 1, depth + 1)
        else:
            self.add(at, self.write())

    def block(self, at: int, depth: int) -> None:
        for _ in range(self.draw.randint(1, 2)):
            self.statement(at, depth)


def program(seed: int, folder: Path) -> Any:
    """The function that a seed draws, with its text in a file."""
    return function_in(folder / f"views_{seed}.py", Drawn(seed).text)
