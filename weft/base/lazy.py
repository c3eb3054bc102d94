"""Names that load when they are asked for, and what a module says of names that it lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from weft.base.alias import after, home_name, is_installed, torch_name
from weft.base.files import extra

__all__ = ["LAZY", "MODULES", "NAMES", "install", "missing", "missing_module"]

#: Public modules that `import weft` does not load.
MODULES = (
    "amp", "array_api", "classes", "compiler", "cpu", "distributed", "distributions", "export",
    "functional", "futures", "fx", "hub", "jit", "library", "masked", "memory", "mps", "mtia",
    "multiprocessing", "nested", "onnx", "ops", "overrides", "profiler", "quasirandom", "see",
    "sparse", "torch_version", "types", "vision", "xpu",
)  # fmt: skip

#: Where the other names of the package are that load with the first use.
LAZY = {
    "weft._checkpoint.streams": ("PyTorchFileReader", "PyTorchFileWriter"),
    "weft.base.absent": ("get_device_module",),
    "weft.base.streams": ("Event", "Stream"),
    "weft.base.symbols": (
        "SymBool", "SymFloat", "SymInt", "sym_float", "sym_fresh_size", "sym_int", "sym_ite",
        "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
    ),
    "weft.amp.grad_scaler": ("GradScaler",),
    "weft.amp.autocast_mode": (
        "autocast", "clear_autocast_cache", "get_autocast_cpu_dtype", "get_autocast_dtype",
        "get_autocast_gpu_dtype", "is_autocast_cache_enabled", "is_autocast_cpu_enabled",
        "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
        "set_autocast_cpu_enabled",
    ),
    "weft.autograd.anomaly": ("set_anomaly_enabled",),
    "weft.compiler": ("compile",),
    "weft.closing.control": (
        "_assert", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
        "_check_type", "_check_value", "cond", "while_loop",
    ),
    "weft.composites.bits": ("hash_tensor",),
    "weft.composites.fake_quantize": (
        "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine",
    ),
    "weft.composites.older": (
        "eig", "lstsq", "matrix_rank", "solve", "symeig", "triangular_solve",
    ),
    "weft.composites.segments": ("segment_reduce",),
    "weft.experiments": ("experiment",),
    "weft.func": ("vmap",),
    "weft.futures": ("Future",),
    "weft.jit": ("ScriptFunction", "ScriptModule"),
    "weft.nn.functional_native": (
        "affine_grid_generator", "alpha_dropout_", "conv_tbc", "cosine_embedding_loss", "ctc_loss",
        "dropout_", "embedding_bag", "embedding_renorm_", "feature_alpha_dropout_",
        "feature_dropout_", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
        "hinge_embedding_loss", "margin_ranking_loss", "max_pool1d_with_indices",
        "native_batch_norm", "native_channel_shuffle", "native_dropout", "native_group_norm",
        "poisson_nll_loss", "triplet_margin_loss",
    ),
    "weft.nn.functional_rnn": ("gru", "lstm", "rnn_relu", "rnn_tanh"),
    "weft.see": ("graph", "last_graph", "record", "stop_when"),
    "weft.see.alive": ("live", "why_alive"),
    "weft.see.layers": ("summary",),
    "weft.see.watching": ("watch",),
    "weft.running": ("install_as_torch",),
    "weft.see.view": ("listen", "view"),
    "weft.sparse.create": (
        "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
    ),
    "weft.sparse.named": ("dsmm", "hsmm", "hspmm", "saddmm", "smm", "spmm"),
    "weft.storage": (
        "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
        "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage",
        "LongStorage", "ShortStorage", "TypedStorage", "UntypedStorage",
    ),
}  # fmt: skip

#: What programs reach for in spite of its name: functions, and modules.
_RESERVED = {
    "weft.base.claims": (
        "_assert_async", "_check_index", "_check_is_size", "_check_not_implemented",
        "_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
    ),
    "weft.composites.grouped": ("_grouped_mm",),
    "weft.composites.older": (
        "_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int",
        "_cast_Long", "_cast_Short", "_convert_indices_from_coo_to_csr",
        "_convert_indices_from_csr_to_coo", "_dirichlet_grad", "_sample_dirichlet",
        "_shape_as_tensor", "_softmax_backward_data", "_standard_gamma", "_weight_norm",
    ),
}  # fmt: skip
_PRIVATE = (
    "_VF", "__config__", "_dynamo", "_higher_order_ops", "_inductor", "_jit_internal", "_library",
    "_ops",
    "_subclasses", "_tensor_str", "_utils",
)  # fmt: skip
NAMES = {
    name: module
    for listed in (LAZY, _RESERVED)
    for module, names in listed.items()
    for name in names
}

#: What to do without what weft has not: by name, in `weft` or in a submodule.
_ADVICE = {
    "quantization": "bfloat16 halves the memory of a model: model.bfloat16()",
    "sparse_bsr_tensor": "sparse_coo_tensor, sparse_csr_tensor and sparse_csc_tensor are there",
}


def _hint(module: ModuleType, name: str) -> str:
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
    """An AttributeError whose text, which looks for the nearest name, is made when it is read: its
    arguments are the module and the name. Programs ask `hasattr` of names more than they read."""

    @property
    def args(self) -> tuple[str]:  # type: ignore[override]
        return (str(self),)

    def __str__(self) -> str:
        module, name = _given(self)
        text = f"module {module.__name__!r} has no attribute {name!r}"
        # Python asks for such names of every module.
        return text if name.startswith("__") else f"{text}. Hint: {_hint(module, name)}"

    def __repr__(self) -> str:
        return f"AttributeError({str(self)!r})"

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


class _MissingModule(ModuleNotFoundError):
    """The same of a module that `import` does not find."""

    def __str__(self) -> str:
        return f"{self.args[0]}. Hint: {_module_hint(str(self.name))}"

    def __reduce__(self) -> Any:
        return ModuleNotFoundError, (str(self),), {"name": self.name}


for _kind, _name in ((_Missing, "AttributeError"), (_MissingModule, "ModuleNotFoundError")):
    _kind.__name__ = _kind.__qualname__ = _name
    _kind.__module__ = "builtins"


#: What an error was made with.
_given: Callable[[_Missing], Any] = AttributeError.args.__get__  # type: ignore[attr-defined]


def missing(module: ModuleType, name: str) -> AttributeError:
    """The error about a name that a module has not, with the nearest one that it has."""
    return _Missing(module, name)


def missing_module(name: str) -> ModuleNotFoundError:
    """The error about a module, by PyTorch's name, that there is not, with the nearest one."""
    return _MissingModule(f"No module named {name!r}", name=name)


def _module_hint(name: str) -> str:
    package, _, last = name.rpartition(".")
    if last in _ADVICE:
        return _ADVICE[last]
    import difflib
    import pkgutil

    parent = sys.modules.get(package)
    path = getattr(parent, "__path__", ())
    home = home_name(package)
    names = [m.name for m in pkgutil.iter_modules(path)]
    near = [n for n in names if torch_name(f"{home}.{n}") == f"{package}.{n}"]
    found = difflib.get_close_matches(last, near, 1)
    if found:
        return f"did you mean {package}.{found[0]}?"
    if parent is not None and hasattr(parent, last):
        return f"{last} is a name of {package}, no module"
    return "docs/names.md lists the public names"


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
    known = home is None or home.split(".")[0] in ("weft", "torch", "torchvision", "builtins")
    return name.startswith("_") or not known


def _load(name: str) -> Any:
    """A lazy name of the package itself."""
    import importlib

    if name in MODULES or name in _PRIVATE:
        return importlib.import_module(f"weft.{name}")
    if name == "torch":  # `from torch import torch` is in old programs
        return sys.modules["weft"]
    if name.startswith("_foreach_"):
        return importlib.import_module("weft.composites.foreach").foreach(name)
    return getattr(importlib.import_module(NAMES[name]), name)


def _answer(module: Any, path: str) -> Callable[[str], Any]:
    def answer(name: str) -> Any:
        try:
            return extra(path, name)
        except (KeyError, ImportError):
            raise _Missing(module, name) from None

    return answer


def _answer_of_package(module: Any) -> Callable[[str], Any]:
    """The same of weft itself, some of whose names load when they are asked for."""
    known = frozenset([*MODULES, *_PRIVATE, *NAMES, "torch"])

    def answer(name: str) -> Any:
        if name in known or name.startswith("_foreach_"):
            value = _load(name)
            setattr(module, name, value)
            return value
        raise _Missing(module, name)

    return answer


def _complete(path: str, module: Any) -> None:
    """Gives a public module its `__getattr__` and `__dir__`, if it has no others."""
    if "._" in path:
        return
    own = vars(module)
    if "__getattr__" not in own:
        is_weft = path == "weft"
        module.__getattr__ = _answer_of_package(module) if is_weft else _answer(module, path)
    if "__dir__" not in own:
        module.__dir__ = _public(module)


class _Completing:
    """Of `sys.meta_path`: completes the modules of weft that are imported later."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("weft."):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and "._" not in name:
            after(spec, lambda module: _complete(name, module))
        return spec


def install() -> None:
    """Gives weft and its public modules their `__getattr__` and `__dir__`, now or as they load."""
    for path, module in list(sys.modules.items()):
        if path == "weft" or path.startswith("weft."):
            _complete(path, module)
    place = 1 if is_installed() else 0  # after the finder of torch, which asks it
    sys.meta_path.insert(place, _Completing())
