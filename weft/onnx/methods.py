"""Attributes, items, methods and builtins of the values of a program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import weft
from weft.closing.known import OF_TENSORS
from weft.onnx.builder import Builder
from weft.onnx.errors import NeedsKnown, NotOnnx
from weft.onnx.graph import Model, Value
from weft.onnx.memory import Aliases
from weft.onnx.program import Instr
from weft.onnx.values import (
    Callee,
    Examples,
    Grown,
    Held,
    Instance,
    Repeated,
    Seq,
    bare,
    example,
    holds,
    readable,
)


class Methods:
    """The part of `Walk` that knows what values have."""

    model: Model
    frames: list[Any]
    writing: Callable[[Any], None]
    aliases: Aliases
    number: Callable[[Value, Examples], Held]
    binary: Callable[..., Any]
    call_op: Callable[..., Any]
    expect_calm: Callable[..., None]
    calmly: Callable[[], AbstractContextManager[None]]
    write: Callable[[Held, Held], Held]
    truth: Callable[[Any], Any]
    verb_compare: Callable[..., Any]
    is_int: Callable[[Any], bool]
    either: Callable[[Any, Any], Any]

    @property
    def g(self) -> Builder:
        """The builder of the graph that is written now."""
        raise NotImplementedError

    # ---- lengths and items

    def size(self, x: Held, dim: int) -> Any:
        """One size: known, or a number of the graph."""
        rank = x.value.rank
        if not -rank <= dim < rank:
            raise IndexError(f"dimension {dim} of a tensor with {rank}")
        made = self.g.size(x.value, dim)
        if isinstance(made, int):
            return made
        return self.number(made, (x.examples[0].shape[dim], x.examples[1].shape[dim]))

    def length(self, v: Any) -> Any:
        """len(v)."""
        readable(v)
        if isinstance(v, Held):
            return self.size(v, 0)
        if isinstance(v, Seq):
            return v.length
        if isinstance(v, Repeated):
            return v.count
        if isinstance(v, Grown):
            return self.size(v.rows, 0)
        if isinstance(v, (list, tuple)) and any(isinstance(i, Grown) for i in v):
            total: Any = 0
            for i in v:
                total = self.binary(
                    "add", operator.add, total, self.length(i) if isinstance(i, Grown) else 1
                )
            return total
        return len(v.fields) if isinstance(v, Instance) else len(v)

    def sequence(self, v: Any) -> Any:
        """What a loop goes through: a list, a range, or a `Seq`."""
        readable(v)
        if isinstance(v, (Seq, range)):
            return v
        if isinstance(v, Held):
            n = self.size(v, 0)
            if isinstance(n, int):
                return [self.call_op("select", [v, 0, k], {}) for k in range(n)]
            return Seq(n, lambda k: self.row(v, k), (v,))
        if isinstance(v, Repeated):
            return Seq(v.count, lambda k: v.item, (v,))
        if isinstance(v, (list, tuple)) and any(isinstance(i, Grown) for i in v):
            rows = self.rows(v)
            n = self.size(rows, 0)
            return Seq(n, lambda k: self.row(rows, k), (rows,))
        if isinstance(v, Instance):
            return list(v.fields.values())
        return list(v)

    def row(self, v: Held, k: Any) -> Any:
        """The row of a turn, which is there."""
        with self.calmly():
            return self.call_op("select", [v, 0, k], {})

    def items(self, v: Any) -> Any:
        """All items of what has as many as is known."""
        found = self.sequence(v)
        if isinstance(found, Seq):
            raise NeedsKnown("how many values there are")
        return found

    def item_of_range(self, r: range, k: Any) -> Any:
        """range[k] of a number of the graph."""
        scaled = k if r.step == 1 else self.binary("mul", operator.mul, k, r.step)
        return scaled if r.start == 0 else self.binary("add", operator.add, scaled, r.start)

    def rows(self, v: Sequence[Any]) -> Held:
        """A list that a loop made longer, as one tensor."""
        parts = [
            i.rows if isinstance(i, Grown) else self.call_op("unsqueeze", [i, 0], {}) for i in v
        ]
        out: Held = parts[0] if len(parts) == 1 else self.call_op("cat", [parts, 0], {})
        return out

    def verb_item(self, i: Instr, holder: Any, key: Any) -> Any:
        """holder[key]."""
        if isinstance(holder, Held):
            self.expect_calm(operator.getitem, [holder, key], {})
            with self.calmly():
                return self.indexed(holder, key)
        if isinstance(holder, Instance):
            return list(holder.fields.values())[key]
        if isinstance(holder, (list, tuple)) and any(isinstance(v, Grown) for v in holder):
            return self.item_of_rows(holder, key)
        if isinstance(holder, Repeated):
            return holder.item
        if isinstance(key, Held):
            raise NeedsKnown("which item of a list", "stack them, and index that: stack(items)[k]")
        return holder[key]

    def item_of_rows(self, holder: Sequence[Any], key: Any) -> Any:
        """An item of a list that a loop made longer."""
        if (
            isinstance(key, int)
            and 0 <= key < len(holder)
            and not any(isinstance(v, Grown) for v in holder[: key + 1])
        ):
            return holder[key]
        rows = self.rows(holder)
        if isinstance(key, slice) and isinstance(key.step, int) and key.step < 0:
            if key != slice(None, None, -1):
                raise NotOnnx(
                    "a part from the end on of a list that a loop made longer",
                    "take [::-1] of it, and a part of that",
                )
            return [Grown(self.call_op("flip", [rows, [0]], {}))]
        return (
            [Grown(self.indexed(rows, key))]
            if isinstance(key, slice)
            else self.call_op("select", [rows, 0, key], {})
        )

    def indexed(self, x: Held, key: Any) -> Held:
        """x[key], step by step: whole dimensions, then tensors."""
        keys = list(key) if isinstance(key, (tuple, list)) and not _all_ints(key) else [key]
        if isinstance(key, list) and _all_ints(key):
            keys = [self.constant_tensor(key)]
        takes = sum(self.dims_of(k) for k in keys if k is not None and k is not ...)
        if ... not in [k if not isinstance(k, Held) else 0 for k in keys]:
            keys.append(...)
        at = next(n for n, k in enumerate(keys) if k is ...)
        keys[at : at + 1] = [slice(None)] * (x.value.rank - takes)
        tensors: list[Any] = []
        for k in keys:
            dim = len(tensors)
            if k is None:
                x = self.call_op("unsqueeze", [x, dim], {})
                tensors.append(None)
            elif isinstance(k, bool):
                raise NotOnnx("an index that is a bool")
            elif isinstance(k, int) or isinstance(k, Held) and k.is_number:
                x = self.call_op("select", [x, dim, k], {})
            elif isinstance(k, slice):
                if (k.start, k.stop, k.step) != (None, None, None):
                    x = self.sliced(x, dim, k)
                tensors.append(None)
            else:
                tensors += self.columns(k if isinstance(k, Held) else self.constant_tensor(k))
        if not any(t is not None for t in tensors):
            return x
        while tensors and tensors[-1] is None:
            tensors.pop()
        out: Held = self.call_op("ops.index", [x, tensors], {})
        return out

    def columns(self, index: Held) -> list[Held]:
        """An index by dimension: those of a mask are the places of its true elements."""
        if index.value.dtype != weft.bool:
            return [index]
        if not index.value.rank:
            raise NotOnnx("an index that is a bool")
        places = self.call_op("nonzero", [index], {})
        return [self.call_op("select", [places, 1, d], {}) for d in range(index.value.rank)]

    def dims_of(self, key: Any) -> int:
        """How many dimensions an index takes."""
        return (
            key.value.rank
            if isinstance(key, Held) and key.value.dtype == weft.bool and not key.is_number
            else 1
        )

    def constant_tensor(self, data: Any) -> Held:
        """Numbers of the program as a tensor."""
        if holds(data):
            parts = [v if isinstance(v, Held) else v for v in data]
            made = self.g.ints([bare(p) for p in parts])
            examples = tuple(weft.tensor([example(p, k) for p in parts]) for k in range(2))
            return Held(made, (examples[0], examples[1]))
        tensor = weft.tensor(data)
        return Held(self.g.literal(tensor), (tensor, tensor))

    def sliced(self, x: Held, dim: int, k: slice) -> Held:
        """A part of a dimension."""
        step = 1 if k.step is None else k.step
        if isinstance(step, Held):
            raise NeedsKnown("the step of a slice")
        out: Held = self.call_op("ops.slice", [x, dim, k.start, k.stop, step], {})
        return out

    def verb_set_item(self, i: Instr, holder: Any, key: Any, v: Any) -> None:
        """holder[key] = v."""
        if not isinstance(holder, Held):
            if isinstance(key, Held):
                raise NeedsKnown("which item of a list is written")
            self.writing(holder)
            holder[key] = v
            return
        self.expect_calm(_set_part, [holder, key, v], {})
        with self.calmly():
            self.write(holder, self.with_part(holder, key, v))

    def with_part(self, x: Held, key: Any, v: Any) -> Held:
        """`x` with other elements at x[key]: the places of these, among all that are counted
        through."""
        if isinstance(key, Held) and key.value.dtype == weft.bool and not key.is_number:
            if not isinstance(v, Held) or v.value.rank == 0:
                value = v if isinstance(v, Held) else self.filled(x, v)
                mask = key
                while mask.value.rank < x.value.rank:
                    mask = self.call_op("unsqueeze", [mask, mask.value.rank], {})
                return self.call_op("where", [mask, value, x], {})
            if key.value.rank == x.value.rank:
                return self.call_op("masked_scatter", [x, key, v], {})
        places = self.indexed(self.numbered(x), key)
        values = v if isinstance(v, Held) and not v.is_number else self.filled(x, v)
        values = self.call_op(
            "expand_as", [self.call_op("to", [values, x.value.dtype], {}), places], {}
        )
        return self.call_op("put", [x, places, values], {})

    def numbered(self, x: Held) -> Held:
        """The numbers of all elements, in a tensor of the sizes of `x`."""
        numbers = self.g.reshape(self.g.arange(self.g.numel(x.value)), self.g.size_list(x.value))
        first, second = (weft.arange(e.numel()).reshape(e.shape) for e in x.examples)
        second = first if x.examples[0] is x.examples[1] else second
        return Held(Value(self.model, numbers.name, numbers.dtype, x.value.sizes), (first, second))

    def joined_rows(self, name: str, args: list[Any], words: dict[str, Any]) -> Any:
        """stack or cat of a list that a loop made longer."""
        dim = args[1] if len(args) > 1 else words.get("dim", words.get("axis", 0))
        if name not in ("stack", "cat"):
            raise NotOnnx(f"{name} of a list that a loop made longer", "stack or cat")
        rows = self.rows(args[0])
        self.expect_calm(lambda t: getattr(weft, name)(list(t)), [rows], {})
        rank = rows.value.rank
        dim %= rank if name == "stack" else rank - 1
        order = [d for d in range(1, rank)]
        order.insert(dim, 0)
        moved = self.call_op("permute", [rows, order], {})
        return moved if name == "stack" else self.call_op("flatten", [moved, dim, dim + 1], {})

    def filled(self, x: Held, v: Any) -> Held:
        """A number as a tensor of the dtype of `x`."""
        made = self.g.scalar(bare(v), x.value.dtype)
        examples = tuple(weft.tensor(example(v, k), dtype=x.value.dtype) for k in range(2))
        return Held(
            Value(self.model, made.name, made.dtype, (), made.known), (examples[0], examples[1])
        )

    def verb_del_item(self, i: Instr, holder: Any, key: Any) -> None:
        """del holder[key]."""
        self.writing(holder)
        del holder[key]

    # ---- attributes

    def verb_attr(self, i: Instr, v: Any) -> Any:
        """v.name."""
        name = self.frames[-1].names[i.attr]
        if isinstance(v, Instance):
            return v.fields[name]
        if not isinstance(v, Held):
            if isinstance(v, Callee) and name == "__name__":
                return v.name
            return getattr(v, name)
        if name == "shape":
            return tuple(self.size(v, d) for d in range(v.value.rank))
        if name == "device":
            return "cpu"
        if name in ("T", "mT", "H", "mH"):
            rank = v.value.rank
            dims = (
                list(range(rank))[::-1]
                if name in ("T", "H")
                else [*range(rank - 2), rank - 1, rank - 2]
            )
            return self.call_op("permute", [v, dims], {})
        if name == "data":
            return v
        if name == "real" and not v.value.dtype.is_complex:
            return v
        if callable(getattr(weft.Tensor, name, None)):
            return Callee("method", (v, name))
        told, other = (getattr(e, name, v) for e in v.examples)
        if not isinstance(told, (weft.Tensor, Held)) and told == other:  # whatever the free sizes
            return told
        raise NotOnnx(f"the attribute {name!r} of a tensor")

    def verb_set_attr(self, i: Instr, holder: Any, v: Any) -> None:
        """holder.name = v."""
        name = self.frames[-1].names[i.attr]
        if isinstance(holder, Instance) and not holder.state:
            self.writing(holder)
            holder.fields[name] = v
            return
        raise NotOnnx(
            f"a write to the attribute {name!r}, which the next run would see",
            "a graph has no state: pass it in and return it",
        )

    # ---- methods

    def method(self, holder: Any, name: str, args: list[Any], words: dict[str, Any]) -> Any:
        """holder.name(*args)."""
        if isinstance(holder, Held):
            return self.tensor_method(holder, name, args, words)
        if isinstance(holder, Instance):
            return self.call_field(holder, name, args, words)
        if name in (
            "append",
            "extend",
            "pop",
            "insert",
            "remove",
            "clear",
            "reverse",
            "sort",
            "setdefault",
            "update",
        ):
            self.writing(holder)
        if isinstance(holder, str) and name == "format":
            return "?"
        if name in ("index", "count", "remove", "sort") and holds(list(holder)):
            raise NeedsKnown("an item of a list")
        return getattr(holder, name)(*args, **words)

    def call_field(
        self, holder: Instance, name: str, args: list[Any], words: dict[str, Any]
    ) -> Any:
        """A method of a record."""
        if name == "_replace":
            return Instance(holder.name, holder.fields | words)
        raise NotOnnx(f"the method {name!r} of {holder.name}")

    def tensor_method(self, x: Held, name: str, args: list[Any], words: dict[str, Any]) -> Any:
        """A method of a tensor."""
        if x.is_number:
            return self.number_method(x, name)
        if name == "size":
            sizes = tuple(self.size(x, d) for d in range(x.value.rank))
            dim = args[0] if args else words.get("dim")
            return sizes if dim is None else sizes[dim]
        if name in ("numel", "nelement"):
            made = self.g.numel(x.value)
            return (
                made
                if isinstance(made, int)
                else self.number(made, (x.examples[0].numel(), x.examples[1].numel()))
            )
        if name == "item":
            return self.item(x)
        if name == "tolist":
            return self.tolist(x)
        if name == "__len__":
            return self.size(x, 0)
        match OF_TENSORS.get(name):
            case "layout":
                return self.of_layout(x, name, args, words)
            case "same" | "self":
                return x
        return self.call_op(name, [x, *args], words)

    def of_layout(self, x: Held, name: str, args: list[Any], words: dict[str, Any]) -> Any:
        """What a method tells of dtype, sizes and strides, if all runs have the same."""
        laid = list(x.examples)
        if x.loose:  # two layouts of any tensor
            laid += [e.contiguous() for e in x.examples]
            laid += [weft.stack([e, e], -1).select(-1, 0) for e in x.examples]
        told = [getattr(e, name)(*args, **words) for e in laid]
        if any(one != told[0] for one in told):
            raise NeedsKnown(f"{name}() of a tensor")
        return told[0]

    def number_method(self, x: Held, name: str) -> Any:
        """A method of a number."""
        if name in ("item", "conjugate", "__index__"):
            return x
        raise NotOnnx(f"the method {name!r} of a number")

    def item(self, x: Held) -> Held:
        """x.item(): a number that only a run knows."""
        self.expect_calm(weft.Tensor.item, [x], {})
        kind = (
            bool
            if x.value.dtype == weft.bool
            else float
            if x.value.dtype.is_floating_point
            else int
        )
        first, second = (
            kind(e.reshape(-1)[0].item()) if e.numel() else kind(0) for e in x.examples
        )
        self.model.asked = True
        if kind is not bool and first == second and first >= 0:
            second = kind(self.model.apart(first))
        return self.number(self.g.reshape(x.value, []), (first, second))

    def tolist(self, x: Held) -> Any:
        """x.tolist(), of a tensor whose sizes are known."""
        if x.value.rank == 0:
            return self.item(x)
        n = self.size(x, 0)
        if not isinstance(n, int):
            raise NeedsKnown("how long a list is")
        return [self.tolist(self.call_op("select", [x, 0, k], {})) for k in range(n)]


def _all_ints(key: Any) -> bool:
    return isinstance(key, list) and all(
        isinstance(k, (int, bool)) or isinstance(k, Held) and k.is_number for k in key
    )


def _set_part(x: weft.Tensor, key: Any, v: Any) -> None:
    """x[key] = v of another tensor with its elements."""
    x = x.clone()
    x[key] = v
