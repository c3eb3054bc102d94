"""Builtins of Python's, of the values of a program."""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import weft
from weft.onnx.errors import NeedsKnown, NotOnnx
from weft.onnx.graph import Value
from weft.onnx.methods import Methods
from weft.onnx.program import Instr
from weft.onnx.values import (
    Callee,
    Grown,
    Held,
    Instance,
    Repeated,
    Seq,
    bare,
    dtype_of,
    example,
    expect_one_dtype,
    holds,
)

_DTYPES = {bool: weft.bool, int: weft.int64, float: weft.float64}
_MATH = frozenset({"sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil"})


class Builtins(Methods):
    """The part of `Walk` that knows builtins."""

    def builtin(self, name: str, args: list[Any], words: dict[str, Any]) -> Any:
        """A builtin of Python's, or a type."""
        own = getattr(self, f"builtin_{name}", None)
        if own is not None:
            return own(*args, **words)
        if name.startswith("math."):
            return self.math(name[5:], args)
        if holds(args) or holds(list(words.values())):
            raise NotOnnx(f"{name}() of what only a run knows")
        found = getattr(builtins, name, None)
        if found is None:
            raise NotOnnx(f"a call of {name}")
        return found(*args, **words)

    def math(self, name: str, args: list[Any]) -> Any:
        """A function of the module math."""
        if not holds(args):
            return getattr(math, name)(*args)
        if name == "prod":
            out: Any = 1
            for item in self.items(args[0]):
                out = self.binary("mul", operator.mul, out, item)
            return out
        if name not in _MATH or len(args) != 1:
            raise NotOnnx(f"math.{name} of a number of the run")
        x = args[0]
        self.expect_calm(getattr(math, name), [x], {})
        wide = self.g.cast(x.value, weft.float64)
        made = self.g.op(name.capitalize(), wide)
        return self.number(
            made, (getattr(math, name)(x.examples[0]), getattr(math, name)(x.examples[1]))
        )

    def builtin_iter(self, v: Any) -> Any:
        """iter, of what is gone through in a loop."""
        return v

    def builtin_next(self, *args: Any) -> Any:
        """next."""
        raise NotOnnx("next()", "go through the values in a loop")

    def builtin_len(self, v: Any) -> Any:
        """len."""
        return self.length(v)

    def builtin_range(self, *args: Any) -> Any:
        """range, also of numbers of the run."""
        if not holds(list(args)):
            return range(*args)
        start, stop, step = (
            (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
        )
        if isinstance(step, Held):
            raise NeedsKnown("the step of a range")
        span = (
            stop
            if isinstance(start, int) and start == 0
            else self.binary("sub", operator.sub, stop, start)
        )
        if step != 1:
            more = self.binary("add", operator.add, span, step - (1 if step > 0 else -1))
            span = self.binary("floor_divide", operator.floordiv, more, step)

        def item(k: Any) -> Any:
            scaled = k if step == 1 else self.binary("mul", operator.mul, k, step)
            return (
                scaled
                if isinstance(start, int) and start == 0
                else self.binary("add", operator.add, scaled, start)
            )

        return Seq(self.builtin_max(span, 0), item)

    def builtin_enumerate(self, v: Any, start: int = 0) -> Any:
        """enumerate."""
        s = self.sequence(v)
        if isinstance(s, Seq):
            return Seq(
                s.length,
                lambda k: (self.binary("add", operator.add, k, start) if start else k, s.item(k)),
                s.given,
            )
        return list(enumerate(s, start))

    def builtin_zip(self, *args: Any, strict: bool = False) -> Any:
        """zip."""
        parts = [self.sequence(v) for v in args]
        if not any(isinstance(p, Seq) for p in parts):
            return list(zip(*parts, strict=strict))
        if strict:
            raise NotOnnx("zip(strict=True) of as many values as a run has")
        if not all(isinstance(p, Seq) for p in parts):
            raise NeedsKnown("how many values there are")
        shortest = parts[0].length
        for p in parts[1:]:
            shortest = self.builtin_min(shortest, p.length)
        return Seq(shortest, lambda k: tuple(p.item(k) for p in parts), tuple(parts))

    def builtin_reversed(self, v: Any) -> Any:
        """reversed."""
        s = self.sequence(v)
        if not isinstance(s, Seq):
            return list(reversed(s))
        last = self.binary("sub", operator.sub, s.length, 1)
        return Seq(s.length, lambda k: s.item(self.binary("sub", operator.sub, last, k)), s.given)

    def builtin_int(self, v: Any = 0, *rest: Any) -> Any:
        """int."""
        if not isinstance(v, Held):
            return int(v, *rest)
        v = v if v.is_number else self.item(v)
        self.expect_calm(int, [v], {})
        return self.number(
            self.g.cast(v.value, weft.int64), (int(v.examples[0]), int(v.examples[1]))
        )

    builtin_index = builtin_int

    def builtin_float(self, v: Any = 0.0) -> Any:
        """float."""
        if not isinstance(v, Held):
            return float(v)
        v = v if v.is_number else self.item(v)
        return self.number(
            self.g.cast(v.value, weft.float64), (float(v.examples[0]), float(v.examples[1]))
        )

    def builtin_bool(self, v: Any = False) -> Any:
        """bool."""
        return self.truth(v)

    def builtin_abs(self, v: Any) -> Any:
        """abs."""
        if not isinstance(v, Held):
            return abs(v)
        if not v.is_number:
            return self.call_op("abs", [v], {})
        return self.number(self.g.op("Abs", v.value), (abs(v.examples[0]), abs(v.examples[1])))

    def _chosen(self, op: str, known: Callable[..., Any], args: Sequence[Any],
                words: Mapping[str, Any]) -> Any:  # fmt: skip
        """max and min: of several as large the first, of a NaN what comparisons make of it."""
        values = self.items(args[0]) if len(args) == 1 else list(args)
        if words.keys() - {"default"}:
            raise NotOnnx(f"{known.__name__} with key=")
        if not holds(values):
            return known(values, **words)
        tensors = [v for v in values if isinstance(v, Held) and not v.is_number]
        if tensors and _are_alike(tensors, values):
            return self._chosen_tensor(op, values)
        values = [self.item(v) if any(v is t for t in tensors) else v for v in values]
        types = [dtype_of(example(v, 0)) for v in values]
        into = functools.reduce(weft.promote_types, types)
        made, *rest = (self.g.scalar(bare(v), into) for v in values)
        wide = weft.promote_types(into, weft.int64)
        for v in rest:
            left, right = (self.g.cast(one, wide) for one in (v, made))
            over = left > right if op == ">" else left < right
            made = self.g.op("Where", over, v, made)
        # whichever of them the examples choose; of both kinds, an example of each
        kinds = [kind for kind in (bool, int, float) if _DTYPES[kind] in types]
        picked = [kinds[-k](known(example(values, k))) for k in (0, 1)]
        return self.number(made, (picked[0], picked[1]))

    def _chosen_tensor(self, op: str, values: Sequence[Any]) -> Any:
        best = values[0]
        for v in values[1:]:
            over = self.verb_compare(Instr("compare", op=op), v, best)
            if isinstance(over, Held):
                best = self.call_op("where", [over, v, best], {})
            elif over:
                best = v
        for v in values:
            self.aliases.add(best, v)
        return best

    def builtin_divmod(self, a: Any, b: Any) -> Any:
        """divmod."""
        floor = self.binary("floor_divide", operator.floordiv, a, b)
        return floor, self.binary("remainder", operator.mod, a, b)

    def builtin_max(self, *args: Any, **words: Any) -> Any:
        """max."""
        return self._chosen(">", max, args, words)

    def builtin_min(self, *args: Any, **words: Any) -> Any:
        """min."""
        return self._chosen("<", min, args, words)

    def builtin_sum(self, v: Any, start: Any = 0) -> Any:
        """sum."""
        if isinstance(v, (list, tuple)) and any(isinstance(i, Grown) for i in v):
            rows = self.call_op("sum", [self.rows(v), 0], {})
            return (
                rows
                if isinstance(start, int) and start == 0
                else self.binary("add", operator.add, start, rows)
            )
        for item in self.items(v):
            start = self.binary("add", operator.add, start, item)
        return start

    def builtin_all(self, v: Any) -> Any:
        """all."""
        out = self.builtin_any([self._not(self.truth(i)) for i in self.items(v)])
        return self._not(out)

    def builtin_any(self, v: Any) -> Any:
        """any."""
        out: Any = False
        for i in self.items(v):
            out = self.either(out, self.truth(i))
        return out

    def _not(self, v: Any) -> Any:
        if not isinstance(v, Held):
            return not v
        return self.number(self.g.op("Not", v.value), (not v.examples[0], not v.examples[1]))

    def builtin_list(self, v: Any = ()) -> Any:
        """list."""
        if (
            isinstance(v, Repeated)
            or isinstance(v, (list, tuple))
            and any(isinstance(i, Grown) for i in v)
        ):
            return v if isinstance(v, Repeated) else list(v)
        return list(self.items(v))

    def builtin_tuple(self, v: Any = ()) -> Any:
        """tuple."""
        return tuple(self.items(v))

    def builtin_dict(self, v: Any = (), **words: Any) -> Any:
        """dict."""
        return dict(v, **words)

    def builtin_isinstance(self, v: Any, kinds: Any) -> Any:
        """isinstance."""
        every = kinds if isinstance(kinds, tuple) else (kinds,)
        return any(_is_a(v, k) for k in every)

    def builtin_type(self, v: Any) -> Any:
        """type."""
        return Callee("type", _type_name(v))

    def builtin_hasattr(self, v: Any, name: str) -> Any:
        """hasattr."""
        if isinstance(v, Instance):
            return name in v.fields
        return hasattr(v.examples[0] if isinstance(v, Held) else v, name)

    def builtin_print(self, *args: Any, **words: Any) -> None:
        """print: a graph prints nothing."""

    def builtin_warn(self, *args: Any, **words: Any) -> None:
        """warn: a graph warns of nothing."""

    def builtin_repr(self, v: Any) -> str:
        """repr, of a message."""
        return "?" if holds(v) else repr(v)

    def builtin_str(self, v: Any = "") -> str:
        """str, of a message."""
        return "?" if holds(v) else str(v)

    def builtin_is_grad_enabled(self) -> bool:
        """A graph has no gradients."""
        return False

    def builtin_get_default_dtype(self) -> Any:
        """A graph has the dtypes that it is written with."""
        return weft.get_default_dtype()

    def builtin_is_autocast_cpu_enabled(self) -> bool:
        """A graph computes in the dtypes that it is written with."""
        return False

    def builtin_is_tensor(self, v: Any) -> bool:
        """weft.is_tensor."""
        return isinstance(v, Held) and not v.is_number

    def builtin_tensor(self, data: Any, dtype: Any = None, requires_grad: bool = False) -> Held:
        """weft.tensor."""
        if not holds(data):
            tensor = weft.tensor(data, dtype=dtype)
            return Held(self.g.literal(tensor), (tensor, tensor))
        if isinstance(data, Held):
            examples = tuple(
                weft.tensor(e, dtype=dtype) if data.is_number else e for e in data.examples
            )
            expect_one_dtype(examples[0].dtype, examples[1].dtype)
            made = self.g.cast(data.value, examples[0].dtype)
            value = Value(self.model, made.name, made.dtype, data.value.sizes)
            return Held(value, (examples[0], examples[1]))
        parts = [self.builtin_tensor(v) for v in self.items(data)]
        out = self.call_op("stack", [parts], {})
        return self.call_op("to", [out, dtype], {}) if dtype is not None else out

    def builtin_promote_types(self, a: Any, b: Any) -> Any:
        """weft.promote_types."""
        return weft.promote_types(a, b)

    def builtin_round(self, v: Any, digits: Any = None) -> Any:
        """round."""
        if not isinstance(v, Held) and not isinstance(digits, Held):
            return round(v, digits)
        if isinstance(v, Held) and not v.is_number:
            words = {} if digits is None else {"decimals": digits}
            return self.call_op("round", [v], words)
        if isinstance(digits, Held):
            raise NeedsKnown("round() to digits", "round to digits that are known")
        if self.is_int(v):
            return self._round_int(v, digits or 0)
        if digits is not None:
            raise NotOnnx(
                f"round(a, {digits}) of a float of the run, which Python rounds as it is written "
                "in decimals",
                f"round(a * 10**{digits}) / 10**{digits}, or weft.round(t, decimals={digits}) of "
                "a tensor",
            )
        self.expect_calm(round, [v], {})
        made = self.g.op("Round", self.g.cast(v.value, weft.float64))
        return self.number(
            self.g.cast(made, weft.int64), (round(v.examples[0]), round(v.examples[1]))
        )

    def _round_int(self, v: Any, digits: int) -> Any:
        """round of an int: to tens and the like, of two as near the even one."""
        v = self.binary("add", operator.add, v, 0)  # a bool becomes an int
        if digits >= 0:
            return v
        ten = 10**-digits
        count = self.binary("floor_divide", operator.floordiv, v, ten)
        rest = self.binary("remainder", operator.mod, v, ten)
        odd = self.binary("remainder", operator.mod, count, 2)
        # up where rest > ten / 2, or it is that and count is odd: ten is even
        over = self.binary("add", operator.add, rest, odd)
        up = self.verb_compare(Instr("compare", op=">"), over, ten // 2)
        count = self.binary("add", operator.add, count, up)
        return self.binary("mul", operator.mul, count, ten)


def _are_alike(tensors: Sequence[Held], values: Sequence[Any]) -> bool:
    """Whether the largest of some values is a tensor of one dtype, or a number that is known and
    does in its place."""
    dtype, sizes = tensors[0].value.dtype, tensors[0].value.sizes
    if any(t.value.dtype != dtype or t.value.sizes != sizes for t in tensors):
        return False
    kinds = (int, float) if dtype.is_floating_point else int
    return all(isinstance(v, Held) and not v.is_number or isinstance(v, kinds) for v in values)


def _type_name(v: Any) -> str:
    if isinstance(v, Instance):
        return v.name
    if isinstance(v, Held):
        if not v.is_number:
            return "Tensor"
        return {weft.bool: "bool", weft.int64: "int"}.get(v.value.dtype, "float")
    if isinstance(v, (Repeated, Grown)):
        return "list"
    return (
        "dtype"
        if isinstance(v, weft.dtype)
        else "range"
        if isinstance(v, Seq)
        else type(v).__name__
    )


def _is_a(v: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return any(_is_a(v, k) for k in kind)
    if kind.kind == "record":
        return isinstance(v, Instance) and v.name == kind.name[0]
    own = _type_name(v)
    if own == "bool" and kind.name == "int":
        return True
    return own == kind.name or kind.name == "tuple" and isinstance(v, Instance) and not v.state
