"""Floating-point operations of what ran: by op, and by the modules round it.

A call counts by its op's record (`flops` there: two for a product and its sum); what runs inside of
it does not count again. What runs in backward is of the modules that the forward call was in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from weft.see.tables import CALL, MODULE

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


class ModulesRound:
    """Names of the modules that an event was in.

    Names are those of `torch.utils.flop_counter`: a module's class if no module that has run holds
    it, else the path from there, "Net.encoder.0".
    """

    def __init__(self, graph: Graph) -> None:
        tables = graph._tables
        self._rows = tables.events[["kind", "parent", "module"]].tolist()
        self._found: dict[int, frozenset[str]] = {-1: frozenset()}
        self._names: dict[int, str] = {}
        self._seen: set[int] = set()
        self._of_event: dict[int, str] = {}
        for event in tables.paths:
            self._of_event[event] = self._name(tables.module_of(event))

    def _name(self, module: Any) -> str:
        own = self._names.setdefault(id(module), type(module).__name__)
        stack = [(module, own)]
        while stack:
            holder, path = stack.pop()
            if id(holder) in self._seen:
                continue
            self._seen.add(id(holder))
            for name, child in holder.named_children():
                self._names[id(child)] = f"{path}.{name}"
                stack.append((child, f"{path}.{name}"))
        return own

    def __call__(self, event: int) -> frozenset[str]:
        """Of an event by its number, its own name included if it is a module's call."""
        waiting = [event]
        while waiting:
            at = waiting[-1]
            if at in self._found:
                waiting.pop()
                continue
            kind, parent, module = self._rows[at]
            # of a batch, and of a node: where it was made
            before = [parent] if module == at else [parent, module]
            missing = [e for e in before if e not in self._found]
            if missing:
                waiting += missing
                continue
            own = {self._of_event[at]} if kind == MODULE else set()
            self._found[at] = frozenset(own.union(*(self._found[e] for e in before)))
        return self._found[event]


def by_module(graph: Graph, rules: Mapping[str, Rule] | None = None) -> dict[str, dict[str, int]]:
    """Operations by module, then by op; those of all are under "Global"."""
    out: dict[str, dict[str, int]] = {}
    modules = ModulesRound(graph)
    tables = graph._tables
    names = tables.events["name"].tolist()
    for event, count in counted_calls(graph, rules).items():
        op = tables.names[names[event]]
        for module in ("Global", *sorted(modules(event))):
            of = out.setdefault(module, {})
            of[op] = of.get(op, 0) + count
    return out
