"""What processes exchange, in a world of one: each gets what it gave."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from weft._C import Tensor
from weft.base.modes import no_grad
from weft.distributed.world import ReduceOp, Work, _known

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather",
    "gather_object", "irecv", "isend", "monitored_barrier", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
]  # fmt: skip


def _done(async_op: bool) -> Work | None:
    return Work() if async_op else None


def _from(who: str, rank: int | None) -> None:
    if rank not in (None, 0):
        raise RuntimeError(f"ProcessGroupGloo::{who}: invalid root rank: {rank}")


def _tensor(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )
    return value


def _put(where: Tensor, what: Tensor) -> None:
    if where.numel() != what.numel():
        raise ValueError(
            f"[distributed] expected as many elements as the one process has, {what.numel()}, got "
            f"{where.numel()}"
        )
    with no_grad():
        where.copy_(what.reshape(where.shape))


def _one(parts: Sequence[Tensor], who: str) -> Tensor:
    if len(parts) != 1:
        raise ValueError(f"ProcessGroupGloo::{who}: expected 1 tensor, got {len(parts)}")
    return parts[0]


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Joins the tensors of all processes in place: of one, nothing changes."""
    _tensor(tensor, "tensor")
    _known(group)
    return _done(async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Joins the tensors of all processes in the one `dst`: of one, nothing changes."""
    _tensor(tensor, "tensor")
    _known(group)
    _from("reduce", dst if group_dst is None else group_dst)
    return _done(async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """The tensor of `src` for all processes: of one, nothing changes."""
    _tensor(tensor, "tensor")
    _known(group)
    _from("broadcast", src if group_src is None else group_src)
    return _done(async_op)


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes the tensor of each process into the list's one at its place."""
    _known(group)
    _put(_one(tensor_list, "allgather"), _tensor(tensor, "tensor"))
    return _done(async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes the tensors of all processes one behind the other."""
    _known(group)
    _put(output_tensor, _tensor(input_tensor, "input_tensor"))
    return _done(async_op)


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """`all_gather` for one process, `dst`."""
    _known(group)
    _from("gather", dst if group_dst is None else group_dst)
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _put(_one(gather_list, "gather"), _tensor(tensor, "tensor"))
    return _done(async_op)


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """A tensor of `src`'s list for each process."""
    _known(group)
    _from("scatter", src if group_src is None else group_src)
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    _put(_tensor(tensor, "tensor"), _one(scatter_list, "scatter"))
    return _done(async_op)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Joins the lists of all processes; each gets the tensor at its place."""
    _known(group)
    _put(_tensor(output, "output"), _one(input_list, "reduce_scatter"))
    return _done(async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,  # noqa: A002
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`reduce_scatter` of tensors that lie one behind the other."""
    _known(group)
    _put(_tensor(output, "output"), input)
    return _done(async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Each process gets a tensor of each."""
    _known(group)
    _put(_one(output_tensor_list, "alltoall"), _one(input_tensor_list, "alltoall"))
    return _done(async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,  # noqa: A002
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`all_to_all` of tensors that lie one behind the other."""
    _known(group)
    for sizes, rows in ((output_split_sizes, output), (input_split_sizes, input)):
        if sizes and list(sizes) != [rows.shape[0]]:
            raise RuntimeError(
                "[all_to_all_single] expected the one process' rows, got " + str(sizes)
            )
    _put(_tensor(output, "output"), input)
    return _done(async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Waits for all processes: for none."""
    _known(group)
    return _done(async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Waits for all processes: for none."""
    _known(group)


def _copied(value: Any) -> Any:
    import pickle

    return pickle.loads(pickle.dumps(value))


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Writes what each process gives into the list, by pickle."""
    _known(group)
    object_list[0] = _copied(obj)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """`all_gather_object` for one process, `dst`."""
    _known(group)
    _from("gather", dst if group_dst is None else group_dst)
    if not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    object_gather_list[0] = _copied(obj)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """The list of `src` for all processes: of one, nothing changes."""
    _known(group)
    _from("broadcast", src if group_src is None else group_src)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """What `src` has for each process, by pickle."""
    _known(group)
    _from("scatter", src if group_src is None else group_src)
    if not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    if not scatter_object_input_list:
        raise ValueError("source rank must provide non-empty scatter_object_input_list")
    scatter_object_output_list[0] = _copied(scatter_object_input_list[0])


def _nobody(word: str) -> Any:
    def refuse(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        _known(kwargs.get("group"))
        raise ValueError(
            f"Invalid {word} rank: {word} rank should not be the same as the rank of the current "
            "process."
        )

    refuse.__doc__ = "ValueError: there is no other process."
    return refuse


send = isend = _nobody("destination")
recv = irecv = _nobody("source")
