"""Datasets: samples by index, or one after the other. PyTorch's semantics."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import weft
from weft._C import Generator, Tensor

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Samples by index: a subclass defines `__getitem__` and, for most samplers, `__len__`.

    `__getitems__(indices)`, if defined, gives all samples of a batch at once.

    >>> class Squares(weft.utils.data.Dataset):
    ...     def __getitem__(self, i):
    ...         return i * i
    ...     def __len__(self):
    ...         return 4
    >>> [len(Squares()), Squares()[3]]
    [4, 9]
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples one after the other: a subclass defines `__iter__`.

    With workers, each has a copy and would give all samples: `get_worker_info` says which share to
    give.

    >>> class Count(weft.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(weft.utils.data.DataLoader(Count(), batch_size=2))
    [tensor([0, 1]), tensor([2])]
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset[Any]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample i is the tuple of the i-th entries along the first dimension.

    Raises AssertionError for unlike lengths.

    >>> data = weft.utils.data.TensorDataset(weft.arange(4), weft.ones(4, 2))
    >>> data[1]
    (tensor(1), tensor([1., 1.]))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError(
                "[TensorDataset] expected tensors of one length (Size mismatch between tensors), "
                f"got {[t.size(0) for t in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Datasets side by side: samples are tuples of their samples, or dicts for named datasets.

    Raises ValueError for unlike lengths, no dataset, or named beside unnamed ones.

    >>> weft.utils.data.StackDataset(a=[1, 2], b="xy")[1]
    {'a': 2, 'b': 'y'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "[StackDataset] expected datasets either by place or by name (At least one "
                "dataset should be passed), got " + ("both" if args else "none")
            )
        self.datasets = args or kwargs
        lengths = [len(d) for d in self._parts()]
        if len(set(lengths)) > 1:
            raise ValueError(
                "[StackDataset] expected datasets of one length (Size mismatch between datasets), "
                f"got {lengths}"
            )
        self._length = lengths[0]

    def _parts(self) -> list[Any]:
        found = self.datasets
        return list(found.values() if isinstance(found, dict) else found)

    def _joined(self, samples: Iterable[Any]) -> Any:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, samples, strict=True))
        return tuple(samples)

    def __getitem__(self, index: Any) -> Any:
        return self._joined(d[index] for d in self._parts())

    def __getitems__(self, indices: list[int]) -> list[Any]:
        columns = [_items(d, indices) for d in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    "[StackDataset] expected as many samples as indices (Nested dataset's output "
                    f"size mismatch. Expected {len(indices)}, got {len(column)})"
                )
        return [self._joined(samples) for samples in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[int]) -> Any:
    """Samples at all indices, at once where the dataset can do that."""
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(indices)
    return [dataset[i] for i in indices]


class ConcatDataset(Dataset[T]):
    """Datasets one behind the other.

    >>> data = weft.utils.data.ConcatDataset([[1, 2], [3]])
    >>> len(data), data[2], data[-3]
    (3, 3, 1)
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError(
                "[ConcatDataset] expected datasets, got none (datasets should not be an empty "
                "iterable)"
            )
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("[ConcatDataset] expected indexed datasets, got an iterable one")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        if index < -len(self):
            raise ValueError(
                f"[ConcatDataset] expected an index of at least {-len(self)}, got {index}"
            )
        index = index + len(self) if index < 0 else index
        part = bisect.bisect_right(self.cumulative_sizes, index)
        item: T = self.datasets[part][index - (self.cumulative_sizes[part - 1] if part else 0)]
        return item


class ChainDataset(IterableDataset[T]):
    """Iterable datasets, one after the other.

    >>> class Count(weft.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(weft.utils.data.ChainDataset([Count(), Count()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _parts(self) -> Iterator[Any]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError(
                    f"[ChainDataset] expected iterable datasets, got {type(d).__name__}"
                )
            yield d

    def __iter__(self) -> Iterator[T]:
        for d in self._parts():
            yield from d

    def __len__(self) -> int:
        return sum(len(d) for d in self._parts())


class Subset(Dataset[T]):
    """The samples of a dataset at given indices.

    >>> data = weft.utils.data.Subset("abcd", [3, 0])
    >>> len(data), data[0]
    (2, 'd')
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"[Subset] expected {cls.__name__}, which overrides __getitem__, to override "
                "__getitems__ too. Hint: return [self[i] for i in indices]"
            )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        items: list[T] = _items(self.dataset, [self.indices[i] for i in indices])
        return items

    def __len__(self) -> int:
        return len(self.indices)


def _lengths_of(fractions: Sequence[float], total: int) -> list[int]:
    """Lengths for fractions of a whole; what rounding leaves goes to the first ones, one each."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(
                f"[random_split] expected fractions from 0 to 1, got {fraction} (Fraction at index "
                f"{i} is not between 0 and 1)"
            )
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            import warnings

            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return lengths


def random_split(
    dataset: Any,
    lengths: Sequence[int | float],
    generator: Generator | None = None,
) -> list[Subset[Any]]:
    """Parts of a dataset at random, of given lengths or fractions; as PyTorch for the same seed.

    Raises ValueError unless the lengths sum to the dataset's, or the fractions to 1.

    >>> g = weft.Generator().manual_seed(0)
    >>> [part.indices for part in weft.utils.data.random_split("abcde", [0.6, 0.4], g)]
    [[4, 0, 1], [3, 2]]
    """
    total = sum(lengths)
    if math.isclose(total, 1) and total <= 1:
        lengths = _lengths_of(lengths, len(dataset))
    if sum(lengths) != len(dataset):
        raise ValueError(
            f"[random_split] expected lengths that sum to {len(dataset)}, got {list(lengths)} (Sum "
            "of input lengths does not equal the length of the input dataset!)"
        )
    order = weft.randperm(len(dataset), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, lengths)]
