"""How a tensor lies on a dimension of a mesh: whole, cut, or as summands."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """One dimension of a mesh, seen from a tensor.

    >>> from weft.distributed.tensor import Partial, Shard
    >>> Shard(0).is_shard(), Shard(0).is_shard(1), Partial().is_replicate()
    (True, False, False)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether the tensor is cut there, along `dim` if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every process has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the processes have what is still to be reduced, by `reduce_op` if given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Cut along `dim` into parts of ceil(size / processes), the last ones less.

    >>> from weft.distributed.tensor import Shard
    >>> [Shard.local_shard_size_and_offset(5, 3, rank) for rank in range(3)]
    [(2, 0), (2, 2), (1, 4)]
    """

    dim: int

    @staticmethod
    def local_shard_size_and_offset(size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """How much of `size` a rank has, and from where."""
        step = -(-size // num_chunks)
        start = min(size, step * rank)
        return min(size, start + step) - start, start

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Cut along `dim` first into `split_factor` parts, then each of them over the processes."""

    split_factor: int = 1

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Whole in every process.

    >>> from weft.distributed.tensor import Replicate
    >>> Replicate(), Replicate() == Replicate()
    (Replicate(), True)
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """What the processes have becomes the tensor by `reduce_op`: "sum", "avg", "max" ...

    >>> from weft.distributed.tensor import Partial
    >>> Partial("avg"), Partial().is_partial("sum")
    (Partial(reduce_op='avg'), True)
    """

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
