"""Graphs for TensorBoard: the calls of one run of a model, within its modules."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.nn import Module
    from weft.see.events import Event, Value
    from weft.see.graphs import Graph


def graph_of(model: Module, inputs: Any) -> tuple[Any, Graph]:
    """The `GraphDef` of `model(*inputs)` in evaluation, and the recording it is made of.

    A tensor alone, or what is no tuple or list, is the one input.
    """
    from weft.autograd import no_grad
    from weft.see.recording import record

    args = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with record(times=False) as recorded, no_grad():
            model(*args)
    finally:
        for module, training in modes:
            module.training = training
    return _Nodes(type(model).__name__).of(recorded), recorded


class _Nodes:
    """The nodes of a graph, and which of them has each value."""

    def __init__(self, root: str) -> None:
        self.root, self.taken = root, Counter[str]()
        self.nodes: list[Any] = []
        self.made: dict[Value, str] = {}

    def of(self, recorded: Graph) -> Any:
        """The `GraphDef` of what ran."""
        from tensorboard.compat.proto.graph_pb2 import GraphDef
        from tensorboard.compat.proto.versions_pb2 import VersionDef

        last: Event | None = None
        for last in recorded.calls:
            inputs = [self._source(value) for value in last.inputs if value is not None]
            name = self._free(self._within(last.module, last.name))
            self._add(name, f"aten::{last.name}", inputs, last.outputs)
        if last is not None:
            self._add(self._free("output"), "IO Node", [self.nodes[-1].name], last.outputs)
        return GraphDef(node=self.nodes, versions=VersionDef(producer=22))

    def _within(self, module: str, name: str) -> str:
        return "/".join([self.root, *filter(None, module.split(".")), name])

    def _free(self, name: str) -> str:
        """`name`, with a number if it is taken."""
        self.taken[name] += 1
        return name if self.taken[name] == 1 else f"{name}_{self.taken[name] - 1}"

    def _source(self, value: Value) -> str:
        """The node that has a value: what was there before is an input, or a parameter."""
        if value not in self.made:
            if value.name:
                path, _, last = value.name.rpartition(".")
                name, op = self._within(path, last), "prim::GetAttr"
            else:
                name, op = "input", "IO Node"
            self._add(self._free(name), op, [], [value])
        return self.made[value]

    def _add(self, name: str, op: str, inputs: list[str], values: list[Value]) -> None:
        from tensorboard.compat.proto.attr_value_pb2 import AttrValue
        from tensorboard.compat.proto.node_def_pb2 import NodeDef
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto as Shape

        shapes = [Shape(dim=[Shape.Dim(size=n) for n in value.shape]) for value in values]
        listed = AttrValue(list=AttrValue.ListValue(shape=shapes))
        self.nodes.append(NodeDef(name=name, op=op, input=inputs, attr={"_output_shapes": listed}))
        for value in values:
            self.made.setdefault(value, name)
