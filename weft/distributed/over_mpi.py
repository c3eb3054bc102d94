"""The processes of an MPI launch as a `Communicator`, over mpi4py.

No memory is copied here: MPI reads and writes the tensors' own. Numbers that MPI does not know
(bfloat16, float16) travel as integers of their size and are joined by weft's own ops.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.modes import no_grad
from weft.distributed.reducing import ReduceOp

__all__ = ["IN_LAUNCH", "OverMPI", "end_all", "is_launched", "local_rank", "mpi", "world"]

#: Variables that a launcher sets for its processes: the rank in the world, and on the machine.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
_LOCAL_RANKS = (
    "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
)  # fmt: skip


def is_launched() -> bool:
    """Whether an MPI launcher (mpiexec, srun, `weft launch`) started this process."""
    return any(name in os.environ for name in _RANKS)


def local_rank() -> int:
    """The rank among the processes of this machine, as the launcher says; 0 where it does not."""
    return next((int(os.environ[name]) for name in _LOCAL_RANKS if name in os.environ), 0)


def mpi(who: str) -> Any:
    """mpi4py's module. RuntimeError, with what to install, where it is not there."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RuntimeError(
            f"[{who}] expected mpi4py, got {error}. Hint: pip install 'weft[mpi]'"
        ) from error
    return MPI


#: The variable that says that `weft.distributed.rank` runs the program.
IN_LAUNCH = "WEFT_LAUNCHED"
#: How long what this process wrote may take to be read by mpiexec, which ends at once, in seconds.
_TO_BE_READ = 0.1

#: The tag under which processes make a communicator. Open MPI sends its messages among ours: under
#: a tag of the program's, a receive from any process takes them.
_MADE = (1 << 20) + 3

_world: OverMPI | None = None


def world() -> OverMPI:
    """All processes of the launch. The first call, which all of them make, starts MPI."""
    global _world
    if _world is None:
        MPI = mpi("init_process_group")  # noqa: N806
        _world = OverMPI(MPI, MPI.COMM_WORLD.Dup())
        _end_all_with_one()
    return _world


def _end_all_with_one() -> None:
    """Has an exception that ends this process end all, which else wait for it for ever."""
    earlier = sys.excepthook

    def tell(kind: Any, value: Any, trace: Any) -> None:
        earlier(kind, value, trace)
        me = mpi("distributed").COMM_WORLD.Get_rank()
        print(f"[distributed] rank {me} raised {kind.__name__}: all ranks end", file=sys.stderr)
        end_all(1)

    if IN_LAUNCH not in os.environ:
        sys.excepthook = tell


def end_all(status: int) -> None:
    """Ends all processes of the launch, this one first where MPI has not started."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    theirs = sys.modules.get("mpi4py.MPI")
    if theirs is not None and theirs.Is_initialized() and not theirs.Is_finalized():
        time.sleep(_TO_BE_READ)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MPI's own words about it
        theirs.COMM_WORLD.Abort(status)
    os._exit(status)


class _MPIRequest:
    """A request of mpi4py's, with the memory of its tensors, which not all of mpi4py's keep."""

    def __init__(self, of: OverMPI, request: Any, memory: Any) -> None:
        self._of, self._request, self._memory = of, request, memory

    def test(self) -> bool:
        return bool(self._ask(lambda: self._request.Test()))

    def moved(self) -> bool:
        return bool(self._ask(lambda: self._request.Get_status()))

    def _ask(self, question: Callable[[], Any]) -> Any:
        with self._of.told():
            return question()


class _Receive(_MPIRequest):
    """A message that is looked at before MPI gets the memory for it.

    Note [Sizes of messages]
    Where memory is too small for a message that one process copies out of another's, Open MPI
    writes behind it. So messages are received by matched probes, which tell their sizes. What was
    asked for first is matched first, as MPI does with receives.
    """

    def __init__(self, of: OverMPI, memory: Any, place: int, tag: int) -> None:
        super().__init__(of, None, memory)
        self.place, self.tag = place, tag
        self._error: Exception | None = None
        self.source = place  #: The rank that sent, when it is done.

    def takes(self, source: int, tag: int) -> bool:
        """Whether a message could be for it."""
        return self.tag == tag and self.place in (source, self._of._mpi.ANY_SOURCE)

    def begin(self, message: Any, status: Any) -> None:
        """Has its message received from now on."""
        byte, room = self._of._mpi.BYTE, self._memory[0].nbytes
        self.source, got = status.Get_source(), status.Get_count(byte)
        if got > room:
            message.Recv([bytearray(got), got, byte])
            self._error = RuntimeError(
                f"[recv] expected a message of at most {room} bytes, the tensor's, got one of {got}"
            )
        else:
            self._request = message.Irecv(self._memory)

    def _ask(self, question: Callable[[], Any]) -> Any:
        def once_matched() -> Any:
            if self._request is None and not self._of.has_matched(self):
                return False
            if self._error is not None:
                raise self._error
            return question()

        return super()._ask(once_matched)


class _Types:
    """MPI's types and joining of each dtype."""

    def __init__(self, MPI: Any) -> None:  # noqa: N803
        self._mpi = MPI
        named = {
            "float32": "FLOAT", "float64": "DOUBLE", "int8": "INT8_T", "int16": "INT16_T",
            "int32": "INT32_T", "int64": "INT64_T", "uint8": "UINT8_T", "uint16": "UINT16_T",
            "uint32": "UINT32_T", "uint64": "UINT64_T", "bool": "C_BOOL",
            "complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX",
        }  # fmt: skip
        self._known = {getattr(weft, name): getattr(MPI, theirs) for name, theirs in named.items()}
        self._carried: list[tuple[_C.dtype, Any]] = []
        self._own: dict[ReduceOp, Any] = {}
        number = {ReduceOp.SUM: MPI.SUM, ReduceOp.PRODUCT: MPI.PROD, ReduceOp.MIN: MPI.MIN,
                  ReduceOp.MAX: MPI.MAX, ReduceOp.BAND: MPI.BAND, ReduceOp.BOR: MPI.BOR,
                  ReduceOp.BXOR: MPI.BXOR}  # fmt: skip
        truth = {ReduceOp.SUM: MPI.LOR, ReduceOp.MAX: MPI.LOR, ReduceOp.BOR: MPI.LOR,
                 ReduceOp.PRODUCT: MPI.LAND, ReduceOp.MIN: MPI.LAND, ReduceOp.BAND: MPI.LAND,
                 ReduceOp.BXOR: MPI.LXOR}  # fmt: skip
        self._ops = {False: number, True: truth}

    def of(self, kind: _C.dtype) -> Any:
        """What elements of a dtype are for MPI."""
        if kind not in self._known:
            sizes = {1: "UINT8_T", 2: "INT16_T", 4: "INT32_T", 8: "INT64_T"}
            carrier = getattr(self._mpi, sizes[kind.itemsize]).Dup()
            self._known[kind] = carrier
            self._carried.append((kind, carrier))
        return self._known[kind]

    def joining(self, kind: _C.dtype, op: ReduceOp) -> Any:
        """What joins them."""
        self.of(kind)
        if not any(k == kind for k, _ in self._carried):
            return self._ops[kind == weft.bool][op]
        if op not in self._own:
            self._own[op] = self._mpi.Op.Create(self._joined_here(op), commute=True)
        return self._own[op]

    def _joined_here(self, op: ReduceOp) -> Callable[[Any, Any, Any], None]:
        """What MPI calls to join numbers that it does not know: `b` becomes a and b."""
        how = {ReduceOp.SUM: weft.add, ReduceOp.PRODUCT: weft.mul, ReduceOp.MIN: weft.minimum,
               ReduceOp.MAX: weft.maximum}[op]  # fmt: skip

        def join(a: Any, b: Any, datatype: Any) -> None:
            kind = next(k for k, carrier in self._carried if carrier == datatype)
            size = (len(b) // kind.itemsize,)
            left, right = (_C._over(memory, kind, 0, size, (1,)) for memory in (a, b))
            with no_grad():
                right.copy_(how(left, right))

        return join


class OverMPI:
    """A communicator of MPI's."""

    def __init__(self, MPI: Any, comm: Any, types: _Types | None = None) -> None:  # noqa: N803
        self._mpi, self._comm = MPI, comm
        self._types = types or _Types(MPI)
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self._open: list[_Receive] = []  # receives without a message yet, in their order
        self._matching = threading.Lock()

    def _message(self, t: Tensor | None, counts: Sequence[int] | None = None) -> Any:
        """The tensor's memory as mpi4py wants it."""
        if t is None:
            return None
        count = t.numel()
        place = t.storage_offset() * t.itemsize
        memory = memoryview(_C._over(t, _C.uint8, place, (count * t.itemsize,), (1,)))
        kind = self._types.of(t.dtype)
        return [memory, count if counts is None else list(counts), kind]

    def _parts(self, t: Tensor | None) -> Any:
        """The memory of as many elements for each process."""
        message = self._message(t)
        return message and [message[0], message[1] // self.size, message[2]]

    def _start(self, start: Callable[..., Any], *args: Any) -> _MPIRequest:
        with self.told():
            return _MPIRequest(self, start(*args), args)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """A scope in which MPI's exceptions are told as ours are."""
        try:
            yield
        except self._mpi.Exception as error:
            got = " and ".join([*self.lost(error), f"MPI's {error}"])
            raise RuntimeError(
                f"[distributed] expected an exchange, got {got}. Hint: "
                "TORCH_DISTRIBUTED_DEBUG=DETAIL tells the first call that differs"
            ) from None

    def lost(self, error: Any) -> list[str]:
        """The ranks that are gone, where MPI says so: Open MPI under `mpiexec --with-ft ulfm`."""
        if error.Get_error_class() != getattr(self._mpi, "ERR_PROC_FAILED", None):
            return []
        everyone = self._mpi.COMM_WORLD.Get_group()
        ranks = self._comm.Get_failed().Translate_ranks(None, everyone)
        return [f"the end of rank {', '.join(map(str, sorted(ranks)))}"] if len(ranks) else []

    def has_matched(self, wanted: _Receive) -> bool:
        """Whether a receive has its message. One that is found goes to the first that it is for."""
        with self._matching:
            while wanted in self._open:
                status = self._mpi.Status()
                # a look that finds none has MPI go on: the next may find what came by that
                message = self._look(wanted, status) or self._look(wanted, status)
                if message is None:
                    return False
                source, tag = status.Get_source(), status.Get_tag()
                first = next(one for one in self._open if one.takes(source, tag))
                self._open.remove(first)
                first.begin(message, status)
        return True

    def _look(self, wanted: _Receive, status: Any) -> Any:
        return self._comm.Improbe(wanted.place, wanted.tag, status)

    def all_reduce(self, data: Tensor, op: ReduceOp) -> _MPIRequest:
        """See `Communicator`."""
        how = self._types.joining(data.dtype, op)
        return self._start(self._comm.Iallreduce, self._mpi.IN_PLACE, self._message(data), how)

    def reduce(self, data: Tensor, op: ReduceOp, root: int) -> _MPIRequest:
        """See `Communicator`."""
        how, message = self._types.joining(data.dtype, op), self._message(data)
        sent, got = (self._mpi.IN_PLACE, message) if self.rank == root else (message, None)
        return self._start(self._comm.Ireduce, sent, got, how, root)

    def broadcast(self, data: Tensor, root: int) -> _MPIRequest:
        """See `Communicator`."""
        return self._start(self._comm.Ibcast, self._message(data), root)

    def all_gather(self, parts: Tensor, part: Tensor) -> _MPIRequest:
        """See `Communicator`."""
        return self._start(self._comm.Iallgather, self._message(part), self._parts(parts))

    def gather(self, parts: Tensor | None, part: Tensor, root: int) -> _MPIRequest:
        """See `Communicator`."""
        return self._start(self._comm.Igather, self._message(part), self._parts(parts), root)

    def scatter(self, part: Tensor, parts: Tensor | None, root: int) -> _MPIRequest:
        """See `Communicator`."""
        return self._start(self._comm.Iscatter, self._parts(parts), self._message(part), root)

    def reduce_scatter(
        self, part: Tensor, parts: Tensor, counts: Sequence[int], op: ReduceOp
    ) -> _MPIRequest:
        """See `Communicator`."""
        how = self._types.joining(part.dtype, op)
        sent, got = self._message(parts), self._message(part)
        if all(count == counts[0] for count in counts):
            sent[1] //= self.size
            return self._start(self._comm.Ireduce_scatter_block, sent, got, how)
        return self._start(self._comm.Ireduce_scatter, sent, got, list(counts), how)

    def all_to_all(
        self, into: Tensor, out_of: Tensor, into_counts: Sequence[int], out_of_counts: Sequence[int]
    ) -> _MPIRequest:
        """See `Communicator`."""
        sent, got = self._message(out_of, out_of_counts), self._message(into, into_counts)
        return self._start(self._comm.Ialltoallv, sent, got)

    def send(self, data: Tensor, to: int, tag: int) -> _MPIRequest:
        """See `Communicator`."""
        return self._start(self._comm.Isend, self._message(data), to, tag)

    def receive(self, data: Tensor, source: int | None, tag: int) -> _MPIRequest:
        """See `Communicator`."""
        place = self._mpi.ANY_SOURCE if source is None else source
        receive = _Receive(self, self._message(data), place, tag)
        with self._matching:
            self._open.append(receive)
        receive.moved()  # MPI begins with what is there
        return receive

    def barrier(self) -> _MPIRequest:
        """See `Communicator`."""
        return self._start(self._comm.Ibarrier)

    def part(self, ranks: Sequence[int]) -> OverMPI:
        """See `Communicator`."""
        group = self._comm.Get_group().Incl(list(ranks))
        return OverMPI(self._mpi, self._comm.Create_group(group, _MADE), self._types)

    def free(self) -> None:
        """Ends it; all of its processes have to."""
        self._comm.Free()
