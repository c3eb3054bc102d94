"""What PyTorch's annotations name: `weft.types.Device`, `Number` and so on."""

from __future__ import annotations

import os
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from weft._C import Size as Size
from weft._C import Tensor as Tensor
from weft.autograd.graph import GradientEdge as _GradientEdge
from weft.base.device import device as _device
from weft.base.symbols import SymBool as SymBool
from weft.base.symbols import SymFloat as SymFloat
from weft.base.symbols import SymInt as SymInt
from weft.storage import TypedStorage as _TypedStorage
from weft.storage import UntypedStorage as _UntypedStorage

__all__ = ["Number", "Device", "FileLike", "Storage"]  # noqa: RUF022

Number: TypeAlias = _int | _float | _bool
_Number = (_int, _float, _bool)
Device: TypeAlias = _device | _str | _int | None
FileLike: TypeAlias = _str | os.PathLike[_str] | IO[_bytes]
Storage: TypeAlias = _UntypedStorage | _TypedStorage

IntLikeType: TypeAlias = _int | SymInt
FloatLikeType: TypeAlias = _float | SymFloat
BoolLikeType: TypeAlias = _bool | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType: TypeAlias = SymInt | SymFloat | SymBool

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = (
    Tensor | Sequence[Tensor] | _GradientEdge | Sequence[_GradientEdge]
)
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Any]
_size: TypeAlias = Size | list[_int] | tuple[_int, ...]
_symsize: TypeAlias = Size | Sequence[_int | SymInt]
_dispatchkey: TypeAlias = _str
_qscheme: TypeAlias = Any
