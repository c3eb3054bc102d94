"""Calls every op that packages may call, from a package, with arguments that do not fit it.

    python tests/native/fuzz_package_ops.py PART PARTS [SEED]

Each op's samples are run; then again with some of their arguments exchanged for others; the same in
place. What is called is printed before, so that the last line names what ended the process.
"""

import contextlib
import faulthandler
import json
import random
import resource
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from closing import Closing  # noqa: E402
from op_samples import Inputs  # noqa: E402

import weft  # noqa: E402
from weft import _C  # noqa: E402

MEMORY = 6 << 30  # more than this no call may ask for
SECONDS = 20  # more than this no call may take
ROUNDS = 60
NUMBERS = [0, 1, -1, 2, 3, 7, -3, 70000, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
DTYPES = [weft.bool, weft.uint8, weft.int32, weft.int64, weft.float16, weft.bfloat16,
          weft.float32, weft.float64, weft.complex64]  # fmt: skip
OTHERS = [None, True, 0.5, -1.5, float("nan"), float("inf"), "mean", "", (), [1, 2], [[1]], ...]
# Calls of records that have no samples, or none of the op itself.
MORE = {
    "_times": ["f(T(2, 3), 2.0)"],
    "where.self": ["f(T(2, 3), B(2, 3), T(3))"],
    "_relaid": ["f(T(2, 3), [3, 2])"],
    "to": ["f(T(2, 3), weft.float64)"],
    "_lstm_cell": ["f(T(2, 3), T(2, 4), T(2, 4), T(16, 3), T(16, 4), T(16), T(16))"],
    "_dropout_noise": ["f(T(2, 3), 0.5)", "f(T(2, 3), 0.5, [2, 1])"],
    "view_as_real": ["f(weft.complex(T(2, 3), T(2, 3)))"],
    "imag": ["f(weft.complex(T(2, 3), T(2, 3)))"],
}


# The same for those that have an in-place form alone.
IN_PLACE = ["f(T(2, 3))", "f(T(2, 3), 0.5)", "f(T(2, 3), 0.5, 2.0)", "f(T(2, 3), T(2, 3))"]
tanh = weft.tanh


def called(*args, **words):
    return tanh(*args, **words)


def package_calling(op, version=1):
    """A package whose function calls an op, in JSON."""
    closing = Closing()
    data = json.loads(closing.json({"called": closing.function(called)}))
    constants = data["functions"][0]["constants"]
    constants[constants.index({"op": "tanh"})] = {"op": op}
    data["ops"] = {op: version}
    return data


def program(op):
    """A function of a package that calls an op."""
    made = _C._Package(json.dumps(package_calling(op)), {})
    made.by_plan = False
    return lambda *args, **words: made.call("called", args, words)


def tensors():
    yield from (weft.rand(2, 3), weft.rand(()), weft.rand(0, 3), weft.rand(1), weft.rand(2, 3, 4))
    yield from (weft.rand(4).to(weft.float64), weft.rand(2, 3).to(weft.float16))
    yield from (weft.tensor([5, -7, 2**62]), weft.tensor([True, False]), weft.tensor(-1))
    yield from (weft.rand(1, 2, 3, 4).transpose(1, 3), weft.rand(3, 1).expand(3, 5))
    yield from (weft.tensor([-(2**63), 2**63 - 1]), weft.complex(weft.rand(2), weft.rand(2)))
    yield from (weft.rand(2, 2, 3, 4, 5)[:, 1:], weft.zeros(2, 0, 5), weft.ones(3).to(weft.uint8))


def arguments_of(record):
    """What the record's samples call it with."""
    found = []

    def f(*args, **words):
        found.append((args, words))
        return weft.zeros(())

    samples = [*record["samples"], *MORE.get(record["name"], ())]
    for sample in samples or IN_PLACE:
        with contextlib.suppress(Exception):
            Inputs(weft, "float32", sample).run(f, sample)
    return found


def nearly(draw, value):
    """Something of the same kind: other sizes, another dtype, a number beside."""
    if isinstance(value, weft.Tensor):
        dim = draw.randrange(value.dim()) if value.dim() else 0
        ways = [
            lambda t: t.narrow(dim, 0, t.shape[dim] - 1),
            lambda t: weft.cat([t, t.narrow(dim, 0, min(1, t.shape[dim]))], dim),
            lambda t: t.transpose(dim, 0),
            lambda t: t.unsqueeze(dim),
            lambda t: t.select(dim, 0),
            lambda t: t.narrow(dim, 0, 0),
            lambda t: t.to(draw.choice(DTYPES)),
            lambda t: t.flip(dim)[..., ::2],
            lambda t: t * draw.choice([-1, 1000, 2**40]),
            lambda t: t.reshape(-1)[:1].expand(t.shape),
        ]
        with contextlib.suppress(Exception):
            return draw.choice(ways)(value)
        return value
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        near = [value + 1, value - 1, -value, 2 * value, value * 10**6]
        return draw.choice([*near, value * 1e-12] if isinstance(value, float) else near)
    if isinstance(value, (list, tuple)) and value:
        items, at = list(value), draw.randrange(len(value))
        how = draw.random()
        if how < 0.2:
            del items[at]
        elif how < 0.4:
            items.insert(at, items[at])
        else:
            items[at] = nearly(draw, items[at])
        return items
    return value


def changed(draw, value, pool):
    """Another value in its place: often one like it."""
    kind = draw.random()
    if kind < 0.6:
        return nearly(draw, value)
    if isinstance(value, (list, tuple)) and value and kind < 0.75:
        items = list(value)
        at = draw.randrange(len(items))
        items[at] = changed(draw, items[at], pool)
        return items
    if kind < 0.8:
        return draw.choice(NUMBERS)
    return draw.choice(pool) if kind < 0.93 else draw.choice(OTHERS)


def call(f, args, words):
    """Whether it ended in an error."""
    try:
        f(*args, **words)
    except Exception:
        return True
    return False


def fuzz(record, op, draw, pool):
    """How many calls were made, and how many of them failed."""
    f, calls, failed = program(op), 0, 0
    known = arguments_of(record)
    assert known, f"no call of {record['name']}: MORE has to have one"
    for k in range(ROUNDS + len(known)):
        args, words = known[k % len(known)]
        args, words = list(args), dict(words)
        if k >= len(known):
            for _ in range(draw.choice([1, 1, 2, 3])):
                if not args or draw.random() < 0.1:
                    args.append(changed(draw, None, pool))
                elif words and draw.random() < 0.3:
                    name = draw.choice(list(words))
                    words[name] = changed(draw, words[name], pool)
                else:
                    at = draw.randrange(len(args))
                    args[at] = changed(draw, args[at], pool)
        shown = [tuple(a.shape) if isinstance(a, weft.Tensor) else a for a in args]
        print(f"{op} ({record['name']}) {shown} {words if k >= len(known) else ''}", flush=True)
        signal.alarm(SECONDS)  # which ends the process
        failed += call(f, args, words)
        calls += 1
    return calls, failed


def main(part, parts, seed=0):
    faulthandler.enable()
    if "asan" not in Path("/proc/self/maps").read_text():  # which has a limit of its own
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    weft.manual_seed(seed)
    weft.set_num_threads(1)
    everything = [(r, f"ops.{r['public_name']}") for r in _C._records() if r["in_packages"]]
    everything += [(r, f"Tensor.{r['public_name']}_") for r in _C._records() if r["inplace"]]
    calls = failed = 0
    for record, op in everything[part::parts]:
        draw = random.Random(f"{seed} {op} {record['name']}")
        with weft.no_grad():
            n, m = fuzz(record, op, draw, list(tensors()))
        calls, failed = calls + n, failed + m
    print(calls, failed)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
