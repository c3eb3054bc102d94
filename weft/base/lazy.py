"""Names that load when they are asked for, and what a module says of names that it lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["LAZY", "MODULES", "install"]

#: Public modules that `import weft` does not load.
MODULES = (
    "amp", "compiler", "distributions", "fx", "jit", "memory", "multiprocessing", "profiler", "see",
)  # fmt: skip

#: Where the other names of the package are that load with the first use.
LAZY = {
    "weft.amp.autocast_mode": (
        "autocast", "clear_autocast_cache", "get_autocast_cpu_dtype", "get_autocast_dtype",
        "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
        "set_autocast_cache_enabled",
    ),
    "weft.compiler": ("compile",),
    "weft.experiments": ("experiment",),
    "weft.func": ("vmap",),
    "weft.see": ("graph", "last_graph", "record", "stop_when"),
    "weft.see.alive": ("live", "why_alive"),
    "weft.see.layers": ("summary",),
    "weft.see.watching": ("watch",),
    "weft.see.view": ("listen", "view"),
    "weft.storage": ("TypedStorage", "UntypedStorage"),
}  # fmt: skip
_HOME = {name: module for module, names in LAZY.items() for name in names}

#: Modules of PyTorch that programs reach for in spite of their names.
_PRIVATE = ("_dynamo",)

#: What to do without what weft has not: by name, in `weft` or in a submodule.
_ADVICE = {
    "distributed": "weft trains in one process here; guard the import by the number of processes",
    "export": "keep the model's code and its state_dict()",
    "hub": "save the state_dict() to a file and load() that",
    "onnx": "keep the model's code and its state_dict()",
    "quantization": "bfloat16 halves the memory of a model: model.bfloat16()",
    "sparse_coo_tensor": "use a dense tensor, or index_add over the indices",
    "sparse_csr_tensor": "use a dense tensor, or index_add over the indices",
}


def _hint(error: _Missing) -> str:
    module, name = error._module, error._name
    if name in _ADVICE:
        return _ADVICE[name]
    import difflib

    public = [n for n in dir(module) if not n.startswith("_")]
    listed = set(getattr(module, "__all__", public))
    # Submodules last: Dataloader is DataLoader, not dataloader.
    public.sort(key=lambda n: (n in listed, n[:1].isupper() == name[:1].isupper()))
    lower = {n.lower(): n for n in public}
    near = lower.get(name.lower().replace("_", "")) or lower.get(name.lower())
    found = [near] if near else difflib.get_close_matches(name, public, 1)
    if found:
        return f"did you mean {found[0]!r}?"
    return "docs/names.md lists the public names"


class _Missing(AttributeError):
    """An AttributeError whose text, which looks for the nearest name, is made when it is read."""

    def __init__(self, module: ModuleType, name: str) -> None:
        super().__init__(f"module {module.__name__!r} has no attribute {name!r}")
        self._module, self._name = module, name

    def __str__(self) -> str:
        text = str(self.args[0])
        # Python asks for such names of every module.
        return text if self._name.startswith("__") else f"{text}. Hint: {_hint(self)}"

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


_Missing.__name__ = _Missing.__qualname__ = "AttributeError"
_Missing.__module__ = "builtins"


def missing(module: ModuleType, name: str) -> AttributeError:
    """The error about a name that a module has not, with the nearest one that it has."""
    return _Missing(module, name)


def _public(module: ModuleType) -> Callable[[], list[str]]:
    """The `__dir__` of a module: its public names, and those that Python gives to each."""
    own = vars(module)

    def names() -> list[str]:
        listed = own.get("__all__")
        if listed is None:
            listed = [n for n, thing in own.items() if not _is_foreign(n, thing)]
        return sorted({*listed, *(n for n in own if n.startswith("__"))})

    return names


def _is_foreign(name: str, thing: Any) -> bool:
    """Whether a name of a module is private, or what the module imports from elsewhere."""
    home = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    known = home is None or home.split(".")[0] in ("weft", "torch", "builtins")
    return name.startswith("_") or not known


def _load(name: str) -> Any:
    """A lazy name of the package itself."""
    import importlib

    if name in MODULES or name in _PRIVATE:
        return importlib.import_module(f"weft.{name}")
    return getattr(importlib.import_module(_HOME[name]), name)


def _answer(module: Any, lazy: bool) -> Callable[[str], Any]:
    def answer(name: str) -> Any:
        if lazy and (name in MODULES or name in _HOME or name in _PRIVATE):
            value = _load(name)
            setattr(module, name, value)
            return value
        raise missing(module, name)

    return answer


def install() -> None:
    """Gives weft and its public modules their `__getattr__` and `__dir__`."""
    for path, module in list(sys.modules.items()):
        if path == "weft" or path.startswith("weft."):
            parts = path.split(".")
            if any(p.startswith("_") for p in parts):
                continue
            if "__getattr__" not in vars(module):
                module.__getattr__ = _answer(module, path == "weft")  # type: ignore[method-assign]
            if "__dir__" not in vars(module):
                module.__dir__ = _public(module)  # type: ignore[method-assign]
