"""Attention whose scores and mask are functions of positions: PyTorch's `flex_attention`.

Dong et al. 2024, "Flex Attention", https://arxiv.org/abs/2412.05496. Scores are computed whole and
handed to `score_mod` with the indices of batch, head, query and key as tensors that broadcast, so
one call of it serves all; a block mask says which blocks are seen, and `mask_mod` what of those
that are seen in part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import weft
from weft import Tensor

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What `flex_attention` is to return beside the output.

    Attributes:
        lse: the logarithm of each row's sum of exponentials.
        max_scores: each row's largest score.

    >>> x = weft.ones(1, 1, 2, 4)
    >>> flex_attention(x, x, x, return_aux=AuxRequest(max_scores=True))[1].max_scores
    tensor([[[2., 2.]]])
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by `AuxRequest`, else None.

    Attributes:
        lse, max_scores: of shape (B, H, L): logarithms of the sums of exponentials, and the largest
            scores; float64 where the query is, else float32.

    >>> x = weft.zeros(1, 1, 2, 4)
    >>> _, aux = flex_attention(x, x, x, return_aux=AuxRequest(lse=True))
    >>> aux.lse, aux.max_scores
    (tensor([[[0.6931, 0.6931]]]), None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """A mask that hides nothing.

    Args:
        batch, head, token_q, token_kv: indices, of any shape.

    Returns: True, of shape ().

    >>> create_mask(noop_mask, 1, 1, 1, 2)
    tensor([[[[True, True]]]])
    """
    return batch.new_ones((), dtype=weft.bool)


def and_masks(*mask_mods: Mask) -> Mask:
    """What all of the masks show.

    Args:
        mask_mods: functions of the indices of batch, head, query and key that give bools, whose
            shapes broadcast.

    Raises:
        RuntimeError: something else than functions.

    >>> near = and_masks(lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: q - kv < 2)
    >>> create_mask(near, 1, 1, 3, 3)[0, 0].int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """
    _expect_masks("and_masks", mask_mods)

    def both(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        result = b.new_ones((), dtype=weft.bool)
        for mask in mask_mods:
            result = result & mask(b, h, q, kv)
        return result

    return both


def or_masks(*mask_mods: Mask) -> Mask:
    """What one of the masks shows.

    Args:
        mask_mods: functions of the indices of batch, head, query and key that give bools, whose
            shapes broadcast.

    Raises:
        RuntimeError: something else than functions.

    >>> either = or_masks(lambda b, h, q, kv: q == kv, lambda b, h, q, kv: kv == 0)
    >>> create_mask(either, 1, 1, 3, 3)[0, 0].int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 0, 1]], dtype=torch.int32)
    """
    _expect_masks("or_masks", mask_mods)

    def either(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        result = b.new_zeros((), dtype=weft.bool)
        for mask in mask_mods:
            result = result | mask(b, h, q, kv)
        return result

    return either


def _expect_masks(who: str, masks: Any) -> None:
    if not all(callable(m) for m in masks):
        raise RuntimeError(
            f"[{who}] expected functions, got {masks} (All inputs should be callable mask_mods: "
            f"{masks})"
        )


def _indices(b: int, h: int, q: int, kv: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The indices of batch, head, query and key, each along its own dimension of four."""
    places = weft.arange(b), weft.arange(h), weft.arange(q), weft.arange(kv)
    one, two, three, four = places
    return one.view(-1, 1, 1, 1), two.view(-1, 1, 1), three.view(-1, 1), four


def _whole(who: str, made: Any, shape: tuple[int, ...]) -> Tensor:
    if not isinstance(made, Tensor):
        raise TypeError(f"[{who}] expected a tensor of the function, got {type(made).__name__}")
    try:
        return made.expand(shape)
    except RuntimeError:
        raise RuntimeError(
            f"[{who}] expected a function of single positions, got results of shape "
            f"{tuple(made.shape)} for {shape}. Hint: it is called with indices that broadcast"
        ) from None


def create_mask(
    mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,  # noqa: N803
    device: Any = None,
) -> Tensor:  # fmt: skip
    """The mask of a function as a tensor of bools, of shape (B, H, Q_LEN, KV_LEN).

    A function of five arguments is one of scores: what it does not make -inf is seen.

    >>> create_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 2)[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    import inspect

    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = _indices(*shape)
    if len(inspect.signature(mod_fn).parameters) == 5:
        scores = _whole("create_mask", mod_fn(weft.zeros(shape), *places), shape)
        return scores != -math.inf
    return _whole("create_mask", mod_fn(*places), shape).bool()


def _blocks(mask: Tensor, size: tuple[int, int]) -> Tensor:
    """How many of each block's places are seen."""
    q, kv = mask.shape[-2:]
    rows, columns = -(-q // size[0]), -(-kv // size[1])
    padded = weft.nn.functional.pad(mask.long(), (0, columns * size[1] - kv, 0, rows * size[0] - q))
    cut = padded.view(*mask.shape[:2], rows, size[0], columns, size[1])
    return cut.sum((3, 5))


def _listed(dense: Tensor) -> tuple[Tensor, Tensor]:
    """The number of blocks that are seen in each row, and their columns, those first."""
    found = dense.int()
    order = weft.argsort(found, dim=-1, descending=True, stable=True)
    return found.sum(-1).int(), order.int()


def _dense(count: Tensor, indices: Tensor, columns: int) -> Tensor:
    """The way back: which blocks are seen."""
    known = weft.arange(indices.shape[-1], device=indices.device) < count.unsqueeze(-1)
    out = weft.zeros(*count.shape, columns, dtype=weft.int64, device=count.device)
    kept = indices.long().clamp(max=columns - 1)
    return out.scatter_add(-1, kept, known.long()) > 0


class BlockMask:
    """Which blocks of queries and keys are seen, and a function for those seen in part.

    `create_block_mask` makes one of a function.

    Attributes:
        kv_num_blocks, kv_indices: for each row of blocks, how many are seen in part, and which:
            int32 of shapes (B, H, rows) and (B, H, rows, columns).
        full_kv_num_blocks, full_kv_indices: the same of those that are seen whole, or None.
        mask_mod: the function of positions within the blocks that are seen in part.
        seq_lengths: numbers of queries and keys.
        BLOCK_SIZE: queries and keys of a block.

    Raises:
        RuntimeError: kv_indices of less than 2 dimensions.
        AssertionError: one alone of the two that tell what is seen whole.

    >>> mask = create_block_mask(lambda b, h, q, kv: kv < 2, 1, 1, 4, 4, BLOCK_SIZE=2)
    >>> mask.full_kv_num_blocks, mask.kv_num_blocks
    (tensor([[[1, 1]]], dtype=torch.int32), tensor([[[0, 0]]], dtype=torch.int32))
    >>> mask[:, :, 0].to_dense()
    tensor([[[[1, 0]]]], dtype=torch.int32)
    """

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int], mask_mod: Mask,  # noqa: N803
    ) -> None:  # fmt: skip
        if kv_indices.dim() < 2:
            raise RuntimeError(
                f"[BlockMask] expected kv_indices of at least 2 dimensions, got {kv_indices.dim()} "
                "(BlockMask must have at least 2 dimensions)"
            )
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "[BlockMask] expected both of full_kv_num_blocks and full_kv_indices, or none, got "
                "one (full_kv_num_blocks and full_kv_indices must be both provided or omitted)"
            )
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE,  # noqa: N803
        mask_mod: Mask | None = None, seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """A mask of lists of blocks; `compute_q_blocks` is for kernels of GPUs."""
        size = _pair(BLOCK_SIZE)
        lengths = seq_lengths or (
            kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1]
        )  # fmt: skip
        return cls(lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, size,
                   mask_mod or noop_mask)  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The product of the shape."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """1 for each block that is seen, in part or whole; else 0."""
        seen = self._part()
        if (whole := self._full()) is not None:
            seen = seen | whole
        return seen.int()

    def _part(self) -> Tensor:
        return _dense(self.kv_num_blocks, self.kv_indices, self.kv_indices.shape[-1])

    def _full(self) -> Tensor | None:
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return None
        return _dense(self.full_kv_num_blocks, self.full_kv_indices, self.kv_indices.shape[-1])

    def sparsity(self) -> float:
        """The share, of 100, of places in blocks that are not seen."""
        seen = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            seen += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - seen * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def seen(self) -> Tensor:
        """Which places are seen, of shape `shape`: by blocks, and by mask_mod within some."""
        q, kv = self.seq_lengths

        def places(blocks: Tensor) -> Tensor:
            rows = blocks.repeat_interleave(self.BLOCK_SIZE[0], -2)
            return rows.repeat_interleave(self.BLOCK_SIZE[1], -1)[..., :q, :kv]

        b, h = self.shape[0], self.shape[1]
        result = places(self._part()) & create_mask(self.mask_mod, b, h, q, kv)
        whole = self._full()
        return result if whole is None else result | places(whole)

    def to(self, device: Any) -> BlockMask:
        """Itself: there is one device. Raises for another."""
        self.kv_indices.to(device)
        return self

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads and rows of blocks."""
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(slice(i, i + 1) if isinstance(i, int) and i >= 0 else i for i in index)
        full = self.full_kv_num_blocks, self.full_kv_indices
        return BlockMask(
            self.seq_lengths, self.kv_num_blocks[index], self.kv_indices[index],
            None if full[0] is None else full[0][index],
            None if full[1] is None else full[1][index], self.BLOCK_SIZE, self.mask_mod,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def create_block_mask(
    mask_mod: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,  # noqa: N803
    device: Any = None, BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE,  # noqa: N803
    _compile: bool = False, separate_full_blocks: bool = True,
) -> BlockMask:  # fmt: skip
    """The blocks in which a mask shows anything.

    Args:
        mask_mod: `mask_mod(b, h, q_idx, kv_idx)` gives a bool; it is called with index tensors
            that broadcast.
        B, H: batches and heads; None: the same for all.
        separate_full_blocks: whether blocks that are seen whole are listed apart.

    >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256)
    >>> mask.shape, mask.sparsity(), mask.to_dense()[0, 0]
    ((1, 1, 256, 256), 25.0, tensor([[1, 0],
            [1, 1]], dtype=torch.int32))
    """
    size = _pair(BLOCK_SIZE)
    count = _blocks(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), size)
    whole = count == size[0] * size[1]
    part = (count > 0) & ~whole if separate_full_blocks else count > 0
    some = _listed(part)
    full = _listed(whole) if separate_full_blocks else (None, None)
    return BlockMask((Q_LEN, KV_LEN), some[0], some[1], full[0], full[1], size, mask_mod)


def _expect_operands(query: Tensor, key: Tensor, value: Tensor, gqa: bool) -> None:
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.dim() != 4:
            raise ValueError(
                f"[flex_attention] expected {name} of 4 dimensions, got {t.dim()} (Expected query, "
                "key, and value to be 4D tensors)"
            )
    if not gqa and query.shape[1] != key.shape[1]:
        raise ValueError(
            f"[flex_attention] expected as many heads of key as of query, got {key.shape[1]} and "
            f"{query.shape[1]} (Expect query and key/value to have the same number of heads). "
            "Hint: enable_gqa=True"
        )
    if gqa and query.shape[1] % key.shape[1]:
        raise ValueError(
            f"[flex_attention] expected heads of query that are a multiple of key's, got "
            f"{query.shape[1]} and {key.shape[1]} (Expect number of query heads to be a multiple "
            "of kv heads for GQA)"
        )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Score | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with scores that a function changes and a mask of blocks.

    Args:
        query: (B, H, L, E); key, value: (B, H, S, E) and (B, H, S, Ev).
        score_mod: `score_mod(score, b, h, q_idx, kv_idx)` gives the score that counts; it is called
            once, with indices that broadcast with the scores.
        block_mask: what is seen; a row that sees nothing gives zeros.
        scale: of the scores, by default 1 / sqrt(E).
        enable_gqa: query may have a multiple of key's heads.
        return_lse: the logarithm of each row's sum of exponentials too.
        kernel_options: settings of kernels for GPUs; none may be given.
        return_aux: what to return besides.

    Raises:
        ValueError: shapes that do not fit.

    >>> x = weft.ones(1, 1, 2, 4)
    >>> flex_attention(x, x, x, lambda s, b, h, q, kv: s - (q - kv).abs())[0, 0, 0]
    tensor([1., 1., 1., 1.])
    """
    _expect_operands(query, key, value, enable_gqa)
    if kernel_options:
        raise ValueError(f"[flex_attention] expected no kernel_options, got {kernel_options!r}")
    if enable_gqa and query.shape[1] != key.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    wide = weft.float64 if query.dtype is weft.float64 else weft.float32
    scores = (query @ key.transpose(-2, -1)).to(wide) * factor
    shape = tuple(scores.shape)
    if score_mod is not None:
        made = score_mod(scores, *_indices(*shape))
        scores = _whole("flex_attention", made, shape).to(wide)
    if block_mask is not None:
        scores = scores.masked_fill(~_shown(block_mask, shape), -math.inf)
    hidden = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(hidden, 0.0).softmax(-1).masked_fill(hidden, 0.0)
    output = weights.to(value.dtype) @ value
    lse = scores.logsumexp(-1) if return_lse or (return_aux and return_aux.lse) else None
    if return_aux is not None:
        largest = scores.amax(-1) if return_aux.max_scores else None
        return output, AuxOutput(lse, largest)
    return (output, lse) if return_lse else output


def _shown(mask: BlockMask, shape: tuple[int, ...]) -> Tensor:
    """The mask for scores of a shape. ValueError: it is one for others."""
    q, kv = mask.seq_lengths
    if shape[2] > q or shape[3] > kv or any(
        m not in (1, n) for m, n in zip(mask.shape[:2], shape[:2], strict=True)
    ):  # fmt: skip
        raise ValueError(
            f"[flex_attention] expected a block_mask for scores of shape {shape}, got one of "
            f"{mask.shape} (block_mask was created for block_mask.shape={mask.shape} but got "
            f"q_len={shape[2]} and kv_len={shape[3]})"
        )
    return mask.seen()[..., : shape[2], : shape[3]]
