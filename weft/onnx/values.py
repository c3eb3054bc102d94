"""What the values of a program are while it is written as ONNX.

What is known is Python's own: ints, strings, lists, dicts. What only a run knows is `Held`: a
value of the
graph with two examples, which tell its layout; where two examples differ in a size, that size is
free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import weft
from weft.onnx.errors import NotOnnx
from weft.onnx.graph import Model, Number, Value

Examples = tuple[Any, Any]

UNBOUND = object()  #: what a register holds that has no value


@dataclass(frozen=True)
class Lost:
    """What a register or a list holds that two ways, or a loop's turns, left unlike.

    Attributes:
        truth: whether Python takes it for true, where that is one value all the same: of
            `n > 2 and x.sum() > 0`, a number on one way and a tensor on the other.
    """

    why: str
    hint: str = ""
    truth: Held | None = None


class Held:
    """A tensor, or a number that only a run knows.

    Attributes:
        view: of a view: how it is made; None of all others.
        lost: why it cannot be read: a write may have been one to it (Note [May alias]).
        loose: runs may have it in memory with other strides than the examples.
    """

    __slots__ = ("_examples", "_value", "loose", "lost", "view")

    def __init__(
        self, value: Value, examples: Examples, view: View | None = None, loose: bool = False
    ) -> None:
        self._value, self._examples, self.view, self.loose = value, examples, view, loose
        self.lost: NotOnnx | None = None

    def settle(self) -> None:
        """Makes a view anew whose base was written.

        Raises:
            NotOnnx: it is lost.
        """
        if self.lost is not None:
            raise self.lost.again()
        if self.view is not None:
            self.view.refresh(self)

    @property
    def value(self) -> Value:
        """The value in the graph: another one after a write."""
        self.settle()
        return self._value

    @property
    def examples(self) -> Examples:
        """Tensors or numbers of that layout."""
        self.settle()
        return self._examples

    def set(self, value: Value, examples: Examples) -> None:
        """Gives it another value."""
        self._value, self._examples = value, examples

    @property
    def is_number(self) -> bool:
        """Whether it is a number of Python's."""
        return isinstance(self._value, Number)

    def __repr__(self) -> str:
        return f"Held({self._value!r})"


class Saved(NamedTuple):
    """What a `Held` was at one moment."""

    value: Value
    examples: Examples
    lost: NotOnnx | None
    seen: Value | None
    loose: bool

    def held(self) -> Held:
        """A tensor of its own with that."""
        made = Held(self.value, self.examples, None, self.loose)
        made.lost = self.lost
        return made


@dataclass(slots=True)
class View:
    """How a view is made (Note [Views] in verbs.py).

    Attributes:
        base: the tensor that it is a view of.
        seen: the value that `base` had.
        name, args, words: the call.
        output: which of its results.
        refresh: makes a tensor anew whose view this is, if its base was written.
    """

    base: Held
    seen: Value
    name: str
    args: list[Any]
    words: dict[str, Any]
    output: int
    refresh: Callable[[Held], None]


class End(NamedTuple):
    """How a block ended: "return", "break", "continue", "raise".

    Of "broke", `value` is whether it broke, which a run knows; of "left" whether it ended so at
    all, and the `End` of that (Note [Early ways out] in leaving.py).
    """

    kind: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Callee:
    """What can be called: an op, a builtin, a type, a function of the package, a class of
    records, a method of a tensor."""

    kind: str
    name: Any


@dataclass(slots=True)
class Instance:
    """A record, or one of the objects whose attributes programs write."""

    name: str
    fields: dict[str, Any]
    state: bool = False


@dataclass(slots=True)
class Seq:
    """Values one after the other, of which a run knows how many.

    Attributes:
        given: what the items are of.
    """

    length: Any
    item: Callable[[Any], Any]
    given: tuple[Any, ...] = ()


@dataclass(slots=True)
class Repeated:
    """A list of one value, as often as a run says."""

    item: Any
    count: Any


@dataclass(slots=True)
class Grown:
    """A list to which a loop has appended tensors: all of them in one, along dimension 0."""

    rows: Held


def layout(examples: Sequence[Any]) -> tuple[int | None, ...]:
    """Sizes, None where examples differ."""
    shapes = [tuple(e.shape) for e in examples]
    return tuple(n if all(s[d] == n for s in shapes) else None for d, n in enumerate(shapes[0]))


def held(model: Model, name: str, examples: Examples) -> Held:
    """A new value of the graph, of the examples' layout."""
    first = examples[0]
    if isinstance(first, weft.Tensor):
        if first.dim() != examples[1].dim():
            raise NotOnnx("a tensor whose number of dimensions depends on a size that is free")
        expect_one_dtype(first.dtype, examples[1].dtype)
        return Held(Value(model, name, first.dtype, layout(examples)), examples)
    return Held(Number(model, name, weft.promote_types(*map(dtype_of, examples)), ()), examples)


def expect_one_dtype(first: Any, second: Any) -> None:
    """Refuses what two examples have in unlike dtypes: max(a, 2.5) is an int or a float."""
    if first != second:
        raise NotOnnx(
            "a dtype that only a run knows: that of a bool, an int or a float, as values are",
            "make both one kind: float(a), or 0.0 in place of 0",
        )


def dtype_of(number: Any) -> Any:
    """The dtype in which a graph has a number of Python's."""
    if isinstance(number, bool):
        return weft.bool
    return weft.int64 if isinstance(number, int) else weft.float64


def bare(v: Any) -> Any:
    """A value as forms take it: of the graph, or known."""
    if isinstance(v, Held):
        return v.value
    if isinstance(v, (list, tuple)):
        return type(v)(bare(i) for i in v) if type(v) in (list, tuple) else [bare(i) for i in v]
    if isinstance(v, slice):
        return slice(bare(v.start), bare(v.stop), bare(v.step))
    return v


def readable(v: Any) -> Any:
    """A value that can be read, its items too.

    Raises:
        NotOnnx: it is `Lost`.
    """
    lost = [i for i in v if isinstance(i, Lost)] if isinstance(v, (list, tuple)) else []
    if isinstance(v, Lost) or lost:
        raise NotOnnx((lost or [v])[0].why, (lost or [v])[0].hint)
    return v


def example(v: Any, k: int) -> Any:
    """The k-th example of a value, all the way down."""
    readable(v)
    if isinstance(v, Held):
        return v.examples[k]
    if isinstance(v, (list, tuple)):
        return type(v)(example(i, k) for i in v)
    if isinstance(v, slice):
        return slice(example(v.start, k), example(v.stop, k), example(v.step, k))
    if isinstance(v, Repeated):
        return [example(v.item, k)] * example(v.count, k)
    return v


def holds(v: Any) -> bool:
    """Whether a part of it only a run knows."""
    if isinstance(v, (Held, Repeated)):
        return True
    if isinstance(v, (list, tuple)):
        return any(map(holds, v))
    if isinstance(v, slice):
        return any(map(holds, (v.start, v.stop, v.step)))
    return False


class Journal:
    """What is written between two moments, to take it back and to compare two ways.

    A container or a `Held` is kept as it was when it is first written.
    """

    def __init__(self) -> None:
        self.before: dict[int, tuple[Any, Any]] = {}

    def note(self, thing: Any) -> None:
        """Says that `thing` is about to be written."""
        if id(thing) not in self.before:
            self.before[id(thing)] = (thing, contents(thing))

    def undo(self) -> dict[int, tuple[Any, Any]]:
        """Takes all back; what was written, as it was at the end."""
        after = {k: (thing, contents(thing)) for k, (thing, _) in self.before.items()}
        for thing, old in self.before.values():
            restore(thing, old)
        return after


def contents(thing: Any) -> Any:
    """What a writable thing holds."""
    if isinstance(thing, Held):
        seen = thing.view.seen if thing.view is not None else None
        return Saved(thing._value, thing._examples, thing.lost, seen, thing.loose)
    if isinstance(thing, Instance):
        return dict(thing.fields)
    return dict(thing) if isinstance(thing, dict) else list(thing)


def restore(thing: Any, saved: Any) -> None:
    """Makes it hold what it did."""
    if isinstance(thing, Held):
        thing.set(saved.value, saved.examples)
        thing.lost = saved.lost
        if thing.view is not None:
            thing.view.seen = saved.seen
    elif isinstance(thing, Instance):
        thing.fields = dict(saved)
    elif isinstance(thing, dict):
        thing.clear()
        thing.update(saved)
    else:
        thing[:] = saved
