"""A tensor's memory as an object: its bytes, its address and size, and whether processes share it.

weft's tensors carry their memory themselves; a storage holds a tensor, and is the memory that the
tensor lies in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from weft import _C
from weft._C import Tensor
from weft.base.device import device as _device
from weft.base.device import expect_cpu, is_meta

__all__ = [
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
    "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage",
    "LongStorage", "ShortStorage", "TypedStorage", "UntypedStorage",
]  # fmt: skip

_S = TypeVar("_S", bound="_Storage")


def _bytes_over(buffer: Any, count: int) -> Tensor:
    """`count` bytes over the memory of a buffer; the storage is these bytes and no more."""
    if count == 0:
        return _C.empty(0, dtype=_C.uint8)
    return _C._over(buffer, _C.uint8, 0, (count,), (1,))


def _new(count: int, dtype: _C.dtype, device: Any) -> Tensor:
    """Memory that is not set; none on the meta device."""
    return _C.empty(count, dtype=dtype, device="meta" if is_meta(device) else "cpu")


def _of_values(values: Any, dtype: _C.dtype, device: Any) -> Tensor:
    return _C.tensor(list(values), dtype=dtype, device="meta" if is_meta(device) else "cpu")


class _Storage:
    """What both kinds do. `_tensor` lies in the memory, `_dtype` is that of the elements."""

    _dtype: _C.dtype = _C.uint8
    _filename: str | None = None
    is_cuda = False
    is_hpu = False
    is_sparse = False

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @classmethod
    def _of(cls: type[_S], tensor: Tensor) -> _S:
        """The storage of a tensor."""
        made = cls.__new__(cls)
        made._tensor = tensor
        return made

    @property
    def device(self) -> Any:
        """Where it lies."""
        return self._tensor.device

    @property
    def filename(self) -> str | None:
        """The file that `from_file` mapped for others to see; else None."""
        return self._filename

    def data_ptr(self) -> int:
        """The address of the first byte; 0 if there is none, as on the meta device."""
        address, size, _ = self._tensor._storage_info()
        return address if size and not self._tensor.is_meta else 0

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._tensor._storage_info()[1]

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._dtype.itemsize

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.element_size()

    def __sizeof__(self) -> int:
        """With the memory that it stands for."""
        return super().__sizeof__() + self.nbytes()

    def __len__(self) -> int:
        return self.size()

    def _all(self) -> Tensor:
        """The elements, over the same memory."""
        return self._elements(self._dtype, 0, (self.size(),), (1,))

    def _elements(
        self, dtype: _C.dtype, offset: int, size: Sequence[int], stride: Sequence[int]
    ) -> Tensor:
        """A tensor over the same memory, from byte `offset` on. ValueError outside of it."""
        return _C._over(self._tensor, dtype, offset, tuple(size), tuple(stride))

    def _at(self, index: Any) -> Any:
        if not isinstance(index, int):
            raise TypeError(
                f"[{type(self).__name__}] expected an int or a slice, got {type(index).__name__} "
                f"(can't index a {type(self)} with {type(index).__name__})"
            )
        if not -self.size() <= index < self.size():
            raise IndexError(
                f"[{type(self).__name__}] expected an index inside, got {index} (index {index} out "
                f"of range for storage of size {self.size()})"
            )
        return self._all()[index]

    def __getitem__(self, index: Any) -> Any:
        return self._at(index).item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self._all()[index] = value
        else:
            self._at(index).fill_(value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements as a list."""
        values: list[Any] = self._all().tolist()
        return values

    def fill_(self: _S, value: Any) -> _S:
        """Writes `value` into every element."""
        self._all().fill_(value)
        return self

    def copy_(self: _S, source: _Storage, non_blocking: bool | None = None) -> _S:
        """Writes the elements of `source`. RuntimeError for another size."""
        self._all().copy_(source._all())
        return self

    def clone(self: _S) -> _S:
        """A copy."""
        return type(self)._of(self._all().clone())

    def __copy__(self: _S) -> _S:
        return self.clone()

    def __deepcopy__(self: _S, memo: dict[int, Any]) -> _S:
        """A copy; one for all who ask for the same memory within one `copy.deepcopy`."""
        known = memo.setdefault("torch", {})  # type: ignore[call-overload]  # as PyTorch keeps them
        key = (type(self), self.data_ptr(), self.nbytes())
        if key not in known:
            known[key] = self.clone()
        copied: _S = known[key]
        return copied

    def cpu(self: _S) -> _S:
        """self: it lies there already."""
        expect_cpu(self.device)
        return self

    def to(self: _S, *, device: Any, non_blocking: bool = False) -> _S:
        """self where it lies there; on the meta device a storage of the size, without memory.

        Raises: NotImplementedError for one that is on the meta device and should leave it.
        """
        if _device(device) == self.device:
            return self
        return type(self)._of(self._all().to(device, non_blocking=non_blocking))

    def resizable(self) -> bool:
        """Whether the size may change: that of memory that another library lent may not."""
        return bool(_C._is_resizable(self._tensor))

    def resize_(self: _S, size: int) -> _S:
        """Sets the number of elements. Tensors over the memory keep their shapes: what is cut off
        below them is given back, and reads as anything until `resize_` brings it back.

        Args:
            size: how many. More than the memory ever had only where one tensor lies in it.

        Raises: RuntimeError for memory of another library, for a negative size, and for more than
        several tensors can share.

        >>> s = weft.ones(4).untyped_storage()
        >>> s.resize_(0).nbytes(), s.resize_(16).nbytes()
        (0, 16)
        """
        if not isinstance(size, int):
            raise RuntimeError(
                f"[resize_] expected an int, got {type(size).__name__} (resize_ expects an int, "
                f"but got {type(size).__name__})"
            )
        _C._resize_storage(self._tensor, size * self.element_size())
        return self

    def is_shared(self) -> bool:
        """Whether other processes see what is written here."""
        return self._tensor.is_shared()

    def share_memory_(self: _S) -> _S:
        """`Tensor.share_memory_`."""
        self._tensor.share_memory_()
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """False: there is no GPU."""
        return False

    def type(self) -> str:
        """The name of its class, with the dtype of a typed one.

        >>> weft.ones(2).storage().type(), weft.ones(2).untyped_storage().type()
        ('torch.FloatStorage', 'torch.storage.UntypedStorage')
        """
        return "torch.storage.UntypedStorage"

    def untyped(self) -> UntypedStorage:
        """The same bytes without a dtype."""
        return UntypedStorage._of(self._tensor)

    def _typed(self, dtype: _C.dtype) -> TypedStorage:
        """The elements converted to a dtype: the same storage if they have it."""
        return TypedStorage._of(self._all().to(dtype))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Storage) or self.nbytes() != other.nbytes():
            return False
        return self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def _told(self) -> str:
        return f"torch.storage.UntypedStorage(device={self.device})"

    def __repr__(self) -> str:
        on_meta = self.device.type == "meta"
        lines = "...\n" if on_meta else "".join(f" {v}\n" for v in self.tolist())
        return f"{lines}[{self._told()} of size {len(self)}]"


for _name, _kind in (
    ("double", "float64"), ("float", "float32"), ("half", "float16"), ("bfloat16", "bfloat16"),
    ("long", "int64"), ("int", "int32"), ("short", "int16"), ("char", "int8"), ("byte", "uint8"),
    ("bool", "bool"), ("complex_double", "complex128"), ("complex_float", "complex64"),
):  # fmt: skip

    def _convert(self: _Storage, _kind: str = _kind) -> TypedStorage:
        return self._typed(getattr(_C, _kind))

    _convert.__name__, _convert.__doc__ = _name, f"The elements as a storage of {_kind}."
    setattr(_Storage, _name, _convert)


class UntypedStorage(_Storage):
    """Bytes: those under a tensor, those of a file, or new ones. `Tensor.untyped_storage()`.

    Args:
        size: how many bytes, which are not set, or a sequence of them.

    A slice is a storage over that part of the memory.

    >>> x = weft.arange(4)
    >>> x[1:].untyped_storage().nbytes()
    32
    >>> x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    True
    >>> weft.asarray(x.untyped_storage()[8:16], dtype=weft.int64)
    tensor([1])
    >>> weft.UntypedStorage([1, 2, 3]).tolist()
    [1, 2, 3]
    """

    def __init__(self, size: int | Sequence[int] = 0, *, device: Any = None) -> None:
        if isinstance(size, int):
            super().__init__(_new(size, _C.uint8, device))
        elif isinstance(size, Sequence) or isinstance(size, _Storage):
            super().__init__(_of_values(size, _C.uint8, device))
        else:
            kind = type(size).__name__
            raise RuntimeError(
                f"[UntypedStorage] expected a number of bytes or a sequence of them, got {kind} "
                f"(torch.UntypedStorage(): Expected a sequence type, but got {kind})"
            )

    @staticmethod
    def from_file(
        filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0
    ) -> UntypedStorage:
        """The first bytes of a file, mapped.

        Args:
            filename: a path.
            shared: whether what is written goes to the file, which is made, or made longer, if
                need be. Otherwise it stays in memory.
            nbytes: how many.

        Raises: RuntimeError where the file cannot be opened, or is too small and not `shared`.
        """
        path = os.fspath(filename)
        made = UntypedStorage._of(_mapped(path, shared, nbytes))
        made._filename = path if shared else None
        return made

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return super().__getitem__(index)
        start, stop, step = index.indices(self.nbytes())
        if step != 1:
            raise RuntimeError(
                f"[UntypedStorage] expected a slice of step 1, got {step} (Trying to slice with a "
                f"step of {step}, but only a step of 1 is supported)"
            )
        count = max(stop - start, 0)
        whole = memoryview(self._all()) if count else b""
        return UntypedStorage._of(_bytes_over(whole[start : start + count], count))

    def new(self) -> UntypedStorage:
        """An empty one."""
        return UntypedStorage(0)

    def byteswap(self, dtype: _C.dtype) -> None:
        """Turns the order of the bytes within each number of `dtype`; of complex ones in each part.

        Raises: RuntimeError where the size is no multiple of the dtype's.

        >>> s = weft.UntypedStorage([1, 2, 3, 4])
        >>> s.byteswap(weft.int16)
        >>> s.tolist()
        [2, 1, 4, 3]
        """
        word = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        if self.nbytes() % dtype.itemsize:
            raise RuntimeError(
                f"[byteswap] expected whole elements of {dtype.itemsize} bytes, got "
                f"{self.nbytes()} (the length of data is not a multiple of {dtype.itemsize})"
            )
        numbers = self._all().view(-1, word)
        numbers.copy_(numbers.flip(1))


def _mapped(path: str, shared: bool, nbytes: int) -> Tensor:
    """`nbytes` bytes over a file."""
    import mmap

    mode = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        file = os.open(path, mode, 0o600)
    except OSError as error:
        how = "read-write" if shared else "read-only"
        raise RuntimeError(
            f"[from_file] expected a file that can be opened, got {path} (unable to open file "
            f"<{path}> in {how} mode: {error.strerror} ({error.errno}))"
        ) from None
    try:
        size = os.fstat(file).st_size
        if nbytes > size and not shared:
            raise RuntimeError(
                f"[from_file] expected a file of at least {nbytes} bytes, got {size} (file "
                f"<{path}> size <{size}> is smaller than the required mapping size <{nbytes}>)"
            )
        if nbytes > size:
            os.ftruncate(file, nbytes)
        if nbytes == 0:
            return _bytes_over(b"", 0)
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        return _bytes_over(mmap.mmap(file, nbytes, access=access), nbytes)
    finally:
        os.close(file)


class TypedStorage(_Storage):
    """The same with elements of a dtype: what PyTorch's older `Tensor.storage()` gives.

    Args:
        size: how many elements, which are not set, or a sequence of them.
        wrap_storage: the bytes, in place of new ones.
        dtype: of the elements.

    >>> weft.TypedStorage([1, 2], dtype=weft.float32).tolist()
    [1.0, 2.0]
    """

    def __init__(
        self,
        size: int | Sequence[Any] = 0,
        *,
        wrap_storage: UntypedStorage | None = None,
        dtype: _C.dtype | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        if wrap_storage is not None and dtype is None:
            raise RuntimeError(
                "[TypedStorage] expected a dtype with wrap_storage, got none (Argument 'dtype' "
                "must be specified when 'wrap_storage' is specified)"
            )
        kind = dtype or _C.get_default_dtype()
        if wrap_storage is not None:
            count = wrap_storage.nbytes() // kind.itemsize
            super().__init__(wrap_storage._elements(kind, 0, (count,), (1,)))
        elif isinstance(size, int):
            super().__init__(_new(size, kind, device))
        else:
            super().__init__(_of_values(size, kind, device))
        self._dtype = kind

    @classmethod
    def _of(cls, tensor: Tensor) -> TypedStorage:
        made = super()._of(tensor)
        made._dtype = tensor.dtype
        return made

    @property
    def dtype(self) -> _C.dtype:
        """The elements' dtype."""
        return self._dtype

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return self.untyped()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError(
                "[TypedStorage] expected an index, got a slice (slices are only supported in "
                "UntypedStorage.__getitem__)"
            )
        return super().__getitem__(index)

    def _told(self) -> str:
        return f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"

    def type(self) -> str:
        """See the class."""
        return f"torch.{_legacy_name(self.dtype)}"

    def pickle_storage_type(self) -> str:
        """The name of the class in files.

        >>> weft.ones(2).storage().pickle_storage_type()
        'FloatStorage'
        """
        return _legacy_name(self.dtype)


class _LegacyMeta(type):
    """Storages of a dtype are instances of the class that PyTorch had for it."""

    def __instancecheck__(cls, instance: object) -> bool:
        own = getattr(cls, "dtype", None)
        return isinstance(instance, TypedStorage) and own in (None, instance.dtype)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is TypedStorage or type.__subclasscheck__(cls, subclass)


class _LegacyStorage(metaclass=_LegacyMeta):
    """The older classes: what they make is a TypedStorage of their dtype."""

    dtype: _C.dtype

    def __new__(cls, *args: Any, wrap_storage: UntypedStorage | None = None) -> Any:
        if len(args) > 1 or (args and not isinstance(args[0], (int, Sequence))):
            kinds = ", ".join(type(arg).__name__ for arg in args)
            kind = RuntimeError if len(args) > 1 else TypeError
            raise kind(
                f"[{cls.__name__}] expected a number of elements or a sequence of them, got "
                f"({kinds}) ({cls}.__new__ received an invalid combination of arguments)"
            )
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype)

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool, size: int) -> TypedStorage:
        """The first `size` elements of a file: `UntypedStorage.from_file`."""
        bytes_of = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        made = TypedStorage(wrap_storage=bytes_of, dtype=cls.dtype)
        made._filename = bytes_of.filename
        return made

    @classmethod
    def from_buffer(
        cls, data: Any, byte_order: str = "native", *, count: int = -1, offset: int = 0
    ) -> TypedStorage:
        """A copy of the elements that lie in a buffer of bytes.

        Args:
            data: bytes, or another object with a buffer.
            byte_order: of them: "native", "little" or "big".
            count: how many elements; -1: all that are there.
            offset: of the first, in bytes.

        Raises: ValueError for no whole number of elements, too few bytes, or another order.
        """
        memory, size = bytearray(memoryview(data).cast("B")[offset:]), cls.dtype.itemsize
        count = len(memory) // size if count < 0 and len(memory) % size == 0 else count
        if not 0 <= count * size <= len(memory) or byte_order not in ("native", "little", "big"):
            raise ValueError(
                f"[from_buffer] expected bytes of whole elements of {size} and byte_order native, "
                f"little or big, got {len(memory)} bytes, count={count}, {byte_order!r}"
            )
        memory = memory[: count * size]
        if byte_order not in ("native", sys.byteorder):
            part = size // 2 if cls.dtype.is_complex else size
            for start in range(0, len(memory), part):
                memory[start : start + part] = memory[start : start + part][::-1]
        bytes_of = UntypedStorage._of(_bytes_over(memory, len(memory)))
        return TypedStorage(wrap_storage=bytes_of, dtype=cls.dtype)


def _legacy(name: str, dtype: _C.dtype) -> type[_LegacyStorage]:
    made: Any = _LegacyMeta(name, (_LegacyStorage,), {"dtype": dtype, "__module__": "torch"})
    made.__doc__ = f"""The older name of `TypedStorage` with elements of {str(dtype)[6:]}.

    Args:
        size: how many elements, which are not set, or a sequence of them.

    Raises: TypeError for anything else, RuntimeError for more of them.

    >>> isinstance(weft.{name}(3), weft.TypedStorage)
    True
    """
    _LEGACY_NAMES[dtype] = name
    out: type[_LegacyStorage] = made
    return out


_LEGACY_NAMES: dict[_C.dtype, str] = {}


def _legacy_name(dtype: _C.dtype) -> str:
    if dtype not in _LEGACY_NAMES:
        raise KeyError(f"[TypedStorage] expected a dtype with a class of storages, got {dtype}")
    return _LEGACY_NAMES[dtype]


DoubleStorage = _legacy("DoubleStorage", _C.float64)
FloatStorage = _legacy("FloatStorage", _C.float32)
HalfStorage = _legacy("HalfStorage", _C.float16)
BFloat16Storage = _legacy("BFloat16Storage", _C.bfloat16)
LongStorage = _legacy("LongStorage", _C.int64)
IntStorage = _legacy("IntStorage", _C.int32)
ShortStorage = _legacy("ShortStorage", _C.int16)
CharStorage = _legacy("CharStorage", _C.int8)
ByteStorage = _legacy("ByteStorage", _C.uint8)
BoolStorage = _legacy("BoolStorage", _C.bool)
ComplexDoubleStorage = _legacy("ComplexDoubleStorage", _C.complex128)
ComplexFloatStorage = _legacy("ComplexFloatStorage", _C.complex64)
