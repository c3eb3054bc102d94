"""Library-backed ops: forward by NumPy or SciPy, gradient an expression over weft's ops.

Note [Library-backed ops]
Such an op is a record in Python, written where its family lies:

    @library_op("linalg_det(Tensor A) -> Tensor", gradient=_det, samples=["f(T(3, 3))"])
    def det(A):
        \"\"\"...\"\"\"
        return np.linalg.det(A)

The decorated function sees NumPy arrays over the tensors' memory and returns arrays. `gradient(g)`
gives one gradient per tensor of the call, or None; it reads those of `g.inputs` and `g.outputs`
that the record saves, `g.grads` and `g.options`, and being made of ops it can be differentiated
again. `layout(*tensors, **options)` says what it gives for tensors on the meta device, a `Layout`
for each result; an op without one raises for them. `records()` lists the table's records and these
alike, for the laws, docs/ops.md and `weft.tools.where`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast, overload

from weft import _C
from weft._C import Tensor
from weft.autograd.function import FunctionCtx
from weft.base.mapping import one_by_one
from weft.base.modes import AUTOCAST, MAP, TRACE, WATCH, no_grad

R = TypeVar("R")

_RECORDS: list[dict[str, Any]] = []
_CALLS: dict[str, Callable[..., Any]] = {}  # by the name of the record
#: Ops that a library computed once, with their records in the table.
_NOW_IN_TABLE = {
    **{
        f"linalg_{name}": f"linalg_{name}"
        for name in (
            "cholesky_ex", "det", "eig", "eigh", "inv_ex", "ldl_factor_ex", "lu_factor_ex",
            "matrix_exp", "pinv", "qr", "slogdet", "solve_ex", "solve_triangular", "svd",
        )
    },
    "cholesky_solve": "_cholesky_solve",
}  # fmt: skip
_NARROW = (_C.float16, _C.bfloat16)
_COMPUTED = (_C.float32, _C.float64, _C.complex64, _C.complex128)


class Layout(NamedTuple):
    """What is known of a tensor that was not saved, or will be made."""

    shape: Any
    dtype: Any

    def dim(self) -> int:
        return len(self.shape)

    def is_complex(self) -> bool:
        return bool(self.dtype.is_complex)


class Gradients(NamedTuple):
    """What a gradient rule sees; of the tensors that its record does not save, the `Layout`."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    grads: tuple[Any, ...]  #: of the outputs; None where none flows
    options: dict[str, Any]


def records() -> list[dict[str, Any]]:
    """A dictionary for every record: those of the table, then those of the libraries."""
    return [*_C._records(), *_RECORDS]


def op_named(name: str) -> Callable[..., Any] | None:
    """The op whose record has a name, for programs that were loaded; None: there is none.

    Files that are older than the core's records of linear algebra name those so, too.

    >>> weft._library_ops.op_named("linalg_det")(weft.eye(2))
    tensor(1.)
    """
    if name in _NOW_IN_TABLE:
        return cast("Callable[..., Any]", getattr(_C.ops, _NOW_IN_TABLE[name]))
    return _CALLS.get(name)


@overload
def library_op(
    schema: str,
    *,
    gradient: Callable[[Gradients], Any] | None = ...,
    saves: Sequence[str] | None = ...,
    samples: Sequence[str] = ...,
    node: str | None = ...,
    peer: str | None = ...,
    autocast: bool = ...,
    layout: Callable[..., Any] | None = ...,
    onnx: str = ...,
) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]: ...
@overload
def library_op(
    schema: str,
    *,
    gradient: Callable[[Gradients], Any] | None = ...,
    saves: Sequence[str] | None = ...,
    samples: Sequence[str] = ...,
    node: str | None = ...,
    peer: str | None = ...,
    results: Callable[..., R],
    autocast: bool = ...,
    layout: Callable[..., Any] | None = ...,
    onnx: str = ...,
) -> Callable[[Callable[..., Any]], Callable[..., R]]: ...
def library_op(
    schema: str,
    *,
    gradient: Callable[[Gradients], Any] | None = None,
    saves: Sequence[str] | None = None,
    samples: Sequence[str] = (),
    node: str | None = None,
    peer: str | None = None,
    results: Callable[..., Any] | None = None,
    autocast: bool = False,
    layout: Callable[..., Any] | None = None,
    onnx: str = "",
) -> Any:
    """Make an op of a function over NumPy arrays.

    Args:
        schema: name, arguments and results. Tensors come first; all others are passed by keyword.
        gradient: the rule; without one the op is not differentiable.
        saves: names of the arguments and results that the rule reads (one result without a name
            is "result"), which must not be written before backward; by default all arguments.
        samples: calls for the laws, as in a record of the table.
        node: the name of its nodes; by default that of the op in PyTorch's way.
        peer: PyTorch's dotted name, by default that of the op with a dot for its `linalg_`,
            `special_` or `fft_`.
        results: makes one value of several outputs, such as a named tuple.
        autocast: whether autocast runs it in float32, as Cast::Float in the table.
        layout: gives the `Layout` of the result, or a tuple of them, from those of the tensors.
        onnx: the op in ONNX's operators, as in a record of the table.
    """
    name = schema[: schema.index("(")]
    before, _, after = schema.partition("->")
    tensors_in = re.findall(r"Tensor (\w+)", before)
    tensors_out = re.findall(r"Tensor (\w+)", after) or ["result"]
    chosen = tensors_in if saves is None else saves
    kept = [n in chosen for n in tensors_in + tensors_out]
    public_name = peer or _public_name(name)
    node_name = node or "".join(part.capitalize() for part in name.split("_")) + "Backward0"

    def decorate(forward: Callable[..., Any]) -> Callable[..., Any]:
        given = forward.__defaults__ or ()
        names = forward.__code__.co_varnames[: forward.__code__.co_argcount]
        defaults = dict(zip(names[len(names) - len(given) :], given))

        def call(*tensors: Any, **options: Any) -> Any:
            mode = _C._mode()
            if layout is None and _any_meta(tensors):
                raise NotImplementedError(
                    f"[{public_name}] expected operands with values, got a meta tensor "
                    f"(aten::{name}: attempted to run this operator with Meta tensors, but there "
                    "was no fake impl or Meta kernel registered.)"
                )
            if mode & TRACE and (recording := _C._recording()) is not None:
                return recording.whole(call, tensors, options)
            if mode & MAP and (mapped := one_by_one(call, tensors, options)) is not None:
                return mapped
            if autocast and mode & AUTOCAST:
                tensors = tuple([t.float() if t.dtype in _NARROW else t for t in tensors])
            if mode & WATCH:
                return _C._within("call", public_name, run, *tensors, **options)
            return run(*tensors, **options)

        def run(*tensors: Any, **options: Any) -> Any:
            if layout is not None and _any_meta(tensors):
                _expect_all_meta(public_name, tensors)
                made = layout(*tensors, **defaults | options)
            else:
                made = _computed(name, forward, tensors, options)
            single = isinstance(made, Layout) or not isinstance(made, tuple)
            outputs = tuple(_tensor(a) for a in ((made,) if single else made))
            if gradient is not None and any(t.requires_grad for t in tensors):
                outputs = _record(
                    node_name, gradient, kept, tensors, outputs, {**defaults, **options}
                )
            if single:
                return outputs[0]
            return outputs if results is None else results(*outputs)

        call.__name__ = call.__qualname__ = name
        call.__doc__ = forward.__doc__
        call.__wrapped__ = forward  # type: ignore[attr-defined]
        code = forward.__code__
        call.record = {  # type: ignore[attr-defined]
            "name": name,
            "public_name": public_name,
            "schema": schema,
            "doc": forward.__doc__ or "",
            "file": "weft/" + code.co_filename.rpartition("/weft/")[2],
            "line": code.co_firstlineno,
            "differentiable": gradient is not None,
            "node_name": node_name,
            "samples": list(samples),
            "laid_out": layout is not None,
            "call": call,
            "onnx": onnx,
            **_PLAIN,
            "aliases": [],
        }
        _RECORDS.append(call.record)  # type: ignore[attr-defined]
        _CALLS[name] = call
        return call

    return decorate


# What the fields of a record in the table are where it says nothing.
_PLAIN = {
    **dict.fromkeys(
        (
            "composite",
            "view",
            "inplace",
            "function",
            "method",
            "out_form",
            "random",
            "pointwise",
            "number_self",
        ),
        False,
    ),
    "reads": True,
    "batch": "none",
    "version": 1,
    "in_packages": False,
    "no_onnx": "",
    "parameter_aliases": {},
}


def _public_name(name: str) -> str:
    family, _, rest = name.partition("_")
    return f"{family}.{rest}" if family in ("linalg", "special", "fft") else name


def _computed(
    name: str, forward: Callable[..., Any], tensors: tuple[Tensor, ...], options: dict[str, Any]
) -> Any:
    """What `forward` makes of the tensors' arrays: one array or a tuple of them."""
    for t in tensors:
        if t.dtype not in _COMPUTED and (t.is_floating_point() or t.is_complex()):
            raise NotImplementedError(
                f"[{name}] expected float32, float64 or complex numbers, got {t.dtype}. "
                "Hint: convert with .float() first"
            )
    with no_grad():
        arrays = [t.detach().numpy() for t in tensors]
        try:
            return forward(*arrays, **options)
        except MemoryError as error:  # NumPy's, for PyTorch's
            raise RuntimeError(f"[{name}] expected room for arrays: {error}") from None


def _expect_all_meta(who: str, tensors: Sequence[Any]) -> None:
    if not all(t.is_meta for t in tensors):
        raise RuntimeError(
            f"[{who}] expected operands on one device, got some on meta and some on the CPU "
            "(Expected all tensors to be on the same device, but found at least two devices, meta "
            "and cpu!)"
        )


def _any_meta(tensors: tuple[Any, ...]) -> bool:
    return any(isinstance(t, Tensor) and t.is_meta for t in tensors)


def layout_of(*layouts: tuple[Any, Any]) -> Any:
    """`Layout`s of pairs of a shape and a dtype: one, or a tuple."""
    made = tuple(Layout(tuple(shape), kind) for shape, kind in layouts)
    return made[0] if len(made) == 1 else made


def like_first(first: Tensor, *others: Tensor, **options: Any) -> Any:
    """The `layout` of ops whose result is laid out as their first tensor."""
    return layout_of((first.shape, first.dtype))


def _tensor(array: Any) -> Tensor:
    """The tensor over an array; of a `Layout`, one on the meta device."""
    if isinstance(array, Layout):
        return _C.empty(array.shape, dtype=array.dtype, device="meta")
    import numpy as np

    return _C._sharing(np.require(array, requirements=("C", "W")))


def _record(
    name: str,
    gradient: Callable[[Gradients], Any],
    kept: list[bool],
    tensors: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    options: dict[str, Any],
) -> tuple[Tensor, ...]:
    inputs, wanted = len(tensors), [t.requires_grad for t in tensors]
    every = (*tensors, *outputs)
    layouts = [None if keep else Layout(t.shape, t.dtype) for keep, t in zip(kept, every)]

    def backward(ctx: Any, *grads: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        if all(g is None for g in grads):
            return (None,) * inputs
        known = tuple(next(saved) if layout is None else layout for layout in layouts)
        found = gradient(Gradients(known[:inputs], known[inputs:], grads, options))
        found = found if isinstance(found, tuple) else (found,)
        return tuple(g if want else None for g, want in zip(found, wanted))

    whole = tuple(t for t in outputs if not (t.is_floating_point() or t.is_complex()))
    saved = tuple(t for keep, t in zip(kept, every) if keep)
    recorded: tuple[Tensor, ...] = _C._record_function(
        FunctionCtx(), backward, name, tensors, outputs, saved, (), whole, False
    )
    return recorded
