"""Instructions that compute a value of others: operators, comparisons, displays, writes.

Note [Views]
A graph has values, not memory. A view knows the call that made it, so it is made anew where it is
read after its base was written; a write to a view writes its base at the places that the same calls
choose among the numbers of all elements.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import weft
from weft.onnx.builtins import Builtins
from weft.onnx.errors import NeedsKnown, NotOnnx
from weft.onnx.graph import Value
from weft.onnx.memory import is_overlapping, rewritten
from weft.onnx.program import Instr
from weft.onnx.records import apply, bind
from weft.onnx.values import (
    UNBOUND,
    Callee,
    Examples,
    Grown,
    Held,
    Instance,
    Repeated,
    Seq,
    View,
    bare,
    example,
    held,
    holds,
)

BINARY: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "+": ("add", operator.add), "-": ("sub", operator.sub), "*": ("mul", operator.mul),
    "/": ("div", operator.truediv), "//": ("floor_divide", operator.floordiv),
    "%": ("remainder", operator.mod), "**": ("pow", operator.pow), "@": ("matmul", operator.matmul),
    "&": ("bitwise_and", operator.and_), "|": ("bitwise_or", operator.or_),
    "^": ("bitwise_xor", operator.xor), "<<": ("bitwise_left_shift", operator.lshift),
    ">>": ("bitwise_right_shift", operator.rshift),
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert,
}  # fmt: skip
COMPARE: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "<": ("lt", operator.lt), "<=": ("le", operator.le), "==": ("eq", operator.eq),
    "!=": ("ne", operator.ne), ">": ("gt", operator.gt), ">=": ("ge", operator.ge),
}  # fmt: skip
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


class Verbs(Builtins):
    """The part of `Walk` that computes."""

    operand: Callable[[int], Any]
    assign: Callable[[int, Any], None]
    replayed: Callable[[View, Held], Held]

    def verb_move(self, i: Instr, v: Any) -> Any:
        return v

    verb_outer = verb_move

    def do_delete(self, i: Instr) -> None:
        self.assign(i.outs[0], UNBOUND)

    def verb_slice(self, i: Instr, *parts: Any) -> Any:
        return slice(*parts)

    def verb_binary(self, i: Instr, a: Any, b: Any) -> Any:
        name, known = BINARY[i.op]
        return self.binary(name, known, a, b)

    def binary(self, name: str, known: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """An operator of Python's on any values."""
        if isinstance(a, (list, tuple)) and isinstance(b, Held) and name == "mul":
            if len(a) != 1:
                raise NeedsKnown("how long a list is")
            return Repeated(a[0], b)
        if isinstance(a, Held) or isinstance(b, Held):
            return self.number_or_tensor(name, known, a, b)
        return known(a, b)

    def number_or_tensor(self, name: str, known: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """An operator of which an operand is held."""
        if not all(
            v.is_number if isinstance(v, Held) else isinstance(v, (int, float)) for v in (a, b)
        ):
            if name in ("and", "or"):
                raise NotOnnx("a truth of tensors")
            return self.call_op(name, [a, b], {})
        self.expect_calm(known, [a, b], {})
        examples = (known(example(a, 0), example(b, 0)), known(example(a, 1), example(b, 1)))
        if self.is_int(a) and self.is_int(b) and name == "pow" and isinstance(b, Held):
            if any(isinstance(e, float) for e in examples):  # 2 ** -a is 1 or a float
                examples = (1, float(examples[1]))
        into = held(self.model, "", examples).value.dtype
        both = weft.int64 if all(self.is_int(v) for v in (a, b)) else weft.float64
        if name == "div":
            both = weft.float64
        left, right = (self.g.scalar(bare(v), both) for v in (a, b))
        record, params = bind(name, [_plain(left), _plain(right)], {})
        self.g.results = (Value(self.model, "", into, ()),)
        made = apply(self.g, record, params)
        return self.number(made, examples)

    def number(self, made: Value, examples: Examples) -> Held:
        """A number of Python's that the graph computes."""
        out = held(self.model, made.name, examples)
        into = out.value.dtype
        out.value.name = self.g.cast(made, into).name
        return out

    def is_int(self, v: Any) -> bool:
        """Of a number: whether it is an int or a bool."""
        return (
            v.value.dtype in (weft.int64, weft.bool) if isinstance(v, Held) else isinstance(v, int)
        )

    def verb_inplace(self, i: Instr, a: Any, b: Any) -> Any:
        name, known = BINARY[i.op]
        if isinstance(a, Held) and not a.is_number:
            return self.write(a, self.call_op(name, [a, b], {}))
        if isinstance(a, list) and name == "add":
            self.writing(a)
            a += b if isinstance(b, (list, tuple)) else self.items(b)
            return a
        return self.binary(name, known, a, b)

    def write(self, target: Held, new: Held) -> Held:
        """Gives a tensor another value, which all that hold it see."""
        if target.view is not None:
            chain: list[View] = []
            base = target
            while base.view is not None:
                chain.append(base.view)
                base = base.view.base
            places = self.numbered(base)
            for view in reversed(chain):
                moved = self.replayed(view, places)
                if moved.value.dtype == places.value.dtype:  # else a cast, which moves nothing
                    places = moved
            if is_overlapping(target):
                raise NotOnnx(
                    "a write to a view of which several elements are one memory",
                    "clone() it before",
                )
            with self.calmly():
                values = self.call_op("to", [new, base.value.dtype], {})
                self.write(base, self.call_op("put", [base, places, values], {}))
            return target
        dtype = target.value.dtype
        made = self.g.cast(new.value, dtype)
        examples = rewritten(target.examples, new.examples)
        self.writing(target)
        target.set(Value(self.model, made.name, dtype, new.value.sizes), examples)
        return target

    def verb_unary(self, i: Instr, a: Any) -> Any:
        if i.op == "not":
            truth = self.truth(a)
            if not isinstance(truth, Held):
                return not truth
            made = self.g.op("Not", truth.value)
            return self.number(made, (not truth.examples[0], not truth.examples[1]))
        if not isinstance(a, Held):
            return _UNARY[i.op](a)
        if a.is_number:
            return self.unary_number(i.op, a)
        return a if i.op == "+" else self.call_op({"-": "neg", "~": "bitwise_not"}[i.op], [a], {})

    def unary_number(self, op: str, a: Held) -> Any:
        """-, + and ~ of a number: of a bool they are ints, and ~a is -a - 1."""
        if op == "+":
            return self.binary("add", operator.add, a, 0) if a.value.dtype == weft.bool else a
        if op == "~" and not self.is_int(a):
            raise TypeError("bad operand type for unary ~: 'float'")
        minus = self.binary("mul", operator.mul, a, -1)
        return minus if op == "-" else self.binary("sub", operator.sub, minus, 1)

    def truth(self, v: Any) -> Any:
        """Whether Python takes a value for true: a bool, or a number of the graph."""
        if isinstance(v, Held):
            self.expect_calm(bool, [v], {})
            unlike = (True, False)  # of a tensor: each example goes another way
            truth = (bool(v.examples[0]), bool(v.examples[1])) if v.is_number else unlike
            made = v.value if v.is_number else self.g.reshape(v.value, [])
            return self.number(self.g.truth(made), truth)
        if isinstance(v, (Seq, Repeated, Grown)):
            count = self.length(v)
            return self.truth(count)
        if isinstance(v, (Callee, Instance)):
            return True
        return bool(v)

    def verb_compare(self, i: Instr, a: Any, b: Any) -> Any:
        if i.op in ("is", "is not"):
            same = (
                a is b
                if isinstance(a, Held) or isinstance(b, Held)
                else a is b or a == b and type(a) is type(b)
            )
            return same == (i.op == "is")
        if i.op in ("in", "not in"):
            return self.contains(a, b, i.op)
        name, known = COMPARE[i.op]
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and (holds(a) or holds(b)):
            return self.same_rows(a, b, i.op)
        if (a is None or b is None or isinstance(a, str) or isinstance(b, str)) and i.op in (
            "==",
            "!=",
        ):
            return i.op == "!=" if a is not b and a != b else i.op == "=="
        if isinstance(b, Held) and (not isinstance(a, Held) or a.is_number > b.is_number):
            # of 2 > x, Python asks x
            name, known = COMPARE[_MIRRORED[i.op]]
            a, b = b, a
        if isinstance(a, Held):
            return self.number_or_tensor(name, known, a, b)
        return known(a, b)

    def contains(self, a: Any, b: Any, op: str) -> Any:
        """`a in b` of a list whose items are known."""
        if isinstance(b, (dict, str)) and not holds(a):
            return (a in b) == (op == "in")
        found: Any = False
        for item in b:
            found = self.either(found, self.verb_compare(Instr("compare", op="=="), a, item))
        if isinstance(found, Held):
            return found if op == "in" else self.verb_unary(Instr("unary", op="not"), found)
        return bool(found) == (op == "in")

    def either(self, a: Any, b: Any) -> Any:
        """a or b, of two truths."""
        if not isinstance(a, Held) or not isinstance(b, Held):
            known, other = (b, a) if isinstance(a, Held) else (a, b)
            return True if known else other
        made = self.g.op("Or", a.value, b.value)
        return self.number(made, (a.examples[0] or b.examples[0], a.examples[1] or b.examples[1]))

    def same_rows(self, a: Any, b: Any, op: str) -> Any:
        """== of tuples with sizes that only a run knows."""
        if op not in ("==", "!="):
            raise NotOnnx("an order of tuples that only a run knows")
        differ: Any = len(a) != len(b)
        for x, y in zip(a, b):
            differ = self.either(differ, self.verb_compare(Instr("compare", op="!="), x, y))
        if isinstance(differ, Held):
            return differ if op == "!=" else self.verb_unary(Instr("unary", op="not"), differ)
        return differ == (op == "!=")

    def verb_tuple(self, i: Instr, *items: Any) -> Any:
        return items

    def verb_list(self, i: Instr, *items: Any) -> Any:
        return list(items)

    def verb_dict(self, i: Instr, *items: Any) -> Any:
        return dict(zip(items[::2], items[1::2]))

    def verb_extend(self, i: Instr, target: Any, items: Any) -> None:
        self.writing(target)
        target.extend(self.items(items))

    def verb_append(self, i: Instr, target: Any, v: Any) -> None:
        self.writing(target)
        target.append(v)

    def verb_update(self, i: Instr, target: Any, items: Any) -> None:
        self.writing(target)
        target.update(items)

    verb_merge = verb_update

    def verb_insert(self, i: Instr, target: Any, words: Any, callee: Any) -> None:
        if twice := target.keys() & words.keys():
            raise NotOnnx(f"{callee} with {min(twice)!r} twice")
        self.verb_update(i, target, words)

    def verb_put(self, i: Instr, target: Any, k: Any, v: Any) -> None:
        self.writing(target)
        target[k] = v

    def verb_to_tuple(self, i: Instr, items: Any) -> Any:
        return tuple(self.items(items))

    def verb_format(self, i: Instr, v: Any, spec: Any) -> Any:
        return "?" if isinstance(v, (Held, Seq, Grown, Repeated)) else format(v, spec)

    def verb_join(self, i: Instr, *parts: Any) -> Any:
        return "".join(map(str, parts))

    def do_unpack(self, i: Instr) -> None:
        values = list(self.items(self.operand(i.operands[0])))
        if i.numbers:
            before, after = i.numbers
            middle = len(values) - after
            values = [*values[:before], values[before:middle], *values[middle:]]
        if len(values) != len(i.outs):
            raise ValueError(f"{len(values)} values to unpack into {len(i.outs)}")
        for r, v in zip(i.outs, values):
            self.assign(r, v)


def _plain(v: Value) -> Value:
    """A number as a tensor without dimensions, as forms of ops take it."""
    return Value(v.model, v.name, v.dtype, (), v.known)
