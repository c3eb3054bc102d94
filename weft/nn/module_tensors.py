"""Every tensor of a module converted at once, or moved to another device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import weft
from weft import Tensor
from weft.nn.parameter import Parameter
from weft.nn.shared_structure import changes

Self = TypeVar("Self", bound="ModuleTensors")


class ModuleTensors:
    """The part of a module that converts its tensors in place; `Module` inherits it.

    >>> weft.nn.Linear(1, 1).to(weft.float64).weight.dtype
    torch.float64
    """

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    children: Callable[[], Iterator[Any]]

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the values of every parameter, gradient and buffer by `fn` of them."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        with weft.no_grad():
            for name, param in list(self._parameters.items()):
                if param is None:
                    continue
                grad = param.grad
                converted = fn(param)
                if converted.is_meta != param.is_meta:
                    param = _elsewhere(self, name, param, converted)
                elif converted is not param:
                    param.data = converted
                if grad is not None:
                    converted_grad = fn(grad)
                    if converted_grad.is_meta != grad.is_meta:
                        param.grad = converted_grad.requires_grad_(grad.requires_grad)
                    elif converted_grad is not grad:
                        grad.data = converted_grad
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    changes(self)
                    self._buffers[name] = fn(buffer)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Convert to a device, a dtype, or those of a tensor; in place, and returns the module.

        `to(device=None, dtype=None, non_blocking=False)`, `to(dtype)`, `to(tensor)`. A dtype
        changes floating-point and complex parameters and buffers only, `memory_format` those of
        its rank.

        Shapes stay.

        Raises:
            TypeError: the dtype is neither a floating-point nor a complex one.

        >>> weft.nn.Linear(1, 1).to(weft.float64).weight.dtype
        torch.float64
        """
        form = kwargs.pop("memory_format", None)
        rank = {weft.channels_last: 4, weft.channels_last_3d: 5}.get(form)
        device, dtype, non_blocking = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def convert(tensor: Tensor) -> Tensor:
            if rank is not None and tensor.dim() == rank:
                tensor = tensor.contiguous(memory_format=form)
            to_dtype = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            if device is None and to_dtype is None:
                return tensor
            if device is None:
                return tensor.to(to_dtype, non_blocking=non_blocking)
            if tensor.is_meta and device.type != "meta":
                raise NotImplementedError(
                    "[Module.to] expected parameters with values, got some of the meta device "
                    "(Cannot copy out of meta tensor; no data! Please use "
                    "torch.nn.Module.to_empty() instead of torch.nn.Module.to() when "
                    "moving module from meta to a different device.)"
                )
            return tensor.to(device, to_dtype, non_blocking=non_blocking)

        return self._apply(convert)

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying values: memory that is not written, or none (`meta`).

        >>> import weft
        >>> with weft.device("meta"):
        ...     net = weft.nn.Linear(2, 3)
        >>> net.to_empty(device="cpu").weight.device
        device(type='cpu')
        """
        return self._apply(lambda t: weft.empty_like(t, device=device), recurse=recurse)

    def type(self: Self, dst_type: Any) -> Self:
        """Convert all parameters and buffers to `dst_type`.

        >>> weft.nn.Linear(1, 1).type(weft.float64).weight.dtype
        torch.float64
        """
        return self._apply(lambda t: t.type(dst_type))

    def float(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float32.

        >>> weft.nn.Linear(1, 1).float().weight.dtype
        torch.float32
        """
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float64.

        >>> weft.nn.Linear(1, 1).double().weight.dtype
        torch.float64
        """
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float16.

        >>> weft.nn.Linear(1, 1).half().weight.dtype
        torch.float16
        """
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self: Self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16.

        >>> weft.nn.Linear(1, 1).bfloat16().weight.dtype
        torch.bfloat16
        """
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self: Self) -> Self:
        """Move every parameter, gradient and buffer to memory that processes share.

        >>> weft.nn.Linear(1, 1).share_memory().weight.is_shared()
        True
        """
        return self._apply(lambda t: t.share_memory_())

    def cpu(self: Self) -> Self:
        """Move to the CPU.

        >>> weft.nn.Linear(1, 1).cpu().weight.device
        device(type='cpu')
        """
        return self._apply(lambda t: t.cpu())

    def cuda(self: Self, device: Any = None) -> Self:
        """Move to a CUDA device."""
        return self._apply(lambda t: t.cuda(device))


def _elsewhere(module: Any, name: str, param: Any, values: Tensor) -> Any:
    """A parameter on another device, which is another object: no tensor changes its device."""
    changes(module)
    kind: Any = type(param)
    made = kind.__new__(kind, values, param.requires_grad)
    made.__dict__.update(param.__dict__)
    module._parameters[name] = made
    return made


def _parse_to(
    *args: Any,
    device: Any = None,
    dtype: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
) -> tuple[Any, Any, bool]:
    """Sort out the three ways to call `to`."""
    del copy  # a conversion in place has none
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        tensor = rest.pop(0)
        device, dtype = tensor.device, tensor.dtype
    elif rest and isinstance(rest[0], weft.dtype):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], weft.dtype)):
            dtype = rest.pop(0)
    if rest:
        non_blocking = rest.pop(0)
    if rest or not isinstance(non_blocking, bool):
        got = ", ".join(type(arg).__name__ for arg in args)
        raise TypeError(f"[Module.to] expected a device, a dtype or a tensor, got ({got})")
    return (None if device is None else weft.device(device)), dtype, non_blocking
