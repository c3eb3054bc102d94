"""`jit.save` and `jit.load`: programs in files that need no source."""

from __future__ import annotations

import inspect as _inspect
import textwrap as _textwrap
from typing import Any

from weft import _C
from weft._C import Tensor
from weft.base.device import expect_cpu as _expect_cpu
from weft.closing.file import File as _File
from weft.closing.file import Read as _Read
from weft.closing.file import write as _write
from weft.closing.package import Package as _Package
from weft.closing.program import package_of as _package_of
from weft.jit.scripted import ScriptModule, _exported, name_of
from weft.nn.module import Module as _Module
from weft.nn.parameter import Parameter as _Parameter


class RecursiveScriptModule(ScriptModule):
    """A Module of a program that was loaded: its parameters, buffers, modules and modes.

    The root calls the program: `forward`, and methods that were exported. Calls are recorded for
    gradients as any others. `train()` and `eval()` reach what the program asks its Modules.

    Attributes:
        original_name: the name of the class that the Module had.
        code: the source that was saved.
        graph: the functions of the program, their instructions a line each.
    """

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.__dict__["_name"] = name

    @property
    def original_name(self) -> str:
        """The name of the class that the Module had."""
        return str(self.__dict__["_name"])

    def train(self, mode: bool = True) -> RecursiveScriptModule:
        """Sets the mode of the Module and of those in it."""
        super().train(mode)
        root = self.__dict__.get("_root")
        if root is not None:
            root._tell_modes()
        return self


class _Program(RecursiveScriptModule):
    """The root: it has the program."""

    def __init__(self, package: str, told: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().__init__(told["modules"].get("", ""))
        own = self.__dict__
        own["_json"], own["_told"], own["_constants"] = package, told, dict(tensors)
        for name, kind in told["modules"].items():
            if name:
                self._parent(name).add_module(name.rpartition(".")[2], RecursiveScriptModule(kind))
        for name, wanted in told["parameters"].items():
            made = _Parameter(own["_constants"].pop(name), requires_grad=wanted)
            self._parent(name).register_parameter(name.rpartition(".")[2], made)
        for name in told["buffers"]:
            made = own["_constants"].pop(name)
            self._parent(name).register_buffer(name.rpartition(".")[2], made)
        for module in self.modules():
            module.__dict__["_root"] = self
        self._start()
        for name, mode in told["training"].values():
            self.get_submodule(name).training = mode
        self._tell_modes()

    def _parent(self, name: str) -> Any:
        """The Module that a name stands in; made where the file names none."""
        module: Any = self
        for part in name.split(".")[:-1]:
            if part not in module._modules:
                module.add_module(part, RecursiveScriptModule())
            module = module._modules[part]
        return module

    def _start(self) -> None:
        """Makes the program ready on the tensors that the Modules have now."""
        tensors = {**self._constants}
        tensors.update(self.named_parameters(remove_duplicate=False))
        tensors.update(self.named_buffers(remove_duplicate=False))
        package = self.__dict__["_package"] = _C._Package(self._json, tensors)
        for entry in package.entries:
            self.__dict__[entry] = _Entry(self, entry)

    def _tell_modes(self) -> None:
        for place, (name, _) in self._told["training"].items():
            self._package.set_field(int(place), "training", self.get_submodule(name).training)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self.__dict__["_constants"] = {k: fn(t) for k, t in self._constants.items()}
        self._start()
        self._tell_modes()
        return self

    @property
    def code(self) -> str:
        """The source that was saved."""
        return str(self._told["code"])

    @property
    def graph(self) -> str:
        """The functions of the program, their instructions a line each."""
        import json

        return "\n".join(f["text"] for f in json.loads(self._json)["functions"])

    def save(self, f: Any, _extra_files: Any = None, _also: Any = None) -> None:
        """Writes the program with what its parameters are now."""
        _write(f, self._json, {**self._told, **(_also or {})}, self._tensors(), _extra_files or {})

    def _tensors(self) -> dict[str, Tensor]:
        """All that the program refers to, by name."""
        return {**self._constants, **dict(self.named_parameters()), **dict(self.named_buffers())}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._package.call("forward", args, kwargs)

    def __reduce__(self) -> Any:
        tensors = {name: tensor.detach() for name, tensor in self._tensors().items()}
        return _Program, (self._json, self._told, tensors)


class _Entry:
    """A method of a loaded program."""

    def __init__(self, program: _Program, name: str) -> None:
        self.package, self.name = program._package, name
        self._json = program._json

    @property
    def __signature__(self) -> _inspect.Signature:
        """Names and kinds of its parameters; that one has a default value, not which."""
        import json

        told = json.loads(self._json)
        function = told["functions"][told["entries"][self.name]]
        kinds, made = _inspect.Parameter, []
        plain = [name for name in function["params"] if not name.startswith("*")]
        by_word = plain[len(plain) - function["keyword_only"] :]
        marks = (kinds.POSITIONAL_OR_KEYWORD, kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        for name in function["params"]:
            kind: Any = kinds.KEYWORD_ONLY if name in by_word else marks[name.count("*")]
            default = ... if name in function["defaults"] else kinds.empty
            made.append(kinds(name.lstrip("*"), kind, default=default))
        return _inspect.Signature(sorted(made, key=lambda one: one.kind))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.package.call(self.name, args, kwargs)


def save(m: Any, f: _File, _extra_files: Any = None) -> None:
    """Writes a program that needs no source: what `script` or `trace` gave, or a compiled function.

    The file is safetensors with the program in its header. What the program reads of its Modules
    but parameters, buffers, `training` and attributes that it writes is what it is now.

    Args:
        m: a ScriptModule or ScriptFunction.
        f: a path, or a file open for writing bytes.
        _extra_files: contents by name, which go into the file.

    Raises:
        NotExportable: a RuntimeError with the line that needs Python.
        TypeError: it is none of these.

    >>> import io, weft
    >>> @weft.jit.script
    ... def steps(x, n: int):
    ...     for i in range(n):
    ...         x = x * 2 if x.sum() < 10 else x - 1
    ...     return x
    >>> file = io.BytesIO()
    >>> weft.jit.save(steps, file)
    >>> _ = file.seek(0)
    >>> weft.jit.load(file)(weft.ones(2), 4)
    tensor([7., 7.])
    """
    if isinstance(m, _Program):
        return m.save(f, _extra_files)
    if isinstance(m, _Module) and not isinstance(m, ScriptModule):
        raise TypeError(
            "[save] expected a ScriptModule or ScriptFunction, got a Module. Hint: "
            "weft.jit.script(module) first"
        )
    package, told = _program_of(m, keeps_training=True)
    _write(f, package.to_json(), told, package.tensors, _extra_files or {})


def load(f: _File, map_location: Any = None, _extra_files: Any = None,
         _restore_shapes: bool = False) -> RecursiveScriptModule:  # fmt: skip
    """A program that `save` wrote, as a Module; no code of the file runs but its instructions.

    Args:
        f: a path, or a file open for reading bytes.
        map_location: the CPU, if it is given.
        _extra_files: a dict whose values become the contents of the files that its keys name.
        _restore_shapes: without effect.

    Raises:
        ValueError: there is no such file; it asks for what this version has not.
        RuntimeError: it is no program.
    """
    if map_location is not None and not callable(map_location):
        _expect_cpu(map_location)
    read = _Read(f)
    for name in _extra_files or ():
        _extra_files[name] = read.extra.get(name, b"")
    told = read.module
    named = [*told["parameters"], *told["buffers"]]
    if missing := [name for name in named if name not in read.tensors]:
        raise RuntimeError(f"[load] expected a tensor {missing[0]}, got a file without it")
    return _Program(read.package, told, read.tensors)


def _program_of(m: Any, keeps_training: bool) -> tuple[_Package, dict[str, Any]]:
    """The package of a function or Module, and what there is to know of the Modules."""
    root = None
    if isinstance(m, _Module):
        root = m.__dict__.get("_original", m)
        entries = {n: getattr(root, n) for n in ("forward", *_exported(type(root)))}
    elif callable(m):
        entries = {"forward": m}
    else:
        raise TypeError(f"[save] expected a ScriptModule or ScriptFunction, got {type(m).__name__}")
    package = _package_of(entries, root, keeps_training)
    told: dict[str, Any] = {"parameters": {}, "buffers": [], "modules": {}, "training": {}}
    told["code"] = _source(getattr(m, "_function", m))
    if root is not None:
        kept = package.tensors
        told["parameters"] = {n: p.requires_grad for n, p in root.named_parameters() if n in kept}
        told["buffers"] = [n for n, _ in root.named_buffers() if n in kept]
        told["modules"] = {n: name_of(module) for n, module in root.named_modules()}
        paths = {id(module): name for name, module in root.named_modules()}
        for place, holder in package.asks_training:
            if id(holder) in paths:
                told["training"][str(place)] = [paths[id(holder)], holder.training]
    return package, told


def _source(function: Any) -> str:
    try:
        return _textwrap.dedent(_inspect.getsource(function))
    except (OSError, TypeError):
        return ""
