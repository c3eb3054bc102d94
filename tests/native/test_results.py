"""Every kind of value that a program returns comes right, to Python and to C, or is refused."""

import dataclasses
import enum
import functools
import math
from typing import NamedTuple

import pytest
from libweft import Context, Failed, Program
from test_libweft import same

import weft

X = weft.arange(6.0).reshape(2, 3)


class Color(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: weft.Tensor
    n: int


@dataclasses.dataclass
class Inner:
    a: int
    b: weft.Tensor


@dataclasses.dataclass
class Outer:
    inner: Inner
    all: list


def helper(x):
    return x


def numbers(x):
    return None, True, 1, 2.5, 1 - 2j, 2**63 - 1, -(2**63), math.inf, -0.0


def texts(x):
    return "a\0é", f"{x.shape}", ""


def encoded(x):
    text = f"a\0é{x.shape[0]}"
    return text.encode(), text[:0].encode(), [text.encode()[1:], text.encode() + text.encode()]


def sizes(x):
    return x.shape, x.size(), {"s": x.t().shape, "l": [x.shape[1:], x.shape + (1,)]}


def empty_size(x):
    return x.sum().shape


def strides(x):
    return x.stride()


def dicts(x):
    return {1: "a", (1, 2): 3, None: {}, 1.5: [x], "": ()}


def named(x):
    return Point(x, 2), [Point(x + 1, 3)]


def nested(x):
    return Outer(Inner(1, x), [Inner(2, x * 2), None])


def results(x):
    return x.max(0)


def parts(x):
    return x.chunk(2), x.t(), x[:, 1:]


def lists(x):
    return x.tolist(), x.sum().item()


def generated(x):
    return (k * 2 for k in range(3))


def iterated(x):
    return [iter([1, x])], zip((1, 2), "ab")


def views(x):
    d = {"a": x.shape[0], "b": x}
    return d.keys(), [d.items()], d.values()


def device(x):
    return x.device


def fields(cls, *values):
    return dict(zip((f.name for f in dataclasses.fields(cls)), values, strict=True))


# What comes from C; None: what the function gives in Python.
COME = {
    numbers: None, texts: None, encoded: None, strides: None, dicts: None, parts: None, lists: None,
    sizes: ((2, 3), (2, 3), {"s": (3, 2), "l": [(3,), (2, 3, 1)]}),
    empty_size: (),
    named: ({"x": X, "n": 2}, [{"x": X + 1, "n": 3}]),
    nested: fields(Outer, fields(Inner, 1, X), [fields(Inner, 2, X * 2), None]),
    results: dict(zip(("values", "indices"), X.max(0), strict=True)),
    generated: [0, 2, 4],  # a saved program that returned one could not be called
    iterated: ([[1, X]], [(1, "a"), (2, "b")]),
    views: (["a", "b"], [[("a", 2), ("b", X)]], [2, X]),
    device: "cpu",
}  # fmt: skip
# Those that in a loaded program come otherwise than from the function itself.
LOADED = {generated: [0, 2, 4], iterated: COME[iterated], views: COME[views], device: "cpu"}

# What has no form in C, and what messages call it.
REFUSED = {
    "range": lambda x: range(3),
    "set": lambda x: {1, 2},
    "slice": lambda x: slice(1, 2),
    "torch.dtype": lambda x: x.dtype,
    "ellipsis": lambda x: [...],
    "type": lambda x: (int,),
    "ValueError": lambda x: {"a": ValueError("b")},
}

# What no file can hold.
UNSAVED = {
    "a function": lambda x: helper,
    "a member of an Enum": lambda x: Color.RED,
    "2**70": lambda x: 2**70,
    "bytes": lambda x: b"ab",
    "a class": lambda x: Inner,
    "a partial function": lambda x: functools.partial(helper, 1),
}


def beyond(x):
    return (x.shape[0] + 2**62) * 4


@pytest.fixture
def from_c(lib, tmp_path):
    def call(function):
        path = tmp_path / "program.weft"
        weft.jit.save(weft.jit.script(function), path)
        context = Context(Program(lib, path))
        return lambda: context.run(None, X)

    return call


@pytest.mark.parametrize("function", COME)
def test_results_from_c(from_c, function):
    call = from_c(function)
    wanted = function(X) if COME[function] is None else COME[function]
    for _ in range(3):  # the second time by plan
        assert same(call(), wanted)


@pytest.mark.parametrize("function", COME)
def test_results_of_a_loaded_program(tmp_path, function):
    weft.jit.save(weft.jit.script(function), tmp_path / "program.weft")
    loaded = weft.jit.load(tmp_path / "program.weft")
    wanted = LOADED[function] if function in LOADED else function(X)
    for _ in range(3):
        assert alike(loaded(X), wanted)


def alike(a, b):
    """As `same`, of objects too, whose classes are made by who loads them."""
    if dataclasses.is_dataclass(b):
        return type(a).__name__ == type(b).__name__ and alike(vars(a), vars(b))
    if isinstance(b, dict):
        return list(a) == list(b) and all(alike(a[k], b[k]) for k in b)
    if isinstance(b, (list, tuple)):
        names = [type(v).__name__ for v in (a, b)]
        return len(set(names)) == 1 and len(a) == len(b) and all(map(alike, a, b))
    return same(a, b)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_form_in_c(from_c, kind):
    call = from_c(REFUSED[kind])
    for _ in range(3):
        with pytest.raises(Failed) as e:
            call()
        assert e.value.kind == "TypeError"
        assert f"got a value of type {kind}" in e.value.message


@pytest.mark.parametrize("what", UNSAVED)
def test_what_no_file_can_hold(what):
    with pytest.raises(weft.export.NotExportable):
        weft.jit.script(UNSAVED[what]).save("/dev/null")


def test_an_int_of_more_than_64_bits(from_c):
    call = from_c(beyond)
    with pytest.raises(Failed) as e:
        call()
    assert e.value.kind == "OverflowError" and "64 bits" in e.value.message
