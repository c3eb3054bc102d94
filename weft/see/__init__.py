"""See the graph: what ran, in which module, from which line, with which values."""

from weft.see.alive import Alive, live, why_alive
from weft.see.events import Event, Value
from weft.see.graphs import Graph
from weft.see.layers import Layer, Summary, summary
from weft.see.recording import graph, last_graph, record
from weft.see.stops import Stop, StopError, Stopped, stop_when
from weft.see.watching import Watch, watch

__all__ = [
    "Alive", "Event", "Graph", "Layer", "Stop", "StopError", "Stopped", "Summary", "Value", "Watch",
    "graph", "last_graph", "live", "record", "stop_when", "summary", "watch", "why_alive",
]  # fmt: skip
