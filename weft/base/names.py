"""Constants and small namespaces that programs written for PyTorch name."""

from __future__ import annotations

import builtins
from typing import cast

from weft import _C

__all__ = [
    "AcceleratorError", "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor",
    "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "OutOfMemoryError", "ShortTensor",
    "cdouble", "cfloat", "chalf", "channels_last", "channels_last_3d", "contiguous_format",
    "double", "e", "float", "half", "inf", "int", "jagged", "layout", "legacy_contiguous_format",
    "long", "memory_format", "nan", "newaxis", "pi", "preserve_format", "short",
    "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr", "strided",
]  # fmt: skip


class _Named:
    """A constant that prints as PyTorch's, such as torch.strided."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_Named):  # noqa: N801
    """How a tensor holds its elements: `torch.strided`, `torch.sparse_coo`, `torch.jagged`, ...

    >>> weft.ones(2).layout
    torch.strided
    """


class memory_format(_Named):  # noqa: N801
    """The order of a tensor's dimensions in memory, as `contiguous(memory_format=)` takes it.

    >>> weft.ones(1, 2, 3, 4).contiguous(memory_format=weft.channels_last).stride()
    (24, 1, 8, 2)
    """


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
jagged = layout("jagged")
contiguous_format = memory_format("contiguous_format")
legacy_contiguous_format = contiguous_format

#: In an index, a new dimension of size 1.
newaxis = None
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

inf = builtins.float("inf")
nan = builtins.float("nan")
pi = 3.141592653589793
e = 2.718281828459045

float = _C.float32  # noqa: A001
double = _C.float64
half = _C.float16
long = _C.int64
int = _C.int32  # noqa: A001
short = _C.int16
cfloat = _C.complex64
cdouble = _C.complex128
chalf = _C.complex32


class OutOfMemoryError(RuntimeError):
    """An accelerator's memory is full. To catch only: the CPU's allocator raises RuntimeError."""


class AcceleratorError(RuntimeError):
    """What an accelerator reports. To catch only: there is none."""


class tensortype(type):  # noqa: N801
    """The class of `weft.FloatTensor` and so on: what a tensor of one dtype is an instance of."""

    dtype: _C.dtype

    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, _C.Tensor) and obj.dtype == cls.dtype

    def __call__(cls, *args: object) -> _C.Tensor:
        """A tensor from data, or uninitialised from sizes."""
        import weft

        kind = cls.dtype
        if len(args) == 1 and not isinstance(args[0], (builtins.int, _C.Size)):
            return weft.tensor(args[0], dtype=kind, device="cpu")
        sizes = cast(tuple[builtins.int, ...], args or (0,))
        return weft.empty(*sizes, dtype=kind, device="cpu")


def _typed(kind: _C.dtype, name: str) -> tensortype:
    doc = f"""A tensor of {kind} from data, or uninitialised from sizes.

    >>> weft.{name}([1, 0]).dtype
    {kind}
    """
    return tensortype(name, (), {"dtype": kind, "__doc__": doc, "__module__": "torch"})


FloatTensor = _typed(_C.float32, "FloatTensor")
DoubleTensor = _typed(_C.float64, "DoubleTensor")
LongTensor = _typed(_C.int64, "LongTensor")
IntTensor = _typed(_C.int32, "IntTensor")
ShortTensor = _typed(_C.int16, "ShortTensor")
CharTensor = _typed(_C.int8, "CharTensor")
ByteTensor = _typed(_C.uint8, "ByteTensor")
HalfTensor = _typed(_C.float16, "HalfTensor")
BFloat16Tensor = _typed(_C.bfloat16, "BFloat16Tensor")
BoolTensor = _typed(_C.bool, "BoolTensor")
