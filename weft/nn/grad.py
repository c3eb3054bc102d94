"""The gradients of convolutions as functions: of the input, and of the weight.

Each takes the gradient of the result. `input_size` and `weight_size` are the sizes of what the
gradient is of; the other arguments are those of the convolution. They have gradients themselves.

>>> import weft
>>> x, w = weft.ones(1, 1, 4), weft.ones(1, 1, 3)
>>> conv1d_input(x.shape, w, weft.ones(1, 1, 2))
tensor([[[1., 2., 2., 1.]]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.nn.modules.utils import _ntuple

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight",
]  # fmt: skip

_Ints = int | Sequence[int]


def _backward(n: int, of: int, g: Tensor, x: Tensor, w: Tensor, *how: Any) -> Tensor:
    stride, padding, dilation, groups = how
    each = [list(_ntuple(n)(v)) for v in (stride, padding, dilation)]
    mask = [of == 0, of == 1, False]
    ops: Any = weft.ops
    found = ops.aten.convolution_backward(g, x, w, None, *each, False, [0] * n, groups, mask)
    out: Tensor = found[of]
    return out


def _like(g: Tensor, size: Sequence[int]) -> Tensor:
    """What has the sizes, and no values: they do not matter."""
    return g.new_empty(1).expand(tuple(size))


def conv1d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: _Ints = 1,
    padding: _Ints = 0, dilation: _Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv1d` with respect to its input [N, C, L], of `input_size`.

    >>> conv1d_input((1, 1, 4), weft.ones(1, 1, 3), weft.ones(1, 1, 2)).shape
    torch.Size([1, 1, 4])
    """
    of = _like(grad_output, input_size)
    return _backward(1, 0, grad_output, of, weight, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: _Ints = 1,
    padding: _Ints = 0, dilation: _Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv1d` with respect to its weight [O, C / groups, k].

    >>> conv1d_weight(weft.ones(1, 1, 4), (1, 1, 3), weft.ones(1, 1, 2)).shape
    torch.Size([1, 1, 3])
    """
    of = _like(grad_output, weight_size)
    return _backward(1, 1, grad_output, input, of, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: _Ints = 1,
    padding: _Ints = 0, dilation: _Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv2d` with respect to its input [N, C, H, W], of `input_size`.

    >>> conv2d_input((1, 1, 4, 4), weft.ones(1, 1, 3, 3), weft.ones(1, 1, 2, 2)).shape
    torch.Size([1, 1, 4, 4])
    """
    of = _like(grad_output, input_size)
    return _backward(2, 0, grad_output, of, weight, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: _Ints = 1,
    padding: _Ints = 0, dilation: _Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv2d` with respect to its weight [O, C / groups, k, k].

    >>> conv2d_weight(weft.ones(1, 1, 4, 4), (1, 1, 3, 3), weft.ones(1, 1, 2, 2)).shape
    torch.Size([1, 1, 3, 3])
    """
    of = _like(grad_output, weight_size)
    return _backward(2, 1, grad_output, input, of, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: _Ints = 1,
    padding: _Ints = 0, dilation: _Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv3d` with respect to its input [N, C, D, H, W], of `input_size`.

    >>> conv3d_input((1, 1, 4, 4, 4), weft.ones(1, 1, 3, 3, 3), weft.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 4, 4, 4])
    """
    of = _like(grad_output, input_size)
    return _backward(3, 0, grad_output, of, weight, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: _Ints = 1,
    padding: _Ints = 0, dilation: _Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of `conv3d` with respect to its weight [O, C / groups, k, k, k].

    >>> conv3d_weight(weft.ones(1, 1, 4, 4, 4), (1, 1, 3, 3, 3), weft.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 3, 3, 3])
    """
    of = _like(grad_output, weight_size)
    return _backward(3, 1, grad_output, input, of, stride, padding, dilation, groups)
