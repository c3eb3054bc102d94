"""weft.autobatch in classes: it binds to objects as the function that it decorates."""

from __future__ import annotations

import abc
import copy
import enum
import functools
import inspect
import pickle
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest

import weft
from weft import nn
from weft.base.modes import DEFER

XS = [1.0, 2.0, 3.0]


def times(factor: float, x: float) -> float:
    return (weft.tensor(x) * factor).item()


@weft.autobatch
def double(x: float) -> float:
    """Twice."""
    return times(2, x)


@weft.autobatch(max_batch=2)
def scaled(m: Any, x: float, *, by: float = 1) -> float:
    return times(m.factor * by, x)


class Plain:
    factor = 10.0

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.saved = weft.autobatch(self.one)

    def one(self, x: float) -> float:
        return times(self.factor, x)

    @weft.autobatch
    def go(self, x: float, by: float = 1) -> float:
        """Goes."""
        return times(self.factor * by, x)

    @weft.autobatch(max_batch=2, out_stack=True, adaptive=False)
    def stacks(self, x: float) -> Any:
        return weft.tensor(x) * self.factor

    @weft.autobatch
    def __call__(self, x: float) -> float:
        return times(self.factor + 1, x)

    @classmethod
    @weft.autobatch
    def inner_class(cls, x: float) -> float:
        return times(cls.factor, x)

    @weft.autobatch
    @classmethod
    def outer_class(cls, x: float) -> float:
        return times(cls.factor, x)

    @staticmethod
    @weft.autobatch
    def inner_static(x: float) -> float:
        return times(3, x)

    @weft.autobatch
    @staticmethod
    def outer_static(x: float) -> float:
        return times(3, x)

    twice = weft.autobatch(weft.autobatch(one))
    late = scaled
    layer = weft.autobatch(nn.Identity())
    free = weft.autobatch(functools.partial(times, 4))


class Child(Plain):
    factor = 20.0

    @weft.autobatch
    def go(self, x: float, by: float = 1) -> float:
        (found,) = super().go([x], by=by)
        (again,) = Plain.go(self, [x], by=by)
        assert found == again
        return -found


class Net(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.w = nn.Parameter(weft.tensor(factor))

    @weft.autobatch
    def forward(self, x: float) -> float:
        return (self.w * x).item()

    @weft.autobatch
    def losses(self, x: float) -> Any:
        return self.w * x


class Listed(list[float]):
    """An object that could be a list of examples itself."""

    plain = weft.autobatch(functools.partial(times, 4))
    free = weft.autobatch(lambda x: times(4, x))

    @weft.autobatch
    def go(self, x: float) -> float:
        return times(len(self), x)


def by(factor: float) -> list[float]:
    return [factor * x for x in XS]


M, C = Plain(5.0), Child(6.0)
CALLS: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "method": (lambda: M.go(XS), by(5)),
    "keywords": (lambda: M.go(XS, by=2), by(10)),
    "two lists": (lambda: M.go(XS, [1, 1, 1]), by(5)),
    "of the class": (lambda: Plain.go(M, XS), by(5)),
    "of a parent": (lambda: Plain.go(C, XS), by(6)),
    "super": (lambda: C.go(XS), by(-6)),
    "kept": (lambda: (lambda go: go(XS))(M.go), by(5)),
    "of an iterable object": (lambda: Listed([1, 2]).go(XS), by(2)),
    "of the class, iterable": (lambda: Listed.go(Listed([1, 2]), XS), by(2)),
    "of examples in such an object": (
        lambda: Listed.plain(Listed(XS)) + Listed.free(Listed(XS)), by(4) * 2),
    "options": (lambda: M.stacks(XS).tolist(), by(5)),
    "call": (lambda: M(XS), by(6)),
    "class method in it": (lambda: Plain.inner_class(XS), by(10)),
    "class method of an object": (lambda: C.inner_class(XS), by(20)),
    "class method around it": (lambda: Plain.outer_class(XS), by(10)),
    "class method around it, of an object": (lambda: C.outer_class(XS), by(20)),
    "class method of Python 3.13": (
        lambda: MethodType(inspect.getattr_static(Plain, "inner_class").__func__, Child)(XS),
        by(20),
    ),
    "static in it": (lambda: Plain.inner_static(XS) + M.inner_static(XS), by(3) * 2),
    "static around it": (lambda: Plain.outer_static(XS) + M.outer_static(XS), by(3) * 2),
    "made in init": (lambda: M.saved(XS), by(5)),
    "of another module": (lambda: M.late(XS, by=2), by(10)),
    "twice": (lambda: M.twice([XS, XS])[1], by(5)),
    "a module in a class": (lambda: M.layer(XS), by(1)),
    "a partial in a class": (lambda: M.free(XS), by(4)),
    "net": (lambda: Net(2.0)(XS), by(2)),
    "net's method": (lambda: [x.item() for x in Net(2.0).losses(XS)], by(2)),
    "an unbound method of C": (lambda: weft.autobatch(str.upper)(["a", "b"]), ["A", "B"]),
}  # fmt: skip


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_it_binds_as_a_function(call: str, enabled: bool) -> None:
    """A decorated method took its object for a list of examples."""
    run, expected = CALLS[call]
    weft.autobatch.enabled = enabled
    try:
        for _ in range(3):  # batched, then perhaps one by one
            assert run() == expected
    finally:
        weft.autobatch.enabled = True


def test_an_enumeration_is_a_list_of_examples() -> None:
    class Kind(enum.Enum):
        A = 1
        B = 2

    assert weft.autobatch(lambda k: k.value)(Kind) == [1, 2]


def test_what_is_no_list_is_still_an_error() -> None:
    for wrong in (lambda: double(3), lambda: double(Plain), lambda: Plain.go(M), lambda: M.go(),
                  lambda: M.layer(Plain), lambda: weft.autobatch(property(str))):  # fmt: skip
        with pytest.raises(TypeError):
            wrong()


def test_gradients_of_a_method() -> None:
    net = Net(2.0)
    sum(net.losses(XS)).backward()
    assert net.w.grad is not None and net.w.grad.item() == 6


def test_explain_takes_methods() -> None:
    report = weft.explain(Net(2.0).losses, XS)
    assert (report.calls, report.batches) == (3, 1)
    assert weft.explain(M.go, XS).outputs == by(5)
    assert weft.explain(double, XS).outputs == by(2)

    @functools.wraps(double)
    def around(*lists: Any) -> Any:
        return double(*lists)

    assert weft.explain(around, XS).outputs == by(2)


def test_a_method_keeps_the_habit_of_its_object() -> None:
    class Small:
        def __init__(self) -> None:
            self.kept: list[bool] = []

        @weft.autobatch
        def go(self, x: Any) -> Any:
            self.kept.append(bool(weft._C._mode() & DEFER))
            return x + 1

        @weft.autobatch
        def other(self, x: Any) -> Any:
            return self.go.__wrapped__(x)

    small, second = Small(), Small()
    for _ in range(3):
        small.go([weft.ones(2)])
    second.go([weft.ones(2)])
    small.other([weft.ones(2)])
    assert small.kept == [True, False, False, True] and second.kept == [True]


def test_metadata() -> None:
    assert (double.__name__, double.__doc__, double.__module__) == ("double", "Twice.", __name__)
    assert str(inspect.signature(double)) == "(x: 'float') -> 'float'"
    assert str(inspect.signature(M.go)) == "(x: 'float', by: 'float' = 1) -> 'float'"
    assert (M.go.__name__, M.go.__doc__, M.go.__qualname__) == ("go", "Goes.", "Plain.go")
    assert M.go.__self__ is M and M.go.__func__ is Plain.go
    assert M.go == M.go and hash(M.go) == hash(M.go) and M.go != C.go and M.go != M.twice
    assert double != scaled and double == double and len({double, M.go, M.go}) == 2
    assert "double" in repr(double) and "Plain.go" in repr(M.go)
    assert inspect.isroutine(double)  # help() shows its text

    def marked(x: float) -> float:
        return x

    marked.mark = 3  # type: ignore[attr-defined]
    assert weft.autobatch(marked).mark == 3


def test_an_abstract_method_stays_abstract() -> None:
    class Base(abc.ABC):
        @weft.autobatch
        @abc.abstractmethod
        def inner(self, x: float) -> float: ...

        @abc.abstractmethod
        @weft.autobatch
        def outer(self, x: float) -> float: ...

    assert Base.__abstractmethods__ == {"inner", "outer"}


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle])
def test_copies(copied: Callable[[Any], Any]) -> None:
    for batched in (double, Plain.go, Plain.inner_static):
        assert copied(batched) is batched
    for obj, factor in ((M, 5), (C, -6)):
        other = copied(obj)
        assert other.go(XS) == by(factor)
        method = copied(obj.go)
        assert method(XS) == by(factor) and method == method.__self__.go
    assert copied(M.late)(XS) == by(5)
    assert copied(Child.inner_class)(XS) == copied(Child.outer_class)(XS) == by(20)
    assert copied(Net(3.0)).losses(XS)[1].item() == 6
    assert copied(weft.autobatch(nn.Identity(), max_batch=2))(XS) == XS


def test_what_an_object_holds_is_copied_with_it() -> None:
    """The method of the original was batched, over its weights."""
    other = copy.deepcopy(M)
    other.factor = 7.0
    assert other.saved(XS) == by(7)
    assert other.saved.__wrapped__.__self__ is other
