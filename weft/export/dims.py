"""Which sizes of a program's inputs are free: `Dim`, and what `dynamic_shapes` says with it.

Note [Sizes of inputs]
A file keeps, for each tensor among the arguments, how to come to it, its dtype and an entry for
each dimension: a number, for a size that is fixed; None, for one that is free; [name, least, most],
for one that is the same wherever the name stands; or [name, least, most, factor, offset] for
`factor * name + offset`, with the bounds of the name. An int that is free is an entry of its own,
as one dimension is. Beside these, it keeps of each value among the arguments, by the same way to
it, what it is: a container with the number of its items, a plain value itself, else its class.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from weft import Tensor
from weft.base.subclasses import expect_dense

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "ValueRanges", "dims"]


class _Free:
    """A size that is left free without a name; called, one with bounds."""

    def __init__(self, name: str, least: int | None = None, most: int | None = None) -> None:
        self.name, self.min, self.max = name, least, most

    def __call__(self, min: int | None = None, max: int | None = None) -> _Free:
        return _Free(self.name, min, max)

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


class Dim:
    """A size that callers choose, the same wherever it stands.

    Sums and products with numbers are sizes that follow from it: `2 * Dim("n") + 1`.

    Args:
        name: an identifier.
        min, max: the least and the largest size that is taken; None: no bound.

    Attributes:
        AUTO, DYNAMIC: a size that is free; called with `min` and `max`, one with bounds.
        STATIC: a size that stays what it is in the example.

    >>> import weft
    >>> weft.export.Dim("batch", max=64)
    Dim('batch', min=0, max=64)
    >>> 2 * weft.export.Dim("batch")
    2*batch
    """

    AUTO, DYNAMIC, STATIC = _Free("AUTO"), _Free("DYNAMIC"), _Free("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"[Dim] expected an identifier as name, got {name!r}")
        self.__name__, self.min, self.max = name, 0 if min is None else min, max
        if self.max is not None and self.max < self.min:
            raise ValueError(f"[Dim] expected max of at least min, got {self.min} and {self.max}")

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"

    def __mul__(self, factor: int) -> _Derived:
        return _Derived(self, 1, 0) * factor

    def __add__(self, number: int) -> _Derived:
        return _Derived(self, 1, 0) + number

    def __sub__(self, number: int) -> _Derived:
        return _Derived(self, 1, 0) + -number

    __rmul__, __radd__ = __mul__, __add__


class _Derived:
    """`factor * root + offset`."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        self.root, self.factor, self.offset = root, factor, offset
        self.__name__ = repr(self)

    def __mul__(self, factor: int) -> _Derived:
        if type(factor) is not int or factor < 1:
            raise NotImplementedError(
                f"[Dim] expected a factor that is an int of at least 1, got {factor!r}"
            )
        return _Derived(self.root, self.factor * factor, self.offset * factor)

    def __add__(self, number: int) -> _Derived:
        if type(number) is not int:
            raise NotImplementedError(f"[Dim] expected an int to add, got {number!r}")
        return _Derived(self.root, self.factor, self.offset + number)

    def __sub__(self, number: int) -> _Derived:
        return self + -number

    __rmul__, __radd__ = __mul__, __add__

    def __repr__(self) -> str:
        product = f"{self.factor}*" * (self.factor > 1) + self.root.__name__
        return product + (f" {'+-'[self.offset < 0]} {abs(self.offset)}" if self.offset else "")


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A `Dim` for each name, with the same bounds.

    >>> import weft
    >>> weft.export.dims("rows", "columns")
    (Dim('rows', min=0, max=None), Dim('columns', min=0, max=None))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class ValueRanges(NamedTuple):
    """Bounds of a size that is free, both included."""

    lower: int
    upper: float


# ---- collections of what is free


class ShapesCollection:
    """Sizes that are free by the tensor they belong to, for arguments that are nested deep.

    >>> import weft
    >>> x = weft.ones(2, 3)
    >>> shapes = weft.export.ShapesCollection()
    >>> shapes[x] = (weft.export.Dim.DYNAMIC, weft.export.Dim.STATIC)
    >>> class Doubles(weft.nn.Module):
    ...     def forward(self, pair):
    ...         return pair["x"] * 2
    >>> program = weft.export.export(Doubles(), ({"x": x},), dynamic_shapes=shapes)
    >>> program.module()({"x": weft.ones(5, 3)}).shape
    torch.Size([5, 3])
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Tensor, Any]] = {}

    def __setitem__(self, tensor: Tensor, shape: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"[ShapesCollection] expected a Tensor, got {type(tensor).__name__}")
        self._kept[id(tensor)] = tensor, shape

    def __getitem__(self, tensor: Tensor) -> Any:
        if id(tensor) not in self._kept:
            self._kept[id(tensor)] = tensor, {}
        return self._kept[id(tensor)][1]

    def __len__(self) -> int:
        return len(self._kept)

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: Any = None) -> dict[str, Any]:
        """The same as `export` takes it: by the names of the arguments."""

        def of(value: Any) -> Any:
            if isinstance(value, Tensor):
                return self._kept.get(id(value), (value, None))[1]
            return _mapped(value, of)

        return {name: of(value) for name, value, _ in arguments(m, args, kwargs or {})}


class AdditionalInputs:
    """More examples, from which follows which sizes are free: those in which they differ.

    >>> import weft
    >>> more = weft.export.AdditionalInputs()
    >>> more.add((weft.ones(5, 3),))
    >>> program = weft.export.export(weft.nn.Linear(3, 2), (weft.ones(2, 3),), dynamic_shapes=more)
    >>> program.module()(weft.ones(7, 3)).shape
    torch.Size([7, 2])
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> None:
        """Adds an example."""
        if not isinstance(args, tuple):
            raise TypeError(f"[AdditionalInputs] expected a tuple, got {type(args).__name__}")
        self._examples.append((args, dict(kwargs or {})))

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: Any = None) -> dict[str, Any]:
        """The same as `export` takes it: by the names of the arguments."""

        def of(value: Any, *others: Any) -> Any:
            if isinstance(value, Tensor):
                sizes = [tuple(o.shape) for o in (value, *others)]
                if len({len(s) for s in sizes}) > 1:
                    raise ValueError(
                        f"[AdditionalInputs] expected {value.dim()} dimensions in all examples, "
                        f"got {sizes}"
                    )
                return tuple(Dim.DYNAMIC if len(set(s)) > 1 else None for s in zip(*sizes))
            return _mapped(value, of, *others)

        found = [arguments(m, args, kwargs or {})]
        found += [arguments(m, *example) for example in self._examples]
        return {rows[0][0]: of(*[value for _, value, _ in rows]) for rows in zip(*found)}


def _mapped(value: Any, of: Any, *others: Any) -> Any:
    """What a function gives of the items of a container; None for other values."""
    if isinstance(value, (tuple, list)):
        return [of(*items) for items in zip(value, *others)]
    if isinstance(value, Mapping):
        return {key: of(value[key], *[o[key] for o in others]) for key in value}
    return None


# ---- arguments and their sizes


def arguments(
    m: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[tuple[str, Any, str | list[str]]]:
    """The arguments of `m.forward` by name: what each is, and how to come to it; of what `*args`
    takes, to each item."""
    count, out = 0, list[tuple[str, Any, str | list[str]]]()
    for name, param in inspect.signature(m.forward).parameters.items():
        if param.kind is param.VAR_POSITIONAL:
            rest = args[count:]
            out.append((name, rest, [f"args[{count + k}]" for k in range(len(rest))]))
            count = len(args)
        elif param.kind is param.VAR_KEYWORD:
            known = {n for n, _, _ in out}
            out += [(n, v, f"kwargs[{n!r}]") for n, v in kwargs.items() if n not in known]
        elif count < len(args) and param.kind is not param.KEYWORD_ONLY:
            out.append((name, args[count], f"args[{count}]"))
            count += 1
        elif name in kwargs:
            out.append((name, kwargs[name], f"kwargs[{name!r}]"))
    return out


def sizes_of(m: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic: Any) -> list[Any]:
    """dtype, sizes and which of them are free, of each tensor among the arguments (Note [Sizes of
    inputs])."""
    if isinstance(dynamic, (ShapesCollection, AdditionalInputs)):
        dynamic = dynamic.dynamic_shapes(m, args, kwargs)
    given = arguments(m, args, kwargs)
    names = [name for name, _, _ in given]
    if isinstance(dynamic, Mapping):
        if {*dynamic} != {*names}:
            raise RuntimeError(
                "[export] expected dynamic_shapes for each argument, got others. When "
                "`dynamic_shapes` is specified as a dict, its top-level keys must be the arg names "
                f"{names} of `inputs`, but here they are {[*dynamic]}. Hint: None where no size is "
                "free"
            )
        told = [dynamic[name] for name in names]
    else:
        told = [None] * len(given) if dynamic is None else [*dynamic]
        if len(told) != len(given):
            raise RuntimeError(
                "[export] expected dynamic_shapes for each argument, got others. Detected mismatch "
                f"between the structure of `inputs` and `dynamic_shapes`: `inputs` has {len(given)}"
                f" elements, but `dynamic_shapes` has {len(told)} elements. Hint: None where no "
                "size is free"
            )
    out: list[Any] = []
    for (_, value, paths), spec in zip(given, told):
        if isinstance(paths, str):
            _note(value, spec, paths, out)
            continue
        _expect_like(value, spec, "*args", (tuple, list))
        for k, path in enumerate(paths):
            _note(value[k], _within(spec, k), path, out)
    return out


def _within(spec: Any, step: Any) -> Any:
    """What `dynamic_shapes` says of an item."""
    if isinstance(spec, Mapping):
        return spec.get(step)
    if isinstance(spec, (tuple, list)) and isinstance(step, int):
        return spec[step] if step < len(spec) else None
    return None


def _expect_like(value: Any, spec: Any, path: str, kinds: tuple[type, ...]) -> None:
    if spec is not None and not isinstance(spec, kinds):
        words = " or a ".join(k.__name__.lower() for k in kinds)
        raise RuntimeError(
            f"[export] expected dynamic_shapes of {path}, a {type(value).__name__}, as a {words}, "
            f"got {spec!r}: Detected mismatch between the structure of `inputs` and "
            f"`dynamic_shapes`: `inputs` has a {type(value)} there, but `dynamic_shapes` a "
            f"{type(spec)}"
        )


def _note(value: Any, spec: Any, path: str, out: list[Any]) -> None:
    """Adds the tensors in an argument, and ints that are free."""
    if isinstance(value, Tensor):
        told: list[Any] = list(value.shape)
        _expect_like(value, spec, path, (Mapping, tuple, list))
        entries = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        for d, free in entries:
            if not -value.dim() <= d < value.dim():
                raise ValueError(
                    f"[export] expected dimensions of {path} below {value.dim()} in "
                    f"dynamic_shapes, got {d}"
                )
            told[d] = _entry(free, value.shape[d], path)
        out.append([path, str(value.dtype), told])
    elif isinstance(value, Mapping):
        _expect_like(value, spec, path, (Mapping,))
        for key, item in value.items():
            _note(item, _within(spec, key), f"{path}[{key!r}]", out)
    elif isinstance(value, (tuple, list)):
        _expect_like(value, spec, path, (tuple, list))
        for k, item in enumerate(value):
            _note(item, _within(spec, k), f"{path}[{k}]", out)
    elif type(value) is int and isinstance(spec, (_Free, Dim, _Derived)):
        if isinstance(entry := _entry(spec, value, path), int):
            return
        out.append([path, "int", [entry]])


def _entry(free: Any, size: int, path: str) -> Any:
    """One dimension (Note [Sizes of inputs])."""
    if free is None or isinstance(free, _Free) and free.name == "STATIC":
        return size
    if type(free) is int:
        if free != size:
            raise ValueError(f"[export] expected a size of {free} at {path}, got {size}")
        return size
    if isinstance(free, _Free):
        if free.min is None and free.max is None:
            return None
        made: list[Any] = ["", free.min or 0, free.max]
    elif isinstance(free, Dim):
        made = [free.__name__, free.min, free.max]
    elif isinstance(free, _Derived):
        root = free.root
        made = [root.__name__, root.min, root.max, free.factor, free.offset]
    else:
        raise TypeError(f"[export] expected a Dim in dynamic_shapes at {path}, got {free!r}")
    if (root_size := _root(made, size)) is None or not _is_within(made, root_size):
        raise ValueError(f"[export] expected a size in {free} at {path}, got {size}")
    return made


def _root(entry: list[Any], size: int) -> int | None:
    """The size that a name has where an entry has this one; None: there is none."""
    factor, offset = entry[3:] or (1, 0)
    root, rest = divmod(size - offset, factor)
    return None if rest else int(root)


def _is_within(entry: list[Any], root: int) -> bool:
    return bool(root >= entry[1] and (entry[2] is None or root <= entry[2]))


def ranges_of(sizes: list[Any]) -> dict[str, ValueRanges]:
    """The bounds of each name."""
    entries = [e for _, _, told in sizes for e in told if isinstance(e, list) and e[0]]
    return {e[0]: ValueRanges(e[1], float("inf") if e[2] is None else e[2]) for e in entries}


def nodes(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Nested arguments, containers and what is in them, with how to come to them."""
    yield path, value
    if isinstance(value, (tuple, list)):
        for k, item in enumerate(value):
            yield from nodes(item, f"{path}[{k}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from nodes(item, f"{path}[{key!r}]")


def inputs_of(args: tuple[Any, ...], kwargs: Mapping[str, Any], sizes: list[Any]) -> dict[str, Any]:
    """What each value among the arguments is (Note [Sizes of inputs])."""
    given = {path: _told(v) for path, v in (*nodes(args, "args"), *nodes(kwargs, "kwargs"))}
    return given | {path: [dtype, None] for path, dtype, _ in sizes if dtype == "int"}


_PLAIN = (bool, int, float, str, type(None))


def _told(value: Any) -> list[Any]:
    """What kind of value it is, and which: of a container how many items, of plain ones itself."""
    for kind, name in ((tuple, "tuple"), (list, "list"), (Mapping, "dict")):
        if isinstance(value, kind):
            return [name, len(value)]
    if isinstance(value, Tensor):
        return ["Tensor", None]
    if isinstance(value, _PLAIN):
        return ["plain", value]
    return [type(value).__name__, repr(value) if isinstance(value, complex) else None]


def _check_structure(inputs: dict[str, Any], given: dict[str, Any]) -> None:
    """Raises unless containers are as the export's, with as many items under the same names."""
    containers = ("tuple", "list", "dict")
    for path, (kind, count) in inputs.items():
        found = _told(given[path]) if path in given else ["nothing", None]
        if kind in containers or found[0] in (*containers, "nothing"):
            if found == [kind, count]:
                continue
            wanted, got = (
                f"a {k} of {n} items" if k in containers else k for k, n in ((kind, count), found)
            )
            raise ValueError(
                "Trying to flatten user inputs with exported input tree spec: expected "
                f"{wanted} at {path}, but actually got {got}. Hint: pass arguments as the example "
                "has them, by place or by name"
            )


def check(
    sizes: list[Any], inputs: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raises unless arguments are as the export's, but for the sizes that are free."""
    given = dict([*nodes(args, "args"), *nodes(kwargs, "kwargs")])
    _check_structure(inputs, given)
    for path, (kind, value) in inputs.items():
        if (found := _told(given[path])) != [kind, value] and kind not in ("int", "Tensor"):
            wanted = kind if value is None and kind != "plain" else repr(value)
            raise AssertionError(f"Guard failed: {path} == {wanted}, got {given[path]!r}")
    known: dict[str, tuple[str, int]] = {}
    for path, dtype, wanted in sizes:
        found = given[path]
        if isinstance(found, Tensor):
            expect_dense(found, "export", path)
        if dtype == "int":
            if type(found) is not int:
                got = type(found).__name__
                raise AssertionError(f"Guard failed: expected an int at {path}, got {got}")
            _check_size(found, wanted[0], path, known)
            continue
        if not isinstance(found, Tensor):
            raise AssertionError(
                f"Guard failed: expected a Tensor at {path}, got {type(found).__name__}"
            )
        if str(found.dtype) != dtype or found.dim() != len(wanted):
            got = f"{found.dim()} dimensions of {found.dtype}"
            what = f"expected {path} of {len(wanted)} dimensions of {dtype}, got {got}"
            raise AssertionError(f"Guard failed: {what}")
        for d, (size, free) in enumerate(zip(found.shape, wanted)):
            _check_size(size, free, f"{path}.size()[{d}]", known)


def _check_size(size: int, free: Any, place: str, known: dict[str, tuple[str, int]]) -> None:
    """One size; `known` has where each name stood first, and its size."""
    if isinstance(free, int) and size != free:
        raise AssertionError(f"Guard failed: {place} == {free}, got {size}")
    if not isinstance(free, list):
        return
    name, least, most, *derived = free
    if (root := _root(free, size)) is None:
        factor, offset = derived
        raise AssertionError(f"Guard failed: {place} == {factor}*{name} + {offset}, got {size}")
    if not _is_within(free, root):
        shown = name if derived else place
        raise AssertionError(f"Guard failed: {least} <= {shown} <= {most}, got {root}")
    if not name:
        return
    before = known.setdefault(name, (place, root))
    if before[1] != root:
        raise AssertionError(
            f"Guard failed: expected {name} = {before[1]} of {before[0]} in {place}, got {size}"
        )
