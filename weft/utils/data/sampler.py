"""Samplers: the order in which a loader asks for samples. PyTorch's orders for the same seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import weft
from weft._C import Generator

T = TypeVar("T", covariant=True)

_DRAWN_AT_ONCE = 32  # as PyTorch draws with replacement: the stream of numbers depends on it


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _expect_positive(who: str, name: str, value: Any) -> None:
    if not _is_positive(value):
        raise ValueError(
            f"[{who}] expected a count, got another value ({name} should be a positive integer "
            f"value, but got {name}={value})"
        )


def _expect_bool(who: str, name: str, value: Any, error: type[Exception] = ValueError) -> None:
    if not isinstance(value, bool):
        raise error(
            f"[{who}] expected a bool, got another value ({name} should be a boolean value, but "
            "got "
            f"{name}={value})"
        )


class Sampler(Generic[T]):
    """Indices, or lists of them: a subclass defines `__iter__`, and `__len__` where it can.

    >>> class Backwards(weft.utils.data.Sampler):
    ...     def __init__(self, n):
    ...         self.n = n
    ...     def __iter__(self):
    ...         return iter(range(self.n - 1, -1, -1))
    >>> list(Backwards(3))
    [2, 1, 0]
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, … in this order.

    >>> list(weft.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All indices in random order, or `num_samples` of them; with `replacement`, drawn each anew.

    Without a `generator`, each pass draws a seed from the default one.

    >>> _ = weft.manual_seed(0)
    >>> list(weft.utils.data.RandomSampler("abcd"))
    [2, 3, 0, 1]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _expect_bool("RandomSampler", "replacement", replacement, TypeError)
        _expect_positive("RandomSampler", "num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices a pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def _generator(self) -> Generator:
        if self.generator is not None:
            return self.generator
        seed = weft.empty((), dtype=weft.int64).random_().item()
        return weft.Generator().manual_seed(int(seed))

    def __iter__(self) -> Iterator[int]:
        n, count, generator = len(self.data_source), self.num_samples, self._generator()
        if self.replacement:
            for _ in range(count // _DRAWN_AT_ONCE):
                yield from weft.randint(n, (_DRAWN_AT_ONCE,), generator=generator).tolist()
            yield from weft.randint(n, (count % _DRAWN_AT_ONCE,), generator=generator).tolist()
            return
        for _ in range(count // n):
            yield from weft.randperm(n, generator=generator).tolist()
        yield from weft.randperm(n, generator=generator).tolist()[: count % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    >>> sorted(weft.utils.data.SubsetRandomSampler([5, 7, 9]))
    [5, 7, 9]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in weft.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices, each as likely as its weight says; weights need not sum to 1.

    Raises ValueError for weights that are no vector, or a count that is not positive.

    >>> sampler = weft.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], 4)
    >>> list(sampler)
    [1, 1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _expect_positive("WeightedRandomSampler", "num_samples", num_samples)
        _expect_bool("WeightedRandomSampler", "replacement", replacement)
        self.weights = weft.as_tensor(weights, dtype=weft.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                "[WeightedRandomSampler] expected weights as a 1d sequence, got shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = weft.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; `drop_last` leaves a shorter last one out.

    >>> list(weft.utils.data.BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        _expect_positive("BatchSampler", "batch_size", batch_size)
        _expect_bool("BatchSampler", "drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return (count if self.drop_last else count + self.batch_size - 1) // self.batch_size
