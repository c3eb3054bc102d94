"""`summary`: the layers of a model as one input runs through them, with what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from weft import _C, get_rng_state, no_grad, set_rng_state
from weft.base.checks import of_type
from weft.base.failures import NamesWithin, inner_path
from weft.base.shown import size
from weft.nn.module import Module
from weft.see.flops import counted_calls
from weft.see.nested import tensors_in
from weft.see.recording import Recording, record

Shapes = tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class Layer:
    """A module where it is called: by the model, or within another module.

    Numbers are of all its calls, and of what runs inside of them.
    """

    name: str  #: of the attribute that holds it, such as "encoder.0"; the model's class
    kind: str  #: its class
    depth: int
    calls: int = 0
    inputs: Shapes = ()  #: shapes of the tensors of the first call
    outputs: Shapes = ()
    alike: bool = True  #: whether all calls had such shapes
    parameters: int = 0  #: elements; a tensor counts once, in the first layer that has it
    parameter_bytes: int = 0
    trainable: int = 0
    shared: bool = False  #: whether the module is a layer elsewhere already
    tied: bool = False  #: whether a layer before has a parameter of its own modules
    multiply_adds: int = 0
    bytes: int = 0  #: of the results of all calls
    path: str = ""  #: from the model on
    layers: list[Layer] = field(default_factory=list)

    def walk(self) -> Iterator[Layer]:
        """The layer and all inside of it, each before what it holds."""
        stack = [self]
        while stack:
            layer = stack.pop()
            yield layer
            stack.extend(reversed(layer.layers))


class _Calls:
    """Hears of the calls of modules, and makes layers of them."""

    def __init__(self, model: Module, graph: Recording) -> None:
        self.graph = graph
        self.root = Layer(type(model).__name__, type(model).__name__, 0)
        self.module_of: dict[Layer, Module] = {self.root: model}
        self.known: dict[tuple[Layer | None, Module], Layer] = {(None, model): self.root}
        self.open: list[tuple[Layer, int]] = []  # with the number of the event that comes next
        self.ran: list[tuple[Layer, int, int]] = []  # from an event to another

    def layer_of(self, module: Module) -> Layer:
        """A module that is open already, as in a recursion, is the layer that it is there."""
        for layer, _ in reversed(self.open):
            if self.module_of[layer] is module:
                return layer
        around = self.open[-1][0] if self.open else None
        if (around, module) not in self.known:
            holder = around or self.root
            own = NamesWithin(self.module_of[holder]).get(id(module))
            kind = type(module).__name__
            layer = Layer(inner_path("", own, module), kind, holder.depth + 1)
            layer.path = inner_path(holder.path, own, module)
            layer.shared = module in self.module_of.values()
            self.known[around, module] = layer
            self.module_of[layer] = module
            holder.layers.append(layer)
        return self.known[around, module]

    def enter(self, module: Module, args: Any, keywords: Any) -> None:
        layer = self.layer_of(module)
        shapes = tuple(tuple(t.shape) for t in tensors_in([args, keywords]))
        if not layer.calls:
            layer.inputs = shapes
        layer.alike &= shapes == layer.inputs
        layer.calls += 1
        self.open.append((layer, self.graph._count))

    def leave(self, module: Module, args: Any, keywords: Any, result: Any) -> None:
        layer, begins = self.open.pop()
        tensors = list(tensors_in(result))
        shapes = tuple(tuple(t.shape) for t in tensors)
        if not layer.outputs:
            layer.outputs = shapes
        layer.alike &= shapes == layer.outputs
        layer.bytes += sum(t.numel() * t.element_size() for t in tensors)
        if all(layer is not around for around, _ in self.open):
            self.ran.append((layer, begins, self.graph._count))

    def count_operations(self) -> None:
        """Gives each layer the multiply-adds of what ran in its calls."""
        flops = np.zeros(len(self.graph) + 1, np.int64)
        for event, count in counted_calls(self.graph).items():
            flops[event + 1] = count
        before = np.cumsum(flops)
        for layer, begins, ends in self.ran:
            layer.multiply_adds += int(before[ends] - before[begins]) // 2

    def count_parameters(self) -> None:
        """Gives each layer its parameters: a tensor counts once, in the first layer that has it.

        What is in no layer, as its module was not called, is of the nearest one that holds it.
        """
        layered = set(self.module_of.values())
        seen: dict[int, Layer] = {}
        layers = list(self.root.walk())
        for layer in layers:
            waiting = [self.module_of[layer]]
            while waiting:
                module = waiting.pop()
                waiting += [m for m in module.children() if m not in layered]
                for p in module._parameters.values():
                    if p is None:
                        continue
                    if id(p) in seen:
                        layer.tied |= seen[id(p)] is not layer
                        continue
                    seen[id(p)] = layer
                    layer.parameters += p.numel()
                    layer.parameter_bytes += p.numel() * p.element_size()
                    layer.trainable += p.numel() if p.requires_grad else 0
        for layer in reversed(layers):
            for inside in layer.layers:
                layer.parameters += inside.parameters
                layer.parameter_bytes += inside.parameter_bytes
                layer.trainable += inside.trainable


class Summary:
    """What `weft.summary` found. `print` shows it as a table.

    In the table a row has what is of none of the rows inside of it: columns add up to the totals.
    """

    def __init__(self, root: Layer, depth: int | None, input_bytes: int, peak: int) -> None:
        self.root, self._depth = root, depth
        #: Bytes of the tensors that went in.
        self.input_bytes = input_bytes
        #: Most bytes at a time while it ran, beyond those that were there.
        self.peak_bytes = peak

    @property
    def layers(self) -> list[Layer]:
        """All, in the order of their first calls, each before what is inside of it."""
        return list(self.root.walk())

    def __getitem__(self, name: str) -> Layer:
        """The layer of a name, such as "encoder.0" or "Linear".

        Raises:
            KeyError: there is none.
        """
        for layer in self.root.walk():
            if layer.path == name or (layer is self.root and name == layer.name):
                return layer
        raise KeyError(name)

    @property
    def parameters(self) -> int:
        """Elements of all parameters, each counted once."""
        return self.root.parameters

    @property
    def trainable(self) -> int:
        """Of these, those that require grad."""
        return self.root.trainable

    @property
    def parameter_bytes(self) -> int:
        """Of all parameters."""
        return self.root.parameter_bytes

    @property
    def multiply_adds(self) -> int:
        """Of products: matrices, convolutions, attention, recurrent layers."""
        return self.root.multiply_adds

    @property
    def output_bytes(self) -> int:
        """Of the results of the layers that hold no others, of all calls."""
        return sum(layer.bytes for layer in self.root.walk() if not layer.layers)

    def __str__(self) -> str:
        head = ("Layer", "Calls", "Input", "Output", "Parameters", "Multiply-adds")
        rows = [self._row(layer) for layer in self.root.walk() if self._shows(layer)]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))

        def line(cells: tuple[str, ...]) -> str:
            placed = (
                c.ljust(w) if i in (0, 2, 3) else c.rjust(w)
                for i, (c, w) in enumerate(zip(cells, widths, strict=True))
            )
            return "  ".join(placed).rstrip()

        fixed = self.parameters - self.trainable
        return "\n".join(
            [
                line(head),
                rule,
                *map(line, rows),
                rule,
                f"Parameters: {self.parameters:,}, {fixed:,} of them fixed"
                if fixed
                else f"Parameters: {self.parameters:,}",
                f"Multiply-adds: {self.multiply_adds:,}",
                f"Bytes: {size(self.parameter_bytes)} in parameters, {size(self.input_bytes)} "
                f"in inputs, {size(self.output_bytes)} in results, "
                f"{size(self.peak_bytes)} at a time",
            ]
        )

    def _shows(self, layer: Layer) -> bool:
        return self._depth is None or layer.depth <= self._depth

    def _row(self, layer: Layer) -> tuple[str, ...]:
        below = [inside for inside in layer.layers if self._shows(inside)]
        parameters = layer.parameters - sum(inside.parameters for inside in below)
        work = layer.multiply_adds - sum(inside.multiply_adds for inside in below)
        is_root = layer is self.root or layer.name == layer.kind
        more = "" if layer.alike else " ..."
        hidden = [one for inside in layer.layers if inside not in below for one in inside.walk()]
        tied = layer.shared or any(one.tied for one in [layer, *hidden])
        counted = ([f"{parameters:,}"] if parameters else []) + (["shared"] if tied else [])
        return (
            "  " * layer.depth + (layer.kind if is_root else f"{layer.name}: {layer.kind}"),
            f"×{layer.calls}" if layer.calls != 1 else "",
            _shapes(layer.inputs) + more,
            _shapes(layer.outputs) + more,
            " + ".join(counted) or "-",
            f"{work:,}" if work else "-",
        )

    def __repr__(self) -> str:
        return str(self)


def _shapes(shapes: Shapes) -> str:
    shown = [f"[{', '.join(map(str, shape))}]" for shape in shapes[:2]]
    return ", ".join(shown) + (f" and {len(shapes) - 2}" if len(shapes) > 2 else "")


def summary(
    model: Module,
    *inputs: Any,
    depth: int | None = 3,
    mode: Literal["eval", "train", "same"] = "eval",
    **keywords: Any,
) -> Summary:
    """Runs a model once, and tells of its layers: shapes, parameters, multiply-adds, bytes.

    A module that is called several times in the same place is one layer with a count, also where
    it calls itself; its shapes are those of the first call, with "..." if others differ. In another
    place it is a layer again, `shared`, without the parameters. So is a parameter that two layers
    have, such as the tied weights of an embedding and a head: it counts in the first, and the table
    says "shared" in the second. Multiply-adds are those of products.

    The model is called as `model(*inputs, **keywords)`, so an input may be a dict, a list or a
    tuple. It runs without gradients. Afterwards its training flags, its buffers and the random
    generator are as they were; lazy parameters have been made.

    Args:
        model: the module.
        inputs: what it is called with.
        depth: of the layers that the table shows; None: all.
        mode: whether modules are set to "eval" or "train" for it, or left as they are.
        keywords: what else it is called with.

    Raises:
        TypeError: `model` is no module, `depth` no number.
        ValueError: another `mode`, a negative `depth`.
        Exception: what the model raises.

    >>> model = weft.nn.Sequential(weft.nn.Linear(8, 16), weft.nn.ReLU(), weft.nn.Linear(16, 4))
    >>> print(weft.summary(model, weft.ones(2, 8)))
    Layer        Calls  Input    Output   Parameters  Multiply-adds
    ---------------------------------------------------------------
    Sequential          [2, 8]   [2, 4]            -              -
      0: Linear         [2, 8]   [2, 16]         144            256
      1: ReLU           [2, 16]  [2, 16]           -              -
      2: Linear         [2, 16]  [2, 4]           68            128
    ---------------------------------------------------------------
    Parameters: 212
    Multiply-adds: 384
    Bytes: 848 B in parameters, 64 B in inputs, 288 B in results, 256 B at a time
    """
    if not isinstance(model, Module):
        raise TypeError(f"[summary] expected a module, got {type(model).__name__}")
    if mode not in ("eval", "train", "same"):
        raise ValueError(f"[summary] expected mode 'eval', 'train' or 'same', got {mode!r}")
    of_type("summary", "depth", depth, int, None)
    if depth is not None and depth < 0:
        raise ValueError(f"[summary] expected depth of at least 0, got {depth}")
    given = list(tensors_in([inputs, keywords]))
    with _unchanged(model), no_grad(), record(times=False) as graph:
        if mode != "same":
            model.train(mode == "train")
        before = _C._memory_stats()["current"]
        calls = _Calls(model, graph)
        hooks = [
            hook
            for module in model.modules()
            for hook in (
                module.register_forward_pre_hook(calls.enter, with_kwargs=True),
                module.register_forward_hook(calls.leave, with_kwargs=True),
            )
        ]
        try:
            model(*inputs, **keywords)
        finally:
            for hook in hooks:
                hook.remove()
    calls.count_operations()
    calls.count_parameters()
    peak = max(graph.memory().peak - before, 0)
    return Summary(calls.root, depth, sum(t.numel() * t.element_size() for t in given), peak)


@contextmanager
def _unchanged(model: Module) -> Iterator[None]:
    """Training flags, buffers and the generator are afterwards as they were."""
    from weft.nn.parameter import is_lazy

    flags = [(module, module.training) for module in model.modules()]
    buffers = [
        (module, name, buffer, None if buffer is None else buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if not is_lazy(buffer)
    ]
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
        for module, training in flags:
            module.training = training
        with no_grad():
            for module, name, buffer, values in buffers:
                module._buffers[name] = buffer
                if buffer is not None and values is not None and buffer.numel():
                    buffer.copy_(values)
