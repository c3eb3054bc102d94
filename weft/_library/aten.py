"""`torch.ops.aten`: weft's functions under the names, overloads and arguments of ATen.

`aten_schemas.txt` lists the overloads that there are, one schema to a line; tools/make_aten.py
writes it: those of PyTorch whose calls weft answers with the same values. A line's function is
found by its name (`_function`); where its arguments are not those of weft's function, `_FORMS` says
how one is called with the other's.

>>> weft.ops.aten.mm.default._schema
aten::mm(Tensor self, Tensor mat2) -> Tensor
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable
from typing import Any

import weft
import weft.nn.functional_native as functional_native  # hidden from `from weft.nn import`
from weft import _C, Tensor
from weft._ops import Bound, OpOverloadPacket
from weft.base import lazy
from weft.base.schemas import Argument, FunctionSchema, parse_schema
from weft.nn import functional as F  # noqa: N812

__all__ = ["names", "packet", "runner"]

_FILE = os.path.join(os.path.dirname(__file__), "aten_schemas.txt")
#: Operators that programs do not call themselves: modes of operators see them, most in backward.
_INNER_FILE = os.path.join(os.path.dirname(__file__), "aten_inner_schemas.txt")
_REDUCTIONS = ("none", "mean", "sum")


def _conv(x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
          output_padding: Any, groups: int) -> Any:  # fmt: skip
    n = x.dim() - 2
    if transposed:
        call = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
        return call(x, w, b, stride, padding, output_padding, groups, dilation)
    return (F.conv1d, F.conv2d, F.conv3d)[n - 1](x, w, b, stride, padding, dilation, groups)


def _to_copy(x: Any, *, dtype: Any = None, memory_format: Any = None, **where: Any) -> Any:
    kept = weft.preserve_format if memory_format is None else memory_format
    return x.to(x.dtype if dtype is None else dtype, copy=True, memory_format=kept)


def _convolution_backward(
    grad: Any, x: Any, w: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, mask: Any,
) -> Any:  # fmt: skip
    kernel, of_x, of_w = list(w.shape[2:]), None, None
    if mask[0] and transposed:
        of_x = _conv(grad, w, None, stride, padding, dilation, False, None, groups)
    elif mask[0]:
        reached = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(grad.shape[2:], stride, padding, dilation, kernel)
        ]
        rest = [n - m for n, m in zip(x.shape[2:], reached)]
        of_x = _conv(grad, w, None, stride, padding, dilation, True, rest, groups)
    if mask[1]:
        pair = (grad, x) if transposed else (x, grad)
        of_w = _C.ops._convolution_weight(*pair, kernel, stride, padding, dilation, groups)
    return of_x, of_w, grad.sum([0, *range(2, grad.dim())]) if mask[2] else None


def _nll_loss_forward(x: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    loss = F.nll_loss(x, target, weight, ignore_index=ignore_index, reduction=reduction)
    counted = target != ignore_index
    each = counted.to(x.dtype) if weight is None else weight[target * counted] * counted
    return loss, each.sum() if reduction != "none" else x.new_zeros(())


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if any(i is None for i in indices):  # a dimension that is kept
        return _C.ops.index_put(x, values, indices, accumulate)
    return weft.index_put(x, indices, values, accumulate)


#: By the name of the operator: weft's call with ATen's arguments.
_FORMS: dict[str, Callable[..., Any]] = {
    "_softmax": lambda x, dim, half_to_float: x.softmax(dim),
    "_log_softmax": lambda x, dim, half_to_float: x.log_softmax(dim),
    "_to_copy": _to_copy,
    "_unsafe_view": lambda x, size: x.reshape(size),
    "alias": lambda x: x.view_as(x),
    "lift_fresh": lambda x: x,
    "convolution": _conv,
    "convolution_backward": _convolution_backward,
    "nll_loss_forward": _nll_loss_forward,
    "_softmax_backward_data": lambda g, y, dim, of: _C.ops._softmax_backward_data(g, y, dim),
    "_log_softmax_backward_data": lambda g, y, dim, of: _C.ops._log_softmax_backward_data(
        g, y, dim
    ),
    "max_pool2d_with_indices": lambda x, *a, **k: F.max_pool2d(x, *a, **k, return_indices=True),
    "max_pool3d_with_indices": lambda x, *a, **k: F.max_pool3d(x, *a, **k, return_indices=True),
    "index": lambda x, indices: x[tuple(slice(None) if i is None else i for i in indices)],
    "index_put": _index_put,
    "slice": lambda x, dim=0, start=None, end=None, step=1: x[
        (slice(None),) * (dim % x.dim()) + (slice(start, end, step),)
    ],
    "_reshape_alias": lambda x, size, stride: x.as_strided(size, stride),
    "where": lambda c, *values: weft.where(c, *values),
    "_sparse_addmm": lambda x, *mats, **factors: weft.sparse.addmm(x, *mats, **factors),
    "_sparse_mm_reduce_impl": lambda *mats: weft.sparse.products.mm_reduce(*mats),
    "scalar_tensor": lambda s, **how: weft.tensor(
        s, dtype=how.get("dtype") or weft.float32, device=how.get("device")
    ),
    "rsub": lambda x, other, alpha=1: weft.rsub(x, other, alpha=alpha),
    "constant_pad_nd": lambda x, pad, value=0: F.pad(x, pad, "constant", value),
    "reflection_pad1d": lambda x, pad: F.pad(x, pad, "reflect"),
    "reflection_pad2d": lambda x, pad: F.pad(x, pad, "reflect"),
    "reflection_pad3d": lambda x, pad: F.pad(x, pad, "reflect"),
    "replication_pad1d": lambda x, pad: F.pad(x, pad, "replicate"),
    "replication_pad2d": lambda x, pad: F.pad(x, pad, "replicate"),
    "replication_pad3d": lambda x, pad: F.pad(x, pad, "replicate"),
    "_adaptive_avg_pool2d": lambda x, size: F.adaptive_avg_pool2d(x, size),
    "_adaptive_avg_pool3d": lambda x, size: F.adaptive_avg_pool3d(x, size),
    "_pin_memory": lambda x, device=None: x.pin_memory(),
    "_local_scalar_dense": lambda x: x.item(),
    "broadcast_tensors": lambda tensors: weft.broadcast_tensors(*tensors),
    "block_diag": lambda tensors: weft.block_diag(*tensors),
    "cartesian_prod": lambda tensors: weft.cartesian_prod(*tensors),
    "cross_entropy_loss": F.cross_entropy,
    "log_sigmoid": F.logsigmoid,
    "im2col": lambda x, size, *a: F.unfold(x, size, *a),
    "to": lambda x, what, *more, **how: x.to(what, *more, **how),
    **{name: operator.attrgetter(name) for name in ("mT", "mH", "real", "imag")},
    "numpy_T": operator.attrgetter("T"),
    "matrix_H": operator.attrgetter("H"),
}


def _resized(mode: str, corners: bool) -> Callable[..., Any]:
    """One of the operators `upsample_*`, by the size or, where that is None, by factors."""

    def resize(x: Any, size: Any, *given: Any, **scales: Any) -> Any:
        words = {"align_corners": given[0]} if corners else {}
        rest = given[1:] if corners else given
        listed = rest[0] if rest and isinstance(rest[0], list) else None
        factors = listed or [f for f in (*rest, *scales.values()) if f is not None] or None
        if size is not None:
            return F.interpolate(x, size, mode=mode, **words)
        return F.interpolate(x, scale_factor=factors, mode=mode, **words)

    return resize


for _name, _mode, _corners in (
    ("upsample_nearest1d", "nearest", False), ("upsample_nearest2d", "nearest", False),
    ("upsample_nearest3d", "nearest", False), ("upsample_linear1d", "linear", True),
    ("_upsample_nearest_exact1d", "nearest-exact", False),
    ("_upsample_nearest_exact2d", "nearest-exact", False),
    ("_upsample_nearest_exact3d", "nearest-exact", False),
    ("upsample_bilinear2d", "bilinear", True), ("upsample_bicubic2d", "bicubic", True),
    ("upsample_trilinear3d", "trilinear", True),
):  # fmt: skip
    _FORMS[_name] = _resized(_mode, _corners)


def _function(name: str) -> Callable[..., Any] | None:
    """weft's function or method for an operator; None if there is none."""
    if name in _FORMS:
        return _FORMS[name]
    if name in functional_native.__all__:
        return getattr(functional_native, name)  # type: ignore[no-any-return]
    for family in ("linalg", "fft", "special"):
        if name.startswith(family + "_"):
            found = getattr(getattr(weft, family), name[len(family) + 1 :], None)
            return found
    if name.endswith("_") and not name.endswith("__"):
        return getattr(Tensor, name, None)
    if name in lazy.NAMES:  # among weft's own only once it was asked for
        getattr(weft, name)
    # Methods of records go before weft's functions: `view` of a tensor is not `weft.view`.
    recorded = isinstance(vars(Tensor).get(name), type(vars(Tensor)["view"]))
    for space in (_C, Tensor, weft, F, _C.ops) if recorded else (_C, weft, Tensor, F, _C.ops):
        found = vars(space).get(name)
        if callable(found) and not isinstance(found, type):
            return found  # type: ignore[no-any-return]
    return None


def _given(a: Argument, value: Any) -> Any:
    """A value of ATen's argument as weft's function takes it."""
    if a.name == "reduction" and isinstance(value, int):
        return _REDUCTIONS[value]
    return value


def runner(schema: FunctionSchema) -> Callable[[Bound], Any] | None:
    """What calls weft's function by ATen's arguments; None if there is no function."""
    name = schema.name.partition("::")[2]
    function = _function(name)
    if function is None:
        return None
    as_given = name in functional_native.__all__  # those take ATen's arguments
    positional = [a for a in schema.arguments if not a.kwarg_only]
    named = {a.name: a for a in schema.arguments}

    def run(bound: Bound) -> Any:
        args, words = [], {}
        for a, value in [*zip(positional, bound.args, strict=True), *_named(bound, named)]:
            if as_given:
                args.append(value)
            elif not a.has_default and not a.kwarg_only:
                args.append(_given(a, value))
            elif not _is_default(a, value):
                words[a.name] = _given(a, value)
        result = function(*args, **words)
        return list(result) if schema.returns and _is_list(schema) else result

    return run


def _named(bound: Bound, named: dict[str, Argument]) -> list[tuple[Argument, Any]]:
    return [(named[k], v) for k, v in bound.kwargs.items()]


def _is_default(a: Argument, value: Any) -> bool:
    if not a.has_default or isinstance(value, Tensor):
        return False
    return type(value) is type(a.default_value) and bool(value == a.default_value)


def _is_list(schema: FunctionSchema) -> bool:
    return len(schema.returns) == 1 and schema.returns[0].type.word == "List"


@functools.cache
def _schemas() -> dict[str, list[str]]:
    """The lines of the table by the names of operators."""
    found: dict[str, list[str]] = {}
    for path in (_FILE, _INNER_FILE):
        with open(path, encoding="utf-8") as file:
            for line in file:
                name = line.partition("(")[0].partition(".")[0]
                found.setdefault(name, []).append(line.strip())
    return found


def names() -> list[str]:
    """The names of the operators."""
    return [*_schemas()]


def packet(name: str) -> OpOverloadPacket | None:
    """All overloads of a name; None if there is none."""
    lines = _schemas().get(name)
    if lines is None:
        return None
    made = OpOverloadPacket("aten", name)
    for line in lines:
        schema = parse_schema("aten::" + line)
        run = runner(schema)
        assert run is not None, line
        made.add(schema, run)
    return made
