"""What programs ask of `torch.jit` that has an answer without a compiler: weft runs Python."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeVar

__all__ = [
    "Final", "ScriptFunction", "ScriptModule", "annotate", "export", "fuser", "ignore",
    "is_scripting", "is_tracing", "isinstance", "unused",
]  # fmt: skip

_isinstance = isinstance
F = TypeVar("F", bound=Callable[..., Any])


class _Compiled:
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"[{cls.__name__}] expected a class of eager code, got one of a compiler. "
            "Hint: weft runs Python as it is written; nn.Module is the class of modules"
        )


class ScriptModule(_Compiled):
    """A compiled module, for `isinstance`: nothing is one.

    Raises:
        TypeError: when one is made.
    """


class ScriptFunction(_Compiled):
    """A compiled function, for `isinstance`: nothing is one.

    Raises:
        TypeError: when one is made.
    """


def is_scripting() -> bool:
    """False: nothing is compiled."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """`the_value`."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001
    """Python's own, also for a generic type, by its origin."""
    import typing

    kinds = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(typing.get_origin(k) or k for k in kinds))


def export(fn: F) -> F:
    """`fn`: a mark for a compiler."""
    return fn


unused = export


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function that it decorates, with or without arguments: a mark for a compiler."""
    return drop if callable(drop) else export


def fuser(name: str) -> AbstractContextManager[None]:
    """A scope without effect: the choice of a compiler's part."""
    return nullcontext()


def __getattr__(name: str) -> Any:
    """`script` and `trace` are not there: their results can be saved, and no eager one can."""
    import sys

    from weft.base import lazy as _lazy

    raise _lazy.missing(sys.modules[__name__], name)
