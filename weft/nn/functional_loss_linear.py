"""The cross entropy of a linear layer's results."""

from __future__ import annotations

from typing import Any

from weft import _C, Tensor
from weft.nn.functional_loss import cross_entropy

__all__ = ["linear_cross_entropy"]


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target, ...)`.

    Args:
        input: `(features)` or `(batch, features)`.
        linear_weight: `(classes, *sizes, features)`; with `sizes` the input is a batch.
        target: classes, int64 of `(batch, *sizes)`, or probabilities `(batch, classes, *sizes)`.
        linear_bias: `(classes, *sizes)`.
        weight: `(classes)`, a factor for each class.
        ignore_index: targets of this class do not count; None is -100.
        options: None. PyTorch's options compute the logits in pieces, which is not done here.

    Raises: RuntimeError for shapes that do not fit, and for `ignore_index` with probabilities;
    NotImplementedError for options.

    >>> x, w = weft.eye(2), weft.eye(2)
    >>> weft.nn.functional.linear_cross_entropy(x, w, weft.tensor([0, 1]))
    tensor(0.3133)
    """

    def wrong(expected: str, got: Any) -> RuntimeError:
        return RuntimeError(f"[linear_cross_entropy] expected {expected}, got {got}")

    if options is not None:
        raise NotImplementedError(
            f"[linear_cross_entropy] expected options of None, got {options}: logits are computed "
            "whole. Hint: `utils.checkpoint.checkpoint` over parts of the batch keeps none of them"
        )
    if input.dim() not in (1, 2):
        raise wrong("input with dimensionality 1 or 2", input.dim())
    if linear_weight.dim() < 2:
        raise wrong("linear_weight with dimensionality at least 2", linear_weight.dim())
    classes, *sizes = linear_weight.shape[:-1]
    if input.shape[-1] != linear_weight.shape[-1]:
        raise wrong(
            "equal input and linear_weight last dimensions (in_features)",
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively",
        )
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *sizes):
        raise wrong(f"linear_bias shape {(classes, *sizes)}", tuple(linear_bias.shape))
    if sizes and input.dim() == 1:
        raise wrong(
            f"batched input, (N, {input.shape[-1]}), for linear_weight shape "
            f"{tuple(linear_weight.shape)}",
            f"unbatched input with shape {tuple(input.shape)}",
        )
    shape = (*input.shape[:-1], classes, *sizes)
    if ignore_index is not None and tuple(target.shape) == shape:
        raise RuntimeError(
            "[linear_cross_entropy] ignore_index cannot be specified when target contains "
            f"probabilities, got {ignore_index}"
        )
    bias = None if linear_bias is None else linear_bias.flatten()
    logits = _C.linear(input, linear_weight.flatten(0, -2), bias).reshape(shape)
    return cross_entropy(
        logits, target, weight=weight, reduction=reduction, label_smoothing=label_smoothing,
        ignore_index=-100 if ignore_index is None else ignore_index,
    )  # fmt: skip
