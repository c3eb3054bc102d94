"""Tensors that a module knows by name: `Parameter` is trained, `Buffer` is only kept."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor


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

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
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
    return data


def _rebuild_parameter(
    cls: type[Parameter], data: Tensor, requires_grad: bool, state: dict[str, Any]
) -> Parameter:
    parameter = cls(data, requires_grad)
    parameter.__dict__.update(state)
    return parameter


def _rebuild_buffer(cls: type[Buffer], data: Tensor, persistent: bool) -> Buffer:
    return cls(data, persistent=persistent)
