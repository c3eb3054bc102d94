"""Weak references to tensors, and dictionaries by what a key is, not what it equals."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Self
from weakref import ref

from weft import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that is equal to another of the same object, and hashes by identity.

    >>> t = weft.ones(1)
    >>> weft.utils.weak.WeakIdRef(t)() is t
    True
    """

    __slots__ = ("_id",)

    _id: int

    def __new__(cls, key: Any, callback: Callable[[Any], Any] | None = None) -> Self:
        made = super().__new__(cls, key, callback)
        made._id = id(key)
        return made

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, weakref.ref) else None
        return self is other if mine is None or theirs is None else mine is theirs


WeakRef = WeakIdRef


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary that holds its keys weakly and finds them by identity.

    >>> known = WeakIdKeyDictionary()
    >>> x = weft.ones(2)
    >>> known[x] = "seen"
    >>> x in known, x.clone() in known, len(known)
    (True, False, 1)
    >>> del x
    >>> len(known)
    0
    """

    def __init__(self, dict: Any = None, ref_type: type[Any] = WeakIdRef) -> None:
        self.data: dict_[Any, Any] = {}
        self.ref_type = ref_type
        if dict is not None:
            self.update(dict)

    def _ref(self, key: Any) -> Any:
        held = weakref.ref(self)

        def forget(reference: Any) -> None:
            mine = held()
            if mine is not None:
                mine.data.pop(reference, None)

        return self.ref_type(key, forget)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self._ref(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what no weak reference can be made of
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(r() is not None for r in list(self.data))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self) -> WeakIdKeyDictionary:
        """Another dictionary with the same entries."""
        made = type(self)(ref_type=self.ref_type)
        made.update(self)
        return made

    __copy__ = copy

    def keyrefs(self) -> list[Any]:
        """The weak references to the keys."""
        return list(self.data)


dict_ = dict
WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor.

    A tensor of any shape.

    >>> x = weft.ones(2)
    >>> held = TensorWeakRef(x)
    >>> held() is x
    True
    """

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(
                f"[TensorWeakRef] expected a tensor, got {type(tensor).__name__} (expected "
                "torch.Tensor)"
            )
        self.ref = ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()
