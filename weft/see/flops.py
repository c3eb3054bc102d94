"""Floating-point operations of what ran: by op, and by the modules round it.

A call counts by its op's record (`flops` there: two for a product and its sum); what runs inside of
it does not count again. What runs in backward is of the modules that the forward call was in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from weft.see.tables import CALL, Tables

if TYPE_CHECKING:
    from weft.see.graphs import Graph

Rule = Callable[..., int]


def counted_calls(graph: Graph, rules: Mapping[str, Rule] | None = None) -> dict[int, int]:
    """The number of operations of each call that counts and is inside of no other such one.

    Args:
        rules: by the name of an op, a function of the shapes of the call's operands, and of those
            of its results as `out_shape`.
    """
    tables = graph._tables
    counts = dict(tables.flops_of)
    if rules:
        kinds, names = tables.events["kind"].tolist(), tables.events["name"].tolist()
        for number, kind in enumerate(kinds):
            rule = rules.get(tables.names[names[number]]) if kind == CALL else None
            if rule is not None:
                event = graph[number]
                given = [None if v is None else v.shape for v in event.inputs]
                made = [v.shape for v in event.outputs]
                counts[number] = rule(*given, out_shape=made[0] if len(made) == 1 else tuple(made))
    parents = tables.events["parent"].tolist()
    inner = []
    for number in counts:
        around = parents[number]
        while around >= 0 and around not in counts:
            around = parents[around]
        if around >= 0:
            inner.append(number)
    for number in inner:
        del counts[number]
    return counts


def modules_round(tables: Tables) -> dict[int, frozenset[str]]:
    """Of each call of a module the names of those that it is in, with its own; of -1 none.

    Names are those of `torch.utils.flop_counter`: the class of a module that the one around does
    not hold, then the path from there, "Net.encoder.0".
    """
    found: dict[int, frozenset[str]] = {-1: frozenset()}
    names: dict[int, str] = {}
    for event, own in tables.own_names.items():
        around = tables.module_around(event)
        if own is None:
            names[event] = tables.event_names[event]
        else:
            names[event] = f"{names[around]}.{own}" if own else names[around]
        found[event] = found[around] | {names[event]}
    return found


def _op_of_aten(graph: Graph, event: int) -> str:
    """The name of the op that PyTorch runs for a counted call; the call's own if it runs that."""
    tables = graph._tables
    name: str = tables.names[tables.events["name"][event]]
    parent = int(tables.events["parent"][event])
    around = tables.event_names[parent] if parent >= 0 else ""
    if name == "linear":
        return "mm" if graph[event].inputs[2] is None else "addmm"
    if name in ("convolution", "_convolution_weight") and around == "ConvolutionBackward0":
        return "convolution_backward"
    return name


def by_module(graph: Graph, rules: Mapping[str, Rule] | None = None) -> dict[str, dict[str, int]]:
    """Operations by module, then by the op that PyTorch runs for the call; those of all are under
    "Global"."""
    out: dict[str, dict[str, int]] = {}
    tables = graph._tables
    modules = modules_round(tables)
    within = tables.events["module"].tolist()
    for event, count in counted_calls(graph, rules).items():
        op = _op_of_aten(graph, event)
        for module in ("Global", *sorted(modules[within[event]])):
            of = out.setdefault(module, {})
            of[op] = of.get(op, 0) + count
    return out
