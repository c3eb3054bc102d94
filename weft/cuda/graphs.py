"""PyTorch's path of what records a GPU's work."""

from weft.cuda.streams import CUDAGraph as CUDAGraph
from weft.cuda.streams import graph as graph
from weft.cuda.streams import graph_pool_handle as graph_pool_handle
from weft.cuda.streams import is_current_stream_capturing as is_current_stream_capturing
from weft.cuda.streams import make_graphed_callables as make_graphed_callables

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing",
           "make_graphed_callables"]  # fmt: skip
