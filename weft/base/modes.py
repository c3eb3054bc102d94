"""Scopes that turn the recording of the graph on and off. PyTorch's semantics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Self, TypeVar, overload

from weft import _C

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]

GRAD = 1  # asked for in inference mode, _ENABLED is set instead: nothing is recorded there
_INFERENCE = 2
_ENABLED = 64
DEFER = 4  # calls are kept, to be batched (weft/batching)
AUTOCAST = 8  # products run in a narrow float (weft/amp)
AUTOCAST_HALF = 16  # that float is float16, not bfloat16
MAP = 32  # some tensors stand for a value of each example (weft/func/maps.py)
WATCH = 128  # what runs is recorded (weft/see)
TRACE = 256  # calls are written down (weft/fx/recording.py)
FUNCTIONS = 1024  # a mode of functions is entered (weft/overrides.py)
OWN = 2048  # no argument's __torch_function__ is asked
META = 4096  # new tensors are of the meta device (weft/base/device.py)
DISPATCH = 8192  # a mode of operators is entered (weft/_library/dispatch.py)
_GENERATOR = 0x20  # inspect.CO_GENERATOR; inspect itself would be a third of the import's time

F = TypeVar("F", bound=Callable[..., Any])


def _with_mode(scope: Callable[[], Any], function: F) -> F:
    """`function` run inside a fresh `scope()`, a generator function between its yields too."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & _GENERATOR:

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            running = function(*args, **kwargs)
            sent: Any = None
            try:
                while True:
                    with scope():
                        item = running.send(sent)
                    sent = yield item
            except StopIteration as end:
                return end.value
            finally:
                running.close()

        return generator  # type: ignore[return-value]

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with scope():
            return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


class _Mode:
    """Sets bits of the thread's mode on entry and puts the mode back on exit."""

    __slots__ = ("_saved",)
    _set = 0
    _clear = 0

    def __enter__(self) -> None:
        self._saved = _C._set_mode((_C._mode() | self._set) & ~self._clear)

    def __exit__(self, *exc: object) -> None:
        _C._set_mode(self._saved)

    def __call__(self, function: F) -> F:
        return _with_mode(type(self), function)


class at_once(_Mode):
    """Calls in this scope run when they are made, also within deferred execution."""

    __slots__ = ()
    _clear = DEFER


class no_grad(_Mode):
    """Calls in this scope are not recorded. A context manager and a decorator.

    >>> x = weft.ones(2, requires_grad=True)
    >>> with weft.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    __slots__ = ()
    _clear = GRAD | _ENABLED

    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]  # no instance of the class
    @overload
    def __new__(cls, function: None = ...) -> Self: ...
    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        return self if function is None else _with_mode(cls, function)


class enable_grad(_Mode):
    """Calls in this scope are recorded, also within `no_grad`; in `inference_mode` none is.

    >>> x = weft.ones(2, requires_grad=True)
    >>> with weft.no_grad(), weft.enable_grad():
    ...     (2 * x).requires_grad
    True
    """

    __slots__ = ()
    _set = GRAD

    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]  # no instance of the class
    @overload
    def __new__(cls, function: None = ...) -> Self: ...
    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        return self if function is None else _with_mode(cls, function)


def _grad_set(on: bool) -> int:
    mode: int = _C._mode()
    return mode | GRAD if on else mode & ~GRAD & ~_ENABLED


class set_grad_enabled(_Mode):
    """Turns recording on or off at once; as a context manager, until the scope ends.

    >>> with weft.set_grad_enabled(False):
    ...     weft.is_grad_enabled()
    False
    """

    __slots__ = ("mode", "_before")

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = _C._set_mode(_grad_set(bool(mode)))

    def __enter__(self) -> None:
        _C._set_mode(_grad_set(self.mode))

    def __exit__(self, *exc: object) -> None:
        _C._set_mode(self._before)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"

    def __call__(self, function: F) -> F:
        _C._set_mode(self._before)
        return _with_mode(lambda: set_grad_enabled(self.mode), function)


class inference_mode(_Mode):
    """Like `no_grad`, and tensors made here can never join a graph. `mode=False` leaves the scope.

    >>> with weft.inference_mode():
    ...     y = weft.ones(2) * 2
    >>> y.is_inference()
    True
    """

    __slots__ = ("mode",)

    @overload
    def __new__(cls, mode: bool = ...) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]  # no instance of the class
    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        return self if isinstance(mode, bool) else _with_mode(cls, mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        mode = _C._mode()
        if self.mode:
            self._saved = _C._set_mode((mode | _INFERENCE) & ~GRAD & ~_ENABLED)
        else:
            self._saved = _C._set_mode((mode & ~_INFERENCE) | GRAD)

    def __call__(self, function: F) -> F:
        return _with_mode(lambda: inference_mode(self.mode), function)


#: Whether kernels of operators run below those that are registered for autograd.
BELOW_AUTOGRAD: ContextVar[bool] = ContextVar("below autograd", default=False)


class _AutoDispatchBelowAutograd:
    """In this scope an operator of a program runs its kernel, not what it has for autograd."""

    def __enter__(self) -> None:
        self._token = BELOW_AUTOGRAD.set(True)

    def __exit__(self, *exc: object) -> None:
        BELOW_AUTOGRAD.reset(self._token)


class DisableTorchFunctionSubclass(_Mode):
    """In this scope no argument's `__torch_function__` is asked; modes are (weft/overrides.py)."""

    __slots__ = ()
    _set = OWN


class DisableTorchFunction(_Mode):
    """In this scope neither an argument's `__torch_function__` nor a mode is asked."""

    __slots__ = ()
    _set = OWN
    _clear = FUNCTIONS


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`.

    >>> weft.is_inference_mode_enabled()
    False
    """
    return bool(_C._mode() & _INFERENCE)
