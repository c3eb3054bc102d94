"""Fuzzing of the front end: a random function that is run from its instructions does as in CPython.

Compared are the result, the log, the arguments afterwards, the exception with its message, cause
and context, and the lines and columns of its traceback.

    python tests/frontend/fuzz_frontend.py --programs 100000 --seed 1

prints the first mismatches with minimal functions. What runs the instructions is a `Way`: the
evaluator of this folder, or whatever else runs them.
"""

import argparse
import ast
import collections
import contextlib
import importlib.util
import itertools
import linecache
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import evaluate
import fuzz_sources
import programs
from fuzz_sources import Draw

from weft.frontend import Kept, Lowered, Outside, lower

HEADER = (
    "import contextlib\n"
    "from programs import LOG, Loud, answer, fail, say\n"
    "from fuzz_sources import keep, note, spent, take\n\n"
)
# What the front end leaves to Python, of what is drawn.
OUTSIDE = {
    "a variable of a comprehension before it is set",
    "a comprehension's variable that an inner function uses hides another",
}
SECONDS = 2  # one that takes longer is left out
BATCH = 100
# CPython 3.11 reads two locals in one step, and an error in the second one is that of the first.
PAIRS = sys.version_info < (3, 12)

Spot = tuple[object, ...]
Function = Callable[..., object]


class Mismatch(NamedTuple):
    text: str
    case: str
    expected: dict[str, object]
    got: dict[str, object]


class Slow(BaseException):
    """A run takes too long."""


def spot(code: CodeType, offset: int) -> Spot:
    """(function, line, column …) of a bytecode instruction."""
    if offset < 0:
        return (code.co_name,)
    return code.co_name, *next(itertools.islice(code.co_positions(), offset // 2, None))


def traced(error: BaseException, codes: set[CodeType]) -> list[Spot]:
    """Where an exception went through `codes`, by its traceback."""
    found, trace = [], error.__traceback__
    while trace is not None:
        if (code := trace.tb_frame.f_code) in codes:
            found.append(spot(code, trace.tb_lasti))
        trace = trace.tb_next
    return found


def noted(error: BaseException, codes: set[CodeType]) -> list[Spot]:
    """The same, as the evaluator notes it."""
    return [spot(*place) for place in getattr(error, "places", ())]


class Way(NamedTuple):
    """A way to run a function: what gives the callable, and where its exceptions passed."""

    runner: Callable[[Function], Function]
    spots: Callable[[BaseException, set[CodeType]], list[Spot]] = traced


EVALUATOR = Way(evaluate.function, noted)
CPYTHON = Way(lambda function: function)


def lowered_codes(lowered: Lowered) -> set[CodeType]:
    """The code objects that run as instructions."""
    found = {lowered.code, *(i.code for i in lowered.inlined)}
    for inner in lowered.inner:
        if not isinstance(inner, Kept):
            found |= lowered_codes(inner)
    return {code for code in found if code is not None}  # dead code has none


def run(way: Way, function: Function, case: str, codes: set[CodeType]) -> dict[str, object]:
    """What a call showed."""

    def spots(error: BaseException) -> list[Spot]:
        found = way.spots(error, codes)
        if PAIRS and isinstance(error, UnboundLocalError):
            return [where[:1] for where in found]
        return found

    fuzz_sources.rewind()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, SECONDS)
    try:
        found = programs.outcome(way.runner(function), case, spots)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    log = found["log"]
    if any(line.startswith("('hash'") for line in log):  # how often is not ours to say
        found["log"] = [line for line in log if not line.startswith(("('hash'", "('eq'"))]
    return found


def load(file: Path, texts: list[str], header: str = HEADER) -> dict[str, object]:
    """The names of a module of these texts, which is written to a file of its own."""
    file.write_text(header + "\n\n".join(texts))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return vars(module)


def mismatch(function: Function, text: str, cases: list[str], way: Way) -> Mismatch | None:
    """The first case in which a way does not do what CPython does.

    Raises:
        Outside: the function is not in the subset.
        Slow: it runs too long.
    """
    codes = lowered_codes(lower(function))
    for case in cases:
        expected, got = (run(w, function, case, codes) for w in (CPYTHON, way))
        if expected != got:
            return Mismatch(text, case, expected, got)
    return None


class Fuzzer:
    """Draws functions and compares; modules are written to `folder`.

    Attributes:
        drawn: what draws a function.
        header: what its module begins with.
        refuses: what is raised for a function that is not compared.
    """

    drawn: type[Draw] = Draw
    header = HEADER
    refuses: tuple[type[Exception], ...] = (Outside,)

    def mismatch(self, function: Function, text: str, cases: list[str]) -> Mismatch | None:
        """The first case in which the way does not do what CPython does."""
        return mismatch(function, text, cases, self.way)

    def may_refuse(self, reason: str) -> bool:
        """Whether that is no mismatch."""
        return reason in OUTSIDE

    def __init__(self, folder: Path, way: Way = EVALUATOR) -> None:
        self.folder, self.way = folder, way
        self.files = 0
        self.outside: collections.Counter[str] = collections.Counter()
        self.ends: collections.Counter[str] = collections.Counter()
        self.slow = self.tried = 0

    def file(self) -> Path:
        self.files += 1
        return self.folder / f"fuzzed_{self.files}.py"

    def draw(self, seed: int, name: str) -> Draw:
        """A function that is Python: a template may have made one that is not."""
        for again in range(1000):
            drawn = self.drawn(f"{seed} {again}", name)
            try:
                compile(drawn.text, "<drawn>", "exec", dont_inherit=True)
                return drawn
            except SyntaxError:
                continue
        raise AssertionError("nothing that is drawn is Python")

    def batch(self, seeds: list[int]) -> list[Mismatch]:
        """The mismatches of the functions of these seeds."""
        drawn = [self.draw(seed, f"f_{seed}") for seed in seeds]
        file = self.file()
        names = load(file, [one.text for one in drawn], self.header)
        found = []
        for seed, one in zip(seeds, drawn):
            try:
                bad = self.mismatch(names[f"f_{seed}"], one.text, one.cases)
            except self.refuses as why:
                self.outside[reason := why.reason.split(" (")[0]] += 1
                if self.may_refuse(reason):
                    continue
                bad = Mismatch(one.text, one.cases[0], {"outside": None}, {"outside": str(why)})
            except (Slow, MemoryError):
                self.slow += 1
                continue
            if bad is not None:
                found.append(bad)
        file.unlink()
        linecache.clearcache()
        return found

    def again(self, text: str, case: str) -> Mismatch | None:
        """Whether a text still mismatches."""
        file = self.file()
        try:
            (name,) = [node.name for node in ast.parse(text).body]
            return self.mismatch(load(file, [text], self.header)[name], text, [case])
        except (SyntaxError, *self.refuses, Slow, MemoryError):
            return None
        finally:
            file.unlink(missing_ok=True)

    def minimal(self, bad: Mismatch) -> Mismatch:
        """The same mismatch, in a function from which no statement can be left out."""
        while True:
            for text in smaller(bad.text):
                less = self.again(text, bad.case)
                if less is not None and nature(less) == nature(bad):
                    bad = less
                    break
            else:
                return bad


def nature(bad: Mismatch) -> list:
    """What kind of mismatch it is: what comes of either side, of errors the type."""
    return [
        {
            key: found[0] if key in ("error", "saved") and found else None
            for key, found in side.items()
        }
        for side in (bad.expected, bad.got)
    ]


def smaller(text: str) -> Iterator[str]:
    """A function with one statement less, or with one statement or expression replaced by a part
    of it."""
    nodes = list(ast.walk(ast.parse(text)))[2:]
    kinds = {ast.stmt: ("", "body", "orelse", "finalbody"), ast.expr: ("0", *range(4))}
    for kind, parts in kinds.items():
        for k, like in enumerate(nodes):
            for part in parts if isinstance(like, kind) else ():
                tree = ast.parse(text)
                node = list(ast.walk(tree))[2 + k]
                if kind is ast.stmt:
                    new = getattr(node, part, []) if part else []
                    if part and (not new or isinstance(node, ast.FunctionDef)):
                        continue
                    replaced = replace(tree, node, new)
                else:
                    inner = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
                    inner = [ast.Constant(0)] if part == "0" else inner[part : part + 1]
                    replaced = bool(inner) and replace(tree, node, inner)
                less = text
                with contextlib.suppress(ValueError):  # a part that cannot stand there
                    less = ast.unparse(ast.fix_missing_locations(tree)) if replaced else text
                if len(less) < len(text):
                    yield less


def replace(tree: ast.AST, node: ast.AST, new: list[ast.AST]) -> bool:
    """Puts other nodes in the place of one."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, list) and node in value:
                at = value.index(node)
                value[at : at + 1] = new
                if not value and name == "body":
                    value.append(ast.Pass())
                return True
            if value is node and new:
                setattr(parent, name, new[0])
                return True
    return False


def fuzz(
    count: int, seed: int, way: Way = EVALUATOR, enough: int = 1, kind: type[Fuzzer] = Fuzzer
) -> tuple[list, Fuzzer]:
    """The first mismatches among `count` functions, in minimal form, and what was counted."""

    def slow(*_):
        raise Slow

    before = signal.signal(signal.SIGVTALRM, slow)
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fuzzer, found = kind(Path(folder), way), []
            numbers = range(seed * 10**7, seed * 10**7 + count)
            for start in range(0, count, BATCH):
                found += fuzzer.batch(list(numbers[start : start + BATCH]))
                fuzzer.tried = min(start + BATCH, count)
                if len(found) >= enough:
                    break
            return [fuzzer.minimal(bad) for bad in found[:enough]], fuzzer
    finally:
        signal.signal(signal.SIGVTALRM, before)


def shown(bad: Mismatch) -> str:
    parts = [bad.text, f"called with ({bad.case})"]
    for key in bad.expected:
        if bad.expected[key] != bad.got.get(key):
            parts.append(
                f"{key}:\n  expected {bad.expected[key]}\n  got      {bad.got.get(key, bad.got)}"
            )
    return "\n".join(parts)


def main(kind: type[Fuzzer] = Fuzzer, told: str = __doc__) -> int:
    parser = argparse.ArgumentParser(description=told.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=1, help="mismatches to look for")
    options = parser.parse_args()
    start = time.time()
    found, fuzzer = fuzz(options.programs, options.seed, enough=options.show, kind=kind)
    print(*map(shown, found), sep="\n" + 80 * "-" + "\n")
    print(f"{fuzzer.tried} functions, {time.time() - start:.0f} s; {fuzzer.slow} too slow")
    print(f"{sum(fuzzer.outside.values())} outside: {dict(fuzzer.outside)}")
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
