"""`torch.fx`: graphs of calls, to be read, changed and run."""

from weft.fx.graph import Graph as Graph
from weft.fx.graph_module import GraphModule as GraphModule
from weft.fx.interpreter import Interpreter as Interpreter
from weft.fx.interpreter import Transformer as Transformer
from weft.fx.node import Node as Node
from weft.fx.node import map_aggregate as map_aggregate
from weft.fx.node import map_arg as map_arg
from weft.fx.proxy import Proxy as Proxy
from weft.fx.proxy import TraceError as TraceError
from weft.fx.replace import Match as Match
from weft.fx.replace import replace_pattern as replace_pattern
from weft.fx.tracer import Tracer as Tracer
from weft.fx.tracer import symbolic_trace as symbolic_trace
from weft.fx.tracer import wrap as wrap

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Match", "Node", "Proxy", "TraceError", "Tracer",
    "Transformer", "map_aggregate", "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
