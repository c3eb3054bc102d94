"""How values of several processes are joined to one."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from weft import _C
from weft._C import Tensor

__all__ = ["ReduceOp", "expect_op", "reduce_op"]


class ReduceOp(IntEnum):
    """How values of processes are joined; those of one process stay as they are.

    >>> weft.distributed.ReduceOp.SUM.name
    'SUM'
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


#: PyTorch's name of the members' type; and it has the members in a class of their own, too.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]
reduce_op = ReduceOp

_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def expect_op(who: str, op: Any, tensor: Tensor) -> ReduceOp:
    """The op, of which the tensor's dtype has a meaning.

    Of bools SUM and MAX are `or`, PRODUCT and MIN `and`; AVG of integers rounds toward zero.

    Raises:
        TypeError: no ReduceOp.
        ValueError: other than SUM and AVG for complex numbers.
        RuntimeError: bits of numbers that are not whole, AVG of bools, PREMUL_SUM.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"[{who}] expected op to be a ReduceOp, got {type(op).__name__}")
    if op == ReduceOp.PREMUL_SUM:
        raise RuntimeError(
            f"[{who}] expected SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR, got PREMUL_SUM "
            "(Cannot use ReduceOp.PREMUL_SUM with MPI). Hint: multiply, then SUM"
        )
    if tensor.is_complex() and op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(
            f"[{who}] expected SUM or AVG of complex numbers, got {op.name} (all_reduce does not "
            f"support {op!s} on complex tensors)"
        )
    if op in _BITS and tensor.is_floating_point():
        raise RuntimeError(
            f"[{who}] expected integers or bools for {op.name}, got {tensor.dtype} (Cannot use "
            f"ReduceOp.{op.name} with non-integral dtype)"
        )
    if op == ReduceOp.AVG and tensor.dtype == _C.bool:
        raise RuntimeError(f"[{who}] expected numbers for AVG, got {tensor.dtype}")
    return op
