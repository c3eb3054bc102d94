"""What processes exchange. Each collective has its meaning here, in whatever way the processes of
its group are joined (Note [Communicators], communicator.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft._C import Tensor
from weft.base.modes import no_grad
from weft.distributed.agreement import agree, agree_on_parts
from weft.distributed.arguments import (
    begun,
    expect_alike_of_all,
    expect_numel,
    expect_same_dtype,
    expect_tensor,
    expect_tensors,
    expect_tensors_of_all,
    flat,
    members,
    packed,
    room_for,
    root_of,
    spread,
    written,
)
from weft.distributed.reducing import ReduceOp, expect_op
from weft.distributed.work import Work
from weft.distributed.world import ProcessGroup

__all__ = [
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single",
    "broadcast", "gather", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


def _divided(t: Tensor, size: int) -> None:
    """What is left of AVG when the sum is there."""
    with no_grad():
        if t.is_floating_point() or t.is_complex():
            t.div_(size)
        else:
            t.copy_(weft.div(t, size, rounding_mode="trunc"))


def _expect_kind(who: str, output: Tensor, input: Tensor) -> None:  # noqa: A002
    if output.dtype != input.dtype:
        raise RuntimeError(
            f"[{who}] expected an output of dtype {input.dtype}, as the input, got {output.dtype} "
            "(invalid tensor type)"
        )


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
    expect_tensor(tensor, "tensor")
    g = members("all_reduce", group)
    if g is None:
        return None
    op = expect_op("all_reduce", op, tensor)
    agree(g, "all_reduce", [tensor], {"op": op.name})
    piece = packed("all_reduce", tensor)

    def finish() -> None:
        if op == ReduceOp.AVG:
            _divided(piece, g.size())
        written(tensor, piece)

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
    expect_tensor(tensor, "tensor")
    g = members("reduce", group)
    if g is None:
        return None
    op = expect_op("reduce", op, tensor)
    root = root_of("reduce", g, dst, group_dst)
    agree(g, "reduce", [tensor], {"op": op.name, "dst": root})
    piece = packed("reduce", tensor)

    def finish() -> None:
        if g.rank() == root:
            if op == ReduceOp.AVG:
                _divided(piece, g.size())
            written(tensor, piece)

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
    expect_tensor(tensor, "tensor")
    g = members("broadcast", group)
    if g is None:
        return None
    root = root_of("broadcast", g, src, group_src)
    agree(g, "broadcast", [tensor], {"src": root})
    piece = packed("broadcast", tensor)

    def finish() -> None:
        if g.rank() != root:
            written(tensor, piece)

    request = g._comm.broadcast(piece, root)
    return begun("broadcast", g, request, async_op, finish, [tensor])


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
    expect_tensor(tensor, "tensor")
    parts = expect_tensors(tensor_list, "tensor_list")
    g = members("all_gather", group)
    if g is None:
        return None
    expect_alike_of_all("all_gather", g, parts, tensor)
    agree(g, "all_gather", [tensor], {})
    room = room_for(parts)
    request = g._comm.all_gather(room, packed("all_gather", tensor))
    return begun("all_gather", g, request, async_op, lambda: spread(parts, room), [parts])


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
    expect_tensor(input_tensor, "input_tensor")
    expect_tensor(output_tensor, "output_tensor")
    g = members("all_gather_into_tensor", group)
    if g is None:
        return None
    _expect_kind("all_gather_into_tensor", output_tensor, input_tensor)
    expected = input_tensor.numel() * g.size()
    expect_numel("all_gather_into_tensor", "an output", output_tensor.numel(), expected)
    agree(g, "all_gather_into_tensor", [input_tensor], {})
    piece = packed("all_gather_into_tensor", output_tensor)
    request = g._comm.all_gather(piece, packed("all_gather_into_tensor", input_tensor))
    return begun(
        "all_gather_into_tensor", g, request, async_op, lambda: written(output_tensor, piece),
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
    expect_tensor(tensor, "tensor")
    g = members("gather", group)
    if g is None:
        return None
    root = root_of("gather", g, dst, group_dst, 0)
    if g.rank() != root:
        if gather_list:
            raise ValueError(
                "Argument ``gather_list`` must NOT be specified on non-destination ranks."
            )
        agree(g, "gather", [tensor], {"dst": root})
        request = g._comm.gather(None, packed("gather", tensor), root)
        return begun("gather", g, request, async_op, lambda: None)
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    parts = expect_tensors(gather_list, "gather_list")
    expect_alike_of_all("gather", g, parts, tensor)
    agree(g, "gather", [tensor], {"dst": root})
    room = room_for(parts)
    request = g._comm.gather(room, packed("gather", tensor), root)
    return begun("gather", g, request, async_op, lambda: spread(parts, room), [parts])


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
    expect_tensor(tensor, "tensor")
    g = members("scatter", group)
    if g is None:
        return None
    root = root_of("scatter", g, src, group_src, 0)
    room = None
    if g.rank() != root:
        if scatter_list:
            raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    elif not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    else:
        parts = expect_tensors(scatter_list, "scatter_list")
        expect_alike_of_all("scatter", g, parts, tensor)
        room = flat(parts)
    agree(g, "scatter", [tensor], {"src": root})
    piece = packed("scatter", tensor)
    request = g._comm.scatter(piece, room, root)
    return begun("scatter", g, request, async_op, lambda: written(tensor, piece), [tensor])


def _reduce_scatter(
    who: str, output: Tensor, parts: Tensor, counts: Sequence[int], op: Any, g: ProcessGroup,
    async_op: bool,
) -> Work | None:  # fmt: skip
    op = expect_op(who, op, output)
    agree(g, who, [], {"dtype": output.dtype, "counts": list(counts), "op": op.name})
    piece = packed(who, output)

    def finish() -> None:
        if op == ReduceOp.AVG:
            _divided(piece, g.size())
        written(output, piece)

    request = g._comm.reduce_scatter(piece, parts, counts, _sum_of(op))
    return begun(who, g, request, async_op, finish, [output])


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Joins the lists of all processes; each gets the tensor at its rank.

    The output has the shape of that tensor; others of the list may have others, in all processes
    the same.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = weft.empty(2)
    >>> dist.reduce_scatter(out, [weft.ones(2)])
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    expect_tensor(output, "output")
    parts = expect_tensors(input_list, "input_list")
    g = members("reduce_scatter", group)
    if g is None:
        return None
    expect_tensors_of_all("reduce_scatter", g, parts)
    expect_same_dtype("reduce_scatter", output, parts)
    counts = [part.numel() for part in parts]
    name = f"an output of the size of tensor {g.rank()} of the list, that is"
    expect_numel("reduce_scatter", name, output.numel(), counts[g.rank()])
    return _reduce_scatter("reduce_scatter", output, flat(parts), counts, op, g, async_op)


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
    expect_tensor(output, "output")
    expect_tensor(input, "input")
    g = members("reduce_scatter_tensor", group)
    if g is None:
        return None
    _expect_kind("reduce_scatter_tensor", output, input)
    expect_numel("reduce_scatter_tensor", "an input", input.numel(), output.numel() * g.size())
    who, counts = "reduce_scatter_tensor", [output.numel()] * g.size()
    return _reduce_scatter(who, output, packed(who, input), counts, op, g, async_op)


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
    into = expect_tensors(output_tensor_list, "output_tensor_list")
    out_of = expect_tensors(input_tensor_list, "input_tensor_list")
    g = members("all_to_all", group)
    if g is None:
        return None
    for parts in (into, out_of):
        expect_tensors_of_all("all_to_all", g, parts)
    expect_same_dtype("all_to_all", into[0], [*into, *out_of])
    agree(g, "all_to_all", [], {"dtype": into[0].dtype})
    counts = [part.numel() for part in into], [part.numel() for part in out_of]
    agree_on_parts(g, "all_to_all", *counts)
    room = room_for(into)
    request = g._comm.all_to_all(room, flat(out_of), *counts)
    return begun("all_to_all", g, request, async_op, lambda: spread(into, room), into)


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
    if len(sizes) != count:
        raise RuntimeError(
            f"[{who}] expected {count} sizes, one for each process, got {len(sizes)} (Number of "
            "tensor splits not equal to group size)"
        )
    if sum(sizes) != rows:
        raise RuntimeError(
            f"[{who}] expected sizes that sum to {rows} rows, got "
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
    expect_tensor(output, "output")
    expect_tensor(input, "input")
    g = members("all_to_all_single", group)
    if g is None:
        return None
    expect_same_dtype("all_to_all_single", output, [input])
    into = _splits("all_to_all_single", output, output_split_sizes, g.size())
    out_of = _splits("all_to_all_single", input, input_split_sizes, g.size())
    agree(g, "all_to_all_single", [], {"dtype": input.dtype})
    agree_on_parts(g, "all_to_all_single", into, out_of)
    piece = packed("all_to_all_single", output)
    request = g._comm.all_to_all(piece, packed("all_to_all_single", input), into, out_of)
    return begun(
        "all_to_all_single", g, request, async_op, lambda: written(output, piece), [output]
    )


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_reduce` of several tensors of one dtype, of any shapes, in one message.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> parts = [weft.ones(2), weft.ones(1)]
    >>> dist.all_reduce_coalesced(parts)
    >>> parts
    [tensor([1., 1.]), tensor([1.])]
    >>> dist.destroy_process_group()
    """
    who = "all_reduce_coalesced"
    parts = expect_tensors([tensors] if isinstance(tensors, Tensor) else tensors, "tensors")
    g = members(who, group)
    if g is None or not parts:
        return None
    expect_same_dtype(who, parts[0], parts)
    op = expect_op(who, op, parts[0])
    agree(g, who, parts, {"op": op.name})
    together = flat(parts)

    def finish() -> None:
        if op == ReduceOp.AVG:
            _divided(together, g.size())
        spread(parts, together)

    request = g._comm.all_reduce(together, _sum_of(op))
    return begun(who, g, request, async_op, finish, parts)


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]], input_tensor_list: Sequence[Tensor],
    group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """`all_gather` of several tensors of one dtype, of any shapes, in one message.

    Args:
        output_tensor_lists: for each process a list of tensors like those of the input.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = [[weft.empty(2), weft.empty(1)]]
    >>> dist.all_gather_coalesced(out, [weft.ones(2), weft.ones(1)])
    >>> out
    [[tensor([1., 1.]), tensor([1.])]]
    >>> dist.destroy_process_group()
    """
    who = "all_gather_coalesced"
    mine = expect_tensors(input_tensor_list, "input_tensor_list")
    lists = [expect_tensors(each, "output_tensor_lists") for each in output_tensor_lists]
    g = members(who, group)
    if g is None:
        return None
    if len(lists) != g.size() or any(
        [t.shape for t in m] != [t.shape for t in mine] for m in lists
    ):
        raise RuntimeError(
            f"[{who}] expected {g.size()} lists of tensors of shapes "
            f"{[list(t.shape) for t in mine]}, got {[[list(t.shape) for t in m] for m in lists]} "
            "(invalid output tensor list)"
        )
    if not mine:
        return None
    parts = [t for each in lists for t in each]
    expect_same_dtype(who, mine[0], [*mine, *parts])
    agree(g, who, mine, {})
    room = room_for(parts)
    request = g._comm.all_gather(room, flat(mine))
    return begun(who, g, request, async_op, lambda: spread(parts, room), lists)
