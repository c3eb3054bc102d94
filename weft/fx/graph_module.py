"""`GraphModule`: a Module whose `forward` is a `Graph`."""

from __future__ import annotations

import copy
import itertools
import linecache
from typing import Any

from weft.fx.graph import Graph
from weft.nn.module import Module

_numbers = itertools.count()


class GraphModule(Module):
    """A Module that runs a `Graph`.

    It has the parameters, buffers and modules of `root` that the graph names. `graph` may be
    changed; `recompile()` then writes and compiles `forward` anew.

    Args:
        root: a Module, or a dict from paths to what the graph names.
        graph: the graph.
        class_name: the name of the class in what is printed.

    Attributes:
        graph: the graph; setting it recompiles.
        code: the text of `forward`.

    >>> import weft
    >>> gm = weft.fx.symbolic_trace(lambda x: weft.relu(x) + 1)
    >>> for node in gm.graph.find_nodes(op="call_function", target=weft.relu):
    ...     node.target = weft.tanh
    >>> gm.recompile().src.splitlines()[4].strip()
    'relu = torch.tanh(x);  x = None'
    """

    _graph: Graph

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """Each has a class of its own, which bears its `forward`."""
        base = next(c for c in cls.__mro__ if "_is_made" not in vars(c))
        made = type(base.__name__, (base,), {"_is_made": True, "__module__": base.__module__})
        return super().__new__(made)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = type(self).__qualname__ = class_name
        if isinstance(root, Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                self._take(root, node.target)
        self.graph = graph

    def _take(self, root: Module | dict[str, Any], path: str) -> None:
        if isinstance(root, dict):
            if path not in root:
                raise RuntimeError(
                    f"Node referenced target {path} but that target was not provided in `root`!"
                )
            value = root[path]
        else:
            value = root
            for part in path.split("."):
                if not hasattr(value, part):
                    raise RuntimeError(
                        f"Node referenced target {path} but {type(root).__name__} has no {part}"
                    )
                value = getattr(value, part)
        holder: Any = self
        *outer, last = path.split(".")
        for part in outer:
            if part not in holder._modules:
                holder.add_module(part, Module())
            holder = holder._modules[part]
        if isinstance(root, Module) and outer:
            owner: Module | None = root.get_submodule(".".join(outer))
        else:
            owner = root if isinstance(root, Module) else None
        if owner is not None and last in owner._buffers:
            persistent = last not in owner._non_persistent_buffers_set
            holder.register_buffer(last, value, persistent=persistent)
        else:
            setattr(holder, last, value)

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        if g.owning_module not in (None, self):
            g = copy.deepcopy(g)
        g.owning_module = self
        self.__dict__["_graph"] = g
        self.recompile()

    @property
    def code(self) -> str:
        """The text of `forward`."""
        return str(self.__dict__["_code"])

    def recompile(self) -> Any:
        """Writes and compiles `forward` from the graph as it is now; the text and its globals."""
        made = self._graph.python_code("self")
        self.__dict__["_code"] = made.src
        file = f"<graph of {type(self).__name__} {next(_numbers)}>"
        space = dict(made.globals)
        exec(compile(made.src, file, "exec"), space)
        # tracebacks show its lines, and weft.compile reads them
        linecache.cache[file] = (len(made.src), None, made.src.splitlines(True), file)
        forward = space["forward"]
        forward.__module__ = __name__
        type(self).forward = forward  # type: ignore[method-assign]
        return made

    def print_readable(self, print_output: bool = True) -> str:
        """The class as Python, with the lines that calls were recorded from; printed and given."""
        body = self._graph.python_code("self", verbose=True).src.strip().replace("\n", "\n    ")
        text = f"class {type(self).__name__}(torch.nn.Module):\n    {body}\n"
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at a path; whether that was possible."""
        holder: Any = self
        *outer, last = target.split(".")
        for part in outer:
            inner = holder._modules.get(part)
            if inner is None:
                if hasattr(holder, part):
                    return False
                inner = Module()
                holder.add_module(part, inner)
            holder = inner
        holder.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Takes a module away; whether there was one."""
        *outer, last = target.split(".")
        try:
            holder = self.get_submodule(".".join(outer))
        except AttributeError:
            return False
        if last not in holder._modules:
            return False
        delattr(holder, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Takes away the modules that no node names."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[: k + 1]) for k in range(len(parts)))
                if node.op == "call_module":
                    called = self.get_submodule(node.target).named_modules(prefix=node.target)
                    used.update(name for name, _ in called)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def __copy__(self) -> GraphModule:
        return self._like(self, self._graph)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        kept = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        plain = Module.__new__(Module)
        plain.__dict__.update(copy.deepcopy(kept, memo))
        made = self._like(plain, copy.deepcopy(self._graph, memo))
        memo[id(self)] = made
        return made

    def _like(self, root: Module, graph: Graph) -> GraphModule:
        made = _made(type(self).__mro__[1], type(self).__name__, graph)
        made.__dict__.update(
            {k: v for k, v in root.__dict__.items() if k not in ("_graph", "_code")}
        )
        return made

    def __reduce__(self) -> Any:
        kept = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        return _made, (type(self).__mro__[1], type(self).__name__, self._graph), kept

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n{self.code}\n# To see more debug info, please use " + (
            "`graph_module.print_readable()`"
        )


def _made(cls: type[GraphModule], name: str, graph: Graph) -> GraphModule:
    """One without modules yet."""
    made = cls.__new__(cls)
    Module.__init__(made)
    type(made).__name__ = type(made).__qualname__ = name
    if graph.owning_module is not None:
        graph = copy.deepcopy(graph)
    made.__dict__["_graph"] = graph
    graph.owning_module = made
    made.recompile()
    return made


def over(root: Module, graph: Graph, name: str, constants: dict[str, Any]) -> GraphModule:
    """A Module of a graph that shares parameters, buffers and modules with `root`."""
    graph.owning_module = None
    made = _made(GraphModule, name, graph)
    for kind in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
        made.__dict__[kind] = root.__dict__[kind]
    made.__dict__.update(constants)
    return made
