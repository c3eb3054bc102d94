"""The text of a `Graph`: Python that runs."""

from __future__ import annotations

import builtins
import keyword
import math
import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from weft.fx.names import public_names, qualified_name
from weft.fx.node import Node

if TYPE_CHECKING:
    from weft.fx.graph import Graph


class PythonCode(NamedTuple):
    """The text of a graph's `forward`, and the globals that it needs."""

    src: str
    globals: dict[str, Any]


_BINARY = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.floordiv: "//", operator.mod: "%", operator.pow: "**", operator.matmul: "@",
    operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<",
    operator.rshift: ">>", operator.lt: "<", operator.le: "<=", operator.eq: "==",
    operator.ne: "!=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
_UNARY = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}


class Writer:
    """Writes a graph as Python."""

    def __init__(self, graph: Graph, root: str, verbose: bool) -> None:
        self.graph, self.root, self.verbose = graph, root, verbose
        self.globals: dict[str, Any] = {"torch": weft}
        self.last_use: dict[Node, Node] = {}
        for node in graph.nodes:
            for used in node.all_input_nodes:
                self.last_use[used] = node

    def write(self) -> PythonCode:
        inputs = [n for n in self.graph.nodes if n.op == "placeholder"]
        params = [self.parameter(n) for n in inputs]
        lines = [f"def forward({', '.join([self.root, *params])}):"]
        lines += [f"    {n.name} = {n.target.lstrip('*')}" for n in inputs
                  if n.name != n.target.lstrip("*")]  # fmt: skip
        last_line = None
        for node in self.graph.nodes:
            if node.op == "placeholder":
                continue
            line = node.stack_trace if self.verbose else None
            if line and line != last_line:
                lines.append(f"    # {line}")
            last_line = line
            lines.append(f"    {self.statement(node)}{self.ends(node)}")
        return PythonCode("\n\n\n" + "\n".join(lines) + "\n    ", self.globals)

    def parameter(self, node: Node) -> str:
        default = f" = {self.shown(node.args[0])}" if node.args else ""
        return f"{node.target}{default}"

    def ends(self, node: Node) -> str:
        """What the node uses last, so that its memory goes."""
        if node.op == "output":
            return ""
        over = [n.name for n in node.all_input_nodes if self.last_use[n] is node]
        if not node.users:
            over.append(node.name)
        return f";  {' = '.join(over)} = None" if over else ""

    def statement(self, node: Node) -> str:
        if node.op == "output":
            return f"return {self.shown(node.args[0])}"
        if node.op == "get_attr":
            return f"{node.name} = {self.path(node.target)}"
        if node.op == "call_module":
            return (
                f"{node.name} = {self.path(node.target)}({self.arguments(node.args, node.kwargs)})"
            )
        if node.op == "call_method":
            inner = self.arguments(node.args[1:], node.kwargs)
            return f"{node.name} = {self.held(node.args[0])}.{node.target}({inner})"
        return f"{node.name} = {self.call(node)}"

    def call(self, node: Node) -> str:
        target, args = node.target, node.args
        if not node.kwargs and len(args) == 2:
            if target in _BINARY:
                return f"{self.held(args[0])} {_BINARY[target]} {self.held(args[1])}"
            if target is operator.getitem:
                return f"{self.held(args[0])}[{self.shown(args[1])}]"
            if target is getattr and isinstance(args[1], str) and args[1].isidentifier():
                return f"{self.held(args[0])}.{args[1]}"
        if not node.kwargs and len(args) == 1 and target in _UNARY:
            return f"{_UNARY[target]}{self.held(args[0])}"
        return f"{self.named(target)}({self.arguments(args, node.kwargs)})"

    def path(self, target: str) -> str:
        text = self.root
        for part in target.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
        return text

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        # as `from` of `uniform_`
        odd = {k: v for k, v in kwargs.items() if not k.isidentifier() or keyword.iskeyword(k)}
        words = [f"{k} = {self.shown(v)}" for k, v in kwargs.items() if k not in odd]
        return ", ".join(
            [*map(self.shown, args), *words, *([f"**{self.shown(odd)}"] if odd else [])]
        )

    def held(self, a: Any) -> str:
        """An operand: what would bind otherwise is in brackets."""
        text = self.shown(a)
        is_plain = re.fullmatch(r"\d+(\.\d*)?(e[+-]?\d+)?|[A-Za-z_]\w*", text)
        return text if is_plain else f"({text})"

    def shown(self, a: Any) -> str:
        """An argument as an expression."""
        if isinstance(a, Node):
            return a.name
        if isinstance(a, tuple) and type(a) is not tuple:
            inner = ", ".join(map(self.shown, a))
            return f"{self.alias(type(a))}({inner if hasattr(a, '_fields') else f'[{inner}]'})"
        if isinstance(a, tuple):
            return f"({', '.join(map(self.shown, a))}{',' * (len(a) == 1)})"
        if isinstance(a, list):
            return f"[{', '.join(map(self.shown, a))}]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{k!r}: {self.shown(v)}" for k, v in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({', '.join(map(self.shown, (a.start, a.stop, a.step)))})"
        if isinstance(a, float) and not math.isfinite(a):
            return f"float({str(a)!r})"
        if a is None or a is ... or type(a) in (int, float, bool, str, bytes, complex):
            return repr(a)
        if isinstance(a, (weft.dtype, weft.layout, weft.memory_format)):
            return str(a)
        if isinstance(a, weft.device):
            return f"torch.{a!r}"
        return self.alias(a)

    def named(self, function: Any) -> str:
        """A function by a name that leads to it, or by an alias among the globals."""
        if (known := public_names().get(id(function))) is not None:
            return known
        name = getattr(function, "__name__", "")
        for space in ("_C", "_C.ops"):
            if getattr(operator.attrgetter(space)(weft), name, None) is function:
                return f"torch.{space}.{name}"
        if vars(builtins).get(name) is function:
            return str(name)
        text = qualified_name(function)
        found: Any = weft if text.startswith("torch.") else None
        for part in text.split(".")[1:]:
            found = getattr(found, part, None)
        return text if found is function and found is not None else self.alias(function)

    def alias(self, value: Any) -> str:
        text = qualified_name(value) if callable(value) else type(value).__name__
        base = re.sub(r"\W", "_", text)
        name, k = base, 0
        while name in self.globals and self.globals[name] is not value:
            k += 1
            name = f"{base}_{k}"
        self.globals[name] = value
        return name
