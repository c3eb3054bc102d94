"""Python objects between processes: pickles, as tensors of bytes.

A process unpickles what the others of its launch have sent, and nothing else.
"""

from __future__ import annotations

import pickle
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.distributed.arguments import members, root_of
from weft.distributed.exchanges import all_gather_into_tensor, broadcast, gather, scatter
from weft.distributed.messages import recv, send
from weft.distributed.world import ProcessGroup

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list",
    "scatter_object_list", "send_object_list",
]  # fmt: skip


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
    root = root_of("gather", g, dst, group_dst, 0)
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
    _list("broadcast_object_list", object_list)
    g = members("broadcast_object_list", group)
    if g is None:
        return
    root = root_of("broadcast", g, src, group_src, 0)
    is_root = g.rank() == root
    if g.size() == 1:
        return
    data = _bytes_of(object_list if is_root else None)
    size = weft.tensor([data.numel()])
    broadcast(size, group=g, group_src=root)
    room = data if is_root else weft.empty(int(size.item()), dtype=weft.uint8)
    broadcast(room, group=g, group_src=root)
    if not is_root:
        _replaced("broadcast_object_list", object_list, _value_of(room))


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
    root = root_of("scatter", g, src, group_src, 0)
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


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends a list to another process, which calls `recv_object_list`, by pickle.

    Args:
        dst, group_dst: its rank in the world, or in the group.
        use_batch: changes nothing here.

    ```python no-run
    if dist.get_rank() == 0:
        dist.send_object_list([{"a": 1}, "b"], dst=1)
    else:
        values = [None, None]
        dist.recv_object_list(values, src=0)       # [{"a": 1}, "b"]
    ```
    """
    data = _bytes_of(_list("send_object_list", object_list))
    send(weft.tensor([data.numel()]), dst, group, group_dst=group_dst)
    send(data, dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Writes what another process has sent by `send_object_list` into a list, which is as long.

    A process unpickles what the others of its launch have sent. The sender is named by its rank in
    the world, or in the group; without one it is whoever sends.

    Returns: the sender's rank in the world; -1 outside of the group.

    Raises: RuntimeError for a list of another length.
    """
    _list("recv_object_list", object_list)
    size = weft.zeros(1, dtype=weft.int64)
    source = recv(size, src, group, group_src=group_src)
    if source < 0:
        return source
    room = weft.empty(int(size.item()), dtype=weft.uint8)
    recv(room, source, group)
    _replaced("recv_object_list", object_list, _value_of(room))
    return source


def _list(who: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"[{who}] expected a list, got {type(value)}")
    return value


def _replaced(who: str, mine: list[Any], got: list[Any]) -> None:
    """Writes the sender's list into that of this process."""
    if len(got) != len(mine):
        raise RuntimeError(
            f"[{who}] expected a list of {len(got)}, as the sender's, got one of {len(mine)}"
        )
    mine[:] = got
