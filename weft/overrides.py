"""Calls that a class or a mode answers in place of weft: `__torch_function__`.

A class with a `__torch_function__`, a subclass of Tensor or any other, is asked for the result of a
public function or method that has one of its instances among the arguments; a `TorchFunctionMode`
that is entered is asked for the result of every one. The protocol is PyTorch's
(https://pytorch.org/docs/stable/notes/extending.html), after NumPy's NEP 18; where the core asks is
told in Note [Overrides] of src/python/overrides.h.

>>> import weft
>>> class Counted(weft.Tensor):
...     calls = 0
...     @classmethod
...     def __torch_function__(cls, func, types, args=(), kwargs=None):
...         Counted.calls += 1
...         return super().__torch_function__(func, types, args, kwargs)
>>> x = weft.ones(2).as_subclass(Counted)
>>> type(x * 2 + x).__name__, Counted.calls
('Counted', 2)
"""

from __future__ import annotations

import functools
import sys
import types as _types
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeVar

import weft
from weft import _C, Tensor
from weft.base.modes import FUNCTIONS, OWN, DisableTorchFunctionSubclass
from weft.base.subclasses import dispatches

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch",
    "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property", "resolve_name",
    "wrap_torch_function",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

#: The modes that are entered, the innermost last. The bit FUNCTIONS of the mode says if any is.
_MODES: ContextVar[tuple[TorchFunctionMode, ...]] = ContextVar("function modes", default=())


@contextmanager
def _modes(modes: tuple[TorchFunctionMode, ...]) -> Generator[None, None, None]:
    """These modes and no other, for the scope."""
    token = _MODES.set(modes)
    before = _C._mode()
    _C._set_mode(before | FUNCTIONS if modes else before & ~FUNCTIONS)
    try:
        yield
    finally:
        _MODES.reset(token)
        _C._set_mode(_C._mode() & ~FUNCTIONS | before & FUNCTIONS)


class TorchFunctionMode:
    """Answers every public call of its `with` block that the calls inside of it do not.

    A subclass defines `__torch_function__(self, func, types, args=(), kwargs=None)`, in which the
    mode itself is not asked. Modes nest: the one entered last is asked first, and calls that it
    makes go to the next.

    >>> class Print(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(resolve_name(func))
    ...         return func(*args, **(kwargs or {}))
    >>> with Print():
    ...     x = weft.ones(2) * 3
    torch.ones
    torch.Tensor.mul
    """

    inner: TorchFunctionMode

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _C._know_overrides()
        _MODES.set((*_MODES.get(), self))
        _C._set_mode(_C._mode() | FUNCTIONS)
        return self

    def __exit__(self, *exc: object) -> None:
        rest = _MODES.get()[:-1]
        _MODES.set(rest)
        if not rest:
            _C._set_mode(_C._mode() & ~FUNCTIONS)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """`cls(*args, **kwargs)`; the older way to write it."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls the function: nothing changes in its scope.

    >>> with BaseTorchFunctionMode():
    ...     weft.ones(2) + 1
    tensor([2., 2.])
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _answer(func: Any, relevant: tuple[Any, ...], args: tuple[Any, ...], kwargs: Any) -> Any:
    """What the innermost mode, else the first class that has an answer, makes of the call.

    Raises:
        TypeError: none of them has one.
    """
    types = tuple(type(a) for a in relevant)
    modes = _MODES.get() if _C._mode() & FUNCTIONS else ()
    if modes:
        with _modes(modes[:-1]):
            result = modes[-1].__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for argument in relevant:
        method = argument.__torch_function__
        if getattr(method, "__self__", None) is argument:
            warnings.warn(
                "Defining your `__torch_function__ as a plain method is deprecated and will be an "
                "error in future, please define it as a classmethod.",
                DeprecationWarning,
                stacklevel=2,
            )
        result = method(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = resolve_name(func) or getattr(func, "__name__", str(func))
    tried = f" nor in mode {modes[-1]}" if modes else ""
    raise TypeError(
        f"[{name}] expected an answer of a __torch_function__, got NotImplemented of each (no "
        f"implementation found for '{name}' on types that implement __torch_function__: "
        f"{list(types)}{tried})"
    )


def _of_class(result: Any, cls: type) -> Any:
    """Plain tensors of a result, and of tuples and lists in it, as instances of `cls`."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)) and not isinstance(result, weft.Size):
        return type(result)([_of_class(r, cls) for r in result])
    return result


@functools.cache
def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """The functions whose results `Tensor.__torch_function__` leaves as they are.

    >>> weft.Tensor.grad.__get__ in get_default_nowrap_functions()
    True
    """
    return {getattr(Tensor, name).__get__ for name in ("_base", "grad")}


def _of_tensor(
    cls: type, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """`Tensor.__torch_function__`: the function's own result, whose tensors become `cls`."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    if cls is Tensor or func in get_default_nowrap_functions() or dispatches(cls):
        return result  # a class with __torch_dispatch__ has made its own, as in PyTorch
    return _of_class(result, cls)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a class of these arguments, or a mode, is to be asked.

    >>> has_torch_function((weft.ones(2), 3))
    False
    """
    mode = _C._mode()
    if mode & FUNCTIONS:
        return True
    return not mode & OWN and any(_C._overrides(a) for a in relevant_args)


def has_torch_function_unary(tensor: Any) -> bool:
    """`has_torch_function((tensor,))`.

    >>> has_torch_function_unary(weft.ones(2))
    False
    """
    return has_torch_function((tensor,))


def has_torch_function_variadic(*tensors: Any) -> bool:
    """`has_torch_function(tensors)`.

    >>> with BaseTorchFunctionMode():
    ...     has_torch_function_variadic(weft.ones(2), 3)
    True
    """
    return has_torch_function(tensors)


def _first_of_each(arguments: Iterable[Any]) -> tuple[Any, ...]:
    """One argument of each class that overrides, subclasses before what they derive from."""
    found: list[Any] = []
    for a in arguments:
        if not _C._overrides(a) or any(type(a) is type(known) for known in found):
            continue
        at = (k for k, known in enumerate(found) if issubclass(type(a), type(known)))
        found.insert(next(at, len(found)), a)
    return tuple(found)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the classes of `relevant_args`, or a mode, make of `public_api(*args, **kwargs)`.

    Args:
        public_api: the function that was called.
        relevant_args: those arguments whose classes are asked, one of each, subclasses first.
        args, kwargs: of the call.

    Raises:
        TypeError: none of them has an answer.

    >>> class Named:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__, args
    >>> def double(a):
    ...     return handle_torch_function(double, (a,), 2) if has_torch_function((a,)) else a + a
    >>> double(Named())
    ('double', (2,))
    """
    relevant = () if _C._mode() & OWN else _first_of_each(relevant_args)
    return _answer(public_api, relevant, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[F], F]:
    """A decorator for functions that can be overridden.

    Args:
        dispatcher: takes the function's arguments and returns those whose classes are asked.

    >>> @wrap_torch_function(lambda a: (a,))
    ... def double(a):
    ...     return a + a
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a Tensor, or of a class with a `__torch_function__`.

    >>> is_tensor_like(weft.ones(2)), is_tensor_like([1.0])
    (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


@contextmanager
def enable_reentrant_dispatch() -> Generator[None, None, None]:
    """In this scope, inside a `__torch_function__`, classes are asked again.

    >>> class Seen(weft.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         with enable_reentrant_dispatch():
    ...             print(func.__name__, has_torch_function(args))
    ...         return super().__torch_function__(func, types, args, kwargs)
    >>> x = weft.neg(weft.ones(2).as_subclass(Seen))
    neg True
    """
    before = _C._set_mode(_C._mode() & ~OWN)
    try:
        yield
    finally:
        _C._set_mode(before)


# ---- what can be overridden

_CLASS_OWN = {
    "__class__", "__delattr__", "__dict__", "__doc__", "__getattribute__", "__hash__", "__init__",
    "__init_subclass__", "__module__", "__new__", "__setattr__", "__sizeof__", "__subclasshook__",
    "__torch_function__", "__weakref__", "_make_subclass", "as_subclass",
}  # fmt: skip


def _functions_of(module: Any) -> dict[str, Any]:
    found = {name: getattr(module, name) for name in getattr(module, "__all__", dir(module))}
    kinds = (type(weft.add), type(weft.nn.functional.dropout))
    return {name: f for name, f in found.items() if isinstance(f, kinds)}


def _tensor_members() -> dict[str, Any]:
    known = {name: getattr(Tensor, name) for name in dir(Tensor) if name not in _CLASS_OWN}
    return {name: m for name, m in known.items() if hasattr(m, "__get__") or callable(m)}


_HOMES = ("", "nn.functional", "nn.init", "linalg", "fft", "special", "signal.windows")


def _homes() -> dict[str, Any]:
    return {home: functools.reduce(getattr, filter(None, home.split(".")), weft) for home in _HOMES}


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that can be overridden, by the module or class that has them.

    >>> found = get_overridable_functions()
    >>> weft.add in found[weft], weft.Tensor.add in found[weft.Tensor]
    (True, True)
    """
    out: dict[Any, list[Any]] = {
        module: [*_functions_of(module).values()] for module in _homes().values()
    }
    members = _tensor_members().values()
    out[Tensor] = [m if callable(m) else m.__get__ for m in members]
    return out


@functools.cache
def get_ignored_functions() -> list[Callable[..., Any]]:
    """Public functions and members of Tensor that no `__torch_function__` is asked about.

    >>> weft.get_rng_state in get_ignored_functions(), weft.add in get_ignored_functions()
    (True, False)
    """
    own: list[Any] = [getattr(Tensor, n) for n in sorted(_CLASS_OWN) if hasattr(Tensor, n)]
    asked = {id(f) for f in get_overridable_functions()[weft]}
    plain = (
        getattr(weft, n)
        for n in weft.__all__
        if isinstance(sys.modules["weft"].__dict__.get(n), _types.FunctionType)
    )
    return [f for f in own if callable(f)] + [f for f in plain if id(f) not in asked]


@functools.cache
def _names() -> dict[Any, str]:
    out: dict[Any, str] = {}
    for name, member in _tensor_members().items():
        how = [member] if callable(member) else [member.__get__]
        if hasattr(member, "__set__"):
            how = [member.__get__, member.__set__]
        for m in how:
            suffix = "" if m is member else "." + m.__name__
            out.setdefault(m, f"torch.Tensor.{name}{suffix}")
    for home, module in _homes().items():
        for name, f in _functions_of(module).items():
            out.setdefault(f, ".".join(filter(None, ("torch", home, name))))
    return out


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The name by which a function that can be overridden is called, or None.

    >>> resolve_name(weft.add), resolve_name(weft.Tensor.add)
    ('torch.add', 'torch.Tensor.add')
    """
    return _names().get(f)


@functools.cache
def last_name(func: Any) -> str:
    """The last part of a function's name, with what is done to a property; of an operator of
    `torch.ops` that of the function that it is an overload of.

    >>> last_name(weft.Tensor.add), last_name(weft.ops.aten.add.Tensor)
    ('add', 'add')
    """
    func = getattr(func, "overloadpacket", func)
    full = resolve_name(func) or getattr(func, "__name__", "") or str(func)
    parts = full.removeprefix("torch.").removeprefix("Tensor.").split(".")
    if parts[-1] in ("__get__", "__set__", "__delete__"):
        return ".".join(parts[-2:])
    return parts[-1]


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function that can be overridden is a method of Tensor or the access to a property.

    >>> is_tensor_method_or_property(weft.Tensor.add), is_tensor_method_or_property(weft.add)
    (True, False)
    """
    return (resolve_name(func) or "").startswith("torch.Tensor.")


def _get_current_function_mode() -> TorchFunctionMode | None:
    modes = _MODES.get()
    return modes[-1] if modes else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return [*_MODES.get()]
