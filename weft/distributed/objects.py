"""Python objects between processes: pickles, as tensors of bytes.

A process unpickles what the others of its launch have sent, and nothing else.
"""

from __future__ import annotations

import pickle
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.distributed.exchanges import (
    _root,
    all_gather_into_tensor,
    broadcast,
    gather,
    members,
    scatter,
)
from weft.distributed.world import ProcessGroup

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


def _bytes_of(value: Any) -> Tensor:
    memory = bytearray(pickle.dumps(value))
    return _C._over(memory, weft.uint8, 0, (len(memory),), (1,))


def _value_of(data: Tensor) -> Any:
    return pickle.loads(memoryview(data))


def _sizes(g: ProcessGroup, data: Tensor) -> list[int]:
    """How many bytes each process has."""
    sizes = weft.zeros(g.size(), dtype=weft.int64)
    all_gather_into_tensor(sizes, weft.tensor([data.numel()]), g)
    return [int(size) for size in sizes.tolist()]


def _padded(data: Tensor, size: int) -> Tensor:
    return weft.cat([data, weft.zeros(size - data.numel(), dtype=weft.uint8)])


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Writes what each process gives into the list, at its rank, by pickle.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = [None]
    >>> dist.all_gather_object(out, {"a": 1})
    >>> out
    [{'a': 1}]
    >>> dist.destroy_process_group()
    """
    g = members("all_gather_object", group)
    if g is None:
        return
    data = _bytes_of(obj)
    sizes = _sizes(g, data)
    room = weft.empty(g.size(), max(sizes), dtype=weft.uint8)
    all_gather_into_tensor(room, _padded(data, max(sizes)), g)
    for rank, size in enumerate(sizes):
        object_list[rank] = _value_of(room[rank, :size])


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """`all_gather_object` for one process, which alone has a list.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = [None]
    >>> dist.gather_object({"a": 1}, out, dst=0)
    >>> out
    [{'a': 1}]
    >>> dist.destroy_process_group()
    """
    g = members("gather_object", group)
    if g is None:
        return
    root = _root("gather", g, dst, group_dst)
    is_root = g.rank() == root
    if is_root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not is_root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    data = _bytes_of(obj)
    sizes = _sizes(g, data)
    room = [weft.empty(max(sizes), dtype=weft.uint8) for _ in sizes] if is_root else None
    gather(_padded(data, max(sizes)), room, group=g, group_dst=root)
    if room is not None and object_gather_list is not None:
        for rank, size in enumerate(sizes):
            object_gather_list[rank] = _value_of(room[rank][:size])


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Writes the list of one process into those of all, which are as long.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> values = [{"a": 1}]
    >>> dist.broadcast_object_list(values, src=0)
    >>> values
    [{'a': 1}]
    >>> dist.destroy_process_group()
    """
    if not isinstance(object_list, list):
        raise TypeError(f"[broadcast_object_list] expected a list, got {type(object_list)}")
    g = members("broadcast_object_list", group)
    if g is None:
        return
    root = _root("broadcast", g, src, group_src)
    is_root = g.rank() == root
    if g.size() == 1:
        return
    data = _bytes_of(object_list if is_root else None)
    size = weft.tensor([data.numel()])
    broadcast(size, group=g, group_src=root)
    room = data if is_root else weft.empty(int(size.item()), dtype=weft.uint8)
    broadcast(room, group=g, group_src=root)
    if not is_root:
        got = _value_of(room)
        if len(got) != len(object_list):
            raise RuntimeError(
                f"[broadcast_object_list] expected a list of {len(got)}, as the sender's, got one "
                f"of {len(object_list)}"
            )
        object_list[:] = got


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """What one process has for each goes into the first place of its list, by pickle.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> out = [None]
    >>> dist.scatter_object_list(out, [{"a": 1}], src=0)
    >>> out
    [{'a': 1}]
    >>> dist.destroy_process_group()
    """
    g = members("scatter_object_list", group)
    if g is None:
        return
    root = _root("scatter", g, src, group_src)
    if not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    datas = None
    sizes = weft.zeros(g.size(), dtype=weft.int64)
    if g.rank() == root:
        if not scatter_object_input_list:
            raise ValueError("source rank must provide non-empty scatter_object_input_list")
        if len(scatter_object_input_list) != g.size():
            raise ValueError(
                f"[scatter_object_list] expected {g.size()} objects, got "
                f"{len(scatter_object_input_list)}"
            )
        datas = [_bytes_of(value) for value in scatter_object_input_list]
        sizes.copy_(weft.tensor([data.numel() for data in datas]))
    broadcast(sizes, group=g, group_src=root)
    most = int(sizes.max().item())
    room = weft.empty(most, dtype=weft.uint8)
    sent = None if datas is None else [_padded(data, most) for data in datas]
    scatter(room, sent, group=g, group_src=root)
    scatter_object_output_list[0] = _value_of(room[: int(sizes[g.rank()].item())])
