"""Exchanges that carry gradients: what comes back to a process is what its values did in all.

Backward exchanges too, so all processes of the group call it, in one order. The value of the loss
is the sum of those of all processes.

>>> dist = weft.distributed
>>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
>>> x = weft.ones(2, requires_grad=True)
>>> dist.nn.functional.all_reduce(x * 3).sum().backward()
>>> x.grad
tensor([3., 3.])
>>> dist.destroy_process_group()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft._C import Tensor
from weft.distributed import exchanges
from weft.distributed.reducing import ReduceOp
from weft.distributed.world import _known, get_global_rank, get_rank, get_world_size

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
    "reduce_scatter", "scatter",
]  # fmt: skip


def _is_root(group: Any, root: int) -> bool:
    return get_global_rank(_known(group), get_rank(group)) == root


class _AllReduce(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        out = tensor.clone()
        exchanges.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _Broadcast(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        out = tensor.clone()
        exchanges.broadcast(out, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        out = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, out if _is_root(ctx.group, ctx.src) else weft.zeros_like(out)


class _Reduce(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: ReduceOp, group: Any, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.group = dst, group
        out = tensor.clone()
        exchanges.reduce(out, dst, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _AllGather(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> Any:
        ctx.group = group
        parts = [weft.empty(tensor.shape, dtype=tensor.dtype) for _ in range(get_world_size(group))]
        exchanges.all_gather(parts, tensor, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, *grads)


class _ReduceScatter(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: Any, *parts: Tensor) -> Tensor:
        ctx.group = group
        mine = parts[get_rank(group)]
        out = weft.empty(mine.shape, dtype=mine.dtype)
        exchanges.reduce_scatter(out, list(parts), op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_AllGather.apply(ctx.group, grad)


class _Gather(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> Any:
        ctx.dst, ctx.group = dst, group
        parts = [weft.zeros(tensor.shape, dtype=tensor.dtype) for _ in range(get_world_size(group))]
        exchanges.gather(tensor, parts if _is_root(group, dst) else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *parts: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        out = weft.empty(parts[0].shape, dtype=parts[0].dtype)
        exchanges.scatter(out, list(parts) if _is_root(group, src) else None, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _AllToAll(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shapes: Sequence[Any], *parts: Tensor) -> Any:
        ctx.group, ctx.shapes = group, [part.shape for part in parts]
        outs = [weft.empty(shape, dtype=parts[0].dtype) for shape in shapes]
        exchanges.all_to_all(outs, list(parts), group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes joined; `op` is SUM where gradients matter."""
    return _AllReduce.apply(op, group, tensor)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of the process `src`, to which all gradients come."""
    return _Broadcast.apply(src, group, tensor)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes joined in `dst`; the others get their own."""
    return _Reduce.apply(dst, op, group, tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes."""
    return _AllGather.apply(group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The same in `dst`; the others get zeros."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """What `src` has for this process."""
    return _Scatter.apply(src, group, *tensors)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """Of the lists of all processes joined, this one's tensor; `output` is written, too."""
    out = _ReduceScatter.apply(op, group, *input_list)
    with weft.no_grad():
        output.detach().copy_(out)
    return out


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """A tensor of each process, in the shapes of the first list, which is not written."""
    shapes = [tuple(t.shape) for t in output_tensor_list]
    return _AllToAll.apply(group, shapes, *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,  # noqa: A002
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """`all_to_all` of rows; the shape is that of `output`, which is not written.

    Raises: RuntimeError for sizes that are not those of the rows.
    """
    who, size = "all_to_all_single", get_world_size(group)
    rows = exchanges.split_rows(who, output, output_split_sizes, size)
    parts = input.split(exchanges.split_rows(who, input, input_split_sizes, size))
    shapes = [(count, *output.shape[1:]) for count in rows]
    return weft.cat(list(_AllToAll.apply(group, shapes, *parts)))
