"""Random huge shapes: every op of the table over sizes whose products no machine can count.

    python tests/fuzz_shapes.py --calls 100000 --seed 1

A program is a sample of a record with sizes and integers drawn anew: an axis of a huge size is a
repeated one (`expand`), so nothing is allocated before the op. The op works, and then its results
lie within their memory, or it raises. The calls run in a process of their own, which tells the
parent what it is about to do: a call that kills it, or that never ends, is found by its number.
"""

from __future__ import annotations

import argparse
import ast
import functools
import math
import os
import random
import resource
import selectors
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from op_samples import CASES, RECORDS, flat, ours  # noqa: E402

import weft  # noqa: E402

# None is between what fits and 2**40: whether those are computed depends on the machine.
SIZES = [0, 1, 2**40, 2**60, 2**61, 2**61 + 4, 2**62, 2**62 + 1, 2**63 - 1, 2**63 - 8]
PAIRS = [2**31, 2**32, 2**32 + 1, 3037000499, 3037000500]  # whose squares are about 2**63
NUMBERS = [*SIZES, *PAIRS, -1, -(2**62), -(2**63), -(2**31)]
MEMORY = 1 << 30
PATIENCE = 60  # seconds of its own without a word from the calls (one has 12); sanitized 8 times

# An order of 2**40 is that many steps, in PyTorch as well: the numbers of these stay.
STEPS = "polynomial"


class Huge:
    """The T, I and B of a sample, their sizes drawn: equal sizes mostly stay equal."""

    def __init__(self, rng: random.Random, grad: bool) -> None:
        self.rng, self.grad = rng, grad
        self.sizes: dict[int, int] = {}
        self.leaves: list[Any] = []
        self.edges = SIZES if rng.random() < 0.6 else PAIRS
        self.often = rng.choice([0.3, 0.6, 1.0])

    def size(self, given: int) -> int:
        if given not in self.sizes or self.rng.random() < 0.05:
            huge = self.rng.random() < self.often
            self.sizes[given] = self.rng.choice(self.edges) if huge else given
        return self.sizes[given]

    def make(self, sizes: tuple[int, ...], fill: float, dtype: Any) -> Any:
        wanted = [self.size(n) for n in sizes]
        own = [n if n < 2**31 else 1 for n in wanted]
        leaf = weft.full(own, fill, dtype=dtype)
        if self.grad and dtype.is_floating_point:
            self.leaves.append(leaf.requires_grad_())
        return leaf.expand(wanted)

    def T(self, *sizes: int, lo: float = -2, hi: float = 2) -> Any:
        dtype = self.rng.choice([weft.float64, weft.float32, weft.float16])
        return self.make(sizes, (lo + hi) / 2 + 0.25, dtype)

    def I(self, *sizes: int, high: int = 5) -> Any:  # noqa: E743
        return self.make(sizes, high - 1, weft.int64)

    def B(self, *sizes: int) -> Any:
        return self.make(sizes, True, weft.bool)


class _Numbers(ast.NodeTransformer):
    """Integers of a call (`-1`, `2**40`) become `N(number)`, but for the sizes of its tensors."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        made = isinstance(node.func, ast.Name) and node.func.id in "TIB"
        return node if made else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return number_of(node) if type(node.value) is int else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return number_of(node) if isinstance(node.operand, ast.Constant) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return number_of(node) if isinstance(node.op, ast.Pow) else self.generic_visit(node)


def number_of(node: ast.expr) -> ast.AST:
    return ast.Call(ast.Name("N", ast.Load()), [node], [])


@functools.cache
def compiled(sample: str) -> CodeType:
    tree = _Numbers().visit(ast.parse(sample, mode="eval"))
    return compile(ast.fix_missing_locations(tree), "<sample>", "eval")


def within_memory(t: Any) -> str | None:
    """What is wrong with a result's layout."""
    if not isinstance(t, weft.Tensor):
        return None
    shape, stride = t.shape, t.stride()
    if t.numel() != math.prod(shape) or min(shape, default=0) < 0:
        return f"{t.numel()} elements of shape {list(shape)}"
    if t.numel() == 0:
        return None
    first = t.storage_offset()
    last = first + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    held = t.untyped_storage().nbytes() // t.element_size()
    if min(first, last) < 0 or max(first, last) >= held:
        return f"elements {first} to {last} of {held}: shape {list(shape)}, strides {list(stride)}"
    return None


def call(index: int, seed: int, cases: list[tuple[str, str]]) -> str | None:
    """Does the call of this number; what is wrong with it."""
    rng = random.Random(seed * 1_000_003 + index)
    name, sample = cases[rng.randrange(len(cases))]
    inputs = Huge(rng, grad=rng.random() < 0.3)
    rarely = 0 if STEPS in name else rng.choice([0, 0, 0.1, 0.4])

    def number(given: float) -> float:
        return rng.choice(NUMBERS) if rng.random() < rarely and type(given) is int else given

    names = {"f": function(name), "T": inputs.T, "I": inputs.I, "B": inputs.B, "N": number}
    try:
        results = flat(eval(compiled(sample), names | {"weft": weft, "torch": weft}))  # noqa: S307
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    except Exception as error:  # noqa: BLE001
        return f"{error!r}"
    for t in results:
        if wrong := within_memory(t):
            return wrong
    wanted = [t for t in results if getattr(t, "requires_grad", False)]
    if not (inputs.leaves and wanted):
        return None
    try:
        seeds = [weft.ones((), dtype=t.dtype).expand(t.shape) for t in wanted]
        found = weft.autograd.grad(wanted, inputs.leaves, seeds, allow_unused=True)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    except Exception as error:  # noqa: BLE001
        return f"backward: {error!r}"
    return next(filter(None, map(within_memory, found)), None)


@functools.cache
def function(name: str) -> Callable[..., Any]:
    return ours(RECORDS[name])


def described(index: int, seed: int, cases: list[tuple[str, str]]) -> str:
    """The call of this number, for the reader."""
    rng = random.Random(seed * 1_000_003 + index)
    name, sample = cases[rng.randrange(len(cases))]
    return f"--seed {seed} --only {index}: {name}, {sample}"


def wanted_cases(names: list[str] | None) -> list[tuple[str, str]]:
    """Of ops that users call: the others (`_spread`) trust the rules that call them."""
    return [c for c in CASES if c[0][0] != "_" and (not names or c[0] in names)]


def work(seed: int, begin: int, end: int, names: list[str] | None) -> None:
    """In the process of its own: a line before each hundred calls and for each fault."""
    if not sanitized():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    cases = wanted_cases(names)
    for index in range(begin, end):
        sys.stdout.write(f"{index}\n")
        if wrong := call(index, seed, cases):
            sys.stdout.write(f"{index} {wrong}\n")
        sys.stdout.flush()


def sanitized() -> bool:
    """ASAN's shadow is larger than any limit of address space; it has a limit of its own."""
    return "asan" in Path("/proc/self/maps").read_text()


def search(seed: int, calls: int, names: list[str] | None = None, most: int = 10) -> list[str]:
    """Faults of that many calls, at most `most`."""
    cases, faults, begin = wanted_cases(names), [], 0
    limits = f"{os.environ.get('ASAN_OPTIONS', '')}:max_allocation_size_mb={MEMORY >> 20}"
    env = os.environ | {"ASAN_OPTIONS": limits}
    while begin < calls and len(faults) < most:
        command = [sys.executable, __file__, "--seed", str(seed), "--work", str(begin), str(calls)]
        command += ["--names", *names] if names else []
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        last = watch(child, lambda line: faults.append(line))
        error = child.communicate()[1].decode(errors="replace")
        if child.returncode == 0:
            break
        begin = last + 1
        if "out-of-memory" in error and "in operator new" in error:
            continue  # std::bad_alloc, which ASAN does not throw
        how = "does not end" if child.returncode == -9 else f"status {child.returncode}"
        faults.append(f"{last} {how}: {error[-3000:]}")
    return [f"{described(int(f.split()[0]), seed, cases)}: {f.partition(' ')[2]}" for f in faults]


def _speaks(child: subprocess.Popen[bytes], ready: selectors.BaseSelector) -> bool:
    """Whether it says something in time: its own, as others may have the processor; one that
    waits and computes nothing has ten times as long."""
    patience, began = PATIENCE * (8 if sanitized() else 1), _computed(child.pid)
    for _ in range(10):
        if ready.select(patience):
            return True
        if _computed(child.pid) - began > patience:
            return False
    return False


def _computed(pid: int) -> float:
    """Seconds of processor that a process has had."""
    told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def watch(child: subprocess.Popen[bytes], fault: Callable[[str], None]) -> int:
    """Reads what the calls say until they end, or ends them; the last one's number."""
    assert child.stdout is not None
    ready, rest, last = selectors.DefaultSelector(), b"", -1
    ready.register(child.stdout, selectors.EVENT_READ)
    while _speaks(child, ready):
        read = child.stdout.read1(1 << 16)  # type: ignore[attr-defined]
        if not read:
            break
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            last = int(line.split()[0])
            if b" " in line:
                fault(line.decode())
    else:
        child.kill()
    return last


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", nargs="*", help="records, of all")
    parser.add_argument("--only", type=int, help="one call, in this process")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.seed, *args.work, args.names)
        return 0
    if args.only is not None:
        print(described(args.only, args.seed, wanted_cases(args.names)), flush=True)
        wrong = call(args.only, args.seed, wanted_cases(args.names))
        print(wrong or "fine")
        return wrong is not None
    faults = search(args.seed, args.calls, args.names, most=50)
    print(*faults, f"{args.calls} calls, {len(faults)} faults", sep="\n")
    return len(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
