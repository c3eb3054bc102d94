"""`CompiledFunction`: what `weft.compile` makes of a callable."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from weft import _C

if TYPE_CHECKING:
    from weft.compiler.report import Explanation

COMPILED, PLAIN, SKIP = range(3)  # `Kind` of python/program.cpp


@dataclass(frozen=True)
class Settings:
    """The arguments of `weft.compile`, checked."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | Callable[..., Any] = "inductor"
    mode: str | None = None
    options: dict[str, Any] | None = None


DEFAULTS = Settings()


class CompiledFunction(_C._Compiled):
    """A function, method or Module whose calls run the programs of their source.

    It has the name, the signature and the attributes of what it calls, which is `__wrapped__`. As
    an attribute of a class it is a method; it can be pickled and copied as its function can.
    """

    def __new__(
        cls, callee: Any, settings: Settings = DEFAULTS, kind: int = COMPILED
    ) -> CompiledFunction:
        """Wrap `callee`."""
        self = super().__new__(cls, callee, settings.fullgraph, kind, _asked(settings))
        functools.update_wrapper(self, callee, updated=())
        if isinstance(callee, (FunctionType, MethodType)):
            self.__dict__.update(callee.__dict__)
        self.__dict__.update(_torchdynamo_orig_callable=callee, _settings=settings, _kind=kind)
        return self

    if TYPE_CHECKING:

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def explain(self) -> Explanation:
        """Which functions its calls came to, and why some of them stay Python's."""
        from weft.compiler.report import explain

        return explain(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.callee, name)

    def __repr__(self) -> str:
        what = "compiled" if self.__dict__["_kind"] == COMPILED else "not compiled"
        return f"<{what}: {self.callee!r}>"

    def __reduce__(self) -> Any:
        if self._is_global():
            return self.__qualname__
        return again, (self.callee, self._settings, self._kind)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        if isinstance(self.callee, FunctionType):
            return self
        return CompiledFunction(copy.deepcopy(self.callee, memo), self._settings, self._kind)

    def _is_global(self) -> bool:
        """Whether its name leads to it, as that of a decorated function does."""
        found: Any = sys.modules.get(getattr(self, "__module__", None) or "")
        for part in getattr(self, "__qualname__", "").split("."):
            found = getattr(found, part, None)
        return found is self


_C._speed_up_compiled(CompiledFunction)


def _asked(settings: Settings) -> Callable[..., Any] | None:
    """The user's backend, with the arguments that PyTorch gives to one."""
    if isinstance(settings.backend, str):
        return None
    more: dict[str, Any] = {}
    if settings.mode not in (None, "default"):
        more["mode"] = settings.mode
    if settings.options:
        more["options"] = settings.options
    return functools.partial(settings.backend, **more) if more else settings.backend


def again(callee: Any, settings: Settings, kind: int) -> CompiledFunction:
    """The same again, for pickles and copies."""
    return CompiledFunction(callee, settings, kind)


def innermost(callee: Any) -> Callable[..., Any]:
    """What a compiled function calls in the end; anything else itself."""
    while isinstance(callee, CompiledFunction) and callee._kind == COMPILED:
        callee = callee.callee
    return callee  # type: ignore[no-any-return]
