"""Rows of a table, and sums of them; `weft.nn.functional` offers them."""

from __future__ import annotations

import weft
from weft import _C, Tensor


def _bags(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> tuple[Tensor, int]:
    """The bag of each index, and how many bags there are."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                "of fixed length sequences. However, found offsets of type Tensor"
            )
        count, width = input.shape
        return weft.arange(count, device=input.device).repeat_interleave(width), count
    if input.dim() != 1:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts = offsets.long()
    if starts.numel() and int(starts[0]) != 0:
        raise RuntimeError(f"offsets[0] has to be 0, got {int(starts[0])}")
    if starts.numel() and int(starts[-1]) > input.numel():
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {input.numel()}, got "
            f"{int(starts[-1])}"
        )
    if starts.numel() > 1 and bool((starts[1:] < starts[:-1]).any()):
        raise IndexError(f"[embedding_bag] expected rising offsets, got {offsets.tolist()}")
    count = starts.shape[0] - include_last_offset
    places = weft.arange(input.numel(), device=input.device)
    return weft.searchsorted(starts[:count].contiguous(), places, right=True) - 1, count


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of the rows of `weight` that each bag names.

    Args:
        input: bags `(batch, n)` of one size, or all indices after each other.
        weight: `(rows, features)`.
        offsets: where each bag starts in a vector of indices.
        max_norm: rows that are used and longer than this are first shortened, in place.
        norm_type: the order of that norm.
        scale_grad_by_freq: divide the gradient of a row by how often `input` names it.
        mode: `"sum"`, `"mean"` or `"max"`; an empty bag gives zeros.
        sparse: whether the gradient of `weight` is a sparse tensor of the rows that were used.
        per_sample_weights: the input's shape, a factor of each row; for sums.
        include_last_offset: whether `offsets` ends with the number of indices.
        padding_idx: a row that does not count.

    Returns:
        A tensor of `(bags, features)`.

    Raises:
        ValueError: an unknown mode, or shapes that do not fit.
        NotImplementedError: `per_sample_weights` with another mode than sum.

    >>> import weft
    >>> table = weft.tensor([[1.0], [2.0], [4.0]])
    >>> weft.nn.functional.embedding_bag(weft.tensor([[0, 2], [1, 1]]), table, mode="sum")
    tensor([[5.],
            [4.]])
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                f"supported for mode='sum' (got mode='{mode}'). Please open a feature request on "
                "GitHub."
            )
        if per_sample_weights.dtype != weight.dtype:
            raise RuntimeError(
                f"[embedding_bag] expected per_sample_weights of the weight's dtype, "
                f"{weight.dtype}, got {per_sample_weights.dtype} (expected argument "
                "#1 'weight' to have the same type as argument #1 'per_sample_weights')"
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({tuple(per_sample_weights.shape)}) is not "
                f"None, then it must have the same shape as the input ({tuple(input.shape)})"
            )
    if input.dtype not in (weft.int64, weft.int32):
        raise RuntimeError(
            f"[embedding_bag] expected int64 or int32 indices, got {input.dtype} (Expected tensor "
            "for argument #1 'indices' to have one of the following scalar types: Long, Int)"
        )
    bags, count = _bags(input, offsets, include_last_offset)
    equal = input.dim() == 2 and padding_idx is None and input.numel() > 0
    indices = input.reshape(-1).long()
    if padding_idx is not None:
        size = weight.shape[0]
        if not -size <= padding_idx < size:
            raise RuntimeError("padding_idx must be within the number of embeddings")
        kept = indices != padding_idx % size
        indices, bags = indices[kept], bags[kept]
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)[kept]
    rows = weft.nn.functional.embedding(
        indices, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse
    )
    if equal:  # a bag is a line along a dimension
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.reshape(-1, 1)
        lines = rows.reshape(*input.shape, weight.shape[1])
        if mode == "max":
            return lines.max(1)[0]
        return lines.mean(1) if mode == "mean" else lines.sum(1)
    out = weft.zeros(count, weight.shape[1], dtype=weight.dtype, device=weight.device)
    if mode == "max":
        return _largest(rows, bags, count) if rows.shape[0] else out
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    out = out.index_add(0, bags, rows)
    if mode == "mean":
        sizes = weft.bincount(bags, minlength=count).clamp_min(1)
        out = out / sizes.unsqueeze(1).to(out.dtype)
    return out


def _largest(rows: Tensor, bags: Tensor, count: int) -> Tensor:
    """The largest elements of each bag; the first of equal ones gets the gradient."""
    places = bags.unsqueeze(1).expand(rows.shape)
    low = weft.zeros(count, rows.shape[1], dtype=rows.dtype, device=rows.device)
    top = low.scatter_reduce(0, places, rows.detach(), "amax", include_self=False)
    n = rows.shape[0]
    order = weft.arange(n, device=rows.device).unsqueeze(1).expand(rows.shape)
    order = weft.where(rows.detach() == top[bags], order, n)
    first = weft.full(low.shape, n, dtype=_C.int64, device=rows.device).scatter_reduce(
        0, places, order, "amin"
    )
    padded = weft.cat([rows, weft.zeros(1, rows.shape[1], dtype=rows.dtype, device=rows.device)])
    return padded.gather(0, first)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` that `input` names.

    Args:
        input: integers of any shape.
        weight: `(rows, features)`.
        padding_idx: a row that gets no gradient.
        max_norm: rows that are used and longer than this are first shortened, in place.
        norm_type: the order of that norm.
        scale_grad_by_freq: divide the gradient of a row by how often `input` names it.
        sparse: whether the gradient of `weight` is a sparse tensor of the rows that were used.

    Returns:
        A tensor of `(*input.shape, features)`.

    Raises:
        AssertionError: `padding_idx` is out of range.
        IndexError: a row that does not exist.

    >>> weft.nn.functional.embedding(weft.tensor([1, 0, 1]), weft.eye(2))
    tensor([[0., 1.],
            [1., 0.],
            [0., 1.]])
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        if isinstance(padding_idx, bool):
            raise TypeError("[embedding] expected an int as padding_idx, got bool")
        _expect_matrix(weight)
        rows = weight.shape[0]
        assert -rows <= padding_idx < rows, "Padding_idx must be within num_embeddings"
        padding_idx %= rows
    if max_norm is not None:
        _expect_matrix(weight)
        _shorten_rows(weight, input, max_norm, norm_type)
    if sparse and _C.is_grad_enabled() and weight.requires_grad:
        from weft.sparse.gradients import embedding as by_rows

        return by_rows(weight, input, padding_idx, scale_grad_by_freq)
    return _C.embedding(weight, input, padding_idx, scale_grad_by_freq)


def _expect_matrix(weight: Tensor) -> None:
    if weight.dim() != 2:
        raise RuntimeError(
            f"[embedding] expected a weight that is 2-D, got {tuple(weight.shape)} ('weight' must "
            "be 2-D)"
        )


def _shorten_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    with weft.no_grad():
        used = input.reshape(-1)  # a row that is named twice is written twice, with one value
        rows = weight[used]
        norms = _C.ops.linalg_vector_norm(rows, norm_type, 1, True)
        shorter = rows * (max_norm / (norms + 1e-7))
        weight[used] = weft.where(norms > max_norm, shorter, rows)
