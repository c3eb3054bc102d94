"""The groups of processes, and which process of them this is.

Note [Worlds]
A process that an MPI launcher started is one of its world; any other is a world of its own, which
needs neither MPI nor mpi4py. Nothing else makes a world: no port is opened, nobody is met at an
address. RANK and WORLD_SIZE are read to see that they agree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from weft.base.warn import warn
from weft.distributed import leaving, over_mpi
from weft.distributed.communicator import Alone, Communicator
from weft.distributed.constants import default_pg_timeout
from weft.distributed.stores import Store, TCPStore

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "destroy_process_group", "get_backend",
    "get_global_rank", "get_group_rank", "get_node_local_rank", "get_process_group_ranks",
    "get_rank", "get_world_size", "group", "init_process_group", "is_available",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "new_group",
]  # fmt: skip


class Backend(str):
    """The name of a backend, in lower letters. "mpi" is here, and "gloo" for one process.

    >>> weft.distributed.Backend("GLOO")
    'gloo'
    """

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


class ProcessGroup:
    """A group of processes, this one among them.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.group.WORLD.size(), dist.group.WORLD.rank()
    (1, 0)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self, backend: Backend, comm: Communicator | None = None,
        ranks: Sequence[int] = (0,), timeout: timedelta = default_pg_timeout, name: str = "",
    ) -> None:  # fmt: skip
        self._backend = backend
        self._comm: Communicator = comm or Alone()
        self._ranks = list(ranks)
        self._timeout = timeout
        self._calls = 0
        #: The same in all its processes, and no other group's.
        self._mark = f"{_state.marks(self._ranks)}:{','.join(map(str, self._ranks))}"
        self.group_name = name
        self.group_desc = name

    def _left(self) -> Callable[[], list[int]]:
        """Counts an exchange that begins now; what tells who has left before it."""
        number = leaving.count(self._mark)
        return lambda: leaving.left(self._mark, self._ranks, number)

    def rank(self) -> int:
        """The rank of this process in the group."""
        return self._comm.rank

    def size(self) -> int:
        """How many processes it has."""
        return self._comm.size

    def name(self) -> str:
        """The backend's name."""
        return str(self._backend)


class _World(type):
    """`group.WORLD` is the group of now."""

    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802
        """The group of all processes; None before `init_process_group`."""
        return _state.world


class group(metaclass=_World):  # noqa: N801
    """`group.WORLD`: the group of all processes.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.group.WORLD.size()
    1
    >>> dist.destroy_process_group()
    """


class GroupMember(metaclass=_World):
    """`GroupMember.WORLD`, and what a process gets that is not in a new group.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.GroupMember.WORLD is dist.group.WORLD
    True
    >>> dist.destroy_process_group()
    """

    NON_GROUP_MEMBER = -100


class _State:
    """The groups of this process."""

    def __init__(self) -> None:
        self.world: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []
        self.store: Store | None = None
        self.made = 0
        self.told = False
        self._marks: dict[tuple[int, ...], int] = {}

    def marks(self, ranks: Sequence[int]) -> int:
        """How many groups of these ranks there were."""
        key = tuple(ranks)
        self._marks[key] = self._marks.get(key, -1) + 1
        return self._marks[key]


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


def _is_outside(chosen: Any) -> bool:
    """Whether it is what a process got of `new_group` that is not in that group."""
    return isinstance(chosen, int) and chosen == GroupMember.NON_GROUP_MEMBER


def _get_default_group() -> ProcessGroup:
    return _known(None)


def _get_default_store() -> Store:
    """The store that `init_process_group` got; else one that all processes share.

    Raises: RuntimeError where a launch has no folder that all its processes see (TCPStore).
    """
    world = _known(None)
    if _state.store is None:
        _state.store = TCPStore("", 0, world.size(), wait_for_workers=False)
    return _state.store


def is_available() -> bool:
    """True.

    >>> weft.distributed.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called.

    >>> weft.distributed.is_initialized()
    False
    """
    return _state.world is not None


def is_gloo_available() -> bool:
    """True: what it does is here, of several processes by MPI.

    >>> weft.distributed.is_gloo_available()
    True
    """
    return True


def is_nccl_available() -> bool:
    """False: it is for GPUs.

    >>> weft.distributed.is_nccl_available()
    False
    """
    return False


def is_mpi_available() -> bool:
    """Whether mpi4py is installed.

    >>> isinstance(weft.distributed.is_mpi_available(), bool)
    True
    """
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def is_ucc_available() -> bool:
    """False.

    >>> weft.distributed.is_ucc_available()
    False
    """
    return False


def is_xccl_available() -> bool:
    """False: it is for GPUs.

    >>> weft.distributed.is_xccl_available()
    False
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process.

    >>> weft.distributed.is_torchelastic_launched()
    False
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_backend_available(backend: str) -> bool:
    """Whether `init_process_group` takes this backend.

    >>> weft.distributed.is_backend_available("gloo")
    True
    """
    return backend.lower() == "gloo" or (backend.lower() == "mpi" and is_mpi_available())


def _from_environment(name: str, given: int) -> int:
    if given >= 0:
        return given
    if name not in os.environ:
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set"
        )
    return int(os.environ[name])


def _launch_hint(world_size: int) -> str:
    import multiprocessing
    import sys

    if multiprocessing.parent_process() is not None:
        return f"mp.spawn(f, args, nprocs={world_size})"
    script = os.path.basename(sys.argv[0]) or "train.py"
    return f"weft launch -n {world_size} {script}"


def _alone(name: Backend, world_size: int, rank: int, has_store: bool) -> tuple[Backend, Alone]:
    """The world of a process that no MPI launcher started."""
    if name == Backend.NCCL:
        raise RuntimeError("Distributed package doesn't have NCCL built in")
    if not has_store and name != Backend.MPI:
        rank = _from_environment("RANK", rank)
        world_size = _from_environment("WORLD_SIZE", world_size)
    elif name == Backend.MPI:
        rank, world_size = max(rank, 0), max(world_size, 1)
    if not 0 <= rank < max(world_size, 1):
        raise ValueError(f"[init_process_group] expected rank below {world_size}, got {rank}")
    if world_size != 1:
        raise RuntimeError(
            f"[init_process_group] expected a process of an MPI launch for a world of "
            f"{world_size}, got one that was started by itself. Hint: "
            f"`{_launch_hint(world_size)}` starts them all; RANK and WORLD_SIZE alone, or "
            "processes of multiprocessing's, are worlds of one"
        )
    return Backend(Backend.MPI if name == Backend.MPI else Backend.GLOO), Alone()


def _of_launch(name: Backend, world_size: int, rank: int) -> tuple[Backend, Communicator]:
    """The world of the launch that this process is of."""
    comm = over_mpi.world()
    for what, given, variable, real in (
        ("world_size", world_size, "WORLD_SIZE", comm.size), ("rank", rank, "RANK", comm.rank),
    ):  # fmt: skip
        said = given if given >= 0 else int(os.environ.get(variable, real))
        if said != real:
            raise ValueError(
                f"[init_process_group] expected {what} {real}, as the MPI launch has it, got {said}"
            )
    if name != Backend.MPI and not _state.told:
        _state.told = True
        if comm.rank == 0:
            warn(f"backend {str(name)!r}: processes exchange by MPI")
    return Backend(Backend.MPI), comm


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
    """Makes the group of all processes of the MPI launch; without one, of this process alone.

    Args:
        backend: "mpi", or None. For "gloo" and "nccl" several processes get MPI, and are told once.
        init_method: an address; nobody is met there.
        timeout: how long exchanges wait for the others: 30 minutes by default.
        world_size, rank: have to be what the launch has. Without a launch they are 1 and 0, by
            default those of the environment's WORLD_SIZE and RANK.
        store: with one, a process without a launch reads no environment.
        group_name: what the group is called.

    Raises:
        ValueError: a second call; a size or rank that is missing, or is not the launch's.
        RuntimeError: a world of several processes without an MPI launch, with the command that
            makes one; no mpi4py within a launch; "nccl" for one process.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.get_world_size()
    1
    >>> dist.destroy_process_group()
    """
    if _state.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    name = Backend(backend or Backend.MPI) if over_mpi.is_launched() else Backend(backend or "gloo")
    names = [part.partition(":")[2] or part for part in name.split(",")]
    unknown = [part for part in names if part not in ("gloo", "nccl", "mpi")]
    if unknown:
        raise RuntimeError(
            f"[init_process_group] expected backend 'mpi', 'gloo' or 'nccl', got {str(name)!r}"
        )
    name = Backend(names[0])
    kind: Backend
    comm: Communicator
    if over_mpi.is_launched():
        kind, comm = _of_launch(name, world_size, rank)
    else:
        kind, comm = _alone(name, world_size, rank, store is not None)
    wait = timeout or default_pg_timeout
    if not isinstance(wait, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {wait!r}")
    _state.world = ProcessGroup(kind, comm, range(comm.size), wait, group_name or "0")
    _state.store = store


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without one, all of them. Exchanges that were started have to be done.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.destroy_process_group()
    >>> dist.is_initialized()
    False
    """
    if _state.world is None:
        raise AssertionError("Process group cannot be None")
    if group is None or group is _state.world:
        _agree_on_end(_state.world)
        for other in _state.groups:
            other._comm.free()
        _state.world = None
        _state.groups.clear()
    elif not _is_outside(group):
        _agree_on_end(_known(group))
        _state.groups.remove(group)
        group._comm.free()


def _agree_on_end(ended: ProcessGroup) -> None:
    from weft.distributed.agreement import agree

    agree(ended, "destroy_process_group", (), {})


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some processes, in the order of their ranks; all of them call it.

    Args:
        ranks: in the world; None: all.
        timeout: of its exchanges; that of the world by default.
        backend: that of the world, whatever is asked for.
        group_desc: a name.

    Returns: the group; `GroupMember.NON_GROUP_MEMBER` in a process that is not of it.

    Raises: ValueError for ranks that are not there, or twice.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.new_group([0]).size()
    1
    >>> dist.destroy_process_group()
    """
    world = _known(None)
    size = world.size()
    chosen = list(range(size)) if ranks is None else sorted(ranks)
    if backend is not None:
        Backend(backend)
    if len(chosen) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    if any(not 0 <= rank < size for rank in chosen):
        raise ValueError(
            "the new group's rank should be within the world_size set by init_process_group"
        )
    if len(set(chosen)) != len(chosen):
        raise ValueError(
            f"[new_group] expected each rank once, got {list(ranks or ())} (ranks list must not "
            "contain duplicate entries)"
        )
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout!r}"
        )
    _state.made += 1
    if world.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    name = group_desc or str(_state.made)
    comm = world._comm.part(chosen)
    made = ProcessGroup(world._backend, comm, chosen, timeout or world._timeout, name)
    _state.groups.append(made)
    return made


def get_rank(group: Any = None) -> int:
    """The rank of this process in a group; -1 for a group without it.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.get_rank()
    0
    >>> dist.destroy_process_group()
    """
    return -1 if _is_outside(group) else _known(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes a group has; -1 for a group without this process.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.get_world_size()
    1
    >>> dist.destroy_process_group()
    """
    return -1 if _is_outside(group) else _known(group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """'mpi', or 'gloo' for one process.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.get_backend()
    'gloo'
    >>> dist.destroy_process_group()
    """
    return _known(group).name()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank among the processes of this machine.

    Args:
        fallback_rank: the answer where nobody says it.

    Raises: RuntimeError without one.

    >>> weft.distributed.get_node_local_rank(fallback_rank=0)
    0
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if over_mpi.is_launched():
        return over_mpi.local_rank()
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context "
        "and want the code to run locally instead."
    )


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The ranks of a group's processes in the world.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.get_process_group_ranks(dist.group.WORLD)
    [0]
    >>> dist.destroy_process_group()
    """
    return list(_known(group)._ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank in the world of a process of a group. ValueError for one that the group has not.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.get_global_rank(dist.group.WORLD, 0)
    0
    >>> dist.destroy_process_group()
    """
    ranks = _known(group)._ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in a group of a process of the world. ValueError for one that the group has not.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> dist.get_group_rank(dist.group.WORLD, 0)
    0
    >>> dist.destroy_process_group()
    """
    ranks = _known(group)._ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)
