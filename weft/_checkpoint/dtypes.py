"""PyTorch's names of dtypes and storages in files. A dtype that weft gains needs no change here."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import NamedTuple

from weft import _C


class Known(NamedTuple):
    """A dtype of PyTorch: bytes per element, per number inside it, and its class of storages."""

    size: int
    word: int
    storage: str | None


KNOWN = {
    "bool": Known(1, 1, "BoolStorage"),
    "uint8": Known(1, 1, "ByteStorage"),
    "int8": Known(1, 1, "CharStorage"),
    "int16": Known(2, 2, "ShortStorage"),
    "int32": Known(4, 4, "IntStorage"),
    "int64": Known(8, 8, "LongStorage"),
    "float16": Known(2, 2, "HalfStorage"),
    "bfloat16": Known(2, 2, "BFloat16Storage"),
    "float32": Known(4, 4, "FloatStorage"),
    "float64": Known(8, 8, "DoubleStorage"),
    "complex64": Known(8, 4, "ComplexFloatStorage"),
    "complex128": Known(16, 8, "ComplexDoubleStorage"),
    "uint16": Known(2, 2, None),
    "uint32": Known(4, 4, None),
    "uint64": Known(8, 8, None),
    "complex32": Known(4, 2, None),
    "float8_e4m3fn": Known(1, 1, None),
    "float8_e4m3fnuz": Known(1, 1, None),
    "float8_e5m2": Known(1, 1, None),
    "float8_e5m2fnuz": Known(1, 1, None),
    "float8_e8m0fnu": Known(1, 1, None),
}
BY_STORAGE = {known.storage: name for name, known in KNOWN.items() if known.storage}


class StorageType:
    """The class of a storage in a file. `UntypedStorage` has the dtype None: plain bytes."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: str | None) -> None:
        self.name, self.dtype = name, dtype

    @property
    def size(self) -> int:
        """Bytes per element."""
        return 1 if self.dtype is None else KNOWN[self.dtype].size

    @property
    def word(self) -> int:
        """Bytes of a number, whose order is the file's byte order."""
        return 1 if self.dtype is None else KNOWN[self.dtype].word


def dtype_named(name: str) -> _C.dtype:
    """weft's dtype of that name; UnpicklingError where weft has none."""
    kind = getattr(_C, name, None)
    if not isinstance(kind, _C.dtype):
        raise UnpicklingError(f"[load] expected a dtype that weft has, got torch.{name}")
    return kind


#: The dtype that raw bytes are kept in.
BYTES = getattr(_C, "uint8", _C.bool)
