"""What a definition in Python is besides a function: a method, an in-place form, one with `out=`.

    @forms(method=True, inplace=True, out=True)
    def renorm(input, p, dim, maxnorm): ...

gives `renorm(..., out=)`, `Tensor.renorm` and `Tensor.renorm_`. Functions become `weft`'s through
the `__all__` of their file.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, cast, overload

from weft import _C
from weft._C import Tensor
from weft.base.checks import checked

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class WithOut(Protocol[P, R_co]):
    """A function that takes `out=` besides its own arguments."""

    __name__: str

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: Any, out: Any, **kwargs: Any) -> R_co: ...


def attach(name: str, thing: Any) -> None:
    """Make `thing`, a function, a property or a value, the attribute `name` of Tensor."""
    _C._extend(name, checked(thing, name))


def method(function: F) -> F:
    """A method of Tensor, under the function's own name."""
    made: F = checked(function)
    attach(function.__name__, made)
    return made


def tensor_property(
    function: Callable[[Tensor], Any], set_to: Callable[[Tensor, Any], None] | None = None
) -> Callable[[Tensor], Any]:
    """A property of Tensor under the function's own name; `set_to` makes it one that can be set."""
    attach(function.__name__, property(function, set_to))
    return function


@overload
def forms(
    *, method: bool = ..., inplace: bool = ..., out: Literal[True]
) -> Callable[[Callable[P, R]], WithOut[P, R]]: ...
@overload
def forms(
    *, method: bool = ..., inplace: bool = ..., out: Literal[False] = ...
) -> Callable[[F], F]: ...
def forms(*, method: bool = False, inplace: bool = False, out: bool = False) -> Any:
    """A decorator for a function whose first argument is a tensor.

    Args:
        method: it is a method of Tensor too, without `out`.
        inplace: its result, written over the first argument, is the method `name_`.
        out: the function takes `out=`.
    """

    def declare(function: Any) -> Any:
        name = function.__name__
        made = checked(function)
        public = with_out(name, made) if out else made
        if method:
            attach(name, _named(made, name) if out else made)
        if inplace:
            attach(name + "_", in_place(name, function))
        return public

    return declare


def expect(who: str, value: Any, kind: type | tuple[type, ...], what: str) -> None:
    """Raise a TypeError unless `value` is of that kind.

    >>> expect("f", 2, int, "a number")
    """
    if not isinstance(value, kind):
        raise TypeError(f"[{who}] expected {what}, got {type(value).__name__}")


def _named(function: F, name: str) -> F:
    """The function under the name of a method, by which it is pickled."""
    function.__module__, function.__qualname__ = "weft", "Tensor." + name
    return function


def function_of(name: str) -> Callable[..., Any]:
    """The function of what is a method only: the first argument is the tensor."""
    of = getattr(Tensor, name, None)

    def run(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        expect(name, input, Tensor, "a Tensor")
        return getattr(input, name)(*args, **kwargs)

    run.__name__ = run.__qualname__ = name
    run.__module__ = "weft"
    run.__doc__ = doc_after(f"`input.{name}(...)`.", of)
    return run


def doc_of(function: Any) -> str:
    """A docstring at the margin, to which text can be joined: the compiler of Python 3.13 takes the
    indent away, older ones keep it."""
    return inspect.cleandoc(getattr(function, "__doc__", None) or "")


def doc_after(first: str, function: Any) -> str:
    """A docstring of a form of `function`: its first line, then shapes and example of that."""
    return f"{inspect.cleandoc(first)}\n\n{doc_of(function)}".rstrip()


def write_out(name: str, out: Any, result: R) -> R:
    """`result` written over `out`: a tensor, or as many as there are results."""
    if not isinstance(result, Tensor):
        results: Any = result
        if not isinstance(out, (tuple, list)) or len(out) != len(results):
            raise TypeError(f"[{name}] expected {len(results)} tensors as out, got {out!r}")
        for o, r in zip(out, results, strict=True):
            write_out(name, o, r)
        kind: Any = type(result)
        return cast(R, kind(*out) if hasattr(result, "_fields") else kind(out))
    if not isinstance(out, Tensor):
        raise TypeError(f"[{name}] expected a tensor as out, got {type(out).__name__}")
    if result.requires_grad or out.requires_grad:
        raise RuntimeError(
            f"[{name}] expected operands outside the graph, got one that requires grad (functions "
            "with out=... arguments don't support automatic differentiation)"
        )
    if not _can_cast(result.dtype, out.dtype):
        raise RuntimeError(
            f"[{name}] expected an out that holds {result.dtype}, got {out.dtype} (result type "
            "can't be cast to the desired output type)"
        )
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(
                f"[{name}] expected an empty out or one of the result's shape "
                f"{tuple(result.shape)}, got {tuple(out.shape)} (An output with one or more "
                "elements was resized)",
                stacklevel=3,
            )
        out.resize_(result.shape)
    return cast(R, out.copy_(result))


def category(kind: _C.dtype) -> int:
    """0 bool, 1 integer, 2 floating, 3 complex: promotion never goes down."""
    if kind.is_complex:
        return 3
    return 2 if kind.is_floating_point else int(kind is not _C.bool)


def _can_cast(from_: _C.dtype, to: _C.dtype) -> bool:
    return category(from_) <= category(to)


def with_out(name: str, function: Callable[P, R]) -> WithOut[P, R]:
    """The function, with `out=`, where the result is written."""

    @wraps(function)
    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result if out is None else write_out(name, out, result)

    run.__doc__ = f"{doc_of(function) or name}\n\n`out`: where the result is written."
    return cast("WithOut[P, R]", run)


def in_place(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The in-place form of a function: what it gives is written over its first argument."""
    function = checked(function, name + "_")

    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # The graph may save what is about to be written.
        given = (*args, *kwargs.values())
        tracked = any(isinstance(t, Tensor) and t.requires_grad for t in (self, *given))
        was = self.clone() if tracked and _C.is_grad_enabled() else self
        out = function(was, *args, **kwargs)
        if out.shape != self.shape:
            raise RuntimeError(
                f"[{name}_] expected a result of the written tensor's shape {tuple(self.shape)}, "
                f"got {tuple(out.shape)}"
            )
        if not _can_cast(out.dtype, self.dtype):
            raise RuntimeError(
                f"[{name}_] expected a tensor that holds {out.dtype}, got {self.dtype} (result "
                f"type {out.dtype} can't be cast to the desired output type {self.dtype})"
            )
        return self.copy_(out)

    run.__name__ = name + "_"
    run.__doc__ = doc_after(f"`{name}`, written over self: shape and dtype stay.", function)
    return _named(run, name + "_")
