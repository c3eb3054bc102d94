"""`Interpreter` and `Transformer`: a graph run node by node."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from weft.fx.graph import Graph
from weft.fx.graph_module import GraphModule
from weft.fx.node import Node, map_arg
from weft.fx.proxy import Proxy
from weft.fx.tracer import GraphAppendingTracer, Tracer
from weft.nn.module import Module


class Interpreter:
    """Runs the graph of a Module node by node; subclasses change what a kind of node does.

    Args:
        module: the Module.
        garbage_collect_values: forget values after their last use.
        graph: another graph than `module.graph`.

    Attributes:
        module: the Module.
        graph: the graph that is run.
        env: the values by node, while it runs.

    >>> import weft
    >>> class Tanh(weft.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(weft.tanh, args, kwargs)
    >>> Tanh(weft.fx.symbolic_trace(lambda x: weft.relu(x))).run(weft.zeros(1))
    tensor([0.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module, self.garbage_collect_values = module, garbage_collect_values
        self.graph: Graph = graph if graph is not None else module.graph
        self.env: dict[Node, Any] = {}
        self.args_iter: Iterator[Any] = iter(())
        self._over: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes) if garbage_collect_values else ():
            self._over[node] = [n for n in node.all_input_nodes if n not in seen]
            seen.update(node.all_input_nodes)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:  # fmt: skip
        """The result for inputs, in the order of the placeholders.

        Args:
            args: the inputs.
            initial_env: values of nodes that are not to be run.
            enable_io_processing: without effect.
        """
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            for over in self._over.get(node, ()):
                self.env.pop(over, None)
        return None

    def run_node(self, n: Node) -> Any:
        """The value of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next input, or its default."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(
            f"Expected positional argument for parameter {target}, but one was not passed in!"
        )

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A parameter or another attribute of the Module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a function gives."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a method gives."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a module gives."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the Module by its path."""
        value: Any = self.module
        for part in target.split("."):
            if not hasattr(value, part):
                raise RuntimeError(f"Node referenced nonexistent target {target}, at {part}")
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A node's arguments as values."""
        args, kwargs = self.map_nodes_to_values((n.args, n.kwargs), n)
        return args, kwargs

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """`args` with values in place of nodes."""

        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint()"
                )
            return self.env[node]

        return map_arg(args, value_of)


class Transformer(Interpreter):
    """An interpreter over proxies, whose run is a new graph: `transform()` gives its Module.

    Args:
        module: the `GraphModule`.

    Raises:
        RuntimeError: a node names what the module has not.

    >>> import weft
    >>> class Sines(weft.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(weft.sin, args, kwargs)
    >>> gm = Sines(weft.fx.symbolic_trace(lambda x: weft.exp(x))).transform()
    >>> gm(weft.zeros(2))
    tensor([0., 0.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer: Tracer = GraphAppendingTracer(self.new_graph)
        self.tracer.root = module
        self.tracer._paths = {id(m): n for n, m in module.named_modules()}
        named = [*module.named_parameters(), *module.named_buffers()]
        self.tracer._places = {id(t): n for n, t in named}

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """An input."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """A parameter or another attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a module, as a node."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function, as a node."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a method, as a node."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The Module of the new graph."""
        result = self.run()
        self.new_graph.output(self.tracer.create_arg(result))
        for new, old in zip(
            self.new_graph.find_nodes(op="placeholder"), self.graph.find_nodes(op="placeholder"),
            strict=True,
        ):  # fmt: skip
            new.meta = copy.copy(old.meta)
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)
