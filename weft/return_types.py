"""The named tuples that functions return, printed as PyTorch's.

>>> weft.mode(weft.tensor([1, 2, 2]))
torch.return_types.mode(
values=tensor(2),
indices=tensor(2))
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from weft._C import Tensor

T = TypeVar("T", bound=type)


def printed_as_pytorchs(kind: T) -> T:
    """Give a NamedTuple PyTorch's repr: its name, then a line for each field."""

    def show(self: Any) -> str:
        fields = ",\n".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"torch.return_types.{kind.__name__}(\n{fields})"

    kind.__repr__ = show  # type: ignore[method-assign, assignment]
    return kind


@printed_as_pytorchs
class mode(NamedTuple):  # noqa: N801
    """The most frequent elements and where they stand."""

    values: Tensor
    indices: Tensor


@printed_as_pytorchs
class nanmedian(NamedTuple):  # noqa: N801
    """Medians and where they stand."""

    values: Tensor
    indices: Tensor


@printed_as_pytorchs
class aminmax(NamedTuple):  # noqa: N801
    """The smallest and the largest element."""

    min: Tensor
    max: Tensor


@printed_as_pytorchs
class frexp(NamedTuple):  # noqa: N801
    """Fractions in [0.5, 1) and powers of two."""

    mantissa: Tensor
    exponent: Tensor


@printed_as_pytorchs
class histogram(NamedTuple):  # noqa: N801
    """Counts and the edges of their bins."""

    hist: Tensor
    bin_edges: Tensor


@printed_as_pytorchs
class histogramdd(NamedTuple):  # noqa: N801
    """Counts and the edges of their bins, along each dimension."""

    hist: Tensor
    bin_edges: Any


@printed_as_pytorchs
class qr(NamedTuple):  # noqa: N801
    """An orthogonal and a triangular factor."""

    Q: Tensor
    R: Tensor


@printed_as_pytorchs
class svd(NamedTuple):  # noqa: N801
    """Singular vectors, values, and vectors."""

    U: Tensor
    S: Tensor
    V: Tensor


@printed_as_pytorchs
class slogdet(NamedTuple):  # noqa: N801
    """The sign of a determinant and the logarithm of its size."""

    sign: Tensor
    logabsdet: Tensor


@printed_as_pytorchs
class geqrf(NamedTuple):  # noqa: N801
    """R above the vectors of Householder's reflections, and their factors."""

    a: Tensor
    tau: Tensor


@printed_as_pytorchs
class lu_unpack(NamedTuple):  # noqa: N801
    """A permutation, and its triangular factors."""

    P: Tensor
    L: Tensor
    U: Tensor


@printed_as_pytorchs
class triangular_solve(NamedTuple):  # noqa: N801
    """The solution, and a copy of the matrix."""

    solution: Tensor
    cloned_coefficient: Tensor
