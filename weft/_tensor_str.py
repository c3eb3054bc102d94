"""How tensors are printed, by PyTorch's private names."""

from __future__ import annotations

from weft._C import Tensor
from weft.base.settings import set_printoptions as set_printoptions

__all__ = ["set_printoptions"]


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """`repr(self)`, with other text in the place of the values."""
    return repr(self) if tensor_contents is None else f"tensor({tensor_contents})"
