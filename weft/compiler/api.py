"""`weft.compile`, and the switches around it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType, TracebackType
from typing import Any

from weft import _C
from weft.compiler.errors import InvalidBackend
from weft.compiler.function import (
    COMPILED,
    DEFAULTS,
    PLAIN,
    SKIP,
    CompiledFunction,
    Settings,
    innermost,
)
from weft.compiler.module import OptimizedModule
from weft.nn.module import Module

BACKENDS = ("eager", "inductor", "weft")
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
OPTIONS = {
    "epilogue_fusion": bool, "fallback_random": bool, "guard_filter_fn": None,
    "max_autotune": bool, "shape_padding": bool, "trace.enabled": bool,
    "trace.graph_diagram": bool, "triton.cudagraphs": bool,
}  # fmt: skip
STANCES = (
    "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile",
    "aot_eager_then_compile",
)  # fmt: skip


def compile(  # noqa: A001
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Makes a function, method or Module faster; what it does stays as it is.

    Its source and that of the functions it calls becomes programs, which run without CPython's
    loop, with the results, prints, exceptions and random numbers of plain Python (docs/compile.md).
    What is outside of the subset runs as always, function by function; `explain()` of the result
    says which and why. Nothing is compiled anew for a shape.

    Args:
        model: what to compile. Without it: a decorator. A Module gives an `OptimizedModule`, a
            class itself with compiled calls, anything else a callable.
        fullgraph: a call that comes to a function outside of the subset raises `Unsupported`, with
            the line and what to write instead.
        dynamic: True, False or None do the same: sizes are values, and each shape has a plan.
        backend: "inductor" or "weft": this compiler. "eager": the calls run as they are. A
            function: called with a `weft.fx.GraphModule` and example inputs for each part that can
            be written down; what it returns is called in place of the graph.
        mode: one of PyTorch's: there is nothing to tune, so all do the same.
        options: PyTorch's most used ones are known, and have no effect either.
        name: without effect, and so are those below: there is nothing to count or to keep apart.
        disable: gives `model` back as it is.
        recompile_limit: any number.
        isolate_recompiles: True or False.
        shapes_spec: anything.

    Raises:
        TypeError: `model` cannot be called, or an argument is of another type.
        InvalidBackend: there is no such backend (a RuntimeError).
        BackendCompilerFailed: with the first call, a backend of one's own raised.
        RuntimeError: an unknown mode or option, or both.

    >>> import weft
    >>> @weft.compile
    ... def halve(n):
    ...     steps = 0
    ...     while n > 1:
    ...         n, steps = n // 2, steps + 1
    ...     return steps
    >>> halve(weft.tensor(37))
    5
    """
    settings = _checked(fullgraph, dynamic, backend, mode, options)
    if model is None:
        return functools.partial(
            _compile, settings=settings, disable=bool(disable), kind=_kind(settings)
        )
    return _compile(model, settings, bool(disable), _kind(settings))


def _checked(fullgraph: Any, dynamic: Any, backend: Any, mode: Any, options: Any) -> Settings:
    if not isinstance(fullgraph, bool):
        raise TypeError(f"[compile] expected fullgraph a bool, got {type(fullgraph).__name__}")
    if not (dynamic is None or isinstance(dynamic, bool)):
        raise TypeError(f"[compile] expected dynamic a bool or None, got {type(dynamic).__name__}")
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in MODES and isinstance(backend, str):
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if options is not None and isinstance(backend, str):
        _check_options(options)
    if isinstance(backend, str):
        if backend not in BACKENDS:
            raise InvalidBackend(
                f"Invalid backend: {backend!r}, see `weft.compiler.list_backends()` for available "
                "backends."
            )
    elif not callable(backend):
        raise TypeError(
            f"[compile] expected backend a name or a function, got {type(backend).__name__}"
        )
    return Settings(fullgraph, dynamic, backend, mode, options)


def _check_options(options: Any) -> None:
    if not isinstance(options, dict):
        raise TypeError(f"[compile] expected options a dict, got {type(options).__name__}")
    for name, value in options.items():
        if name not in OPTIONS:
            raise RuntimeError(
                f"Unexpected optimization option {name}, known options are {list(OPTIONS)}"
            )
        kind = OPTIONS[name]
        if kind is not None and type(value) is not kind:
            raise RuntimeError(
                f"Unexpected type of attr {name}, got {type(value).__name__} should be "
                f"{kind.__name__}"
            )


def _kind(settings: Settings) -> int:
    return PLAIN if settings.backend == "eager" else COMPILED


def _compile(model: Any, settings: Settings, disable: bool, kind: int) -> Any:
    if disable:
        return model
    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    if isinstance(model, Module):
        return OptimizedModule(model, settings, kind)
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(_compile(model.__func__, settings, disable, kind))
    if isinstance(model, type):
        return _compile_class(model, settings, kind)
    return _callable(model, settings, kind)


def _callable(callee: Any, settings: Settings, kind: int) -> CompiledFunction:
    if not callable(callee):
        raise TypeError(
            f"[compile] expected a function, a method or a Module, got {type(callee).__name__}"
        )
    if kind == COMPILED:
        callee = innermost(callee)
        if isinstance(callee, functools.partial):
            inner = CompiledFunction(innermost(callee.func), settings, kind)
            callee = functools.partial(inner, *callee.args, **callee.keywords)
        elif not isinstance(callee, (FunctionType, MethodType, Module)):
            call = _call_of(type(callee))
            if isinstance(call, FunctionType):
                callee = MethodType(call, callee)
    return CompiledFunction(callee, settings, kind)


def _call_of(cls: type, name: str = "__call__") -> Any:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def _compile_class(cls: type, settings: Settings, kind: int) -> type:
    """The class itself, with compiled calls of its instances."""
    name = "forward" if issubclass(cls, Module) else "__call__"
    call = _call_of(cls, name)
    if isinstance(call, (FunctionType, CompiledFunction)):
        setattr(cls, name, _callable(call, settings, kind))
    return cls


def compiled_call(module: Module, *args: Any, **kwargs: Any) -> CompiledFunction | None:
    """What `Module.compile` puts in place of the module's call; None if nothing."""
    made = compile(module, *args, **kwargs)
    if made is module:
        return None
    call = made.__dict__["forward"]
    return _callable(module, call._settings, call._kind)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that runs as it is where a compiled one calls it.

    Args:
        fn: a function, a method, a Module or a class. Without it: a decorator.
        recursive: what it calls runs as it is, too; else only it itself.
        reason: for whoever reads the source.

    >>> import weft
    >>> @weft.compiler.disable
    ... def shown(x):
    ...     return repr(x)
    >>> weft.compile(lambda x: shown(x))(weft.ones(1))
    'tensor([1.])'
    """
    kind = PLAIN if recursive else SKIP
    if fn is None:
        return functools.partial(_compile, settings=DEFAULTS, disable=False, kind=kind)
    return _compile(fn, DEFAULTS, False, kind)


_stance = "default"


class set_stance:
    """How compiled functions run from here on, also as a scope or a decorator.

    "force_eager" runs all of them as they are, as `WEFT_COMPILE=0` in the environment does;
    "default" ends that. PyTorch's other stances are about compiling anew, which does not happen,
    and do the same as "default".

    Args:
        stance: the name of a stance.
        skip_guard_eval_unsafe: False; there is nothing to skip that pays.
        force_backend: None.

    Raises:
        RuntimeError: there is no such stance.

    >>> import weft
    >>> with weft.compiler.set_stance("force_eager"):
    ...     weft.compile(lambda x: x + 1)(weft.ones(1))
    tensor([2.])
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | None = None,
    ) -> None:
        if stance not in STANCES:
            raise RuntimeError(
                f"invalid torch.compile stance {stance!r}, should be one of: {', '.join(STANCES)}"
            )
        if force_backend is not None:
            _checked(False, None, force_backend, None, None)
            if force_backend == "eager":
                stance = "force_eager"
        self._stance = stance
        self._before = self._enter()

    def _enter(self) -> tuple[str, bool]:
        global _stance
        before, _stance = _stance, self._stance
        on = self._stance != "force_eager" and not _switched_off
        return before, _C._enable_programs(on)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _stance
        _stance = self._before[0]
        _C._enable_programs(self._before[1])

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__(None, None, None)

        @functools.wraps(fn)
        def within(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self._stance):
                return fn(*args, **kwargs)

        return within


def _is_off() -> bool:
    on = _C._enable_programs(True)
    _C._enable_programs(on)
    return not on


_switched_off = _is_off()  # by the environment


def reset() -> None:
    """Ends a stance; programs stay, as they are made of source alone.

    >>> weft.compiler.reset()
    """
    set_stance("default")


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The names that `weft.compile` takes as `backend`.

    >>> "inductor" in weft.compiler.list_backends()
    True
    """
    return list(BACKENDS)


def is_compiling() -> bool:
    """False: where a program runs, values are there and Python can do what it likes.

    >>> weft.compiler.is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """False, as `is_compiling`.

    >>> weft.compiler.is_dynamo_compiling()
    False
    """
    return False


def is_exporting() -> bool:
    """False, as `is_compiling`.

    >>> weft.compiler.is_exporting()
    False
    """
    return False


def cudagraph_mark_step_begin() -> None:
    """Without effect: there are no CUDA graphs.

    >>> weft.compiler.cudagraph_mark_step_begin()
    """


def allow_in_graph(fn: Any) -> Any:
    """`fn`: whatever a function does, programs may call it.

    >>> weft.compiler.allow_in_graph(len) is len
    True
    """
    if not callable(fn) and not isinstance(fn, (list, tuple)):
        raise TypeError(f"[allow_in_graph] expected a function, got {type(fn).__name__}")
    return fn


def assume_constant_result(fn: Any) -> Any:
    """`fn`: its result is asked for with each call.

    >>> weft.compiler.assume_constant_result(len) is len
    True
    """
    return fn


def substitute_in_graph(original_fn: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """A decorator without effect: programs call the original.

    >>> @weft.compiler.substitute_in_graph(len)
    ... def length(values):
    ...     return len(values)
    >>> length([1, 2])
    2
    """
    return assume_constant_result
