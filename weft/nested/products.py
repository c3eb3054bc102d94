"""Rules of layers and products: linear, norms over dense dimensions, embedding, matmul."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
import weft.nested.parts as ps
from weft import Tensor
from weft.nested.sizes import NestedInt
from weft.nested.tensor import NestedTensor, like, raw

__all__ = ["TABLE"]


def _expect_dense_last(name: str, x: Any, count: int = 1) -> NestedTensor:
    """`x` as a nested tensor without holes whose last `count` dims are dense."""
    if not isinstance(x, NestedTensor):
        raise ValueError(
            f"[{name}] expected a nested input, got {type(x).__name__} (NestedTensor {name}: "
            "expected input to be a contiguous jagged layout NestedTensor)"
        )
    if x._ragged_idx >= x.dim() - count:
        raise ValueError(
            f"[{name}] expected dense last dimensions, got {tuple(_sizes(x))} (NestedTensor "
            f"{name}: expected input to be a contiguous jagged layout NestedTensor)"
        )
    return x


def _sizes(x: NestedTensor) -> tuple[Any, ...]:
    from weft.nested.asked import sizes_of

    return sizes_of(x)


def _linear(
    func: Callable[..., Any], input: Any, weight: Tensor, bias: Tensor | None = None
) -> NestedTensor:
    x = _expect_dense_last("linear", input)
    return like(x, raw(lambda: func(x, weight, bias)))


def _embedding(func: Callable[..., Any], *args: Any, **kwargs: Any) -> NestedTensor:
    x = next(a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor))
    return like(x, raw(lambda: func(*args, **kwargs)))


def _bilinear(func: Callable[..., Any], a: Any, b: Any, *args: Any, **kwargs: Any) -> NestedTensor:
    x = _expect_dense_last("bilinear", a)
    from weft.nested.pointwise import beside

    y = beside(x, b, "bilinear")
    return like(x, raw(lambda: func(x, y, *args, **kwargs)))


def _norm(name: str) -> Callable[..., Any]:
    def run(
        func: Callable[..., Any], input: Any, normalized_shape: Sequence[Any], *args: Any,
        **kwargs: Any,
    ) -> NestedTensor:  # fmt: skip
        shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        if isinstance(input, NestedTensor) and any(isinstance(s, NestedInt) for s in shape):
            return _norm_over_ragged(name, func, input, shape, *args, **kwargs)
        if isinstance(input, NestedTensor) and len(shape) >= input.dim() - input._ragged_idx:
            kind = RuntimeError if name == "layer_norm" else ValueError
            raise kind(
                f"[{name}] expected to normalize over dense dimensions, got {shape} for "
                f"{_sizes(input)} ({name}(): Normalization over the ragged dim not supported for "
                "nested tensors)"
            )
        x = _expect_dense_last(name, input, len(shape))
        return like(x, raw(lambda: func(x, shape, *args, **kwargs)))

    return run


def _norm_over_ragged(
    name: str, func: Callable[..., Any], x: NestedTensor, shape: list[Any], weight: Any = None,
    bias: Any = None, eps: float = 1e-5,
) -> NestedTensor:  # fmt: skip
    """Each part over all of its elements: the shape names the ragged dim, so it has no weights."""
    if name != "layer_norm" or len(shape) != x.dim() - x._ragged_idx or weight is not None:
        raise ValueError(
            f"[{name}] expected to normalize over dense dimensions, got {shape} ({name}(): "
            "Normalization over the ragged dim not supported for nested tensors)"
        )
    x = ps.whole(x)
    d = x._ragged_idx - 1
    done = [func(t, tuple(t.shape[d:]), None, None, eps) for t in ps.parts(x)]
    return like(x, weft.cat(done, d))


# ---- products of matrices


def _no_product(a: Any, b: Any) -> RuntimeError:
    left, right = (_sizes(t) if isinstance(t, NestedTensor) else t.shape for t in (a, b))
    return RuntimeError(
        f"[matmul] expected shapes that can be multiplied, got {left} and {right} (matmul(): not "
        f"supported between inputs of shapes {left} and {right})"
    )


def _by_dense(func: Callable[..., Any], x: NestedTensor, b: Tensor) -> NestedTensor:
    """`(B, j, D) x (D, E)`, `(B, j, D) x (B, D, E)` and the like: the rows of `x` stay."""
    if x._ragged_idx >= x.dim() - 1:
        raise _no_product(x, b)
    if b.dim() == 2 and x.dim() > 2:
        return like(x, raw(lambda: func(x, b)))
    if b.dim() != x.dim() or x.dim() < 3 or b.shape[0] != x._jagged.parts:
        raise _no_product(x, b)
    x = ps.whole(x)
    if x.dim() != 3:
        return like(x, weft.cat(ps.loop(weft.matmul, x, b), x._ragged_idx - 1))
    if b.shape[1] != raw(lambda: x.shape[1]):
        raise _no_product(x, b)
    one = tuple(b.shape[1:])
    shapes = [ps.sizes(x._jagged, (one[0],)), [one] * x._jagged.parts]
    (flat,) = ps.over_parts("mm", shapes, x, b)
    return like(x, flat.view(-1, one[1]))


def _of_dense(func: Callable[..., Any], a: Tensor, x: NestedTensor) -> NestedTensor:
    """`(D, E) x (B, E, j)` and `(B, D, E) x (B, E, j)`: the columns of `x` stay."""
    if x._ragged_idx < 2:
        raise _no_product(a, x)
    if a.dim() == 2 and x.dim() > 2:
        return like(x, raw(lambda: func(a, x)))
    if a.dim() != x.dim() or a.dim() < 3 or a.shape[0] != x._jagged.parts:
        raise _no_product(a, x)
    if x._ragged_idx == x.dim() - 1:
        turned: Any = x.transpose(-1, -2)
        product: Any = _by_dense(weft.matmul, turned, a.transpose(-1, -2)).transpose(-1, -2)
        return product  # type: ignore[no-any-return]
    x = ps.whole(x)
    return like(x, weft.cat(ps.loop(weft.matmul, a, x), x._ragged_idx - 1))


def _of_nested(func: Callable[..., Any], a: NestedTensor, b: NestedTensor) -> Tensor:
    """`(B, j, D, E) x (B, j, E, F)` row by row; `(B, D, j) x (B, j, E)` over the rows of parts."""
    if a._jagged.size != b._jagged.size:
        raise _no_product(a, b)
    if a._ragged_idx == b._ragged_idx and a.dim() > 3 and b.dim() > 3:
        if a._ragged_idx < min(a.dim(), b.dim()) - 2:
            return like(a, raw(lambda: func(a, b)))
    elif a.dim() == b.dim() and (a._ragged_idx, b._ragged_idx) == (a.dim() - 1, a.dim() - 2):
        return weft.stack(ps.loop(weft.matmul, ps.whole(a), ps.whole(b)))
    raise _no_product(a, b)


def _matmul(func: Callable[..., Any], a: Any, b: Any) -> Any:
    if isinstance(a, NestedTensor):
        return (_of_nested if isinstance(b, NestedTensor) else _by_dense)(func, a, b)
    return _of_dense(func, a, b)


def _rmatmul(func: Callable[..., Any], b: Any, a: Any) -> Any:
    return _matmul(weft.matmul, a, b)


def _bmm(func: Callable[..., Any], input: Any, mat2: Any) -> Any:
    for name, t in (("input", input), ("mat2", mat2)):
        if t.dim() != 3:
            raise ValueError(f"[bmm] expected 3 dims, got {t.dim()} (bmm(): {name} must be 3D)")
    return _matmul(weft.matmul, input, mat2)


def _masked_select(func: Callable[..., Any], x: NestedTensor, mask: Any) -> NestedTensor:
    from weft.nested.create import selected

    return selected(x, mask)


TABLE: dict[str, Callable[..., Any]] = {
    "linear": _linear,
    "embedding": _embedding,
    "bilinear": _bilinear,
    "layer_norm": _norm("layer_norm"),
    "rms_norm": _norm("rms_norm"),
    "matmul": _matmul,
    "__matmul__": _matmul,
    "__rmatmul__": _rmatmul,
    "bmm": _bmm,
    "masked_select": _masked_select,
}
