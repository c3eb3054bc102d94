"""Calls of ops by their records: which overload a call means, and its form in ONNX.

Note [Forms]
A record's field `onnx` is an expression of Python's over the names of its parameters, of which
operators are ONNX's (`Value`), and so is what begins with a capital letter: `Gelu(self,
approximate=approximate)` is a node. Besides there are `_HELPERS`, `_CONSTANTS` and `result`, the
dtype and sizes that the op gives. What no line says is a function in `forms_*.py`, under the name
of the record (`form`); `no_onnx` is why there is none.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import weft
from weft import _library_ops
from weft.onnx.builder import Builder
from weft.onnx.errors import NeedsKnown, NotOnnx
from weft.onnx.graph import Number, Value
from weft.onnx.values import Repeated

# Numbers of Python's that are values of the graph: a size, what item() gives.
_INTEGRAL = (weft.int64, weft.int32, weft.int16, weft.int8, weft.uint8)

Dims = Callable[..., Sequence[int]]  #: dimensions, of a record's parameters by name


@dataclass(frozen=True)
class Form:
    """How ONNX has a record, where no expression says it.

    Attributes:
        write: makes the nodes: `write(g, **parameters)`, with the record's names.
        free: dimensions of the results whose sizes only a run knows, though two examples may agree
            in them: they follow from values, or are cut off of free sizes, which may have less.
            Its first argument are the two examples of the (first) result. Where it is None, sizes
            that follow from numbers are found by other numbers.
        ones: dimensions of the first operand that are taken for the size 1 that they have in the
            first example, where they are free: the nodes raise in a run where one has another.
        may_view: the result is a view of the first operand, or it itself, where its strides allow
            that, else a copy.
    """

    write: Callable[..., Any]
    free: Dims | None = None
    ones: Dims | None = None
    may_view: bool = False


_FORMS: dict[str, Form] = {}


def form(
    *names: str, free: Dims | None = None, ones: Dims | None = None, may_view: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Says that a function makes the nodes of records (`Form`)."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _FORMS[name] = Form(function, free, ones, may_view)
        return function

    return register


def form_of(record: dict[str, Any]) -> Form | None:
    """The form of a record that has a function."""
    return _functions().get(record["name"])


@dataclass(frozen=True)
class Param:
    """One parameter of a record's schema."""

    name: str
    kind: str
    optional: bool
    keyword_only: bool
    fallback: Any
    required: bool


@functools.cache
def params_of(schema: str) -> tuple[Param, ...]:
    """The parameters in a schema: "sum.dim(Tensor self, int[]? dim, bool keepdim=False) ->
    Tensor"."""
    inside = schema[schema.index("(") + 1 : schema.index(") ->")]
    out, words = [], False
    for text in filter(None, re.split(r", (?![^\[]*\])", inside)):
        if text == "*":
            words = True
            continue
        kind, _, rest = text.partition(" ")
        name, has_default, default = rest.partition("=")
        optional = kind.endswith("?")
        fallback = ast.literal_eval(default) if has_default else None
        required = not has_default
        out.append(Param(name, kind.rstrip("?"), optional, words, fallback, required))
    return tuple(out)


@functools.cache
def records() -> dict[str, dict[str, Any]]:
    """All records by name."""
    return {r["name"]: r for r in _library_ops.records()}


def has_form(record: dict[str, Any]) -> bool:
    """Whether a record says how ONNX has it."""
    return bool(record["onnx"]) or record["name"] in _functions()


@functools.cache
def _functions() -> dict[str, Form]:
    """The forms of all files of them, by record."""
    import weft.onnx.forms_all  # noqa: F401

    return _FORMS


@functools.cache
def overloads(public_name: str) -> tuple[dict[str, Any], ...]:
    """The records of a public name, in the order in which calls try them."""
    everything = records().values()
    own = [r for r in everything if r["public_name"] == public_name]
    return tuple(own or [r for r in everything if public_name in r.get("aliases", ())])


# What constructors and repeats call their sizes, where the record has the other name.
_ALIASES = {"n": "repeats", "size": "shape", "shape": "size"}


def is_number(v: Any) -> bool:
    """A number of Python's, or one that the graph computes."""
    if isinstance(v, Number):
        return True
    return isinstance(v, (bool, int, float, complex)) and not isinstance(v, weft.Tensor)


def _is_int(v: Any) -> bool:
    if isinstance(v, Number):
        return v.dtype in _INTEGRAL
    return isinstance(v, int) and not isinstance(v, bool)


def _is_tensor(v: Any) -> bool:
    return isinstance(v, Value) and not isinstance(v, Number)


def _fits(p: Param, v: Any, number: bool) -> bool:
    """Whether a parameter takes a value; `number`: one in place of a tensor too."""
    if v is None:
        return p.optional
    match p.kind:
        case "Tensor":
            return _is_tensor(v) or number and is_number(v)
        case "Tensor[]":
            return isinstance(v, (tuple, list)) and all(
                _is_tensor(i) or i is None and p.optional for i in v
            )
        case "int":
            return _is_int(v) or isinstance(v, bool)
        case "int[]":
            return (
                _is_int(v)
                or isinstance(v, Repeated)
                or isinstance(v, (tuple, list))
                and all(_is_int(i) for i in v)
            )
        case "float":
            return is_number(v)
        case "Scalar":
            return is_number(v)
        case "bool":
            return isinstance(v, bool) or isinstance(v, Number) and v.dtype == weft.bool
        case "dtype":
            return isinstance(v, weft.dtype)
        case "str":
            return isinstance(v, str)
    return False


def _bound(
    record: dict[str, Any], args: Sequence[Any], words: dict[str, Any], lenient: bool
) -> dict[str, Any] | None:
    params = params_of(record["schema"])
    given: dict[str, Any] = {}
    placed = [p for p in params if not p.keyword_only]
    loose = [p for p in placed if p.kind not in ("Tensor", "Tensor[]")]
    if len(loose) == 1 and loose[0] is placed[-1] and loose[0].kind == "int[]":
        at = len(placed) - 1
        if len(args) > at + 1 and all(_is_int(v) for v in args[at:]):
            args = [*args[:at], list(args[at:])]
    if len(args) > len(placed):
        return None
    for p, v in zip(placed, args):
        given[p.name] = v
    names = {p.name for p in params}
    for name, v in words.items():
        if name not in names:
            other = record["parameter_aliases"].get(name) or _ALIASES.get(name, "")
            if other in names:
                name = other
            elif name in (
                "device",
                "layout",
                "pin_memory",
                "requires_grad",
                "memory_format",
                "generator",
                "out",
                "non_blocking",
                "copy",
            ):
                if name == "out" and v is not None:
                    raise NotOnnx("out=, which writes to a tensor", "use what the call gives")
                continue
            else:
                return None
        if name in given:
            return None
        given[name] = v
    for k, p in enumerate(params):
        if p.name in given:
            if lenient:
                given[p.name] = _as_number(p, given[p.name])
            number = record["pointwise"] and (k > 0 or record["number_self"])
            if not _fits(p, given[p.name], number):
                return None
        elif p.required and not (p.optional and p.kind.startswith("Tensor")):
            return None
        else:
            given[p.name] = p.fallback
    return {p.name: given[p.name] for p in params}


def _as_number(p: Param, v: Any) -> Any:
    """A tensor without dimensions where a number is wanted, as PyTorch takes it."""
    if p.kind in ("int", "float", "Scalar") and _is_tensor(v) and v.sizes == ():
        return Number(v.model, v.name, v.dtype, (), v.known)
    return v


def writes(name: str) -> bool:
    """Whether a name is that of an in-place form."""
    plain = name.endswith("_") and not name.startswith("_")
    return plain and not overloads(name) and bool(overloads(name[:-1]))


def bind(
    name: str, args: Sequence[Any], words: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record that a call of a public name means, and its parameters by name.

    Raises:
        NotOnnx: no overload takes these arguments.
    """
    for lenient in (False, True):
        for record in overloads(name):
            found = _bound(record, args, words, lenient)
            if found is not None:
                return record, found
    kinds = ", ".join(type(a).__name__ for a in args)
    raise NotOnnx(
        f"a call of {name} with ({kinds}) and {sorted(words)}, which is none of its forms"
    )


# ---- forms


class _Names(dict[str, Any]):
    """What expressions of records see: parameters, helpers, and operators by name."""

    def __init__(self, g: Builder, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.g = g

    def __missing__(self, name: str) -> Any:
        if name in _HELPERS:
            return functools.partial(_HELPERS[name], self.g)
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name == "result":
            return self.g.result
        if name[:1].isupper():
            return functools.partial(self.g.op, name)
        raise KeyError(name)


_CONSTANTS = {"inf": float("inf"), "nan": float("nan"), "None": None, "float": float, "int": int,
              "bool": weft.bool, "int64": weft.int64, "float32": weft.float32}  # fmt: skip
_HELPERS: dict[str, Callable[..., Any]] = {
    "cast": Builder.cast, "truth": Builder.truth, "reduce": Builder.reduce, "shape": Builder.shape,
    "size": Builder.size, "arange": Builder.arange, "swap": Builder.swap, "full": Builder.full,
    "floating": lambda g, x: x.dtype.is_floating_point,
    "boolean": lambda g, x: x.dtype == weft.bool,
    "sizes": Builder.size_list,
    "form": lambda g, name, **params: apply(g, records()[name], params),
}  # fmt: skip


@functools.cache
def _code(text: str) -> Any:
    return compile(text, f"<onnx: {text}>", "eval")


# Tensors of pointwise records that are asked whether they are true, and keep their dtype.
_TRUTHS = {"condition", "mask"}


def _promoted(g: Builder, record: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """Operands of a pointwise op in the dtype in which it computes."""
    tensors = [
        p.name for p in params_of(record["schema"]) if p.kind == "Tensor" and p.name not in _TRUTHS
    ]
    operands = [params[n] for n in tensors if params[n] is not None]
    if not operands:
        return params
    into = weft_result_type(operands)
    if g.results and g.result.dtype.is_floating_point and not into.is_floating_point:
        into = g.result.dtype
    scalars = [params[p.name] for p in params_of(record["schema"]) if p.kind == "Scalar"]
    if any(isinstance(s, float) for s in scalars) and not into.is_floating_point and g.results:
        into = weft.promote_types(into, g.result.dtype)
    return {
        n: (g.scalar(v, into) if is_number(v) else g.cast(v, into))
        if n in tensors and v is not None
        else v
        for n, v in params.items()
    }


def weft_result_type(values: Sequence[Any]) -> Any:
    """The dtype in which operands meet: as `weft.result_type` of all of them."""
    standins: list[Any] = []
    for v in values:
        if isinstance(v, Number):
            number = {weft.bool: True, weft.int64: 1}.get(v.dtype, 1.0)
            standins.append(number)
        elif isinstance(v, Value):
            dims = v.sizes is None or len(v.sizes)
            standins.append(weft.empty([0] if dims else [], dtype=v.dtype))
        else:
            standins.append(v)
    out = standins[0]
    kinds = [out] if len(standins) == 1 else standins
    if len(kinds) == 1:
        return out.dtype if isinstance(out, weft.Tensor) else weft.result_type(out, out)
    found = weft.result_type(kinds[0], kinds[1])
    for k in range(2, len(kinds)):
        dims = any(isinstance(t, weft.Tensor) and t.dim() for t in kinds[:k])
        found = weft.result_type(weft.empty([0] if dims else [], dtype=found), kinds[k])
    return found


def apply(g: Builder, record: dict[str, Any], params: dict[str, Any]) -> Any:
    """The nodes of a call: one value, or a tuple or list of them.

    Raises:
        NotOnnx: the op has no form, or this call of it has none.
    """
    for p in params_of(record["schema"]):
        params.setdefault(p.name, p.fallback)
    if not has_form(record):
        why = record["no_onnx"] or "ONNX has no such operator"
        raise NotOnnx(f"a call of {record['public_name']}: {why}")
    if record["pointwise"]:
        params = _promoted(g, record, params)
    try:
        if text := record["onnx"]:
            out = eval(_code(text), {"__builtins__": {}}, _Names(g, params))  # noqa: S307
        else:
            out = _functions()[record["name"]].write(g, **params)
    except NotOnnx as error:
        if error.reason.startswith("a call of"):
            raise
        raise type(error)(
            f"a call of {record['public_name']}: {error.reason}", error.hint
        ) from None
    return _as_results(g, out)


def _as_results(g: Builder, out: Any) -> Any:
    """What a form gives, in the dtypes and with the sizes of the op's results."""
    if not g.results:
        return out
    many = isinstance(out, (tuple, list))
    values = list(out) if many else [out]
    made = []
    for v, expected in zip(values, g.results):
        v = g.cast(v, expected.dtype)
        if v.sizes != expected.sizes:
            v = Value(v.model, v.name, v.dtype, expected.sizes, v.known)
        made.append(v)
    return type(out)(made) if many else made[0]


def needs(v: Any, what: str) -> Any:
    """A parameter that an attribute holds.

    Raises:
        NeedsKnown: only a run knows it.
    """
    if isinstance(v, Value):
        if v.known is not None and v.sizes == ():
            return v.known.item()
        raise NeedsKnown(what)
    if isinstance(v, (tuple, list)):
        return [needs(i, what) for i in v]
    return v
