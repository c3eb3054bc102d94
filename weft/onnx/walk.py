"""One walk over a package's functions, which makes the nodes of a model.

What is known is worked out; what only a run knows becomes nodes. A branch over a value is an If
(`control.py`), a loop over a value, or of a length that only a run knows, a Loop (`loops.py`); what
instructions compute is in `verbs.py`. Calls of a package's functions are written in place: a
function of ONNX cannot see values of the graph that calls it, so weights that two functions share,
and every number of the program, would have to be passed through all calls between.

Examples go along (`values.py`): each op runs on them, which gives its results' layouts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import weft
from weft import _C
from weft.onnx import control, loops
from weft.onnx.builder import Builder
from weft.onnx.errors import NeedsKnown, NotOnnx, Raises
from weft.onnx.examples import (
    changed,
    grown,
    next_number,
    numbers_in,
    shrunk,
    unlike,
    with_ones,
)
from weft.onnx.graph import Model, Value
from weft.onnx.leaving import leave
from weft.onnx.memory import Aliases, is_itself, kin, lose, parts
from weft.onnx.program import Instr, Kinds, parse
from weft.onnx.raising import raised
from weft.onnx.records import apply, bind, form_of, records, writes
from weft.onnx.values import (
    UNBOUND,
    Callee,
    End,
    Grown,
    Held,
    Instance,
    Journal,
    Lost,
    Repeated,
    View,
    bare,
    dtype_of,
    example,
    expect_one_dtype,
    held,
    holds,
    layout,
)
from weft.onnx.verbs import Verbs

_RAISED = (
    TypeError, RuntimeError, ValueError, IndexError, KeyError, ZeroDivisionError, AttributeError,
)  # fmt: skip
_OURS = os.path.join(os.path.dirname(weft.__file__), "")


class Frame:
    """One function that is walked."""

    def __init__(
        self, number: int, registers: list[Any], constants: list[Any], data: dict[str, Any]
    ) -> None:
        self.number, self.registers, self.constants = number, registers, constants
        self.names, self.data = data["names"], data
        self.place = 0
        self.caught: Kinds = ()
        self.again: Kinds = ()

    @property
    def is_ours(self) -> bool:
        """Whether it is a function of weft's own."""
        return str(self.data["file"]).startswith(_OURS)

    def line(self) -> str:
        """Where it is: "Net.forward: net.py:12"."""
        line = next((n for at, n in reversed(self.data["lines"]) if at <= self.place), 0)
        return f"{self.data['name']}: {self.data['file']}:{line}"


class Walk(Verbs):
    """Walks a package once."""

    def __init__(
        self,
        data: dict[str, Any],
        tensors: dict[str, Any],
        model: Model,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        self.data, self.tensors, self.model, self.kinds = data, tensors, model, kinds or {}
        self.programs = [parse(f["text"], f["constants"]) for f in data["functions"]]
        self.weights: dict[str, Held] = {}
        self.objects = [
            Instance(o["class"], {k: self.constant(v) for k, v in o["fields"].items()}, True)
            for o in data["objects"]
        ]
        self.frames: list[Frame] = []
        self.journals: list[Journal] = []
        self.aliases = Aliases()
        self.earlier: list[Held] = []  # what turns before have appended to lists
        self.free: set[tuple[int, int]] = set()  # the two examples of each free size
        self.calm = 0  # how many calls it is in whose errors are looked at as a whole
        self.partial = False  # whether what is walked is a part of a block, which goes on behind it
        self.rests = 0  # how often the rest of a block is doubled (Note [Early ways out])
        self.joins_rests = True
        self.turns: list[int] = []  # at how many frames loops began whose bodies are walked

    @property
    def g(self) -> Builder:
        """The builder of the graph that is written now."""
        return self.model.active

    def note(self, thing: Any) -> None:
        """Says that a container or a tensor is about to be written."""
        for journal in self.journals:
            journal.note(thing)

    def writing(self, thing: Any) -> None:
        """Says that a program writes a container or a tensor in place: what may be its memory
        too is lost (Note [May alias]).

        Raises:
            NotOnnx: it may be a tensor of the program, which the next run would see.
        """
        weights = {id(weight) for weight in self.weights.values()}
        if any(id(one) in weights for one in self.aliases.family(thing)):
            raise NotOnnx(
                "a write to a tensor of the program, which the next run would see",
                "a graph has no state: pass it as an argument and return it, or clone() it before",
            )
        line = self.frames[-1].line()
        for other, why in lose(self.aliases, thing, line, self.reachable):
            if other.lost is None:
                self.note(other)
                other.lost = why
        self.note(thing)

    def reachable(self) -> set[int]:
        """The identities of all that can be read now: what is made later is in none of it."""
        frames = [v for f in self.frames for v in (*f.registers, *f.constants)]
        every = [*self.objects, *self.weights.values(), *frames, *self.earlier]
        return {id(v) for v in parts(every)}

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
                return complex(*map(float, v))
            case "tuple" | "size":
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
            case "type" if v == "Size":  # which tuples are here
                return Callee("type", "tuple")
        return Callee(kind, v)

    def weight(self, name: str) -> Held:
        """A tensor of the package."""
        if name not in self.weights:
            tensor = self.tensors[name].detach()
            kind = self.kinds.get(name, "CONSTANT_TENSOR")
            self.weights[name] = Held(self.g.weight(tensor, name, kind), (tensor, tensor))
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
        partial, self.partial = self.partial, False
        try:
            end = self.body(body)
        finally:
            self.partial = partial
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
        if isinstance(v, Lost):
            raise NotOnnx(v.why, v.hint)
        if v is UNBOUND:
            raise NotOnnx("a variable that has no value here")
        return v

    def refresh(self, v: Held) -> None:
        """Makes a view anew whose base was written (Note [Views])."""
        view = v.view
        if view is None or (seen := view.base.value) is view.seen:
            return
        made = self.replayed(view, view.base)
        self.note(v)
        v.set(made.value, made.examples)
        view.seen = seen

    def replayed(self, view: View, base: Held) -> Held:
        """The view of another tensor."""
        with self.calmly():
            made = self.call_op(view.name, [base, *view.args], view.words)
        out: Held = made[view.output] if isinstance(made, (tuple, list)) else made
        return out

    def condition(self, o: int) -> Any:
        """Whether Python takes an operand for true: a bool, or a number of the graph."""
        v = self.frames[-1].registers[o] if o >= 0 else None
        if isinstance(v, Lost) and v.truth is not None:
            return v.truth
        return self.truth(self.operand(o))

    def assign(self, register: int, v: Any) -> None:
        """Puts a value into a register."""
        self.frames[-1].registers[register] = v

    def line(self) -> str:
        """Where the user's source is: the call of weft's own function, where one is under way."""
        own = next((f for f in reversed(self.frames) if not f.is_ours), self.frames[-1])
        return own.line()

    def body(self, instrs: Sequence[Instr]) -> End | None:
        """Walks a block. What follows a branch that may leave the block is walked as a part of
        it."""
        for k, i in enumerate(instrs):
            frame = self.frames[-1]
            frame.place, frame.caught, frame.again = i.place, i.caught, i.again
            try:
                if i.verb == "if" and i.escapes:
                    return self.leaving(i, instrs[k + 1 :])
                end: End | None = getattr(self, f"do_{i.verb}", self.plain)(i)
            except NotOnnx as error:
                raise error.at(self.line()) from None
            except _RAISED as error:
                # a way of a branch, or a turn of a loop, may be one that the example does not take
                does = "may raise" if self.journals else "raises"
                hint = "take an example that goes this way" if self.journals else ""
                reason = f"what {does} {type(error).__name__}: {error}"
                raise Raises(reason, hint, self.line()) from error
            if end is not None:
                return end
        return None

    def plain(self, i: Instr) -> None:
        """An instruction that computes one value."""
        if i.verb == "move" and i.operands[0] >= 0:
            v = self.frames[-1].registers[i.operands[0]]
            if isinstance(v, Lost) and v.truth is not None:
                return self.assign(i.outs[0], v)
        made = getattr(self, f"verb_{i.verb}", None)
        if made is None:
            raise NotOnnx(f"an instruction {i.verb!r}")
        is_not = i.verb == "unary" and i.op == "not"
        result = made(i, *map(self.condition if is_not else self.operand, i.operands))
        if i.outs:
            self.assign(i.outs[0], result)

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
            case "op" | "library":
                return self.call_op(callee.name, args, words)
            case "method":
                holder, name = callee.name
                return self.method(holder, name, args, words)
            case "record":
                name, fields = callee.name
                return Instance(name, dict(zip(fields, args)) | words)
        return self.builtin(callee.name, args, words)

    # ---- control

    def do_return(self, i: Instr) -> End:
        v = self.operand(i.operands[0])
        if len(self.frames) == 1:  # what a run gives is read here
            for one in parts([v]):
                if isinstance(one, Held):
                    one.settle()
                    if one.is_number:
                        expect_one_dtype(*map(dtype_of, one.examples))
        return End("return", v)

    def do_break(self, i: Instr) -> End:
        return End("break")

    def do_continue(self, i: Instr) -> End:
        return End("continue")

    def do_raise(self, i: Instr) -> End:
        return End("raise")

    def do_assert(self, i: Instr) -> None:
        """Checks of what only a run knows are left out: ONNX has nothing that raises."""
        if isinstance(v := self.condition(i.operands[0]), Held):
            self.expect_not_caught()
        elif not v:
            raise NotOnnx("an assertion that fails in every run")

    def expect_not_caught(self) -> None:
        """Refuses a check that can be left out only where nobody catches what it raises."""
        if any(frame.caught for frame in self.frames):
            raise NotOnnx(
                "an exception under a condition that only a run knows, within a try with except",
                "write a branch in place of the exception",
            )

    def expect_calm(
        self, function: Callable[..., Any], args: Sequence[Any], words: dict[str, Any]
    ) -> None:
        """Refuses a call that raises in some runs what a handler around it catches."""
        # weft's own handlers choose another way to the same result
        kinds = tuple(kind for f in self.frames if not f.is_ours for kind in f.caught)
        if self.calm or not kinds:
            return
        kinds += tuple(kind for f in self.frames for kind in f.again)  # as another one
        if (error := raised(function, args, words, kinds, self.free)) is not None:
            raise NotOnnx(
                f"what raises {type(error).__name__} with other sizes or values than the "
                f"example's, within a try with except: {error}",
                "write a branch in place of the exception",
            )

    @contextlib.contextmanager
    def calmly(self) -> Iterator[None]:
        """Within it, calls are parts of one that has been looked at."""
        self.calm += 1
        try:
            yield
        finally:
            self.calm -= 1

    def do_if(self, i: Instr) -> End | None:
        truth = self.condition(i.operands[0])
        if isinstance(truth, Held):
            return control.branch(self, truth, i.regions[0], i.regions[1])
        return self.body(i.regions[0 if truth else 1])

    def leaving(self, i: Instr, rest: Sequence[Instr]) -> End | None:
        """A branch of which a way may leave the block, and the rest of that."""
        truth = self.condition(i.operands[0])
        if isinstance(truth, Held):
            return leave(self, truth, i, rest)
        return self.body([*i.regions[0 if truth else 1], *rest])

    def do_leave(self, i: Instr) -> End:
        """What a way has left by (Note [Early ways out])."""
        end: End = i.known
        return end

    def do_with(self, i: Instr) -> None:
        raise NotOnnx("autocast", "cast what is to be narrow")

    def do_known(self, i: Instr) -> None:
        self.assign(i.outs[0], i.known)

    def do_turns(self, i: Instr) -> End | None:
        return loops.turns(self, i, i.known)

    def do_while(self, i: Instr) -> End | None:
        return loops.while_loop(self, i)

    def do_for(self, i: Instr) -> End | None:
        return loops.for_loop(self, i)

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
        if writes(name) and args and isinstance(args[0], Held) and not args[0].is_number:
            return self.write(args[0], self.call_op(name[:-1], args, words))
        function, public = _function(name)
        self.expect_calm(function, args, words)
        given = [*args, *words.values()]
        result = self.example_of(function, args, words, 0)
        many = isinstance(result, (tuple, list))
        record, params = bind(
            public, [_as_param(a) for a in args], {w: _as_param(v) for w, v in words.items()}
        )
        kind = form_of(record)
        asked = args
        if args and kind is not None and kind.ones is not None:
            asked = [_with_ones(args[0], kind.ones(**params)), *args[1:]]
            params = {**params, next(iter(params)): asked[0].value}
        same = all(map(_one, given))
        other = result if same else self.example_of(function, asked, words, 1)
        first, second = pair = [list(r) if many else [r] for r in (result, other)]
        if len(first) != len(second):
            raise NeedsKnown(f"how many tensors {public} gives")
        if kind is not None and kind.free is not None:
            dims = kind.free((first[0], second[0]), **params)
            second = [grown(a, b, dims) for a, b in zip(first, second)]
        else:
            second = self.with_sizes_of_numbers(function, args, words, first, second)
        expected = [held(self.model, "", pair) for pair in zip(first, second)]
        self.g.results = tuple(e.value for e in expected)
        made = apply(self.g, record, params)
        if asked is not args and layout(asked[0].examples) != layout(args[0].examples):
            self.model.checks.add(made.name)
        loose = any(v.loose for v in parts(given) if isinstance(v, Held))
        outs = []
        for k, (value, e) in enumerate(zip(made if many else [made], expected)):
            out = Held(value, e.examples, None, loose)
            base: Any = args[0] if args else None
            may_view = kind is not None and kind.may_view
            results = [r[k] for r in pair]
            is_view, others = kin(may_view, base, results, given)
            if is_view and is_itself(base, *results):
                outs.append(base)
                continue
            if is_view:
                out.view = View(base, base.value, name, args[1:], words, k, self.refresh)
            out.loose |= base in others  # a view that lies as that does, or a copy that does not
            for other in others:
                self.aliases.add(out, other)
            outs.append(out)
        if not many:
            return outs[0]
        rows: Any = type(result)  # a list, a tuple, or one with names as max(1) gives
        return rows._make(outs) if hasattr(rows, "_make") else rows(outs)

    def example_of(
        self, function: Callable[..., Any], args: list[Any], words: dict[str, Any], k: int
    ) -> Any:
        """What an op gives of the k-th examples; where the second cannot run, of sizes that have to
        be those of something else."""
        given = [example(args, k), {w: example(v, k) for w, v in words.items()}]
        with weft.no_grad(), weft.random.fork_rng():
            try:
                return function(*given[0], **given[1])
            except (RuntimeError, ValueError, IndexError):
                named = list(words)
                firsts = example([*args, *words.values()], 0)
                seconds = [*given[0], *given[1].values()]
                back = shrunk(firsts, seconds)
                if k == 0:
                    raise
                try:
                    return function(*back[: len(args)], **dict(zip(named, back[len(args) :])))
                except (RuntimeError, ValueError, IndexError) as error:
                    kind, shapes = type(error).__name__, _shapes(back)
                    raise Raises(
                        f"a call that fits the example, and raises {kind} where free sizes, or "
                        f"numbers that are read, are others{shapes}: {error}",
                        "sizes that have to agree are one Dim; fix what has to be that of the "
                        "example",
                    ) from error

    def with_sizes_of_numbers(
        self,
        function: Callable[..., Any],
        args: list[Any],
        words: dict[str, Any],
        first: list[Any],
        second: list[Any],
    ) -> list[Any]:
        """The second examples of an op's results, unlike the first in each size that follows from a
        number among the arguments: that another one changes."""
        for number in {id(n): n for n in numbers_in([*args, *words.values()])}.values():

            def one(v: Held, number: Held = number) -> Any:
                return next_number(v) if v is number else v.examples[0]

            try:
                with weft.no_grad(), weft.random.fork_rng():
                    given = {w: changed(v, one) for w, v in words.items()}
                    made = function(*(changed(v, one) for v in args), **given)
            except (RuntimeError, ValueError, IndexError, TypeError):
                continue
            third = list(made) if isinstance(made, (tuple, list)) else [made]
            if len(third) != len(first):
                raise NeedsKnown("how many tensors an op gives")
            second = [
                grown(a, b, unlike(a, c)) if isinstance(a, weft.Tensor) else b
                for a, b, c in zip(first, second, third)
            ]
        return second


def _shapes(given: Sequence[Any]) -> str:
    """The sizes of tensors, to be shown."""
    tensors = [v for v in parts(given) if isinstance(v, weft.Tensor)]
    return f" ({', '.join(str(tuple(t.shape)) for t in tensors[::-1])})" if tensors else ""


def _with_ones(x: Held, dims: Sequence[int]) -> Held:
    """A tensor, for an op that takes its sizes in `dims` for the 1 that the first example has."""
    first, second = x.examples
    examples = first, with_ones(first, second, dims)
    return Held(Value(x.value.model, x.value.name, x.value.dtype, layout(examples)), examples)


def _as_param(v: Any) -> Any:
    return v if isinstance(v, Repeated) else bare(v)


def _one(v: Any) -> bool:
    """Whether both examples of a value are the same."""
    if isinstance(v, Held):
        return v.examples[0] is v.examples[1]
    if isinstance(v, (list, tuple)):
        return all(map(_one, v))
    return not isinstance(v, (slice, Repeated)) or not holds(v)


def _function(name: str) -> tuple[Callable[..., Any], str]:
    """What runs an op, and its public name."""
    if name.startswith("ops."):
        return getattr(_C.ops, name[4:]), name[4:]
    if "call" in (record := records().get(name, {})):
        return record["call"], record["public_name"]
    for home in (_C, weft.Tensor, _C.ops):
        if hasattr(home, name):
            return getattr(home, name), name
    raise NotOnnx(f"a call of {name}")
