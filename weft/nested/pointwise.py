"""Rules of functions that make each element of those at its place, and of those that keep rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import _C, Tensor
from weft.nested.parts import mapped, whole
from weft.nested.sizes import NestedInt
from weft.nested.tensor import NestedTensor, like, nested, raw

__all__ = ["TABLE", "beside", "elementwise"]


def _fails(name: str, a: Any, b: Any) -> RuntimeError:
    left, right = (tuple(t.shape) if isinstance(t, NestedTensor) else t.shape for t in (a, b))
    return RuntimeError(
        f"[{name}] expected operands that broadcast, got {left} and {right} (cannot call binary "
        f"pointwise function {name} with inputs of shapes {left} and {right})"
    )


def beside(x: NestedTensor, other: Any, name: str) -> Any:
    """What stands for `other` where the values of `x` stand for `x`: the same number of rows."""
    if other is x:
        return x
    if isinstance(other, NestedInt):
        raise RuntimeError(
            f"[{name}] expected numbers and tensors, got the size {other} of a ragged dimension "
            f"(NestedTensor {name}: invalid argument {other})"
        )
    if not isinstance(other, Tensor):
        return other
    if isinstance(other, NestedTensor):
        return _beside_nested(x, other, name)
    if other.dim() > x.dim():
        raise NotImplementedError(
            f"[{name}] expected at most {x.dim()} dimensions beside a nested tensor, got "
            f"{other.dim()} (NYI: broadcasting NT with T with larger dim)"
        )
    few = other
    while few.dim() and few.shape[0] == 1:
        few = few.squeeze(0)
    if few.dim() + 2 <= x.dim() and few.dim() < x.dim() - x._ragged_idx:
        return few
    if other.dim() != x.dim() or other.shape[0] != x._jagged.parts:
        raise _fails(name, x, other)
    return _rows_of_dense(x, other, name)


def _beside_nested(x: NestedTensor, other: NestedTensor, name: str) -> NestedTensor:
    r = x._ragged_idx
    a, b = raw(lambda: (tuple(x.shape), tuple(other.shape)))
    same = other._ragged_idx == r and x._jagged.size == other._jagged.size
    if not same or len(a) != len(b) or a[:r] != b[:r]:
        raise _fails(name, x, other)
    return other


def _rows_of_dense(x: NestedTensor, dense: Tensor, name: str) -> Tensor:
    """Of `(batch, 1, ...)` each part's row for all its rows; of `(batch, longest, ...)` the first
    ones of each part."""
    jagged, d = x._jagged, x._ragged_idx
    if not jagged.is_whole(raw(lambda: x.shape[d - 1])):
        raise _fails(name, x, dense)
    places = jagged.part_of_row
    if dense.shape[d] == 1:
        picked = dense.squeeze(d).index_select(0, places)
    elif dense.shape[d] >= jagged.longest():
        picked = dense.movedim(d, 1)[places, jagged.place_in_part]
    else:
        raise _fails(name, x, dense)
    return picked.movedim(0, d - 1)


def elementwise(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A pointwise function, by the values."""
    name = func.__name__
    operands = [a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor)]
    x = operands[0]
    given = [beside(x, a, name) for a in args]
    named = {k: beside(x, a, name) for k, a in kwargs.items()}
    return _all_like(x, raw(lambda: func(*given, **named)))


def _all_like(x: NestedTensor, result: Any) -> Any:
    return mapped(result, lambda t: like(x, t)) if isinstance(result, (Tensor, tuple)) else result


def _by_rows(func: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function whose result has the rows of its first argument, by the values."""
    if not isinstance(x, NestedTensor):
        raise TypeError(f"[{func.__name__}] expected a nested tensor first, got {type(x).__name__}")
    return _all_like(x, raw(lambda: func(x, *args, **kwargs)))


def _contiguous(func: Callable[..., Any], x: NestedTensor, **kwargs: Any) -> NestedTensor:
    x = whole(x)
    return like(x, raw(lambda: func(x, **kwargs)))


def _clone(func: Callable[..., Any], x: NestedTensor, *, memory_format: Any = None) -> NestedTensor:
    if memory_format is weft.contiguous_format:
        x = whole(x)
    given = {} if memory_format is None else {"memory_format": memory_format}
    return like(x, raw(lambda: func(x, **given)))


def _to(func: Callable[..., Any], x: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
    kwargs = {k: v for k, v in kwargs.items() if k != "layout" or v is not weft.jagged}
    return like(x, raw(lambda: func(x, *args, **kwargs)))


def _like_factory(
    func: Callable[..., Any], x: NestedTensor, *args: Any, **kwargs: Any
) -> NestedTensor:
    if kwargs.get("layout") in (weft.jagged, weft.strided):
        kwargs = {k: v for k, v in kwargs.items() if k != "layout"}
    made = raw(lambda: func(x, *args, **kwargs))
    return like(x, made)


def _copy(
    func: Callable[..., Any], x: NestedTensor, src: Any, non_blocking: bool = False
) -> NestedTensor:
    same = isinstance(src, NestedTensor) and x._ragged_idx == src._ragged_idx
    if not same or x._jagged.counts != src._jagged.counts:
        raise RuntimeError(
            f"[copy_] expected a nested tensor with parts of the same shapes, got {src.shape} for "
            f"{x.shape} (copy_(): expected compatible input and src shapes, but got: {x.shape} and "
            f"{src.shape})"
        )
    raw(lambda: func(x, src, non_blocking))
    return x


def _equal(func: Callable[..., Any], x: Any, y: Any, *args: Any, **kwargs: Any) -> bool:
    """Of two nested tensors: whether their parts have the same shapes and elements."""
    if not (isinstance(x, NestedTensor) and isinstance(y, NestedTensor)):
        return False
    if x._ragged_idx != y._ragged_idx or x._jagged.counts != y._jagged.counts:
        return False
    a, b = whole(x), whole(y)
    return bool(raw(lambda: a.shape == b.shape and func(a, b, *args, **kwargs)))


def _loss(func: Callable[..., Any], input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """A loss for each element, and its sum or mean over those of all parts."""
    x, y = (whole(t) if isinstance(t, NestedTensor) else t for t in (input, target))
    lead = x if isinstance(x, NestedTensor) else y
    name = func.__name__
    out = raw(lambda: func(beside(lead, x, name), beside(lead, y, name), *args, **kwargs))
    return out if out.dim() == 0 else like(lead, out)


def _expand_as(func: Callable[..., Any], x: Tensor, other: Tensor) -> Any:
    if not isinstance(other, NestedTensor):
        raise RuntimeError(f"[expand_as] expected a nested tensor to expand to, got {other.shape}")
    given = beside(other, x, "expand_as")
    return like(other, raw(lambda: given.expand(other.shape)))


# ---- gradients, which the core has as those of the values


def _grad(func: Callable[..., Any], x: NestedTensor) -> Tensor | None:
    found: Tensor | None = raw(lambda: func(x))
    if found is None or isinstance(found, NestedTensor):
        return found
    made = like(x, raw(lambda: found.detach() if found.is_leaf else found.view_as(found)))
    raw(lambda: setattr(x, "grad", made))
    return made


def _as_gradient(x: NestedTensor, g: Tensor) -> Tensor:
    return g if isinstance(g, NestedTensor) else like(x, raw(lambda: g.view_as(g)))


def _hook(func: Callable[..., Any], x: NestedTensor, hook: Callable[..., Any]) -> Any:
    from weakref import ref

    jagged, ragged, is_strided = x._jagged, x._ragged_idx, x._is_strided
    own = ref(x)

    def run(g: Tensor) -> Any:
        if g is own():
            return hook(g)
        return hook(nested(raw(lambda: g.view_as(g)), jagged, ragged, is_strided))

    return raw(lambda: func(x, run))


def _autograd_grad(
    func: Callable[..., Any], outputs: Any, inputs: Any, *args: Any, **kwargs: Any
) -> Any:
    xs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    found = raw(lambda: func(outputs, inputs, *args, **kwargs))
    return tuple(
        _as_gradient(x, g) if isinstance(x, NestedTensor) and g is not None else g
        for x, g in zip(xs, found, strict=True)
    )


def pointwise_names() -> frozenset[str]:
    """The functions that are pointwise by their records, and those that are composed of such."""
    from_records = {
        name
        for record in _C._records()
        if record["pointwise"]
        for name in (record["public_name"], *record["aliases"])
    }
    return frozenset(from_records | set(_OF_POINTWISE.split()))


#: Those that no record has: they are composed of such.
_OF_POINTWISE = "float_power isreal frexp tanhshrink bernoulli"

_SAME_ROWS = """detach dropout alpha_dropout feature_alpha_dropout dropout1d native_dropout
    zero_ fill_ normal_ uniform_ bernoulli_ detach_ requires_grad_ data.__get__ real imag conj
    exponential_ random_ log_normal_ cauchy_ geometric_ fill one_hot"""

_LOSSES = """mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
    binary_cross_entropy_with_logits kl_div poisson_nll_loss"""

_CONVERSIONS = """to type type_as double float half bfloat16 int long short byte char bool cpu cuda
    cdouble cfloat chalf"""

_FACTORIES = """zeros_like ones_like empty_like full_like rand_like randn_like randint_like"""

TABLE: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_SAME_ROWS.split(), _by_rows),
    **dict.fromkeys(_LOSSES.split(), _loss),
    **dict.fromkeys(_CONVERSIONS.split(), _to),
    **dict.fromkeys(_FACTORIES.split(), _like_factory),
    "contiguous": _contiguous,
    "clone": _clone,
    "copy_": _copy,
    "equal": _equal,
    "allclose": _equal,
    "expand_as": _expand_as,
    "grad.__get__": _grad,
    "register_hook": _hook,
    "register_post_accumulate_grad_hook": lambda func, x, hook: raw(lambda: func(x, hook)),
    "grad": _autograd_grad,
}
