"""Modules that hold modules or parameters: in a row, in a list, in a dictionary.

>>> import weft
>>> net = weft.nn.Sequential(weft.nn.Linear(4, 8), weft.nn.ReLU(), weft.nn.Linear(8, 2))
>>> net[:2]
Sequential(
  (0): Linear(in_features=4, out_features=8, bias=True)
  (1): ReLU()
)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import index
from typing import Any, TypeVar, overload

from weft.nn.module import Module, indent
from weft.nn.shared_structure import changes

S = TypeVar("S", bound="Sequential")
L = TypeVar("L", bound="ModuleList")


class _Numbered(Module):
    """Children that are named by their position, as a list has them."""

    def _position(self, position: Any) -> int:
        n = len(self._modules)
        i = index(position)
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of range")
        return i % n

    def _name(self, position: Any) -> str:
        return next(islice(self._modules, self._position(position), None))

    def _at(self, position: Any) -> Any:
        return next(islice(self._modules.values(), self._position(position), None))

    def _renumber(self, modules: Iterable[Module | None]) -> None:
        changes(self)
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def _put(self, position: int, module: Module) -> None:
        """Insert as `list.insert` does; names change only if another module follows."""
        self.add_module(str(len(self._modules)), module)
        modules = list(self._modules.values())
        modules.insert(position, modules.pop())
        if modules[-1] is not module:
            self._renumber(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __setitem__(self, position: int, module: Module) -> None:
        setattr(self, self._name(position), module)

    def __delitem__(self, position: int | slice) -> None:
        modules = list(self._modules.values())
        if isinstance(position, slice):
            del modules[position]
        else:
            del modules[self._position(position)]
        self._renumber(modules)

    def pop(self, key: int | slice = -1) -> Any:
        """Remove and return the module at a position.

        >>> layers = weft.nn.ModuleList([weft.nn.ReLU(), weft.nn.Tanh()])
        >>> layers.pop(0)
        ReLU()
        """
        module = self[key]  # type: ignore[index]
        del self[key]
        return module


class Sequential(_Numbered):
    """Modules that are called one after the other, each with the output of the one before.

    Args:
        *args: the modules, or one ordered dictionary that also names them.

    Raises:
        TypeError: something else than a module is given.

    >>> import weft
    >>> weft.nn.Sequential(weft.nn.ReLU(), weft.nn.Flatten())(weft.ones(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named: Iterable[tuple[str, Any]] = ((str(i), module) for i, module in enumerate(args))
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    @overload
    def __getitem__(self: S, position: slice) -> S: ...
    @overload
    def __getitem__(self, position: int) -> Any: ...
    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return type(self)(OrderedDict(list(self._modules.items())[position]))
        return self._at(position)

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *_expect_sequential(other))

    def __iadd__(self: S, other: Sequential) -> S:
        return self.extend(_expect_sequential(other))

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*list(self) * self._expect_times(times))

    def __rmul__(self, times: int) -> Sequential:
        return self * times

    def __imul__(self: S, times: int) -> S:
        return self.extend(list(self) * (self._expect_times(times) - 1))

    def append(self: S, module: Module) -> S:
        """Add a module at the end; returns the container.

        >>> len(weft.nn.Sequential().append(weft.nn.ReLU()))
        1
        """
        self.add_module(str(len(self)), module)
        return self

    def insert(self: S, index: int, module: Module) -> S:
        """Add a module before a position; returns the container.

        Raises:
            AssertionError: `module` is not a module.
            IndexError: the position is out of range.

        >>> weft.nn.Sequential(weft.nn.ReLU()).insert(0, weft.nn.Tanh())[0]
        Tanh()
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        self._put(index, module)
        return self

    def extend(self: S, sequential: Iterable[Module]) -> S:
        """Add the modules of another container at the end; returns the container.

        >>> len(weft.nn.Sequential().extend(weft.nn.Sequential(weft.nn.ReLU())))
        1
        """
        for module in list(sequential):
            self.append(module)
        return self

    def _expect_times(self, times: int) -> int:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return times


def _expect_sequential(other: Any) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )
    return other


class ModuleList(_Numbered):
    """A list of modules whose parameters belong to the module that holds the list.

    Args:
        modules: what to start with.

    >>> import weft
    >>> weft.nn.ModuleList(weft.nn.Linear(2, 2) for _ in range(3))
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self: L, position: slice) -> L: ...
    @overload
    def __getitem__(self, position: int) -> Any: ...
    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return type(self)(list(self)[position])
        return self._at(position)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self: L, modules: Iterable[Module]) -> L:
        return self.extend(modules)

    def append(self: L, module: Module) -> L:
        """Add a module at the end; returns the list.

        >>> weft.nn.ModuleList().append(weft.nn.ReLU())
        ModuleList(
          (0): ReLU()
        )
        """
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Add a module before a position, as `list.insert` does.

        >>> layers = weft.nn.ModuleList([weft.nn.ReLU()])
        >>> layers.insert(0, weft.nn.Tanh())
        >>> layers[0]
        Tanh()
        """
        self._put(index, module)

    def extend(self: L, modules: Iterable[Module]) -> L:
        """Add modules at the end; returns the list.

        Raises:
            TypeError: `modules` cannot be iterated over.

        >>> len(weft.nn.ModuleList().extend([weft.nn.ReLU(), weft.nn.Tanh()]))
        2
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Print modules that look alike once, with their range."""
        runs: list[list[Any]] = []  # [first, last, text]
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return self._get_name() + "()"
        lines = [
            (f"({a}): " if a == b else f"({a}-{b}): {b - a + 1} x ") + indent(text)
            for a, b, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules, in the order of insertion.

    Args:
        modules: a mapping, or pairs of a name and a module.

    >>> import weft
    >>> acts = weft.nn.ModuleDict({"relu": weft.nn.ReLU(), "tanh": weft.nn.Tanh()})
    >>> acts["relu"](weft.tensor([-1.0, 1.0])).tolist()
    [0.0, 1.0]
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        changes(self)
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules.

        >>> layers = weft.nn.ModuleDict({"act": weft.nn.ReLU()})
        >>> layers.clear()
        >>> len(layers)
        0
        """
        changes(self)
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return a module.

        >>> weft.nn.ModuleDict({"act": weft.nn.ReLU()}).pop("act")
        ReLU()
        """
        changes(self)
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names, in order.

        >>> list(weft.nn.ModuleDict({"act": weft.nn.ReLU()}).keys())
        ['act']
        """
        return self._modules.keys()

    def items(self) -> Any:
        """Names and modules, in order.

        >>> list(weft.nn.ModuleDict({"act": weft.nn.ReLU()}).items())
        [('act', ReLU())]
        """
        return self._modules.items()

    def values(self) -> Any:
        """The modules, in order.

        >>> list(weft.nn.ModuleDict({"act": weft.nn.ReLU()}).values())
        [ReLU()]
        """
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add the modules of a mapping or of pairs, replacing those of the same name.

        Raises:
            TypeError: `modules` is neither.
            ValueError: an element is not a pair.

        >>> layers = weft.nn.ModuleDict()
        >>> layers.update({"act": weft.nn.ReLU()})
        >>> layers["act"]
        ReLU()
        """
        for key, module in pairs("ModuleDict", "ModuleDict", modules):
            self[key] = module


def pairs(who: str, method_of: str, given: Any) -> list[tuple[Any, Any]]:
    """Return the pairs that a dictionary's `update` was given, checked."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{method_of}.update should be called with an iterable of key/value pairs, but got "
            + type(given).__name__
        )
    if isinstance(given, Mapping | ModuleDict) or hasattr(given, "items"):
        return list(given.items())
    checked = []
    for i, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{who} update sequence element #{i} should be Iterable; is {type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{who} update sequence element #{i} has length {len(pair)}; 2 is required"
            )
        checked.append(pair)
    return checked
