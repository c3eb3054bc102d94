"""Modules that lie elsewhere now, under the paths by which pickles and programs may name them."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from weft._C import Tensor

__all__ = ["MOVED", "install"]

#: The earlier path of a module -> the module that has its names.
MOVED = {
    "weft._composites": "weft.base.forms",
    "weft._composites_calculus": "weft",
    "weft._composites_histogram": "weft",
    "weft._composites_products": "weft",
    "weft._composites_sets": "weft",
    "weft._composites_shape": "weft",
    "weft._composites_spectral": "weft",
    "weft._composites_statistics": "weft",
    "weft._device": "weft.base.device",
    "weft._einsum": "weft.composites.einsum",
    "weft._functions": "weft",
    "weft._inplace": "weft.composites.layout",
    "weft._lazy": "weft.base.lazy",
    "weft._modes": "weft.base.modes",
    "weft._names": "weft.base.names",
    "weft._settings": "weft.base.settings",
    "weft._tensor_queries": "weft",
    "weft._windows": "weft",
    "weft.distributions.continuous": "weft.distributions",
    "weft.distributions.transformed": "weft.distributions",
    "weft.linalg.older": "weft",
    "weft.nn.functional_margin": "weft.nn.functional",
    "weft.nn.warn": "weft.base.warn",
    "weft.special.older": "weft",
}


class _Moved(ModuleType):
    """A module of an earlier path: its names are now those of another module, or methods."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home = importlib.import_module(MOVED[self.__name__])
        thing = vars(home).get(name)
        return getattr(Tensor, name) if thing is None or isinstance(thing, ModuleType) else thing


def install() -> None:
    """Makes the earlier paths importable; what they name loads when it is asked for."""
    for path in MOVED:
        sys.modules[path] = _Moved(path)
