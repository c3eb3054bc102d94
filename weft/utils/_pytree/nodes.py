"""Which types are containers: how each is taken apart, built again and written as text."""

from __future__ import annotations

import importlib
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from weft._C import Size

Context: TypeAlias = Any
PyTree: TypeAlias = Any
DumpableContext: TypeAlias = Any
FlattenFn: TypeAlias = Callable[[Any], tuple[list[Any], Any]]
UnflattenFn: TypeAlias = Callable[[Iterable[Any], Any], Any]
ToDumpableContextFn: TypeAlias = Callable[[Any], Any]
FromDumpableContextFn: TypeAlias = Callable[[Any], Any]
FlattenWithKeysFn: TypeAlias = Callable[[Any], tuple[list[tuple[Any, Any]], Any]]
KeyPath: TypeAlias = tuple[Any, ...]
Predicate: TypeAlias = Callable[[Any], bool]


class _Key:
    """A frozen record: what `dataclasses` would make, which a tenth of weft's import went into."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


class SequenceKey(_Key):
    """A place in a sequence."""

    idx: int

    def __init__(self, idx: int) -> None:
        vars(self)["idx"] = idx

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What lies there."""
        return sequence[self.idx]


class MappingKey(_Key):
    """A key of a mapping."""

    key: Any

    def __init__(self, key: Any) -> None:
        vars(self)["key"] = key

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What lies there."""
        return mapping[self.key]


class GetAttrKey(_Key):
    """The name of an attribute."""

    name: str

    def __init__(self, name: str) -> None:
        vars(self)["name"] = name

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What lies there."""
        return getattr(obj, self.name)


KeyEntry = SequenceKey | MappingKey | GetAttrKey


def keystr(kp: KeyPath) -> str:
    """A path of keys as Python would write it.

    >>> from weft.utils import _pytree as pytree
    >>> path, leaf = pytree.tree_leaves_with_path({"a": [1, 2]})[1]
    >>> pytree.keystr(path)
    "['a'][1]"
    """
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What lies at a path of keys.

    >>> from weft.utils import _pytree as pytree
    >>> tree = {"a": [1, 2]}
    >>> path, leaf = pytree.tree_leaves_with_path(tree)[1]
    >>> pytree.key_get(tree, path)
    2
    """
    for key in kp:
        obj = key.get(obj)
    return obj


class NodeDef(NamedTuple):
    """How a type of container is taken apart and built again."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class _Written(NamedTuple):
    """How a type of container is written as text."""

    name: str | None
    to_dumpable: ToDumpableContextFn | None
    from_dumpable: FromDumpableContextFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
_WRITTEN: dict[Any, _Written] = {}
_lock = threading.RLock()


def register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Makes a type a container.

    Args:
        flatten_fn: gives the values of one and what else makes it (the context).
        unflatten_fn: builds one of values and context.
        serialized_type_name: what `treespec_dumps` calls it.
        to_dumpable_context, from_dumpable_context: the context as JSON, and back; both or none.
        flatten_with_keys_fn: as flatten_fn, with a key for each value.

    Raises: ValueError for a type that is a container already, or for one of the two.

    >>> from weft.utils import _pytree as pytree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> pytree.register_pytree_node(
    ...     Pair, lambda pair: ([pair.a, pair.b], None), lambda values, context: Pair(*values)
    ... )
    >>> pytree.tree_leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    with _lock:
        if cls in SUPPORTED_NODES:
            raise ValueError(f"{cls} is already registered as pytree node.")
        SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        _WRITTEN[cls] = _Written(serialized_type_name, to_dumpable_context, from_dumpable_context)


_private_register_pytree_node = register_pytree_node


def _register_pytree_node(
    cls: type[Any], flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, **options: Any
) -> None:
    """`register_pytree_node` under its old name."""
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls: type[Any]) -> None:
    with _lock:
        del SUPPORTED_NODES[cls], _WRITTEN[cls]


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Makes a dataclass a container of its fields, which its `__init__` takes by name.

    Args:
        field_names: of a class that is no dataclass.
        drop_field_names: fields that are left out; they need defaults.
    """
    if field_names is None:
        import dataclasses

        names = [f.name for f in dataclasses.fields(cls) if f.init]
        field_names = [n for n in names if n not in (drop_field_names or ())]
    fields = field_names

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        named = [(n, getattr(obj, n)) for n in fields if hasattr(obj, n)]
        kept = [(n, v) for n, v in named if v is not None]
        return [v for _, v in kept], [[n for n, _ in kept], [n for n, v in named if v is None]]

    def unflatten(values: Iterable[Any], context: Any) -> Any:
        names, empty = context
        return cls(**dict(zip(names, values, strict=True)), **dict.fromkeys(empty))

    def with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
        values, context = flatten(obj)
        return [(GetAttrKey(n), v) for n, v in zip(context[0], values)], context

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=with_keys,
    )  # fmt: skip


class _Constant(NamedTuple):
    value: Any


def register_constant(cls: type[Any]) -> None:
    """Makes a type a container of no leaves: its values are part of the shape."""
    if "__eq__" not in {n for k in cls.__mro__[:-1] for n in vars(k)}:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__`")
    if cls.__hash__ is None:
        raise TypeError("register_constant(cls) expects `cls` to have a `__hash__`")
    register_pytree_node(
        cls, lambda x: ([], _Constant(x)), lambda _, c: c.value,
        flatten_with_keys_fn=lambda x: ([], _Constant(x)),
    )  # fmt: skip
    CONSTANT_NODES.add(cls)


CONSTANT_NODES: set[type[Any]] = set()


def is_constant_class(cls: type[Any]) -> bool:
    """Whether `register_constant` made it one."""
    return cls in CONSTANT_NODES


def is_namedtuple(obj: object) -> bool:
    """Whether it is a namedtuple, or a class of them.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.is_namedtuple((1, 2))
    False
    """
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: object) -> bool:
    """Whether it is a namedtuple.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.is_namedtuple_instance((1, 2))
    False
    """
    return is_namedtuple_class(type(obj))


def is_namedtuple_class(cls: type) -> bool:
    """Whether it is a class of namedtuples.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.is_namedtuple_class(tuple)
    False
    """
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and type(fields) is tuple
        and all(isinstance(f, str) for f in fields)
    )


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq(obj: object) -> bool:
    """Whether it is what `x.max(0)` returns, or the class of it.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.is_structseq(weft.ones(2).max(0))
    True
    """
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj: object) -> bool:
    """Whether it is what `x.max(0)` returns.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.is_structseq_instance(weft.ones(2).max(0))
    True
    """
    return is_structseq_class(type(obj))


def is_structseq_class(cls: type) -> bool:
    """Whether it is a class as that of what `x.max(0)` returns.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.is_structseq_class(type(weft.ones(2).max(0)))
    True
    """
    counts = ("n_sequence_fields", "n_fields", "n_unnamed_fields")
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and all(isinstance(getattr(cls, n, None), int) for n in counts)
    )


def _get_node_type(tree: Any) -> Any:
    """The key of `SUPPORTED_NODES` for a value, if it is one."""
    kind = type(tree)
    if kind not in SUPPORTED_NODES:
        if is_namedtuple_class(kind):
            return namedtuple
        if is_structseq_class(kind):
            return tuple
    return kind


def _enumerated(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(k), v) for k, v in enumerate(values)]


def _list_flatten(d: list[Any]) -> tuple[list[Any], Context]:
    return d, None


def _list_flatten_with_keys(d: list[Any]) -> tuple[list[tuple[Any, Any]], Context]:
    return _enumerated(d), None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Context]:
    return list(d), None if type(d) is tuple else type(d)


def _tuple_flatten_with_keys(d: tuple[Any, ...]) -> tuple[list[tuple[Any, Any]], Context]:
    return _enumerated(d), _tuple_flatten(d)[1]


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple[Any, ...]:
    made: tuple[Any, ...] = (context or tuple)(values)
    return made


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Context]:
    return [(GetAttrKey(n), v) for n, v in zip(d._fields, d)], type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Context) -> Any:
    return context(*values)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d.keys())


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d.keys())


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _ordereddict_unflatten(values: Iterable[Any], context: Context) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values, strict=True))


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], Context]:
    values, keys = _dict_flatten(d)
    return values, [d.default_factory, keys]


def _defaultdict_flatten_with_keys(
    d: defaultdict[Any, Any],
) -> tuple[list[tuple[Any, Any]], Context]:
    return _dict_flatten_with_keys(d)[0], _defaultdict_flatten(d)[1]


def _defaultdict_unflatten(values: Iterable[Any], context: Context) -> defaultdict[Any, Any]:
    factory, keys = context
    return defaultdict(factory, _dict_unflatten(values, keys))


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Context]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: deque[Any]) -> tuple[list[tuple[Any, Any]], Context]:
    return _enumerated(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Context) -> deque[Any]:
    return deque(values, maxlen=context)


def _typename(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _named(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


for _kind, _apart, _built, _keys in (
    (tuple, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys),
    (list, _list_flatten, _list_unflatten, _list_flatten_with_keys),
    (dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    (OrderedDict, _dict_flatten, _ordereddict_unflatten, _dict_flatten_with_keys),
    (deque, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys),
):
    register_pytree_node(
        _kind,
        _apart,
        _built,
        serialized_type_name=_typename(_kind),
        flatten_with_keys_fn=_keys,
    )
register_pytree_node(
    namedtuple, _namedtuple_flatten, _namedtuple_unflatten,  # type: ignore[arg-type]
    serialized_type_name="collections.namedtuple", to_dumpable_context=_typename,
    from_dumpable_context=_named, flatten_with_keys_fn=_namedtuple_flatten_with_keys,
)  # fmt: skip
register_pytree_node(
    defaultdict, _defaultdict_flatten, _defaultdict_unflatten,
    serialized_type_name="collections.defaultdict",
    to_dumpable_context=lambda c: {"default_factory": c[0] and _typename(c[0]), "keys": c[1]},
    from_dumpable_context=lambda c: [
        c["default_factory"] and _named(c["default_factory"]), c["keys"]
    ],
    flatten_with_keys_fn=_defaultdict_flatten_with_keys,
)  # fmt: skip
register_pytree_node(
    Size, lambda d: (list(d), None), lambda v, _: Size(v),
    flatten_with_keys_fn=lambda d: (_enumerated(d), None),
)  # fmt: skip
BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})


def tree_is_leaf(tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a value is a leaf.

    >>> from weft.utils import _pytree as pytree
    >>> pytree.tree_is_leaf(1), pytree.tree_is_leaf([1])
    (True, False)
    """
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf
