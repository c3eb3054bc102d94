"""Fuzzing of saved programs: a random function that was saved and loaded does as in Python.

Compared are the result, with all that the function's names hold, the exception with its message,
and the tensors among the arguments afterwards; a loaded program runs three times, the second time
by plan, and so does libweft's host without plans. What is refused when it is saved is counted.

    python tests/export/fuzz_saved.py --programs 5000 --seed 1

prints the first mismatches with minimal functions.
"""

import collections
import io
import re
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "frontend")]

import fuzz_frontend  # noqa: E402
from fuzz_frontend import Mismatch  # noqa: E402
from fuzz_sources import Draw  # noqa: E402

import weft  # noqa: E402
from weft.closing.program import package_of  # noqa: E402
from weft.compiler.errors import Unsupported  # noqa: E402
from weft.export import NotExportable  # noqa: E402

TIMES = 3


# How often kinds of values are in a function, and what is left out with them.
FAMILIES = {"box": 0.4, "pair": 0.3, "deque": 0.25, "Num": 0.12, "Row": 0.3, "Key": 0.2}
FAMILY_WORDS = {
    "box": ("box>", "Box", "Deep"), "pair": ("pair>", "Pair"), "deque": ("deque>",),
    "Num": ("Num(",), "Row": ("Row(",), "Key": ("Key(",),
}  # fmt: skip


class Drawn(Draw):
    """A function over numbers, containers, objects and tensors, and cases of arguments."""

    names = {
        "int": "ijk", "list": ["xs", "ys"], "str": "st", "dict": "d", "deque": "q", "tuple": "e",
        "box": "bc", "pair": "p", "tensor": ["m", "n"], "any": "r",
    }  # fmt: skip
    strays = "int", "list", "str", "pair", "any"
    errors = ("ValueError", "KeyError", "TypeError", "ZeroDivisionError", "IndexError")
    atoms = {
        "int": ("0", "1", "2", "3", "-1", "True"),
        "list": ("[]", "[3, 1]", "[1, 2, 3]", "[0, 2]"),
        "str": ("'a'", "''", "'bc'"),
        "dict": ("{}", "{1: 2}", "{2: 5, 3: 0}"),
        "deque": ("collections.deque()", "collections.deque([1, 2], 3)"),
        "tuple": ("(1, 2)", "()", "(0, 1, 2)"),
        "box": ("Box(1)", "Deep(2)", "Box([1])"),
        "pair": ("Pair(1)", "Pair(2, 1)", "Pair(1, 3)"),
        "tensor": ("torch.ones(3)", "torch.tensor([1.0, -2.0, 3.0])", "torch.arange(4)"),
        "any": ("None", "1.5", "(1, 'a')", "[2]", "Row(1)", "Key(1, 2)", "Num(2)"),
    }  # fmt: skip
    expressions = {
        "int": (
            "(<int> + <int>)", "(<int> - <int>)", "(<int> * <int>) % 97", "(<int> // <int>)",
            "(<int> % <int>)", "-<int>", "len(<list>)", "<list>[<int>]", "(<list> or [1])[-1]",
            "max(<int>, <int>)", "sum(<list>) % 97", "(<int> if <test> else <int>)",
            "(<int> and <int>)", "(<int> or <int>)", "(<set_int> := <int>)", "<call>",
            "(<lambda>)(<int>)", "<dict>.get(<int>, <int>)", "<dict>[<int>]", "len(<str>)",
            "<box>.v", "<box>.twice", "<box>.k", "<box>.inc(<int>)", "<box>.top(<int>)",
            "<pair>.a", "<pair>.total", "len(<deque>)", "<deque>[<int>]", "<tuple>[<int>]",
            "int(<tensor>.sum()) % 97", "<tensor>.numel()", "int(<tensor>[<int>])", "add(<int>)",
            "add(<int>, b=<int>)", "rec(<int> % 5, <old_list>)", "sum(<generator>) % 97",
            "<list>.index(<int>)", "<list>.count(<int>)", "int(<str> or <int>)", "<list>.pop()",
            "<old_dict>.setdefault(<int>, <int>)", "<old_dict>.pop(<int>)", "Row(<int>, <int>).y",
            "{Key(<int>, 1): <int>, Key(<int>, 2): <int>}[Key(<int>, 3)]",
            "(Num(<int>) + <int>).v", "len(Num(<int>))",
        ),
        "test": (
            "(<int> < <int>)", "(<int> <= <int> < <int>)", "(<int> == <int>)", "(<any> is None)",
            "(<int> in <list>)", "(<int> not in <dict>)", "(<str> in <str>)", "not <any>",
            "(<test> and <test>)", "(<test> or <test>)", "(<any> == <any>)", "any([*<generator>])",
            "isinstance(<box>, Deep)", "isinstance(<any>, (int, Pair))", "(<pair> < <pair>)",
            "(<pair> == <pair>)", "(<list> < <list>)", "(<tuple> <= <tuple>)", "<list>", "<deque>",
            "(Num(<int>) < Num(<int>))", "(Num(<int>) == <any>)", "(<pair> in [<pair>])",
            "(type(<box>) is Box)", "bool(<tensor>.sum() > <int>)", "all(<tensor> > <int>)",
        ),
        "list": (
            "[<int>, <int>]", "[<int>, *<list>]", "(<list> + <list>)", "<list>[<int>:<int>]",
            "<list>[::-1]", "sorted(<list>)", "sorted(<list>, key=<lambda>)", "<listcomp>",
            "list(map(<lambda>, <list>))", "(<set_list> := <list>)", "list(<generator>)",
            "sorted(<setcomp>)", "list(<dictcomp>)", "list(<deque>)", "list(<tuple>)", "<box>.rows",
            "(<list> if <test> else <list>)", "[p.a for p in sorted([<pair>, <pair>])]",
            "list(<dict>.values())", "<tensor>.tolist()", "[x.v for x in (<box>, <box>)]",
            "copy.deepcopy(<list>)", "[a + b for a, b in zip(<list>, <list>)]",
        ),
        "str": (
            "(<str> + <str>)", "f'{<old_int>}'", "f'{<old_list>!s}|{<old_int>=}'", "<str>[<int>:]",
            "str(<int>)", "'%s' % <int>", "str(<any>)", "type(<any>).__name__", "<str>.upper()",
            "repr(<pair>)", "'-'.join(<str>)", "<str> * 2", "str(<tuple>)", "type(<box>).__name__",
        ),
        "dict": (
            "{<int>: <int>}", "{**<dict>, <int>: <int>}", "<dictcomp>", "(<set_dict> := <dict>)",
            "dict(zip(<list>, <list>))", "(<dict> | <dict>)", "<dict>.copy()",
        ),
        "deque": (
            "collections.deque(<list>)", "collections.deque(<list>, 2)", "<deque>.copy()",
        ),
        "tuple": (
            "(<int>, <int>)", "(<int>, *<list>)", "tuple(<list>)", "<tuple>[1:]", "<tuple> * 2",
            "(<tuple> + (<int>,))", "<pair>.both()", "tuple(Row(<int>, <int>))",
        ),
        "box": (
            "Box(<int>)", "Deep(<int>)", "(<box> if <test> else <box>)", "<box>.again(<int>)",
            "(<set_box> := <box>)",
        ),
        "pair": (
            "Pair(<int>)", "Pair(<int>, <int>)", "<pair>.swapped()", "replace(<pair>, b=<int>)",
            "max(<pair>, <pair>)", "(<pair> if <test> else <pair>)",
        ),
        "tensor": (
            "(<tensor> + <int>)", "(<tensor> * 2)", "<tensor>[1:]", "<tensor>.clone()", "-<tensor>",
            "<tensor>.flip(0)", "(<tensor> + <tensor>)", "<tensor>.view(-1)", "<tensor>.float()",
            "torch.tensor([1.0 * x for x in <list>])", "<tensor>.relu()", "<tensor>.abs() + 1",
            "torch.where(<tensor> > <int>, <int>, <tensor>)", "<tensor>[<int>:<int>]",
            "torch.cat([<tensor>, <tensor>])[:4]", "<tensor>.unsqueeze(0)[0]", "scaled(<tensor>)",
            "<tensor>.add_(<int>)", "<old_tensor>.mul_(2)",
        ),
        "any": (
            "<int>", "<list>", "<str>", "<pair>", "<test>", "<dict>", "(<any>, <any>)", "<tuple>",
            "<int>", "<list>", "<str>", "<rare>",
        ),
        "rare": (
            "{1: <int>, 2: <int>}[<int>]", "<any>[<any>]", "(<any> + <any>)", "(<any> < <any>)",
            "<list>[<int>]", "-<any>", "len(<any>)", "[x for x in <any>]", "<box>.missing",
        ),
    }  # fmt: skip
    simple = (
        "<set_int> = <int>", "<set_int> = <int>", "<set_list> = <list>", "<set_str> = <str>",
        "<set_any> = <any>", "<set_dict> = <dict>", "<set_tuple> = <tuple>", "<set_box> = <box>",
        "<set_pair> = <pair>", "<set_deque> = <deque>", "<set_tensor> = <tensor>",
        "<set_tensor> = <old_tensor>[1:]", "<set_list> = <old_list>", "<set_box> = <old_box>",
        "<set_int> = <set_int> = <int>", "<set_int>, <set_int> = <int>, <int>",
        "<old_int>, <old_int> = <old_int>, <old_int>", "<set_int>, *<set_list> = <list>",
        "<set_int>, <set_int> = <tuple>", "<old_int> += <int>", "<old_int> -= <int>",
        "<old_list> += <list>", "<old_list> += [<int>]", "<old_str> += <str>",
        "<old_tuple> += (<int>,)", "<old_list>.append(<int>)", "<old_list>.append(<int>)",
        "<old_list>.insert(<int>, <int>)", "<old_list>[<int>] = <int>", "<old_list>[-1] += <int>",
        "<old_list>[:1] = <list>", "del <old_list>[<int>]", "<old_list>.sort()",
        "<old_list>.sort(key=lambda x: -x, reverse=not <test>)", "<old_list>.reverse()",
        "<old_list>.extend([*<generator>])", "<old_dict>[<int> % 4] = <int>",
        "<old_dict>[<int>] = <any>", "del <old_dict>[<int>]", "<old_dict>.update(<dict>)",
        "<old_deque>.append(<int>)", "<old_deque>.appendleft(<int>)", "<old_deque>.rotate(<int>)",
        "<set_int> = <old_deque>.pop()", "<set_int> = <old_deque>.popleft()",
        "<old_deque>.extend(<list>)", "<old_box>.v = <int>", "<old_box>.v += <int>",
        "<old_box>.put(<int>)", "<old_box>.rows = <list>", "<old_box>.rows[0] = <int>",
        "<old_box>.w = <int>", "<old_pair>.a = <int>", "<old_pair>.b += <int>",
        "<old_tensor>[<int>] = <int>", "<old_tensor>[1:] += <int>", "<old_tensor>.add_(<int>)",
        "<old_tensor> += <int>", "<old_tensor>[0] *= 2", "<old_tensor>.copy_(<tensor>)",
        "<old_tensor>[:2].zero_()", "write(<old_tensor>, <int>)", "<call>", "assert <test>",
        "assert <test>, <str>", "log.append((<int>, <any>))", "log.append(<old_list>)",
        "log.append(<old_box>.v)", "heapq.heappush(<old_list>, <int>)",
        "<set_int> = heapq.heappop(<old_list>)", "if <old_list>: <set_int> = <old_list>.pop()",
        "keep(<old_box>, <old_list>)", "<set_any> = <rare>",
    )  # fmt: skip
    raises = (
        "raise <error>", "raise <error>(<int>)", "raise <error>(<str>)", "raise",
        "raise <error>(<str>) from <error>(<int>)",
    )  # fmt: skip
    targets = ("<set_int>", "<set_int>", "<set_any>", "(<set_int>, <set_any>)", "<set_int>")
    pairs = (
        "enumerate(<list>)", "[(1, 2), (3, 4)]", "zip(<list>, <list>)", "list(<dict>.items())",
    )  # fmt: skip
    statements = {"simple": 16, "if": 4, "while": 2, "for": 3, "try": 3, "def": 1, "leave": 2}

    def params(self):
        """Some kinds of values are left out of each: what has few classes is saved fast."""
        left_out = [kind for kind, share in FAMILIES.items() if not self.chance(share)]
        words = [word for kind in left_out for word in FAMILY_WORDS[kind]]

        def kept(templates):
            return tuple(t for t in templates if not any(word in t for word in words))

        self.expressions = {kind: kept(of) for kind, of in self.expressions.items()}
        self.expressions["int"] += ("<dict>.get(<int>, 0)",)
        self.simple, self.atoms = kept(self.simple), {**self.atoms, "any": kept(self.atoms["any"])}
        self.names = {kind: of for kind, of in self.names.items() if kind not in left_out}
        self.known = {kind: [] for kind in self.names}
        self.strays = [kind for kind in self.strays if kind in self.names]
        for kind, name in (("int", "i"), ("list", "xs"), ("tensor", "m")):
            self.known[kind].append(name)
        return ["i", "xs", "m"]

    def case(self):
        one = self.random.choice
        tensors = ("torch.ones(3)", "torch.tensor([2.0, -1.0, 0.5])", "torch.tensor([1, 2])")
        lists = ("[]", "[1]", "[1, 2]", "[3, 1, 2]")
        return f"{one(('0', '1', '2', '3', '-2'))}, {one(lists)}, {one(tensors)}"

    def begin(self):
        self.put("log = []")
        for kind, names in self.names.items():
            for name in names:
                if name not in self.known[kind]:
                    self.put(f"{name} = {self.random.choice(self.atoms[kind])}")
                    self.known[kind].append(name)

    def end(self):
        """All that there is then."""
        parts = ["i, j, k, xs, ys, s, t, d, e, m, n, r, log, xs is ys"]
        told = {"box": "b.v, b.rows, c.v, c.rows, c is b", "pair": "p.a, p.b", "deque": "list(q)"}
        parts += [text for kind, text in told.items() if kind in self.names]
        self.put(f"    return {', '.join(parts)}")

    def caught(self, name):
        return f"log.append((type({name}).__name__, str({name})))" if name else "log.append(0)"

    def draw_closures(self, depth):
        return "[]"

    def loop(self, header, depth):
        """A loop of at most four turns."""
        self.made += 1
        turns = f"w{self.made}"
        self.put(f"{turns} = 0")
        self.put(header)
        self.settle()
        self.loops += 1

        def first():
            self.put(f"{turns} += 1")
            self.put(f"if {turns} > 4: break")

        self.block(self.some(), depth, first)
        self.loops -= 1
        if self.chance(0.3):
            self.put("else:")
            self.block(self.some(), depth)

    def stmt_def(self, depth):
        """An inner function, which does not call itself."""
        self.made += 1
        name, params = f"f{self.made}", self.random.randint(0, 2)
        names = [f"a{self.made}", f"b{self.made}"][:params]
        given = [*names, f"k{self.made}={self.expr('int', 2)}"][: params + self.chance(0.3)]
        self.put(f"def {name}({', '.join(given)}):")
        known = {kind: list(of) for kind, of in self.known.items()}
        loops, self.loops, handlers, self.handlers = self.loops, 0, self.handlers, []
        self.known["int"] += names * 2
        self.level += 1
        self.block(self.some(), depth)
        self.put(f"    return {self.expr('int', 2)}")
        self.level -= 1
        self.known, self.loops, self.handlers = known, loops, handlers
        self.functions = [*self.functions, (name, params)]


# ---- what they call


class Box:
    k = 7

    def __init__(self, v):
        self.v = v
        self.rows = []

    def inc(self, by):
        self.v += by
        return self.v

    def put(self, row):
        self.rows.append(row)

    def top(self, default=0):
        return self.rows[-1] if self.rows else default

    def again(self, v):
        return type(self)(v)

    @property
    def twice(self):
        return self.v * 2


class Deep(Box):
    def __init__(self, v):
        super().__init__(v)
        self.put(v)

    def inc(self, by):
        return super().inc(-by)

    @property
    def twice(self):
        return super().twice + 1


@dataclass(order=True)
class Pair:
    a: int
    b: int = 0

    @property
    def total(self):
        return self.a + self.b

    def swapped(self):
        return Pair(self.b, self.a)

    def both(self):
        return self.a, self.b


@dataclass(frozen=True)
class Key:
    a: int
    b: int = field(compare=False)


class Row(NamedTuple):
    x: int
    y: int = 2


class Num:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Num(self.v + (other.v if isinstance(other, Num) else other))

    def __lt__(self, other):
        return self.v < other.v

    def __eq__(self, other):
        return isinstance(other, Num) and self.v == other.v

    def __len__(self):
        return abs(self.v)

    def __repr__(self):
        return f"Num({self.v})"


def add(a, b=1):
    return a + b


def rec(n, rows):
    if n <= 0:
        return len(rows)
    rows.append(n)
    return rec(n - 2, rows)


def scaled(x, by=2):
    out = x * by
    out[:1] += 1
    return out


def write(x, v):
    x[:1] = v


def keep(box, rows):
    box.rows = rows


HEADER = (
    "import collections\nimport copy\nimport heapq\nfrom dataclasses import replace\n\n"
    "import weft as torch\n"
    "from fuzz_saved import Box, Deep, Key, Num, Pair, Row, add, keep, rec, scaled, write\n\n"
)


# ---- what is compared


def plain(value):
    """A result, comparable."""
    if isinstance(value, weft.Tensor):
        return str(value.dtype), tuple(value.shape), repr(value.tolist())
    if isinstance(value, dict):
        return "dict", [(plain(k), plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(one) for one in value]
    if isinstance(value, collections.deque):  # a record, as a result of a loaded program
        return "deque", plain({"items": list(value), "maxlen": value.maxlen})
    if hasattr(value, "__dict__"):
        return type(value).__name__, plain(vars(value))
    return type(value).__name__, repr(value)


def outcome(function, case):
    """What a call gives or raises, and what the tensor it is given holds afterwards."""
    args = eval(f"[{case}]", {"torch": weft})
    seconds = fuzz_frontend.SECONDS
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    try:
        found = {"result": plain(function(*args))}
    except NameError as error:  # a generator expression reads what is free in it
        found = {"error": ["NameError", re.findall("'.*?'", str(error))[:1]]}
    except RecursionError:  # where it is told is not ours to say
        found = {"error": ["RecursionError"]}
    except Exception as error:
        found = {"error": [type(error).__name__, said(str(error))]}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return {**found, "tensor": plain(args[-1])}


def said(text):
    """What an error says, but for what Python's versions and programs word otherwise: errors of
    ops, methods of texts that got another type, and types that are taken for lists."""
    if text.startswith("["):
        return "of an op"
    text = text.replace("'collections.deque'", "'deque'")
    text = re.sub(r"^\w+\(\) argument( \d)? must be str", "must be str", text)
    return re.sub(r"^'builtin_function_or_method'(?= object is not)", "'type'", text)


def is_beyond(found):
    """Whether an integer of more than 64 bits came about: programs have none."""
    return found.get("error", [""])[0] == "OverflowError"


def ways(function):
    """The saved function: as `jit.load` gives it, and as libweft's host runs it without plans."""
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(function), file)
    file.seek(0)
    yield weft.jit.load(file), TIMES
    made = package_of({"forward": function})
    package = weft._C._Package(made.to_json(), made.tensors)
    package.by_plan = False
    yield lambda *args: package.call("forward", args, {}), 1


class Fuzzer(fuzz_frontend.Fuzzer):
    """Draws functions, saves them and compares."""

    drawn, header, refuses = Drawn, HEADER, (NotExportable, Unsupported)

    def may_refuse(self, reason):
        return True

    def mismatch(self, function, text, cases):
        wanted = {case: outcome(function, case) for case in cases}
        try:
            runs = list(ways(function))
        except self.refuses:
            raise
        except Exception as error:  # nothing else may come of saving
            got = {"saved": [type(error).__name__, str(error)]}
            return Mismatch(text, cases[0], wanted[cases[0]], got)
        for run, times in runs:
            for case in [case for case in cases for _ in range(times)]:
                got = outcome(run, case)
                if wanted[case] != got and not is_beyond(got):
                    return Mismatch(text, case, wanted[case], got)
        return None


def fuzz(count, seed, enough=1):
    """The first mismatches among `count` functions, in minimal form, and what was counted."""
    return fuzz_frontend.fuzz(count, seed, enough=enough, kind=Fuzzer)


if __name__ == "__main__":
    raise SystemExit(fuzz_frontend.main(Fuzzer, __doc__))
