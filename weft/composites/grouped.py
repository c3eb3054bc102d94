"""Products of groups of rows or columns with a matrix each: `grouped_mm`."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor

__all__ = ["_grouped_mm", "grouped_mm"]


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """The product of each group: of rows of a, of columns of b, or of the sizes between them.

    Args:
        mat_a: (M, K), or (G, M, K).
        mat_b: (K, N), or (G, K, N).
        offs: where each group ends along the dimension that is cut: M of (M, K) by (G, K, N), N of
            (G, M, K) by (K, N), K of (M, K) by (K, N), whose result is (G, M, N). Not given for two
            operands of three dimensions.
        bias: none may be given, as in PyTorch.
        out_dtype: of the result; that of the operands, or none.

    Raises:
        RuntimeError: shapes, dtypes or offs that do not fit.

    >>> x, w = weft.ones(3, 2), weft.ones(2, 2, 1)
    >>> grouped_mm(x, w, offs=weft.tensor([1, 3], dtype=weft.int32)).flatten()
    tensor([2., 2., 2.])
    """
    _expect(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return weft.bmm(mat_a, mat_b)
    ends = [0, *offs.tolist()]
    cuts = list(zip(ends[:-1], ends[1:], strict=True))
    if mat_a.dim() == 2 and mat_b.dim() == 2:
        return weft.stack([mat_a[:, i:j] @ mat_b[i:j] for i, j in cuts])
    if mat_a.dim() == 2:
        rest = mat_a.new_zeros(mat_a.shape[0] - ends[-1], mat_b.shape[2])
        return weft.cat([*(mat_a[i:j] @ b for (i, j), b in zip(cuts, mat_b, strict=True)), rest])
    rest = mat_a.new_zeros(mat_a.shape[1], mat_b.shape[1] - ends[-1])
    parts = [a @ mat_b[:, i:j] for (i, j), a in zip(cuts, mat_a, strict=True)]
    return weft.cat([*parts, rest], 1)


def _grouped_mm(
    self: Tensor, mat2: Tensor, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """`nn.functional.grouped_mm`, by its earlier name."""
    return grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


def _expect(a: Tensor, b: Tensor, offs: Tensor | None, bias: Any, out_dtype: Any) -> None:
    def fail(what: str, got: Any, said: str) -> None:
        raise RuntimeError(f"[grouped_mm] expected {what}, got {got} ({said})")

    allowed = (weft.float32, weft.bfloat16, weft.float16)
    if a.dtype not in allowed or a.dtype is not b.dtype:
        fail("operands of one dtype, float32, bfloat16 or float16", f"{a.dtype} and {b.dtype}",
             "Expected mat_a to be Float32, BFloat16 or Float16 matrix")  # fmt: skip
    if a.dim() not in (2, 3) or b.dim() not in (2, 3):
        fail("operands of 2 or 3 dimensions", f"{a.dim()} and {b.dim()}", "mat_a has to be 2 or 3d")
    if a.shape[-1] != b.shape[-2]:
        fail("as many columns of mat_a as rows of mat_b", f"{a.shape[-1]} and {b.shape[-2]}",
             "contraction dimension of mat_a and mat_b must match")  # fmt: skip
    if bias is not None:
        fail("no bias", "one", "Bias not supported yet")
    if out_dtype not in (None, a.dtype):
        fail(f"out_dtype {a.dtype}", out_dtype, "output dtype must match `mat_a` dtype")
    if (offs is None) != (a.dim() == 3 and b.dim() == 3):
        fail("offs if and only if an operand has 2 dimensions", offs,
             "Have to provide offsets if there is a 2d matrix")  # fmt: skip
    if offs is None:
        return
    if offs.dtype is not weft.int32 or offs.dim() != 1:
        fail("offs of int32 and one dimension", f"{offs.dtype} of {offs.dim()}",
             "Offsets have to be int32")  # fmt: skip
    groups = a.shape[0] if a.dim() == 3 else b.shape[0] if b.dim() == 3 else len(offs)
    if groups != len(offs):
        fail(f"offs of {groups} groups", len(offs), "matrix batch sizes have to match")
    cut = b.shape[1] if a.dim() == 3 else a.shape[0] if b.dim() == 3 else a.shape[1]
    ends = [0, *offs.tolist()]
    if sorted(ends) != ends or ends[-1] > cut:
        fail(f"offs that ascend to at most {cut}", ends[1:], "offsets must be non-decreasing")
