"""What processes exchange. Each collective has its meaning here, in whatever way the processes of
its group are joined (Note [Communicators], communicator.py)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.modes import DEFER, no_grad
from weft.distributed.agreement import agree
from weft.distributed.communicator import Request
from weft.distributed.reducing import ReduceOp, expect_op
from weft.distributed.work import Work
from weft.distributed.world import ProcessGroup, _is_outside, _known, get_group_rank, get_rank

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single",
    "broadcast", "gather", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


def _tensor(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )
    return value


def _tensors(values: Any, name: str) -> list[Tensor]:
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
        warnings.warn(
            f"Running {who} on global rank {get_rank()} which does not belong to the given group.",
            stacklevel=3,
        )
        return None
    return _known(chosen)


def _root(who: str, group: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    """The rank in the group of the process that an exchange starts from or ends at."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"[{who}] expected a rank of the world or of the group, got both")
    if rank is not None and group._ranks != list(range(group.size())):
        return get_group_rank(group, rank)
    root = (0 if rank is None else rank) if group_rank is None else group_rank
    if not 0 <= root < group.size():
        raise RuntimeError(
            f"[{who}] expected a rank below {group.size()}, got {root} (ProcessGroupGloo::{who}: "
            f"invalid root rank: {root})"
        )
    return root


def packed(t: Tensor) -> Tensor:
    """The tensor's elements in one piece, of its own memory where they lie so."""
    with no_grad():
        return t.detach().contiguous()


def _written(where: Tensor, piece: Tensor) -> None:
    """Brings what was received to where it was wanted, and tells the graph of it."""
    with no_grad():
        if piece.data_ptr() != where.data_ptr():
            where.copy_(piece.reshape(where.shape))
        elif not where.is_inference():
            _C._increment_version(where)


def begun(
    who: str, group: ProcessGroup, request: Request | None, async_op: bool,
    finish: Callable[[], None], result: Any = None,
) -> Work | None:  # fmt: skip
    """What an exchange returns: its Work, or None when it is done."""
    work = Work(who, request, finish, group._timeout, result)
    if async_op:
        return work.goes_on()
    work.wait()
    return None


def _count(who: str, name: str, got: Any, expected: int) -> None:
    if got != expected:
        raise ValueError(
            f"[{who}] expected {name} of as many elements as the processes have, {expected}, got "
            f"{got}"
        )


def _same_kind(who: str, first: Tensor, others: Sequence[Tensor]) -> None:
    for other in others:
        if other.dtype != first.dtype:
            raise ValueError(
                f"[{who}] expected tensors of one dtype, got {first.dtype} and {other.dtype} "
                "(Invalid usage of tensors with different dtypes)"
            )


def _divided(t: Tensor, size: int) -> None:
    """What is left of AVG when the sum is there."""
    with no_grad():
        if t.is_floating_point() or t.is_complex():
            t.div_(size)
        else:
            t.copy_(weft.div(t, size, rounding_mode="trunc"))


def _sum_of(op: ReduceOp) -> ReduceOp:
    return ReduceOp.SUM if op == ReduceOp.AVG else op


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Joins the tensors of all processes in place.

    Args:
        tensor: of any shape and dtype, the same in all processes; views are written, too.
        op: how; of bools SUM and MAX are `or`, PRODUCT and MIN `and`.
        async_op: return at once; the tensor is not to be touched until `wait()`.

    Returns: a Work with `async_op`; None in a process that is not of the group.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> x = weft.ones(2)
    >>> dist.all_reduce(x, dist.ReduceOp.SUM, async_op=True).wait()
    True
    >>> dist.destroy_process_group()
    """
    _tensor(tensor, "tensor")
    g = members("all_reduce", group)
    if g is None:
        return None
    op = expect_op("all_reduce", op, tensor)
    agree(g, "all_reduce", [tensor], {"op": op.name})
    piece = packed(tensor)

    def finish() -> None:
        if op == ReduceOp.AVG:
            _divided(piece, g.size())
        _written(tensor, piece)

    request = g._comm.all_reduce(piece, _sum_of(op))
    return begun("all_reduce", g, request, async_op, finish, [tensor])


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Joins the tensors of all processes in that of the one, `dst` in the world or `group_dst`.

    Of the shape and dtype that all processes give.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> t = weft.ones(2)
    >>> dist.reduce(t, dst=0)
    >>> t
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    _tensor(tensor, "tensor")
    g = members("reduce", group)
    if g is None:
        return None
    op = expect_op("reduce", op, tensor)
    root = _root("reduce", g, dst, group_dst)
    agree(g, "reduce", [tensor], {"op": op.name, "dst": root})
    piece = packed(tensor)

    def finish() -> None:
        if g.rank() == root:
            if op == ReduceOp.AVG:
                _divided(piece, g.size())
            _written(tensor, piece)

    request = g._comm.reduce(piece, _sum_of(op), root)
    return begun("reduce", g, request, async_op, finish, [tensor])


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Writes the tensor of one process into those of all.

    Of the shape and dtype that all processes give.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> t = weft.ones(2)
    >>> dist.broadcast(t, src=0)
    >>> t
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    _tensor(tensor, "tensor")
    g = members("broadcast", group)
    if g is None:
        return None
    root = _root("broadcast", g, src, group_src)
    agree(g, "broadcast", [tensor], {"src": root})
    piece = packed(tensor)

    def finish() -> None:
        if g.rank() != root:
            _written(tensor, piece)

    request = g._comm.broadcast(piece, root)
    return begun("broadcast", g, request, async_op, finish, [tensor])


def _flat(parts: Sequence[Tensor]) -> Tensor:
    """The elements of all, one tensor behind the other."""
    with no_grad():
        return weft.cat([part.detach().reshape(-1) for part in parts])


def _room(parts: Sequence[Tensor]) -> Tensor:
    """Memory for the elements of all."""
    return weft.empty(sum(part.numel() for part in parts), dtype=parts[0].dtype)


def _spread(parts: Sequence[Tensor], together: Tensor) -> None:
    for part, piece in zip(parts, together.split([part.numel() for part in parts])):
        _written(part, piece)


def _list_of_all(who: str, g: ProcessGroup, parts: Sequence[Tensor], one: Tensor) -> None:
    """A tensor of the same size and dtype for each process."""
    if len(parts) != g.size():
        short = {"all_gather": "allgather"}.get(who, who)
        raise ValueError(
            f"[{who}] expected {g.size()} tensors, one for each process, got {len(parts)} "
            f"(ProcessGroupGloo::{short}: invalid tensor list size)"
        )
    _same_kind(who, one, parts)
    for part in parts:
        _count(who, "tensors", part.numel(), one.numel())


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes the tensor of each process into the list's one at its rank. All are of one size.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> parts = [weft.empty(2)]
    >>> dist.all_gather(parts, weft.ones(2))
    >>> parts
    [tensor([1., 1.])]
    >>> dist.destroy_process_group()
    """
    _tensor(tensor, "tensor")
    parts = _tensors(tensor_list, "tensor_list")
    g = members("all_gather", group)
    if g is None:
        return None
    _list_of_all("all_gather", g, parts, tensor)
    agree(g, "all_gather", [tensor], {})
    room = _room(parts)
    request = g._comm.all_gather(room, packed(tensor))
    return begun("all_gather", g, request, async_op, lambda: _spread(parts, room), [parts])


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes the tensors of all processes one behind the other.

    n processes with [m, *] give [n m, *].

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> whole = weft.empty(2)
    >>> dist.all_gather_into_tensor(whole, weft.ones(2))
    >>> whole
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    _tensor(input_tensor, "input_tensor")
    _tensor(output_tensor, "output_tensor")
    g = members("all_gather_into_tensor", group)
    if g is None:
        return None
    _same_kind("all_gather_into_tensor", output_tensor, [input_tensor])
    expected = input_tensor.numel() * g.size()
    _count("all_gather_into_tensor", "an output", output_tensor.numel(), expected)
    agree(g, "all_gather_into_tensor", [input_tensor], {})
    piece = packed(output_tensor)
    request = g._comm.all_gather(piece, packed(input_tensor))
    return begun(
        "all_gather_into_tensor", g, request, async_op, lambda: _written(output_tensor, piece),
        [output_tensor],
    )  # fmt: skip


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """`all_gather` for one process, which alone has a list.

    The list's tensors have the shapes of the processes' ones.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> parts = [weft.empty(2)]
    >>> dist.gather(weft.ones(2), parts, dst=0)
    >>> parts
    [tensor([1., 1.])]
    >>> dist.destroy_process_group()
    """
    _tensor(tensor, "tensor")
    g = members("gather", group)
    if g is None:
        return None
    root = _root("gather", g, dst, group_dst)
    if g.rank() != root:
        if gather_list:
            raise ValueError(
                "Argument ``gather_list`` must NOT be specified on non-destination ranks."
            )
        agree(g, "gather", [tensor], {"dst": root})
        request = g._comm.gather(None, packed(tensor), root)
        return begun("gather", g, request, async_op, lambda: None)
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    parts = _tensors(gather_list, "gather_list")
    _list_of_all("gather", g, parts, tensor)
    agree(g, "gather", [tensor], {"dst": root})
    room = _room(parts)
    request = g._comm.gather(room, packed(tensor), root)
    return begun("gather", g, request, async_op, lambda: _spread(parts, room), [parts])


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """A tensor of one process' list for each, at its rank.

    The list's tensors have the shapes of the processes' ones.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = weft.empty(2)
    >>> dist.scatter(out, [weft.ones(2)], src=0)
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    _tensor(tensor, "tensor")
    g = members("scatter", group)
    if g is None:
        return None
    root = _root("scatter", g, src, group_src)
    room = None
    if g.rank() != root:
        if scatter_list:
            raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    elif not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    else:
        parts = _tensors(scatter_list, "scatter_list")
        _list_of_all("scatter", g, parts, tensor)
        room = _flat(parts)
    agree(g, "scatter", [tensor], {"src": root})
    piece = packed(tensor)
    request = g._comm.scatter(piece, room, root)
    return begun("scatter", g, request, async_op, lambda: _written(tensor, piece), [tensor])


def _reduce_scatter(
    who: str, output: Tensor, parts: Tensor, op: Any, g: ProcessGroup, async_op: bool
) -> Work | None:
    op = expect_op(who, op, output)
    agree(g, who, [output], {"op": op.name})
    piece = packed(output)

    def finish() -> None:
        if op == ReduceOp.AVG:
            _divided(piece, g.size())
        _written(output, piece)

    request = g._comm.reduce_scatter(piece, parts, _sum_of(op))
    return begun(who, g, request, async_op, finish, [output])


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Joins the lists of all processes; each gets the tensor at its rank.

    The output has the shape of each tensor of the list.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = weft.empty(2)
    >>> dist.reduce_scatter(out, [weft.ones(2)])
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    _tensor(output, "output")
    parts = _tensors(input_list, "input_list")
    g = members("reduce_scatter", group)
    if g is None:
        return None
    _list_of_all("reduce_scatter", g, parts, output)
    return _reduce_scatter("reduce_scatter", output, _flat(parts), op, g, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,  # noqa: A002
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`reduce_scatter` of tensors that lie one behind the other.

    n processes with [n m, *] get [m, *].

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = weft.empty(2)
    >>> dist.reduce_scatter_tensor(out, weft.ones(2))
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    _tensor(output, "output")
    _tensor(input, "input")
    g = members("reduce_scatter_tensor", group)
    if g is None:
        return None
    _same_kind("reduce_scatter_tensor", output, [input])
    _count("reduce_scatter_tensor", "an input", input.numel(), output.numel() * g.size())
    return _reduce_scatter("reduce_scatter_tensor", output, packed(input), op, g, async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Each process gets a tensor of each. Sizes may differ from one to the other.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = [weft.empty(2)]
    >>> dist.all_to_all(out, [weft.ones(2)])
    >>> out
    [tensor([1., 1.])]
    >>> dist.destroy_process_group()
    """
    into = _tensors(output_tensor_list, "output_tensor_list")
    out_of = _tensors(input_tensor_list, "input_tensor_list")
    g = members("all_to_all", group)
    if g is None:
        return None
    for parts in (into, out_of):
        if len(parts) != g.size():
            raise ValueError(
                f"[all_to_all] expected {g.size()} tensors, one for each process, got {len(parts)} "
                "(ProcessGroupGloo::alltoall: invalid tensor list size)"
            )
    _same_kind("all_to_all", into[0], [*into, *out_of])
    agree(g, "all_to_all", [], {"dtype": into[0].dtype})
    room = _room(into)
    counts = [part.numel() for part in into], [part.numel() for part in out_of]
    request = g._comm.all_to_all(room, _flat(out_of), *counts)
    return begun("all_to_all", g, request, async_op, lambda: _spread(into, room), into)


def split_rows(who: str, t: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    """How many rows are for each process: equal parts, or as the sizes say.

    Raises: RuntimeError for rows that are not shared so.
    """
    rows = t.shape[0] if t.dim() else 1
    if not sizes:
        if rows % count:
            raise RuntimeError(
                f"[{who}] expected rows that {count} processes share, got {rows} (Tensor's dim 0 "
                "does not divide equally across group size)"
            )
        return [rows // count] * count
    if len(sizes) != count or sum(sizes) != rows:
        raise RuntimeError(
            f"[{who}] expected sizes for {count} processes that sum to {rows} rows, got "
            f"{list(sizes)} (Split sizes doesn't match total dim 0 size)"
        )
    return list(sizes)


def _splits(who: str, t: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    """How many elements are for each process."""
    rows = split_rows(who, t, sizes, count)
    row = t.numel() // sum(rows) if sum(rows) else 0
    return [size * row for size in rows]


def all_to_all_single(
    output: Tensor,
    input: Tensor,  # noqa: A002
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`all_to_all` of tensors whose rows lie one behind the other, in equal parts or as the sizes
    say.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = weft.empty(2)
    >>> dist.all_to_all_single(out, weft.ones(2))
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    _tensor(output, "output")
    _tensor(input, "input")
    g = members("all_to_all_single", group)
    if g is None:
        return None
    _same_kind("all_to_all_single", output, [input])
    into = _splits("all_to_all_single", output, output_split_sizes, g.size())
    out_of = _splits("all_to_all_single", input, input_split_sizes, g.size())
    agree(g, "all_to_all_single", [], {"dtype": input.dtype})
    piece = packed(output)
    request = g._comm.all_to_all(piece, packed(input), into, out_of)
    return begun(
        "all_to_all_single", g, request, async_op, lambda: _written(output, piece), [output]
    )
