"""A package that is cut, wrong or made to do harm is a ValueError, or does what it says."""

import contextlib
import copy
import json
import random
import signal

import package_programs as programs
import pytest
from closing import Closing

import weft


def made(*functions):
    closing = Closing()
    entries = {f.__name__: closing.function(f) for f in functions}
    return json.loads(closing.json(entries)), closing.tensors


GOOD, TENSORS = made(programs.tree, programs.learned, programs.tries, programs.calls)
TEXT = GOOD["functions"][0]["text"]


def load(data):
    text = data if isinstance(data, str) else json.dumps(data)
    return weft._C._Package(text, TENSORS)


def of_function(**fields):
    def change(data):
        data["functions"][0].update(fields)

    return change


def of_text(old, new):
    assert old in TEXT
    return of_function(text=TEXT.replace(old, new, 1))


def constant(c):
    def change(data):
        data["functions"][0]["constants"][0] = c

    return change


def section(name, value):
    return lambda data: data.update({name: value})


def nested(depth):
    out = 1
    for _ in range(depth):
        out = {"tuple": [out]}
    return out


CHANGES = {
    "no version": lambda d: d.pop("weft"),
    "a newer version": section("weft", 2),
    "a version in words": section("weft", "1"),
    "an unknown section": section("more", 1),
    "no functions": lambda d: d.pop("functions"),
    "functions that are none": section("functions", 3),
    "a function that is none": section("functions", [3]),
    "an entry of no function": section("entries", {"f": 99}),
    "a size of texts": constant({"size": ["a"]}),
    "an entry below zero": section("entries", {"f": -1}),
    "no entries": section("entries", {}),
    "an op of a newer weft": section("ops", {"tanh": 2}),
    "an op of version 0": section("ops", {"tanh": 0}),
    "an unknown op": section("ops", {"nothing": 1}),
    "a tensor that is not there": section("tensors", ["nothing"]),
    "objects that are none": section("objects", [1]),
    "an object without a class": section("objects", [{"fields": {}}]),
    "a text that is none": of_function(text="nothing"),
    "an empty text": of_function(text=""),
    "a cut text": of_function(text=TEXT[: len(TEXT) // 2]),
    "a verb of Python's": of_text("return", "global attr=0\n return"),
    "an unknown verb": of_text("return", "returns"),
    "a flat verb": of_text("return", "unwind"),
    "a register that is not there": of_text("w%1", "w%9"),
    "a constant that is not there": of_text("#", "#9"),
    "less constants": of_function(constants=[]),
    "more constants": of_function(constants=[1] * 99),
    "names that are none": of_function(names=[3] * 9),
    "parameters of other names": of_function(params=["a", "b"]),
    "less parameters": of_function(params=["t"]),
    "stars before": of_function(params=["*t", "w"]),
    "too many keyword-only": of_function(keyword_only=3),
    "keyword-only below zero": of_function(keyword_only=-1),
    "a default of nothing": of_function(defaults={"z": 1}),
    "lines out of order": of_function(lines=[[4, 1], [2, 1]]),
    "lines that are none": of_function(lines=[[1]]),
    "lines below zero": of_function(lines=[[-1, 2]]),
    "a constant of a list": constant([1]),
    "a constant of a float": constant(1.5),
    "a constant of two kinds": constant({"int": 1, "list": []}),
    "an unknown kind": constant({"code": "x"}),
    "a constant too deep": constant(nested(200)),
    "a constant function": constant({"function": 77}),
    "a constant object": constant({"object": 0}),
    "an unknown tensor": constant({"tensor": "x"}),
    "an unknown type": constant({"type": "Popen"}),
    "an unknown builtin": constant({"builtin": "eval"}),
    "an unknown mode": constant({"mode": "x"}),
    "an unknown dtype": constant({"dtype": "float31"}),
    "a float in words": constant({"float": "one"}),
    "a slice of two": constant({"slice": [1, 2]}),
    "a range of step 0": constant({"range": [1, 2, 0]}),
    "a record without fields": constant({"record": {"class": "A"}}),
    "an int of 65 bits": constant(2**64),
    "a dict of singles": constant({"dict": [[1]]}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_wrong_is_refused(name):
    data = copy.deepcopy(GOOD)
    CHANGES[name](data)
    with pytest.raises(ValueError, match=r"\[(package|json|program)") as caught:
        load(data)
    assert "expected" in str(caught.value)


def test_cut_anywhere_is_refused():
    text = json.dumps(GOOD)
    for at in range(0, len(text) - 1, 7):
        with pytest.raises(ValueError, match="json"):
            load(text[:at])


def test_an_unknown_entry():
    package = load(GOOD)
    with pytest.raises(ValueError, match="one of the entries tree, learned, tries, calls"):
        package.call("nothing", (), {})
    assert package.entries == ("tree", "learned", "tries", "calls")


HEAD = 'function params=0 own_cells=0 consts=2 attrs=0 f\nregisters ""\ncells\n{\n'


def of_body(body):
    function = {
        "name": "f", "file": "f.py", "constants": [1, True], "names": [], "params": [],
        "defaults": {}, "keyword_only": 0, "lines": [], "text": HEAD + body + "}",
    }  # fmt: skip
    return {"weft": 1, "functions": [function], "entries": {"f": 0}}


def in_finally(body):
    return f"try {{\nreturn #0\n}} {{\n}} {{\n{body}}}\n"


def in_body(body):
    return f"try {{\n{body}}} {{\n}} {{\nreturn #0\n}}\n"


@pytest.mark.parametrize("around", [in_finally, in_body])
def test_what_ends_a_try_many_times_over_is_refused(around):
    """Each return in a finally repeats all that are around it."""
    body = "return #0\n"
    for _ in range(60):
        body = around(body)
    with pytest.raises(ValueError, match="usual size|less deep"):
        load(of_body(body))


#: Bodies, and whether every way through them ends. Those that did not were loaded, and a call
#: went on behind the last instruction: the process died.
ENDS = {
    "": False,
    "%0 = move #0\n": False,
    "return #0\n": True,
    "raise #0\n": True,
    "reraise\n": True,
    "if #0 {\nreturn #0\n} {\n}\n": False,
    "if #0 {\nreturn #0\n} {\nreturn #0\n}\n": True,
    "if #0 {\n} {\nreturn #0\n}\n": False,
    "%0 = while {\n%0 = move #0\n} {\nreturn #0\n} {\n}\n": False,
    "%0 = while {\n%0 = move #0\n} {\nbreak\n} {\nreturn #0\n}\n": False,
    "%0 = while {\n%0 = move #0\n} {\ncontinue\n} {\nreturn #0\n}\n": True,
    "%0 = for #0 {\nreturn #0\n} {\n}\n": False,
    "%0 = for #0 {\n} {\nreturn #0\n}\n": True,
    "%0 = for #0 {\nbreak\n} {\nreturn #0\n}\n": False,
    "%0 = with #0 {\nreturn #0\n}\n": True,
    "%0 = with #0 {\n}\n": False,
    "%0 = while {\n%0 = move #1\n} {\n} {\n}\n": True,
    "%0 = while {\n%0 = move #1\n} {\nif #0 {\nbreak\n} {\n}\n} {\n}\n": False,
    "%0 = while {\n%0 = move #1\n%0 = move #0\n} {\n} {\n}\n": False,
    "%0 = while {\n%0 = move #1\nif #0 {\n%0 = move #0\n} {\n}\n} {\n} {\n}\n": False,
    "try {\nreturn #0\n} {\n} {\n}\n": True,
    "try {\n} {\nreturn #0\n} {\n}\n": True,
    "try {\n} {\n} {\nreturn #0\n}\n": True,
    "try {\n} {\n} {\n}\n": False,
    "%0 = try number=-1 {\nreturn #0\n} {\n} {\n} {\n%0 = move #0\n} {\n}\n": False,
    "%0 = try number=-1 {\nreturn #0\n} {\n} {\n} {\n%0 = move #0\n} {\nreraise\n}\n": True,
    "assert #0\n": False,
}


@pytest.mark.parametrize("body", ENDS)
def test_every_way_through_ends(body):
    if ENDS[body]:
        load(of_body(body))
    else:
        with pytest.raises(ValueError, match="return or raise at the end of every way through"):
            load(of_body(body))


def mutated(text, random):
    """A text with a few of its words and letters in other places."""
    for _ in range(random.randrange(1, 4)):
        at, other = random.randrange(len(text)), random.randrange(len(text))
        size = random.choice([1, 1, 2, 8])
        how = random.randrange(4)
        if how == 0:
            text = text[:at] + text[other : other + size] + text[at + size :]
        elif how == 1:
            text = text[:at] + text[at + size :]
        elif how == 2:
            text = text[:at] + str(random.choice([0, 1, 2, 9, -1, 2**31, 2**63])) + text[at + 1 :]
        else:
            text = text[:at] + text[other : other + size] + text[at:]
    return text


class TooLong(Exception):
    pass


@contextlib.contextmanager
def at_most(seconds):
    """Ends what runs, by a signal, which programs look for in loops and calls."""

    def end(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def endless(x):
    try:
        while True:
            x = x + 1
    except Exception:
        return x


def test_a_signal_ends_a_loop():
    package = load(made(endless)[0])
    with pytest.raises(TooLong), at_most(0.05):
        package.call("endless", (1,), {})
    with pytest.raises(TooLong), at_most(0.05):
        package.call("endless", (weft.ones(2),), {})


VALUES = [1, -1, 2.5, "a", None, [1, [2]], (1, 2), {"a": 1}, weft.ones(2, 2), weft.tensor(3), ...]


def test_mutated_packages_are_refused_or_run():
    """Those that load run with values of any kind, and end in a result or an exception."""
    draw = random.Random(1)
    loaded = 0
    for _ in range(3000):
        data = copy.deepcopy(GOOD)
        function = draw.choice(data["functions"])
        if draw.random() < 0.7:
            function["text"] = mutated(function["text"], draw)
            text = json.dumps(data)
        else:
            text = mutated(json.dumps(data), draw)
        try:
            package = load(text)
        except ValueError:
            continue
        loaded += 1
        for entry in package.entries:
            args = tuple(draw.choice(VALUES) for _ in range(draw.randrange(3)))
            with contextlib.suppress(Exception), at_most(0.2):
                package.call(entry, args, {})
    assert loaded > 100
