"""What the arguments of exchanges are looked at for, and how what they exchange is packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.modes import DEFER, no_grad
from weft.base.warn import warn
from weft.distributed.communicator import Request
from weft.distributed.work import Work
from weft.distributed.world import ProcessGroup, _is_outside, _known, get_group_rank, get_rank

__all__ = [
    "begun", "expect_alike_of_all", "expect_numel", "expect_same_dtype", "expect_tensor",
    "expect_tensors", "expect_tensors_of_all", "flat", "members", "packed", "room_for", "root_of",
    "spread", "written",
]  # fmt: skip


def expect_tensor(value: Any, name: str) -> Tensor:
    """TypeError for what is no tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )
    return value


def expect_tensors(values: Any, name: str) -> list[Tensor]:
    """TypeError for what is no list of tensors."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} instead."
        )
    return list(values)


def members(who: str, chosen: Any) -> ProcessGroup | None:
    """The group of an exchange; None, with a warning, for one that this process is not of."""
    if _C._mode() & DEFER:
        raise RuntimeError(
            f"[{who}] expected to be called outside of autobatch, got a call for one example. "
            "Hint: other processes have other examples; exchange before or after the batch"
        )
    if _is_outside(chosen):
        warn(f"Running {who} on global rank {get_rank()} which does not belong to the given group.")
        return None
    return _known(chosen)


def root_of(
    who: str, group: ProcessGroup, rank: int | None, group_rank: int | None,
    default: int | None = None,
) -> int:  # fmt: skip
    """The rank in the group of the process that an exchange starts from or ends at.

    Args:
        rank, group_rank: in the world, or in the group.
        default: in the world, where neither is given.
    """
    if rank is not None and group_rank is not None:
        raise ValueError(
            f"[{who}] expected a rank of the world or of the group, got both (Can't specify both "
            "group_rank and global_rank)"
        )
    if rank is None and group_rank is None:
        rank = default
    if rank is not None and group._ranks != list(range(group.size())):
        return get_group_rank(group, rank)
    root = rank if group_rank is None else group_rank
    if root is None:
        word = "dst" if who == "reduce" else "src"
        raise ValueError(
            f"[{who}] expected {word} or group_{word}, got neither (Must specify global_rank or "
            "group_rank)"
        )
    if not 0 <= root < group.size():
        raise RuntimeError(
            f"[{who}] expected a rank below {group.size()}, got {root} (ProcessGroupGloo::{who}: "
            f"invalid root rank: {root})"
        )
    return root


def packed(who: str, t: Tensor) -> Tensor:
    """The tensor's elements in one piece, of its own memory where they lie so.

    Raises: RuntimeError for a tensor that has no elements in memory.
    """
    if t.is_meta or t.layout != weft.strided:
        raise RuntimeError(
            f"[{who}] expected a dense tensor with memory, got one of "
            + ("the meta device" if t.is_meta else f"layout {t.layout}. Hint: to_dense()")
        )
    with no_grad():
        return t.detach().contiguous()


def _once(t: Tensor) -> Tensor:
    """A part of a tensor that has each place in memory once, where `expand` made it."""
    for dim, (size, stride) in enumerate(zip(t.shape, t.stride())):
        if stride == 0 and size > 1:
            t = t.narrow(dim, 0, 1)
    return t


def written(where: Tensor, piece: Tensor) -> None:
    """Brings what was received to where it was wanted, and tells the graph of it."""
    with no_grad():
        if piece.data_ptr() != where.data_ptr():
            place = _once(where)
            piece = piece.reshape(where.shape)
            for dim, size in enumerate(place.shape):
                piece = piece.narrow(dim, 0, size)
            place.copy_(piece)
        elif not where.is_inference():
            _C._increment_version(where)


def begun(
    who: str, group: ProcessGroup, request: Request | None, async_op: bool,
    finish: Callable[[], None], result: Any = None,
) -> Work | None:  # fmt: skip
    """What an exchange returns: its Work, or None when it is done."""
    work = Work(who, request, finish, group._timeout, result, group._left())
    if async_op:
        return work.goes_on()
    work.wait()
    return None


def expect_numel(who: str, name: str, got: int, expected: int) -> None:
    """RuntimeError for another number of elements."""
    if got != expected:
        raise RuntimeError(
            f"[{who}] expected {name} of as many elements as the processes have, {expected}, got "
            f"{got} (invalid tensor size)"
        )


def expect_same_dtype(who: str, first: Tensor, others: Sequence[Tensor]) -> None:
    """ValueError for tensors of unlike dtypes."""
    for other in others:
        if other.dtype != first.dtype:
            raise ValueError(
                f"[{who}] expected tensors of one dtype, got {first.dtype} and {other.dtype} "
                "(Invalid usage of tensors with different dtypes)"
            )


def flat(parts: Sequence[Tensor]) -> Tensor:
    """The elements of all, one tensor behind the other."""
    with no_grad():
        return weft.cat([part.detach().reshape(-1) for part in parts])


def room_for(parts: Sequence[Tensor]) -> Tensor:
    """Memory for the elements of all."""
    return weft.empty(sum(part.numel() for part in parts), dtype=parts[0].dtype)


def spread(parts: Sequence[Tensor], together: Tensor) -> None:
    """Writes into each its elements of what was received."""
    for part, piece in zip(parts, together.split([part.numel() for part in parts])):
        written(part, piece)


def expect_tensors_of_all(who: str, group: ProcessGroup, tensors: Sequence[Tensor]) -> None:
    """RuntimeError for another number than a tensor for each process."""
    if len(tensors) != group.size():
        short = {"all_gather": "allgather", "all_to_all": "alltoall"}.get(who, who)
        raise RuntimeError(
            f"[{who}] expected {group.size()} tensors, one for each process, got {len(tensors)} "
            f"(ProcessGroupGloo::{short}: invalid tensor list size)"
        )


def expect_alike_of_all(
    who: str, group: ProcessGroup, tensors: Sequence[Tensor], one: Tensor
) -> None:
    """The same, of the size and dtype of `one`."""
    expect_tensors_of_all(who, group, tensors)
    expect_same_dtype(who, one, tensors)
    for tensor in tensors:
        expect_numel(who, "tensors", tensor.numel(), one.numel())
