"""Random wrong calls beside PyTorch: right_calls.txt, mutated.

A line of right_calls.txt is a call that both libraries take, over `t` (the library), `nn`, `F`,
`np` and tensors T (float32), D (float64), H (float16), C (complex64), I (int64), U (uint8),
B (bool) and G (float32, in a graph) of the given sizes. A mutation puts something else in the place
of an argument, of an element of a list or of a tensor's size, leaves an argument out, adds one, or
gives it another name. The law of a mutated call:

- where PyTorch raises, weft raises an error of that type, and one with words of its own: not what
  Python says of a None that has no attributes;
- bad input changes nothing: after an error the tensors of the call are as before;
- what PyTorch takes weft takes, with equal results.

KEPT lists the differences that stay, each with the reason.

    python tests/fuzz_calls.py [--calls N] [--seed S] [--only TEXT] [--show K]
"""

from __future__ import annotations

import argparse
import ast
import collections
import faulthandler
import random
import re
import resource
import signal
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fuzz_calls_kept import kept

import weft

CALLS = Path(__file__).with_name("right_calls.txt").read_text().splitlines()
DTYPES = {"T": "float32", "D": "float64", "H": "float16", "C": "complex64", "I": "int64",
          "U": "uint8", "B": "bool", "G": "float32"}  # fmt: skip
TENSORS = """T() T(0) T(1) T(3) T(2, 3) T(3, 2) T(2, 3, 4) T(0, 3) D(2, 3) H(3) C(2, 3)
I() I(1) I(3) I(2, 3) U(3) B(3) B(2, 3) G(3)"""
VALUES = [
    *re.findall(r"\w\([\d, ]*\)", TENSORS),
    "None", "None", "'a'", "'sum'", "''", "b'x'", "[]", "()", "{}", "{'a': 1}", "object()", "True",
    "False", "0", "1", "2", "7", "-1", "-2", "-100", "100",
    str(2**62), str(2**63), str(2**70), str(-(2**70)),
    "0.5", "1.5", "-1.0", "2.0", "float('nan')", "float('inf')", "1j", "slice(0, 1)", "...",
    "np.float64(1.5)", "np.int64(2)", "np.float32(0.5)", "np.bool_(True)", "np.ones(3)",
    "np.arange(2)", "t.float32", "t.int64", "[1, 2]", "(2, -1)", "(0, 1)", "[1.5]", "[None]",
    "(1, 'a')", "[T(3), 1]", "[T(2, 3), T(2, 3)]", "range(2)", "len",
]  # fmt: skip
SIZES = [0, 1, 2, 3, 5]
NAMES = ["input", "self", "other", "dim", "axis", "size", "out", "dtype", "keepdim", "p", "bogus"]


# ---- mutations


def is_given(node: ast.AST) -> bool:
    """Whether it is what a call is given, an array or a number of NumPy."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("np.")


def is_tensor(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DTYPES


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def places(node: ast.AST) -> Iterator[tuple[Any, Any, bool]]:
    """(holder, key, whether a tensor must stand there) of all that may be replaced below `node`."""
    if is_given(node):
        return
    if isinstance(node, ast.Call) and not is_tensor(node):
        for k in range(len(node.args)):
            yield node.args, k, False
        for word in node.keywords:
            yield word, "value", False
        if isinstance(node.func, ast.Attribute) and is_tensor(node.func.value):
            yield node.func, "value", True
    elif isinstance(node, (ast.List, ast.Tuple)):
        for k in range(len(node.elts)):
            yield node.elts, k, False
    elif isinstance(node, ast.BinOp):
        yield node, "left", True
        yield node, "right", False
    elif isinstance(node, ast.Subscript):
        yield node, "slice", False
    if not is_tensor(node):
        for child in ast.iter_child_nodes(node):
            yield from places(child)


def nodes(root: ast.expr, want: type) -> list[Any]:
    return [n for n in ast.walk(root) if isinstance(n, want)]


def mutate(root: ast.expr, rng: random.Random) -> None:
    """One change, in place."""
    calls = [c for c in nodes(root, ast.Call) if not is_tensor(c) and not is_given(c)]
    tensors = [c for c in nodes(root, ast.Call) if is_tensor(c)]
    kind = rng.random()
    if kind < 0.12 and tensors:  # another shape
        sizes = rng.choice(tensors).args
        change = rng.randrange(3)
        if change == 0 and sizes:
            sizes[rng.randrange(len(sizes))] = ast.Constant(rng.choice(SIZES))
        elif change == 1 and sizes:
            del sizes[rng.randrange(len(sizes))]
        else:
            sizes.insert(rng.randint(0, len(sizes)), ast.Constant(rng.choice(SIZES)))
    elif kind < 0.18 and tensors:  # another dtype
        rng.choice(tensors).func = ast.Name(rng.choice("TDHCIUBG"), ast.Load())
    elif kind < 0.36 and calls:
        call = rng.choice(calls)
        change = rng.randrange(5)
        if change == 0 and call.args:
            del call.args[rng.randrange(len(call.args))]
        elif change == 1 and call.keywords:
            del call.keywords[rng.randrange(len(call.keywords))]
        elif change == 2:
            call.args.append(parsed(rng.choice(VALUES)))
        elif change == 3 and call.keywords:
            rng.choice(call.keywords).arg = rng.choice(NAMES)
        elif change == 4 or not call.args:
            call.keywords.append(ast.keyword(rng.choice(NAMES), parsed(rng.choice(VALUES))))
        else:
            value = call.args.pop()
            call.keywords.append(ast.keyword(rng.choice(NAMES), value))
    else:
        found = list(places(root))
        if found:
            holder, key, tensor = rng.choice(found)
            value = parsed(rng.choice(VALUES[:19] if tensor else VALUES))
            if isinstance(holder, list):
                holder[key] = value
            else:
                setattr(holder, key, value)


def wrong_call(rng: random.Random, calls: list[str]) -> str:
    root = parsed(rng.choice(calls))
    mutate(root, rng)  # one: of two faults either may be told
    return ast.unparse(root)


# ---- a call in one library


class Outcome(NamedTuple):
    error: BaseException | None
    result: Any
    changed: str  #: what an error left otherwise than before


def state(x: Any) -> tuple[Any, ...]:
    version = x._version if x.is_leaf or not x.is_inference() else 0
    return tuple(x.shape), str(x.dtype), version, x.requires_grad, plain(x).tobytes()


def plain(x: Any) -> Any:
    """The values as an array."""
    x = x.detach()
    if str(x.dtype) == "torch.bfloat16":
        x = x.float()
    if x.is_complex() and hasattr(x, "resolve_conj"):
        x = x.resolve_conj()
    return np.asarray(x.resolve_neg().numpy() if hasattr(x, "resolve_neg") else x.numpy())


# PyTorch counts to the degree, where no signal stops it.
ENDLESS = re.compile(r"(legendre|laguerre|hermite)_polynomial_\w+\(.*\d{19}")


class TooLong(Exception):
    """A call that does not end: a loop over as many things as a huge int says."""


def _stop(*args: Any) -> None:
    raise TooLong


def run(t: Any, text: str) -> Outcome:
    """The call in `t`; every tensor that the text names has the same values in every library."""
    made: list[Any] = []

    def maker(kind: str) -> Any:
        def make(*sizes: int) -> Any:
            rng = np.random.default_rng(zlib.crc32(f"{kind}{sizes}{len(made)}".encode()))
            values = rng.uniform(-2, 2, sizes) if kind in "TDHCG" else rng.integers(0, 5, sizes)
            if kind == "C":
                values = values + 1j * rng.uniform(-2, 2, sizes)
            x = t.from_numpy(np.asarray(values).astype(np.dtype(DTYPES[kind])))
            made.append(x.requires_grad_() if kind == "G" else x)
            return x

        return make

    names = {"t": t, "nn": t.nn, "F": t.nn.functional, "np": np}
    names.update({kind: maker(kind) for kind in DTYPES})
    before: list[Any] = []

    def remembered(kind: str) -> Any:
        make = names[kind]

        def both(*sizes: int) -> Any:
            x = make(*sizes)
            before.append(state(x))
            return x

        return both

    names.update({kind: remembered(kind) for kind in DTYPES})
    t.manual_seed(7)
    signal.signal(signal.SIGALRM, _stop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            signal.alarm(10)
            return Outcome(None, eval(text, names), "")  # noqa: S307
        except Exception as error:  # noqa: BLE001
            for x, was in zip(made, before, strict=False):  # one may have failed
                if t is weft and state(x) != was:  # PyTorch's may be no tensors any more
                    return Outcome(error, None, f"{was[:4]} is now {state(x)[:4]}")
            return Outcome(error, None, "")
        finally:
            signal.alarm(0)


# ---- comparison


# What Python says of a value that nothing was expected of.
BARE = re.compile(
    r"object has no attribute|unsupported operand|not supported between|object is not (iterable|"
    r"subscriptable|callable)|has no len\(\)|object cannot be interpreted|must be real number|"
    r"cannot unpack|not enough values|too many values|bad operand|out of range$|is not defined|"
    r"local variable|^$|positional indexers|could not be converted"
)
# Types that PyTorch raises only by mistake: its own Python code tripped over the argument.
SLIPS = (AttributeError, AssertionError, UnboundLocalError, KeyError, NameError, SystemError)
PACKAGE = str(Path(weft.__file__).parent)


def is_bare(error: BaseException) -> bool:
    """Whether Python's words come out of the library, not out of the text of the call."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    inside = trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE)
    named = str(error).startswith("[")  # it may quote Python's behind words of its own
    return inside and not named and bool(BARE.search(str(error)))


def values_differ(a: Any, b: Any) -> str:
    """In what the result `a` of weft's differs from PyTorch's `b`, or ''."""
    if hasattr(b, "dtype") and hasattr(b, "detach"):
        if not hasattr(a, "detach"):
            return f"a {type(a).__name__} for a tensor"
        if tuple(a.shape) != tuple(b.shape):
            return f"shape {tuple(a.shape)} for {tuple(b.shape)}"
        if str(a.dtype) != str(b.dtype):
            return f"{a.dtype} for {b.dtype}"
        if a.requires_grad != b.requires_grad:
            return f"requires_grad {a.requires_grad}"
        x, y = plain(a), plain(b)
        limit = 3e-2 if b.dtype.itemsize == 2 else 2e-4
        with np.errstate(all="ignore"):
            close = x.shape == y.shape and np.allclose(x, y, limit, limit, equal_nan=True)
        return "" if close else "values"
    if isinstance(b, (list, tuple)):
        if not isinstance(a, (list, tuple)) or len(a) != len(b):
            return f"a {type(a).__name__} for a {type(b).__name__}"
        return next((d for d in map(values_differ, a, b) if d), "")
    if isinstance(b, (bool, int, str)) or b is None:
        return "" if a == b and type(a) is type(b) else f"{str(a)[:30]} for {str(b)[:30]}"
    if isinstance(b, (float, complex)):
        return "" if np.isclose(a, b, 1e-4, 1e-4, equal_nan=True) else f"{a} for {b}"
    return ""


def difference(text: str, ours: Outcome, theirs: Outcome) -> str:
    """In what the law fails, or ''."""
    mine, peer = ours.error, theirs.error
    if ours.changed:
        return f"changed: {ours.changed}"
    if mine is None and peer is None:
        return values_differ(ours.result, theirs.result)
    if mine is None:
        return f"accepted for {type(peer).__name__}"
    if peer is None:
        return f"{type(mine).__name__} for a result"
    names = {type(error).__name__.lstrip("_") for error in (mine, peer)}
    if not isinstance(mine, type(peer)) and len(names) > 1:
        slip = isinstance(peer, SLIPS) or is_slip_of_pytorch(str(peer))
        if not slip or isinstance(mine, SLIPS):
            return f"{type(mine).__name__} for {type(peer).__name__}"
    return "bare words" if is_bare(mine) else ""


def is_slip_of_pytorch(words: str) -> bool:
    """Whether PyTorch's error is Python's word about what its own code did with the argument."""
    return bool(BARE.search(words) or "ufunc" in words or "concatenate" in words)


class Difference(NamedTuple):
    call: str
    what: str
    ours: str
    theirs: str


def compare(torch: Any, text: str) -> Difference | None:
    theirs = run(torch, text)
    if isinstance(theirs.error, TooLong):
        return None
    ours = run(weft, text)
    try:
        what = difference(text, ours, theirs)
    except Exception as error:  # noqa: BLE001
        what = f"cannot compare: {error!r}"
    if not what or kept(text, what, str(ours.error or ""), str(theirs.error or "")):
        return None

    def told(o: Outcome) -> str:
        try:
            words = repr(o.error) if o.error is not None else str(o.result)
        except Exception as error:  # noqa: BLE001
            words = f"a {type(o.result).__name__} whose words fail: {error!r}"
        return re.sub(r"\s+", " ", words)[:300]

    return Difference(text, what, told(ours), told(theirs))


def differences(
    torch: Any, calls: int, seed: int, only: str = "", last: Path | None = None
) -> Iterator[Difference]:
    """The unlisted differences among so many random calls."""
    rng = random.Random(seed)
    lines = [line for line in CALLS if only in line]
    for _ in range(calls):
        text = wrong_call(rng, lines)
        if ENDLESS.search(text):
            continue
        if last:
            last.write_text(text)
        found = compare(torch, text)
        if found:
            yield found


def callee(text: str) -> str:
    return re.sub(r"^\w\([\d, ]*\)\.", ".", text).split("(")[0][:50]


def main() -> int:
    import torch

    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--calls", type=int, default=20000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="", help="only lines that hold this text")
    options.add_argument("--show", type=int, default=1, help="examples of each kind")
    options.add_argument("--last", type=Path, help="a file that names the call under way")
    given = options.parse_args()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # huge sizes fail at once
    torch.set_num_threads(1)
    groups: dict[Any, list[Difference]] = collections.defaultdict(list)
    total = 0
    for d in differences(torch, given.calls, given.seed, given.only, given.last):
        groups[callee(d.call), d.what[:40]].append(d)
        total += 1
    for (name, what), found in sorted(groups.items(), key=lambda g: -len(g[1])):
        print(f"{len(found):4} {name}: {what}")
        for d in found[: given.show]:
            print(f"       {d.call}\n         weft:  {d.ours}\n         torch: {d.theirs}")
    print(f"{total} unlisted differences in {given.calls} calls, seed {given.seed}")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
