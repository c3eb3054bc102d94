"""DataLoader: batches of a dataset's samples, made here or by worker processes."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import weft
from weft._C import Generator
from weft.utils.data.collate import default_collate, default_convert
from weft.utils.data.dataset import IterableDataset
from weft.utils.data.fetch import make_fetcher
from weft.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from weft.utils.data.worker_info import get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_collate_fn_t = Callable[[list[Any]], Any]

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _DatasetKind:
    """The two kinds of data sets, and what fetches their samples."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind: int, *args: Any) -> Any:
        """A fetcher of `(dataset, auto_collation, collate_fn, drop_last)`."""
        return make_fetcher(kind == _DatasetKind.Iterable, *args)


class _Forever:
    """The sampler of iterable datasets, which need no indices."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader:
    """Iterates over batches of a dataset.

    The same seed gives PyTorch's batches: order, and the seeds of workers.

    Args:
        dataset: samples by index, or an IterableDataset.
        batch_size: samples per batch; None gives single samples.
        shuffle: in random order, another one in each pass.
        sampler: the order of indices, instead of `shuffle`.
        batch_sampler: lists of indices, instead of batch_size, shuffle, sampler and drop_last.
        num_workers: processes that make batches; 0 makes them here. A batch arrives in shared
            memory; each tensor of it has memory of its own.
        collate_fn: makes a batch of a list of samples (default: `default_collate`).
        pin_memory: accepted; without an accelerator it warns and does nothing, as in PyTorch.
        drop_last: leave a shorter last batch out.
        timeout: seconds to wait for a batch of a worker; 0 is forever.
        worker_init_fn: called with the worker's number in each worker, after its seeds are set.
        multiprocessing_context: how workers start: 'fork', 'spawn', 'forkserver' or a context.
        generator: of the order and of the workers' seeds; the default one if None.
        prefetch_factor: batches that each worker makes ahead (2).
        persistent_workers: workers stay for the next pass.
        in_order: hand batches out in the order of the sampler, not as they are ready.

    Raises:
        ValueError: arguments that exclude each other or are out of range.
        RuntimeError: (iterating) a worker was killed, or took longer than `timeout`.

    An exception in a worker is raised here with the worker's traceback.

    >>> data = weft.utils.data.TensorDataset(weft.arange(5), weft.arange(5) * 10)
    >>> for x, y in weft.utils.data.DataLoader(data, batch_size=3):
    ...     print(x, y)
    tensor([0, 1, 2]) tensor([ 0, 10, 20])
    tensor([3, 4]) tensor([30, 40])
    """

    _ready = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self._iterable = isinstance(dataset, IterableDataset)
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if sampler is None:
            if self._iterable:
                sampler = _Forever()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            keys: Any = sampler  # of whatever type the data set takes
            batch_sampler = BatchSampler(keys, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.in_order = in_order
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._iterator: Any = None
        self._stated_length: int | None = None
        self._ready = True
        self._warn_of_many_workers()

    def _check_order(
        self, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        """Which arguments exclude each other."""
        if self._iterable:
            given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
            for name, value in given.items():
                if value is not None:
                    raise ValueError(
                        f"[DataLoader] expected no {name} for an IterableDataset (DataLoader with "
                        f"IterableDataset: expected unspecified {name} option), got {value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError(
                "[DataLoader] expected sampler or shuffle, got both (sampler option is mutually "
                "exclusive with shuffle)"
            )
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "[DataLoader] expected batch_sampler alone (batch_sampler option is mutually "
                    "exclusive with batch_size, shuffle, sampler, and drop_last), got others too"
                )
        elif batch_size is None and drop_last:
            raise ValueError(
                "[DataLoader] expected drop_last=False with batch_size=None (batch_size=None "
                "option disables auto-batching and is mutually exclusive with drop_last), got True"
            )

    @property
    def multiprocessing_context(self) -> Any:
        """How workers start: a context of multiprocessing, or None for Python's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if not self.num_workers:
                raise ValueError(
                    "[DataLoader] expected num_workers > 0 with multiprocessing_context "
                    "(multiprocessing_context can only be used with multi-process loading), got 0"
                )
            import multiprocessing
            import multiprocessing.context

            if isinstance(context, str):
                known = multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError(
                        f"[DataLoader] expected multiprocessing_context as one of {known} (should "
                        f"specify a valid start method), got {context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "[DataLoader] expected multiprocessing_context as a valid context object or a "
                    f"string, got {context}"
                )
        self._context = context

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in _FIXED:
            raise ValueError(
                f"[DataLoader] expected {name} to stay as it was ({name} attribute should not be "
                f"set after {type(self).__name__} is initialized), got {value!r}"
            )
        super().__setattr__(name, value)

    def __iter__(self) -> LoaderIterator:
        if not self.num_workers:
            return _SerialIterator(self)
        from weft.utils.data.parallel import ParallelIterator

        if not self.persistent_workers:
            return ParallelIterator(self)
        if self._iterator is None or not self._iterator._workers:
            self._iterator = ParallelIterator(self)
        else:
            self._iterator.restart(self)
        iterator: LoaderIterator = self._iterator
        return iterator

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        length = self._stated_length = len(self.dataset)
        if self.batch_size is None:
            return length
        return (length if self.drop_last else length + self.batch_size - 1) // self.batch_size

    def _warn_of_many_workers(self) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if self.num_workers > (cores or 1):
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                f"suggested max number of worker in current system is {cores}, which is smaller "
                "than what this DataLoader is going to create.",
                stacklevel=3,
            )


def _check_workers(workers: Any, timeout: float, prefetch: Any, persistent: bool) -> None:
    """Checks the arguments about worker processes."""
    if workers < 0:
        raise ValueError(
            f"[DataLoader] expected a number of workers, got {workers} (num_workers option should "
            "be "
            "non-negative; use num_workers=0 to disable multiprocessing.)"
        )
    if timeout < 0:
        raise ValueError(
            f"[DataLoader] expected timeout of at least 0, got {timeout} (timeout option should be "
            "non-negative)"
        )
    if prefetch is not None and not workers:
        raise ValueError(
            f"[DataLoader] expected no prefetch_factor with num_workers=0, got {prefetch} "
            "(prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None.)"
        )
    if prefetch is not None and prefetch < 1:
        raise ValueError(f"[DataLoader] expected prefetch_factor of at least 1, got {prefetch}")
    if persistent and not workers:
        raise ValueError(
            "[DataLoader] expected num_workers > 0 with persistent_workers (persistent_workers "
            "option needs num_workers > 0), got 0"
        )


class LoaderIterator:
    """A pass over a loader."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader_dataset = loader.dataset
        self._iterable = loader._iterable
        self._batched = loader.batch_sampler is not None
        self._index_sampler = loader._index_sampler
        if loader.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
                stacklevel=3,
            )
        # PyTorch's order, on which the numbers depend: a sampler may draw its own in __iter__.
        LoaderIterator.restart(self, loader)
        seed = weft.empty((), dtype=weft.int64).random_(generator=loader.generator)
        self._base_seed = int(seed.item())

    def restart(self, loader: DataLoader) -> None:
        """Back to the beginning of the sampler."""
        self._indices = iter(self._index_sampler)
        self._stated_length = loader._stated_length
        self._yielded = 0

    def __iter__(self) -> LoaderIterator:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __next__(self) -> Any:
        data = self._next_data()
        self._yielded += 1
        stated = self._stated_length
        if self._iterable and stated is not None and self._yielded > stated:
            warnings.warn(
                f"Length of IterableDataset {self._loader_dataset} was reported to be {stated} "
                f"(when accessing len(dataloader)), but {self._yielded} samples have been fetched. "
                "With workers: does each one give its share only (get_worker_info)?",
                stacklevel=2,
            )
        return data

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class _SerialIterator(LoaderIterator):
    """A pass whose batches are made here."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if loader.timeout:
            raise AssertionError(
                f"[DataLoader] expected timeout=0 with num_workers=0, got {loader.timeout}"
            )
        self._fetcher = make_fetcher(
            loader._iterable, loader.dataset, self._batched, loader.collate_fn, loader.drop_last
        )

    def _next_data(self) -> Any:
        return self._fetcher.fetch(next(self._indices))


_BaseDataLoaderIter = LoaderIterator
_SingleProcessDataLoaderIter = _SerialIterator


def __getattr__(name: str) -> Any:
    """The pass with workers, by PyTorch's name; its file is loaded with the first such pass."""
    import sys

    if name != "_MultiProcessingDataLoaderIter":
        from weft.base import lazy as _lazy

        raise _lazy.missing(sys.modules[__name__], name)
    from weft.utils.data.parallel import ParallelIterator

    return ParallelIterator
