"""Batches that give each of several processes the same work."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

import weft
from weft.distributed.world import get_rank, get_world_size

__all__ = ["BalancedBatchSampler"]


class BalancedBatchSampler:
    """Batches of indices, for `DataLoader(batch_sampler=...)`, of as much work for each process.

    Trees, graphs and sequences of unlike size have processes wait for the one with the largest. At
    each step all processes together take `batch_size` examples for each, in an order that the seed
    and the epoch give, and share them: as many for each, and about the same cost. The examples of
    a step are those that without balance would be in it, so training sees the same batches.

    Args:
        dataset: what is sampled; it needs a length, and items if `cost` is a function.
        cost: the work of each example: `cost(dataset[i])`, or a number for each. Ones by default.
        batch_size: examples for each process at a step.
        num_replicas, rank: the number of processes, and which one this is; by default the group's.
        shuffle: in random order, the same in all processes; `set_epoch` gives another.
        seed: of that order.
        drop_last: leave out the examples that do not fill a step; else they are shared, and some
            from the beginning repeated until each process has as many.

    Raises:
        ValueError: a rank that is not there, a batch size that is no whole number above 0, or costs
            that are not one for each example, finite and above 0.
        TypeError: costs that are no numbers.

    >>> costs = [9, 1, 1, 1, 5, 3, 2, 2]
    >>> from weft.distributed import BalancedBatchSampler
    >>> for rank in (0, 1):
    ...     s = BalancedBatchSampler(costs, costs, 4, num_replicas=2, rank=rank, shuffle=False)
    ...     [[costs[i] for i in batch] for batch in s]
    [[9, 1, 1, 1]]
    [[5, 3, 2, 2]]
    """

    def __init__(
        self,
        dataset: Any,
        cost: Callable[[Any], float] | Sequence[float] | None = None,
        batch_size: int = 1,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.num_replicas = get_world_size() if num_replicas is None else num_replicas
        self.rank = get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(
                f"[BalancedBatchSampler] expected a rank below {self.num_replicas}, got {self.rank}"
            )
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(
                "[BalancedBatchSampler] expected batch_size to be a whole number above 0, got "
                f"{batch_size!r}"
            )
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        self.costs = _costs(dataset, cost)

    def set_epoch(self, epoch: int) -> None:
        """Gives the next pass another order; all processes have to name the same epoch."""
        self.epoch = epoch

    def _order(self) -> list[int]:
        count = len(self.costs)
        if not self.shuffle:
            return list(range(count))
        generator = weft.Generator().manual_seed(self.seed + self.epoch)
        return [int(i) for i in weft.randperm(count, generator=generator).tolist()]

    def __len__(self) -> int:
        each = self.batch_size * self.num_replicas
        return len(self.costs) // each if self.drop_last else -(-len(self.costs) // each)

    def shares(self) -> Iterator[list[list[int]]]:
        """At each step the indices of all processes."""
        order, each = self._order(), self.batch_size * self.num_replicas
        for start in range(0, len(self) * each, each):
            step = order[start : start + each]
            short = -len(step) % self.num_replicas
            step += [order[i % len(order)] for i in range(short)]
            yield _shared(step, self.costs, self.num_replicas)

    def __iter__(self) -> Iterator[list[int]]:
        for shares in self.shares():
            yield shares[self.rank]


def _costs(dataset: Sized, cost: Any) -> list[float]:
    if cost is None:
        return [1.0] * len(dataset)
    items: Any = dataset
    given = [cost(items[i]) for i in range(len(dataset))] if callable(cost) else list(cost)
    if len(given) != len(dataset):
        raise ValueError(
            f"[BalancedBatchSampler] expected {len(dataset)} costs, one for each example, got "
            f"{len(given)}"
        )
    found = []
    for i, value in enumerate(given):
        try:
            found.append(float(value))
        except (TypeError, ValueError):
            raise TypeError(
                f"[BalancedBatchSampler] expected costs to be numbers, got {value!r} of example {i}"
            ) from None
        if not 0 < found[-1] < math.inf:
            raise ValueError(
                "[BalancedBatchSampler] expected costs above 0 and finite, got "
                f"{found[-1]:g} of example {i}"
            )
    return found


def _shared(step: Sequence[int], costs: Sequence[float], count: int) -> list[list[int]]:
    """As many indices for each of `count`, at about the same cost.

    The dearest first, to who has the least and has room (Graham 1969); then the dearest and the
    cheapest share exchange two while that brings them closer.
    """
    room = len(step) // count
    shares: list[list[int]] = [[] for _ in range(count)]
    sums = [0.0] * count
    for i in sorted(step, key=lambda i: -costs[i]):
        least = min((k for k in range(count) if len(shares[k]) < room), key=lambda k: (sums[k], k))
        shares[least].append(i)
        sums[least] += costs[i]
    for _ in step:
        most = max(range(count), key=lambda k: (sums[k], -k))
        least = min(range(count), key=lambda k: (sums[k], k))
        swap = _best_swap([costs[i] for i in shares[most]], [costs[i] for i in shares[least]])
        if swap is None:
            break
        a, b, moved = swap
        shares[most][a], shares[least][b] = shares[least][b], shares[most][a]
        sums[most] -= moved
        sums[least] += moved
    return shares


def _best_swap(most: Sequence[float], least: Sequence[float]) -> tuple[int, int, float] | None:
    """The places of two costs to exchange, and what that moves; None where none is a gain."""
    over = sum(most) - sum(least)
    best, found = over * (1 - 1e-9), None
    for a, dear in enumerate(most):
        for b, cheap in enumerate(least):
            moved = dear - cheap
            if moved > 0 and abs(over - 2 * moved) < best:
                best, found = abs(over - 2 * moved), (a, b, moved)
    return found
