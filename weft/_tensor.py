"""Tensors as Python's objects: how they are copied, pickled and formatted.

What is an op is in the table; other functions and methods are in `weft/composites/`.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Size, Tensor, dtype
from weft.base.dispatch_modes import entered
from weft.base.forms import method
from weft.base.shown import dtype_name
from weft.base.subclasses import dispatches


def __torch_function__(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The function's own result, whose tensors become instances of `cls` (weft.overrides)."""
    from weft.overrides import _of_tensor

    return _of_tensor(cls, func, types, args, kwargs)


_C._extend("__torch_function__", classmethod(__torch_function__))


def _make_wrapper_subclass(
    cls: type[Any],
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
) -> Any:
    """A tensor without memory, of a class that defines `__torch_dispatch__`: calls come to the
    class, which knows what the tensor is made of.

    Args:
        cls: the class.
        size, strides, dtype: of the tensor; dense, and of the default dtype, unless told otherwise.
        requires_grad: whether it wants a gradient.

    Raises: RuntimeError: the class defines no `__torch_dispatch__`.

    >>> class Named(weft.Tensor):
    ...     @staticmethod
    ...     def __new__(cls, x, name):
    ...         made = weft.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)
    ...         made.x, made.name = x, name
    ...         return made
    ...     @classmethod
    ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    ...         plain = [a.x if isinstance(a, Named) else a for a in args]
    ...         return cls(func(*plain, **(kwargs or {})), f"{func.__name__} of {args[0].name}")
    >>> (Named(weft.ones(2), "one") * 3).name
    'mul.Tensor of one'
    """
    if not dispatches(cls):
        raise RuntimeError(
            f"[_make_wrapper_subclass] expected a class that defines __torch_dispatch__, got "
            f"{cls.__name__} ({cls.__name__} must define __torch_dispatch__)"
        )
    size = Size(size)
    with entered(()):
        kind = weft.get_default_dtype() if dtype is None else dtype
        if strides is None:
            data = weft.empty(size, dtype=kind, device="meta")
            if memory_format is not None and memory_format is not weft.preserve_format:
                data = data.contiguous(memory_format=memory_format)
        else:
            data = weft.empty_strided(size, tuple(strides), dtype=kind, device="meta")
    return Tensor._make_subclass(cls, data, requires_grad)


_C._extend("_make_wrapper_subclass", staticmethod(_make_wrapper_subclass))


@method
def __format__(self: Tensor, spec: str) -> str:
    if self.dim() == 0:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def _as_class(cls: Any, data: Tensor, requires_grad: bool, attributes: dict[str, Any]) -> Tensor:
    out = data if cls is Tensor else Tensor._make_subclass(cls, data)
    out.requires_grad = requires_grad
    if attributes:
        out.__dict__.update(attributes)
    return out


@method
def __copy__(self: Tensor) -> Tensor:
    """A second leaf over the same memory, of the same class, with the same attributes."""
    return _as_class(self.__class__, self.detach(), self.requires_grad, dict(self.__dict__))


@method
def __deepcopy__(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy of the storage under the same layout; tensors that share memory still do."""
    if id(self) in memo:
        known: Tensor = memo[id(self)]
        return known
    if self.grad_fn is not None:
        raise RuntimeError(
            "[deepcopy] expected a leaf (only Tensors created explicitly by the user "
            "(graph leaves) support the deepcopy protocol at the moment), got one made "
            f"by {self.grad_fn.name()}. Hint: detach() or clone() it"
        )
    import copy

    address, size, offset = self._storage_info()
    memory = memo.get(key := ("storage", address, self.dtype))
    if memory is None:
        whole = self.detach().as_strided((size // self.itemsize,), (1,), 0)
        memory = memo[key] = whole.clone()
    data = memory.as_strided(self.shape, self.stride(), offset).detach()
    out = _as_class(self.__class__, data, self.requires_grad, {})
    memo[id(self)] = out
    if self.is_leaf and self.grad is not None:
        out.grad = copy.deepcopy(self.grad, memo)
    if self.__dict__:
        out.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return out


def _rebuild(
    cls: Any,
    raw: bytes | None,
    shape: Sequence[int],
    order: Sequence[int],
    kind: dtype,
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    """The inverse of Tensor.__reduce_ex__; without bytes a meta tensor."""
    data = weft.empty(shape, dtype=kind, device="cpu" if raw is not None else "meta")
    if raw:
        memoryview(data.reshape(-1).view(_C.uint8)).cast("B")[:] = raw
    back = sorted(range(len(order)), key=order.__getitem__)
    data = data.permute(back).detach() if back != list(range(len(back))) else data
    return _as_class(Tensor if cls is None else cls, data, requires_grad, attributes)


@method
def __reduce_ex__(self: Tensor, protocol: int) -> Any:
    """Values, order of dimensions in memory, requires_grad and attributes; the graph stays here."""
    stride = self.stride()
    order = tuple(sorted(range(self.dim()), key=lambda d: -stride[d]))
    data = self.detach().permute(order).contiguous() if order else self.detach()
    if self.is_meta:
        raw = None
    elif self.numel():
        raw = bytes(memoryview(data.reshape(-1).view(_C.uint8)).cast("B"))
    else:
        raw = b""
    cls = None if self.__class__ is Tensor else self.__class__
    return _rebuild, (
        cls,
        raw,
        tuple(data.shape),
        order,
        self.dtype,
        self.requires_grad,
        dict(self.__dict__),
    )


def _named_dtype(name: str) -> dtype:
    kind: dtype = getattr(_C, name)
    return kind


def _size(sizes: tuple[int, ...]) -> Size:
    return Size(sizes)


# Their classes are called torch.dtype and torch.Size, where pickle would not find them.
copyreg.pickle(dtype, lambda d: (_named_dtype, (dtype_name(d),)))
copyreg.pickle(Size, lambda s: (_size, (tuple(s),)))


def __getattr__(name: str) -> Any:
    """Methods that have other homes now: pickles and PyTorch's programs name them here."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(Tensor, name)
