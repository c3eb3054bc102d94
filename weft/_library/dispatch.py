"""Calls of operators that a mode, or a class of tensors, carries out: `__torch_dispatch__`.

Where a `TorchDispatchMode` is entered, the door asks `_answer` about each call (Note [Dispatch],
src/python/dispatch.cpp), forward and backward, and about one of an operand whose class defines
`__torch_dispatch__`: it says which operator of ATen the call is, and has the innermost mode, else
the classes, subclasses first, carry it out, below autograd. A call is what its record's public
name and arguments are in ATen's schemas (`_operator`), another that `_SHOWN` names, or, where
PyTorch has no operator for it, the calls that `_PARTS` makes of it. What is no operator of ATen's
at all is shown as one of the namespace `weft`, under the record's own schema.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft import _C, Tensor
from weft._ops import Bound, OpOverload, OpOverloadPacket, _converted, _Refused
from weft.base.device import CPU, META, new_on_meta
from weft.base.dispatch_modes import ENTERED, entered
from weft.base.schemas import Argument, FunctionSchema, parse_schema
from weft.base.subclasses import dispatches
from weft.utils._pytree import tree_map

__all__: list[str] = []

Words = dict[str, Any]

_REDUCTIONS = ("none", "mean", "sum")


def _answer(record: str, in_place: bool, given: Words) -> tuple[bool, Any]:
    """What the modes make of a call of `record`, by the names of its arguments: whether it was
    carried out as other calls, which are in the graph, and its results."""
    parts = None if in_place else _PARTS.get(record)
    if parts is not None:
        made = parts(**given)
        if made is not NotImplemented:
            return True, made
    public, form = record.partition(".")[0], None if in_place else _SHOWN.get(record)
    name, words, which = (public, given, None) if form is None else form(**given)
    called = _operator(record, name + "_" * in_place, words)
    result = _ask(*called, below=record not in _KEEPING)
    return False, result if which is None else result[which]


def _answer_method(name: str, self: Tensor) -> Any:
    """What the modes make of a method that is no record's: the operator of ATen's of that name."""
    operator = getattr(getattr(weft.ops, "aten"), name).default  # noqa: B009  as in `_overloads`
    return _ask(operator, (self,), {}, below=True)


def _ask(operator: OpOverload, args: tuple[Any, ...], kwargs: Words, below: bool) -> Any:
    """What the innermost mode makes of a call, in which the outer ones are entered, else the
    classes of the arguments.

    Raises: TypeError: none of them has an answer."""
    tried, modes, asked = [], ENTERED.get(), _asked(args, kwargs)
    types = tuple(type(a) for a in asked)
    if modes:
        with entered(modes[:-1], below=below):
            result = modes[-1].__torch_dispatch__(operator, types, args, kwargs)
        if result is not NotImplemented:
            return result
        tried.append(f"mode object {modes[-1]!r}")
    for a in asked:
        asked_class: Any = type(a)
        with entered(modes, below=below):
            result = asked_class.__torch_dispatch__(operator, types, args, kwargs)
        if result is not NotImplemented:
            return result
        tried.append(f"tensor subclass {type(a)!r}")
    raise TypeError(
        f"Multiple dispatch failed for '{operator}'; all __torch_dispatch__ handlers returned "
        "NotImplemented:" + "".join(f"\n\n  - {name}" for name in tried)
    )


def _asked(args: tuple[Any, ...], kwargs: Words) -> tuple[Tensor, ...]:
    """One argument of each class that is asked, subclasses before what they derive from."""
    found: list[Tensor] = []
    for value in (*args, *kwargs.values()):
        for a in value if isinstance(value, (list, tuple)) else (value,):
            if not dispatches(type(a)) or any(type(a) is type(known) for known in found):
                continue
            at = (k for k, known in enumerate(found) if issubclass(type(a), type(known)))
            found.insert(next(at, len(found)), a)
    return tuple(found)


def _run_plain(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`Tensor.__torch_dispatch__`: the operator of the tensors without their class."""

    def plain(value: Any) -> Any:
        return _C._plain(value) if dispatches(type(value)) else value

    args, kwargs = tree_map(plain, (tuple(args), kwargs or {}))
    return func(*args, **kwargs)


# ---- the operator of a call, and its arguments


def _operator(record: str, name: str, words: Words) -> tuple[OpOverload, tuple[Any, ...], Words]:
    """The overload of ATen's that takes these arguments, else weft's own, and the arguments as
    PyTorch hands them on: those that are as they are when left out are left out."""
    overloads = _overloads(name)
    for numbers in (False, True):
        for overload in overloads:
            as_tensors = numbers or overload.__name__ in _TAKE_NUMBERS
            bound = _bound(overload._schema, words, as_tensors)
            if bound is not None:
                return overload, *_trimmed(overload._schema, bound)
    own = _own(record, name)
    bound = _bound(own._schema, words, True)
    assert bound is not None, record
    return own, *_trimmed(own._schema, bound)


#: Overloads that take a number in place of their second tensor where others would take it too.
_TAKE_NUMBERS = {f"{n}{form}.Tensor" for n in ("add", "sub", "mul", "div") for form in ("", "_")}
#: Names of weft's arguments that are others in ATen's schemas.
_OTHER_NAMES = {"input": "self", "grad": "grad_output"}


@functools.cache
def _overloads(name: str) -> tuple[OpOverload, ...]:
    """Those of ATen's, the ones in `_TAKE_NUMBERS` first."""
    packet = getattr(getattr(weft.ops, "aten"), name, None)  # noqa: B009  found by `__getattr__`
    found = () if packet is None else packet._overloads.values()
    return tuple(sorted(found, key=lambda overload: overload.__name__ not in _TAKE_NUMBERS))


def _value(a: Argument, value: Any, numbers: bool) -> Any:
    if isinstance(value, str) and a.type.base() == "int" and value in _REDUCTIONS:
        value = _REDUCTIONS.index(value)
    if isinstance(value, Tensor) and a.type.base() == "Scalar":
        raise _Refused  # another overload takes tensors
    return _converted(value, a.type, a.N, numbers)


def _bound(schema: FunctionSchema, words: Words, numbers: bool) -> Words | None:
    """The arguments as the schema has them; None if it is another's. With `numbers`, a number may
    stand for a tensor."""
    known = {a.name for a in schema.arguments}
    words = {k if k in known else _OTHER_NAMES.get(k, k): v for k, v in words.items()}
    if any(key not in known and not _is_nothing(value) for key, value in words.items()):
        return None
    bound: Words = {}
    try:
        for a in schema.arguments:
            if a.name in words and not (words[a.name] is None and a.has_default):
                bound[a.name] = _value(a, words[a.name], numbers)
            elif not a.has_default:
                return None
    except _Refused:
        return None
    return bound | _place(schema, bound)


def _place(schema: FunctionSchema, bound: Words) -> Words:
    """Where the result of a factory lies, which PyTorch says of those without an operand."""
    if not any(a.name == "device" for a in schema.arguments):
        return {}
    like = next((value for value in bound.values() if isinstance(value, Tensor)), None)
    if like is None or (like.is_meta and not new_on_meta()):
        return {"device": META if new_on_meta() else CPU, "pin_memory": False}
    return {}


def _is_nothing(value: Any) -> bool:
    return value is None or value is False


def _is_default(a: Argument, bound: Words) -> bool:
    if a.name not in bound:
        return True
    value = bound[a.name]
    return a.has_default and not isinstance(value, Tensor) and bool(value == a.default_value)


def _trimmed(schema: FunctionSchema, bound: Words) -> tuple[tuple[Any, ...], Words]:
    placed = [a for a in schema.arguments if not a.kwarg_only]
    while placed and _is_default(placed[-1], bound):
        placed.pop()
    args = tuple([bound.get(a.name, a.default_value) for a in placed])
    named = [a for a in schema.arguments if a.kwarg_only and not _is_default(a, bound)]
    return args, {a.name: bound[a.name] for a in named}


# ---- operators that are weft's own


@functools.cache
def _schemas() -> dict[str, str]:
    return {r["name"]: r["schema"] for r in _C._records()}


@functools.cache
def _own(record: str, name: str) -> OpOverload:
    """The operator `weft::name` of a record."""
    schema = _schemas()[record].replace("dtype?", "ScalarType?").replace(" dtype ", " ScalarType ")
    rest = schema[schema.index("(") :].replace("'", '"').replace("Tensor[]?", "Tensor?[]")
    if name.endswith("_"):
        rest = rest.replace("(Tensor self", "(Tensor(a!) self", 1)
    packet = OpOverloadPacket("weft", name)
    _, _, overload = record.partition(".")
    text = f"weft::{name}{'.' * bool(overload)}{overload}{rest}"
    return packet.add(parse_schema(text), functools.partial(_run_own, name))


def _run_own(name: str, bound: Bound) -> Any:
    if name.endswith("_"):
        return getattr(Tensor, name)(*bound.args, **bound.kwargs)
    function = getattr(_C.ops, name, None) or getattr(_C, name)
    return function(*bound.args, **bound.kwargs)


# ---- records that are other operators of ATen's, or several calls


def _product(self: Tensor, other: Tensor) -> tuple[str, Words, int | None]:
    name = {(1, 1): "dot", (2, 1): "mv", (2, 2): "mm", (3, 3): "bmm"}[self.dim(), other.dim()]
    second = {"dot": "tensor", "mv": "vec"}.get(name, "mat2")
    return name, {"self": self, second: other}, None


def _matmul(self: Tensor, other: Tensor) -> Any:
    """Products of more dimensions as one of matrices, or of a batch of them."""
    dims = self.dim(), other.dim()
    if dims in ((1, 1), (2, 1), (2, 2)) or (dims == (3, 3) and self.shape[0] == other.shape[0]):
        return NotImplemented
    if self.dim() == 1:
        return weft.matmul(self.unsqueeze(0), other).squeeze(-2)
    if other.dim() <= 2:
        out = weft.matmul(self.reshape(-1, self.shape[-1]), other)
        return out.view(*self.shape[:-1], *other.shape[1:])
    batch = weft.broadcast_shapes(self.shape[:-2], other.shape[:-2])
    a, b = (t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (self, other))
    return weft.bmm(a, b).view(*batch, self.shape[-2], other.shape[-1])


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    if weight.dim() != 2 or input.dim() == 1:
        out = weft.matmul(input, weight.t() if weight.dim() == 2 else weight)
        return out if bias is None else out + bias
    if bias is None:
        return weft.matmul(input, weight.t())
    if input.dim() == 2:
        return weft.addmm(bias, input, weight.t())
    flat = input.reshape(-1, input.shape[-1])
    return weft.addmm(bias, flat, weight.t()).view(*input.shape[:-1], weight.shape[0])


def _cross_entropy(input: Tensor, target: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
    dim = 0 if input.dim() == 1 else 1
    loss = weft.nn.functional.nll_loss(weft.log_softmax(input, dim), target, **given)
    with entered((), below=True):  # PyTorch has no such result
        return loss, input.logsumexp(dim)


def _spread(self: Tensor, dim: Any, keepdim: bool, size: Any) -> Tensor:
    """The gradient of a sum."""
    dims = [dim] if isinstance(dim, int) else dim
    if not keepdim and 0 < self.dim() < len(size):
        for d in sorted(d % len(size) for d in dims or range(len(size))):
            self = self.unsqueeze(d)
    return self.expand(size)


def _normalized(name: str) -> Callable[..., tuple[str, Words, int | None]]:
    def form(self: Tensor, dim: int, dtype: Any) -> tuple[str, Words, int | None]:
        x = self if dtype is None else self.to(dtype)
        return name, {"self": x, "dim": dim, "half_to_float": False}, None

    return form


def _normalized_backward(name: str) -> Callable[..., tuple[str, Words, int | None]]:
    def form(grad_output: Tensor, **given: Any) -> tuple[str, Words, int | None]:
        given |= {"grad_output": grad_output, "input_dtype": grad_output.dtype}
        return name, given, None

    return form


def _convolution(input: Tensor, **given: Any) -> tuple[str, Words, int | None]:
    """With a number for each dimension."""
    n = input.dim() - 2
    wide = {k: list(v) * n if len(v) == 1 else v for k, v in given.items() if k in _BY_DIMENSION}
    return "convolution", {"input": input, **given, **wide}, None


_BY_DIMENSION = ("stride", "padding", "dilation", "output_padding")


def _convolution_weight(
    input: Tensor, grad: Tensor, kernel_size: Any, groups: int, **given: Any
) -> tuple[str, Words, int | None]:
    """The gradient of a weight, which does not depend on the weight: that is shown on meta."""
    size = (grad.shape[1], input.shape[1] // groups, *kernel_size)
    with entered(()):
        weight = weft.empty(size, dtype=input.dtype, device="meta")
    words = {
        "grad_output": grad, "input": input, "bias_sizes": None, "groups": groups, **given,
        "weight": weight, "transposed": False,
        "output_padding": [0] * len(kernel_size), "output_mask": [False, True, False],
    }  # fmt: skip
    return "convolution_backward", words, 1


#: By record: the operator, its arguments, and which of its results the call has, if not all.
_SHOWN: dict[str, Callable[..., tuple[str, Words, int | None]]] = {
    "matmul": _product,
    "softmax": _normalized("_softmax"),
    "log_softmax": _normalized("_log_softmax"),
    "nll_loss": lambda **given: ("nll_loss_forward", given, 0),
    "_softmax_backward_data": _normalized_backward("_softmax_backward_data"),
    "_log_softmax_backward_data": _normalized_backward("_log_softmax_backward_data"),
    "convolution": _convolution,
    "_convolution_weight": _convolution_weight,
    "max_pool2d": lambda **given: ("max_pool2d_with_indices", given, 0),
    "max_pool3d": lambda **given: ("max_pool3d_with_indices", given, 0),
}
#: Records whose kernels keep what backward reads where the call is recorded: theirs are, and what
#: is recorded so is not used.
_KEEPING = {"_gru_gates", "_lstm_cell", "_lstm_gates", "_rnn_sequence", "_rnn_sequences"}
#: By record: the calls that stand for it, or NotImplemented.
_PARTS: dict[str, Callable[..., Any]] = {
    "linear": _linear,
    "matmul": _matmul,
    "_cross_entropy": _cross_entropy,
    "rdiv": lambda self, other: self.reciprocal() * other,
    "_spread": _spread,
}
