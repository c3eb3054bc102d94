"""Samples from a dataset, in the loader's process or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_Collate = Callable[[Any], Any]


class MapFetcher:
    """Samples by index."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: _Collate, drop_last: bool) -> None:
        self.dataset, self.batched, self.collate_fn = dataset, batched, collate_fn

    def fetch(self, index: Any) -> Any:
        """The batch (or, unbatched, the sample) at the index that the sampler gave."""
        if not self.batched:
            return self.collate_fn(self.dataset[index])
        if getattr(self.dataset, "__getitems__", None):
            return self.collate_fn(self.dataset.__getitems__(index))
        return self.collate_fn([self.dataset[i] for i in index])


class IterableFetcher:
    """Samples one after the other."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: _Collate, drop_last: bool) -> None:
        self.samples = iter(dataset)
        self.batched, self.collate_fn, self.drop_last = batched, collate_fn, drop_last
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """The next batch of as many samples as there are indices, or the next sample.

        Raises StopIteration at the end.
        """
        if self.ended:
            raise StopIteration
        if not self.batched:
            return self.collate_fn(next(self.samples))
        found = []
        for _ in index:
            try:
                found.append(next(self.samples))
            except StopIteration:
                self.ended = True
                break
        if not found or (self.drop_last and len(found) < len(index)):
            raise StopIteration
        return self.collate_fn(found)


def make_fetcher(iterable: bool, *args: Any) -> MapFetcher | IterableFetcher:
    """The fetcher for the kind of dataset."""
    return (IterableFetcher if iterable else MapFetcher)(*args)
