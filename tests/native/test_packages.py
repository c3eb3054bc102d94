"""Packages give what Python gives: values, exceptions, their messages and lines."""

import sys
import traceback
from collections.abc import Iterable

import package_programs as programs
import pytest
from closing import packaged

import weft

X = weft.tensor([[1.0, -2.0], [3.5, 0.25]])
RUNS = [
    ("numbers", 7, 3),
    ("numbers", 7.5, 2),
    ("numbers", -7, 2),
    ("numbers", True, 2),
    ("bits", 12, 10),
    ("mixed", 3),
    ("mixed", 2.5),
    ("more_numbers",),
    ("texts", "hello"),
    ("texts", "hélló"),
    ("formats", 3.14159, 42),
    ("formats", -0.5, 123456),
    ("formats", 1e10, 0),
    ("shown", 1),
    ("lists", 4),
    ("dicts", "k"),
    ("dicts", 2.5),
    ("dicts", (1, 2)),
    ("tuples", (1, (2, 3), 4, 5)),
    ("loops", 3),
    ("loops", 9),
    ("recursive", 15),
    ("zips", [1, 2], "ab", False),
    ("zips", [1, 2], "ab", True),
    ("zips", [1, 2], "abc", False),
    ("sets", 7),
    ("bytes_of", "aé'"),
    ("tree", ((X, X), (X, (X, X))), X),
    ("arguments", 1),
    ("calls",),
    ("named", programs.Pair(3, 4)),
    ("tries", 0),
    ("tries", 1),
    ("tries", 2),
    ("tries", 4),
    ("tries", 5),
    ("tensors", X),
    ("operators", X, 2),
    ("operators", X, 0.5),
    ("makes", 3),
    ("nested", 100_000),
    ("writes", X),
    ("rows", X),
    ("math_of", 2.5),
    ("asserted", 1),
    ("learned", X),
]
FAILS = [
    ("fails_index", 2),
    ("fails_strict", [1], [1, 2]),
    ("fails_strict", [1, 3], [1]),
    ("fails_index", -3),
    ("fails_index", "a"),
    ("fails_inside", 5),
    ("fails_key", "b"),
    ("fails_type", 1),
    ("fails_type", 1.5),
    ("fails_type", [1]),
    ("fails_type", X),
    ("fails_type", None),
    ("fails_compare", 1),
    ("fails_call", 3),
    ("fails_attr", X),
    ("fails_attr", 1),
    ("fails_attr", [1]),
    ("fails_method", "s"),
    ("fails_method", X),
    ("fails_unpack", (1, 2, 3)),
    ("fails_unpack", [1]),
    ("fails_unpack", 5),
    ("fails_unbound", 1),
    ("fails_shape", X),
    ("fails_argument", X),
    ("fails_truth", X),
    ("fails_raise", 1),
    ("fails_from", 0),
    ("fails_missing",),
    ("fails_many",),
    ("fails_overflow", 1),
    ("fails_iter", 5),
    ("fails_comprehension", [1, 0]),
    ("asserted", 0),
    ("numbers", 1, 0),
    ("numbers", 1.5, 0),
    ("math_of", -1),
    ("tuples", (1, 2)),
    ("tries", 3),
    ("tree", (X, "leaf"), X),
    ("arguments",),
]


def same(a, b):
    """Whether two results are equal to the bit, with their types."""
    if isinstance(b, weft.Tensor):
        return (
            isinstance(a, weft.Tensor)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and (a.requires_grad, str(a)) == (b.requires_grad, str(b))
            and bool(weft.equal(a.detach(), b.detach()))
        )
    if isinstance(b, dict):
        return type(a) is dict and list(a) == list(b) and all(same(a[k], b[k]) for k in b)
    if isinstance(b, Iterable) and not isinstance(b, str):
        a, b = list(a), list(b)
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def kwargs_of(name):
    return {"c": 3} if name == "arguments" else {}


both_ways = pytest.mark.parametrize("by_plan", [True, False], ids=["by plan", "by instruction"])


@both_ways
@pytest.mark.parametrize("case", RUNS, ids=lambda c: c[0])
def test_values(case, by_plan):
    f = getattr(programs, case[0])
    expected = f(*case[1:], **kwargs_of(case[0]))
    run = packaged(f, by_plan)
    for _ in range(4):  # the second time calls are remembered, and plans made
        got = run(*case[1:], **kwargs_of(case[0]))
        assert same(got, expected), (got, expected)


def raised(f, *args):
    """The exception that a call raises, and its lines in the programs' file."""
    with pytest.raises(BaseException) as info:  # noqa: PT011
        f(*args)
    error = info.value
    lines = [
        t.lineno
        for t in traceback.extract_tb(error.__traceback__)
        if t.filename == programs.__file__
    ]
    # comprehensions have a frame of their own in CPython 3.11
    return error, [n for k, n in enumerate(lines) if k == 0 or lines[k - 1] != n]


@both_ways
@pytest.mark.parametrize("case", FAILS, ids=lambda c: c[0])
def test_failures(case, by_plan):
    f = getattr(programs, case[0])
    expected, lines = raised(f, *case[1:])
    run = packaged(f, by_plan)
    for _ in range(3):
        got, got_lines = raised(run, *case[1:])
        assert type(got) is type(expected)
        assert str(got) == str(expected)
        assert got_lines == lines
        assert type(got.__cause__) is type(expected.__cause__)


def test_recursion_ends():
    with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
        packaged(programs.fails_deep)(0)


def test_ints_are_of_64_bits():
    run = packaged(programs.numbers)
    with pytest.raises(OverflowError):
        run(2**62, 2**62)
    with pytest.raises(OverflowError):
        run(2**63, 1)


def test_examples_wait_within_comparisons():
    """How deep a comparison is was counted by the thread, which waiting examples share: with 201 of
    them in `[[y]] == [[z]]` it was a RecursionError, and what one showed was [...] in another."""
    rows = [weft.full((3,), float(k)) for k in range(300)]
    got = weft.autobatch(packaged(programs.compares_and_shows))(rows)
    assert got == [programs.compares_and_shows(row) for row in rows]


def test_examples_that_wait_may_change_a_list():
    """An example that waited amid a list walked on over the items as they were, where another
    had made the list longer; and what one showed was [...] in the others."""
    rows = [weft.full((3,), float(k)) for k in range(100)]
    run = packaged(programs.shared_list)
    got = weft.autobatch(run)(rows)
    assert [n for n, _, _ in got] == list(range(1, 101))
    assert all(isinstance(same, bool) and "..." not in shown for _, same, shown in got)


def test_gradients():
    x = X.clone().requires_grad_()
    programs.WEIGHT.grad = None
    programs.learned(x)[0].backward()
    expected = x.grad, programs.WEIGHT.grad
    run = packaged(programs.learned)
    for _ in range(3):
        y = X.clone().requires_grad_()
        programs.WEIGHT.grad = None
        run(y)[0].backward()
        assert weft.equal(y.grad, expected[0])
        assert weft.equal(programs.WEIGHT.grad, expected[1])
    programs.WEIGHT.grad = None


def test_objects_keep_what_is_written():
    run = packaged(programs.counted)
    assert [run(X)[0] for _ in range(3)] == [1, 2, 3]
    assert run(X)[1] is not X
    assert packaged(programs.counted)(X)[0] == 1


def test_print(capsys):
    programs.printed(1)
    expected = capsys.readouterr().out
    packaged(programs.printed)(1)
    assert capsys.readouterr().out == expected


def identity(x):
    return x


def test_tensors_are_shared():
    x = X.clone()
    assert packaged(identity)(x) is x


def test_objects_come_in_and_go_out():
    child = programs.Node(2)
    node = programs.Node(1, child)
    total, last = packaged(programs.objects)(node)
    assert total == 3
    assert type(last) is programs.Node
    assert vars(last) == {"value": 0, "child": None}
    a, b, c = packaged(identity)((node, [node], node))
    assert a is c is b[0]
    assert a is not node
    assert (a.value, a.child.value) == (1, 2)
    ring = [1]
    ring.append(ring)
    out = packaged(identity)(ring)
    assert out[1] is out


class Callable:
    def __call__(self):
        pass


@pytest.mark.parametrize("value", [object(), print, int, Callable(), weft, weft.nn.Linear(1, 1)])
def test_what_is_no_value_is_refused(value):
    with pytest.raises(TypeError, match="expected tensors, numbers"):
        packaged(identity)([value])


def test_nested_too_deep_for_the_stack():
    """Where CPython's limit had been raised, the process crashed."""
    value, before = 1, sys.getrecursionlimit()
    for _ in range(50_000):
        value = [value]
    program = packaged(identity)
    sys.setrecursionlimit(100_000)
    try:
        with pytest.raises(RecursionError):
            program(value)
    finally:
        sys.setrecursionlimit(before)
        while isinstance(value, list):  # its own end would be as deep
            value = value.pop()


def test_nested_too_deep():
    value = []
    for _ in range(10**5):
        value = [value]
    with pytest.raises(RecursionError):
        packaged(identity)(value)
