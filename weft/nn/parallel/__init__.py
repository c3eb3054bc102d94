"""Modules spread over devices or processes: with one CPU and one process, the module itself."""

from weft.nn.parallel.data import DataParallel, data_parallel
from weft.nn.parallel.distributed import DistributedDataParallel
from weft.nn.parallel.replicas import parallel_apply, replicate
from weft.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
