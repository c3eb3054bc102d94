"""`OptimizedModule`: what `weft.compile` makes of a Module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weft.compiler.function import COMPILED, DEFAULTS, CompiledFunction, Settings
from weft.nn.module import Module

if TYPE_CHECKING:
    from weft.compiler.report import Explanation


class OptimizedModule(Module):
    """A Module whose call runs the program of another one, `_orig_mod`.

    The two share parameters, buffers, modules and attributes: what is read, written or deleted
    here is so there. Names in `state_dict` begin with `_orig_mod.`; `load_state_dict` takes names
    with and without it, here and in the Module itself.
    """

    _orig_mod: Module

    def __init__(self, mod: Module, settings: Settings = DEFAULTS, kind: int = COMPILED) -> None:
        super().__init__()
        own = self.__dict__
        del own["training"]
        own["_modules"]["_orig_mod"] = mod
        own.update(forward=CompiledFunction(mod, settings, kind), _torchdynamo_orig_callable=mod)

    def explain(self) -> Explanation:
        """Which functions its calls came to, and why some of them stay Python's."""
        from weft.compiler.report import explain

        return explain(self)

    @property
    def training(self) -> bool:
        """Whether the Module is in training mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        self._orig_mod.training = value

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod" and name in modules:
            return modules[name]
        if "_orig_mod" not in modules:
            return super().__getattr__(name)
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ or hasattr(type(self), name):
            object.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            object.__delattr__(self, name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self) -> Any:
        call = self.__dict__["forward"]
        return OptimizedModule, (self._orig_mod, call._settings, call._kind)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        container: Any = self._orig_mod
        return len(container)

    def __getitem__(self, key: Any) -> Any:
        container: Any = self._orig_mod
        return container[key]

    def __iter__(self) -> Iterator[Any]:
        container: Any = self._orig_mod
        return iter(container)
