"""Statistics, order and distances, made of the table's operators. PyTorch's semantics.

A `dim` of None stands for all elements, `keepdim` keeps a reduced dimension as one of size 1.
"""

from __future__ import annotations

import math
from typing import Any

import weft
from weft import _C, return_types
from weft._C import Tensor

__all__ = [
    "aminmax", "cdist", "corrcoef", "cov", "dist", "mode", "msort", "nanmean",
    "nanmedian", "nanquantile", "quantile", "renorm",
]  # fmt: skip
METHODS = [
    "aminmax", "corrcoef", "cov", "dist", "mode", "msort", "nanmean", "nanmedian",
    "nanquantile", "quantile", "renorm",
]  # fmt: skip
INPLACE = ["renorm"]
OUT = [
    "aminmax", "mode", "msort", "nanmean", "nanmedian", "nanquantile", "quantile",
    "renorm",
]  # fmt: skip


def _wrap(who: str, dim: int, rank: int) -> int:
    size = max(rank, 1)
    if not -size <= dim < size:
        raise IndexError(f"[{who}] expected a dim in [{-size}, {size - 1}], got {dim}")
    return dim % size


# ---- moments


def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of what is not NaN.

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
    return ((weighted @ other) / norm).squeeze()


def corrcoef(input: Tensor) -> Tensor:
    """The correlation matrix of variables (rows) over observations (columns).

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


# ---- order


def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> return_types.aminmax:
    """The smallest and the largest element, of all or along `dim`."""
    if dim is None:
        return return_types.aminmax(input.amin(), input.amax())
    return return_types.aminmax(input.amin(dim, keepdim), input.amax(dim, keepdim))


def msort(input: Tensor) -> Tensor:
    """Sorted along the first dimension.

    >>> weft.msort(weft.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return input.sort(0).values


def _chosen(kind: Any, input: Tensor, indices: Tensor, dim: int, keepdim: bool) -> Any:
    """The elements at `indices`, which have size 1 along dim."""
    values = input.gather(dim, indices)
    if keepdim or input.dim() == 0:
        return kind(values, indices)
    return kind(values.squeeze(dim), indices.squeeze(dim))


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of what is not NaN; along a dim also where it stands.

    >>> weft.nanmedian(weft.tensor([1.0, float("nan"), 3.0]))
    tensor(1.)
    """
    if dim is None:
        flat = input.reshape(-1)
        if not flat.numel():
            return weft.median(input)
        return nanmedian(flat, 0).values
    dim = _wrap("nanmedian", dim, input.dim())
    if input.dim() and input.shape[dim] == 0:
        raise IndexError(f"[nanmedian] expected a dim with elements, got size 0 at {dim}")
    detached = input.detach()
    order = detached.argsort(dim)
    if input.dim() == 0:
        return return_types.nanmedian(input.clone(), order)
    count = (~weft.isnan(detached)).sum(dim, True)
    place = ((count - 1) // 2).clamp(min=0)
    return _chosen(return_types.nanmedian, input, order.gather(dim, place), dim, keepdim)


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> return_types.mode:
    """The most frequent element along `dim`, of several the smallest, and where it stands last.

    >>> weft.mode(weft.tensor([3, 1, 3, 1, 2])).values
    tensor(1)
    """
    dim = _wrap("mode", dim, input.dim())
    if input.dim() == 0:
        return return_types.mode(input.clone(), weft.zeros((), dtype=_C.int64))
    size = input.shape[dim]
    if size == 0:
        raise IndexError(f"[mode] expected a dim with elements, got size 0 at {dim}")
    values, order = input.detach().sort(dim, stable=True)
    new = weft.ones(values.shape, dtype=_C.bool)
    if size > 1:
        differs = values.narrow(dim, 1, size - 1) != values.narrow(dim, 0, size - 1)
        new.narrow(dim, 1, size - 1).copy_(differs)
    shape = [1] * input.dim()
    shape[dim] = size
    place = weft.arange(size).reshape(shape).expand(values.shape)
    start = weft.where(new, place, 0).cummax(dim).values
    # The first place where the run is longest so far is the end of the longest one.
    end = (place - start).argmax(dim, True)
    return _chosen(return_types.mode, input, order.gather(dim, end), dim, keepdim)


def _quantile(
    who: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, how: str, ignore_nan: bool
) -> Tensor:
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"[{who}] expected a floating input, got {input.dtype}")
    if how not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"[{who}] expected interpolation linear, lower, higher, midpoint or nearest, got "
            f"'{how}'"
        )
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"[{who}] expected q in [0, 1], got {q}")
        q = weft.tensor(q, dtype=input.dtype)
    elif q.dim() > 1 or q.dtype is not input.dtype:
        raise RuntimeError(
            f"[{who}] expected a q of {input.dtype} with at most one dimension, got {q.dtype} "
            f"with {q.dim()}"
        )
    elif q.numel() and not bool(((q >= 0) & (q <= 1)).all()):
        raise RuntimeError(f"[{who}] expected values of q in [0, 1], got others")
    if not input.numel():
        raise RuntimeError(f"[{who}] expected an input that is not empty, got one")
    rank = input.dim()
    if dim is None:
        rows = input.reshape(-1)
    else:
        dim = _wrap(who, dim, rank)
        rows = input.reshape(1) if rank == 0 else input.movedim(dim, -1)
    rows = rows.sort(-1).values
    points = q.reshape(-1)
    last = rows.shape[-1] - 1
    if ignore_nan:
        count = (~weft.isnan(rows.detach())).sum(-1, True).to(input.dtype)
        ranks = (points * (count - 1)).clamp(min=0)
    else:
        nan = weft.isnan(rows.detach().narrow(-1, last, 1))
        ranks = weft.where(nan, float(last), points * last)
    if how == "lower":
        ranks = ranks.floor()
    elif how == "higher":
        ranks = ranks.ceil()
    elif how == "nearest":
        ranks = ranks.round()
    below = ranks.detach().long()
    out = rows.gather(-1, below)
    if how in ("linear", "midpoint"):
        part = weft.full_like(ranks, 0.5) if how == "midpoint" else ranks - below
        above = rows.gather(-1, ranks.detach().ceil().long())
        out = out.lerp(above, part)
    # out is (..., q); the result (q, ...), without q for a number.
    if dim is None:
        out = out.reshape([-1] + [1] * rank) if keepdim else out.reshape(-1)
    else:
        out = out.movedim(-1, 0)
        if keepdim and rank:
            out = out.unsqueeze(dim + 1)
    return out if q.dim() else out.squeeze(0)


def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Quantiles at q in [0, 1], a number or a vector; NaN where a NaN is among the values.

    `interpolation` between neighbours: linear, lower, higher, midpoint or nearest. A vector q makes
    a first dimension. Raises: RuntimeError for a q out of range or an empty input.

    >>> weft.quantile(weft.tensor([0.0, 1.0, 2.0]), 0.25)
    tensor(0.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """`quantile` of what is not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


# ---- distances


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference."""
    return (input - other).norm(p)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The input with slices along `dim` scaled down to a p-norm of at most `maxnorm`.

    >>> weft.renorm(weft.tensor([[3.0, 4.0], [0.0, 1.0]]), 2, 0, 1)
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"[renorm] expected at least 2 dimensions, got {input.dim()}")
    if p <= 0:
        raise RuntimeError(f"[renorm] expected p above 0, got {p} (non-positive-norm)")
    if maxnorm < 0:
        raise RuntimeError(f"[renorm] expected maxnorm of at least 0, got {maxnorm}")
    dim = _wrap("renorm", dim, input.dim())
    rest = [d for d in range(input.dim()) if d != dim]
    norms = _C.ops.linalg_vector_norm(input, p, rest, True)
    return input * weft.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1)


def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """The p-norm of the difference of each pair of rows: `(..., P, M), (..., R, M) -> (..., P, R)`.

    Euclidean distances of more than 25 rows of more than 32 numbers come from one product;
    `compute_mode` "donot_use_mm_for_euclid_dist" forbids that, "use_mm_for_euclid_dist" demands it.

    >>> weft.cdist(weft.tensor([[0.0, 0.0]]), weft.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    if x1.dim() < 2 or x2.dim() < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            "[cdist] expected two stacks of rows of one size, got "
            f"{tuple(x1.shape)} and {tuple(x2.shape)}"
        )
    if p < 0:
        raise RuntimeError(f"[cdist] expected p of at least 0, got {p}")
    modes = {
        "use_mm_for_euclid_dist_if_necessary": max(x1.shape[-2], x2.shape[-2]) > 25
        and x1.shape[-1] > 32,
        "use_mm_for_euclid_dist": True,
        "donot_use_mm_for_euclid_dist": False,
    }
    if compute_mode not in modes:
        raise ValueError(f"[cdist] expected one of {', '.join(modes)}, got {compute_mode!r}")
    fused = p in (1, 2, math.inf) and x1.is_floating_point() and x1.dtype == x2.dtype
    if fused and not (p == 2 and modes[compute_mode]):
        if x1.dim() == x2.dim() == 2:
            return _C.ops._pair_distances(x1.unsqueeze(0), x2.unsqueeze(0), p).squeeze(0)
        lead = weft.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        a, b = (
            x.expand(*lead, *x.shape[-2:]).reshape(math.prod(lead), *x.shape[-2:]) for x in (x1, x2)
        )
        distances = _C.ops._pair_distances(a, b, p)
        return distances.reshape(*lead, x1.shape[-2], x2.shape[-2])
    if p != 2 or not modes[compute_mode]:
        return _C.ops.linalg_vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)
    squares = (x1 * x1).sum(-1, True) + (x2 * x2).sum(-1).unsqueeze(-2)
    squares = (squares - 2 * (x1 @ x2.transpose(-2, -1))).clamp(min=0)
    apart = squares != 0
    return weft.where(apart, weft.where(apart, squares, 1).sqrt(), 0)
