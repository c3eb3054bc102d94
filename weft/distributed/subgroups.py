"""A world cut into groups of some of its processes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from weft.distributed.world import GroupMember, get_rank, get_world_size, new_group

__all__ = ["new_subgroups", "new_subgroups_by_enumeration"]


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of as many processes each, in the order of their ranks; all processes call it.

    Args:
        group_size: how many processes each has; it divides the world's number.
        group: None: the world is cut.
        timeout, backend, pg_options, group_desc: as of `new_group`.

    Returns: the group of this process, and all groups, those of others as
    `GroupMember.NON_GROUP_MEMBER`.

    Raises: ValueError for another size.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> mine, every = dist.new_subgroups(1)
    >>> mine.size(), len(every)
    (1, 1)
    >>> dist.destroy_process_group()
    """
    if group is not None and get_world_size(group) != get_world_size():
        raise ValueError("[new_subgroups] expected group=None: the world is cut, got another group")
    world = get_world_size()
    if group_size is None:
        raise ValueError(
            "[new_subgroups] expected group_size, got none (Default group size only takes effect "
            "when CUDA is available.)"
        )
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if world < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({world})"
        )
    if world % group_size:
        raise ValueError(f"The world size ({world}) must be divisible by 'group_size={group_size}'")
    lists = [list(range(first, first + group_size)) for first in range(0, world, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of listed ranks, each in one of them at most; all processes call it.

    Returns: the group of this process, None if it is in none, and all groups, those of others as
    `GroupMember.NON_GROUP_MEMBER`.

    Raises: ValueError for a rank in two lists, or no list.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> mine, every = dist.new_subgroups_by_enumeration([[0]])
    >>> mine is every[0]
    True
    >>> dist.destroy_process_group()
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    lists, where = [list(ranks) for ranks in ranks_per_subgroup_list], dict[int, list[int]]()
    for ranks in lists:
        for rank in ranks:
            if rank in where:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup {where[rank]} and {ranks}"
                )
            where[rank] = ranks
    made = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in lists
    ]
    mine = next((one for ranks, one in zip(lists, made) if get_rank() in ranks), None)
    return None if mine == GroupMember.NON_GROUP_MEMBER else mine, made
