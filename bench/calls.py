"""Single calls of every family (`call_table.py`), weft beside PyTorch.

A row is one call on operands of one size, forward, or with its gradients too (`+ backward`). Both
draw the same operands, and what they return has to agree. Processor time counts, so that a busy
machine spoils little. The rows are measured briefly; one below `LEAST` again and longer, and that
is the number that counts.
"""

import argparse
import itertools
import json
import statistics
import time

import harness
from call_table import FAMILIES

LEAST = 0.95  # PyTorch's time over weft's, which no row should be below
BRIEF = (0.002, 0.05)  # seconds of a timed round, and on each of the two in a row
LONG = (0.01, 0.4)
TOLERANCE = {"bfloat16": 3e-2, "float16": 4e-3, "float32": 1e-3, "complex64": 1e-3}
FINE = 1e-6  # of other dtypes


def rows(only=""):
    """(name, given, size, expression, tracked) of each row whose name contains `only`."""
    for family in FAMILIES:
        calls = [(c, False) for c in family.calls] + [(c, True) for c in family.tracked]
        for (call, tracked), size in itertools.product(calls, family.sizes):
            text = "×".join(map(str, size))
            name = f"{family.name} {call}{' + backward' if tracked else ''} [{text}]"
            if only in name:
                yield name, family.given, size, call, tracked


def operands(lib, given, size):
    """The names that an expression may use, the same numbers in both libraries."""
    lib.manual_seed(harness.SEED)
    names = {"torch": lib, "nn": lib.nn, "F": lib.nn.functional, "s": size}
    names |= {"randn": lib.randn, "rand": lib.rand}
    exec(given, names)
    return names


def step_of(lib, given, size, call, tracked):
    """A step without arguments: the call, or the call and its gradients."""
    names = operands(lib, given, size)
    code = compile(call, "<row>", "eval")
    used = [names[n] for n in code.co_names if n in names]
    modules = [m for m in used if isinstance(m, lib.nn.Module)]
    leaves = [t for t in used if isinstance(t, lib.Tensor) and t.is_floating_point()]
    leaves += [p for m in modules for p in m.parameters()]
    for leaf in leaves:
        if leaf.is_leaf:
            leaf.requires_grad_(tracked)
    exec(f"def step(): return {call}", names)
    if not tracked:
        return names["step"]
    forward, grad = names["step"], lib.autograd.grad
    seed = lib.ones_like(forward())

    def step():
        return grad(forward(), leaves, seed, allow_unused=True)

    return step


def arrays(lib, value):
    """The tensors of a result, as NumPy arrays with their dtype's name."""
    if isinstance(value, lib.Tensor):
        kind = str(value.dtype).partition(".")[2]
        narrow = kind in ("bfloat16", "float16")
        value = (value.float() if narrow else value).detach().resolve_conj().resolve_neg()
        return [(kind, value.numpy())]
    if isinstance(value, dict):
        return arrays(lib, list(value.values()))
    if isinstance(value, (list, tuple)) and any(isinstance(v, lib.Tensor) for v in value):
        return [found for part in value for found in arrays(lib, part)]
    return [] if value is None else [(type(value).__name__, value)]


def expect_agreement(name, libs, values):
    import numpy as np

    ours, theirs = (arrays(lib, value) for lib, value in zip(libs, values))
    if [kind for kind, _ in ours] != [kind for kind, _ in theirs]:
        raise ValueError(f"[calls] {name}: expected results of the same dtypes")
    for (kind, a), (_, b) in zip(ours, theirs):
        if isinstance(a, str):
            continue
        a, b = np.asarray(a), np.asarray(b)
        tolerance = TOLERANCE.get(kind, FINE)
        size = np.abs(b[np.isfinite(b)]).max(initial=1) if b.dtype.kind in "fc" else 1
        if a.shape != b.shape or not np.allclose(a, b, tolerance, tolerance * size, equal_nan=True):
            raise ValueError(f"[calls] {name}: expected the results of both to agree")


def measured(row, libs, spent):
    """Medians of both."""
    name, *rest = row
    steps = [step_of(lib, *rest) for lib in libs]
    values = []
    for lib, step in zip(libs, steps):
        lib.manual_seed(harness.SEED)
        values.append(step())
    expect_agreement(name, libs, values)
    del values
    clock = time.process_time
    return [statistics.median(sample) for sample in harness.alternate(steps, *spent, clock)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="rows whose name contains TEXT")
    parser.add_argument("--json", metavar="FILE", help="write names and medians in seconds there")
    args = parser.parse_args()
    harness.pin()
    libs = [*harness.load(["weft", "torch"]).values()]
    if len(libs) < 2:
        return
    found = {}
    for row in rows(args.only):
        ours, theirs = measured(row, libs, BRIEF)
        if theirs < LEAST * ours:
            ours, theirs = measured(row, libs, LONG)
        found[row[0]] = ours, theirs
        print(line(row[0], ours, theirs), flush=True)
    ratios = {name: theirs / ours for name, (ours, theirs) in found.items()}
    below = sorted((r, name) for name, r in ratios.items() if r < LEAST)
    print(f"\n{len(below)} of {len(found)} rows below {LEAST}x")
    for _, name in below:
        print(line(name, *found[name]))
    if found:
        print(f"\nmedian {statistics.median(ratios.values()):.2f}x of {len(found)} rows")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(found, file, indent=1, ensure_ascii=False)


def line(name, ours, theirs):
    cells = harness.shown(ours, "s"), harness.shown(theirs, "s"), f"{theirs / ours:.2f}x"
    return "{:<84} {:>10} {:>10} {:>8}".format(name, *cells)


if __name__ == "__main__":
    main()
