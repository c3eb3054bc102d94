"""How tensors are printed, by PyTorch's private names."""

from __future__ import annotations

from typing import Any

from weft import _C
from weft._C import Tensor
from weft.base.settings import set_printoptions as set_printoptions

__all__ = ["set_printoptions"]


class _PrinterOptions:
    """What `set_printoptions` has set, by name; assigning a name sets it.

    >>> weft._tensor_str.PRINT_OPTS.precision
    4
    """

    _names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError(f"printer options have no {name!r}, but {', '.join(self._names)}")
        value = _C._print_options(*[None] * 6)[self._names.index(name)]
        if name == "sci_mode":
            return None if value < 0 else bool(value)
        return float("inf") if value == 2**63 - 1 else value

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)  # raises if there is none
        set_printoptions(**{"sci_mode": self.sci_mode, name: value})


PRINT_OPTS = _PrinterOptions()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements as `repr` shows them, lines after the first indented.

    >>> weft._tensor_str._tensor_str(weft.tensor([[1, 2], [3, 4]]), 2)
    '[[1, 2],\\n   [3, 4]]'
    """
    shown: str = _C._contents(self.detach(), indent)
    return shown


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """`repr(self)`, with other text in the place of the values."""
    return repr(self) if tensor_contents is None else f"tensor({tensor_contents})"
