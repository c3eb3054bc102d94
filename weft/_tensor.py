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
        size, strides, storage_offset, dtype: of the tensor; dense from 0 on, and of the default
            dtype, unless told otherwise.
        device: `cpu`, or `meta`.
        requires_grad: whether it wants a gradient.
        layout: `strided`.
        memory_format, pin_memory: without effect.
        dispatch_sizes_strides_policy: `None`; sizes are those given here.
        dispatch_device, dispatch_layout: `False`, in the same way.

    Raises:
        TypeError: the class is none of tensors, or defines no `__torch_dispatch__`.
        RuntimeError: strides of another number of dimensions, or an offset without strides.
        NotImplementedError: another layout, or sizes, device or layout that the class is to tell.

    >>> class Labelled(weft.Tensor):
    ...     @staticmethod
    ...     def __new__(cls, x, label):
    ...         made = weft.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)
    ...         made.x, made.label = x, label
    ...         return made
    ...     @classmethod
    ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    ...         plain = [a.x if isinstance(a, Labelled) else a for a in args]
    ...         return cls(func(*plain, **(kwargs or {})), f"{func.__name__} of {args[0].label}")
    >>> (Labelled(weft.ones(2), "one") * 3).label
    'mul.Tensor of one'
    """
    who = "[_make_wrapper_subclass]"
    if not dispatches(cls):
        raise TypeError(
            f"{who} expected a subclass of Tensor that defines __torch_dispatch__, got "
            f"{cls.__name__} ({cls.__name__} must define __torch_dispatch__)"
        )
    told = {
        "dispatch_sizes_strides_policy": dispatch_sizes_strides_policy is not None,
        "dispatch_device": dispatch_device, "dispatch_layout": dispatch_layout,
        "layout": layout not in (None, weft.strided),
    }  # fmt: skip
    for name, given in told.items():
        if given:
            raise NotImplementedError(
                f"{who} expected a dense tensor whose sizes, device and layout are those given "
                f"here, got {name}. Hint: leave it out, and keep what else there is to tell in an "
                "attribute"
            )
    place = weft.device("cpu" if device is None else device)
    if place.type not in ("cpu", "meta"):
        raise NotImplementedError(
            f"{who} expected the device cpu or meta, got {place}. Hint: there are no others"
        )
    with entered(()):
        kind = weft.get_default_dtype() if dtype is None else dtype
        data = _laid_out(Size(size), strides, storage_offset, kind)
    made = _C._wrapper(cls, data, place.type == "cpu")
    return made.requires_grad_() if requires_grad else made


def _laid_out(size: Size, strides: Sequence[int] | None, offset: int | None, kind: dtype) -> Tensor:
    """A meta tensor for `_make_wrapper_subclass`."""
    who = "[_make_wrapper_subclass]"
    if strides is None:
        if offset:
            raise RuntimeError(
                f"{who} expected strides beside storage_offset={offset}, got none "
                "(setting storage offset without stride not supported)"
            )
        return weft.empty(size, dtype=kind, device="meta")
    if len(strides) != len(size):
        raise RuntimeError(
            f"{who} expected a stride for each size, got {tuple(strides)} and {tuple(size)} "
            f"(dimensionality of sizes ({len(size)}) must match dimensionality of strides "
            f"({len(strides)}))"
        )
    reach = sum((n - 1) * s for n, s in zip(size, strides, strict=True)) + 1 if size.numel() else 0
    whole = weft.empty(max(reach, 0) + (offset or 0), dtype=kind, device="meta")
    return whole.as_strided(size, tuple(strides), offset or 0)


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


def _copied_by_class(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A deep copy where the class carries calls out: what its `clone` is, with attributes."""
    import copy

    out = self.detach().clone().requires_grad_(self.requires_grad)
    if type(out) is not type(self):
        raise RuntimeError(
            f"[deepcopy] expected clone() to give {type(self).__name__}, got {type(out).__name__} "
            "(The default implementation of __deepcopy__() for wrapper subclasses only works for "
            "subclass types that properly implement clone())"
        )
    memo[id(self)] = out
    if self.grad is not None:
        out.grad = copy.deepcopy(self.grad, memo)
    out.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return out


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

    if dispatches(type(self)):
        return _copied_by_class(self, memo)
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


def _rebuild_wrapper(
    cls: Any, words: dict[str, Any], device: str, attributes: dict[str, Any]
) -> Tensor:
    """The inverse for a tensor of `_make_wrapper_subclass`: its attributes are its values."""
    out: Tensor = Tensor._make_wrapper_subclass(cls, device=device, **words)
    out.__dict__.update(attributes)
    return out


@method
def __reduce_ex__(self: Tensor, protocol: int) -> Any:
    """Values, order of dimensions in memory, requires_grad and attributes; the graph stays here."""
    if dispatches(type(self)):
        words = {
            "size": tuple(self.shape), "strides": self.stride(), "dtype": self.dtype,
            "storage_offset": self.storage_offset(), "requires_grad": self.requires_grad,
        }  # fmt: skip
        return _rebuild_wrapper, (type(self), words, str(self.device), dict(self.__dict__))
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
