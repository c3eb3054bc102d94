"""Calls written down as a `Graph` while they run: what `jit.trace` makes of one run."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import weft
from weft import _C
from weft.base.frames import user_frame
from weft.fx.graph import Graph
from weft.fx.graph_module import GraphModule, over
from weft.fx.names import effects
from weft.fx.node import Node, map_aggregate
from weft.nn.module import Module

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "matmul": operator.matmul, "pow": operator.pow, "neg": operator.neg, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


class Recording:
    """The graph of what runs in `run`, from calls that are really made.

    A value that is read becomes a node that raises where it is another one, a layout that depends
    on values one that raises where it is another layout. Tensors that come from elsewhere are
    attributes of the Module.

    Args:
        root: the Module whose parameters and buffers are named; or None.
        keep: called with a tensor before its gradient changes, with a generator before its state
            does.

    Attributes:
        graph: the graph.
        constants: the tensors that come from elsewhere, by attribute.
    """

    def __init__(
        self, root: Module | None, keep: Callable[[Any], None] = lambda changed: None
    ) -> None:
        self.graph = Graph()
        self.keep = keep
        self.root = Module() if root is None else root
        self.constants: dict[str, Any] = {}
        self._values: dict[int, Node] = {}
        self._leaves: set[int] = set()  # those that require grad by themselves
        self._kept: list[Any] = []  # an identity that is known is not given away
        self._generators: dict[int, Node] = {}  # those that are made in here
        self._grad = self._first_grad = weft.is_grad_enabled()
        named = [*self.root.named_parameters(), *self.root.named_buffers()]
        self._paths = {id(t): name for name, t in reversed(named)}

    def input(self, value: Any, name: str) -> Node:
        """An input; tuples, lists and dicts of tensors are one."""
        node = self.graph.placeholder(name)
        self._know(node, value)
        return node

    def _know(self, node: Node, value: Any) -> None:
        """`value`, which `node` stands for, and what is in it."""
        if isinstance(value, weft.Tensor):
            self._values[id(value)] = node
            self._kept.append(value)
            if value.requires_grad and value.is_leaf:
                self._leaves.add(id(value))
        elif isinstance(value, dict):
            for key, item in value.items():
                if _has_tensor(item):
                    self._know(self.graph.call_function(operator.getitem, (node, key)), item)
        elif isinstance(value, (tuple, list)):
            for k, item in enumerate(value):
                if _has_tensor(item):
                    self._know(self.graph.call_function(operator.getitem, (node, k)), item)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `function` gives; the graph ends with that."""

        def call() -> Any:
            return function(*args, **kwargs)

        result = _C._record_calls(self, call)
        self._set_grad(self._first_grad)
        self.graph.output(self.arg(result))
        self.graph.eliminate_dead_code(_stays)
        self._values.clear()
        self._kept.clear()
        return result

    def module(self, name: str) -> GraphModule:
        """A Module of the graph over the tables of the root."""
        return over(self.root, self.graph, name, self.constants)

    # ---- what the core tells

    def __call__(
        self, name: str, way: str, args: list[Any], kwargs: dict[str, Any], results: list[Any],
        grad: bool, sized: bool,
    ) -> None:  # fmt: skip
        """A call of an op that has been made."""
        if way == "generator":
            raise NotImplementedError(
                f"[trace] expected random numbers of a Generator, got {name} within autobatch. "
                'Hint: rng="in_order"'
            )
        self._set_grad(bool(grad))
        given = tuple(self._number_or(a) for a in args)
        words = {k: self.arg(v) for k, v in kwargs.items()}
        node = self._call(name, way, given, words)
        node.stack_trace = where()
        if way == "several":
            self._know(node, tuple(results))
        elif way == "one" and "out" not in kwargs:
            self._know(node, results[0])
        if sized:
            for t in results:
                args_of = (self._values[id(t)], tuple(t.shape), node.stack_trace)
                self.graph.call_function(expect_shape, args_of)

    def _call(self, name: str, way: str, given: Any, words: dict[str, Any]) -> Node:
        if way == "in place" and None in (words.get("indices") or ()):
            # the public op has no such index
            key = tuple(slice(None) if k is None else k for k in words["indices"])
            return self.graph.call_function(operator.setitem, (*given, key, words["values"]))
        if way == "in place":
            return self.graph.call_method(f"{name}_", given, words)
        return self.graph.call_function(function_of(name, given, words), given, words)

    def read(self, t: weft.Tensor) -> None:
        """Values that are read: another time they have to be the same."""
        if not self._is_ours(t) and self._alias(t) is None:
            return
        value = t.item() if t.numel() == 1 else self._constant(t.detach().clone())
        place = where()
        made = self.graph.call_function(expect_value, (self.arg(t), value, place))
        made.stack_trace = place

    def whole(self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """A call that is one node, whatever it does; what it gives."""

        def call() -> Any:
            return function(*args, **kwargs)

        grad = weft.is_grad_enabled()
        result = _C._unrecorded(call)
        self._set_grad(grad)
        words = {k: self.arg(v) for k, v in kwargs.items()}
        node = self.graph.call_function(function, tuple(self.arg(a) for a in args), words)
        node.stack_trace = where()
        self._know(node, result)
        return result

    def backward(self, args: tuple[Any, ...]) -> Any:
        """A pass that adds to gradients, as one node."""
        for t in (*self.root.parameters(), *self.constants.values()):
            if t.is_leaf and t.requires_grad:
                self.keep(t)
        for t in [t for t in self._kept if isinstance(t, weft.Tensor) and t.retains_grad]:
            self.graph.call_method("retain_grad", (self.arg(t),))
        return self.whole(_C._backward, args, {})

    def beside(self, how: str, it: Any, value: Any) -> None:
        """What is asked or changed by no call of an op."""
        if how == "draws":
            if id(it) not in self._generators:
                self.keep(it)
        elif how == "made":
            self._make(it, self.graph.call_function(weft.Generator))
        elif how == "grad":
            node = self.graph.call_function(getattr, (self.arg(it), "grad"))
            if value is not None:
                self._know(node, value)
            else:
                place = where()
                self.graph.call_function(expect_value, (node, None, place)).stack_trace = place
        else:
            name = how.removeprefix("set ")
            if name == "grad":
                self.keep(it)
            self.graph.call_function(setattr, (self.arg(it), name, self.arg(value)))

    def called(self, method: str, generator: Any, args: tuple[Any, ...], result: Any) -> None:
        """A method of a generator."""
        given = tuple(self.arg(a) for a in (generator, *args))
        node = self.graph.call_method(method, given)
        node.stack_trace = where()
        if isinstance(result, weft.Tensor):
            self._know(node, result)
        elif isinstance(result, weft.Generator) and result is not generator:
            self._make(result, node)

    def _make(self, generator: Any, node: Node) -> None:
        self._generators[id(generator)] = node
        self._kept.append(generator)

    def _set_grad(self, on: bool) -> None:
        if on != self._grad:
            self._grad = on
            self.graph.call_function(weft.set_grad_enabled, (on,))

    # ---- arguments

    def _number_or(self, a: Any) -> Any:
        if isinstance(a, tuple) and len(a) == 1 and isinstance(a[0], weft.Tensor):
            return self.arg(a[0]) if self._is_ours(a[0]) else a[0].item()
        return self.arg(a)

    def arg(self, a: Any) -> Any:
        """A value as nodes see it."""
        return map_aggregate(
            a,
            lambda x: (
                self._node_of(x) if isinstance(x, weft.Tensor) else self._generators.get(id(x), x)
            ),
        )

    def _is_ours(self, t: weft.Tensor) -> bool:
        return id(t) in self._values or id(t) in self._paths

    def _node_of(self, t: weft.Tensor) -> Node:
        node = self._values.get(id(t)) or self._alias(t)
        if node is not None and t.is_leaf and t.requires_grad and id(t) not in self._leaves:
            node = self.graph.call_method("requires_grad_", (node,))
        if node is None:
            path = self._paths.get(id(t))
            node = self._constant(t) if path is None else self.graph.get_attr(path)
        if self._values.get(id(t)) is not node:
            self._know(node, t)
        return node

    def _constant(self, t: weft.Tensor) -> Node:
        name = f"_tensor_constant{len(self.constants)}"
        self.constants[name] = t
        return self.graph.get_attr(name)

    def _alias(self, t: weft.Tensor) -> Node | None:
        """A tensor that shares the memory of a value and came by no call, as of `detach`."""
        if id(t) in self._paths or t.numel() == 0:
            return None
        start, layout = t.untyped_storage().data_ptr(), _layout(t)
        alike = [
            known
            for known in reversed(self._kept)
            if isinstance(known, weft.Tensor)
            and known.numel()
            and known.untyped_storage().data_ptr() == start
        ]
        for known in alike:
            if _layout(known) == layout and known.dtype == t.dtype:
                return self._outside(known, t)
        if not alike or alike[0].dtype != t.dtype:
            return None
        return self.graph.call_function(weft.as_strided, (self._outside(alike[0], t), *layout))

    def _outside(self, known: weft.Tensor, t: weft.Tensor) -> Node:
        """The node of `known`, outside of the graph of gradients if `t` is."""
        node = self._values[id(known)]
        if t.is_leaf and (known.requires_grad or t.requires_grad):
            node = self.graph.call_method("detach", (node,))
        return node


def _layout(t: weft.Tensor) -> tuple[Any, ...]:
    return tuple(t.shape), t.stride(), t.storage_offset()


def recorded(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Inside of a recording: `function` called as one node (Note [Recorded])."""
    return _C._recording().whole(function, args, kwargs)


def function_of(name: str, args: Any, kwargs: Any) -> Callable[..., Any]:
    """The function by which Python calls an op: an operator where there is one."""
    short = _OPERATORS.get(name)
    if short is not None and not kwargs and len(args) == (1 if name == "neg" else 2):
        return short
    space, name = (_C.ops, name[4:]) if name.startswith("ops.") else (_C, name)
    return getattr(space, name, None) or getattr(_C.ops, name)  # type: ignore[no-any-return]


def _has_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_tensor, value.values()))
    if isinstance(value, (tuple, list)):
        return any(map(_has_tensor, value))
    return isinstance(value, weft.Tensor)


def _stays(node: Node) -> bool:
    """All that was called; not what was only looked up, and used by nobody."""
    return node.op != "get_attr" and node.target not in (operator.getitem, getattr)


def where() -> str:
    """The line of the user's that is running."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def expect_value(t: weft.Tensor | None, value: Any, place: str) -> None:
    """Raises unless `t` is what was read in the run that was recorded.

    Raises:
        RuntimeError: it is another value, with the line of the read.
    """
    if value is None or t is None:
        if t is value:
            return
        got, wanted = ("None" if t is None else "a gradient"), repr(value)
    elif isinstance(value, weft.Tensor):
        if weft.equal(t, value):
            return
        got, wanted = "others", f"the {value.numel()} values"
    else:
        found = t.item()
        if found == value or (found != found and value != value):
            return
        got, wanted = repr(found), repr(value)
    raise RuntimeError(
        f"[trace] expected {wanted} that the traced run read at {place}, got {got}. Hint: this "
        "call goes another way; jit.script compiles all of them"
    )


def expect_shape(t: weft.Tensor, shape: tuple[int, ...], place: str) -> None:
    """Raises unless `t` has the shape that it had in the run that was recorded.

    Raises:
        RuntimeError: it has another, with the line of the call.
    """
    if tuple(t.shape) != tuple(shape):
        raise RuntimeError(
            f"[trace] expected the shape {tuple(shape)} that the traced run had at {place}, got "
            f"{tuple(t.shape)}. Hint: it depends on values; jit.script compiles for all of them"
        )


effects.update((expect_value, expect_shape, _C._backward))
