"""A batch norm in evaluation, folded into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

import weft
from weft import Tensor
from weft.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip


def _fused(
    weight: Tensor, bias: Any, mean: Tensor, var: Tensor, eps: float, scale: Any, shift: Any,
    axis: int,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    learned = weight.requires_grad, bias is not None and bias.requires_grad
    bias = weft.zeros_like(mean) if bias is None else bias
    scale = weft.ones_like(mean) if scale is None else scale
    shift = weft.zeros_like(mean) if shift is None else shift
    factor = scale * (var + eps).rsqrt()
    shape = [1] * weight.dim()
    shape[axis] = -1
    made = (weight * factor.reshape(shape)).to(weight.dtype), (bias - mean) * factor + shift
    return tuple(Parameter(t.detach(), g) for t, g in zip(made, learned))  # type: ignore


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution that also does the batch norm behind it.

    The weight [out, in / groups, *], the others [out]; the results have the shapes of weight and
    bias.

    >>> one = weft.ones(1)
    >>> w, b = weft.nn.utils.fuse_conv_bn_weights(
    ...     weft.ones(1, 1, 1), None, one, one, 0.0, 2 * one, one
    ... )
    >>> w.flatten(), b
    (tensor([2.]), Parameter containing:
    tensor([-1.]))
    """
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, int(transpose))


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer that also does the batch norm behind it.

    The weight [out, in], the others [out]; the results have the shapes of weight and bias.

    >>> one = weft.ones(1)
    >>> w, b = weft.nn.utils.fuse_linear_bn_weights(
    ...     weft.ones(1, 1), None, one, one, 0.0, 2 * one, one
    ... )
    >>> w, b
    (Parameter containing:
    tensor([[2.]]), Parameter containing:
    tensor([-1.]))
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _expect_evaluation(who: str, *modules: Any) -> None:
    if any(m.training for m in modules):
        raise AssertionError(
            f"[{who}] expected modules in evaluation, got one in training (Fusion only for eval!)"
        )


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of `conv` that also does the batch norm `bn`; both in evaluation.

    Weights have the shapes that they have.

    >>> conv, bn = weft.nn.Conv1d(2, 3, 1).eval(), weft.nn.BatchNorm1d(3).eval()
    >>> weft.nn.utils.fuse_conv_bn_eval(conv, bn)
    Conv1d(2, 3, kernel_size=(1,), stride=(1,))
    """
    _expect_evaluation("fuse_conv_bn_eval", conv, bn)
    out = copy.deepcopy(conv)
    out.weight, out.bias = fuse_conv_bn_weights(
        out.weight, out.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return out


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of `linear` that also does the batch norm `bn`; both in evaluation.

    Weights have the shapes that they have.

    >>> linear, bn = weft.nn.Linear(2, 3).eval(), weft.nn.BatchNorm1d(3).eval()
    >>> x = weft.ones(1, 2)
    >>> weft.allclose(weft.nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)))
    True
    """
    _expect_evaluation("fuse_linear_bn_eval", linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            f"[fuse_linear_bn_eval] expected {linear.out_features} or 1 features, got "
            f"{bn.num_features} (To fuse, linear.out_features == bn.num_features or "
            "bn.num_features == 1)"
        )
    out = copy.deepcopy(linear)
    out.weight, out.bias = fuse_linear_bn_weights(
        out.weight, out.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return out
