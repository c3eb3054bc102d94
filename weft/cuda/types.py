"""Types of tensors on a GPU: no tensor is of one, and making one raises."""

from __future__ import annotations

from typing import Any

from weft.base.absent import raising_class

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip


def typed(name: str) -> type[Any]:
    """The class `torch.cuda.<name>`."""
    path, _, last = f"torch.cuda.{name}".rpartition(".")
    text = f"type torch.cuda.{name} not available. Torch not compiled with CUDA enabled."
    return raising_class(last, path, TypeError, text, f"`torch.cuda.{name}`: no tensor is of it.")


BFloat16Tensor = typed("BFloat16Tensor")
BoolTensor = typed("BoolTensor")
ByteTensor = typed("ByteTensor")
CharTensor = typed("CharTensor")
DoubleTensor = typed("DoubleTensor")
FloatTensor = typed("FloatTensor")
HalfTensor = typed("HalfTensor")
IntTensor = typed("IntTensor")
LongTensor = typed("LongTensor")
ShortTensor = typed("ShortTensor")
