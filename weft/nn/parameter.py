"""Tensors that a module knows by name: `Parameter` is trained, `Buffer` is only kept."""

from __future__ import annotations

import copy
import functools
from typing import Any

import weft
from weft import _C, Tensor
from weft.base.forms import expect
from weft.base.subclasses import dispatches, hand_on

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter",
    "UninitializedTensorMixin", "is_lazy",
]  # fmt: skip


class Parameter(Tensor):
    """A leaf tensor that a module registers as soon as it is assigned as an attribute.

    It shares its storage with `data`. Deep copies and pickles keep values and `requires_grad`,
    and drop the gradient.

    Args:
        data: a floating-point tensor of any shape; `None` gives an empty one.
        requires_grad: whether `backward()` fills `.grad`.

    Raises:
        TypeError: `data` is not a tensor.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.zeros(2))
    >>> p.requires_grad, p.is_leaf
    (True, True)
    """

    __torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment]

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        expect("Parameter", requires_grad, bool, "a bool as requires_grad")
        if cls is Parameter and hasattr(type(data), "_as_parameter"):  # a class with one of its own
            made: Parameter = data._as_parameter(requires_grad)  # type: ignore[union-attr]
            return made
        kind: Any = type(data)
        if cls is Parameter and _keeps_class(kind):
            return _in_class(data, requires_grad)
        return Tensor._make_subclass(cls, _as_tensor("Parameter", data), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        return _rebuild_parameter, (type(self), self.data, self.requires_grad, state)


@functools.cache
def _keeps_class(cls: type) -> bool:
    """Whether parameters made of tensors of a class are of it too, as in PyTorch all are."""
    own = getattr(cls, "_lends_memory", True)  # not one of weft's, as nested tensors are
    if cls is Tensor or not issubclass(cls, Tensor) or not own:
        return False
    return hasattr(cls, "_of_class") or not issubclass(
        cls, (Parameter, Buffer, UninitializedTensorMixin)
    )


@functools.cache
def _parameters_of(cls: Any) -> type[Any]:
    """Those of tensors of a class of the program's: they are of both classes, and it is the class
    that is asked."""
    of_function: Any = cls.__torch_function__
    own = of_function is _C._disabled_torch_function_impl
    default = getattr(of_function, "__func__", None) is Tensor.__torch_function__.__func__  # type: ignore[attr-defined]
    default = default and dispatches(cls)
    more: dict[str, Any] = {}
    if cls.__repr__ is Tensor.__repr__:
        more["__repr__"] = lambda self: f"Parameter({Tensor.__repr__(self)})"
    if dispatches(cls):
        more["__torch_dispatch__"] = staticmethod(cls.__torch_dispatch__)
    return type(
        cls.__name__,
        (cls, Parameter),
        more
        | {
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__new__": lambda _, data, requires_grad=True: _in_class(data, requires_grad),
            "__init__": lambda self, *args, **kwargs: None,
            "__deepcopy__": _copied_in_class,
            "__reduce_ex__": lambda self, protocol: (
                _in_class,
                (_of_class(cls, self), self.requires_grad),
            ),
            "_of_class": cls,
            "__torch_function__": _C._disabled_torch_function_impl
            if own or default
            else staticmethod(_answers_of(cls)),
        },
    )


def _answers_of(cls: Any) -> Any:
    """What the class answers, told that its parameters are of itself."""

    def answer(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        types = tuple(getattr(t, "_of_class", t) for t in types)
        return cls.__torch_function__(func, types, args, kwargs)

    return answer


def _of_class(cls: Any, made: Any) -> Any:
    """Such a parameter as a tensor of its class."""
    out = Tensor._make_subclass(cls, made)
    hand_on(made, out)
    return out


def _copied_in_class(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) not in memo:
        data = copy.deepcopy(_of_class(self._of_class, self), memo)
        memo[id(self)] = _in_class(data, self.requires_grad)
    return memo[id(self)]


def _in_class(data: Any, requires_grad: bool) -> Any:
    if isinstance(data, Parameter):
        made: Any = Tensor._make_subclass(type(data), data, requires_grad)
        hand_on(data, made)
        return made
    cls: Any = type(data)
    made = Tensor._make_subclass(_parameters_of(cls), data, requires_grad)
    hand_on(data, made)
    return made


class Buffer(Tensor):
    """A tensor that a module registers as a buffer when it is assigned as an attribute.

    Args:
        data: a tensor of any shape and dtype; `None` gives an empty one.
        persistent: whether the module's `state_dict` contains it.

    Raises:
        TypeError: `data` is not a tensor.

    >>> import weft
    >>> m = weft.nn.Module()
    >>> m.mean = weft.nn.Buffer(weft.zeros(2), persistent=False)
    >>> [name for name, _ in m.named_buffers()], list(m.state_dict())
    (['mean'], [])
    """

    persistent: bool

    __torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment]

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        data = _as_tensor("Buffer", data)
        buffer = Tensor._make_subclass(cls, data, data.requires_grad)
        buffer.persistent = persistent
        return buffer

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), persistent=self.persistent)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild_buffer, (type(self), self.data, self.persistent)


def _as_tensor(who: str, data: Tensor | None) -> Tensor:
    if data is None:
        return weft.empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(
            f"[{who}] expected a Tensor, got {type(data).__name__}. Hint: wrap it in weft.tensor()."
        )
    if data.is_nested:
        raise NotImplementedError(
            f"[{who}] expected a dense tensor, got a nested one. Hint: a nested tensor is a leaf "
            "by requires_grad_(), and a module's by register_buffer"
        )
    return data


def _rebuild_parameter(
    cls: type[Parameter], data: Tensor, requires_grad: bool, state: dict[str, Any]
) -> Parameter:
    parameter = cls(data, requires_grad)
    parameter.__dict__.update(state)
    return parameter


def _rebuild_buffer(cls: type[Buffer], data: Tensor, persistent: bool) -> Buffer:
    return cls(data, persistent=persistent)


class UninitializedTensorMixin:
    """A value without a shape yet: only `materialize` and what needs no values works.

    Raises: RuntimeError where the shape is asked for.

    >>> import weft
    >>> isinstance(weft.nn.LazyLinear(2).weight, weft.nn.parameter.UninitializedTensorMixin)
    True
    """

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Take memory of that shape, uninitialised, and become an ordinary tensor.

        Args:
            shape: the sizes.
            device: cpu.
            dtype: of the values; as asked for in the constructor if None.
        """
        self.data = weft.empty(shape, device=device, dtype=dtype or self.data.dtype)
        self.__class__ = self._becomes

    @property
    def shape(self) -> Any:
        """There is none: it raises RuntimeError."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer still has no shape.

    >>> import weft
    >>> layer = weft.nn.LazyLinear(2)
    >>> before, _ = weft.nn.parameter.is_lazy(layer.weight), layer(weft.ones(1, 3))
    >>> before, weft.nn.parameter.is_lazy(layer.weight)
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[override]  # `shape`
    """A parameter whose shape is not known yet: of a lazy layer.

    Args:
        requires_grad: whether `backward()` will fill `.grad`.
        device, dtype: of the values to come.

    >>> import weft
    >>> p = weft.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', torch.Size([2, 3]))
    """

    _becomes = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        return Tensor._make_subclass(cls, weft.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, None, self.data.dtype)
        return memo[id(self)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, None, self.data.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[override]  # `shape`
    """A buffer whose shape is not known yet: of a lazy layer.

    Args:
        requires_grad: false, as of buffers.
        device, dtype: of the values to come.

    >>> import weft
    >>> weft.nn.parameter.UninitializedBuffer()
    <UninitializedBuffer>
    """

    _becomes = Buffer

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None
    ) -> UninitializedBuffer:
        buffer = Tensor._make_subclass(
            cls, weft.empty(0, device=device, dtype=dtype), requires_grad
        )
        buffer.persistent = True
        return buffer

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, None, self.data.dtype)
        return memo[id(self)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, None, self.data.dtype)
