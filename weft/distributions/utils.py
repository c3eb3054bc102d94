"""What the distributions share: broadcast parameters, probabilities and their logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

import weft
from weft import Size, Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

#: Euler's constant, the limit of 1 + 1/2 + ... + 1/n - log n.
euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one shape; numbers become tensors of the default dtype, or of the tensors'.

    Raises:
        ValueError: neither numbers nor tensors.

    >>> broadcast_all(weft.zeros(2), 1.0)[1]
    tensor([1., 1.])
    """
    if not all(isinstance(v, (Tensor, int, float, complex)) for v in values):
        raise ValueError(
            "[broadcast_all] expected numbers and tensors, got others (Input arguments must all be "
            "instances of Number, torch.Tensor or objects implementing __torch_function__.)"
        )
    tensors = [v for v in values if isinstance(v, Tensor)]
    kind = tensors[0].dtype if tensors else weft.get_default_dtype()
    place = tensors[0].device if tensors else None
    made = [
        v if isinstance(v, Tensor) else weft.tensor(v, dtype=kind, device=place) for v in values
    ]
    return weft.broadcast_tensors(*made)


def clamp_probs(probs: Tensor) -> Tensor:
    """Into (0, 1), by the machine's precision.

    Of the shape of `probs`.

    >>> weft.distributions.utils.clamp_probs(weft.tensor([0.0, 0.5])) > 0
    tensor([True, True])
    """
    eps = weft.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities: sigmoid, or softmax over the last dimension.

    >>> weft.distributions.utils.logits_to_probs(weft.zeros(2))
    tensor([0.5000, 0.5000])
    """
    return weft.sigmoid(logits) if is_binary else weft.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logits: log odds, or logarithms; of clamped probabilities.

    Of the shape of `probs`.

    >>> weft.distributions.utils.probs_to_logits(weft.tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property:
    """A property that is computed once, with gradients, and then kept as an attribute.

    >>> class A:
    ...     @weft.distributions.utils.lazy_property
    ...     def value(self):
    ...         print("computed")
    ...         return 1
    >>> a = A()
    >>> a.value + a.value
    computed
    2
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with weft.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What a class shows of a lazy property: a property too, to tools that look for those."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    """Normal numbers of a shape."""
    return weft.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    return value.reshape(*value.shape[: value.dim() - dim], -1).sum(-1) if dim else value


def _lower(n: int, diag: int, device: Any) -> Tensor:
    """Where an n x n matrix has its lower triangle, up to the diagonal `diag`."""
    at = weft.arange(n, device=device)
    return at < at.unsqueeze(-1) + (diag + 1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of (..., D, D) matrices up to the diagonal `diag`, row by row.

    Raises:
        ValueError: there is no such diagonal.

    >>> tril_matrix_to_vec(weft.arange(4).reshape(2, 2))
    tensor([0, 2, 3])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(
            f"[tril_matrix_to_vec] expected diag from {-n} to {n - 1}, got {diag} "
            f"(diag ({diag}) provided is outside [{-n}, {n - 1}].)"
        )
    return mat[..., _lower(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Lower triangular (..., D, D) matrices of (..., N), the inverse of `tril_matrix_to_vec`.

    Raises:
        ValueError: N numbers fill no triangle.

    >>> vec_to_tril_matrix(weft.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    count = vec.shape[-1]
    sizes = range(-min(diag, 0), count + abs(diag) + 2)
    n = next(n for n in sizes if _triangle(n, diag) >= count)
    if _triangle(n, diag) != count:
        raise ValueError(
            f"[vec_to_tril_matrix] expected the numbers of a triangle, got {count} "
            f"(The size of last dimension is {count} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix.)"
        )
    mat = vec.new_zeros(Size((*vec.shape[:-1], n, n)))
    mat[..., _lower(n, diag, vec.device)] = vec
    return mat


def _triangle(n: int, diag: int) -> int:
    """How many places `_lower` has."""
    return sum(min(max(row + diag + 1, 0), n) for row in range(n))
