"""`jit.save` and `jit.load`: programs in files that need no source."""

from __future__ import annotations

import inspect as _inspect
import json as _json
import textwrap as _textwrap
from contextlib import suppress as _suppress
from functools import partialmethod as _method
from typing import Any

from weft import _C
from weft._C import Tensor
from weft.base.device import expect_cpu as _expect_cpu
from weft.closing.close import expect_no_hooks as _expect_no_hooks
from weft.closing.errors import NotExportable as _NotExportable
from weft.closing.file import File as _File
from weft.closing.file import Read as _Read
from weft.closing.file import module_of as _module_of
from weft.closing.file import write as _write
from weft.closing.loaded import LoadedEntry as _LoadedEntry
from weft.closing.package import NotAValue as _NotAValue
from weft.closing.package import Package as _Package
from weft.closing.package import value_of as _value_of
from weft.closing.program import call_of as _call_of
from weft.closing.program import original_of as _original_of
from weft.closing.program import package_of as _package_of
from weft.jit.scripted import RecursiveScriptModule, ScriptModule, _exported, name_of
from weft.jit.tables import Table as _Table
from weft.jit.tables import refuse as _refuse
from weft.nn.module import Module as _Module
from weft.nn.parameter import Parameter as _Parameter

_TABLES = ("_parameters", "_buffers", "_modules")
_PLAIN = frozenset(vars(_Module()))


class LoadedModule(RecursiveScriptModule):
    """A Module of a program that was loaded: its parameters, buffers, modules and modes.

    The root calls the program: `forward`, and methods that were exported. Calls are recorded for
    gradients as any others. `train()` and `eval()` reach what the program asks its Modules, and so
    do parameters, buffers and attributes that the program writes. What was worked out when the
    program was saved stays: to set or delete it, another Module, or a hook raise RuntimeError.

    Attributes:
        original_name: the name of the class that the Module had.
        code: the source that was saved.
        graph: the functions of the program, their instructions a line each.

    >>> import io
    >>> file = io.BytesIO()
    >>> weft.jit.save(weft.jit.script(weft.nn.ReLU()), file)
    >>> _ = file.seek(0)
    >>> type(weft.jit.load(file)).__name__
    'RecursiveScriptModule'
    """

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.__dict__["_name"] = name

    @property
    def original_name(self) -> str:
        """The name of the class that the Module had."""
        return str(self.__dict__["_name"])

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if (place := own.get("_written", {}).get(name)) is not None:
            with _suppress(ValueError):  # nothing has written it yet
                return own["_root"]._package.field(place, name)
        if (told := own.get("_known", {}).get(name, own)) is not own:
            return _value_of(told, {})
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if (place := own.get("_written", {}).get(name)) is not None:
            own["_root"]._package.set_field(place, name, value)
            return
        for kind in _TABLES:
            if "_root" in own and name in own[kind]:
                own[kind][name] = value
                return
        self._expect_not_fixed(name, "another value")
        super().__setattr__(name, value)
        if name == "training" and "_root" in own:
            own["_root"]._tell_modes()

    def __delattr__(self, name: str) -> None:
        self._expect_not_fixed(name, "it to be deleted")
        super().__delattr__(name)

    def _expect_not_fixed(self, name: str, got: str) -> None:
        """Raises for a name whose value the program has been saved with."""
        if name in self.__dict__.get("_fixed", ()) and name != "training":
            _refuse(self, f"{name!r} as it was saved", got, "its value is part of the program",
                    "set it before the program is saved, or make it a buffer")  # fmt: skip

    def __reduce__(self) -> Any:
        raise TypeError(
            f"[{self.original_name}] expected the root of a program that was loaded, got a Module "
            "in it to be copied. Hint: copy the root"
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: the program is the root's."""
        raise NotImplementedError(
            f"[{self.original_name}] expected a call of the program that was loaded, got one of a "
            "Module in it. Hint: mark a method that calls it with weft.jit.export before saving"
        )

    def _no_items(self, *_: Any) -> Any:
        raise NotImplementedError(
            f"[{self.original_name}] expected a name, got an index or a loop over a Module that "
            "was loaded. Hint: get_submodule('0'), or children()"
        )

    __getitem__ = __iter__ = __len__ = __contains__ = _no_items

    def _no_hook(self, name: str, *_: Any, **__: Any) -> Any:
        _refuse(self, "no hooks", "one", f"{name} is not supported on ScriptModules",
                "put the program into a Module that has it")  # fmt: skip


for _name in dir(_Module):
    if _name.startswith(("register_", "_register_")) and _name.endswith("_hook"):
        setattr(LoadedModule, _name, _method(LoadedModule._no_hook, _name))


class _Program(LoadedModule):
    """The root: it has the program."""

    def __init__(self, package: str, told: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().__init__(told["modules"].get("", ""))
        own = self.__dict__
        own["_json"], own["_told"], own["_constants"] = package, told, dict(tensors)
        self._build()
        for name, mode in [*told["modes"].items(), *told["training"].values()]:
            self.get_submodule(name).training = mode
        for name, module in self.named_modules():
            tables = module.__dict__
            tables["_known"] = told["known"].get(name, {})
            tables["_fixed"] = {*told["fixed"].get(name, ())}.difference(
                *(tables[kind] for kind in _TABLES)
            )
            tables["_root"] = self
            tables.update((kind, _Table(module, kind, tables[kind])) for kind in _TABLES)
        self._start()

    def _build(self) -> None:
        """Makes the Modules that the file tells of, with their parameters and buffers."""
        own, told = self.__dict__, self._told
        for name, kind in told["modules"].items():
            if name:
                self._parent(name).add_module(_last(name), LoadedModule(kind))
        for name, wanted in told["parameters"].items():
            made = _Parameter(own["_constants"].pop(name), requires_grad=wanted)
            self._parent(name).register_parameter(_last(name), made)
        for name in (*told["buffers"], *told["empty"]):
            lasts = name not in told["passing"]
            made = own["_constants"].pop(name, None)
            self._parent(name).register_buffer(_last(name), made, persistent=lasts)
        for name, first in told["aliases"].items():
            _share(self._parent(name), _last(name), self._parent(first), _last(first))

    def _parent(self, name: str) -> Any:
        """The Module that a name stands in; made where the file names none."""
        module: Any = self
        for part in name.split(".")[:-1]:
            if part not in module._modules:
                module.add_module(part, LoadedModule())
            module = module._modules[part]
        return module

    def _start(self) -> None:
        """Makes the program ready on the tensors that the Modules have now."""
        own = self.__dict__
        package = own["_package"] = _C._Package(self._json, self._tensors())
        own["_is_stale"] = False
        if "_bound" not in own:
            for entry in package.entries:
                own[entry] = _Entry(self, entry)
        own["_bound"] = []
        for place, (path, names) in enumerate(self._told["attributes"]):
            if path is None:
                continue
            module: Any = self.get_submodule(path)
            buffers = [name for name in names if name in module._buffers]
            own["_bound"] += [(place, name, module._buffers) for name in buffers]
            module._buffers.written |= {*buffers}
            others = {*names} - {*buffers, "training"}
            module.__dict__["_written"] = dict.fromkeys(others, place)
        self._tell_modes()

    def _tell_modes(self) -> None:
        if "_package" not in self.__dict__:  # it is being made
            return
        for place, (name, _) in self._told["training"].items():
            self._package.set_field(int(place), "training", self.get_submodule(name).training)

    def _settle(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        """Package, Modules and tensors as `_Program` takes them, with what all of it is now.

        Raises:
            NotExportable: the program wrote what no file has into an attribute.
            RuntimeError: what was saved as one parameter or buffer with two names is two now.
        """
        self._tell_buffers()
        data, kept, told = _json.loads(self._json), _Package(), self._told
        held = self._held()
        for name, first in told["aliases"].items():
            if name in held and held[name] is not held[first]:
                _refuse(self, f"one tensor for {first!r} and {name!r}, as it was saved", "two",
                        "the program has one", "set the other one to it too")  # fmt: skip
        for name, tensor in held.items():
            if tensor is not None and name not in told["aliases"]:
                kept.name_tensor(tensor, name)
                kept.tensors[name] = tensor
        for name in _tensors_of(data["functions"]):
            if name in self._constants:
                kept.name_tensor(self._constants[name], name)
        for place, object_told in enumerate(data["objects"]):
            object_told["fields"] = self._fields(place, object_told, kept)
        data["tensors"] = list(kept.tensors)
        modules = dict(self.named_modules())
        buffers = [*told["buffers"], *told["empty"]]
        now = {
            **told,
            "parameters": {name: held[name].requires_grad for name in told["parameters"]},
            "buffers": [name for name in buffers if held[name] is not None],
            "empty": [name for name in buffers if held[name] is None],
            "modes": {name: module.training for name, module in modules.items()},
            "training": {
                place: [name, modules[name].training]
                for place, (name, _) in told["training"].items()
            },
        }
        return _json.dumps(data, separators=(",", ":")), now, kept.tensors

    def _fields(self, place: int, told: dict[str, Any], kept: _Package) -> dict[str, Any]:
        """The attributes of an object of the package as constants."""
        written = self._told["attributes"][place][1] if self._told["attributes"] else ()
        fields = {}
        for name in dict.fromkeys([*told["fields"], *written]):
            try:
                fields[name] = kept.constant(self._package.field(place, name))
            except ValueError:  # nothing has written it yet
                continue
            except (_NotAValue, TypeError) as error:
                what = f"{told['class']}.{name}, which the program writes and is {error}"
                raise _NotExportable(what) from None
        return fields

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._settled()
        super()._apply(fn, recurse)
        self.__dict__["_constants"] = {name: fn(t) for name, t in self._constants.items()}
        self._start()
        return self

    def _no_stateless_call(self) -> None:
        _refuse(self, "a Module with its source", "a program that was loaded",
                "The stateless API can't be used with Jitted modules",
                "load_state_dict(..., assign=True), or set the parameters")  # fmt: skip

    def _settled(self) -> None:
        """Takes what all of it is now for what the program begins with."""
        own, held = self.__dict__, self._held()
        own["_json"], own["_told"], tensors = self._settle()
        own["_constants"] = {name: t for name, t in tensors.items() if name not in held}

    @property
    def code(self) -> str:
        """The source that was saved."""
        return str(self._told["code"])

    @property
    def graph(self) -> str:
        """The functions of the program, their instructions a line each."""
        return "\n".join(f["text"] for f in _json.loads(self._json)["functions"])

    def save(self, f: Any, _extra_files: Any = None, _also: Any = None, _more: Any = None) -> None:
        """Writes the program with what its parameters, attributes and modes are now."""
        package, told, tensors = self._settle()
        tensors = {**tensors, **(_more or {})}
        _write(f, package, {**told, **(_also or {})}, tensors, _extra_files or {})

    def _held(self) -> dict[str, Any]:
        """Parameters and buffers by each of their names."""
        return {
            f"{path}.{name}" if path else name: held
            for path, module in self.named_modules(remove_duplicate=False)
            for kind in ("_parameters", "_buffers")
            for name, held in module.__dict__[kind].items()
        }

    def _tensors(self) -> dict[str, Tensor]:
        """All that the program refers to, by name."""
        held = {name: tensor for name, tensor in self._held().items() if tensor is not None}
        return {**self._constants, **held}

    def _tell_buffers(self) -> None:
        """Gives the program the buffers that it writes, as they are now."""
        for place, name, buffers in self._bound:
            self._package.set_field(place, name, buffers[name])

    def _call(self, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls an entry; buffers that either side sets are the other's."""
        own = self.__dict__
        if own["_is_stale"]:
            self._settled()
            self._start()
        package, bound = own["_package"], own["_bound"]
        if not bound:
            return package.call(entry, args, kwargs)
        self._tell_buffers()
        try:
            return package.call(entry, args, kwargs)
        finally:
            for place, name, buffers in bound:
                buffers.put(name, package.field(place, name))

    def __reduce__(self) -> Any:
        package, told, tensors = self._settle()
        return _Program, (package, told, {name: t.detach() for name, t in tensors.items()})

    def _another(self) -> _Program:
        """The same program as a Module of its own, on tensors in the same memory."""
        make, given = self.__reduce__()
        return make(*given)  # type: ignore[no-any-return]


def _last(name: str) -> str:
    """The last part of a name with dots."""
    return name.rpartition(".")[2]


def _share(module: Any, name: str, other: Any, first: str) -> None:
    """Gives a Module what another one has under a name."""
    for kind in ("_modules", "_parameters", "_buffers"):
        if first in getattr(other, kind):
            getattr(module, kind)[name] = getattr(other, kind)[first]
    if first in other._non_persistent_buffers_set:
        module._non_persistent_buffers_set.add(name)


def _tensors_of(functions: list[dict[str, Any]]) -> set[str]:
    """The names of the tensors among the constants of functions."""
    out, left = set(), [[f["constants"], f["defaults"]] for f in functions]
    while left:
        value: Any = left.pop()
        if isinstance(value, dict):
            if type(name := value.get("tensor")) is str:
                out.add(name)
            left += value.values()
        elif isinstance(value, list):
            left += value
    return out


def _empty_buffers(root: _Module) -> list[str]:
    """The names of buffers that are None."""
    return [
        f"{path}.{name}" if path else name
        for path, module in root.named_modules()
        for name, buffer in module._buffers.items()
        if buffer is None
    ]


# What type(loaded).__name__ is in PyTorch.
_Program.__name__ = LoadedModule.__name__ = RecursiveScriptModule.__name__


class _Entry(_LoadedEntry):
    """A method of a loaded program."""

    def __init__(self, program: _Program, name: str) -> None:
        self.program, self.name, self.run = program, name, program._call
        self.__name__, self.__qualname__ = name, f"{program.original_name}.{name} as it was loaded"

    @property
    def __signature__(self) -> _inspect.Signature:
        """Names and kinds of its parameters; that one has a default value, not which."""
        told = _json.loads(self.program._json)
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
        return self.run(self.name, args, kwargs)


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
    text = package.to_json()
    _C._Package(text, package.tensors)  # what cannot be read again is not written
    _write(f, text, told, package.tensors, _extra_files or {})


def load(f: _File, map_location: Any = None, _extra_files: Any = None,
         _restore_shapes: bool = False) -> LoadedModule:  # fmt: skip
    """A program that `save` wrote, as a Module; no code of the file runs but its instructions.

    Args:
        f: a path, or a file open for reading bytes.
        map_location: the CPU, if it is given.
        _extra_files: a dict whose values become the contents of the files that its keys name.
        _restore_shapes: without effect.

    Raises:
        ValueError: there is no such file; it asks for what this version has not.
        RuntimeError: it is no program.

    >>> import io
    >>> file = io.BytesIO()
    >>> weft.jit.save(weft.jit.script(weft.nn.ReLU()), file)
    >>> _ = file.seek(0)
    >>> weft.jit.load(file)(weft.tensor([-1.0, 1.0]))
    tensor([0., 1.])
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
    try:
        return _Program(read.package, told, read.tensors)
    except (AttributeError, IndexError, KeyError, TypeError) as error:  # names that nothing has
        raise RuntimeError(
            f"[load] expected a file that jit.save wrote, got one whose parts do not fit: {error}"
        ) from None


def _program_of(
    m: Any, keeps_training: bool, example: Any = ()
) -> tuple[_Package, dict[str, Any]]:
    """The package of a function or Module, and what there is to know of the Modules; `example` has
    what it may be called with."""
    root = None
    if isinstance(m, _Module):
        m = _original_of(m)
        root = m.__dict__.get("_original", m)
        _expect_no_hooks(root)
        names = dict.fromkeys([*m.__dict__.get("_runs", ("forward",)), *_exported(type(root))])
        entries = {n: getattr(root, n) for n in names}
        if "forward" in names and "_function" not in m.__dict__:  # a script is of forward alone
            entries["forward"] = _call_of(root)
    elif callable(m):
        entries = {"forward": m}
    else:
        raise TypeError(f"[save] expected a ScriptModule or ScriptFunction, got {type(m).__name__}")
    package = _package_of(entries, root, keeps_training, example)
    told = {**_module_of("{}"), "code": _source(getattr(m, "_function", m))}
    if root is not None:
        told |= _tree_of(root, package)
    return package, told


def _tree_of(root: _Module, package: _Package) -> dict[str, Any]:
    """What a file tells of a Module and those in it."""
    modules = dict(root.named_modules())
    paths = {id(module): name for name, module in modules.items()}
    parameters, buffers = dict(root.named_parameters()), dict(root.named_buffers())
    places = [(paths.get(id(holder)), names) for holder, names in package.written]
    return {
        "parameters": {name: p.requires_grad for name, p in parameters.items()},
        "buffers": [name for name in buffers if name in package.tensors],
        "empty": _empty_buffers(root),
        "passing": [
            f"{path}.{name}" if path else name
            for path, module in modules.items()
            for name in module._non_persistent_buffers_set
        ],
        "aliases": _aliases(root),
        "known": {name: _plain_of(module) for name, module in modules.items()},
        "fixed": {
            paths[id(module)]: sorted(names)
            for module, names in package.read
            if id(module) in paths
        },
        "modules": {name: name_of(module) for name, module in modules.items()},
        "modes": {name: module.training for name, module in modules.items()},
        "attributes": [[path, list(names)] for path, names in places],
        "training": {
            str(place): [path, modules[path].training]
            for place, (path, names) in enumerate(places)
            if path is not None and "training" in names
        },
    }


def _plain_of(module: _Module) -> dict[str, Any]:
    """The attributes of a Module that are plain values, as constants."""
    out, kept = {}, _Package()
    for name, value in vars(module.__dict__.get("_original", module)).items():
        if name not in _PLAIN and not name.startswith("_"):
            with _suppress(_NotAValue, KeyError, ValueError):  # with tensors it is not plain
                constant = kept.constant(value)
                _value_of(constant, {})
                out[name] = constant
    return out


def _aliases(root: _Module) -> dict[str, str]:
    """Further names of Modules, then of parameters and buffers, with the first name of each."""
    out, seen = {}, dict[int, str]()
    for named in (root.named_modules, root.named_parameters, root.named_buffers):
        for name, one in named(remove_duplicate=False):
            first = seen.setdefault(id(one), name)
            if first != name:
                out[name] = first
    return out


def _source(function: Any) -> str:
    try:
        return _textwrap.dedent(_inspect.getsource(function))
    except (OSError, TypeError):
        return ""
