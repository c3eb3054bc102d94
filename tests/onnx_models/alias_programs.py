"""Programs of branches, loops, views and writes in place, drawn by a seed.

Each is refused by `weft.onnx.export`, or gives in ONNX Runtime what it gives in eager: a graph has
values, so that a write which another name should see is lost without a word where the exporter does
not know that both may be one tensor.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

HEAD = """import weft

def pick(a, b):
    if a.sum() > b.sum():
        return a
    return b

def bump(a, b):
    c = a if a.sum() > 3 else b * 2
    c += 1
    return c

def f(x):
"""
START = ("a = x[:2] * 2", "b = x[:2] + 1", "c = a", "r = a[0]", "q = b[:, 1]", "L = [a, b]",
         "M = [b.clone(), c]", "d = {'u': a, 'v': b + 0}")  # fmt: skip


class Drawn:
    """One program."""

    def __init__(self, seed: int) -> None:
        self.draw, self.lines = random.Random(seed), list[str]()
        for line in START:
            self.add(1, line)
        for _ in range(self.draw.randint(2, 7)):
            self.statement(1, 0, loop=False)
        self.add(1, f"return {self.results()}")
        self.text = HEAD + "\n".join(self.lines) + "\n"

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def one(self, *texts: str) -> str:
        return self.draw.choice(texts)

    def results(self) -> str:
        names = ["a", "b", "c", "r", "q", "L[0]", "L[1]", "M[0]", "M[1]", "d['u']", "d['v']"]
        return ", ".join(self.draw.sample(names, self.draw.choice([1, 1, 2, 2, 3]))) + ","

    def name(self) -> str:
        return self.one("a", "b", "c", "a", "b", "c", "L[0]", "L[1]", "M[0]", "d['u']")

    def matrix(self, depth: int = 0) -> str:
        """A tensor of 2 by 2."""
        v = self.name()
        if depth > 1:
            return v
        inner = self.matrix(depth + 1)
        return self.one(
            v, v, f"({v} + 1)", f"({inner} * 2)", f"{v}.t()", f"{inner}.t()", f"{v}.reshape(2, 2)",
            f"{v}.contiguous()", f"{v}.clone()", f"({v} if {self.truth()} else {inner})",
            f"pick({v}, {inner})", f"bump({v}, {inner})", "weft.stack([r, q])",
            f"{v}.flatten().view(2, 2)",
            f"{v}.flip(0)", f"{v}.float()", "x[:2]", f"weft.broadcast_tensors({v}, {inner})[1]",
            f"{v}.detach()", f"weft.relu({v})",
        )  # fmt: skip

    def row(self) -> str:
        """A tensor of 2."""
        v = self.name()
        return self.one(
            f"{v}[0]", f"{v}[1]", f"{v}[:, 0]", f"{v}.reshape(-1)[:2]", f"{v}.flatten()[1:3]",
            "r + 1", "q", "r", f"(r if {self.truth()} else q)", f"{v}.diagonal()",
            f"({v}[0] if {self.truth()} else {v}[1])", f"{v}.unbind(1)[1]", f"{v}.sum(0)",
        )  # fmt: skip

    def truth(self) -> str:
        of = self.one("a", "b", "c", "r", "q", "L[0]", "x")
        return f"{of}.sum() {self.one('>', '<')} {self.one('0', '2', '5', '20')}"

    def write(self) -> str:
        v = self.name()
        return self.one(
            f"{v} += 1", f"{v}.mul_(2)", f"{v}[0] = r", f"{v}[:, 1] = 3", f"{v}[{v} > 2] = 1",
            f"{v}.add_({self.matrix(1)})", "r += 1", "q *= 2", "r[0] = 5", "r.copy_(q)",
            f"{v}[1] += q", f"{v}.zero_()", f"{v}.t()[0] += 1", "q[1:] -= 1", f"{v}.relu_()",
        )  # fmt: skip

    def statement(self, at: int, depth: int, *, loop: bool) -> None:
        """One statement, with all that is in it."""
        kind = self.draw.randrange(20)
        if kind < 4:
            self.add(at, f"{self.one('a', 'b', 'c')} = {self.matrix()}")
        elif kind < 6:
            self.add(at, f"{self.one('r', 'q')} = {self.row()}")
        elif kind < 11:
            self.add(at, self.write())
        elif kind == 11:
            part = self.one("L[0]", "L[1]", "M[0]", "M[1]", "d['u']", "d['v']")
            self.add(at, f"{part} = {self.matrix()}")
        elif kind == 12:
            way = f"{self.one('L', 'M')} if {self.truth()} else {self.one('L', 'M', '[a, b]')}"
            self.add(at, f"{self.one('L', 'M')} = {self.one('L', 'M', '[b, a]', way)}")
        elif kind == 13:
            self.add(at, self.one("a, b = b, a", "b, c = c, a", "a, c = c, a + 1", "r, q = q, r"))
        elif kind < 16 and depth < 3:
            self.add(at, f"if {self.truth()}:")
            self.block(at + 1, depth + 1, loop=loop)
            if self.draw.random() < 0.5:
                self.add(at, "else:")
                self.block(at + 1, depth + 1, loop=loop)
        elif kind < 18 and depth < 2:
            self.loop(at, depth)
        elif kind == 18 and loop:
            self.add(at, f"if {self.truth()}: {self.one('break', 'continue')}")
        elif kind == 19 and depth < 2:
            self.add(at, "rows = []")
            self.add(at, f"for k in range({self.one('x.shape[0]', '2')}):")
            self.block(at + 1, depth + 1, loop=False)
            self.add(at + 1, f"rows.append({self.one('a', 'b', 'c')})")
            self.block(at + 1, depth + 1, loop=False)
            if self.draw.random() < 0.5:
                self.add(at, self.write())
            self.add(at, f"{self.one('a', 'b')} = weft.stack(rows).sum(0)")
        else:
            self.add(at, self.write())

    def loop(self, at: int, depth: int) -> None:
        """A `for` or a `while`, of few turns or none."""
        heads = ("for k in range(x.shape[0] - 2):", "for k in range(2):", "for row in x:",
                 "while n < 3 and {}:", "while n < 4:", "for row in a:")  # fmt: skip
        n = f"n{depth}"
        head = self.one(*heads).format(self.truth()).replace("n <", f"{n} <")
        if head.startswith("while"):
            self.add(at, f"{n} = 0")
        self.add(at, head)
        if head.startswith("while"):
            self.add(at + 1, f"{n} += 1")
        if "row" in head and self.draw.random() < 0.4:
            self.add(at + 1, self.one("row += 1", "r = row", "row[0] = 2", "r = r + row")
                     if "a:" in head else "r = r + row")  # fmt: skip
        self.block(at + 1, depth + 1, loop=True)
        if self.draw.random() < 0.2:
            self.add(at, "else:")
            self.block(at + 1, depth + 1, loop=False)

    def block(self, at: int, depth: int, *, loop: bool) -> None:
        """A few statements."""
        for _ in range(self.draw.randint(1, 3)):
            self.statement(at, depth, loop=loop)


def program(seed: int, folder: Path) -> Any:
    """The function that a seed draws, with its text in a file."""
    return function_in(folder / f"alias_{seed}.py", Drawn(seed).text)


def function_in(path: Path, text: str) -> Any:
    """The function f of a text, which a file has so that it can be read again."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f
