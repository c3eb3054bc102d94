"""Shapes as text and back."""

from __future__ import annotations

import enum
import json
from typing import Any

from weft.utils._pytree.nodes import _WRITTEN, _named, _typename
from weft.utils._pytree.specs import _LEAF, TreeSpec

DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1


class EnumEncoder(json.JSONEncoder):
    """JSON with members of enumerations."""

    def default(self, obj: object) -> Any:
        """A member as its class and value."""
        if isinstance(obj, enum.Enum):
            return {"__enum__": True, "fqn": _typename(type(obj)), "name": obj.name}
        return super().default(obj)


def _member(obj: dict[str, Any]) -> Any:
    return _named(obj["fqn"])[obj["name"]] if "__enum__" in obj else obj


def _dumped(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    written = _WRITTEN.get(spec.type)
    if written is None or written.name is None:
        raise NotImplementedError(
            f"Serializing {spec.type} in pytree is not supported yet. Hint: register it with a "
            "serialized_type_name"
        )
    if written.to_dumpable is not None:
        context = written.to_dumpable(spec.context)
        context = context if isinstance(context, str) else json.dumps(context, cls=EnumEncoder)
    else:
        try:
            context = json.dumps(spec.context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register "
                "a custom serializer using _register_pytree_node."
            ) from error
    children = [_dumped(child) for child in spec._children]
    return {"type": written.name, "context": context, "children_spec": children}


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A shape as text, for `treespec_loads`.

    Raises: TypeError for what is no shape or for a context that JSON cannot say; ValueError for
        another protocol than 1; NotImplementedError for a type without a name.

    >>> from weft.utils import _pytree as pytree
    >>> spec = pytree.tree_structure([1, 2])
    >>> pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    True
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps expected TreeSpec, got {type(treespec)}.")
    number = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    if number != 1:
        raise ValueError(f"Unknown protocol {number}. Available protocols: [1]")
    return json.dumps((number, _dumped(treespec)), cls=EnumEncoder)


def _loaded(data: dict[str, Any]) -> TreeSpec:
    if data["type"] is None:
        return _LEAF
    kinds = [kind for kind, written in _WRITTEN.items() if written.name == data["type"]]
    if not kinds:
        raise NotImplementedError(f"Deserializing {data['type']} in pytree is not registered.")
    written = _WRITTEN[kinds[0]]
    text = data["context"]
    if written.from_dumpable is None:
        context = json.loads(text, object_hook=_member)
    else:
        try:
            context = json.loads(text, object_hook=_member)
        except json.JSONDecodeError:
            context = text
        context = written.from_dumpable(context)
    return TreeSpec(kinds[0], context, [_loaded(child) for child in data["children_spec"]])


def treespec_loads(serialized: str) -> TreeSpec:
    """The shape that `treespec_dumps` wrote.

    >>> from weft.utils import _pytree as pytree
    >>> spec = pytree.tree_structure((1, [2]))
    >>> pytree.treespec_loads(pytree.treespec_dumps(spec)).num_leaves
    2
    """
    number, data = json.loads(serialized)
    if number != 1:
        raise ValueError(f"Unknown protocol {number}. Available protocols: [1]")
    return _loaded(data)


class _Star:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The shape as the structure itself, with stars for leaves.

    >>> from weft.utils import _pytree as pytree
    >>> print(pytree.treespec_pprint(pytree.tree_structure({"a": [1, 2]})))
    {'a': [*, *]}
    """
    return repr(treespec.unflatten([_Star() for _ in range(treespec.num_leaves)]))
