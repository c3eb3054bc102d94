"""Backends of the user's: functions that are given a graph and say what is to run instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import weft
from weft.compiler.errors import BackendCompilerFailed

if TYPE_CHECKING:
    from weft.fx import Graph, GraphModule, Node

Told = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], list[int]]


def ask(backend: Callable[..., Any], told: Told, inputs: tuple[weft.Tensor, ...]) -> Any:
    """What a backend makes of the graph that the core told, given its first inputs.

    Raises:
        BackendCompilerFailed: it raised, or gave nothing to call.
    """
    module = graph_module(told)
    try:
        made = backend(module, list(inputs))
    except Exception as error:
        raise BackendCompilerFailed(backend, error) from error
    if not callable(made):
        wrong = TypeError(f"expected a callable from the backend, got {type(made).__name__}")
        raise BackendCompilerFailed(backend, wrong) from None
    return made


def graph_module(told: Told) -> GraphModule:
    """The calls as a Module, which takes the inputs and gives a tuple."""
    from weft.fx.graph_module import over

    graph, constants = _Made(told).graph, {}
    for node in graph.find_nodes(op="get_attr"):
        constants[node.target] = told[0][node.meta["value"]][5]
    return over(weft.nn.Module(), graph, "GraphModule", constants)


class _Made:
    """The graph of values and steps."""

    def __init__(self, told: Told) -> None:
        from weft.fx.graph import Graph

        self.graph: Graph = Graph()
        self.values, steps, outputs = told
        self.nodes: dict[int, Node] = {}
        self.grad = self.first_grad = weft.is_grad_enabled()
        for number, (kind, *_) in enumerate(self.values):
            if kind == "input":
                self.nodes[number] = self.graph.placeholder(f"arg{len(self.nodes)}")
        for step in steps:
            self.step(*step)
        self.set_grad(self.first_grad)
        self.graph.output(tuple(self.node(v) for v in outputs))

    def step(
        self, name: str, args: list[Any], kwargs: dict[str, Any], first: int, count: int,
        several: bool, grad: bool,
    ) -> None:  # fmt: skip
        import operator

        from weft.fx.recording import function_of

        args = [self.arg(a) for a in args]
        self.set_grad(grad)
        made = self.graph.call_function(function_of(name, args, kwargs), tuple(args), kwargs)
        if not several:
            self.nodes[first] = made
            return
        for k in range(count):
            self.nodes[first + k] = self.graph.call_function(operator.getitem, (made, k))

    def set_grad(self, on: bool) -> None:
        # outside of grad mode all steps are alike
        if on != self.grad and self.first_grad:
            self.grad = on
            self.graph.call_function(weft.set_grad_enabled, (on,))

    def arg(self, a: Any) -> Any:
        if isinstance(a, list):
            return [self.arg(x) for x in a]
        if isinstance(a, tuple) and len(a) == 2 and a[0] == "%":
            return self.node(a[1])
        return a

    def node(self, number: int) -> Node:
        found = self.nodes.get(number)
        if found is None:
            found = self.nodes[number] = self.made(number)
        return found

    def made(self, number: int) -> Node:
        """A constant, or a view that no call made."""
        kind, of, offset, shape, strides, _ = self.values[number]
        if kind == "constant":
            node = self.graph.get_attr(f"_tensor_constant{number}")
            node.meta["value"] = number
            return node
        whole = self.graph.call_method("detach", (self.node(of),))
        if (offset, shape, strides) == (0, *self.values[of][3:5]):
            return whole
        return self.graph.call_function(part, (whole, offset, shape, strides))


def part(t: weft.Tensor, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """What lies in the memory of `t`, so many elements after its first one."""
    return t.as_strided(shape, strides, t.storage_offset() + offset)


__all__ = ["ask", "graph_module", "part"]
