"""`autobatch` and `deferred`: calls kept until a value is read, and then run in batches."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Literal, Protocol, TypeVar, overload

from weft import _C
from weft.base.modes import DEFER, MAP
from weft.batching.examples import flush, run_batched, run_one_by_one
from weft.batching.habit import Habit, habit_of
from weft.batching.stacked import stacked

R = TypeVar("R")


class _OneExample(Protocol):
    """`autobatch(max_batch=…)` to type checkers: a decorator."""

    def __call__(self, fn: Callable[..., R], /) -> Callable[..., list[R]]: ...


class _Autobatch(Protocol):
    """`autobatch` to type checkers: what it makes of a function, and the settings of all."""

    enabled: bool
    full_tracebacks: bool

    @overload
    def __call__(
        self,
        fn: Callable[..., Any],
        *,
        max_batch: int | None = ...,
        out_stack: Literal[True],
        adaptive: bool = ...,
        rng: str = ...,
    ) -> Callable[..., Any]: ...
    @overload
    def __call__(
        self,
        fn: None = ...,
        *,
        max_batch: int | None = ...,
        out_stack: Literal[True],
        adaptive: bool = ...,
        rng: str = ...,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
    @overload
    def __call__(
        self,
        fn: Callable[..., R],
        *,
        max_batch: int | None = ...,
        out_stack: bool = ...,
        adaptive: bool = ...,
        rng: str = ...,
    ) -> Callable[..., list[R]]: ...
    @overload
    def __call__(
        self, fn: None = ..., *, max_batch: int | None = ..., out_stack: bool = ...,
        adaptive: bool = ..., rng: str = ...,
    ) -> _OneExample: ...  # fmt: skip


def _typed(function: Any) -> _Autobatch:
    """The function itself."""
    typed: _Autobatch = function
    return typed


def _columns(lists: tuple[Sequence[Any], ...]) -> list[list[Any]]:
    """A list for each argument, of one length."""
    if not lists:
        raise TypeError("[autobatch] expected a list of examples, got no argument")
    columns = [*map(list, lists)]
    if len(columns) > 1 and len({*map(len, columns)}) > 1:
        raise ValueError(
            "[autobatch] expected lists of one length, got "
            + ", ".join(map(str, map(len, columns)))
        )
    return columns


@_typed
def autobatch(
    fn: Any = None,
    *,
    max_batch: int | None = None,
    out_stack: bool = False,
    adaptive: bool = True,
    rng: str = "loop",
) -> Any:
    """A function over lists of examples from a function of one example.

    The result maps `fn` over its positional arguments, sequences of one length; keyword arguments
    go to every call as they are. It returns what `[fn(*e) for e in zip(*lists)]` returns, with the
    same values, gradients and random numbers, but the calls of all examples run together where they
    are of one kind: same op, same weights, rows of one width. Reading a value suspends the example,
    so branches and loops on values batch too. The graph holds the batched calls: sum the losses
    and call `backward` once.

    An exception of one example leaves alone those that have begun; no other begins. When they are
    done, the first one by example is raised, with a note that says which.

    Batching does not pay everywhere: to keep a small call costs more than to run it, and gains come
    from the graph and from products with weights, most of them in backward: how much of a run was
    run backward is counted. After a run that is estimated to have lost time, the next ones of the
    same function go one by one, with the same results; `explain` shows the estimate, taking
    backward over all that was recorded, and always batches. Random numbers are drawn in the order
    of the plain loop: an example that draws waits for those before it which still run.

    Args:
        fn: a function, method or module; without it, autobatch returns a decorator. In a class it
            decorates methods, also class and static ones: `self` is not a list.
        max_batch: at most so many examples run at once; None for all.
        out_stack: return one structure with the tensors of all examples stacked along a new first
            dimension, instead of a list. Dicts, lists, tuples and dataclasses keep their class;
            what is no tensor (numbers, None) becomes a list. Results whose structures differ raise
            ValueError, tensors of unlike shapes RuntimeError.
        adaptive: run one by one what is estimated to be slower in batches; False: always batch.
        rng: "loop" draws the numbers that the plain loop draws: an example that draws from a
            generator which others share waits for those before it. With "per_example" each example
            draws from a stream of its own, and none waits: the call takes one number from the
            generator, of which and of the example's index its stream is made, so the numbers are
            the same however the examples run. In a nested call that index has the outer one's
            stream behind it. A generator that an example makes itself is its own in any case.

    Tracebacks show the user's frames; `autobatch.full_tracebacks = True`, or WEFT_FULL_TRACEBACKS=1
    in the environment, shows weft's too. In anomaly mode the examples go one by one, so that its
    reports are of one example; under hooks of saved tensors too, so that these see what each call
    saves.

    `autobatch.enabled = False`, or WEFT_AUTOBATCH=0 in the environment, runs the plain loop.

    >>> double = weft.autobatch(lambda x: x * 2 if x.sum() > 0 else -x)
    >>> double([weft.ones(2), -weft.ones(3)])
    [tensor([2., 2.]), tensor([1., 1., 1.])]
    """
    if max_batch is not None and (isinstance(max_batch, bool) or not isinstance(max_batch, int)):
        raise TypeError(f"[autobatch] expected max_batch to be an int, got {max_batch!r}")
    if max_batch is not None and max_batch < 1:
        raise ValueError(f"[autobatch] expected max_batch of at least 1, got {max_batch}")
    if rng not in ("loop", "per_example"):
        raise ValueError(f"[autobatch] expected rng 'loop' or 'per_example', got {rng!r}")
    if fn is None:
        return functools.partial(
            autobatch, max_batch=max_batch, out_stack=out_stack, adaptive=adaptive, rng=rng
        )
    if not callable(fn) and not isinstance(fn, classmethod):
        raise TypeError(f"[autobatch] expected a function of one example, got {type(fn).__name__}")

    return Autobatched(fn, max_batch, out_stack, adaptive, rng == "per_example")


autobatch.full_tracebacks = bool(os.environ.get("WEFT_FULL_TRACEBACKS"))
autobatch.enabled = os.environ.get("WEFT_AUTOBATCH", "1") != "0"


def _is_off(mode: int) -> bool:
    """Whether no call is to be kept: a function that vmap runs for all its examples at once has no
    values to wait for, and hooks of saved tensors see what each call saves."""
    return bool(not autobatch.enabled or mode & MAP or _C._has_saved_hooks())


class Autobatched(_C._Entry):
    """What `autobatch` returns: maps a function over lists, and binds to objects as it would."""

    __slots__ = (
        "__dict__", "__weakref__", "_adaptive", "_binds", "_fn", "_habit", "_max_batch", "_name",
        "_out_stack", "_owners", "_streams",
    )  # fmt: skip

    def __init__(
        self, fn: Any, max_batch: int | None, out_stack: bool, adaptive: bool, streams: bool
    ) -> None:
        binds = not isinstance(fn, staticmethod) and hasattr(type(fn), "__get__")
        self._fn = fn = fn.__func__ if isinstance(fn, staticmethod) else fn
        self._binds = fn if binds else None
        self._max_batch, self._out_stack, self._adaptive = max_batch, out_stack, adaptive
        self._streams = streams
        self._habit = habit_of(fn) if adaptive else Habit()
        self._owners: tuple[type, ...] = ()
        functools.update_wrapper(self, fn, updated=["__dict__"] if type(fn) is FunctionType else ())
        self._name = getattr(self, "__name__", "")
        self.__dict__["_autobatched"] = True  # there `functools.wraps` takes it along

    def _call(self, /, *lists: Sequence[Any], **kwargs: Any) -> Any:
        if self._owners and len(lists) > 1 and isinstance(lists[0], self._owners):
            return self.__get__(lists[0])(*lists[1:], **kwargs)
        try:
            columns = _columns(lists)
        except TypeError:
            if lists and isinstance(lists[0], type) and self._binds is not None:
                return self.__get__(lists[0])(*lists[1:], **kwargs)  # a classmethod, Python 3.13
            raise
        fn, habit, out_stack = self._fn, self._habit, self._out_stack
        n, mode = len(columns[0]), _C._mode()
        if self._streams:
            fn = functools.partial(_C._with_stream, fn, _C.randint(0, 1 << 32, ()).item())
            columns = [[*range(n)], *columns]
        if not n or _is_off(mode):
            results = run_one_by_one(fn, columns, kwargs)
            return stacked(results, []) if out_stack and n else results
        if habit.open:
            habit.judge()
        alone = _C.is_anomaly_enabled() or (
            (habit.sizes or habit.in_order) and habit.one_by_one(n, mode)
        )
        if alone and not _C._reporting():
            results = run_one_by_one(fn, columns, kwargs)
            return stacked(results, []) if out_stack else results
        outermost = not mode & DEFER  # in a batch, calls merge with those around it
        learns = self._adaptive and outermost
        probe = learns and mode not in habit.in_order and not _C._reporting()
        graph, before = _C._begin_run() if learns else 0, _C._saved(0)
        try:
            results, order = self._batched(fn, columns, kwargs, probe)
        finally:
            if learns:
                _C._end_run()
        after = _C._saved(n if outermost else 0)
        if learns and order is not None:
            habit.note_order(mode, order)
        if learns and not order:
            habit.ran(n, mode, graph, (after[0] - before[0], after[1] - before[1]))
        return results

    def _batched(
        self, fn: Any, columns: list[list[Any]], kwargs: dict[str, Any], probe: bool
    ) -> tuple[Any, bool | None]:
        results, order = run_batched(
            fn, columns, kwargs, self._max_batch or len(columns[0]), not self._out_stack, probe
        )
        if self._out_stack:
            tensors: list[Any] = []
            with deferred():  # from the blocks where the results lie
                results = stacked(results, tensors)
            if not _C._mode() & DEFER:
                _C._settle(tensors)
        return results, order

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        if self._binds is not None:
            self._owners = (*self._owners, owner)  # for `Class.method(object, xs)`

    def __get__(self, obj: Any, owner: type | None = None) -> Autobatched:
        if self._binds is None:
            return self
        fn = type(self._binds).__get__(self._binds, obj, owner)
        if fn is self._binds:
            return self
        bound = object.__new__(Autobatched)
        bound._fn, bound._binds, bound._owners, bound._name = fn, None, (), self._name
        bound._max_batch, bound._out_stack = self._max_batch, self._out_stack
        bound._adaptive, bound._streams = self._adaptive, self._streams
        bound._habit = habit_of(fn) if self._adaptive else Habit()
        bound.__dict__.update(self.__dict__)
        of = getattr(fn, "__self__", obj)
        bound.__dict__.update(__wrapped__=fn, __self__=of, __func__=self)
        return bound

    def __eq__(self, other: object) -> bool:  # a method is taken from its object anew each time
        return self is other or (
            type(other) is Autobatched
            and "__self__" in self.__dict__ and "__self__" in other.__dict__
            and self._fn == other._fn
            and self.__dict__["__func__"] is other.__dict__["__func__"]
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash(self._fn) if "__self__" in self.__dict__ else object.__hash__(self)

    def __reduce__(self) -> Any:
        if "__self__" in self.__dict__:
            return getattr, (self.__dict__["__self__"], self._name)
        place: Any = sys.modules.get(self.__module__)
        name = getattr(self, "__qualname__", "")
        for part in name.split("."):
            place = getattr(place, part, None)
        if place is self:  # a decorated function is pickled as a function is
            return name
        make = autobatch(
            max_batch=self._max_batch, out_stack=self._out_stack, adaptive=self._adaptive,
            rng="per_example" if self._streams else "loop",
        )  # fmt: skip
        return make, (self._fn,)

    def __repr__(self) -> str:
        return f"<autobatch of {self._fn!r}>"


class deferred:
    """In this scope calls are kept until a value is read, or the scope ends, and run in batches.

    For a plain loop, without fibers: reading a value computes all that was kept. Does nothing
    within vmap, under hooks of saved tensors, or where `autobatch.enabled` is False.

    >>> with weft.deferred():
    ...     rows = [weft.ones(n) * 2 for n in (1, 2)]
    >>> rows
    [tensor([2.]), tensor([2., 2.])]
    """

    __slots__ = ("_saved",)

    def __enter__(self) -> None:
        self._saved = _C._mode()
        if not _is_off(self._saved):
            _C._set_mode(self._saved | DEFER)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _C._set_mode(self._saved)
        if self._saved & DEFER:
            return
        if kind is None:
            flush("the end")
        elif isinstance(error, Exception):
            _C._flush("the end")
            _C._failures()  # what failed tells whoever reads it
