"""Batches of a data set: of one with indices, and of one that is gone through."""

from weft.utils.data.fetch import IterableFetcher as _IterableDatasetFetcher
from weft.utils.data.fetch import MapFetcher as _MapDatasetFetcher

__all__ = ["_IterableDatasetFetcher", "_MapDatasetFetcher"]
