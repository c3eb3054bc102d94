"""`jit.script`: functions and Modules that compile whole, or say at which line they do not."""

from __future__ import annotations

import builtins as _builtins
import inspect as _inspect
import textwrap as _textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType as _FunctionType
from types import MethodType as _MethodType
from typing import Any, TypeVar

from weft import _C
from weft.compiler.errors import unsupported as _unsupported
from weft.compiler.function import CompiledFunction as _CompiledFunction
from weft.compiler.function import Settings as _Settings
from weft.compiler.function import innermost as _innermost
from weft.frontend.programs import Left as _Left
from weft.frontend.programs import lowered_for as _lowered_for
from weft.nn.module import Module as _Module
from weft.nn.module_hooks import HOOK_TABLES as _HOOK_TABLES

F = TypeVar("F", bound=Callable[..., Any])
_STRICT = _Settings(fullgraph=True)


class Error(RuntimeError):
    """PyTorch's, for code that names it: programs raise what their functions raise."""


class Future:
    """What `fork` gives: the result is there.

    >>> weft.jit.fork(weft.add, weft.ones(1), 1).wait()
    tensor([2.])
    """

    def __init__(self, result: Any) -> None:
        self._result = result

    def done(self) -> bool:
        """True."""
        return True

    def wait(self) -> Any:
        """The result."""
        return self._result

    value = wait


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Calls `func` at once, as PyTorch does outside of a script; `wait` gives its result.

    >>> import weft
    >>> weft.jit.wait(weft.jit.fork(weft.add, weft.ones(1), 1))
    tensor([2.])
    """
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """The result of what was forked.

    >>> weft.jit.wait(weft.jit.fork(weft.add, weft.ones(1), 1))
    tensor([2.])
    """
    return future.wait()


class _Texts:
    """What is to be read of a function that was compiled whole."""

    _function: _FunctionType

    @property
    def graph(self) -> str:
        """The instructions, a line each, with the lines of the source."""
        return str(_C._program_text(self._function))

    @property
    def code(self) -> str:
        """The source that was compiled."""
        return _textwrap.dedent(_inspect.getsource(self._function))

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Writes the program, as `weft.jit.save` does."""
        from weft.jit.saved import save

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes of the file that `save` writes."""
        import io

        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()


class ScriptFunction(_Texts, _CompiledFunction):
    """What `script` makes of a function.

    Attributes:
        graph: the instructions, a line each, with the lines of the source.
        code: the source that was compiled.

    >>> @weft.jit.script
    ... def double(x: weft.Tensor) -> weft.Tensor:
    ...     return 2 * x
    >>> double(weft.tensor([1.0]))
    tensor([2.])
    """

    def __new__(cls, function: Any) -> ScriptFunction:
        """Compile `function` whole."""
        self: Any = super().__new__(cls, function, _STRICT)
        while _builtins.isinstance(function, _MethodType):
            function = function.__func__
        self.__dict__["_function"] = function
        return self  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """The function's name."""
        return str(self.__name__)

    @property
    def qualified_name(self) -> str:
        """The function's name with its module."""
        return f"{self.__module__}.{self.__qualname__}"

    def __reduce__(self) -> Any:
        return self.__qualname__ if self._is_global() else (ScriptFunction, (self.callee,))


_C._speed_up_compiled(ScriptFunction)


class ScriptModule(_Texts, _Module):
    """A Module that is compiled whole: parameters, buffers and modules are those of another.

    Attributes:
        graph: the instructions of `forward`, a line each, with the lines of the source.
        code: the source of `forward`.
        original_name: the name of the Module's class.

    >>> layer = weft.jit.script(weft.nn.ReLU())
    >>> isinstance(layer, weft.jit.ScriptModule), layer(weft.tensor([-1.0, 1.0]))
    (True, tensor([0., 1.]))
    """

    def __init__(self, module: _Module | None = None) -> None:
        super().__init__()
        if module is None:
            return
        self._share(module)
        own, theirs = self.__dict__, module.__dict__
        own.update({kind: theirs[kind] for kind in ("_hooked", *_HOOK_TABLES) if kind in theirs})
        own["_function"] = type(module).forward
        own["forward"] = _CompiledFunction(module.forward, _STRICT)
        for name in _exported(type(module)):
            own[name] = _CompiledFunction(getattr(module, name), _STRICT)

    def _share(self, module: _Module) -> None:
        """Takes the tables of a Module for its own."""
        own, theirs = self.__dict__, module.__dict__
        for kind in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            own[kind] = theirs[kind]
        own["_original"] = module
        del own["training"]

    @property
    def original_name(self) -> str:
        """The name of the Module's class."""
        return type(self.__dict__.get("_original", self)).__name__

    def __repr__(self) -> str:
        return _shown(self, "RecursiveScriptModule")

    @property
    def training(self) -> bool:
        """Whether the Module is in training mode."""
        return bool(self.__dict__.get("_original", self).__dict__.get("training", True))

    @training.setter
    def training(self, value: bool) -> None:
        self.__dict__.get("_original", self).__dict__["training"] = value

    def __getattr__(self, name: str) -> Any:
        if name in self._modules or name in self._parameters or name in self._buffers:
            return super().__getattr__(name)
        original = self.__dict__.get("_original")
        return super().__getattr__(name) if original is None else getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        holder = self._holder_of(name)
        if holder is self:
            super().__setattr__(name, value)
        else:
            setattr(holder, name, value)

    def __delattr__(self, name: str) -> None:
        holder = self._holder_of(name)
        if holder is self:
            super().__delattr__(name)
        else:
            delattr(holder, name)

    def _holder_of(self, name: str) -> Any:
        """Who has an attribute: what `forward` reads is the Module's that was scripted."""
        own = self.__dict__
        original = own.get("_original")
        return self if original is None or name in own or name == "training" else original

    def __reduce__(self) -> Any:
        return script, (self._original,)


class RecursiveScriptModule(ScriptModule):
    """What `script` makes of a Module: parameters, buffers and modules are the same ones.

    It has the items of the Module: `scripted[0]` of a `Sequential`.

    >>> scripted = weft.jit.script(weft.nn.Sequential(weft.nn.Linear(2, 3)))
    >>> type(scripted).__name__, len(scripted)
    ('RecursiveScriptModule', 1)
    """

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._original)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._original)

    def __getitem__(self, key: Any) -> Any:
        return self._original[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._original


def name_of(module: _Module) -> str:
    """The name of the class that a Module had before it was scripted, traced or loaded."""
    if _builtins.isinstance(module, ScriptModule):
        return module.original_name
    return type(module).__name__


def _shown(module: _Module, kind: str) -> str:
    """A tree of Modules as PyTorch shows it once it is scripted: the names of the classes alone.

    `kind` is what stands before the brackets; empty: the name of each class.
    """
    lines = [f"original_name={name_of(module)}"]
    for name, inner in module._modules.items():
        if inner is not None:
            tree = _textwrap.indent(_shown(inner, kind), "  ")
            lines.append(f"({name}): {tree.lstrip()}")
    kind = kind or name_of(module)
    if len(lines) == 1:
        return f"{kind}({lines[0]})"
    return f"{kind}(\n  " + "\n  ".join(lines) + "\n)"


def script(
    obj: Any,
    optimize: None = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """Compiles a function or a Module whole: what `weft.compile` would leave to Python raises.

    What the source names is looked at now: the function, functions of its module that it names,
    and the `forward` of each Module of a tree. What else a call comes to, it checks itself.
    Functions marked by `ignore` or `unused` stay Python's, as do those of weft and of the standard
    library.

    Args:
        obj: a function, a method or a Module; a class is given back as it is.
        optimize: without effect.
        example_inputs: without effect: types are those of the values of each call.

    Raises:
        Unsupported: a function is outside of the subset; with the line and what to write instead.
        TypeError: it is none of these.

    >>> import weft
    >>> @weft.jit.script
    ... def relu(x):
    ...     return x if x > 0 else x * 0
    >>> relu(weft.tensor(-1.0))
    tensor(-0.)
    """
    if _builtins.isinstance(obj, (ScriptFunction, ScriptModule, type)):
        return obj
    from weft.closing.program import original_of

    obj = original_of(_innermost(obj))
    seen: set[int] = set()
    if _builtins.isinstance(obj, _Module):
        for module in obj.modules():
            for name in ("forward", *_exported(type(module))):
                _check(getattr(type(module), name), seen)
        return RecursiveScriptModule(obj)
    if not _builtins.isinstance(obj, (_FunctionType, _MethodType)):
        raise TypeError(f"[script] expected a function or a Module, got {type(obj).__name__}")
    _check(obj, seen)
    return ScriptFunction(obj)


def script_method(fn: F) -> F:
    """`fn`, which `script` compiles with its Module.

    >>> @weft.jit.script_method
    ... def double(x):
    ...     return 2 * x
    >>> double(3)
    6
    """
    return export(fn)


def _exported(cls: type) -> list[str]:
    return [
        name
        for name in dir(cls)
        if getattr(getattr(cls, name, None), "_torchscript_modifier", "") == "export"
        and name != "forward"
    ]


def _check(function: Any, seen: set[int]) -> None:
    """Raises for the first function outside of the subset, of this one and those that it names."""
    function = _innermost(function)
    while _builtins.isinstance(function, _MethodType):
        function = function.__func__
    if not _builtins.isinstance(function, _FunctionType) or id(function.__code__) in seen:
        return
    seen.add(id(function.__code__))
    lowered = _lowered_for(function)
    if _builtins.isinstance(lowered, _Left):
        if lowered.by_choice:
            return
        raise _unsupported(function, lowered)
    for name in function.__code__.co_names:
        if _builtins.isinstance(found := function.__globals__.get(name), _FunctionType):
            _check(found, seen)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """`mod`, which has to be in eval mode: weights are read where they lie.

    Raises:
        RuntimeError: it is in training mode.

    >>> layer = weft.jit.freeze(weft.jit.script(weft.nn.ReLU()).eval())
    >>> layer(weft.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if getattr(mod, "training", False):
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """`mod`.

    >>> layer = weft.jit.optimize_for_inference(weft.jit.script(weft.nn.ReLU()).eval())
    >>> layer(weft.tensor([-1.0]))
    tensor([0.])
    """
    return mod


def is_scripting() -> bool:
    """False: programs do what Python does, with Python's objects.

    >>> weft.jit.is_scripting()
    False
    """
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """`the_value`.

    >>> weft.jit.annotate(list[int], [])
    []
    """
    return the_value


def Attribute(value: Any, type: Any = None) -> Any:  # noqa: N802
    """`value`.

    >>> weft.jit.Attribute(2, int)
    2
    """
    return value


def isinstance(obj: Any, target_type: Any) -> bool:  # noqa: A001
    """Python's own, also for a generic type, by its origin.

    >>> weft.jit.isinstance([1], list[int])
    True
    """
    import typing

    kinds = target_type if _builtins.isinstance(target_type, tuple) else (target_type,)
    plain: Any = tuple(typing.get_origin(k) or k for k in kinds)
    return _builtins.isinstance(obj, plain)


def export(fn: F) -> F:
    """`fn`, which `script` compiles with its Module.

    >>> @weft.jit.export
    ... def double(x):
    ...     return 2 * x
    >>> double(3)
    6
    """
    fn._torchscript_modifier = "export"  # type: ignore[attr-defined]
    return fn


def unused(fn: F) -> F:
    """`fn`, which stays Python's.

    >>> @weft.jit.unused
    ... def double(x):
    ...     return 2 * x
    >>> double(3)
    6
    """
    fn._torchscript_modifier = "unused"  # type: ignore[attr-defined]
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function that it decorates, with or without arguments, which stays Python's.

    >>> @weft.jit.ignore
    ... def shown(x):
    ...     return x.tolist()
    >>> shown(weft.ones(1))
    [1.0]
    """
    return unused(drop) if callable(drop) else unused


def fuser(name: str) -> AbstractContextManager[None]:
    """A scope without effect: the choice of a compiler's part.

    >>> with weft.jit.fuser("fuser1"):
    ...     weft.ones(1) + 1
    tensor([2.])
    """
    return nullcontext()
