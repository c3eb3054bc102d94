"""Means and covariances. PyTorch's semantics."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.forms import forms, method

__all__ = ["corrcoef", "cov", "nanmean"]


@forms(method=True, out=True)
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of what is not NaN.

    0-d, or of the input's shape without `dim`, which has size 1 with `keepdim`.

    >>> weft.nanmean(weft.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise RuntimeError(
            f"[nanmean] expected a floating dtype, got {input.dtype} (expected input to have "
            "floating point or complex dtype)"
        )
    dims = tuple(range(input.dim())) if dim is None else dim
    counts = (~weft.isnan(input.detach())).sum(dims, keepdim)
    return weft.nansum(input, dims, keepdim, dtype=dtype) / counts


@method
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of variables (rows) over observations (columns).

    `fweights` count observations (integers), `aweights` weigh them. The divisor is the sum of
    weights less the correction, times the mean weight where there are `aweights`.

    [variables, observations] gives [variables, variables], a vector a 0-d tensor.

    >>> weft.cov(weft.tensor([[0.0, 2.0], [0.0, 4.0]]))
    tensor([[2., 4.],
            [4., 8.]])
    """
    if input.dim() > 2:
        raise RuntimeError(f"[cov] expected two or fewer dimensions, got {input.dim()}")
    if input.dtype is _C.bool:
        raise RuntimeError("[cov] expected numbers, got a bool tensor")
    x = input.reshape(1, -1) if input.dim() < 2 else input
    count = x.shape[1]
    weights = None
    if fweights is not None:
        if fweights.dtype.is_floating_point or fweights.shape != (count,):
            raise RuntimeError(f"[cov] expected {count} integer fweights, got {fweights.dtype} "
                               f"{tuple(fweights.shape)}")  # fmt: skip
        weights = fweights
    if aweights is not None:
        if not aweights.dtype.is_floating_point or aweights.shape != (count,):
            raise RuntimeError(f"[cov] expected {count} floating aweights, got {aweights.dtype} "
                               f"{tuple(aweights.shape)}")  # fmt: skip
        weights = aweights if weights is None else weights * aweights
    for given in (fweights, aweights):
        if given is not None and bool((given < 0).any()):
            raise RuntimeError("[cov] expected weights of at least 0, got a negative one")
    total: Any = count if weights is None else weights.sum()
    centred = x - (x if weights is None else x * weights).sum(1, True) / total
    if weights is None:
        norm: Any = total - correction
    elif aweights is None or correction == 0:
        norm = total - correction
    else:
        norm = total - correction * (weights * aweights).sum() / total
    norm = max(norm, 0) if isinstance(norm, (int, float)) else norm.clamp(min=0)
    weighted = centred if weights is None else centred * weights
    other = centred.t().conj() if centred.dtype.is_complex else centred.t()
    out: Tensor = (weighted @ other) / norm
    return out.squeeze()


@method
def corrcoef(input: Tensor) -> Tensor:
    """The correlation matrix of variables (rows) over observations (columns).

    [variables, observations] gives [variables, variables], a vector a 0-d tensor.

    >>> weft.corrcoef(weft.tensor([[0.0, 2.0], [0.0, 4.0]]))
    tensor([[1., 1.],
            [1., 1.]])
    """
    if input.dim() > 2:
        raise RuntimeError(f"[corrcoef] expected two or fewer dimensions, got {input.dim()}")
    c = cov(input)
    if c.dim() == 0:
        return c / c
    scale = c.diagonal().sqrt()
    c = c / scale.unsqueeze(1) / scale.unsqueeze(0)
    return c if c.dtype.is_complex else c.clamp(-1, 1)
