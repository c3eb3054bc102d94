"""PyTorch's files that are no files here: programs import from `torch.autograd.grad_mode` what
`weft.autograd` has.

A module of this table is made when weft is imported; the names are looked up when they are asked
for. `weft.nn.modules` has a table of its own.

>>> from weft.autograd.grad_mode import no_grad
>>> no_grad is weft.no_grad
True
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from weft.base import alias

__all__ = ["EXTRAS", "FILES", "extra", "install"]

_GRADS = "vjp jvp grad grad_and_value jacrev jacfwd hessian"

#: The path of a file -> where its names are, by module.
FILES = {
    "weft._functorch": {"weft.func": f"vmap {_GRADS}"},
    "weft._functorch.apis": {"weft.func": "vmap grad grad_and_value"},
    "weft._functorch.eager_transforms": {"weft.func": _GRADS},
    "weft._lobpcg": {"weft": "lobpcg"},
    "weft._lowrank": {"weft": "svd_lowrank pca_lowrank"},
    "weft._vmap_internals": {"weft.func": "vmap"},
    "weft.autograd.anomaly_mode": {"weft.autograd": "detect_anomaly set_detect_anomaly"},
    "weft.autograd.grad_mode": {
        "weft.autograd": "no_grad enable_grad set_grad_enabled inference_mode"
    },
    "weft.cuda.amp.autocast_mode": {"weft.cuda.amp": "autocast custom_fwd custom_bwd"},
    "weft.cuda.amp.grad_scaler": {
        "weft.cuda.amp": "GradScaler", "weft.amp.grad_scaler": "OptState",
    },
    "weft.fx._symbolic_trace": {"weft.fx": "Tracer symbolic_trace wrap"},
    "weft.fx.subgraph_rewriter": {"weft.fx": "Match replace_pattern"},
    "weft.nn.parallel.data_parallel": {"weft.nn.parallel": "DataParallel data_parallel"},
    "weft.nn.parallel.parallel_apply": {"weft.nn.parallel": "parallel_apply"},
    "weft.nn.parallel.replicate": {"weft.nn.parallel": "replicate"},
    "weft.nn.utils.init": {"weft.nn.utils": "skip_init"},
    "weft.profiler.profiler": {
        "weft.profiler": "profile schedule ProfilerAction supported_activities "
        "tensorboard_trace_handler"
    },
}  # fmt: skip


#: Private names of a public module that programs import -> where they are; `a=b` is a as b.
EXTRAS = {
    "weft.hub": {"tqdm": "tqdm"},
    "weft.nn.functional": {
        "weft.nn": "_reduction=_Reduction",
        "weft.nn.modules.utils": "_single _pair _triple _list_with_default",
        "weft.overrides": "handle_torch_function has_torch_function has_torch_function_unary "
        "has_torch_function_variadic",
    },
    "weft.types": {"weft._C": "dtype=_dtype"},
}
_PLACES = {
    (path, as_name or name): (home, name)
    for path, homes in EXTRAS.items()
    for home, listed in homes.items()
    for name, _, as_name in (entry.partition("=") for entry in listed.split())
}


def extra(path: str, name: str) -> Any:
    """What a module has beside its own names: a file of the table, or a name from elsewhere.

    Raises: KeyError if there is no such name.
    """
    if (file := f"{path}.{name}") in FILES:
        return sys.modules[file]
    home, known = _PLACES[path, name]
    return getattr(importlib.import_module(home), known)


class _File(ModuleType):
    """A module of names that are defined elsewhere."""

    def __init__(self, path: str) -> None:
        super().__init__(path, f"PyTorch's file of that name: {', '.join(FILES[path])} has it.")
        homes = {name: home for home, listed in FILES[path].items() for name in listed.split()}
        self.__dict__.update(__all__=list(homes), _homes=homes)

    def __getattr__(self, name: str) -> Any:
        from weft.base.lazy import missing

        if name not in self.__dict__["_homes"]:
            raise missing(self, name)
        return getattr(importlib.import_module(self.__dict__["_homes"][name]), name)

    def __dir__(self) -> list[str]:
        return [*self.__all__, *(n for n in self.__dict__ if n.startswith("__"))]


def install() -> None:
    """Makes the modules importable, under PyTorch's names too where `torch` is weft."""
    for path in FILES:
        module = sys.modules[path] = _File(path)
        if alias.is_installed():
            alias._adopt(path)
        module.__path__ = []  # of a package without files: what is below it is in this table
