"""Functions that make nested tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.base import checks as _checks
from weft.base.device import expect_cpu
from weft.base.names import jagged, strided
from weft.nested.padded import to_padded_tensor
from weft.nested.parts import joined
from weft.nested.tensor import Jagged, NestedTensor, alias, nested, raw

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]  # fmt: skip


def _layout(layout: Any, what: str = "tensors") -> bool:
    """Whether it is strided. Raises RuntimeError for one that nested tensors have not."""
    if layout is None or layout is strided:
        return True
    if layout is jagged:
        return False
    raise RuntimeError(
        f"[nested] expected layout torch.jagged or torch.strided, got {layout} (Specified layout "
        f"is unsupported for nested {what}: {layout})"
    )


def _ragged_of(tensors: Sequence[Tensor]) -> int:
    """The one dim in which the tensors differ, with the batch before them. Raises RuntimeError."""

    def fail(what: str, sentence: str) -> RuntimeError:
        return RuntimeError(f"[nested_tensor] expected {what} ({sentence})")

    if not tensors:
        raise fail(
            "tensors, got none", "Cannot construct a nested tensor from an empty tensor list"
        )
    for what in ("dtype", "dim"):
        found = {t.dtype if what == "dtype" else t.dim() for t in tensors}
        if len(found) > 1:
            raise fail(
                f"one {what}, got {sorted(map(str, found))}",
                f"When constructing a nested tensor, all tensors in list must have the same {what}",
            )
    first = tensors[0].shape
    if not first:
        raise fail(
            "tensors with dimensions, got numbers",
            "Cannot construct a nested tensor from a list of zero-dim tensors",
        )
    ragged = [d for d in range(len(first)) if any(t.shape[d] != first[d] for t in tensors)]
    if len(ragged) > 1:
        raise fail(
            f"tensors that differ in one dimension, got {[tuple(t.shape) for t in tensors]}",
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            "that the jagged layout only allows for a single ragged dimension. For example: (B, *, "
            "D_0, D_1, ..., D_N), with ragged * dim.",
        )
    return ragged[0] + 1 if ragged else 1


def _of_list(tensors: Sequence[Tensor], dtype: Any, is_strided: bool) -> NestedTensor:
    made = joined(list(tensors), _ragged_of(tensors), is_strided)
    return made if dtype is None or dtype is made.dtype else made.to(dtype)  # type: ignore[return-value]


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor of copies of the tensors, a leaf.

    Args:
        tensor_list: tensors, or what `weft.tensor` takes, that differ in the size of one dimension.
        dtype: another one than theirs.
        layout: `weft.jagged`; or `weft.strided`, which is the default and tells sizes and prints
            as PyTorch's nested tensors of that layout do.
        device: the CPU.
        requires_grad: whether gradients are wanted.
        pin_memory: False: only accelerators have such memory.

    Raises:
        RuntimeError: no tensors, or tensors of several dtypes or numbers of dimensions, or that
            differ in several dimensions.

    >>> import weft
    >>> x = weft.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=weft.jagged)
    >>> x.shape[0], x.offsets()
    (2, tensor([0, 2, 3]))
    >>> weft.nested.nested_tensor([[1.0, 2.0], [3.0]])
    nested_tensor([
      tensor([1., 2.]),
      tensor([3.])
    ])
    """
    is_strided = _layout(layout)
    expect_cpu(device)
    if pin_memory:
        raise RuntimeError(
            "[nested_tensor] expected pin_memory=False, got True (pin_memory=True requires a CUDA "
            "or other accelerator backend; no pinned memory allocator is available on this system.)"
        )
    tensors = [t if isinstance(t, Tensor) else weft.as_tensor(t) for t in tensor_list]
    with weft.no_grad():
        made = _of_list(tensors, dtype, is_strided)
    return raw(lambda: made.requires_grad_(requires_grad))


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of the tensors, whose gradients go to them.

    Args:
        ts: tensors that differ in the size of one dimension; a dense tensor, whose first dimension
            is the batch; or a nested one, which is returned.
        dtype: another one than theirs.
        device: the CPU.
        layout: as that of `nested_tensor`.

    Raises:
        TypeError: something else than tensors.
        RuntimeError: as `nested_tensor`, or a dense tensor of fewer than 2 dimensions.

    >>> import weft
    >>> a = weft.ones(2, requires_grad=True)
    >>> x = weft.nested.as_nested_tensor([a, weft.zeros(3)], layout=weft.jagged)
    >>> (x * 3).sum().backward()
    >>> a.grad
    tensor([3., 3.])
    """
    some = isinstance(ts, (list, tuple)) and all(isinstance(t, Tensor) for t in ts)
    if not isinstance(ts, Tensor) and not some:
        raise TypeError(
            f"[as_nested_tensor] expected tensors, got {type(ts).__name__} (as_nested_tensor(): "
            "Expected first argument to be a tensor or a list / tuple of tensors)"
        )
    expect_cpu(device)
    if isinstance(ts, NestedTensor):
        if layout is not ts.layout:
            raise RuntimeError(
                f"[as_nested_tensor] expected layout {ts.layout}, got {layout} (as_nested_tensor():"
                " Converting between nested tensor layouts is not supported)"
            )
        return ts if dtype is None else ts.to(dtype)
    is_strided = _layout(layout)
    if not isinstance(ts, Tensor):
        return _of_list(ts, dtype, is_strided)
    if ts.dim() < 2:
        raise RuntimeError(
            f"[as_nested_tensor] expected 2 dims at least, got {ts.dim()} (as_nested_tensor(): "
            "Expected tensor argument to have dim() > 1)"
        )
    parts_, length = ts.shape[0], ts.shape[1]
    values = ts.contiguous().flatten(0, 1).to(ts.dtype if dtype is None else dtype)
    offsets = weft.arange(parts_ + 1) * length
    return nested(alias(values), Jagged(offsets, None, length, length), 1, is_strided)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A nested tensor over the memory of `values`, in the graph as a view.

    Args:
        values: `(rows, ...)`: the parts one after the other.
        offsets: int64 `[parts + 1]`: where they begin, and where the last one ends.
        lengths: int64 `[parts]`: how long they are. With offsets too, parts may end before the next
            one begins.
        jagged_dim: the ragged dimension of the result, from 1 on; 1 by default.
        min_seqlen, max_seqlen: the lengths of the shortest and the longest part, if known.

    Raises:
        RuntimeError: neither offsets nor lengths.
        ValueError: `jagged_dim` below 1.

    >>> import weft
    >>> x = weft.nested.nested_tensor_from_jagged(weft.arange(5), lengths=weft.tensor([2, 3]))
    >>> x.unbind()
    (tensor([0, 1]), tensor([2, 3, 4]))
    """
    if jagged_dim is not None and jagged_dim < 1:
        raise ValueError(
            f"[nested_tensor_from_jagged] expected jagged_dim from 1 on, got {jagged_dim} "
            f"(Expected jagged_dim >=1, but got {jagged_dim}.)"
        )
    if offsets is None:
        if lengths is None:
            raise RuntimeError(
                "[nested_tensor_from_jagged] expected offsets or lengths, got neither "
                "(nested_tensor_from_jagged(): At least one of offsets or lengths is required.)"
            )
        offsets, lengths = weft.nn.functional.pad(lengths.cumsum(0), (1, 0)), None
    _check_jagged(values, offsets, lengths, jagged_dim or 1)
    return nested(alias(values), Jagged(offsets, lengths, min_seqlen, max_seqlen), jagged_dim or 1)


def _check_jagged(values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged: int) -> None:
    who = "nested_tensor_from_jagged"
    if isinstance(values, NestedTensor):
        raise AssertionError(f"[{who}] expected dense values, got a nested tensor (values must not "
                             "be a NestedTensor)")  # fmt: skip
    if offsets.dim() != 1:
        raise AssertionError(
            f"[{who}] expected offsets of 1 dim, got {offsets.dim()} (offsets must be 1D, but got "
            f"{offsets.dim()}D)"
        )
    if ragged > values.dim():
        raise IndexError(f"[{who}] expected values with {ragged} dims at least, got {values.dim()}")
    if lengths is not None and lengths.shape[0] != offsets.shape[0] - 1:
        raise AssertionError(
            f"[{who}] expected a length for each part, got {lengths.shape[0]} for "
            f"{offsets.shape[0] - 1} (offsets and lengths batch sizes must match: offsets.shape[0] "
            f"- 1 = {offsets.shape[0] - 1}, lengths.shape[0] = {lengths.shape[0]})"
        )


def _per_part(value: Any, name: str, parts_: int) -> Tensor:
    if isinstance(value, bool) or not isinstance(value, (int, Tensor)):
        raise RuntimeError(
            f"[narrow] expected {name} as an integer or a tensor, got {type(value).__name__} "
            f"({name} must be an integer or a tensor)"
        )
    given = value if isinstance(value, Tensor) else weft.tensor([value])
    if given.dim() > 1 or (given.dim() == 1 and given.shape[0] not in (1, parts_)):
        raise RuntimeError(
            f"[narrow] expected {name} for each of {parts_} parts, got {tuple(given.shape)} (When "
            "constructing a jagged nested tensor using narrow(), your start and length must be "
            "Tensors that broadcast to input.shape[0])"
        )
    return given.long().expand(parts_)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = strided) -> Tensor:
    """Of each example of a dense batch the rows from `start` on, as a nested tensor.

    Args:
        tensor: `(batch, rows, ...)`.
        dim: 1.
        start: an integer, or int64 `[batch]`.
        length: how many rows, as `start`.
        layout: `weft.jagged`: a view of `tensor`; or `weft.strided`, with integers: a copy.

    Raises:
        RuntimeError: another dim, or starts or lengths that do not fit.

    >>> import weft
    >>> x = weft.arange(6).view(2, 3)
    >>> weft.nested.narrow(x, 1, 0, weft.tensor([1, 2]), layout=weft.jagged).unbind()
    (tensor([0]), tensor([3, 4]))
    """
    starts, counts = (
        _per_part(v, name, tensor.shape[0]) for v, name in ((start, "start"), (length, "length"))
    )
    if _layout(layout, "narrow"):
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError(
                "[narrow] expected integers, got tensors (start and length must be integers for "
                "the strided layout NT impl)"
            )
        return as_nested_tensor(list(tensor.narrow(dim, start, length).unbind()))
    if dim != 1:
        raise RuntimeError(
            f"[narrow] expected dim=1, got {dim} (jagged layout only supports dim=1)"
        )
    rows = tensor.shape[1]
    first = starts + rows * weft.arange(tensor.shape[0])
    offsets = weft.cat([first, (first[-1] + counts[-1]).unsqueeze(0)])
    values = tensor.view(-1, *tensor.shape[2:])
    least, most = int(counts.min()), int(counts.max())
    if weft.equal(offsets[:-1] + counts, offsets[1:]):  # one part ends where the next begins
        begin, end = int(offsets[0]), int(offsets[-1])
        return nested(alias(values[begin:end]), Jagged(offsets - begin, None, least, most), 1)
    return nested(alias(values), Jagged(offsets, counts.contiguous(), least, most), 1)


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """What `mask` shows of each row of a dense tensor, as a nested tensor.

    Args:
        tensor: `(..., columns)`.
        mask: bool, broadcast to it.

    Raises:
        RuntimeError: a tensor or a mask that is not strided.

    >>> import weft
    >>> x = weft.arange(4).view(2, 2)
    >>> weft.nested.masked_select(x, x != 1).unbind()
    (tensor([0]), tensor([2, 3]))
    """
    for what, t in (("tensor", tensor), ("mask", mask)):
        if t.layout is not strided:
            raise RuntimeError(
                f"[masked_select] expected a strided {what}, got {t.layout} (torch.nested."
                f"masked_select requires a strided {what}, given {t.layout})"
            )
    counts = mask.expand(tensor.shape).sum(-1).view(-1)
    offsets = weft.nn.functional.pad(counts.cumsum(0), (1, 0))
    return nested(tensor.masked_select(mask), Jagged(offsets), 1)


def selected(x: NestedTensor, mask: Any) -> NestedTensor:
    """What a nested mask shows of each part of a nested tensor of 2 dims."""
    if x.dim() > 2:
        raise RuntimeError(
            f"[masked_select] expected 2 dims, got {x.dim()} (masked_select only support 2-D "
            "selections currently)"
        )
    if not isinstance(mask, NestedTensor) or mask._jagged.size != x._jagged.size:
        raise RuntimeError(
            f"[masked_select] expected a mask of shape {x.shape}, got {mask.shape} (Mask with shape"
            f" {mask.shape} is not compatible with input's shape {x.shape})"
        )
    shown = alias(mask)
    seen = weft.nn.functional.pad(shown.cumsum(0), (1, 0))
    values = alias(x).masked_select(shown)
    return nested(values, Jagged(seen[x._jagged.offsets]), 1)


_checks.install(__name__)
