"""What a Module that was loaded holds, and how it reaches the program.

Note [What is set on a loaded Module]
A program has a value by its name in one of three ways. Parameters and buffers are tensors of the
package: a table tells the program of another one, which the next run has. Attributes that the
program writes, and modes, live in the package, and are read and set there. All else was worked out
when the program was saved: what it looked up of a Module (`fixed` in the file), its Modules, its
hooks. Nothing can be put in the place of these, so that setting one raises; what the program never
looked up is free.
"""

from __future__ import annotations

from typing import Any, NoReturn

from weft import Tensor

_NEW = "Can't add a new parameter after ScriptModule construction. Tried to add '{}'"
_OTHER = (
    "Cannot re-assign modules in a ScriptModule with non-scripted module, tried to replace "
    "existing module '{}': {}"
)
_GONE = "cannot delete methods or parameters of a script module"


def refuse(module: Any, expected: str, got: str, sentence: str, hint: str = "") -> NoReturn:
    """Raises for what cannot reach the program; `sentence` is PyTorch's."""
    hint = f". Hint: {hint}" if hint else ""
    who = module.original_name
    raise RuntimeError(f"[{who}] expected {expected}, got {got} ({sentence}){hint}")


class Table(dict[str, Any]):
    """The parameters, buffers or Modules of a Module that was loaded, by name
    (Note [What is set on a loaded Module]).

    Attributes:
        module: the Module.
        kind: the name of the table.
        written: the names that the program writes itself.
    """

    def __init__(self, module: Any, kind: str, held: dict[str, Any]) -> None:
        super().__init__(held)
        self.module, self.kind, self.written = module, kind, frozenset[str]()

    def __setitem__(self, name: str, value: Any) -> None:
        if name in self and self[name] is value:
            return
        self._expect(name, value)
        super().__setitem__(name, value)
        if name not in self.written:
            self.module.__dict__["_root"].__dict__["_is_stale"] = True

    def _expect(self, name: str, value: Any) -> None:
        """Raises if the program could not have a value."""
        module = self.module
        if self.kind == "_modules":
            refuse(module, "the Modules that were saved", f"another one under {name!r}",
                   _OTHER.format(name, value), "load the state_dict of the other one")  # fmt: skip
        if name not in self:
            refuse(module, "the parameters and buffers that were saved", f"a new one, {name!r}",
                   _NEW.format(name))  # fmt: skip
        if name in self.written and value is None:
            return
        wanted = "NoneType" if self[name] is None and name not in self.written else "Tensor"
        if isinstance(value, Tensor) != (wanted == "Tensor"):
            refuse(module, "a tensor" if wanted == "Tensor" else "None, as it was saved",
                   f"{type(value).__name__} for {name!r}",
                   f"Could not cast attribute '{name}' to type {wanted}")  # fmt: skip

    def put(self, name: str, value: Any) -> None:
        """Sets what the program has written."""
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        refuse(self.module, "what was saved to stay", f"{name!r} to be deleted", _GONE)

    def pop(self, name: str, *otherwise: Any) -> Any:
        """The other value where nothing has that name; raises for what is there."""
        if name in self or not otherwise:
            del self[name]
        return otherwise[0]

    def popitem(self) -> Any:
        """Raises."""
        del self[next(iter(self), "")]

    def clear(self) -> None:
        """Raises if anything is there."""
        for name in self:
            del self[name]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Sets each."""
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __ior__(self, other: Any) -> Table:  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        """What is there; raises where nothing is."""
        if name not in self:
            self[name] = default
        return self[name]
