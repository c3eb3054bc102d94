"""Memory shared with other libraries: NumPy, DLPack, and the buffer protocol."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C
from weft._C import Tensor, dtype
from weft.base.device import expect_cpu, is_meta
from weft.base.forms import attach, method
from weft.base.shown import dtype_name
from weft.storage import TypedStorage, UntypedStorage

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_file", "from_numpy", "frombuffer"]


def from_numpy(array: Any) -> Tensor:
    """A tensor over the memory of a NumPy array of a dtype that weft has.

    Shape and strides are the array's. TypeError for what is no array, or has another dtype.

    >>> import numpy as np
    >>> weft.from_numpy(np.array([1., 2.]))
    tensor([1., 2.], dtype=torch.float64)
    """
    import numpy as np

    if not isinstance(array, np.ndarray):
        kind = type(array).__name__
        raise TypeError(
            f"[from_numpy] expected an array, got {kind} (expected np.ndarray (got {kind}))"
        )
    return _C._sharing(array)


def as_tensor(data: Any, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor: itself or its memory where that is possible, else a copy.

    The bytes of an untyped storage are taken for elements of the dtype, int64 without one.

    >>> t = weft.ones(2)
    >>> weft.as_tensor(t) is t, weft.as_tensor([1, 2])
    (True, tensor([1, 2]))
    """
    on_meta = is_meta(device)
    if isinstance(data, (UntypedStorage, TypedStorage)):
        data = _of_storage(data, dtype)
    if isinstance(data, Tensor):
        there = "meta" if on_meta else device
        return data if dtype is None and there is None else data.to(there, dtype)
    if on_meta:
        return _C.tensor(data, dtype=dtype, device="meta")
    if hasattr(data, "__array_interface__") and hasattr(data, "__setitem__"):  # no scalar
        try:
            shared = _C._sharing(data)
        except (TypeError, ValueError, BufferError):
            return _C.tensor(data, dtype=dtype)
        return shared if dtype is None else shared.to(dtype)
    return _C.tensor(data, dtype=dtype)


def _of_storage(storage: UntypedStorage | TypedStorage, kind: dtype | None) -> Tensor:
    own = storage.dtype if isinstance(storage, TypedStorage) else None
    if own is not None and kind not in (None, own):
        raise RuntimeError(
            f"[as_tensor] expected the storage's dtype {own}, got {kind} (Expected a Storage of "
            f"type {kind} or an UntypedStorage, but got {own})"
        )
    kind = kind or own or weft.int64
    count = storage.nbytes() // kind.itemsize
    return storage._elements(kind, 0, (count,), (1,)) if count else weft.empty(0, dtype=kind)


def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor; `copy=True` never shares memory.

    Of the shape and dtype of `obj`, unless `dtype` says another.

    >>> weft.asarray([1, 2])
    tensor([1, 2])
    >>> weft.asarray(weft.arange(2).untyped_storage()[8:], dtype=weft.int64)
    tensor([1])
    """
    if copy and isinstance(obj, (UntypedStorage, TypedStorage)):
        obj = _of_storage(obj, dtype)
    out = (
        _C.tensor(obj, dtype=dtype, device=device)
        if copy
        else as_tensor(obj, dtype=dtype, device=device)
    )
    return out.detach().requires_grad_() if requires_grad else out


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-D tensor over the memory of an object with the buffer protocol; of bytes, a copy.

    Args:
        buffer: bytes, a bytearray, an array ...
        dtype: of the elements.
        count: how many; -1 for all.
        offset: bytes before the first.

    Raises:
        ValueError: a buffer that holds less, or is empty; what is no buffer.

    >>> weft.frombuffer(bytearray(b"\\x01\\x02"), dtype=weft.uint8)
    tensor([1, 2], dtype=torch.uint8)
    """
    import numpy as np

    try:
        size, item = memoryview(buffer).nbytes, dtype.itemsize
    except TypeError:
        raise ValueError(
            f"[frombuffer] expected bytes or another buffer, got {type(buffer).__name__} (object "
            "does not implement Python buffer protocol.)"
        ) from None
    left = size - offset
    if size == 0 or count == 0 or not 0 <= offset < size:
        raise ValueError(
            f"[frombuffer] expected a buffer and a count above 0 and an offset inside, got {size} "
            f"bytes, count {count} and offset {offset}"
        )
    if count < 0 and left % item:
        raise ValueError(
            f"[frombuffer] expected whole elements of {item} bytes, got {left} bytes after the "
            f"offset (buffer size must be a multiple of element size ({item}))"
        )
    if count * item > left:
        raise ValueError(
            f"[frombuffer] expected {count} elements of {item} bytes, got {left} bytes after the "
            "offset"
        )
    carriers = {weft.bfloat16: "int16", weft.complex32: "int32"}
    small = dtype.is_floating_point and item == 1  # NumPy has no float8
    brief = small or dtype in carriers
    kind = "int8" if small else carriers.get(dtype, dtype_name(dtype))
    part = np.frombuffer(buffer, kind, left // item if count < 0 else count, offset)
    out = weft.from_numpy(part if part.flags.writeable else part.copy())
    out = out.view(dtype) if brief else out
    return out.requires_grad_() if requires_grad else out


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
) -> Tensor:
    """A 1-D tensor over a file that is mapped into memory: no header, only elements.

    Args:
        filename: a path.
        shared: whether what is written goes to the file, which is made, or made longer, if need
            be. Otherwise it stays in memory.
        size: how many elements.
        dtype: of the elements; the default dtype if it is left out.

    Raises:
        RuntimeError: the file cannot be opened, or is too small and not `shared`; a negative size.
        NotImplementedError: the meta device.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.bin")
    ...     _ = weft.from_file(path, shared=True, size=3).fill_(2.0)
    ...     weft.from_file(path, size=2)
    tensor([2., 2.])
    """
    kind, count = dtype or weft.get_default_dtype(), size or 0
    if count < 0:
        raise RuntimeError(f"[from_file] expected a size of at least 0, got {count}")
    _C.empty(0, dtype=kind, layout=layout, device=device, pin_memory=bool(pin_memory))
    if is_meta(device):
        raise NotImplementedError("[from_file] expected the CPU, got meta: a file has values")
    storage = UntypedStorage.from_file(filename, bool(shared), count * kind.itemsize)
    out = storage._elements(kind, 0, (count,), (1,)) if count else weft.empty(0, dtype=kind)
    return out.requires_grad_() if requires_grad else out


@method
def numpy(self: Tensor, *, force: bool = False) -> Any:
    """A NumPy array over the same memory. `force=True`, or `no_grad` around it, detaches first.

    Of self's shape, strides and dtype. RuntimeError for a tensor that requires grad, TypeError for
    bfloat16.

    >>> weft.ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    import numpy as np

    if self.is_meta:
        if force:
            self.cpu()  # which says why not
        raise TypeError(
            "[numpy] expected a tensor with values, got one of the meta device (can't convert "
            "meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            "first.)"
        )
    if self.requires_grad:
        if not force and weft.is_grad_enabled():  # where nothing is recorded, nothing is lost
            raise RuntimeError(
                "[numpy] expected a tensor outside the graph, got one that requires grad "
                "(Can't call numpy() on Tensor that requires grad.). Hint: use "
                "tensor.detach().numpy() instead."
            )
        self = self.detach()
    return np.asarray(memoryview(self))


@method
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


@method
def __array_wrap__(
    self: Tensor, array: Any, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """What NumPy's functions make of a tensor is a tensor again, sharing the result's memory."""
    return weft.from_numpy(array)


attach("__array_priority__", 1000)  # array + tensor is the tensor's to answer


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of an array of another library, or of a DLPack capsule.

    Shape, strides and dtype are the array's. BufferError for a dtype that weft lacks.

    >>> import numpy as np
    >>> weft.from_dlpack(np.array([1., 2.]))
    tensor([1., 2.], dtype=torch.float64)
    """
    expect_cpu(device)
    if hasattr(ext_tensor, "__dlpack__"):
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = ext_tensor.__dlpack__()
    else:
        capsule = ext_tensor
    out = _C._from_dlpack(capsule)
    return out.clone() if copy else out


@method
def __dlpack__(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule over the same memory, for other array libraries.

    Raises: BufferError for a tensor that requires grad or for another device.
    """
    if self.requires_grad:
        raise BufferError(
            "[__dlpack__] expected a tensor outside the graph, got one that requires "
            "grad (Can't export tensors that require gradient). Hint: use "
            "tensor.detach()"
        )
    if self.is_meta:
        raise BufferError(
            "[__dlpack__] expected a tensor with memory, got one of the meta device (Cannot pack "
            "tensors on meta)"
        )
    if dl_device not in (None, (1, 0)):
        raise BufferError(f"[__dlpack__] expected the CPU (1, 0), got {dl_device}")
    return _C._to_dlpack(self.clone() if copy else self, max_version)


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """DLPack's name of the CPU. ValueError for a meta tensor."""
    if self.is_meta:
        raise ValueError(
            "[__dlpack_device__] expected a tensor with memory, got one of the meta device "
            "(Unknown device type meta for Dlpack)"
        )
    return (1, 0)


_STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


@method
def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """`weft.array_api`, the functions of the Python array API standard.

    Raises: ValueError for a version of the standard that there is not.

    >>> weft.ones(2).__array_namespace__().__name__
    'weft.array_api'
    """
    if api_version not in (None, *_STANDARDS):
        raise ValueError(
            f"[__array_namespace__] expected one of {', '.join(_STANDARDS)}, got {api_version!r}"
        )
    import weft.array_api

    return weft.array_api


@method
def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """self on the CPU, or on `meta` without its values: the array API standard's `to`.

    Raises: ValueError for a stream, of which there are none, and as `to` does for other devices
    (AssertionError for 'cuda' and 'xpu', NotImplementedError for the rest).

    The shape stays.

    >>> weft.ones(2).to_device("meta").shape
    torch.Size([2])
    """
    if stream is not None:
        raise ValueError(f"[to_device] expected no stream, got {stream!r}")
    return self.to(device)
