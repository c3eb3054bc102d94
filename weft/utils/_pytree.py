"""Structures of dicts, lists and tuples as flat lists of their leaves, and back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]


class TreeSpec:
    """The shape of a structure: what makes its container from `children`' values, or a leaf."""

    __slots__ = ("children", "keys", "type")

    def __init__(self, type: Any, keys: Any, children: list[TreeSpec]) -> None:
        self.type = type  # None: a leaf
        self.keys = keys
        self.children = children

    @property
    def num_leaves(self) -> int:
        """How many leaves a structure of this shape has."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and (self.type, self.keys) == (other.type, other.keys)
            and self.children == other.children
        )

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.keys}, {self.children})"


def _parts(tree: Any) -> tuple[Any, Any, list[Any]]:
    """A container's type, what else makes it, and its values; (None, None, []) for a leaf."""
    kind = type(tree)
    if kind in (dict, OrderedDict):
        return kind, list(tree), list(tree.values())
    if kind is defaultdict:
        return kind, (tree.default_factory, list(tree)), list(tree.values())
    named = isinstance(tree, tuple) and (hasattr(tree, "_fields") or hasattr(tree, "n_fields"))
    if kind in (list, tuple) or named:  # n_fields: what `x.max(0)` returns
        return kind, None, list(tree)
    return None, None, []


def _build(spec: TreeSpec, values: list[Any]) -> Any:
    if spec.type is defaultdict:
        return defaultdict(spec.keys[0], zip(spec.keys[1], values, strict=True))
    if spec.keys is not None:
        return spec.type(zip(spec.keys, values, strict=True))
    return spec.type(*values) if hasattr(spec.type, "_fields") else spec.type(values)


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves of a structure, and its shape.

    >>> tree_flatten({"a": 1, "b": (2, [3])})[0]
    [1, 2, 3]
    """
    kind, keys, values = _parts(tree)
    if kind is None:
        return [tree], TreeSpec(None, None, [])
    leaves: list[Any] = []
    children = []
    for value in values:
        below, spec = tree_flatten(value)
        leaves += below
        children.append(spec)
    return leaves, TreeSpec(kind, keys, children)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of a structure."""
    return tree_flatten(tree)[0]


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The structure of that shape with these leaves. ValueError for another number of them."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"[tree_unflatten] expected {treespec.num_leaves} leaves, got {len(leaves)}"
        )
    rest = iter(leaves)

    def build(spec: TreeSpec) -> Any:
        if spec.type is None:
            return next(rest)
        return _build(spec, [build(child) for child in spec.children])

    return build(treespec)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """The structure with `func` of each leaf; of those in the same places of `rests` too.

    >>> tree_map(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    leaves, spec = tree_flatten(tree)
    columns = [leaves, *(tree_leaves(rest) for rest in rests)]
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)
