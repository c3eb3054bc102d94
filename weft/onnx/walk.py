"""One walk over a package's functions, which makes the nodes of a model.

What is known is worked out; what only a run knows becomes nodes. A branch over a value is an If, a
loop
over a value, or of a length that only a run knows, a Loop (`control.py`). Calls of a package's
functions are
written in place: a function of ONNX cannot see values of the graph that calls it, so weights that
two
functions share, and every number of the program, would have to be passed through all calls between.

Note [Views]
A graph has values, not memory. A view knows the call that made it, so it is made anew where it is
read after its
base was written; a write to a view writes its base at the places that the same calls choose among
the
numbers of all elements.

Examples go along (`values.py`): each op runs on them, which gives its results' layouts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import weft
from weft import _C
from weft.onnx import control, loops
from weft.onnx.builtins import Builtins
from weft.onnx.errors import NeedsKnown, NotOnnx
from weft.onnx.graph import Builder, Model, Value
from weft.onnx.program import Instr, parse
from weft.onnx.records import apply, bind
from weft.onnx.values import (
    Callee,
    Examples,
    Grown,
    Held,
    Instance,
    Journal,
    Repeated,
    Seq,
    View,
    bare,
    example,
    held,
    holds,
)  # fmt: skip

UNBOUND = object()

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


class End(NamedTuple):
    """How a block ended: "return", "break", "continue", "raise".

    Of "broke", `value` is whether it broke, which a run knows.
    """

    kind: str
    value: Any = None


class Frame:
    """One function that is walked."""

    def __init__(
        self, number: int, registers: list[Any], constants: list[Any], data: dict[str, Any]
    ) -> None:
        self.number, self.registers, self.constants = number, registers, constants
        self.names, self.data = data["names"], data
        self.place = 0

    def line(self) -> str:
        """Where it is: "Net.forward: net.py:12"."""
        line = next((n for at, n in reversed(self.data["lines"]) if at <= self.place), 0)
        return f"{self.data['name']}: {self.data['file']}:{line}"


class Walk(Builtins):
    """Walks a package once."""

    def __init__(self, data: dict[str, Any], tensors: dict[str, Any], model: Model) -> None:
        self.data, self.tensors, self.model = data, tensors, model
        self.programs = [parse(f["text"]) for f in data["functions"]]
        self.objects = [
            Instance(o["class"], {k: self.constant(v) for k, v in o["fields"].items()}, True)
            for o in data["objects"]
        ]
        self.weights: dict[str, Held] = {}
        self.frames: list[Frame] = []
        self.journals: list[Journal] = []
        self.turns: list[int] = []  # at how many frames loops began whose bodies are walked

    @property
    def g(self) -> Builder:
        """The builder of the graph that is written now."""
        return self.model.active

    def note(self, thing: Any) -> None:
        """Says that a container or a tensor is about to be written."""
        for journal in self.journals:
            journal.note(thing)

    # ---- constants

    def constant(self, c: Any) -> Any:
        """A constant of a package as a value."""
        if not isinstance(c, dict):
            return c
        ((kind, v),) = c.items()
        match kind:
            case "float":
                return float(v)
            case "complex":
                return complex(*map(self.constant, v))
            case "tuple":
                return tuple(map(self.constant, v))
            case "list":
                return list(map(self.constant, v))
            case "dict":
                return {self.constant(k): self.constant(x) for k, x in v}
            case "slice":
                return slice(*map(self.constant, v))
            case "range":
                return range(*v)
            case "ellipsis":
                return ...
            case "dtype":
                return getattr(weft, v)
            case "tensor":
                return self.weight(v)
            case "object":
                return self.objects[v]
            case "record":
                return Callee("record", (v["class"], tuple(v["fields"])))
        return Callee(kind, v)

    def weight(self, name: str) -> Held:
        """A tensor of the package."""
        if name not in self.weights:
            tensor = self.tensors[name].detach()
            self.weights[name] = Held(self.g.weight(tensor, name), (tensor, tensor))
        return self.weights[name]

    # ---- functions

    def call_function(self, number: int, values: Sequence[Any]) -> Any:
        """Walks a function of the package; what it returns."""
        if any(f.number == number for f in self.frames):
            name = self.data["functions"][number]["name"]
            raise NotOnnx(
                f"{name}, which calls itself",
                "recursion is for a saved weft program: weft.export.save",
            )
        data = self.data["functions"][number]
        count, body = self.programs[number]
        constants = [self.constant(c) for c in data["constants"]]
        registers = [*values, *[UNBOUND] * (count - len(values))]
        self.frames.append(Frame(number, registers, constants, data))
        try:
            end = self.body(body)
        finally:
            self.frames.pop()
        if end is not None and end.kind == "raise":
            raise NotOnnx("an exception that every run raises")
        return end.value if end is not None and end.kind == "return" else None

    def entry(self, name: str, args: Sequence[Any], words: dict[str, Any]) -> Any:
        """Walks an entry with arguments as Python binds them."""
        return self.bound_call(self.data["entries"][name], args, words)

    def bound_call(self, number: int, args: Sequence[Any], words: dict[str, Any]) -> Any:
        """Walks a function with arguments as Python binds them."""
        data = self.data["functions"][number]
        plain = [p for p in data["params"] if not p.startswith("*")]
        placed = plain[: len(plain) - data["keyword_only"]]
        given = dict(zip(placed, args))
        words = dict(words)
        values = []
        for p in plain:
            if p in given:
                values.append(given[p])
            elif p in words:
                values.append(words.pop(p))
            elif p in data["defaults"]:
                values.append(self.constant(data["defaults"][p]))
            else:
                raise TypeError(f"[onnx.export] expected an argument {p!r}, got none")
        for p in data["params"][len(plain) :]:
            values.append(dict(words) if p.startswith("**") else tuple(args[len(placed) :]))
        return self.call_function(number, values)

    # ---- instructions

    def operand(self, o: int) -> Any:
        """A constant or what a register holds."""
        frame = self.frames[-1]
        if o < 0:
            return frame.constants[~o]
        v = frame.registers[o]
        if isinstance(v, control.Lost):
            raise NotOnnx(v.why, v.hint)
        if v is UNBOUND:
            raise NotOnnx("a variable that has no value here")
        if isinstance(v, Held) and v.view is not None:
            self.refresh(v)
        return v

    def refresh(self, v: Held) -> None:
        """Makes a view anew whose base was written (Note [Views])."""
        view = v.view
        if view is None:
            return
        self.refresh(view.base)
        if view.base.value is view.seen:
            return
        made = self.replayed(view, view.base)
        self.note(v)
        v.value, v.examples = made.value, made.examples
        view.seen = view.base.value

    def replayed(self, view: View, base: Held) -> Held:
        """The view of another tensor."""
        made = self.call_op(view.name, [base, *view.args], view.words)
        out: Held = made[view.output] if isinstance(made, (tuple, list)) else made
        return out

    def assign(self, register: int, v: Any) -> None:
        """Puts a value into a register."""
        self.frames[-1].registers[register] = v

    def body(self, instrs: Sequence[Instr]) -> End | None:
        """Walks a block. What follows a branch that may leave the block is walked as a part of
        it."""
        for k, i in enumerate(instrs):
            self.frames[-1].place = i.place
            try:
                if i.verb == "if" and i.escapes:
                    return self.leaving(i, instrs[k + 1 :])
                end: End | None = getattr(self, f"do_{i.verb}", self.plain)(i)
            except NotOnnx as error:
                raise error.at(self.frames[-1].line()) from None
            except (ImportError, TypeError) as error:
                if isinstance(error, ImportError):
                    raise
                raise NotOnnx(
                    f"what raises {type(error).__name__}: {error}", "", self.frames[-1].line()
                ) from error
            except (
                RuntimeError,
                ValueError,
                IndexError,
                KeyError,
                ZeroDivisionError,
                AttributeError,
            ) as error:
                reason = f"what raises {type(error).__name__}: {error}"
                raise NotOnnx(reason, "", self.frames[-1].line()) from error
            if end is not None:
                return end
        return None

    def plain(self, i: Instr) -> None:
        """An instruction that computes one value."""
        made = getattr(self, f"verb_{i.verb}", None)
        if made is None:
            raise NotOnnx(f"an instruction {i.verb!r}")
        result = made(i, *map(self.operand, i.operands))
        if i.outs:
            self.assign(i.outs[0], result)

    def verb_move(self, i: Instr, v: Any) -> Any:
        return v

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
        examples = (known(example(a, 0), example(b, 0)), known(example(a, 1), example(b, 1)))
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
            self.note(a)
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
                places = self.replayed(view, places)
            values = self.call_op("to", [new, base.value.dtype], {})
            self.write(base, self.call_op("put", [base, places, values], {}))
            self.refresh(target)
            return target
        self.note(target)
        made = self.g.cast(new.value, target.value.dtype)
        dtype = target.value.dtype
        examples = tuple(e.to(dtype) for e in new.examples)
        target.value = Value(self.model, made.name, dtype, new.value.sizes)
        target.examples = (examples[0], examples[1])
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
            if i.op == "-":
                return self.binary("mul", operator.mul, a, -1)
            return a
        return a if i.op == "+" else self.call_op({"-": "neg", "~": "bitwise_not"}[i.op], [a], {})

    def truth(self, v: Any) -> Any:
        """Whether Python takes a value for true: a bool, or a number of the graph."""
        if isinstance(v, Held):
            truth = (bool(v.examples[0]), bool(v.examples[1])) if v.is_number else (True, True)
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
        if isinstance(a, Held) or isinstance(b, Held):
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
        self.note(target)
        target.extend(self.items(items))

    def verb_append(self, i: Instr, target: Any, v: Any) -> None:
        self.note(target)
        target.append(v)

    def verb_update(self, i: Instr, target: Any, items: Any) -> None:
        self.note(target)
        target.update(items)

    verb_merge = verb_update

    def verb_insert(self, i: Instr, target: Any, words: Any, callee: Any) -> None:
        if twice := target.keys() & words.keys():
            raise NotOnnx(f"{callee} with {min(twice)!r} twice")
        self.verb_update(i, target, words)

    def verb_put(self, i: Instr, target: Any, k: Any, v: Any) -> None:
        self.note(target)
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

    def verb_call(self, i: Instr, callee: Any, *args: Any) -> Any:
        names = self.frames[-1].names[i.names] if i.names is not None else []
        n = len(args) - len(names)
        return self.call(callee, list(args[:n]), dict(zip(names, args[n:])))

    def verb_call_ex(self, i: Instr, callee: Any, args: Any, words: Any) -> Any:
        return self.call(callee, list(self.items(args)), dict(words or {}))

    def verb_method(self, i: Instr, holder: Any, *args: Any) -> Any:
        names = self.frames[-1].names[i.names] if i.names is not None else []
        n = len(args) - len(names)
        name = self.frames[-1].names[i.attr]
        return self.method(holder, name, list(args[:n]), dict(zip(names, args[n:])))

    def call(self, callee: Any, args: list[Any], words: dict[str, Any]) -> Any:
        """Calls what a register or a constant holds."""
        if not isinstance(callee, Callee):
            raise NotOnnx(f"a call of {type(callee).__name__}")
        match callee.kind:
            case "function":
                return self.bound_call(callee.name, args, words)
            case "op":
                return self.call_op(callee.name, args, words)
            case "record":
                name, fields = callee.name
                return Instance(name, dict(zip(fields, args)) | words)
        return self.builtin(callee.name, args, words)

    # ---- control

    def do_return(self, i: Instr) -> End:
        return End("return", self.operand(i.operands[0]))

    def do_break(self, i: Instr) -> End:
        return End("break")

    def do_continue(self, i: Instr) -> End:
        return End("continue")

    def do_raise(self, i: Instr) -> End:
        return End("raise")

    def do_assert(self, i: Instr) -> None:
        """Checks of what only a run knows are left out: ONNX has nothing that raises."""
        if not isinstance(v := self.truth(self.operand(i.operands[0])), Held) and not v:
            raise NotOnnx("an assertion that fails in every run")

    def do_if(self, i: Instr) -> End | None:
        truth = self.truth(self.operand(i.operands[0]))
        if isinstance(truth, Held):
            return control.branch(self, truth, i.regions[0], i.regions[1])
        return self.body(i.regions[0 if truth else 1])

    def leaving(self, i: Instr, rest: Sequence[Instr]) -> End | None:
        """A branch of which a way may leave the block: each way goes on to the end of it."""
        truth = self.truth(self.operand(i.operands[0]))
        first, second = ([*region, *rest] for region in i.regions)
        if isinstance(truth, Held):
            return control.branch(self, truth, first, second)
        return self.body(first if truth else second)

    def do_while(self, i: Instr) -> End | None:
        return loops.while_loop(self, i)

    def do_for(self, i: Instr) -> End | None:
        return loops.for_loop(self, i)

    def do_try(self, i: Instr) -> End | None:
        """Nothing raises in a graph: the body, what follows without an exception, the end."""
        body, other, final, *_ = i.regions
        end = self.body(body)
        if end is None:
            end = self.body(other)
        last = self.body(final)
        return last or end

    # ---- ops

    def call_op(self, name: str, args: list[Any], words: dict[str, Any]) -> Any:
        """A call of an op: run on the examples, written as nodes."""
        name = name.removeprefix("Tensor.")
        if (
            args
            and isinstance(args[0], (list, tuple))
            and any(isinstance(v, Grown) for v in args[0])
        ):
            return self.joined_rows(name, args, words)
        for v in args:
            if isinstance(v, Held) and v.view is not None:
                self.refresh(v)
        function = _function(name)
        public = name.removeprefix("ops.")
        results: list[Any] = []
        for k in range(2):
            if k and all(_one(a) for a in (*args, *words.values())):
                results.append(results[0])
                continue
            with weft.no_grad(), weft.random.fork_rng():
                results.append(
                    function(*example(args, k), **{w: example(v, k) for w, v in words.items()})
                )
        many = isinstance(results[0], (tuple, list))
        first, second = ((list(r) if many else [r]) for r in results)
        if len(first) != len(second):
            raise NeedsKnown(f"how many tensors {public} gives")
        expected = [held(self.model, "", pair) for pair in zip(first, second)]
        free = public in _FREE
        for e in expected:
            if free and e.value.sizes:
                e.value.sizes = (None, *e.value.sizes[1:])
        record, params = bind(
            public, [_as_param(a) for a in args], {w: _as_param(v) for w, v in words.items()}
        )
        self.g.results = tuple(e.value for e in expected)
        made = apply(self.g, record, params)
        outs = []
        for k, (value, e) in enumerate(zip(made if many else [made], expected)):
            view = None
            if _shares(results[0], args) and isinstance(base := args[0], Held):
                view = View(base, base.value, name, args[1:], words, k)
            outs.append(Held(value, e.examples, view))
        if not many:
            return outs[0]
        return tuple(outs) if isinstance(results[0], tuple) else outs


def _shares(result: Any, args: Sequence[Any]) -> bool:
    """Whether a result is a view of the first argument: its memory is that one's."""
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    if (
        not isinstance(first, weft.Tensor)
        or not args
        or not isinstance(args[0], Held)
        or args[0].is_number
    ):
        return False
    return (
        first.numel() > 0
        and first.untyped_storage().data_ptr() == args[0].examples[0].untyped_storage().data_ptr()
    )


# Ops whose results have as many rows as values say.
_FREE = frozenset({"nonzero", "argwhere", "masked_select"})


def _plain(v: Value) -> Value:
    """A number as a tensor without dimensions, as forms of ops take it."""
    return Value(v.model, v.name, v.dtype, (), v.known)


def _as_param(v: Any) -> Any:
    return v if isinstance(v, Repeated) else bare(v)


def _one(v: Any) -> bool:
    """Whether both examples of a value are the same."""
    if isinstance(v, Held):
        return v.examples[0] is v.examples[1]
    if isinstance(v, (list, tuple)):
        return all(map(_one, v))
    return not isinstance(v, (slice, Repeated)) or not holds(v)


def _function(name: str) -> Callable[..., Any]:
    if name.startswith("ops."):
        found: Callable[..., Any] = getattr(_C.ops, name[4:])
        return found
    for home in (_C, weft.Tensor, _C.ops):
        if hasattr(home, name):
            made: Callable[..., Any] = getattr(home, name)
            return made
    raise NotOnnx(f"a call of {name}")
