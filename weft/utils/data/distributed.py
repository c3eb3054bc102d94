"""A sampler that gives each of several processes its share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import weft
from weft.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """The indices of one process out of `num_replicas`: every process gets as many.

    Args:
        dataset: what is sampled; it needs a length.
        num_replicas, rank: the number of processes, and which one this is.
        shuffle: in random order, the same on all processes; call `set_epoch` for another.
        seed: of that order.
        drop_last: leave the tail out instead of repeating samples from the beginning.

    Raises:
        RuntimeError: no `num_replicas` or `rank`, and no process group to ask.
        ValueError: a rank that does not exist.

    >>> list(weft.utils.data.DistributedSampler("abcde", 2, 1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            group = getattr(weft, "distributed", None)
            if group is None:
                raise RuntimeError(
                    "[DistributedSampler] expected num_replicas and rank, got none (Requires "
                    "distributed package to be available)"
                )
            num_replicas = group.get_world_size() if num_replicas is None else num_replicas
            rank = group.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        count = len(dataset)
        short = drop_last and count % num_replicas != 0
        self.num_samples = math.ceil((count - num_replicas * short) / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = weft.Generator().manual_seed(self.seed + self.epoch)
            order = weft.randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        if not self.drop_last and order:
            order = order * math.ceil(self.total_size / count)
        return iter(order[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Gives the next pass another order; all processes have to name the same epoch."""
        self.epoch = epoch
