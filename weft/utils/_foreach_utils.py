"""Lists of tensors by device and dtype, as optimizers that work on many at once sort them."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor

__all__: list[str] = []

Indices = list[int]
TensorListList = list[list[Tensor | None]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Devices on which PyTorch's optimizers take the `_foreach` way by default."""
    return ["cuda", "xpu", "mtia"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Devices on which optimizers have one call for a step."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: TensorListList, with_indices: bool = False
) -> dict[tuple[weft.device, weft.dtype], tuple[TensorListList, Indices]]:
    """The places of lists of equal length, by device and dtype of the first list's tensors."""
    groups: dict[Any, Any] = {}
    for k, row in enumerate(zip(*tensorlistlist, strict=True)):
        first = row[0]
        assert first is not None
        made = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for column, t in zip(made[0], row, strict=True):
            column.append(t)
        if with_indices:
            made[1].append(k)
    return groups


def _device_has_foreach_support(device: weft.device) -> bool:
    """Whether a device has `_foreach` functions: the CPU has."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Tensor], device: weft.device) -> bool:
    """Whether `_foreach` functions take these tensors."""
    return _device_has_foreach_support(device) and all(
        t is None or isinstance(t, Tensor) for t in tensors
    )
