"""`Node`: one line of a `Graph`."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weft.fx.names import EFFECT_METHODS, effects, qualified_name, random_functions

if TYPE_CHECKING:
    from weft.fx.graph import Graph

#: What `Node.target` may be.
Target = Callable[..., Any] | str

#: What `Node.op` may be.
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`a` with `fn(node)` in place of each node in its tuples, lists, dicts and slices.

    >>> import weft
    >>> node = weft.fx.Graph().placeholder("x")
    >>> weft.fx.map_arg((1, [node]), lambda n: n.name)
    (1, ['x'])
    """
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`a` with `fn(x)` in place of each x that is no tuple, list, dict or slice.

    >>> import weft
    >>> weft.fx.node.map_aggregate((1, [2], {"k": 3}), lambda x: x * 10)
    (10, [20], {'k': 30})
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(x, fn) for x in a]
    if isinstance(a, dict):
        return {k: map_aggregate(v, fn) for k, v in a.items()}
    if isinstance(a, slice):
        return slice(*[map_aggregate(x, fn) for x in (a.start, a.stop, a.step)])
    return fn(a)


def nodes_of(*values: Any) -> dict[Node, None]:
    """The nodes in arguments, each once, in order."""
    found: dict[Node, None] = {}
    map_arg(values, lambda n: found.setdefault(n))
    return found


class Node:
    """An input, a parameter, a call or the result of a `Graph`.

    Attributes:
        graph: the graph that it is in.
        name: its name in the code, one of its own.
        op: "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output".
        target: a placeholder's name; the path of a parameter or module; the function; a method's
            name.
        args, kwargs: of the call; nodes stand for values. Written as a whole.
        users: the nodes that use it, as keys.
        meta: a dict for whoever wants to note something.
        next, prev: the nodes after and before it.

    Raises:
        ValueError: another `op`, or a `target` that is not of its kind.

    >>> import weft
    >>> graph = weft.fx.symbolic_trace(lambda x: weft.exp(x) + 1).graph
    >>> [(node.op, node.name, node.args) for node in graph.nodes][1:3]
    [('call_function', 'exp', (x,)), ('call_function', 'add', (exp, 1))]
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Any,
        args: Any,
        kwargs: Any,
        type: Any = None,
    ) -> None:
        if op not in OPS:
            raise ValueError(f"[Node] expected op one of {', '.join(OPS)}, got {op!r}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"[Node] expected a callable to call, got {target!r} (a {builtins.type(target)}). "
                "Hint: modules and methods are called by name"
            )
        if op in ("call_method", "call_module", "get_attr") and not isinstance(target, str):
            raise ValueError(f"[Node] expected a name as the target of {op}, got {target!r}")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._set(args, kwargs)

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, a: tuple[Any, ...]) -> None:
        self._set(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:
        self._set(self._args, k)

    def _set(self, args: Any, kwargs: Any) -> None:
        args, kwargs = tuple(args), dict(kwargs)
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._args, self._kwargs = args, kwargs
        self._input_nodes = nodes_of(args, kwargs)
        for new in self._input_nodes:
            new.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    @property
    def stack_trace(self) -> str | None:
        """Where the call was made, if that was noted."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def prepend(self, x: Node) -> None:
        """Moves `x` before this node."""
        if self.graph is not x.graph:
            raise AssertionError("[prepend] expected a node of the same graph, got another's")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Moves `x` behind this node."""
        if x is not self:
            self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self

    def update_arg(self, idx: int, arg: Any) -> None:
        """Puts `arg` in place of positional argument `idx`."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Puts `arg` before positional argument `idx`."""
        args = list(self._args)
        args.insert(idx, arg)
        self.args = tuple(args)

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Sets a keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Puts a node in place of another one in all arguments."""
        args, kwargs = map_arg(
            (self._args, self._kwargs), lambda n: new_input if n is old_input else n
        )
        self._set(args, kwargs)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Puts another node in place of this one wherever it is used; the users that changed.

        Args:
            replace_with: the node to put there.
            delete_user_cb: whether a user is to change.
            propagate_meta: also copies `meta`, which the other must not have.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "[replace_all_uses_with] expected an empty meta of replace_with to copy to, "
                    f"got {list(replace_with.meta)}"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it does more than to give a result: then `eliminate_dead_code` leaves it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            draws = impure_random and self.target in random_functions()
            writes = "out" in self._kwargs or self._kwargs.get("inplace") is True
            return (
                draws
                or writes
                or self.target in effects
                or self.target in _WRITES
                or _is_in_place(name)
            )
        if self.op == "call_method":
            return _is_in_place(self.target) or self.target in EFFECT_METHODS
        if self.op == "call_module":
            module = self.graph.owning_module
            found = None if module is None else dict(module.named_modules()).get(self.target)
            return bool(getattr(found, "_is_impure", False))
        return False

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: Any = None
    ) -> str | None:
        """One line that says what it is."""
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(str(self.target))
            default = f"(default={self._args[0]!r})" if self._args else ""
            used = f"[num_users={len(self.users)}]"
            return f"%{self.name} : {used} = placeholder[target={self.target}]{default}"
        if self.op == "output":
            return f"return {self._args[0]}"
        what = target_name(self)
        line = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={what}]"
        if self.op == "get_attr":
            return line
        words = ", ".join(f"{k}: {format_arg(v)}" for k, v in self._kwargs.items())
        return f"{line}(args = {format_arg(self._args)}, kwargs = {{{words}}})"

    def __repr__(self) -> str:
        return self.name

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("[Node] expected a value, got a node, over which nothing can loop")

    def __lt__(self, other: Node) -> bool:
        return self._position() < other._position()

    def __gt__(self, other: Node) -> bool:
        return self._position() > other._position()

    def __le__(self, other: Node) -> bool:
        return not self > other

    def __ge__(self, other: Node) -> bool:
        return not self < other

    def _position(self) -> int:
        for k, node in enumerate(self.graph.nodes):
            if node is self:
                return k
        raise RuntimeError(f"[Node] expected a node of its graph, got {self.name}, which is erased")


_WRITES = (operator.setitem, operator.delitem, setattr, delattr, *(
    getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand",
                 "ior", "ixor", "ilshift", "irshift")
))  # fmt: skip


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def target_name(node: Node) -> str:
    """What a node calls, as text."""
    if isinstance(node.target, str):
        return node.target
    return qualified_name(node.target)


def format_arg(a: Any) -> str:
    """An argument as `format_node` shows it."""
    if isinstance(a, Node):
        return f"%{a.name}"
    if isinstance(a, tuple):
        inner = ", ".join(map(format_arg, a))
        return f"({inner},)" if len(a) == 1 else f"({inner})"
    if isinstance(a, list):
        return f"[{', '.join(map(format_arg, a))}]"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{k}: {format_arg(v)}" for k, v in a.items()) + "}"
    return str(a)
