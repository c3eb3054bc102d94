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

#: By name; programs that were loaded return them.
KINDS: dict[str, type] = {}


def printed_as_pytorchs(kind: T) -> T:
    """Give a NamedTuple PyTorch's repr: its name, then a line for each field."""

    def show(self: Any) -> str:
        fields = ",\n".join([f"{name}={value!r}" for name, value in zip(self._fields, self)])
        return f"torch.return_types.{kind.__name__}(\n{fields})"

    kind.__repr__ = show  # type: ignore[method-assign, assignment]
    KINDS[kind.__name__] = kind
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


def _sorted_out(lib: Any, x: Tensor) -> dict[str, Any]:
    """A call for each type that belongs to a function: what it returns is of the type."""
    linalg = lib.linalg
    return {
        "max": lambda: lib.max(x, 0), "min": lambda: lib.min(x, 0), "sort": lambda: lib.sort(x),
        "topk": lambda: lib.topk(x, 1), "kthvalue": lambda: lib.kthvalue(x, 1),
        "median": lambda: lib.median(x, 0), "cummax": lambda: lib.cummax(x, 0),
        "cummin": lambda: lib.cummin(x, 0), "linalg_qr": lambda: linalg.qr(x),
        "linalg_svd": lambda: linalg.svd(x), "linalg_eig": lambda: linalg.eig(x),
        "linalg_eigh": lambda: linalg.eigh(x), "linalg_slogdet": lambda: linalg.slogdet(x),
        "linalg_inv_ex": lambda: linalg.inv_ex(x), "linalg_lu": lambda: linalg.lu(x),
        "linalg_cholesky_ex": lambda: linalg.cholesky_ex(x),
        "linalg_lstsq": lambda: linalg.lstsq(x, x), "linalg_lu_factor": lambda: linalg.lu_factor(x),
        "linalg_lu_factor_ex": lambda: linalg.lu_factor_ex(x),
        "linalg_ldl_factor": lambda: linalg.ldl_factor(x),
        "linalg_ldl_factor_ex": lambda: linalg.ldl_factor_ex(x),
        "linalg_solve_ex": lambda: linalg.solve_ex(x, x),
    }  # fmt: skip


def __getattr__(name: str) -> Any:
    """The types that are made where their functions are, asked of a call."""
    import weft

    if not name.startswith("_"):
        call = _sorted_out(weft, weft.eye(1)).get(name)
        if call is not None:
            globals()[name] = type(call())
            return globals()[name]
    import sys

    from weft.base import lazy as _lazy

    raise _lazy.missing(sys.modules[__name__], name)
