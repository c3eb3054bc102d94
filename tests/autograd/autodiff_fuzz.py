"""Fuzzing of autodiff: a random program observes the same with weft as with PyTorch.

Compared are the values of all variables, their gradients (also how these lie in memory), flags
(`requires_grad`, `is_leaf`, `_version`, the name of `grad_fn`), what hooks and custom Functions
were given and how often they ran, and the type of every statement's exception.

    python tests/autograd/autodiff_fuzz.py --programs 100000 --seed 1

prints the first difference that is not on the list (autodiff_rules.py) with a minimal program,
ready to be pasted; `--all` goes on and prints one program for each cause: what kind of difference
it is, and what the minimal program calls.
"""

import argparse
import math
import mmap
import os
import pickle
import re
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import weft

sys.path.insert(0, str(Path(__file__).parent))

from autodiff_known import known  # noqa: E402
from autodiff_names import names_for  # noqa: E402
from autodiff_programs import draw  # noqa: E402

TOLERANCE = 1e-9  # relative to the largest number of a tensor
COARSE = 1e-4  # where float32 takes part


def strides(x):
    """Those that say where elements lie."""
    if x.numel() == 0:
        return ()
    return tuple(s for s, n in zip(x.stride(), x.shape) if n != 1)


def told(what):
    """The value of a call, or the type of what it raised."""
    try:
        return what()
    except Exception as error:
        return type(error).__name__


def version(x):
    return told(lambda: x._version) if hasattr(x, "requires_grad") else None


def writes(x, born):
    """How often a variable was written since it was named: making it may take writes too."""
    now = version(x)
    return now - born if isinstance(now, int) and isinstance(born, int) else now


def state(x):
    """All that is compared of a variable and of a gradient, as (name, value) pairs."""
    if not hasattr(x, "requires_grad"):
        return [("value", x if isinstance(x, (int, float, str, type(None))) else "an object")]
    return [
        ("dtype", str(x.dtype).split(".")[-1]),
        ("shape", tuple(x.shape)),
        ("requires_grad", told(lambda: x.requires_grad)),
        ("is_leaf", told(lambda: x.is_leaf)),
        ("grad_fn", told(lambda: type(x.grad_fn).__name__)),
        ("value", told(lambda: x.detach().tolist())),
    ]


def state_with_gradient(x, born):
    """The same and the variable's gradient; `born`: its version when it was named."""
    found = state(x)
    if not hasattr(x, "requires_grad"):
        return found
    found.append(("version", writes(x, born)))
    found.append(("retains_grad", told(lambda: x.retains_grad)))
    if x.grad is None:
        found.append(("grad", None))
    else:
        found.append(("grad layout", strides(x.grad)))
        found += [(f"grad {name}", value) for name, value in state(x.grad)]
    return found


@dataclass
class Outcome:
    """What a run left behind: (what, value) pairs in order."""

    seen: list = field(default_factory=list)
    errors: list = field(default_factory=list)


def variables(names):
    return [(name, value) for name, value in names.items() if re.fullmatch(r"v\d+", name)]


def run(statements, lib, leaf=None):
    """The outcome of a program; `leaf`: what makes its leaves instead of the usual function."""
    names, log = names_for(lib)
    names, out, born = dict(names), Outcome(), {}
    names["leaf"] = leaf or names["leaf"]
    log.clear()
    grad = lib.is_grad_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for at, text in enumerate(statements):
            noted = len(log)
            error = None
            try:
                exec(text, names)
            except Exception as e:
                error = e
            out.errors.append(error)
            out.seen.append((f"error of statement {at}", type(error).__name__))
            out.seen += [(f"log {name} of statement {at}", value) for name, value in log[noted:]]
            assert lib.is_grad_enabled() == grad
            born |= {name: version(x) for name, x in variables(names) if name not in born}
        for name, value in variables(names):
            found = state_with_gradient(value, born[name])
            out.seen += [(f"{what} of {name}", each) for what, each in found]
    log.clear()
    return out


def scale(value):
    if isinstance(value, (float, complex)):
        size = abs(value)
        return size if math.isfinite(size) else 0.0
    if isinstance(value, (list, tuple)):
        return max(map(scale, value), default=0.0)
    return 0.0


def close(a, b, limit):
    """Whether two plain values have one structure and numbers no further than `limit` apart."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(close(x, y, limit) for x, y in zip(a, b))
    if isinstance(a, (float, complex)):
        return a == b or abs(a - b) <= limit or (a != a and b != b)
    return a == b


def agree(what, a, b, limit):
    """Whether two values are as good as equal; of exceptions, whether who catches the first one
    catches the second."""
    if what.startswith("error of") and {a, b} <= CATCHES.keys():
        return a in CATCHES[b]
    return close(a, b, limit)


CATCHES = {"RuntimeError": ["RuntimeError"]}
CATCHES["NotImplementedError"] = ["NotImplementedError", "RuntimeError"]
GRAVE = ("order", "log", "error", "value", "grad", "grad value", "shape", "grad shape", "dtype")
# What a backward pass that fails has done before depends on the order of its nodes.
BY_ORDER = ("order", "log", "grad", "version")


def fails_going_back(expected, found, statements):
    """Whether a backward pass raises in both."""
    return any(
        all(out.errors[at] is not None for out in (expected, found) if at < len(out.errors))
        and re.search(r"backward\(|autograd.grad\(", text)
        for at, text in enumerate(statements)
    )


def compare(expected, found, statements):
    """The differences as (kind, text), worst first."""
    out, tolerance = [], tolerance_of(expected)
    by_order = fails_going_back(expected, found, statements)
    for (what, a), (name, b) in zip(expected.seen, found.seen):
        if what != name:
            out.append(("order", f"expected {what}: {a}, got {name}: {b}"))
            break
        if not agree(what, a, b, tolerance * max(1.0, scale(a))):
            kind = re.sub(r" of (statement \d+|v\d+)$", "", what)
            text = f"{what}: expected {a}, got {b}"
            if kind == "error":
                at = int(what.split()[-1])
                kind += f" {a} {b}"
                text += f"\n# {expected.errors[at]}\n# {found.errors[at]}"
                out.append((kind, text))
                break  # the rest follows from it
            elif kind in ("grad_fn", "grad grad_fn"):
                kind += f" {a} {b}"
            out.append((re.sub(r"log h\d+", "log hook", kind), text))
    else:
        if len(expected.seen) != len(found.seen):
            out.append(("order", "one run noted more"))
    if by_order:
        shared = ".grad = " in "\n".join(statements)  # a gradient whose memory is a variable's too
        out = [
            each
            for each in out
            if not each[0].startswith(BY_ORDER) and not (shared and each[0] == "value")
        ]
    return sorted(out, key=lambda d: not d[0].startswith(GRAVE))


def moved(lib, step):
    """A maker of leaves whose numbers are off by the fraction `step`."""
    plain = names_for(lib)[0]["leaf"]

    def leaf(*sizes, grad=True, **how):
        x = plain(*sizes, grad=False, **how)
        x = x * (1 + step)
        return x.requires_grad_() if grad else x

    return leaf


def tolerance_of(expected):
    narrow = any(
        "dtype" in what and value in ("float32", "complex64") or "float32" in str(value)[:200]
        for what, value in expected.seen
    )
    return COARSE if narrow else TOLERANCE


def shaky(expected, statements, lib):
    """What of a program depends on the last bits of its leaves, as (what, ...) of run()."""
    out, tolerance = set(), tolerance_of(expected)
    unit = 2.0**-52 if tolerance == TOLERANCE else 2.0**-22
    for step in (1, -2, 3):
        other = run(statements, lib, moved(lib, step * unit))
        for (what, a), (name, b) in zip(expected.seen, other.seen):
            if what == name and not agree(what, a, b, tolerance * max(1.0, scale(a))):
                out.add(what)
    return out


def differences(statements, libs, settling=False):
    """The differences of a program between two libraries as (kind, text), without listed ones, and
    PyTorch's outcome. `settling`: of one that settled() made."""
    expected = run(statements, libs[0])
    if any("INTERNAL ASSERT" in str(error) for error in expected.errors):
        return [], expected  # PyTorch is broken from there on
    ours = run(statements, libs[1])
    found = unlisted(compare(expected, ours, statements), statements)
    if found and stricter(found[0]):
        # PyTorch refuses to go back, ours does not: what PyTorch computes if it is made to.
        expected = lenient(statements, libs[0])
        found = unlisted(compare(expected, ours, statements), statements)
        if found and stricter(found[0], ours=True):
            found = []  # ours refuses later in the same program: PyTorch did so at once
    if found:
        loose = shaky(expected, statements, libs[0])
        found = [each for each in found if each[1].partition(":")[0] not in loose]
    plain = settled(statements)
    if found and plain != statements and not settling:
        left = {kind for kind, _ in differences(plain, libs, True)[0]}
        found = [each for each in found if each[0] in left or not UNSETTLED.search(each[0])]
    return found, expected


def unlisted(found, statements):
    return [each for each in found if known(each, statements) is None]


def stricter(difference, ours=False):
    """Whether PyTorch (or weft) alone refuses to go back, for what was saved is gone or written."""
    kind, text = difference
    kinds = "error NoneType RuntimeError" if ours else "error RuntimeError NoneType"
    said = text.split("\n# ")[2 if ours else 1 :][:1]
    return kind == kinds and re.search(
        "modified by an inplace operation|backward through the graph a second time", str(said)
    )


def lenient(statements, lib):
    """The outcome of a program in PyTorch where nothing saved is freed, and all is saved as a copy,
    so that nobody overwrites it."""
    kept = [
        re.sub(r"(\.backward\(|autograd\.grad\()(?!.*retain_graph)(.*)\)", retained, text)
        for text in statements
    ]
    with lib.autograd.graph.saved_tensors_hooks(lambda x: x.detach().clone(), lambda x: x):
        return run(kept, lib)


def retained(match):
    return f"{match[1]}{match[2]}{', ' * bool(match[2])}retain_graph=True)"


# What a statement leaves open, and one that does not: a difference of values that is gone with the
# second is no difference of the rest.
SETTLED = [
    # Written behind the graph's back: a gradient is made of what each formula happened to keep.
    (r"\.data\b(?! =)", ".detach().clone()"),
    (r"^ *v\d+\.data = v\d+(\.\w+\(\)|\.data)*$", "None"),
    # It copies nothing on a processor, and PyTorch does not look whether what it kept is written.
    (r"autograd\.graph\.save_on_cpu", "enable_grad"),
    # Which of equal elements is the median, or comes first, is not said.
    (r"\bt\.(median|sort|min|max)\((v\d+), -?\d+\)", r"t.var_mean(\2)"),
    (r"\.quantile\([\d.]+\)", ".mean()"),
    # Whether it is a view depends on how a result lies in memory.
    (r"\.(reshape|flatten)\(", r".clone().\1("),
    (r"\.contiguous\(\)", ".clone()"),
    (r"\.as_strided\(", ".reshape(-1).clone().as_strided("),
]
UNSETTLED = re.compile("value|log|order|grad_fn|version|requires_grad|is_leaf")


def settled(statements):
    out = []
    for text in statements:
        for pattern, plain in SETTLED:
            text = re.sub(pattern, plain, text, flags=re.MULTILINE)
        out.append(text.replace("\n    None", "\n    pass"))
    return out


def check(statements, libs):
    """The differences of a program between two libraries as (kind, text), without listed ones."""
    return differences(statements, libs)[0]


def shows(statements, libs, kind):
    """Whether a program, of which parts may be missing, shows a difference of a kind."""
    found, expected = differences(statements, libs)
    if any(isinstance(error, (NameError, SyntaxError)) for error in expected.errors):
        return False
    return any(each[0] == kind for each in found)


def smaller(statements, at):
    """Smaller programs by changes at a statement; the boldest first."""
    head, text, tail = statements[:at], statements[at], statements[at + 1 :]
    yield head + tail
    if "\n" in text:
        first, *body = text.split("\n")
        yield head + [line.strip() for line in body] + tail
        for skip in range(len(body)):
            if len(body) > 1:
                yield [*head, "\n".join([first, *body[:skip], *body[skip + 1 :]]), *tail]
        return
    name, equals, expression = text.partition(" = ")
    used = list(dict.fromkeys(re.findall(r"\bv\d+\b", expression)))
    if equals and re.fullmatch(r"v\d+", name):
        for other in used:
            yield head + [re.sub(rf"\b{name}\b", other, line) for line in tail]
    for old in used:
        for new in [n for n in used if n != old] + ([] if "leaf" in text else ["v0"]):
            if new != old:
                yield [*head, name + equals + re.sub(rf"\b{old}\b", new, expression), *tail]


def minimal(statements, libs, kind):
    """A smaller program that shows a difference of the same kind."""

    for _ in range(4):
        before, at = list(statements), len(statements) - 1
        while at >= 0:
            if at >= len(statements):
                at = len(statements) - 1
                continue
            fewer = (c for c in smaller(statements, at) if c != statements)
            found = next((c for c in fewer if shows(c, libs, kind)), None)
            if found is not None and len("".join(found)) <= len("".join(statements)):
                statements = found
            else:
                at -= 1
        if statements == before:
            break
    return statements


def calls_of(statements):
    """What a program calls, in one line, without the ways of making leaves and of going back."""
    text = "\n".join(re.sub(r"^v\d+ = leaf\(.*$", "", each) for each in statements)
    return " ".join(sorted(set(re.findall(r"(\w+)\(|\[| [*/@+-]+=? ", text)) - {"loss", ""}))


def causes(differences, libs):
    """Differences (kind -> [(key, program)]) by their cause: (kind, calls) -> [(key, minimal)]."""
    out = {}
    for kind, cases in differences.items():
        for key, statements in cases:
            small = minimal(statements, libs, kind)
            out.setdefault((kind, calls_of(small)), []).append((key, small))
    return out


def script(statements):
    """A program as a Python script."""
    text = "\n    ".join("\n".join(statements).split("\n"))
    return (
        "import sys\n\nsys.path.insert(0, 'tests/autograd')\nimport torch, weft\n"
        "from autodiff_fuzz import check\n\nprogram = [\n    "
        + "\n    ".join(f"{s!r}," for s in statements)
        + "\n]\nprint(check(program, (torch, weft)))\n\n# "
        + text.replace("\n    ", "\n# ")
    )


@dataclass
class Report:
    """How many programs ran, how many statements, and differences as kind -> [(key, program)]."""

    programs: int = 0
    statements: int = 0
    differences: dict = field(default_factory=dict)


def search(seed, programs, torch, size=14, first=True, start=0, note=None):
    """Runs programs, until one shows a difference if `first`; `note` is told the one at work."""
    report = Report()
    for at in range(start, start + programs):
        key = f"{seed}-{at}"
        if note is not None:
            note(at)
        statements = draw(key, torch, size)
        report.programs += 1
        report.statements += len(statements)
        for kind, _ in check(statements, (torch, weft))[:1]:
            report.differences.setdefault(kind, []).append((key, statements))
        if first and report.differences:
            break
    return report


def apart(seed, programs, torch, size, start):
    """`search` in a process of its own, where a crash is a difference too."""
    at = mmap.mmap(-1, 8)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)

        def note(i):
            at[:8] = i.to_bytes(8, "little")

        failed = 1
        try:
            with os.fdopen(writer, "wb") as pipe:
                report = search(seed, programs, torch, size, False, start, note)
                pickle.dump(report, pipe)
            failed = 0
        except BaseException:
            traceback.print_exc()
        os._exit(failed)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError(f"the fuzzer failed at a program from {seed}-{start} on")
    if data:
        return pickle.loads(data)
    last = int.from_bytes(at[:8], "little")
    report = Report(last - start + 1)
    report.differences["crash"] = [(f"{seed}-{last}", [])]
    return report


def merged(reports):
    whole = Report()
    for each in reports:
        whole.programs += each.programs
        whole.statements += each.statements
        for kind, cases in each.differences.items():
            whole.differences.setdefault(kind, []).extend(cases)
    return whole


def main():
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=14, help="statements, at most")
    parser.add_argument("--all", action="store_true", help="go on after a difference")
    args = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    reports, done = [], 0
    while done < args.programs:
        chunk = min(1000, args.programs - done)
        reports.append(apart(args.seed, chunk, torch, args.size, done))
        done += reports[-1].programs  # fewer after a crash
        if reports[-1].differences and not args.all:
            break
    report = merged(reports)
    spent = time.perf_counter() - start
    print(f"{report.programs} programs, {report.statements} statements in {spent:.1f} s")
    if not report.differences:
        print("no difference")
        return 0
    crashes = report.differences.pop("crash", [])
    if crashes:
        print(f"\n{len(crashes)} crashes; {', '.join(key for key, _ in crashes)}")
    found = causes(report.differences, (torch, weft))
    for (kind, calls), cases in sorted(found.items(), key=lambda item: -len(item[1])):
        key, statements = min(cases, key=lambda case: len("".join(case[1])))
        print(f"\n{len(cases)} of {kind!r} by {calls}; {key} made smaller:\n\n{script(statements)}")
        print("\n".join(f"# {text}" for k, text in check(statements, (torch, weft)) if k == kind))
    return 1


if __name__ == "__main__":
    sys.exit(main())
