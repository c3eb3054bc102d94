"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft._C import Tensor
from weft.distributed import leaving
from weft.distributed.agreement import expect_said, say
from weft.distributed.arguments import expect_tensor, members, packed, written
from weft.distributed.work import Work
from weft.distributed.world import ProcessGroup, get_group_rank, get_rank

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _other(group: ProcessGroup, word: str, rank: int | None, group_rank: int | None) -> int:
    """The rank in the group of the other process."""
    if group_rank is None:
        if rank is None:
            raise ValueError(
                f"[distributed] expected the {word} rank, got none (Must specify global_rank or "
                "group_rank)"
            )
        if rank == get_rank():
            group_rank = group.rank()
        elif not 0 <= rank < len(group._ranks) and rank not in group._ranks:
            raise ValueError(f"Global rank {rank} is not part of group {group}")
        else:
            group_rank = get_group_rank(group, rank)
    if group_rank == group.rank():
        raise ValueError(
            f"Invalid {word} rank: {word} rank should not be the same as the rank of the current "
            "process."
        )
    if not 0 <= group_rank < group.size():
        raise ValueError(
            f"[distributed] expected a {word} rank below {group.size()}, got {group_rank}"
        )
    return group_rank


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Starts to send a tensor, which is not to be changed until the Work is done.

    A tensor of any shape, as its receiver has it.

    Args:
        dst, group_dst: the receiver's rank in the world, or in the group.
        tag: tells messages between the same processes apart.
    """
    expect_tensor(tensor, "tensor")
    g = members("isend", group)
    if g is None:
        return None
    to = _other(g, "destination", dst, group_dst)
    piece = packed("isend", tensor)
    say(g, tensor, to, tag)
    request = g._comm.send(piece, to, tag)
    return Work("isend", request, timeout=g._timeout, left=_gone(g, to)).goes_on()


def _gone(group: ProcessGroup, other: int | None) -> Callable[[], list[int]]:
    """What tells that the other process, or all others, have ended."""
    ranks = [r for r in group._ranks if r != get_rank()] if other is None else [group._ranks[other]]

    def gone() -> list[int]:
        found = leaving.left(group._mark, ranks, None)
        return found if len(found) == len(ranks) else []

    return gone


class _Received(Work):
    """A message on its way here, and who sent it."""

    def __init__(
        self, request: Any, finish: Callable[[], None], group: ProcessGroup, t: Tensor,
        left: Callable[[], list[int]],
    ) -> None:  # fmt: skip
        self._message = request
        self._group = group
        super().__init__("recv", request, finish, group._timeout, [t], left)

    def _source_rank(self) -> int:
        self.wait()
        return int(self._group._ranks[self._message.source])


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Starts to receive into a tensor, of a process or, with neither `src` nor `group_src`, of any.

    The tensor has the shape and dtype of what is sent; RuntimeError for more than it has room for.
    """
    expect_tensor(tensor, "tensor")
    g = members("irecv", group)
    if g is None:
        return None
    anyone = src is None and group_src is None and g.size() > 1
    source = None if anyone else _other(g, "source", src, group_src)
    piece = packed("irecv", tensor)
    check = expect_said(g, tensor, source, tag)
    request: Any = g._comm.receive(piece, source, tag)

    def finish() -> None:
        check(request.source)
        written(tensor, piece)

    return _Received(request, finish, g, tensor, _gone(g, source)).goes_on()


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """`isend`, and waits.

    A tensor of any shape, as its receiver has it.
    """
    if (work := isend(tensor, dst, group, tag, group_dst)) is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """`irecv`, and waits. Returns the sender's rank in the world; -1 outside of the group.

    The tensor has the shape and dtype of what is sent.
    """
    work = irecv(tensor, src, group, tag, group_src)
    return work._source_rank() if isinstance(work, _Received) else -1


class P2POp:
    """A message for `batch_isend_irecv`.

    A tensor of any shape.

    Args:
        op: `isend` or `irecv`.
        tensor: what is sent, or written.
        peer, group_peer: the other's rank in the world, or in the group.
    """

    def __init__(
        self, op: Callable[..., Work | None], tensor: Tensor, peer: int | None = None,
        group: Any = None, tag: int = 0, group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        self.op, self.tensor, self.peer = op, expect_tensor(tensor, "tensor"), peer
        self.group, self.tag, self.group_peer = group, tag, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Starts messages, and returns the Work of each."""
    if not p2p_op_list or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    works = [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]
    return [work for work in works if work is not None]
