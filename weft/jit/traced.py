"""`jit.trace`: one run written down, call by call."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from types import MethodType
from typing import Any

import weft
from weft import _C
from weft.compiler.function import SKIP as _SKIP
from weft.compiler.function import CompiledFunction as _CompiledFunction
from weft.fx.graph_module import GraphModule
from weft.fx.recording import Recording, recorded
from weft.jit.scripted import ScriptFunction, ScriptModule, _shown, script
from weft.nn.module import Module

_DEFAULT_NAMES = ("args", "kwargs")


class TracingCheckError(Exception):
    """What a trace computes is not what the function does."""


class TracerWarning(Warning):
    """PyTorch's, for code that silences it: what it warns of raises here."""


class _Known:
    """One run written down."""

    def __init__(self, module: GraphModule, used: list[tuple[dict[str, Any], str, Any]]) -> None:
        self.module = module
        self.used = used  # tables, names and layouts of parameters and buffers
        self.compile()

    def compile(self) -> None:
        """Has calls run the text that the graph has now."""
        self.forward = type(self.module).forward
        self.call = _CompiledFunction(MethodType(self.forward, self.module))

    def fits(self) -> bool:
        return all(_layout(table.get(name)) == like for table, name, like in self.used)


def _layout(t: Any) -> Any:
    return None if t is None else (t.dtype, t.shape)


class _Traced:
    """A function or method, and its runs that were written down, by the layouts of inputs."""

    def __init__(self, function: Callable[..., Any], root: Module | None, strict: bool) -> None:
        self.function, self.root, self.strict = function, root, strict
        self.known: dict[Any, _Known] = {}
        self.last: _Known | None = None
        self.touched: dict[int, Any] = {}  # tensors whose gradients, generators whose states change
        self.names = _parameter_names(function.forward if function is root else function)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """What was traced: files have all of its ways."""
        return self.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if weft.jit.is_tracing():
            return self.function(*args, **kwargs)
        if kwargs:
            args, kwargs = self._bound(args, kwargs)
        key = self._key(args, kwargs)
        known = self.known.get(key)
        if known is None or not known.fits():
            known = self.known[key] = self.record(args, kwargs)
        if known.forward is not type(known.module).forward:
            known.compile()
        self.last = known
        with weft.set_grad_enabled(weft.is_grad_enabled()):
            return known.call(*args, *kwargs.values())

    def _bound(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Keyword arguments that could stand in a row, there."""
        args = list(args)
        while len(args) < len(self.names) and self.names[len(args)] in kwargs:
            args.append(kwargs.pop(self.names[len(args)]))
        return tuple(args), dict(sorted(kwargs.items()))

    def _key(self, args: Any, kwargs: Any) -> Any:
        modes = () if self.root is None else tuple(m.training for m in self.root.modules())
        return _signature((args, kwargs)), weft.is_grad_enabled(), modes

    def record(self, args: Any, kwargs: Any) -> _Known:
        """One run on copies of the inputs, written down."""
        args, kwargs = _copied((args, kwargs))
        state = _State(self.root)
        recording = Recording(self.root, state.keep)
        for k, value in enumerate(args):
            name = self.names[k] if k < len(self.names) else f"arg{k}"
            recording.input(value, name)
        for name, value in kwargs.items():
            recording.input(value, name)
        result = recording.run(self.function, *args, **kwargs)
        state.restore()
        self.touched.update({id(it): it for it, _ in state.kept.values()})
        _check_result(result, self.strict)
        module = recording.module(self.title)
        used = []
        for path in {n.target for n in recording.graph.find_nodes(op="get_attr")}:
            *outer, name = path.split(".")
            if path in recording.constants:
                continue
            holder = module.get_submodule(".".join(outer))
            table = holder._parameters if name in holder._parameters else holder._buffers
            used.append((table, name, _layout(table[name])))
        return _Known(module, used)

    @property
    def title(self) -> str:
        """A name for what was traced."""
        if self.root is not None:
            return type(self.root).__name__
        name = getattr(self.function, "__name__", "Traced")
        return name if name.isidentifier() else "Traced"

    @property
    def module(self) -> GraphModule:
        """The graph of the run that was used last."""
        assert self.last is not None
        return self.last.module

    def check(self, args: Any, kwargs: Any, tolerance: float) -> None:
        """Compares another run with what was written down."""
        state, results = _State(self.root, self.touched.values()), []
        for call in (self.function, self):
            results.append(_flat(call(*_copied(args), **_copied(kwargs))))
            state.restore()
        wanted, got = results
        for k, (a, b) in enumerate(zip(wanted, got, strict=True)):
            alike = a.shape == b.shape and a.dtype == b.dtype
            if alike and weft.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
                continue
            raise TracingCheckError(
                f"[trace] expected result {k} of a second run to be that of the trace, got another "
                f"({self.title}: {tuple(a.shape)} and {tuple(b.shape)}). Hint: what it gives "
                "depends on more than its inputs; check_trace=False traces it all the same"
            )


class _State:
    """The values in buffers, of generators and of gradients: a run may change them."""

    def __init__(self, root: Module | None, touched: Iterable[Any] = ()) -> None:
        buffers = () if root is None else root.buffers()
        self._buffers = [(b, b.detach().clone()) for b in buffers]
        self._random = weft.get_rng_state()
        self.kept: dict[int, tuple[Any, Any]] = {}
        for it in touched:
            self.keep(it)

    def keep(self, changed: Any) -> None:
        """Notes the state of a generator, or the gradient of a tensor, as it is now."""
        if id(changed) in self.kept:
            return
        if isinstance(changed, weft.Generator):
            before: Any = changed.get_state()
        else:
            grad = changed.grad
            before = grad, None if grad is None else grad.detach().clone()
        self.kept[id(changed)] = changed, before

    def restore(self) -> None:
        """Puts them back."""
        with weft.no_grad():
            for buffer, before in self._buffers:
                buffer.copy_(before)
            for changed, before in self.kept.values():
                if isinstance(changed, weft.Generator):
                    changed.set_state(before)
                    continue
                changed.grad, values = before
                if values is not None:
                    changed.grad.copy_(values)
        weft.set_rng_state(self._random)


class TracedFunction(ScriptFunction):
    """What `trace` makes of a function.

    Attributes:
        graph: the calls of the run that was used last, a `weft.fx.Graph`; changed, it runs so after
            `graph.owning_module.recompile()`.
        code: the same as Python.
    """

    def __new__(cls, traced: _Traced) -> TracedFunction:
        """Wrap what was written down."""

        @functools.wraps(traced.function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return traced(*args, **kwargs)

        self: Any = _CompiledFunction.__new__(cls, call, kind=_SKIP)
        self.__dict__["_traced"] = traced
        return self  # type: ignore[no-any-return]

    @property
    def graph(self) -> Any:
        """The calls, a `weft.fx.Graph`."""
        return self._traced.module.graph

    @property
    def code(self) -> str:
        """The calls as Python."""
        return str(self._traced.module.code)

    def __reduce__(self) -> Any:
        traced = self._traced
        return _again, (traced.function, traced.strict)


_C._speed_up_compiled(TracedFunction)


def _again(function: Any, strict: bool) -> TracedFunction:
    return TracedFunction(_Traced(function, None, strict))


class TopLevelTracedModule(ScriptModule):
    """What `trace` makes of a Module: parameters, buffers and modules are the same ones.

    Attributes:
        graph: the calls of the run of `forward` that was used last, a `weft.fx.Graph`.
        code: the same as Python.
        original_name: the name of the Module's class.

    >>> layer = weft.jit.trace(weft.nn.ReLU(), weft.ones(1))
    >>> type(layer).__name__, layer(weft.tensor([-1.0, 1.0]))
    ('TopLevelTracedModule', tensor([0., 1.]))
    """

    def __init__(self, module: Module | None = None, strict: bool = True) -> None:
        super().__init__()
        if module is None:
            return
        self._share(module)
        self.__dict__["_strict"] = strict
        self.__dict__["_runs"] = {}

    def _add(self, name: str) -> _Traced:
        original = self.__dict__["_original"]
        # with its hooks, as those of the modules in it
        function = original if name == "forward" else getattr(original, name)
        traced = _Traced(function, original, self.__dict__["_strict"])
        self.__dict__["_runs"][name] = self.__dict__[name] = traced
        return traced

    @property
    def graph(self) -> Any:
        """The calls of `forward`, a `weft.fx.Graph`."""
        return self._runs["forward"].module.graph

    @property
    def code(self) -> str:
        """The calls of `forward` as Python."""
        return str(self._runs["forward"].module.code)

    def __repr__(self) -> str:
        return _shown(self, "")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: no run of it was written down."""
        raise AttributeError("[trace] expected a traced forward, got other methods alone")

    def __deepcopy__(self, memo: dict[int, Any]) -> TopLevelTracedModule:
        return _module_again(copy.deepcopy(self._original, memo), self._strict, [*self._runs])

    def __reduce__(self) -> Any:
        return _module_again, (self._original, self._strict, [*self._runs])


def _module_again(module: Module, strict: bool, names: list[str]) -> TopLevelTracedModule:
    made = TopLevelTracedModule(module, strict)
    for name in names:
        made._add(name)
    return made


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: None = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """Runs a function or Module once on example inputs and keeps the calls that it made.

    Calls of what this gives make those calls again: with gradients, random numbers drawn anew,
    writes to inputs and buffers. Where the run read a value (`if x.sum() > 0`, `.item()`), another
    value raises: it would have gone another way. A run is kept for the layouts of its inputs, grad
    mode and `training` of the modules; where these are others, the function runs again and is
    written down once more.

    Args:
        func: a function, a method or a Module.
        example_inputs: a tuple of inputs, or one tensor: tensors, and tuples, lists and dicts of
            them.
        optimize: without effect.
        check_trace: run the function a second time and compare.
        check_inputs: more inputs to compare with, a list of tuples.
        check_tolerance: how far results may be apart.
        strict: lists and dicts as results raise, as their lengths and keys are kept too.
        example_kwarg_inputs: inputs by name, in place of `example_inputs`.

    Returns:
        A `TopLevelTracedModule`, or a `ScriptFunction`.

    Raises:
        TracingCheckError: a second run gave something else.
        RuntimeError: an input or result that is no tensor.
        NotImplementedError: what cannot be written down, as hooks on tensors and the step of an
            optimizer.

    >>> import weft
    >>> double = weft.jit.trace(lambda x: x * 2 if x.sum() > 0 else x, weft.ones(2))
    >>> double(weft.tensor([3.0, 4.0]))
    tensor([6., 8.])
    >>> print(double.graph.find_nodes(op="call_function")[0].target is weft.sum)
    True
    """
    if isinstance(func, ScriptFunction | ScriptModule):
        return func
    if (example_inputs is None) == (example_kwarg_inputs is None):
        raise RuntimeError(
            "[trace] expected example_inputs or example_kwarg_inputs, got "
            + ("both" if example_inputs is not None else "neither")
        )
    args, kwargs = _inputs(example_inputs), dict(example_kwarg_inputs or {})
    checks = [_inputs(c) for c in check_inputs or ()]
    if isinstance(func, Module):
        by_words = example_kwarg_inputs is not None
        return trace_module(
            func, {"forward": kwargs if by_words else args}, None, check_trace,
            [{"forward": c} for c in checks], check_tolerance, strict,
            example_inputs_is_kwarg=by_words,
        )  # fmt: skip
    root = getattr(func, "__self__", None)
    if not callable(func):
        raise TypeError(f"[trace] expected a function or a Module, got {type(func).__name__}")
    traced = _Traced(func, root if isinstance(root, Module) else None, strict)
    _first(traced, args, kwargs, check_trace, checks, check_tolerance)
    return TracedFunction(traced)


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: None = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> TopLevelTracedModule:
    """`trace` of several methods of a Module.

    Args:
        mod: the Module.
        inputs: example inputs by the method's name.
        check_inputs: more inputs to compare with, a list of such dicts.
        example_inputs_is_kwarg: whether the inputs of each are a dict by name.

    Raises:
        AttributeError: it is no Module, or has no such method.

    >>> layer = weft.jit.trace_module(weft.nn.ReLU(), {"forward": weft.ones(1)})
    >>> layer(weft.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if not isinstance(mod, Module):
        raise AttributeError(f"[trace_module] expected a Module, got {type(mod).__name__}")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    made = TopLevelTracedModule(mod, strict)
    for name, given in inputs.items():
        traced = made._add(name)
        args, kwargs = ((), dict(given)) if example_inputs_is_kwarg else (_inputs(given), {})
        checks = [_inputs(c[name]) for c in check_inputs or () if name in c]
        _first(traced, args, kwargs, check_trace, checks, check_tolerance)
    return made


def _first(
    traced: _Traced, args: Any, kwargs: Any, check: bool, checks: list[Any], tolerance: float
) -> None:
    for value in (*args, *kwargs.values()):
        _expect_tensors(value)
    if kwargs:
        args, kwargs = traced._bound(args, kwargs)
    known = traced.record(args, kwargs)
    traced.last = traced.known[traced._key(args, kwargs)] = known
    if check:
        for given, words in ((args, kwargs), *((c, {}) for c in checks)):
            traced.check(given, words, tolerance)
        traced.last = known


def is_tracing() -> bool:
    """Whether `trace` is running this.

    >>> weft.jit.is_tracing()
    False
    """
    return _C._recording() is not None


def script_if_tracing(fn: Any) -> Any:
    """`fn`, whose calls a trace keeps as a whole, with their branches and loops.

    >>> import weft
    >>> @weft.jit.script_if_tracing
    ... def positive(x):
    ...     return x if x.sum() > 0 else -x
    >>> traced = weft.jit.trace(lambda x: positive(x) + 1, weft.ones(1))
    >>> traced(weft.tensor([-3.0]))
    tensor([4.])
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return fn(*args, **kwargs)
        return recorded(script(fn), args, kwargs)

    return call


def _inputs(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    if isinstance(given, weft.Tensor | dict):
        return (given,)
    return tuple(given)


def _walk(value: Any) -> Iterator[Any]:
    """A value and what its tuples, lists and dicts hold, each before what is in it."""
    yield value
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from _walk(item)


def _expect_tensors(value: Any) -> None:
    for item in _walk(value):
        if not isinstance(item, weft.Tensor | tuple | list | dict):
            raise RuntimeError(
                f"Type '{type(item).__name__}' cannot be traced. Only Tensors and (possibly "
                "nested) Lists, Dicts, and Tuples of Tensors can be traced"
            )


def _check_result(result: Any, strict: bool) -> None:
    for item in _walk(result):
        if isinstance(item, list | dict) and strict:
            name = type(item).__name__
            raise RuntimeError(
                f"Encountering a {name} at the output of the tracer might cause the trace to be "
                "incorrect, this is only valid if the container structure does not change based on "
                "the module's inputs. Consider using a constant container instead (e.g. for "
                "`list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you "
                "absolutely need this and know the side effects, pass strict=False to trace() to "
                "allow this behavior."
            )
        if not isinstance(item, weft.Tensor | tuple | list | dict):
            raise RuntimeError(
                "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output "
                f"from traced functions, got {type(item).__name__}"
            )


def _signature(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        return value.dtype, value.shape, value.stride(), value.requires_grad
    if isinstance(value, tuple | list):
        return type(value), tuple([_signature(v) for v in value])
    if isinstance(value, dict):
        return tuple([(k, _signature(v)) for k, v in value.items()])
    _expect_tensors(value)
    return None


def _copied(value: Any) -> Any:
    """The same with tensors of their own, outside of the graph."""
    if isinstance(value, weft.Tensor):
        made = value.detach().clone(memory_format=weft.preserve_format)
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, tuple | list):
        items = [_copied(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return value


def _flat(value: Any) -> list[Any]:
    return [item for item in _walk(value) if not isinstance(item, tuple | list | dict)]


def _parameter_names(function: Any) -> list[str]:
    kinds = inspect.Parameter
    plain = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    try:
        return [p.name for p in inspect.signature(function).parameters.values() if p.kind in plain]
    except (TypeError, ValueError):
        return []
