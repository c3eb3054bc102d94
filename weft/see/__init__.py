"""See the graph: what ran, in which module, from which line, with which values."""

from weft.see.graphs import Event, Graph, Value
from weft.see.recording import graph, record

__all__ = ["Event", "Graph", "Value", "graph", "record"]
