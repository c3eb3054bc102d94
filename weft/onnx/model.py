"""The model of a graph that has been written: what it needs of nodes, constants and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft.onnx.builder import Builder
from weft.onnx.graph import KIND, Value, onnx_package, value_info
from weft.onnx.opsets import ir_version
from weft.onnx.values import Held


def model_of(
    g: Builder,
    inputs: Sequence[tuple[Value, list[Any]]],
    outs: Sequence[Held],
    names: Sequence[str] | None,
    opset: int,
) -> Any:
    """The model of a graph: inputs with the sizes that they show, outputs by name."""
    onnx = onnx_package()
    if names is not None and len(names) > len(outs):
        raise ValueError(f"[onnx.export] expected {len(outs)} output_names, got {len(names)}")
    infos = []
    for k, out in enumerate(outs):
        name = names[k] if names is not None and k < len(names) else g.model.name("output")
        g.nodes.append(
            onnx.helper.make_node(
                "Identity", [out.value.name], [name], name=g.model.name("Identity_node")
            )
        )
        infos.append(value_info(Value(g.model, name, out.value.dtype, out.value.sizes)))
    shown = []
    for value, sizes in inputs:
        info = value_info(Value(g.model, value.name, value.dtype, ()))
        info.type.tensor_type.shape.Clear()
        for n in sizes:
            dim = info.type.tensor_type.shape.dim.add()
            if isinstance(n, int):
                dim.dim_value = n
            else:
                dim.dim_param = n
        shown.append(info)
    wanted = {i.name for i in infos} | g.model.checks
    nodes = _needed([*g.model.constant_nodes, *g.nodes], wanted)
    used = _names(nodes)
    weights = [t for t in g.model.initializers if t.name in used]
    graph = onnx.helper.make_graph(
        nodes, "weft", shown, infos, weights,
        value_info=[_weight_info(t, g.model.kinds[t.name]) for t in weights],
    )  # fmt: skip
    made = onnx.helper.make_model(
        graph, producer_name="weft", producer_version=weft.version.weft,
        opset_imports=[onnx.helper.make_opsetid("", opset)],
    )  # fmt: skip
    made.ir_version = ir_version(opset)
    return made


def _weight_info(tensor: Any, kind: str) -> Any:
    """What the graph says of an initializer (Note [Weights and constants])."""
    info = onnx_package().helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
    info.metadata_props.add(key=KIND, value=kind)
    return info


def _needed(nodes: Sequence[Any], wanted: set[str]) -> list[Any]:
    """Nodes that lead to what is wanted: none writes to anything."""
    kept = []
    wanted = set(wanted)
    for node in reversed(nodes):
        if any(o in wanted for o in node.output):
            kept.append(node)
            wanted |= _names([node])
    return kept[::-1]


def _names(nodes: Sequence[Any]) -> set[str]:
    """All names that nodes, and graphs inside of them, read."""
    out: set[str] = set()
    for node in nodes:
        out.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                out |= _names(attribute.g.node) | {o.name for o in attribute.g.output}
    return out


def with_weights_as_inputs(model: Any) -> None:
    """Makes each initializer an input too, which a run may give."""
    helper, graph = onnx_package().helper, model.graph
    given = {i.name for i in graph.input}
    for t in graph.initializer:
        if t.name not in given:
            graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))


# Nodes that are not the same though they look so.
_DRAWS = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
     "Multinomial", "Dropout"}
)  # fmt: skip


def optimize(model: Any) -> None:
    """Unites nodes that compute the same and passes over Identity, in the graph and those within;
    leaves out what nobody reads."""
    _unite(model.graph, {}, {})
    nodes = _needed(model.graph.node, {o.name for o in model.graph.output})
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _unite(graph: Any, names: dict[str, str], known: dict[bytes, list[str]]) -> None:
    """`names`: what values are called now; `known`: the outputs of nodes, without their names."""
    names, known = names, dict(known)
    fixed = {o.name for o in graph.output}
    kept = []
    for node in graph.node:
        for k, name in enumerate(node.input):
            node.input[k] = names.get(name, name)
        if node.op_type == "Identity" and node.output[0] not in fixed:
            names[node.output[0]] = node.input[0]
            continue
        inner = [a.g for a in node.attribute if a.HasField("g")]
        for within in inner:
            _unite(within, names, known)
        plain = onnx_package().NodeProto()
        plain.CopyFrom(node)
        plain.name = ""
        del plain.output[:]
        key = plain.SerializeToString(deterministic=True) + bytes([len(node.output)])
        if inner or node.op_type in _DRAWS or fixed & set(node.output):
            kept.append(node)
        elif key in known:
            names.update(zip(node.output, known[key]))
        else:
            known[key] = list(node.output)
            kept.append(node)
    nodes = list(kept)
    del graph.node[:]
    graph.node.extend(nodes)
