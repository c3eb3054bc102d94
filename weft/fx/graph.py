"""`Graph`: calls in order, to be read, changed and written as Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from weft.fx.code import PythonCode, Writer
from weft.fx.names import Namespace, wanted_name
from weft.fx.node import Node, map_arg, nodes_of

if TYPE_CHECKING:
    from weft.nn.module import Module


class _Nodes:
    """The nodes of a graph, in order."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __iter__(self) -> Iterator[Node]:
        node = self._graph._root._next
        while node is not self._graph._root:
            yield node
            node = node._next
            while node._erased:  # it still knows what came after it
                node = node._next

    def __reversed__(self) -> Iterator[Node]:
        node = self._graph._root._prev
        while node is not self._graph._root:
            before = node._prev
            yield node
            node = before

    def __len__(self) -> int:
        return self._graph._len


class _InsertPoint:
    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self._graph, self._before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self._graph._insert = self._before


class Graph:
    """Calls in order: inputs, parameters, calls of functions, methods and modules, and the result.

    Args:
        owning_module: the Module whose parameters and modules the nodes name.
        tracer_cls: the class of the tracer that made it.
        tracer_extras: what that tracer wants to know again.

    >>> import weft
    >>> graph = weft.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.output(graph.call_function(weft.relu, (x,)))
    >>> print(graph.python_code("self").src.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        return relu
    """

    def __init__(
        self,
        owning_module: Module | None = None,
        tracer_cls: Any = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._names = Namespace()
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras

    # ---- reading

    @property
    def nodes(self) -> _Nodes:
        """The nodes in order: to loop over, also backwards, while some are erased or put in."""
        return _Nodes(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, and of a target if one is given."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The node of the result."""
        return next(n for n in reversed(self.nodes) if n.op == "output")

    def __str__(self) -> str:
        inputs: list[str] = []
        lines = [node.format_node(inputs) for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines if line)

    def print_tabular(self) -> None:
        """Prints a table: op, name, target, args, kwargs."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [
            [n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes
        ]  # fmt: skip
        widths = [max(len(row[k]) for row in rows) for k in range(5)]
        rows.insert(1, ["-" * w for w in widths])
        for row in rows:
            cells = (cell.ljust(w) for cell, w in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())

    # ---- making

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node where nodes are put in: at the end, or where `inserting_before` says.

        Raises:
            ValueError: there is no such op, or the target is none for it.
            RuntimeError: an argument is a node of another graph.
        """
        for given in nodes_of(args or (), kwargs or {}):
            if given.graph is not self:
                raise RuntimeError(
                    f"[create_node] expected nodes of this graph, got {given.name} of another"
                )
        wanted = name if name is not None else wanted_name(op, target)
        node = Node(
            self, self._names.create(wanted), op, target, args or (), kwargs or {}, type_expr
        )
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input; with `default_value`, one that may be left out."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the Module, by its path."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a module of the Module, by its path."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """The result: a node, or tuples, lists and dicts of them."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of a node, of another graph too; its arguments are what `arg_transform` gives."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Copies all nodes of `g` here but for its result, of which it gives what was returned.

        Args:
            g: the other graph.
            val_map: nodes of `g` and what stands for them here; what is copied is put in.
            return_output_node: give the result's node too.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """A scope in which new nodes come before `n`; without it before all."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("[inserting_before] expected a node of this graph, got another's")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """A scope in which new nodes come after `n`, in order; without it after all."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("[inserting_after] expected a node of this graph, got another's")
        return _InsertPoint(self, n._next.prepend)

    # ---- changing

    def erase_node(self, to_erase: Node) -> None:
        """Takes a node out that nothing uses.

        Raises:
            RuntimeError: a node uses it.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        after = to_erase._next
        to_erase._remove_from_list()
        to_erase._erased, to_erase._next = True, after
        self._len -= 1
        to_erase._set((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erases what gives no part of the result and does nothing else; whether there was any.

        Args:
            is_impure_node: whether a node is to stay; without it `Node.is_impure`.
        """
        self.lint()
        stays = is_impure_node or (lambda node: node.is_impure())
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not stays(node):
                self.erase_node(node)
        return self._len < before

    def lint(self) -> None:
        """Checks that nodes use what comes before them, and name what the Module has.

        Raises:
            RuntimeError: a node of another graph, used before it is there, or named twice.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node.all_input_nodes:
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        "Please check that Nodes in the graph are topologically ordered\n"
                        f"{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            self._lint_target(node)

    def _lint_target(self, node: Node) -> None:
        if self.owning_module is None or node.op not in ("get_attr", "call_module"):
            return
        found: Any = self.owning_module
        for part in node.target.split("."):
            if not hasattr(found, part):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of "
                    f"{type(found).__name__}"
                )
            found = getattr(found, part)
        if node.op == "call_module" and not isinstance(found, weft.nn.Module):
            raise RuntimeError(
                f"Node {node} target {node.target} is a {type(found).__name__}, which does not "
                "reference an nn.Module"
            )

    # ---- writing

    def python_code(self, root_module: str = "self", *, verbose: bool = False) -> PythonCode:
        """The text of `forward`, and the globals that it names.

        Args:
            root_module: the name of the Module there.
            verbose: where nodes know the line that they were recorded from, as a comment.
        """
        return Writer(self, root_module, verbose).write()

    def on_generate_code(self, make_transformer: Any) -> Any:
        """Raises NotImplementedError: the text is written in one way."""
        raise NotImplementedError(
            "[on_generate_code] expected nodes to change, got the code. Hint: change the graph, or "
            "the text in `GraphModule.code`, which exec runs"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        memo[id(self)] = made
        values: dict[Node, Node] = {}
        for node in self.nodes:
            values[node] = made.node_copy(node, lambda n: values[n])
        return made

    def __reduce__(self) -> Any:
        rows = [
            (n.name, n.op, n.target, *map_arg((n.args, n.kwargs), lambda m: _Named(m.name)), n.type)
            for n in self.nodes
        ]
        return _read, (rows,)


class _Named(NamedTuple):
    """A node in a pickle."""

    name: str


def _read(rows: list[tuple[Any, ...]]) -> Graph:
    graph = Graph()
    known: dict[str, Node] = {}

    def named(value: Any) -> Any:
        if isinstance(value, _Named):
            return known[value.name]
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return type(value)(map(named, value))
        if isinstance(value, dict):
            return {k: named(v) for k, v in value.items()}
        if isinstance(value, slice):
            return slice(*map(named, (value.start, value.stop, value.step)))
        return type(value)(*map(named, value)) if hasattr(value, "_fields") else value

    for name, op, target, args, kwargs, kind in rows:
        made = graph.create_node(op, target, named(args), named(kwargs), name, kind)
        known[name] = made
    return graph
