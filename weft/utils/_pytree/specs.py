"""The shape of a structure without its leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from weft.utils._pytree.nodes import (
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    Context,
    _get_node_type,
)


class TreeSpec:
    """The shape of a structure: its container's type and context, and the shapes of its values.

    Attributes:
        num_nodes, num_leaves, num_children: how many there are.

    >>> from weft.utils import _pytree as pytree
    >>> spec = pytree.tree_structure([1, (2, 3)])
    >>> spec.num_leaves, spec.type
    (3, <class 'list'>)
    """

    __slots__ = ("_children", "context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Context, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self._children = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_nodes: int = sum((c.num_nodes for c in children_specs), 1)
        self.num_leaves: int = 1 if type is None else sum(c.num_leaves for c in children_specs)

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The shapes of the values."""
        return self._children

    def children(self) -> list[TreeSpec]:
        """The shapes of the values."""
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        """The shape of one value."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether it is the shape of a leaf."""
        return self.type is None

    def __hash__(self) -> int:
        context = self.context
        known = tuple(map(str, context)) if isinstance(context, list) else str(context)
        keys = frozenset(known) if self.type is dict else known
        return hash((self.type, keys, self.num_leaves, self.num_children))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type is other.type
            and self.context == other.context
            and self._children == other._children
        )

    def __repr__(self) -> str:
        return self._shown(0)

    def _shown(self, indent: int) -> str:
        if self.is_leaf():
            return "*"
        name = getattr(self.type, "__name__", str(self.type))
        space = " " * (indent + 2)
        inside = [c._shown(indent + 2) for c in self._children]
        parts = inside[:1] + [space + text for text in inside[1:]]
        return f"TreeSpec({name}, {self.context}, [{(',' + chr(10)).join(parts)}])"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The structure of this shape with these leaves. ValueError for another number of them."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.is_leaf():
            return next(leaves)
        values = [child._build(leaves) for child in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(values, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What lies in `tree` in the places of this shape's leaves.

        Raises: ValueError where `tree` is another container than the shape says.
        """
        found: list[Any] = []
        self._up_to(tree, found)
        return found

    def _up_to(self, tree: Any, found: list[Any]) -> None:
        if self.is_leaf():
            found.append(tree)
            return
        for child, value in zip(self._children, self._values(tree)):
            child._up_to(value, found)

    def _values(self, tree: Any) -> list[Any]:
        kind = _get_node_type(tree)
        alike = kind in STANDARD_DICT_TYPES and self.type in STANDARD_DICT_TYPES
        if kind is not self.type and not alike:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        values, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(values) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(values)}."
            )
        if alike:
            keys = self.context[1] if self.type is defaultdict else self.context
            lacking, other = set(keys) - set(tree), set(tree) - set(keys)
            if lacking or other:
                text = f"; missing key(s): {lacking}" if lacking else ""
                text += f"; extra key(s): {other}" if other else ""
                raise ValueError(f"Node keys mismatch{text}.")
            return [tree[key] for key in keys]
        if self.context != context:
            raise ValueError(
                f"Node context mismatch for node type {self.type!r}: {self.context!r} != "
                f"{context!r}."
            )
        found: list[Any] = values
        return found


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The shape of a leaf.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_structure(1) == pytree.LeafSpec()
    True
    """

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF = LeafSpec()


def treespec_leaf() -> LeafSpec:
    """The shape of a leaf."""
    return _LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The shape of a tuple of values of these shapes."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(
    mapping: dict[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The shape of a dict of values of these shapes."""
    specs = dict(mapping, **kwargs)
    return TreeSpec(dict, list(specs), list(specs.values()))
