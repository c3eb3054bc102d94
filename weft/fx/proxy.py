"""`Proxy`: what stands for a value while a function is traced."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weft.fx.node import Node

if TYPE_CHECKING:
    from weft.fx.tracer import Tracer


def __getattr__(name: str) -> Any:
    """`GraphAppendingTracer`, which PyTorch has here; a tracer knows proxies, so it loads later."""
    from weft.base import lazy
    from weft.fx import tracer

    if name != "GraphAppendingTracer":
        raise lazy.missing(sys.modules[__name__], name)
    return tracer.GraphAppendingTracer


class TraceError(ValueError):
    """What a function does cannot be told without values."""


class Proxy:
    """Stands for the value of a node: what is done with it becomes nodes.

    Attributes:
        node: the node.
        tracer: the tracer that makes nodes.

    Raises:
        TraceError: a value is asked for, as by `if`, `int` or a loop.

    >>> import weft
    >>> graph = weft.fx.Graph()
    >>> y = weft.fx.Proxy(graph.placeholder("x")).relu() + 1
    >>> y, y.node.args
    (Proxy(add), (relu, 1))
    """

    def __init__(self, node: Node, tracer: Tracer | None = None) -> None:
        if tracer is None:
            from weft.fx.tracer import GraphAppendingTracer

            tracer = GraphAppendingTracer(node.graph)
        self.__dict__.update(node=node, tracer=tracer)

    node: Node
    tracer: Tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__"):  # what Python asks of every object
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __getitem__(self, key: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.getitem, (self, key), {})

    def __iter__(self) -> Iterator[Proxy]:
        """As many as are unpacked, where the calling line says how many."""
        count = _unpacked_by(sys._getframe(1))
        if count is None:
            return self.tracer.iter(self)
        return (self[k] for k in range(count))

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """For `**`: refused, unless the tracer knows them."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    def __contains__(self, other: object) -> bool:
        return self.tracer.to_bool(self)

    def _refuse(self, what: str) -> Any:
        raise TraceError(
            f"[Proxy] expected operations on tensors, got {what}: values are not known while a "
            "function is traced. Hint: weft.jit.trace runs it on example inputs"
        )

    def __int__(self) -> int:
        return int(self._refuse("int()"))

    def __float__(self) -> float:
        return float(self._refuse("float()"))

    def __index__(self) -> int:
        return int(self._refuse("an index or a length"))

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Proxy:
        """A call of a function with proxies among its arguments, as a node."""
        args, kwargs = args or (), kwargs or {}
        found = next(proxies_in((args, kwargs)))
        return found.tracer.create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """An attribute of a value: a method if it is called next, else a node of its own."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.__dict__.update(root=root, attr=attr, tracer=root.tracer, _node=None)

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node, made when somebody asks."""
        if self.__dict__["_node"] is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self.__dict__["_node"] = made.node
        return self.__dict__["_node"]  # type: ignore[no-any-return]

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def proxies_in(a: Any) -> Iterator[Proxy]:
    """The proxies in tuples, lists, dicts and slices."""
    if isinstance(a, Proxy):
        yield a
    elif isinstance(a, (tuple, list)):
        for x in a:
            yield from proxies_in(x)
    elif isinstance(a, dict):
        for x in a.values():
            yield from proxies_in(x)
    elif isinstance(a, slice):
        yield from proxies_in((a.start, a.stop, a.step))


def _unpacked_by(frame: Any) -> int | None:
    """How many values the instruction that `frame` is at unpacks into; None: it is another one."""
    import dis

    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.arg if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


def _operator(function: Callable[..., Any], reflected: bool = False) -> Any:
    def run(self: Proxy, *others: Any) -> Proxy:
        args = (*others, self) if reflected else (self, *others)
        return self.tracer.create_proxy("call_function", function, args, {})

    return run


for _name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift",
    "and_", "or_", "xor",
):  # fmt: skip
    _plain = _name.rstrip("_")
    setattr(Proxy, f"__{_plain}__", _operator(getattr(operator, _name)))
    setattr(Proxy, f"__r{_plain}__", _operator(getattr(operator, _name), reflected=True))
for _name in ("neg", "pos", "invert", "abs", "lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Proxy, f"__{_name}__", _operator(getattr(operator, _name)))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
