"""Sequences of unlike length in one tensor: padded to the longest, or packed step by step.

A packed sequence holds the first step of every sequence, then the second step of those that have
one, and so on; the sequences are sorted by length, longest first, so that each step's rows are the
first rows of the step before. Recurrent layers read it without touching padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import weft
from weft import Tensor
from weft.base import checks as _checks
from weft.base.forms import expect

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences packed step by step, as `pack_padded_sequence` makes them.

    Attributes:
        data: the steps, `(sum of lengths, *)`.
        batch_sizes: int64, the number of sequences that have each step.
        sorted_indices: the order of the sequences, None if they were sorted.
        unsorted_indices: the inverse of it.

    >>> packed = weft.nn.utils.rnn.pack_sequence([weft.tensor([1, 2]), weft.tensor([3])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 3, 2]), tensor([2, 1]))
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise TypeError(
                    "[PackedSequence] expected data and batch_sizes, or a pair of both, got one "
                    f"{type(data).__name__}"
                )
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, data: Tensor) -> PackedSequence:
        return type(self)(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with `data.to(...)`; itself where that changes nothing."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._with(data)

    def cpu(self) -> PackedSequence:
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self._with(self.data.cuda(*args, **kwargs))

    def double(self) -> PackedSequence:
        return self.to(weft.float64)

    def float(self) -> PackedSequence:
        return self.to(weft.float32)

    def half(self) -> PackedSequence:
        return self.to(weft.float16)

    def long(self) -> PackedSequence:
        return self.to(weft.int64)

    def int(self) -> PackedSequence:
        return self.to(weft.int32)

    def short(self) -> PackedSequence:
        return self.to(weft.int16)

    def char(self) -> PackedSequence:
        return self.to(weft.int8)

    def byte(self) -> PackedSequence:
        return self.to(weft.uint8)

    def pin_memory(self) -> PackedSequence:
        return self._with(self.data.pin_memory())

    def is_pinned(self) -> bool:
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation` (int64, `(n)`); None for None.

    >>> invert_permutation(weft.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else weft.argsort(permutation)


def _rows(lengths: Tensor, steps: int, width: int) -> Tensor:
    """Positions in a padded (steps * width) that hold data, in packed order."""
    held = weft.arange(steps, device=lengths.device).unsqueeze(1) < lengths.unsqueeze(0)
    return weft.nonzero(held.reshape(steps * width)).reshape(-1)


def _checked_lengths(lengths: Any, batch: int) -> Tensor:
    if not isinstance(lengths, Tensor):
        lengths = weft.tensor([int(n) for n in lengths], dtype=weft.int64, device="cpu")
    lengths = lengths.to(weft.int64)
    if lengths.dim() != 1 or lengths.numel() != batch:
        raise RuntimeError(
            "[pack_padded_sequence] expected a length for each sequence (Expected `len(lengths)` "
            f"to be equal to batch_size), got {lengths.numel()} (batch_size={batch})"
        )
    if batch == 0:
        raise RuntimeError(
            "[pack_padded_sequence] expected at least one sequence (Cannot pack empty tensors), "
            "got none"
        )
    if bool((lengths <= 0).any()):
        raise RuntimeError(
            "[pack_padded_sequence] expected lengths of 1 at least (Length of all samples has to "
            "be greater than 0, but found an element in 'lengths' that is <= 0), got "
            f"{int(lengths.min())}"
        )
    return lengths


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Iterable[float],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Packs padded sequences.

    Args:
        input: `(T, B, *)`, or `(B, T, *)` with `batch_first`.
        lengths: of the B sequences, 1 to T: a tensor, an array, or any numbers.
        enforce_sorted: whether they must come longest first; if not, they are sorted here.

    Raises:
        RuntimeError: lengths that do not fit, or are not sorted.

    >>> pack_padded_sequence(weft.tensor([[1, 2], [3, 0]]), [2, 1]).data
    tensor([1, 2, 3])
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"[pack_padded_sequence] expected an input of two dims at least, got {input.dim()}"
        )
    padded = input.transpose(0, 1) if batch_first else input
    steps, batch = padded.shape[:2]
    sizes = _checked_lengths(lengths, batch)
    order = None
    if not enforce_sorted:
        sizes, order = weft.sort(sizes, descending=True)
        padded = padded.index_select(1, order.to(padded.device))
    elif bool((sizes[1:] > sizes[:-1]).any()):
        raise RuntimeError(
            "[pack_padded_sequence] expected `lengths` array must be sorted in decreasing order "
            f"when `enforce_sorted` is True, got {sizes.tolist()}. Hint: pass enforce_sorted=False"
        )
    longest = int(sizes[0])
    if longest > steps:
        raise RuntimeError(
            f"[pack_padded_sequence] expected lengths of at most {steps}, the steps of the input, "
            f"got {longest}"
        )
    flat = padded[:longest].reshape(longest * batch, *padded.shape[2:])
    data = flat.index_select(0, _rows(sizes, longest, batch).to(flat.device))
    step = weft.arange(longest, device=sizes.device)
    batch_sizes = (step.unsqueeze(1) < sizes.unsqueeze(0)).sum(1)
    return PackedSequence(data, batch_sizes, order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded sequences, `(T, B, *)` or `(B, T, *)`, in their first order, and their lengths.

    `total_length`: T, if it shall be more than the longest. Raises ValueError if it is less.

    >>> padded, lengths = pad_packed_sequence(pack_sequence([weft.ones(2), weft.ones(1)]))
    >>> padded
    tensor([[1., 1.],
            [1., 0.]])
    """
    sizes = sequence.batch_sizes.tolist()
    longest, batch = len(sizes), sizes[0]
    steps = longest
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "[pad_packed_sequence] expected total_length to be at least the length of the "
                f"longest sequence in input, but got total_length={total_length} and max sequence "
                f"length being {longest}"
            )
        steps = total_length
    each = sequence.batch_sizes.unsqueeze(0)
    lengths = (weft.arange(batch, device=each.device).unsqueeze(1) < each).sum(1)
    data = sequence.data
    flat = weft.full(
        (steps * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device
    )
    flat[_rows(lengths, longest, batch)] = data
    padded = flat.reshape(steps, batch, *data.shape[1:])
    if batch_first:
        padded = padded.transpose(0, 1)
    back = sequence.unsorted_indices
    if back is not None:
        return padded.index_select(0 if batch_first else 1, back.to(padded.device)), lengths[back]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stacks tensors `(L_i, *)` padded to the longest: `(L, B, *)`, or `(B, L, *)`.

    Raises RuntimeError for none, unlike trailing sizes or another `padding_side` than "left" and
    "right".

    >>> pad_sequence([weft.ones(2), weft.ones(1)], batch_first=True)
    tensor([[1., 1.],
            [1., 0.]])
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            "[pad_sequence] expected padding_side to be one of left or right, but got "
            f"{padding_side}."
        )
    if isinstance(sequences, Tensor) and sequences.dim() == 0:
        raise TypeError(
            "[pad_sequence] expected tensors, got one without dims (iteration over a 0-d tensor)"
        )
    items = sequences.unbind(0) if isinstance(sequences, Tensor) else tuple(sequences)
    if not items:
        raise RuntimeError("[pad_sequence] expected tensors, received an empty list of sequences")
    for k, t in enumerate(items):
        expect("pad_sequence", t, Tensor, f"a Tensor as element {k}")
    rest, kind = items[0].shape[1:], items[0].dtype
    for t in items:
        if t.shape[1:] != rest:
            raise RuntimeError(
                f"[pad_sequence] expected trailing sizes {tuple(rest)} of every sequence, got "
                f"{tuple(t.shape[1:])}"
            )
    longest = max(t.shape[0] for t in items)
    rows = []
    for t in items:
        missing = longest - t.shape[0]
        if missing:
            fill = weft.full((missing, *rest), padding_value, dtype=kind, device=t.device)
            t = t.to(kind)
            t = weft.cat((t, fill) if padding_side == "right" else (fill, t))
        rows.append(t.to(kind))
    return weft.stack(rows, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of `pad_sequence`, given their lengths.

    >>> unpad_sequence(weft.ones(2, 3), weft.tensor([1, 2, 2]))[0]
    tensor([1.])
    """
    each = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(each, lengths.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs tensors `(L_i, *)`, longest first unless `enforce_sorted` is False.

    L steps of sequences [L, *] are packed in one tensor [sum of L, *].

    >>> pack_sequence([weft.tensor([1, 2]), weft.tensor([3])]).batch_sizes
    tensor([2, 1])
    """
    lengths = [t.shape[0] for t in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The tensors of `pack_sequence`.

    Tensors [L, *], as they were packed.

    >>> unpack_sequence(pack_sequence([weft.tensor([1, 2]), weft.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


_checks.install(__name__)
