"""Functions that packages reach for by PyTorch's private or older names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import _C, Tensor, return_types
from weft.base.forms import forms

__all__ = ["eig", "lstsq", "matrix_rank", "solve", "symeig", "triangular_solve"]


def _cast(name: str, dtype: Any) -> Callable[[Tensor, bool], Tensor]:
    def cast(input: Tensor, non_blocking: bool = False) -> Tensor:
        return input.to(dtype)

    cast.__name__ = cast.__qualname__ = f"_cast_{name}"
    cast.__doc__ = f"`input.to({dtype})`."
    return cast


_cast_Byte = _cast("Byte", weft.uint8)
_cast_Char = _cast("Char", weft.int8)
_cast_Double = _cast("Double", weft.float64)
_cast_Float = _cast("Float", weft.float32)
_cast_Half = _cast("Half", weft.float16)
_cast_Int = _cast("Int", weft.int32)
_cast_Long = _cast("Long", weft.int64)
_cast_Short = _cast("Short", weft.int16)


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The shape as an int64 vector."""
    return weft.tensor(list(self.shape), dtype=weft.int64, device="cpu")


def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """The gradient of a softmax along `dim`, from that of its `output`."""
    shared = (grad_output * output).sum(dim, keepdim=True)
    return (output * (grad_output - shared)).to(input_dtype)


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """`v` with the norms `g` along `dim`; -1 is one norm for all."""
    return v * (g / weft.norm_except_dim(v, 2, dim))


def _standard_gamma(self: Tensor, generator: Any = None) -> Tensor:
    """A sample of Gamma(x, 1) for each x."""
    _default_generator("_standard_gamma", generator)
    return _C.ops._standard_gamma(self)


def _sample_dirichlet(self: Tensor, generator: Any = None) -> Tensor:
    """A sample of Dirichlet(x) for each row x."""
    _default_generator("_sample_dirichlet", generator)
    return _C.ops._sample_dirichlet(self)


def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """The derivative of numbers x of a Dirichlet distribution by their own concentrations, `alpha`,
    of which `total` is the sum, over 1 - x."""
    return _C.ops._dirichlet_grad(*weft.broadcast_tensors(x, alpha, total))


def _default_generator(name: str, generator: Any) -> None:
    if generator is not None:
        raise TypeError(f"[{name}] expected the default generator, got another one")


def _convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False
) -> Tensor:
    """Where each row begins among sorted row numbers: [size + 1]."""
    counts = weft.bincount(input, minlength=size)
    starts = weft.cat([counts.new_zeros(1), counts.cumsum(0)])
    return starts.to(weft.int32 if out_int32 else weft.int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Row and column numbers, [2, n], of where each row begins and the column numbers."""
    rows = weft.arange(crow_indices.numel() - 1, device=crow_indices.device).repeat_interleave(
        crow_indices.diff()
    )
    kind = weft.int32 if out_int32 else weft.int64
    pair = [rows.to(kind), col_indices.to(kind)]
    return weft.stack(pair[::-1] if transpose else pair)


@forms(out=True)
def triangular_solve(
    b: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """The X with A X = b, and a copy of A: `linalg.solve_triangular` in its older form.

    b [..., n, k], A [..., n, n]; the solution is [..., n, k].

    >>> weft.triangular_solve(weft.tensor([[4.0]]), weft.tensor([[2.0]])).solution
    tensor([[2.]])
    """
    left = A.mT if transpose else A
    solution = weft.linalg.solve_triangular(
        left, b, upper=upper != transpose, unitriangular=unitriangular
    )
    return return_types.triangular_solve(solution, A.clone())


def _removed(name: str, now: str) -> Callable[..., Any]:
    def removed(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"[{name}] This function was deprecated since version 1.9 and is now removed. "
            f"Hint: `torch.linalg.{now}`"
        )

    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = f"""Raises RuntimeError: `linalg.{now}` is in its place, in PyTorch too.

    >>> weft.{name}(weft.eye(2))
    Traceback (most recent call last):
    RuntimeError: ...
    """
    return removed


eig, symeig = _removed("eig", "eig"), _removed("symeig", "eigh")
lstsq, solve = _removed("lstsq", "lstsq"), _removed("solve", "solve")
matrix_rank = _removed("matrix_rank", "matrix_rank")
