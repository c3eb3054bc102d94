"""Fuzzing of dynamic batching: batched, a random program does what it does one by one.

Compared are results, gradients of shared weights and of every example's inputs, what the program
appended to its list, the exception (type, text, example), and how far the generator was drawn.

    python tests/deferred/fuzz.py --programs 100000 --seed 1

prints the first mismatch with a minimal program, ready to be pasted. `--against torch` runs the
plain loop in PyTorch instead, which shows how far rounding alone may go.
"""

import argparse
import functools
import importlib
import inspect
import itertools
import linecache
import math
import re
import sys
import time
import weakref
from dataclasses import dataclass, field, is_dataclass, replace

from fuzz_names import (  # noqa: F401
    WAYS,
    batched,
    large_at_once,
    names_for,
    one_by_one,
    own_streams,
    own_streams_in_turn,
)
from fuzz_programs import Block, Options, draw, draw_data, source

import weft

SPOILED = "modified by an inplace operation"  # the error of a saved value that was written
TOLERANCE = 1e-12  # relative to the scale of all numbers of a run


_numbers = itertools.count()


class Weights:
    """What the examples share, float64, the same in every library."""

    def __init__(self, lib):
        nn, kind = lib.nn, lib.float64

        def numbers(*shape, at=0.0):
            count = math.prod(shape)
            values = [round(math.sin(1.7 * i + count + at), 9) for i in range(count)]
            return lib.tensor(values, dtype=kind).view(shape).requires_grad_()

        self.a, self.b, self.c, self.e = numbers(4, 4), numbers(3, 4), numbers(4, 3), numbers(10, 4)
        self.b_bias, self.y = numbers(3), numbers(4, at=0.3)
        self.ramp = lib.tensor([0.0, 0.317, 0.641, 0.087], dtype=kind)
        self.steps = lib.tensor([0.0, 0.237, 0.571, 0.109, 0.433], dtype=kind).view(5, 1)
        self.linear, self.gru = nn.Linear(4, 4, dtype=kind), nn.GRUCell(4, 4, dtype=kind)
        self.lstm = nn.LSTMCell(4, 4, dtype=kind)
        self.norm = nn.LayerNorm(4, eps=0.1, dtype=kind)
        self.embed, self.drop = nn.Embedding(10, 4, dtype=kind), nn.Dropout(0.4)
        self.experts = [nn.Linear(4, 4, dtype=kind) for _ in range(4)]
        self.hooked = nn.Linear(4, 4, dtype=kind)
        self.hooked.register_forward_pre_hook(lambda module, given: (given[0] * 0.5,))
        self.hooked.register_forward_hook(lambda module, given, out: out.tanh())
        self.rows = nn.BatchNorm1d(4, dtype=kind).eval()

        class Kept(nn.Module):
            """A module with a buffer."""

            def __init__(self):
                super().__init__()
                self.register_buffer("scale", lib.tensor([0.5, -0.7, 1.1, 0.3], dtype=kind))
                self.shift = nn.Parameter(lib.zeros(4, dtype=kind))

            def forward(self, x):
                return x * self.scale + self.shift

        self.kept = Kept()
        modules = [self.linear, self.gru, self.lstm, self.norm, self.embed, self.hooked]
        modules += [self.rows, self.kept]
        modules += self.experts
        with lib.no_grad():
            for at, p in enumerate(p for module in modules for p in module.parameters()):
                p.copy_(numbers(*p.shape, at=at))
        self.leaves = [self.a, self.b, self.c, self.e, self.b_bias, self.y]
        self.leaves += [p for module in modules for p in module.parameters()]
        self.memo = {}
        self.modules = modules
        self.versions = self.state()

    def state(self):
        """What changes when a leaf is written, gets other memory or is replaced."""
        seen = [(leaf._version, leaf.data_ptr()) for leaf in self.leaves]
        held = [vars(self), *(vars(m) for m in self.modules)]
        held += [part for m in self.modules for part in (m._parameters, m._buffers)]
        return seen, [
            (name, id(v)) for part in held for name, v in part.items() if name != "versions"
        ]


@functools.cache
def _weights(lib):
    return Weights(lib)


def weights_of(lib):
    """The weights, made once, without gradients; anew after a program that left them changed."""
    weights = _weights(lib)
    if weights.versions != weights.state():
        _weights.cache_clear()
        weights = _weights(lib)
    for leaf in weights.leaves:
        leaf.grad = None
    weights.memo.clear()
    return weights


class Example:
    """One example's inputs, from plain numbers."""

    def __init__(self, lib, data):
        data = data | {"x": data["x"] or lib.zeros(0, 4).numpy()}
        self.leaves = [
            lib.tensor(data[name], dtype=lib.float64, requires_grad=True) for name in "xyzs"
        ]
        self.x, self.y, self.z, self.s = self.leaves
        self.tags, self.pick = lib.tensor(data["tags"], dtype=lib.int64), lib.tensor(data["pick"])
        self.i, self.k, self.words, self.tree = (data[n] for n in ("i", "k", "words", "tree"))


@dataclass
class Outcome:
    """What a run left behind, in plain numbers; `broken` are the examples with an error, `began`
    those that ran at all: the first ones."""

    results: list = field(default_factory=list)
    logs: list = field(default_factory=list)
    gradients: list = field(default_factory=list)
    drawn: float | None = None
    written: bool = False
    error: tuple = ()
    broken: set = field(default_factory=set)
    began: int = 0


def numbers(value):
    """A value with its tensors as (shape, dtype, wants gradient, numbers)."""
    if hasattr(value, "requires_grad"):
        kind = str(value.dtype).split(".")[-1]
        return tuple(value.shape), kind, value.requires_grad, value.detach().reshape(-1).tolist()
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([numbers(item) for item in value])
    if is_dataclass(value):
        return type(value).__name__, numbers(vars(value))
    return value


def readable(log):
    """The entries up to the first that depends on a call that failed."""
    out = []
    for value in log:
        try:
            out.append(numbers(value))
        except Exception:
            break
    return out


def tensors(value):
    if hasattr(value, "requires_grad"):
        yield value
    elif is_dataclass(value):
        yield from tensors(vars(value))
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors(item)


def told(error):
    # A call that fails in a batch adds its line.
    return type(error).__name__, str(error).split("\n  in the call at")[0]


def run(program, data, call=None, lib=weft, compiled=False):
    """The outcome of a program over examples, by `call(fn, examples)`, or one by one."""
    weights, examples = weights_of(lib), [Example(lib, d) for d in data]
    lib.manual_seed(7)
    out = Outcome(logs=[[] for _ in data])
    log = dict(zip(map(id, examples), out.logs))
    results = dict.fromkeys(map(id, examples))

    def one(example):
        out.began += 1
        results[id(example)] = result = program(example, weights, log[id(example)])
        return result

    errors = {}
    if call is None:
        weft.autobatch.enabled = False
        for at, example in enumerate(examples):
            try:
                one(example)
            except Exception as error:
                errors[at] = error
        weft.autobatch.enabled = True
        out.broken = set(errors)
        if errors:
            out.error = told(errors[min(errors)])
    else:
        try:
            returned = call(lib.compile(one) if compiled else one, examples)
            results = {id(e): r for e, r in zip(examples, returned)}
        except Exception as error:
            out.error = told(error)
    out.results = list(results.values())
    return out, weights, examples


def finish(out, weights, examples, broken, lib=weft):
    """Reads what the run left for the examples that are not broken, and differentiates."""
    whole = [at for at in range(len(examples)) if at not in broken]
    total = None
    for at in whole:
        for tensor in tensors(out.results[at]):
            if tensor.requires_grad:
                part = (tensor * tensor).sum()
                total = part if total is None else total + part
    if total is not None:
        total.backward()
    leaves = weights.leaves + [leaf for example in examples for leaf in example.leaves]
    out.gradients = [None if leaf.grad is None else leaf.grad.tolist() for leaf in leaves]
    out.results = [numbers(out.results[at]) if at in whole else None for at in range(len(examples))]
    out.logs = [readable(log) if at in broken else numbers(log) for at, log in enumerate(out.logs)]
    out.written = weights.versions != weights.state()
    out.drawn = None if broken else lib.rand(()).item()


def scale(value):
    """The largest finite number in a plain value."""
    if isinstance(value, float):
        return abs(value) if math.isfinite(value) else 0.0
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)) or not value:
        return 0.0
    if type(value[0]) is float and type(value[-1]) is float:
        try:
            largest = max(map(abs, value))
            return largest if math.isfinite(largest) else 0.0
        except TypeError:
            pass
    return max(map(scale, value))


def close(a, b, limit):
    """Whether two plain values have one structure and numbers no further than `limit` apart."""
    if type(a) is not type(b):
        return False
    if a == b:
        return True
    if isinstance(a, float):
        return abs(a - b) <= limit or (a != a and b != b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key], limit) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(close(x, y, limit) for x, y in zip(a, b))
    return False


def compare(expected, found, tolerance, texts=True, strict=False):
    """A description of the first difference of two outcomes, or None."""
    wanted = expected.error if texts else expected.error[:1]
    if (found.error if texts else found.error[:1]) != wanted:
        return f"expected the error {expected.error}, got {found.error}"
    limit = tolerance * max(1.0, scale(expected.results), scale(expected.gradients))
    for at, (a, b) in enumerate(zip(expected.results, found.results)):
        if not close(a, b, limit):
            return f"example {at}: expected the result {a}, got {b}"
    for at, (a, b) in enumerate(zip(expected.logs, found.logs)):
        if at in expected.broken:  # it may go on until its values are known, or fail in `finally`
            a, b = a[: len(b)], b[: len(a)]
        if not close(a, b, limit):
            return f"example {at}: expected the log {a}, got {b}"
    for at, (a, b) in enumerate(zip(expected.gradients, found.gradients)):
        if expected.broken and "nan" in str(b):  # an example that is left out, in one product
            continue
        # Unused by the results, an input of a batched call has zeros for the plain loop's None.
        if not close(a, b, limit) and (a is not None or strict or scale(b) > 0):
            return f"leaf {at}: expected the gradient {a}, got {b}"
    if found.written:
        return "the shared weights were written to"
    if expected.drawn != found.drawn:
        return f"expected the next random number {expected.drawn}, got {found.drawn}"
    return None


class Invalid(Exception):
    """The plain loop cannot differentiate the program."""


def raises_with_zeros(program, data, call, broken, lib, compiled):
    """Whether backward raises if zeros count: to a batch they are no gradient, to a loop one."""
    before = weft._C._set_zeros_matter(True)
    try:
        finish(*run(program, data, call, lib, compiled), broken, lib=lib)
    except RuntimeError as error:
        return SPOILED in str(error)
    finally:
        weft._C._set_zeros_matter(before)
    return False


def saves_infinity(program, data, lib):
    """Whether the loop saves a value that is not finite: if no result depends on it, it spoils
    gradients in a batch alone (docs/batching.md, Gradients)."""
    found = []

    def pack(t):
        found.append(not bool(lib.isfinite(t.detach()).all()))
        return t

    with lib.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        run(program, data, lib=lib)
    return any(found)


def check(
    program,
    data,
    call=batched,
    libs=(weft, weft),
    tolerance=TOLERANCE,
    strict=False,
    compiled=False,
):
    """What batching changed about a program over examples (plain numbers), or None.

    `program` is a function, or blocks of one's source. With `strict`, no gradient is not one of
    zeros; with `compiled` it is compiled where it runs in batches. Raises Invalid if the plain
    loop's results cannot be differentiated.
    """
    programs = {lib: program if callable(program) else built(program, lib) for lib in set(libs)}
    if any(map(inspect.isgeneratorfunction, programs.values())):  # what is left of a smaller one
        raise Invalid("a generator")
    # With streams of its own an example draws other numbers than the plain loop.
    oracle = own_streams_in_turn if call is own_streams else None
    expected, *rest = run(programs[libs[0]], data, oracle, lib=libs[0])
    spoiled = False
    if oracle and expected.error:
        return check(program, data, batched, libs, tolerance, strict, compiled)
    try:
        finish(expected, *rest, expected.broken, lib=libs[0])
    except Exception as error:
        spoiled = SPOILED in str(error)
        if not spoiled:
            raise Invalid(str(error)) from error
    if expected.written:
        raise Invalid("the shared weights are written to")
    found, *rest = run(programs[libs[1]], data, call, libs[1], compiled)
    if found.began < len(data):  # the first that failed stopped those that had not begun
        if not expected.error or found.began <= min(expected.broken):
            return f"expected {len(data)} examples to run, got {found.began}"
        return check(program, data[: found.began], call, libs, tolerance, strict, compiled)
    try:
        finish(found, *rest, expected.broken, lib=libs[1])
    except Exception as error:
        return None if spoiled and SPOILED in str(error) else f"afterwards: {error!r}"
    if spoiled and not raises_with_zeros(
        programs[libs[1]], data, call, expected.broken, libs[1], compiled
    ):
        return "expected an error in backward, of a saved value that was written"
    if spoiled:
        return None
    told = compare(expected, found, tolerance, libs[0] is libs[1], strict)
    dead = told and "gradient" in told and "nan" in told.rpartition("got")[2]
    return None if dead and saves_infinity(programs[libs[0]], data, libs[0]) else told


def built(blocks, lib=weft):
    """The function of a program's blocks, whose source is there as long as it."""
    text = source(blocks)
    name = f"<program {hash(text):x} {next(_numbers)}>"
    names = dict(names_for(lib))
    exec(compile(text, name, "exec"), names)
    program = names.pop("program")  # which goes when its last user does
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    weakref.finalize(program, linecache.cache.pop, name, None)
    return program


def wrong(blocks, data, **options):
    """Whether the program still shows a mismatch."""
    try:
        return check(blocks, data, **options) is not None
    except (Invalid, SyntaxError):
        return False


def renamed(blocks, old, new):
    """The blocks with one variable in place of another."""
    pattern = rf"(?<![\w.]){re.escape(old)}\b"
    return [Block(re.sub(pattern, new, b.line), renamed(b.body, old, new)) for b in blocks]


def smaller(blocks, at):
    """Smaller lists of blocks than one, by changes at a place; the boldest first."""
    head, block, tail = blocks[:at], blocks[at], blocks[at + 1 :]
    yield head + tail
    if tail and tail[0].line.startswith(("else", "except", "finally")):
        yield head + tail[1:]
        yield head + block.body + tail[1:]
        yield head + tail[0].body + tail[1:]
    elif block.body:
        yield head + block.body + tail
    name, equals, text = block.line.partition(" = ")
    if equals and not block.body:
        for operand in dict.fromkeys(re.findall(r"\bv\d+\b|\be\.[xyzs]\b|\bw\.a\b", text)):
            yield head + renamed(tail, name, operand)
    if block.line.startswith("return"):
        for name in dict.fromkeys(re.findall(r"\bv\d+\b", block.line)):
            if block.line != f"return {name}":
                yield [*head, Block(f"return {name}"), *tail]


def shrunk(blocks, fails):
    """The smallest list of blocks found for which `fails` still holds."""
    at = 0
    while at < len(blocks):
        found = next((b for b in smaller(blocks, at) if fails(b)), None)
        if found is not None:
            blocks = found
            continue
        block, head, tail = blocks[at], blocks[:at], blocks[at + 1 :]
        if block.body:
            body = shrunk(
                block.body,
                lambda b: fails([*head, Block(block.line, b), *tail]),  # noqa: B023
            )
            blocks = [*head, Block(block.line, body), *tail]
        at += 1
    return blocks


def minimal(blocks, data, **options):
    """A smaller program and fewer examples that still show a mismatch."""
    for _ in range(3):
        before = source(blocks), len(data)
        for at in reversed(range(len(data))):
            fewer = data[:at] + data[at + 1 :]
            if fewer and wrong(blocks, fewer, **options):
                data = fewer
        body = shrunk(blocks[0].body, lambda b: wrong([Block(blocks[0].line, b)], data, **options))
        blocks = [Block(blocks[0].line, body)]
        if (source(blocks), len(data)) == before:
            break
    return blocks, data


def script(blocks, data, call=batched, compiled=False):
    """A program and its examples as a Python script."""
    rows = ",\n    ".join(map(repr, data))
    return (
        "import sys\n\nsys.path.insert(0, 'tests/deferred')\nimport weft\n"
        f"from fuzz import check\nfrom fuzz_names import {call.__name__}, names_for\n\n"
        "globals().update(names_for(weft))\n\n\n"
        f"{source(blocks)}\n\n\ndata = [\n    {rows},\n]\n"
        f"print(check(program, data, {call.__name__}, compiled={compiled}))"
    )


@dataclass
class Report:
    """How many programs ran; the first mismatch as (seed, difference, blocks, data, call)."""

    programs: int = 0
    invalid: int = 0
    mismatch: tuple | None = None


def search(seed, programs, options=Options(), **how):  # noqa: B008
    """Runs programs until one shows a mismatch."""
    report = Report()
    for at in range(programs):
        key = f"{seed}-{at}"
        way = {"call": WAYS[at % len(WAYS)]} | how
        # A backward pass of an example over values does not wait for errors found late.
        early = way["call"] is large_at_once
        blocks = draw(key, replace(options, late=False) if early else options)
        # An error found late lets an example draw more, and `finally` replace it. A mean of no rows
        # is NaN, which spoils gradients of what examples share even where it is not used.
        eager = early or re.search(r"rand|drop|bernoulli|finally|/ len|IndexError", source(blocks))
        # Compiled, what comes to a place for the third time runs by plan.
        parts = [key, *(f"{key}{more}" for more in "ab")] if way.get("compiled") else [key]
        data = [d for part in parts for d in draw_data(part, empty=0 if eager else 0.05)]
        report.programs += 1
        try:
            difference = check(blocks, data, **way)
        except Invalid:
            report.invalid += 1
            continue
        if difference is not None:
            report.mismatch = key, difference, blocks, data, way["call"]
            break
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=12, help="statements, about")
    parser.add_argument("--without", nargs="*", default=[], metavar="KIND",
                        choices=["random", "inplace", "errors", "late", "planted"])  # fmt: skip
    parser.add_argument("--against", choices=["torch"], help="PyTorch's plain loop as the oracle")
    parser.add_argument("--compiled", action="store_true", help="what runs in batches is compiled")
    parser.add_argument("--strict", action="store_true", help="no gradient is not one of zeros")
    args = parser.parse_args()
    options = Options(size=args.size, **dict.fromkeys(args.without, False))
    how = {"strict": args.strict, "compiled": args.compiled}
    if args.against:
        how |= {"libs": (importlib.import_module(args.against), weft), "tolerance": 1e-11}
    start = time.perf_counter()
    report = search(args.seed, args.programs, options, **how)
    spent = time.perf_counter() - start
    rate = report.programs / spent
    print(f"{report.programs} programs in {spent:.1f} s ({rate:.0f} per second), "
          f"{report.invalid} rejected")  # fmt: skip
    if report.mismatch is None:
        print("no mismatch")
        return 0
    key, difference, blocks, data, how["call"] = report.mismatch
    print(f"mismatch in program {key}: {difference}\nmade smaller:\n")
    blocks, data = minimal(blocks, data, **how)
    print(script(blocks, data, how["call"], args.compiled))
    print(f"\n# {check(blocks, data, **how)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
