"""Modules that hold parameters and other values: in a list, in a dictionary."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from operator import index, itemgetter
from typing import Any

from weft import Tensor
from weft.nn.containers import pairs
from weft.nn.module import Module
from weft.nn.parameter import Parameter


def _as_parameter(value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _describe(name: str, value: Any, kind: str) -> str:
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({name}): {what} containing: [{kind} of size {'x'.join(map(str, value.shape))}]"


class ParameterList(Module):
    """A list whose tensors become parameters; other values are kept as they are.

    Args:
        values: what to start with.

    >>> import weft
    >>> weights = weft.nn.ParameterList(weft.zeros(2, 2) for _ in range(3))
    >>> len(weights), weights[-1].requires_grad
    (3, True)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name(self, position: Any) -> str:
        i = index(position)
        if not -self._size <= i < self._size:
            raise IndexError(f"index {i} is out of range")
        return str(i % self._size)

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return type(self)([self[i] for i in range(*position.indices(self._size))])
        return getattr(self, self._name(position))

    def __setitem__(self, position: int, value: Any) -> None:
        setattr(self, self._name(position), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end; returns the list."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end; returns the list.

        Raises:
            TypeError: `values` is a tensor, or cannot be iterated over.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                + type(values).__name__
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            _describe(str(i), value, getattr(value, "dtype", "")) for i, value in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary whose tensors become parameters; other values are kept as they are.

    Args:
        parameters: a mapping, or pairs of a name and a value.

    >>> import weft
    >>> p = weft.nn.ParameterDict({"left": weft.zeros(2), "right": weft.ones(2)})
    >>> [name for name, _ in p.named_parameters()]
    ['left', 'right']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _expect_string(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _expect_string(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        merged = ParameterDict(other)
        merged.update(self)
        return merged

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """Return a new dictionary of the same values."""
        return ParameterDict(self.items())

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return a value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair."""
        key, _ = self._keys.popitem()
        value = self[key]
        delattr(self, key)
        return key, value

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, which is `default` from now on if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new dictionary with these keys and one value."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        return self._keys.keys()

    def items(self) -> list[tuple[str, Any]]:
        return [(key, self[key]) for key in self._keys]

    def values(self) -> list[Any]:
        return [self[key] for key in self._keys]

    def update(self, parameters: Any) -> None:
        """Add the values of a mapping or of pairs, replacing those of the same name.

        A plain dictionary is sorted by its keys first, an ordered one and pairs are not.

        Raises:
            TypeError: `parameters` is neither.
            ValueError: an element is not a pair.
        """
        given = pairs("ParameterDict", "ParametersDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            # PyTorch's order, which is also the order of parameters in an optimizer's state.
            given.sort(key=itemgetter(0))
        for key, value in given:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(
            _describe(key, value, value.type() if isinstance(value, Tensor) else "")
            for key, value in self.items()
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


def _expect_string(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(
            "Index given to ParameterDict cannot be used as a key as it is not a string "
            f"(type is '{type(key).__name__}')."
        )
    return key
