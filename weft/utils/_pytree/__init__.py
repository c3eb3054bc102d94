"""Structures of containers as flat lists of their leaves, and back: PyTorch's `_pytree`.

What a container is says `SUPPORTED_NODES`: a type with a function that takes it apart and one that
builds it again; `register_pytree_node` adds to it. Every other value is a leaf.

>>> leaves, spec = tree_flatten({"a": 1, "b": (2, [3])})
>>> leaves
[1, 2, 3]
>>> tree_unflatten([10, 20, 30], spec)
{'a': 10, 'b': (20, [30])}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import UnionType
from typing import Any

from weft.utils._pytree.nodes import BUILTIN_TYPES as BUILTIN_TYPES
from weft.utils._pytree.nodes import CONSTANT_NODES as CONSTANT_NODES
from weft.utils._pytree.nodes import STANDARD_DICT_TYPES as STANDARD_DICT_TYPES
from weft.utils._pytree.nodes import SUPPORTED_NODES as SUPPORTED_NODES
from weft.utils._pytree.nodes import Context as Context
from weft.utils._pytree.nodes import DumpableContext as DumpableContext
from weft.utils._pytree.nodes import FlattenFn as FlattenFn
from weft.utils._pytree.nodes import FlattenFn as FlattenFunc
from weft.utils._pytree.nodes import FlattenWithKeysFn as FlattenWithKeysFn
from weft.utils._pytree.nodes import FromDumpableContextFn as FromDumpableContextFn
from weft.utils._pytree.nodes import GetAttrKey as GetAttrKey
from weft.utils._pytree.nodes import KeyEntry as KeyEntry
from weft.utils._pytree.nodes import KeyPath as KeyPath
from weft.utils._pytree.nodes import MappingKey as MappingKey
from weft.utils._pytree.nodes import NodeDef as NodeDef
from weft.utils._pytree.nodes import Predicate as Predicate
from weft.utils._pytree.nodes import PyTree as PyTree
from weft.utils._pytree.nodes import SequenceKey as SequenceKey
from weft.utils._pytree.nodes import ToDumpableContextFn as ToDumpableContextFn
from weft.utils._pytree.nodes import UnflattenFn as UnflattenFn
from weft.utils._pytree.nodes import _defaultdict_flatten as _defaultdict_flatten
from weft.utils._pytree.nodes import (
    _defaultdict_flatten_with_keys as _defaultdict_flatten_with_keys,
)
from weft.utils._pytree.nodes import _defaultdict_unflatten as _defaultdict_unflatten
from weft.utils._pytree.nodes import _deque_flatten as _deque_flatten
from weft.utils._pytree.nodes import _deque_flatten_with_keys as _deque_flatten_with_keys
from weft.utils._pytree.nodes import _deque_unflatten as _deque_unflatten
from weft.utils._pytree.nodes import _deregister_pytree_node as _deregister_pytree_node
from weft.utils._pytree.nodes import _dict_flatten as _dict_flatten
from weft.utils._pytree.nodes import _dict_flatten_with_keys as _dict_flatten_with_keys
from weft.utils._pytree.nodes import _dict_unflatten as _dict_unflatten
from weft.utils._pytree.nodes import _get_node_type as _get_node_type
from weft.utils._pytree.nodes import _is_leaf as _is_leaf
from weft.utils._pytree.nodes import _is_namedtuple_instance as _is_namedtuple_instance
from weft.utils._pytree.nodes import _list_flatten as _list_flatten
from weft.utils._pytree.nodes import _list_flatten_with_keys as _list_flatten_with_keys
from weft.utils._pytree.nodes import _list_unflatten as _list_unflatten
from weft.utils._pytree.nodes import _namedtuple_flatten as _namedtuple_flatten
from weft.utils._pytree.nodes import _namedtuple_flatten_with_keys as _namedtuple_flatten_with_keys
from weft.utils._pytree.nodes import _namedtuple_unflatten as _namedtuple_unflatten
from weft.utils._pytree.nodes import _ordereddict_unflatten as _ordereddict_unflatten
from weft.utils._pytree.nodes import _private_register_pytree_node as _private_register_pytree_node
from weft.utils._pytree.nodes import _register_pytree_node as _register_pytree_node
from weft.utils._pytree.nodes import _tuple_flatten as _tuple_flatten
from weft.utils._pytree.nodes import _tuple_flatten_with_keys as _tuple_flatten_with_keys
from weft.utils._pytree.nodes import _tuple_unflatten as _tuple_unflatten
from weft.utils._pytree.nodes import is_constant_class as is_constant_class
from weft.utils._pytree.nodes import is_namedtuple as is_namedtuple
from weft.utils._pytree.nodes import is_namedtuple_class as is_namedtuple_class
from weft.utils._pytree.nodes import is_namedtuple_instance as is_namedtuple_instance
from weft.utils._pytree.nodes import is_structseq as is_structseq
from weft.utils._pytree.nodes import is_structseq_class as is_structseq_class
from weft.utils._pytree.nodes import is_structseq_instance as is_structseq_instance
from weft.utils._pytree.nodes import key_get as key_get
from weft.utils._pytree.nodes import keystr as keystr
from weft.utils._pytree.nodes import register_constant as register_constant
from weft.utils._pytree.nodes import register_dataclass as register_dataclass
from weft.utils._pytree.nodes import register_pytree_node as register_pytree_node
from weft.utils._pytree.nodes import tree_is_leaf as tree_is_leaf
from weft.utils._pytree.specs import _LEAF as _LEAF
from weft.utils._pytree.specs import LeafSpec as LeafSpec
from weft.utils._pytree.specs import PyTreeSpec as PyTreeSpec
from weft.utils._pytree.specs import TreeSpec as TreeSpec
from weft.utils._pytree.specs import treespec_dict as treespec_dict
from weft.utils._pytree.specs import treespec_leaf as treespec_leaf
from weft.utils._pytree.specs import treespec_tuple as treespec_tuple
from weft.utils._pytree.text import (
    DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL as DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL,
)
from weft.utils._pytree.text import EnumEncoder as EnumEncoder
from weft.utils._pytree.text import treespec_dumps as treespec_dumps
from weft.utils._pytree.text import treespec_loads as treespec_loads
from weft.utils._pytree.text import treespec_pprint as treespec_pprint

__all__ = [
    "Context", "DumpableContext", "FlattenFn", "FromDumpableContextFn", "LeafSpec", "PyTree",
    "PyTreeSpec", "ToDumpableContextFn", "TreeSpec", "UnflattenFn", "is_namedtuple",
    "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class",
    "is_structseq_instance", "key_get", "keystr", "register_pytree_node", "tree_all",
    "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path",
    "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_",
    "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
    "treespec_dumps", "treespec_loads", "treespec_pprint",
]  # fmt: skip

Types = type[Any] | tuple[type[Any], ...] | UnionType


def tree_flatten(tree: Any, is_leaf: Predicate | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a structure, and its shape.

    >>> tree_flatten({"a": 1, "b": (2, [3])})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []

    def visit(node: Any) -> TreeSpec:
        kind = _get_node_type(node)
        if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(node)):
            leaves.append(node)
            return _LEAF
        values, context = SUPPORTED_NODES[kind].flatten_fn(node)
        return TreeSpec(kind, context, [visit(value) for value in values])

    spec = visit(tree)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The structure of that shape with these leaves. ValueError for another number of them.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_unflatten([3, 4], pytree.tree_structure({"a": 1, "b": 2}))
    {'a': 3, 'b': 4}
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: Predicate | None = None) -> Iterator[Any]:
    """The leaves of a structure, one after the other.

    >>> from weft.utils import _pytree as pytree
    >>> list(pytree.tree_iter({"a": [1, 2], "b": 3}))
    [1, 2, 3]
    """
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(tree)):
        yield tree
        return
    for value in SUPPORTED_NODES[kind].flatten_fn(tree)[0]:
        yield from tree_iter(value, is_leaf)


def tree_leaves(tree: Any, is_leaf: Predicate | None = None) -> list[Any]:
    """The leaves of a structure.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_leaves({"a": [1, 2], "b": 3})
    [1, 2, 3]
    """
    return list(tree_iter(tree, is_leaf))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of the arguments."""
    return [leaf for arg in (*args, *kwargs.values()) for leaf in tree_iter(arg)]


def tree_structure(tree: Any, is_leaf: Predicate | None = None) -> TreeSpec:
    """The shape of a structure.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_structure([1, 2]) == pytree.tree_structure(["a", "b"])
    True
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate | None = None
) -> Any:
    """The structure with `func` of each leaf; of those in the same places of `rests` too.

    >>> tree_map(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten([func(*row) for row in zip(*columns)])


def tree_map_(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate | None = None
) -> Any:
    """Calls `func` for each leaf, and returns the structure itself.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_map_(lambda t: t.add_(1), [weft.zeros(1)])
    [tensor([1.])]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    for row in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests)):
        func(*row)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Any]:
    """Decorates a function so that it leaves what is not of the types, or fails the test, alone."""
    given = type_or_types_or_pred
    if isinstance(given, (type, tuple, UnionType)):

        def test(x: Any) -> bool:
            return isinstance(x, given)
    elif callable(given):
        test = given
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: func(x) if test(x) else x

    return decorate


def tree_map_only(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Predicate | None = None,
) -> Any:
    """`tree_map` of the leaves of some types, or that pass a test; the others stay.

    >>> tree_map_only(int, lambda k: k + 1, [1, 2.0])
    [2, 2.0]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Predicate | None = None,
) -> Any:
    """`tree_map_` of the leaves of some types, or that pass a test.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_map_only_(weft.Tensor, lambda t: t.add_(1), [weft.zeros(1), "a"])
    [tensor([1.]), 'a']
    """
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether all leaves pass.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_all(lambda x: x > 1, [2, (1, 3)])
    False
    """
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a leaf passes.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_any(lambda x: x > 2, [2, (1, 3)])
    True
    """
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Types, /, pred: Predicate, tree: Any, is_leaf: Predicate | None = None
) -> bool:
    """Whether all leaves of some types pass.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_all_only(int, lambda x: x > 1, [2, (3, "a")])
    True
    """
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Types, /, pred: Predicate, tree: Any, is_leaf: Predicate | None = None
) -> bool:
    """Whether a leaf of some types passes.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_any_only(int, lambda x: x > 3, [2, (3, "a")])
    False
    """
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: Predicate | None = None
) -> list[Any] | None:
    """The leaves of `tree`, each as often as the shape has leaves below it; None if none fits."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _get_node_type(tree) is not treespec.type:
        return None
    values, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(values) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for value, child in zip(values, treespec._children):
        below = _broadcast_to_and_flatten(value, child, is_leaf)
        if below is None:
            return None
        found += below
    return found


# ---- with the places of leaves


def tree_leaves_with_path(tree: Any, is_leaf: Predicate | None = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a structure, each with the keys that lead to it.

    Raises: ValueError for a container that was registered without keys.

    >>> from weft.utils import _pytree as pytree
    >>> [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return list(_places((), tree, is_leaf))


def _places(path: KeyPath, tree: Any, is_leaf: Predicate | None) -> Iterator[tuple[KeyPath, Any]]:
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(tree)):
        yield path, tree
        return
    with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if with_keys is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, value in with_keys(tree)[0]:
        yield from _places((*path, key), value, is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: Predicate | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """`tree_leaves_with_path`, and the structure's shape.

    >>> from weft.utils import _pytree as pytree
    >>> leaves, spec = pytree.tree_flatten_with_path({"a": [1, 2]})
    >>> leaves[0]
    ((MappingKey(key='a'), SequenceKey(idx=0)), 1)
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate | None = None
) -> Any:
    """`tree_map`, whose function takes the keys that lead to a leaf first.

    >>> tree_map_with_path(lambda path, x: keystr(path), {"a": [1]})
    {'a': ["['a'][0]"]}
    """
    places, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*place, *row) for place, *row in zip(places, *columns)])
