"""`torch.ops`: operators by namespace, name and overload, each with its schema.

Note [Operators by name]
`weft.ops.my.scale` is an `OpOverloadPacket`, its `.default` an `OpOverload`: one object for each,
for as long as it is defined, so `func is weft.ops.aten.add.Tensor` may be asked. An overload binds
its arguments to the schema and hands them to `_run`. Operators that a program defines get theirs
from weft/_library/operators.py; those of `aten` are weft's own functions, found when they are first
named (weft/_library/aten.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from weft import _C, Tensor
from weft.base.device import device
from weft.base.schemas import Argument, FunctionSchema, Type
from weft.overrides import handle_torch_function, has_torch_function

__all__ = ["OpOverload", "OpOverloadPacket"]


def tensors_of(values: Any) -> list[Any]:
    """The tensors, and what answers in place of one, among arguments and in lists of them."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found.extend(v for v in value if isinstance(v, Tensor) or _C._overrides(v))
        elif isinstance(value, Tensor) or _C._overrides(value):
            found.append(value)
    return found


# ---- arguments by schema


class _Refused(Exception):
    """A value that is not of the type of its argument."""


_NUMBERS = (bool, int, float, complex)


def _scalar(value: Any, word: str, numbers: bool) -> Any:
    """A value as the schema's word has it; with `numbers`, those are tensors too."""
    if word == "Tensor":
        if isinstance(value, Tensor) or (numbers and isinstance(value, _NUMBERS)):
            return value
    elif word in ("int", "SymInt"):
        if isinstance(value, int):
            return int(value)
        if isinstance(value, Tensor) and value.numel() == 1 and not value.is_floating_point():
            return int(value.item())
    elif word == "float":
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex():
            return float(value.item())
    elif word in ("bool", "SymBool"):
        if isinstance(value, bool):
            return value
    elif word == "Scalar":
        if isinstance(value, _NUMBERS):
            return value
        if isinstance(value, Tensor) and value.dim() == 0:
            return value.item()
    elif word == "complex":
        if isinstance(value, _NUMBERS):
            return complex(value)
    elif word in ("str", "Dimname"):
        if isinstance(value, str):
            return value
    else:  # a dtype, a device, a layout, a generator: what is called says more of it
        return value
    raise _Refused


def _converted(value: Any, kind: Type, size: int | None, numbers: bool) -> Any:
    if kind.word == "Optional":
        assert kind.item is not None
        return None if value is None else _converted(value, kind.item, size, numbers)
    if kind.word != "List":
        return _scalar(value, kind.word, numbers)
    assert kind.item is not None
    if isinstance(value, (list, tuple)):
        return [_converted(v, kind.item, None, False) for v in value]
    if size is not None:
        return [_converted(value, kind.item, None, False)] * size
    raise _Refused


def _constant(a: Argument) -> Any:
    """The default of an argument: a dtype or a device where the schema has its name."""
    value = a.default_value
    if isinstance(value, str) and a.type.base() == "ScalarType":
        return getattr(_C, value)
    return device(value) if isinstance(value, str) and a.type.base() == "Device" else value


class Bound:
    """Arguments of one call, whole: those by position and those by keyword alone."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs

    def values(self) -> list[Any]:
        return [*self.args, *self.kwargs.values()]


def _check_count(schema: FunctionSchema, args: Any, kwargs: dict[str, Any]) -> None:
    name, positional = schema.name, [a for a in schema.arguments if not a.kwarg_only]
    if len(args) > len(positional):
        raise RuntimeError(
            f"[{name}] expected at most {len(positional)} arguments by position, got {len(args)} "
            f"({name}() takes {len(positional)} positional argument(s) but {len(args)} was/were "
            f"given. Declaration: {schema})"
        )
    known = {a.name for a in schema.arguments}
    for key in kwargs:
        if key not in known:
            raise RuntimeError(
                f"[{name}] expected arguments of its schema, got {key!r} (Unknown keyword argument "
                f"'{key}' for operator '{name}'. Schema: {schema})"
            )
    for a in positional[: len(args)]:
        if a.name in kwargs:
            raise RuntimeError(
                f"[{name}] expected {a.name} once, got it twice (Argument '{a.name}' specified "
                f"both as positional and keyword argument. Schema: {schema})"
            )


def _value(schema: FunctionSchema, a: Argument, position: int, value: Any) -> Any:
    try:
        return _converted(value, a.type, a.N, schema.name.startswith(("aten::", "weft::")))
    except _Refused:
        raise RuntimeError(
            f"[{schema.name}] expected {a.type} for {a.name}, got {type(value).__name__} "
            f"({schema.name}() Expected a value of type '{a.type}' for argument '{a.name}' but "
            f"instead found type '{type(value).__name__}'.\nPosition: {position}\n"
            f"Value: {value!r}\nDeclaration: {schema})"
        ) from None


def bind(schema: FunctionSchema, args: Any, kwargs: dict[str, Any]) -> Bound:
    """The arguments of a call with all defaults, converted to the schema's types.

    Raises:
        RuntimeError: one is missing, too many, unknown, or of another type.
    """
    _check_count(schema, args, kwargs)
    bound = Bound([], {})
    for position, a in enumerate(schema.arguments):
        if position < len(args):
            value = _value(schema, a, position, args[position])
        elif a.name in kwargs:
            value = _value(schema, a, position, kwargs[a.name])
        elif a.has_default:
            value = _constant(a)
        else:
            raise RuntimeError(
                f"[{schema.name}] expected a value for {a.name}, got none ({schema.name}() is "
                f"missing value for argument '{a.name}'. Declaration: {schema})"
            )
        if a.kwarg_only:
            bound.kwargs[a.name] = value
        else:
            bound.args.append(value)
    return bound


# ---- operators


class OpOverload:
    """One operator with one schema: `weft.ops.aten.add.Tensor`.

    Attributes:
        namespace: `"aten"`.
        overloadpacket: all overloads of its name.

    >>> op = weft.ops.aten.add.Tensor
    >>> op, str(op), op.name()
    (<OpOverload(op='aten.add', overload='Tensor')>, 'aten.add.Tensor', 'aten::add.Tensor')
    >>> op(weft.ones(2), 2)
    tensor([3., 3.])
    """

    def __init__(
        self, packet: OpOverloadPacket, schema: FunctionSchema, run: Callable[[Bound], Any]
    ) -> None:
        self._schema, self._run = schema, run
        self.overloadpacket = self._overloadpacket = packet
        self.namespace = self._namespace = packet._namespace
        self._opname = packet.__name__
        self._overloadname = schema.overload_name or "default"
        self.__name__ = self.__qualname__ = f"{self._opname}.{self._overloadname}"
        self.__module__ = packet.__module__
        self._name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self.op = self._op = self
        self.tags: list[Any] = []

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        relevant = tensors_of((*args, *kwargs.values()))
        if has_torch_function(relevant):
            return handle_torch_function(self, relevant, *args, **kwargs)
        return self._run(bind(self._schema, args, kwargs))

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        op = f"{self.namespace}.{self._opname}"
        return f"<OpOverload(op='{op}', overload='{self._overloadname}')>"

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return _found, (self.namespace, self._opname, self._overloadname)

    def name(self) -> str:
        """`"aten::add.Tensor"`; without a dot for the overload that has no name."""
        return self._name

    @property
    def is_view(self) -> bool:
        """Whether results are views of arguments."""
        infos = [a.alias_info for a in self._schema.arguments]
        return any(i is not None and not i.is_write for i in infos)


class OpOverloadPacket:
    """All overloads of one name; a call takes the first whose schema its arguments fit.

    >>> weft.ops.aten.add
    <OpOverloadPacket(op='aten.add')>
    >>> weft.ops.aten.add(weft.ones(2), weft.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, namespace: str, name: str) -> None:
        self._namespace, self.__name__ = namespace, name
        self.__module__ = f"torch._ops.{namespace}"
        self._qualified_op_name = f"{namespace}::{name}"
        self._overloads: dict[str, OpOverload] = {}
        self.op = self._op = self

    def add(self, schema: FunctionSchema, run: Callable[[Bound], Any]) -> OpOverload:
        """One more overload."""
        made = OpOverload(self, schema, run)
        self._overloads[made._overloadname] = made
        return made

    def overloads(self) -> list[str]:
        """The names of the overloads; that without one is "default"."""
        return [*self._overloads]

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __getattr__(self, name: str) -> OpOverload:
        known = self.__dict__.get("_overloads", {})
        if name in known:
            return known[name]  # type: ignore[no-any-return]
        if name.startswith("__") or "_namespace" not in self.__dict__:
            raise AttributeError(f"'OpOverloadPacket' object has no attribute '{name}'")
        op = f"{self._namespace}.{self.__name__}"
        raise AttributeError(
            f"The underlying op of '{op}' has no overload name '{name}'. "
            f"Hint: it has {', '.join(known)}"
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._overloads]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        relevant = tensors_of((*args, *kwargs.values()))
        if has_torch_function(relevant):
            return handle_torch_function(self, relevant, *args, **kwargs)
        failed = []
        for overload in self._overloads.values():
            try:
                bound = bind(overload._schema, args, kwargs)
            except RuntimeError as error:
                failed.append(error)
                continue
            return overload._run(bound)
        if len(failed) == 1:
            raise failed[0]
        listed = "\n".join(map(str, failed))
        raise RuntimeError(
            f"[{self._qualified_op_name}] expected arguments of one of its schemas, got others "
            f"(Overloaded torch operator invoked from Python failed to match any schema:\n{listed})"
        )

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> Any:
        return _found, (self._namespace, self.__name__, None)


def _found(namespace: str, name: str, overload: str | None) -> Any:
    """An operator by its names: what unpickling calls."""
    packet = getattr(namespace_of(namespace), name)
    return packet if overload is None else getattr(packet, overload)


class _OpNamespace(ModuleType):
    """The operators of one namespace, as attributes."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self._name = name
        self._dir: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._dir)

    def __getattr__(self, name: str) -> Any:
        if self._name == "aten" and not name.startswith("__"):
            from weft._library.aten import packet as found_packet

            packet = found_packet(name)
            if packet is not None:
                setattr(self, name, packet)
                self._dir.append(name)
                return packet
        said = f"'_OpNamespace' '{self._name}' object has no attribute '{name}'"
        if name.startswith("__"):
            raise AttributeError(said)
        raise AttributeError(f"{said}. Hint: {_hint(self, name)}")


def _hint(space: _OpNamespace, name: str) -> str:
    import difflib

    if space._name == "aten":
        from weft._library.aten import names

        known = names()
    else:
        known = space._dir
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    if not known:
        return "torch.library defines operators; those of libraries in C++ cannot be loaded"
    return f"it has {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}"


_SPACES: dict[str, _OpNamespace] = {}

#: The libraries that `load_library` has loaded: none can be.
loaded_libraries: set[str] = set()


def namespace_of(name: str) -> _OpNamespace:
    """`weft.ops.<name>`; one object for each name."""
    space = _SPACES.get(name)
    if space is None:
        space = _SPACES[name] = _OpNamespace(name)
    return space


def packet_of(namespace: str, name: str) -> OpOverloadPacket:
    """The packet of a name that a program defines, made if there is none."""
    space = namespace_of(namespace)
    found = vars(space).get(name)
    if not isinstance(found, OpOverloadPacket):
        found = OpOverloadPacket(namespace, name)
        setattr(space, name, found)
        space._dir.append(name)
    return found


def forget(namespace: str, name: str, overload: str) -> None:
    """Takes an overload, and the packet with its last one, out of `weft.ops`."""
    space = namespace_of(namespace)
    packet = vars(space).get(name)
    if isinstance(packet, OpOverloadPacket):
        packet._overloads.pop(overload, None)
        if not packet._overloads:
            delattr(space, name)
            space._dir.remove(name)


def load_library(path: str | os.PathLike[str]) -> None:
    """Refused: operators of a shared library are written against PyTorch's C++ interface.

    Raises:
        OSError: always, with PyTorch's sentence.
    """
    raise OSError(
        f"[load_library] expected operators in Python, got {os.fspath(path)!r} (Could not load "
        "this library). Hint: its code calls PyTorch's C++ interface; torch.library.custom_op "
        "makes operators of Python functions"
    )
