"""Padding layers: `(batch, channels, *sizes)` or `(channels, *sizes)` with more around.

`padding` is an integer for all sides, or two for each size, the last size first.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from weft import Tensor
from weft.nn import functional as F
from weft.nn.module import Module


class _Pad(Module):
    __constants__: list[str] = ["padding"]
    dims: int
    mode = "constant"

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        count = 2 * self.dims
        given: Any = padding
        one = isinstance(padding, Integral)
        self.padding: tuple[int, ...] = (given,) * count if one else tuple(given)

    def forward(self, input: Tensor) -> Tensor:
        if self.mode == "circular" and input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(
                f"[{type(self).__name__}] expected {self.dims + 1}D or {self.dims + 2}D input "
                f"(got {input.dim()}D input)"
            )
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    __constants__ = ["padding", "value"]

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads `(*, length)` with `value`.

    >>> import weft
    >>> weft.nn.ConstantPad1d(1, 3.5)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 10])
    """

    dims = 1


class ConstantPad2d(_ConstantPad):
    """Pads `(*, height, width)` with `value`.

    >>> import weft
    >>> weft.nn.ConstantPad2d(1, 3.5)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 10, 10])
    """

    dims = 2


class ConstantPad3d(_ConstantPad):
    """Pads `(*, depth, height, width)` with `value`.

    >>> import weft
    >>> weft.nn.ConstantPad3d(1, 3.5)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 10, 10, 10])
    """

    dims = 3


class ZeroPad1d(_Pad):
    """Pads `(*, length)` with zeros.

    >>> import weft
    >>> weft.nn.ZeroPad1d(1)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 10])
    """

    dims = 1

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(_Pad):
    """Pads `(*, height, width)` with zeros.

    >>> import weft
    >>> weft.nn.ZeroPad2d(1)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 10, 10])
    """

    dims = 2

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(_Pad):
    """Pads `(*, depth, height, width)` with zeros.

    >>> import weft
    >>> weft.nn.ZeroPad3d(1)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 10, 10, 10])
    """

    dims = 3

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Pads `(*, length)` with the values mirrored at the edge.

    >>> import weft
    >>> weft.nn.ReflectionPad1d(2)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 12])
    """

    dims = 1


class ReflectionPad2d(_ReflectionPad):
    """Pads `(*, height, width)` with the values mirrored at the edge.

    >>> import weft
    >>> weft.nn.ReflectionPad2d(2)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 12, 12])
    """

    dims = 2


class ReflectionPad3d(_ReflectionPad):
    """Pads `(*, depth, height, width)` with the values mirrored at the edge.

    >>> import weft
    >>> weft.nn.ReflectionPad3d(2)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 12, 12, 12])
    """

    dims = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """Pads `(*, length)` with the value at the edge.

    >>> import weft
    >>> weft.nn.ReplicationPad1d(2)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 12])
    """

    dims = 1


class ReplicationPad2d(_ReplicationPad):
    """Pads `(*, height, width)` with the value at the edge.

    >>> import weft
    >>> weft.nn.ReplicationPad2d(2)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 12, 12])
    """

    dims = 2


class ReplicationPad3d(_ReplicationPad):
    """Pads `(*, depth, height, width)` with the value at the edge.

    >>> import weft
    >>> weft.nn.ReplicationPad3d(2)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 12, 12, 12])
    """

    dims = 3


class CircularPad1d(_Pad):
    """Pads `(*, length)` with the values of the opposite side.

    >>> import weft
    >>> weft.nn.CircularPad1d(2)(weft.zeros(1, 2, 8)).shape
    torch.Size([1, 2, 12])
    """

    dims = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """Pads `(*, height, width)` with the values of the opposite side.

    >>> import weft
    >>> weft.nn.CircularPad2d(2)(weft.zeros(1, 2, 8, 8)).shape
    torch.Size([1, 2, 12, 12])
    """

    dims = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """Pads `(*, depth, height, width)` with the values of the opposite side.

    >>> import weft
    >>> weft.nn.CircularPad3d(2)(weft.zeros(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 12, 12, 12])
    """

    dims = 3
    mode = "circular"
