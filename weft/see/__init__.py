"""See the graph: what ran, in which module, from which line, with which values."""

from weft.see.graphs import Event, Graph, Value
from weft.see.recording import graph, record
from weft.see.stops import Stop, StopError, Stopped, stop_when

__all__ = [
    "Event", "Graph", "Stop", "StopError", "Stopped", "Value", "graph", "record", "stop_when",
]  # fmt: skip
