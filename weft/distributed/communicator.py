"""What moves memory between the processes of a group: the interface, and the one of one process.

Note [Communicators]
A collective has its meaning in one place, `exchanges.py`: arguments, groups, layouts, errors. What
is below that sees contiguous tensors only, starts to move them and returns what can be asked
whether it is done; None means that it is. There are two: `Alone`, whose one process exchanges with
itself, and `OverMPI` (over_mpi.py). All take ranks of their own group. `parts` are as many elements
for each process, in the order of ranks,
where no counts are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from weft._C import Tensor
from weft.base.modes import no_grad
from weft.distributed.reducing import ReduceOp

__all__ = ["Alone", "Communicator", "Request"]


class Request(Protocol):
    """What was started."""

    def test(self) -> bool:
        """Whether it is done, which frees it; with what is on its way, it goes on meanwhile."""
        ...

    def moved(self) -> bool:
        """The same, and leaves it as it is: for the thread that has exchanges go on."""
        ...


class Communicator(Protocol):
    """The processes of a group, this one among them."""

    rank: int
    size: int

    def all_reduce(self, data: Tensor, op: ReduceOp) -> Request | None:
        """Joins `data` of all, in place; `op` is not AVG."""
        ...

    def reduce(self, data: Tensor, op: ReduceOp, root: int) -> Request | None:
        """The same at `root`; others' data stay as they are."""
        ...

    def broadcast(self, data: Tensor, root: int) -> Request | None:
        """Writes the data of `root` into those of all."""
        ...

    def all_gather(self, parts: Tensor, part: Tensor) -> Request | None:
        """Writes `part` of each into `parts` of all."""
        ...

    def gather(self, parts: Tensor | None, part: Tensor, root: int) -> Request | None:
        """The same at `root`; others have no `parts`."""
        ...

    def scatter(self, part: Tensor, parts: Tensor | None, root: int) -> Request | None:
        """Writes of the root's `parts` what is for each into its `part`."""
        ...

    def reduce_scatter(
        self, part: Tensor, parts: Tensor, counts: Sequence[int], op: ReduceOp
    ) -> Request | None:
        """Joins `parts` of all, `counts[i]` elements for process i; each gets its own in `part`."""
        ...

    def all_to_all(
        self, into: Tensor, out_of: Tensor, into_counts: Sequence[int], out_of_counts: Sequence[int]
    ) -> Request | None:
        """Sends `out_of_counts[i]` elements to process i, gets `into_counts[i]` from it."""
        ...

    def send(self, data: Tensor, to: int, tag: int) -> Request | None:
        """Sends to a process."""
        ...

    def receive(self, data: Tensor, source: int | None, tag: int) -> Any:
        """Gets from a process, or from any; what is returned has its rank as `source` when done."""
        ...

    def barrier(self) -> Request | None:
        """Is done when all have called it."""
        ...

    def part(self, ranks: Sequence[int]) -> Communicator:
        """That of some of the processes, in this order. They alone call it."""
        ...

    def free(self) -> None:
        """Ends it."""
        ...


class Alone:
    """One process: what it gives is what it gets."""

    rank = 0
    size = 1

    def all_reduce(self, data: Tensor, op: ReduceOp) -> None:
        """Its own value is the result, whatever the op."""

    def reduce(self, data: Tensor, op: ReduceOp, root: int) -> None:
        """The same."""

    def broadcast(self, data: Tensor, root: int) -> None:
        """The same."""

    def all_gather(self, parts: Tensor, part: Tensor) -> None:
        """One part."""
        with no_grad():
            parts.copy_(part.reshape(parts.shape))

    def gather(self, parts: Tensor | None, part: Tensor, root: int) -> None:
        """One part."""
        assert parts is not None  # it is the root
        self.all_gather(parts, part)

    def scatter(self, part: Tensor, parts: Tensor | None, root: int) -> None:
        """One part."""
        assert parts is not None  # it is the root
        self.all_gather(part, parts)

    def reduce_scatter(
        self, part: Tensor, parts: Tensor, counts: Sequence[int], op: ReduceOp
    ) -> None:
        """One part, whatever the op."""
        self.all_gather(part, parts)

    def all_to_all(
        self, into: Tensor, out_of: Tensor, into_counts: Sequence[int], out_of_counts: Sequence[int]
    ) -> None:
        """All to itself."""
        self.all_gather(into, out_of)

    def send(self, data: Tensor, to: int, tag: int) -> None:
        """Nobody is there: `exchanges` refuses it before."""
        raise AssertionError

    def receive(self, data: Tensor, source: int | None, tag: int) -> None:
        """Nobody is there: `exchanges` refuses it before."""
        raise AssertionError

    def barrier(self) -> None:
        """Nobody to wait for."""

    def part(self, ranks: Sequence[int]) -> Alone:
        """The one process."""
        return self

    def free(self) -> None:
        """Nothing to end."""
