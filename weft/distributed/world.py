"""The process group of a world of one process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any

__all__ = [
    "Backend", "GroupMember", "HashStore", "ProcessGroup", "ReduceOp", "Store", "Work",
    "destroy_process_group", "get_backend", "get_global_rank", "get_group_rank",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available",
    "new_group", "reduce_op",
]  # fmt: skip


class ReduceOp(IntEnum):
    """How values of processes are joined; those of one process stay as they are."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # PyTorch's name of the members' type


reduce_op = ReduceOp
#: PyTorch has the members in a class of their own; here that is the class itself.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class Backend(str):
    """The name of a backend, in lower letters. "gloo" is here."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got: {name!r}")
        return super().__new__(cls, name.lower())


class Store:
    """Values by key, which the processes of a group share."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: str | bytes) -> None:
        """Keeps a value."""
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        """The value of a key. RuntimeError where no process could still set it."""
        if key not in self._values:
            raise RuntimeError(f"[Store] expected a key that was set, got {key!r}")
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, and gives its new value."""
        value = int(self._values.get(key, b"0")) + amount
        self.set(key, str(value))
        return value

    def check(self, keys: Iterable[str]) -> bool:
        """Whether all keys were set."""
        return all(key in self._values for key in keys)

    def wait(self, keys: Iterable[str], timeout: timedelta | None = None) -> None:
        """RuntimeError for keys that were not set: nobody else could."""
        for key in keys:
            self.get(key)

    def delete_key(self, key: str) -> bool:
        """Forgets a key; whether it was there."""
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._values)


class HashStore(Store):
    """A store of this process."""


class ProcessGroup:
    """A group of processes: of this one."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def rank(self) -> int:
        """0."""
        return 0

    def size(self) -> int:
        """1."""
        return 1

    def name(self) -> str:
        """The backend's name."""
        return str(self._backend)


class Work:
    """An exchange, which is complete."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True."""
        return True


class _World(type):
    """`group.WORLD` is the group of now."""

    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802
        """The group of all processes; None before `init_process_group`."""
        return _state.world


class group(metaclass=_World):  # noqa: N801
    """`group.WORLD`: the group of all processes."""


class GroupMember(metaclass=_World):
    """`GroupMember.WORLD`, and what a process gets that is not in a new group."""

    NON_GROUP_MEMBER = -100


class _State:
    """The one group of this process."""

    def __init__(self) -> None:
        self.world: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []


_state = _State()


def _known(chosen: Any) -> ProcessGroup:
    """The group that an argument names."""
    if chosen is not None and chosen is not _state.world and chosen not in _state.groups:
        raise ValueError(f"[distributed] expected a process group, got {chosen!r}")
    if _state.world is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return _state.world if chosen is None else chosen


def _get_default_group() -> ProcessGroup:
    return _known(None)


def is_available() -> bool:
    """True: a group of one process can be made."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _state.world is not None


def is_gloo_available() -> bool:
    """True: its exchanges are the ones that are here."""
    return True


def is_nccl_available() -> bool:
    """False: it is for GPUs."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_backend_available(backend: str) -> bool:
    """Whether `init_process_group` takes this backend."""
    return backend.lower() == "gloo"


def _from_environment(name: str, given: int) -> int:
    if given >= 0:
        return given
    if name not in os.environ:
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set"
        )
    return int(os.environ[name])


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Makes the group of this process alone.

    Args:
        backend: "gloo", or None.
        init_method: an address; nobody is met there. With "env://", the default, size and rank
            are those of the environment's WORLD_SIZE and RANK.
        world_size, rank: 1 and 0.
        store: what the processes of the group share.
        timeout, group_name: of exchanges with others.

    Raises:
        ValueError: a second call; a size or rank that is missing or not in the world.
        RuntimeError: a world of several processes, or a backend of a GPU.
    """
    if _state.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    name = Backend(backend or Backend.GLOO)
    if store is None:
        rank = _from_environment("RANK", rank)
        world_size = _from_environment("WORLD_SIZE", world_size)
    if not 0 <= rank < max(world_size, 1):
        raise ValueError(f"[init_process_group] expected rank below {world_size}, got {rank}")
    if name == Backend.NCCL:
        raise RuntimeError("Distributed package doesn't have NCCL built in")
    if "gloo" not in name:
        raise RuntimeError(f"[init_process_group] expected backend 'gloo', got {str(name)!r}")
    if world_size != 1:
        raise RuntimeError(
            f"[init_process_group] expected a world of 1 process, got {world_size}. Hint: weft "
            "trains in one process; start one"
        )
    _state.world = ProcessGroup(Backend(Backend.GLOO))


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without one, all of them."""
    if _state.world is None:
        raise AssertionError("Process group cannot be None")
    if group is None or group is _state.world:
        _state.world = None
        _state.groups.clear()
    else:
        _state.groups.remove(_known(group))


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some processes. ValueError for one that is not there."""
    world = _known(None)
    if ranks is not None and len(ranks) > 1:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    if any(rank != 0 for rank in ranks or ()):
        raise ValueError(
            "the new group's rank should be within the world_size set by init_process_group"
        )
    if ranks is not None and not ranks:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(Backend(backend or world._backend))
    _state.groups.append(made)
    return made


def get_rank(group: Any = None) -> int:
    """0; -1 for a group without this process."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return _known(group).rank()


def get_world_size(group: Any = None) -> int:
    """1; -1 for a group without this process."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return _known(group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """'gloo'."""
    return _known(group).name()


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """[0]."""
    _known(group)
    return [0]


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """0. ValueError for a rank that the group has not."""
    _known(group)
    if group_rank != 0:
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return 0


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """0. ValueError for a rank that the group has not."""
    _known(group)
    if global_rank != 0:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return 0
