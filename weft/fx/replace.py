"""`replace_pattern`: calls of one form become calls of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.fx.graph_module import GraphModule
from weft.fx.node import Node
from weft.fx.tracer import symbolic_trace


class Match(NamedTuple):
    """Where `replace_pattern` found a pattern.

    Attributes:
        anchor: the node that gave its result.
        nodes_map: what each of the pattern's nodes stood for.

    >>> import weft
    >>> gm = weft.fx.symbolic_trace(lambda x: weft.exp(x) + 1)
    >>> matches = weft.fx.replace_pattern(gm, lambda y: weft.exp(y), lambda y: weft.sin(y))
    >>> matches[0].anchor, {str(k): str(v) for k, v in matches[0].nodes_map.items()}
    (exp, {'exp': 'exp', 'y': 'x'})
    """

    anchor: Node
    nodes_map: dict[Node, Node]


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Puts `replacement` wherever the calls of `pattern` are, and recompiles.

    Calls within a match must not be used outside of it. Matches do not overlap: the first in order
    are taken.

    Args:
        gm: the Module that changes.
        pattern: a function, or a graph, with one result.
        replacement: the same with as many inputs.

    Returns:
        What was found.

    >>> import weft
    >>> gm = weft.fx.symbolic_trace(lambda x: weft.exp(x) + 1)
    >>> len(weft.fx.replace_pattern(gm, lambda x: weft.exp(x) + 1, lambda x: weft.exp(x)))
    1
    >>> gm.code.splitlines()[4].strip()
    'exp_1 = torch.exp(x);  x = None'
    """
    wanted, instead = (
        part if isinstance(part, GraphModule) else symbolic_trace(part)
        for part in (pattern, replacement)
    )
    inputs = wanted.graph.find_nodes(op="placeholder")
    fills = instead.graph.find_nodes(op="placeholder")
    if len(inputs) != len(fills):
        raise ValueError(
            f"[replace_pattern] expected a replacement with {len(inputs)} inputs, got {len(fills)}"
        )
    last = wanted.graph.output_node().args[0]
    if not isinstance(last, Node) or last.op == "placeholder":
        raise ValueError(
            "[replace_pattern] expected a pattern whose result is a call, got " + str(last)
        )
    found: list[Match] = []
    gone: set[Node] = set()
    replaced: dict[Node, Node] = {}
    for node in list(gm.graph.nodes):
        match: dict[Node, Node] = {}
        if not _fits(last, node, match) or not _is_whole(last, match, gone):
            continue
        with gm.graph.inserting_before(node):
            values = {
                fill: replaced.get(match[given], match[given]) if given in match else given
                for fill, given in zip(fills, inputs, strict=True)
            }
            result = gm.graph.graph_copy(instead.graph, values)
        node.replace_all_uses_with(result)
        replaced[node] = result
        found.append(Match(node, match))
        inner = [n for p, n in match.items() if p.op != "placeholder"]
        gone.update(inner)
        for old in sorted(inner, reverse=True):
            gm.graph.erase_node(old)
    _take_modules(gm, instead)
    gm.recompile()
    return found


def _fits(p: Any, n: Any, match: dict[Node, Node]) -> bool:
    """Whether `n` is what `p` says; `match` gets what each node of the pattern stands for."""
    if isinstance(p, Node):
        if p.op == "placeholder":
            return p not in match and match.setdefault(p, n) is n or match.get(p) is n
        if not isinstance(n, Node) or p.op != n.op or p.target != n.target:
            return False
        if p in match:
            return match[p] is n
        match[p] = n
        return _fits(p.args, n.args, match) and _fits(p.kwargs, n.kwargs, match)
    if isinstance(p, (tuple, list)):
        return (type(p) is type(n) and len(p) == len(n)
                and all(_fits(a, b, match) for a, b in zip(p, n, strict=True)))  # fmt: skip
    if isinstance(p, dict):
        return (
            isinstance(n, dict)
            and p.keys() == n.keys()
            and all(_fits(v, n[k], match) for k, v in p.items())
        )
    return type(p) is type(n) and bool(p == n)


def _is_whole(last: Node, match: dict[Node, Node], gone: set[Node]) -> bool:
    """Whether nothing outside uses what is inside, and nothing inside was replaced."""
    inner = {n for p, n in match.items() if p.op not in ("placeholder", "get_attr")}
    if inner & gone:
        return False
    return all(set(n.users) <= inner for n in inner if n is not match[last])


def _take_modules(gm: GraphModule, other: GraphModule) -> None:
    """Gives `gm` what the copied nodes name and it has not."""
    for node in other.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            holder: Any = gm
            for part in node.target.split("."):
                if not hasattr(holder, part):
                    gm._take(other, node.target)
                    break
                holder = getattr(holder, part)
