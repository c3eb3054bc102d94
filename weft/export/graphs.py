"""The graph of an `ExportedProgram`, as PyTorch's exporter gives it: the calls of ops, in order.

Note [Graphs of programs]
A program has branches, loops and recursion, a graph has not. Its graph is what the example's run
calls, with a node `expect_value` where a value is looked at; all ways are in the program, which
`module()` runs.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft.export.dims import nodes
from weft.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from weft.fx.graph import Graph
from weft.fx.graph_module import GraphModule, over
from weft.fx.node import Node
from weft.fx.recording import Recording

if TYPE_CHECKING:
    from weft.export import ExportedProgram


class _Noting(Recording):
    """A recording whose nodes know the layouts of their values: `meta["val"]` is a tensor of the
    value's shape and dtype whose elements nobody has written."""

    def _know(self, node: Node, value: Any) -> None:
        if "val" not in node.meta:
            node.meta["val"] = _layout_of(value)
        super()._know(node, value)


def _layout_of(value: Any) -> Any:
    if isinstance(value, Tensor):
        return weft.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(map(_layout_of, value))
    return value


def recorded(exported: ExportedProgram) -> tuple[GraphModule, GraphModule]:
    """The graph of an export twice: over the program's tensors, and with these as inputs."""
    if exported.example_inputs is None:
        raise ValueError(
            "[export] expected a program with the arguments that it was exported with, got one "
            "whose file has none. Hint: objects of classes go into no file"
        )
    names = input_names(exported)
    program, args, kwargs = _copies(exported)
    with weft.no_grad(), weft.random.fork_rng():
        recording = _Noting(program)
        for path, value in (*nodes(args, "args"), *nodes(kwargs, "kwargs")):
            if path in names and isinstance(value, Tensor):
                recording.input(value, names[path])
        recording.run(program, *args, **kwargs)
    _flatten_output(recording.graph)
    own = {id(t): exported._program._constants[n] for n, t in program._constants.items()}
    constants = {name: own.get(id(t), t) for name, t in recording.constants.items()}
    inner = over(exported._program, recording.graph, "GraphModule", constants)
    return inner, _lifted(exported, inner)


def run_example(exported: ExportedProgram) -> None:
    """Runs the example on copies, so that an example that cannot run raises."""
    program, args, kwargs = _copies(exported)
    with weft.no_grad(), weft.random.fork_rng():
        program(*args, **kwargs)


def _copies(exported: ExportedProgram) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The program and its example, of which what a run writes is nobody's."""
    args, kwargs = exported.example_inputs
    known: dict[int, Any] = {}
    for _, value in (*nodes(args, "args"), *nodes(kwargs, "kwargs")):
        if isinstance(value, Tensor) and value.grad_fn is not None:  # deepcopy copies leaves alone
            known[id(value)] = copy.deepcopy(value.detach()).requires_grad_()
    return copy.deepcopy(exported._program), *copy.deepcopy((args, kwargs), known)


def _flatten_output(graph: Graph) -> None:
    """The result as a tuple of all that is in it."""
    output = graph.output_node()
    output.args = (tuple(_leaves(output.args[0])),)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    else:
        yield value


def _lifted(exported: ExportedProgram, inner: GraphModule) -> GraphModule:
    """The same graph with parameters, buffers and constants as its first inputs."""
    graph = copy.deepcopy(inner.graph)
    first = next(iter(graph.nodes))
    with graph.inserting_before(first):
        for spec in specs_of_tensors(exported, inner):
            node = graph.placeholder(spec.arg.name)
            for old in graph.find_nodes(op="get_attr", target=spec.target):
                node.meta.update(old.meta)
                old.replace_all_uses_with(node)
                graph.erase_node(old)
    return GraphModule({}, graph)


def specs_of_tensors(exported: ExportedProgram, inner: GraphModule) -> Iterator[InputSpec]:
    """The inputs that are no arguments: parameters, buffers, and other tensors of the graph."""
    program = exported._program
    kinds = (
        ("p_", InputKind.PARAMETER, dict(program.named_parameters())),
        ("b_", InputKind.BUFFER, dict(program.named_buffers())),
    )
    for start, kind, tensors in kinds:
        for name in tensors:
            lasts = name in program.state_dict() if kind is InputKind.BUFFER else None
            yield InputSpec(kind, TensorArgument(start + name.replace(".", "_")), name, lasts)
    known = {name for _, _, tensors in kinds for name in tensors}
    for node in inner.graph.find_nodes(op="get_attr"):
        if node.target not in known:
            known.add(node.target)
            arg = TensorArgument("c_" + node.target.replace(".", "_"))
            yield InputSpec(InputKind.CONSTANT_TENSOR, arg, node.target)


def signature_of(exported: ExportedProgram) -> ExportGraphSignature:
    """What the inputs and outputs of the graph are."""
    inner, _ = exported._graphs()
    inputs = list(specs_of_tensors(exported, inner))
    for path, name in input_names(exported).items():
        is_number = path in {p for p, dtype, _ in exported._sizes if dtype == "int"}
        arg: Any = ConstantArgument(name, None) if is_number else TensorArgument(name)
        inputs.append(InputSpec(InputKind.USER_INPUT, arg, None))
    outputs = [
        OutputSpec(
            OutputKind.USER_OUTPUT,
            TensorArgument(one.name) if isinstance(one, Node) else ConstantArgument("", one),
        )
        for one in inner.graph.output_node().args[0]
    ]
    return ExportGraphSignature(inputs, outputs)


def input_names(exported: ExportedProgram) -> dict[str, str]:
    """The names of the inputs that a caller passes, by how to come to them."""
    parameters = inspect.signature(exported._program.forward).parameters
    names = [n for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]
    rest = next((n for n, p in parameters.items() if p.kind is p.VAR_POSITIONAL), "args")
    return {path: _input_name(path, names, rest) for path, _, _ in exported._sizes}


def _input_name(path: str, names: list[str], rest: str) -> str:
    """The name of an input as PyTorch's graph has it: `args[0]['a']` is x_a; `rest` is the name of
    `*args`."""
    first, *steps = re.findall(r"\[(?:'([^']*)'|(\d+))\]", path)
    word, place = first
    count = names.index(rest) if rest in names else len(names)
    at = int(place or 0)
    start = word or (names[at] if at < count else f"{rest}_{at - count}")
    return "_".join([start, *(a or b for a, b in steps)])
