"""`symbolic_trace`: functions run on proxies, and what they do becomes a `Graph`."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import sys
import threading
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

import weft
from weft.base.alias import home_name
from weft.fx.graph import Graph
from weft.fx.graph_module import GraphModule
from weft.fx.node import Node, map_aggregate
from weft.fx.proxy import Proxy, TraceError, proxies_in
from weft.nn.module import Module
from weft.nn.shared_structure import changes

_wrapped: list[tuple[dict[str, Any], str]] = []
_tracing = threading.local()


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """A function of the calling module that is a node where it is called with proxies.

    Args:
        fn_or_name: its name, or the function, which is given back: then it is a decorator. The name
            may be a built-in function's, such as "len".

    Raises:
        RuntimeError: neither a name nor a function.
        NotImplementedError: a call inside of a function or class: its names are none of the module.

    >>> import weft
    >>> @weft.fx.wrap
    ... def halves(x):
    ...     return x / 2 if x.sum() > 1 else x
    >>> [node.name for node in weft.fx.symbolic_trace(lambda x: halves(x)).graph.nodes]
    ['x', 'halves', 'output']
    """
    frame = inspect.currentframe()
    if (
        frame is None
        or frame.f_back is None
        or not (callable(fn_or_name) or isinstance(fn_or_name, str))
    ):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    if frame.f_back.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    _wrapped.append((frame.f_back.f_globals, name))
    return fn_or_name


class Tracer:
    """Makes a `Graph` of what a function or Module does with proxies.

    Args:
        autowrap_modules: modules whose functions are nodes where they get proxies.
        autowrap_functions: functions for which the same holds.
        param_shapes_constant: without effect.

    Attributes:
        graph: the graph, while and after `trace`.
        root: the Module that is traced.

    >>> import weft
    >>> class Into(weft.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> [node.op for node in Into().trace(weft.nn.ReLU()).nodes]
    ['placeholder', 'call_function', 'output']
    """

    graph: Graph
    root: Module

    def __init__(
        self,
        autowrap_modules: tuple[Any, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._modules, self._functions = autowrap_modules, autowrap_functions
        self._paths: dict[int, str] = {}
        self._places: dict[int, str] = {}
        self._constants: dict[int, str] = {}
        self._inside: list[str] = []

    # ---- what a subclass may decide

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module becomes a node; otherwise its `forward` is traced: all of weft.nn but
        `Sequential` are leaves."""
        return type(m).__module__.startswith("weft.nn") and not isinstance(m, weft.nn.Sequential)

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a module of the root: a node, or what `forward` gives."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        self._inside.append(path)
        try:
            return forward(*args, **kwargs)
        finally:
            self._inside.pop()

    def create_arg(self, a: Any) -> Any:
        """What an argument is in a node: proxies are nodes, tensors attributes of the root."""
        if isinstance(a, dict) and any(isinstance(k, Proxy) for k in a):
            raise RuntimeError(
                "Keys for dictionaries used as an argument cannot contain a Node. Got a proxy"
            )
        return map_aggregate(a, self._arg)

    def _arg(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, weft.Tensor):
            return self._attribute(a)
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return a

    def _attribute(self, t: weft.Tensor) -> Node:
        path = self._places.get(id(t)) or self._constants.get(id(t))
        if path is None:
            k = 0
            while hasattr(self.root, f"_tensor_constant{k}"):
                k += 1
            path = f"_tensor_constant{k}"
            self._constants[id(t)] = path
            setattr(self.root, path, t)
        return self.create_node("get_attr", path, (), {})

    def iter(self, obj: Proxy) -> Iterator[Proxy]:
        """A loop over a proxy: refused."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. Hint: weft.jit.trace runs "
            "on example inputs"
        )

    def keys(self, obj: Proxy) -> Any:
        """`**proxy`: what the keys are, as a proxy."""
        return self.create_proxy("call_method", "keys", (obj,), {})

    def to_bool(self, obj: Proxy) -> bool:
        """A branch on a proxy: refused."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow. Hint: "
            "weft.jit.trace runs a function on example inputs, weft.compile keeps branches"
        )

    def path_of_module(self, mod: Module) -> str:
        """The path of a module of the root.

        Raises:
            NameError: the root does not have it.
        """
        path = self._paths.get(id(mod))
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    # ---- nodes

    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node in the graph."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self._inside:
            node.meta["nn_module_stack"] = tuple(self._inside)
        return node

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None,
        type_expr: Any = None, proxy_factory_fn: Any = None,
    ) -> Proxy:  # fmt: skip
        """A node in the graph, and what stands for its value."""
        made = self.create_node(
            kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr
        )
        return self.proxy(made) if proxy_factory_fn is None else proxy_factory_fn(made)

    def proxy(self, node: Node) -> Proxy:
        """What stands for the value of a node."""
        return Proxy(node, self)

    # ---- tracing

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """The graph of a Module's `forward`, or of a function.

        Args:
            root: the Module or function.
            concrete_args: values of arguments that are not to be inputs.
        """
        function: Any
        if isinstance(root, Module):
            self.root, function = root, type(root).forward
            first: tuple[Any, ...] = (root,)
        else:
            self.root, function, first = Module(), root, ()
        self.graph = Graph(tracer_cls=type(self))
        self._paths = {id(m): n for n, m in reversed([*self.root.named_modules()])}
        named = [*self.root.named_parameters(), *self.root.named_buffers()]
        self._places = {id(t): n for n, t in reversed(named)}
        for prefix, module in self.root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, weft.Tensor):
                    self._places.setdefault(id(value), f"{prefix}.{name}".lstrip("."))
        self._constants = {}
        function, args = self._inputs(function, first, concrete_args or {})
        with self._patched():
            result = function(*args)
            self.create_node("output", "output", (self.create_arg(result),), {})
        return self.graph

    def _inputs(
        self, function: Any, first: tuple[Any, ...], concrete: dict[str, Any]
    ) -> tuple[Any, list[Any]]:
        """A placeholder for each parameter; the function, which takes them all by position."""
        function = inspect.unwrap(function)
        if isinstance(function, MethodType):
            function, first = function.__func__, (function.__self__, *first)
        args = list(first)
        kinds = inspect.Parameter
        stars: dict[Any, str] = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}
        given = [*inspect.signature(function).parameters.values()]
        # in the order of a code object's variables
        for p in sorted(given[len(first) :], key=lambda p: p.kind in stars):
            default: tuple[Any, ...] = () if p.default is kinds.empty else (p.default,)
            if p.name in concrete:
                default = (concrete[p.name],)
            name = (stars[p.kind] if p.kind in stars else "") + p.name
            made = self.proxy(self.create_node("placeholder", name, default, {}))
            args.append(concrete.get(p.name, made))
        if isinstance(function, FunctionType):
            code = function.__code__
            starred = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
            plain = code.replace(
                co_argcount=len(args), co_posonlyargcount=0, co_kwonlyargcount=0,
                co_flags=code.co_flags & ~starred,
            )  # fmt: skip
            function = FunctionType(
                plain, function.__globals__, function.__name__, None, function.__closure__
            )
        return function, args

    @contextlib.contextmanager
    def _patched(self) -> Iterator[None]:
        """While it lives, calls of functions and modules with proxies are nodes."""
        changed: list[tuple[dict[str, Any], str, Any]] = []
        wrappers = {id(f): _recording(f) for f in self._recorded()}
        for name, imported in list(sys.modules.items()):
            space = getattr(imported, "__dict__", None)
            if not isinstance(space, dict) or home_name(name).startswith("weft.fx"):
                continue
            for key, value in list(space.items()):
                if (made := wrappers.get(id(value))) is not None:
                    changed.append((space, key, value))
                    space[key] = made
        for space, key in _wrapped:
            original = space.get(key)
            function = original if original is not None else getattr(builtins, key, None)
            if function is None:  # its module has it no longer, so nobody calls it
                continue
            changed.append((space, key, original))
            space[key] = _recording(function)
        modules = list(self.root.modules())
        before = [m.__dict__.get("_compiled_call_impl") for m in modules]
        for module in modules:
            changes(module)
            module.__dict__["_compiled_call_impl"] = _module_call(module)
        outer, _tracing.tracer = getattr(_tracing, "tracer", None), self
        try:
            yield
        finally:
            _tracing.tracer = outer
            for module, call in zip(modules, before, strict=True):
                changes(module)
                if call is None:
                    del module.__dict__["_compiled_call_impl"]
                else:
                    module.__dict__["_compiled_call_impl"] = call
            for space, key, value in reversed(changed):
                if value is None:
                    del space[key]
                else:
                    space[key] = value

    def _recorded(self) -> list[Any]:
        """The functions that are nodes where they get proxies, besides those that ask for it
        (`Proxy.__torch_function__`)."""
        found = [
            value
            for space in self._modules
            for name, value in vars(space).items()
            if not name.startswith("_") and callable(value) and not isinstance(value, type)
        ]
        return [*found, *self._functions]


def _recording(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        found = next(proxies_in((args, kwargs)), None)
        if found is None:
            return function(*args, **kwargs)
        return found.tracer.create_proxy("call_function", function, args, kwargs)

    return call


def _module_call(module: Module) -> Callable[..., Any]:
    """What takes the place of a module's call while it is traced."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        if module._hooked:
            return module._call_with_hooks(args, kwargs)
        return module.forward(*args, **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = getattr(_tracing, "tracer", None)
        if tracer is None:  # another thread
            return forward(*args, **kwargs)
        return tracer.call_module(module, forward, args, kwargs)

    return call


class GraphAppendingTracer(Tracer):
    """Puts nodes into a graph that is there: for proxies made of its nodes."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.root = graph.owning_module if graph.owning_module is not None else Module()


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A `GraphModule` of what a Module or function does, whatever the values are.

    It is run once on proxies, of which nothing is known: branches and loops on values raise.
    Modules of weft.nn are calls of modules, others are gone through.

    Args:
        root: a Module or function.
        concrete_args: values of arguments that are not to be inputs.

    Raises:
        TraceError: what it does depends on values (a ValueError).

    >>> import weft
    >>> gm = weft.fx.symbolic_trace(lambda x: weft.relu(x).sum())
    >>> print(gm.graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        %sum_1 : [num_users=1] = call_method[target=sum](args = (%relu,), kwargs = {})
        return sum_1
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name if name.isidentifier() else "GraphModule")
