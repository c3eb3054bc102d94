"""What programs ask tensors of kinds, places and marks that weft has one of; older methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import _C, _inplace
from weft._C import Tensor

__all__ = [
    "adjoint", "conj_physical_", "frombuffer", "get_device", "is_conj", "is_distributed", "is_neg",
    "is_signed", "is_storage", "norm_except_dim", "range", "resize_as_", "resolve_conj",
    "resolve_neg", "typename",
]  # fmt: skip


def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of matrices, `mH`.

    >>> weft.adjoint(weft.tensor([[1j, 2]])).shape
    torch.Size([2, 1])
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"[adjoint] expected a matrix or a batch of them, got {input.dim()} dimensions "
            "(tensor.adjoint() is only supported on matrices or batches of matrices.)"
        )
    return input.mH


def conj_physical_(input: Tensor) -> Tensor:
    """The conjugate, in place."""
    return input.copy_(input.conj()) if input.is_complex() else input


def get_device(input: Tensor) -> int:
    """-1: tensors lie on the CPU."""
    return -1


def is_conj(input: Tensor) -> bool:
    """False: conjugates are made, not marked."""
    return False


def resolve_conj(input: Tensor) -> Tensor:
    """`input`: conjugates are made, not marked."""
    return input


def is_neg(input: Tensor) -> bool:
    """False: negatives are made, not marked."""
    return False


def resolve_neg(input: Tensor) -> Tensor:
    """`input`: negatives are made, not marked."""
    return input


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype.is_signed


def is_distributed(input: Tensor) -> bool:
    """False."""
    return False


def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage: weft has tensors alone."""
    return False


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`input`, resized to the template's sizes."""
    return _inplace.resize_as_(input, the_template, memory_format)


def typename(obj: Any) -> str:
    """The name of a tensor's type, such as 'torch.FloatTensor', or of any other value's.

    >>> weft.typename(weft.ones(1))
    'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", "") or ""
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dims but one, which stay as 1; over all for dim -1."""
    if dim == -1:
        return v.norm(pow)
    rest = [d for d, _ in enumerate(v.shape) if d != dim % v.dim()]
    return weft.linalg.vector_norm(v, pow, rest, True)


def range(  # noqa: A001
    start: float, end: float | None = None, step: float = 1, **options: Any
) -> Tensor:
    """`arange` that includes its end, in the default dtype; older, and best avoided.

    >>> weft.range(1, 4)
    tensor([1., 2., 3., 4.])
    """
    import warnings

    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("[range] expected a step that is not 0, got 0 (step must be nonzero)")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"[range] expected an end in the step's direction, got {start} to {end} by {step} "
            "(upper bound and larger bound inconsistent with step sign)"
        )
    kind = options.pop("dtype", None) or weft.get_default_dtype()
    count = int((end - start) / step) + 1
    line = weft.arange(count, dtype=weft.float64 if kind.is_floating_point else kind)
    return (start + line * step).to(kind).requires_grad_(options.pop("requires_grad", False))


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
        ValueError: a buffer that holds less, or is empty.

    >>> weft.frombuffer(bytearray(b"\\x01\\x02"), dtype=weft.uint8)
    tensor([1, 2], dtype=torch.uint8)
    """
    import numpy as np

    size, item = memoryview(buffer).nbytes, dtype.itemsize
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
    brief = dtype is weft.bfloat16
    kind = "int16" if brief else str(dtype).removeprefix("torch.")
    part = np.frombuffer(buffer, kind, left // item if count < 0 else count, offset)
    out = weft.from_numpy(part if part.flags.writeable else part.copy())
    out = out.view(dtype) if brief else out
    return out.requires_grad_() if requires_grad else out


def _apply(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Each element replaced by the function's result, in place; slow, and outside of the graph."""
    return _mapped(self, [self], callable)


def _map(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Each element replaced by the function's result for it and the other's, in place."""
    return _mapped(self, [self, tensor.expand(self.shape)], callable)


def _mapped(self: Tensor, operands: list[Tensor], callable: Callable[..., Any]) -> Tensor:
    if self.requires_grad:
        raise RuntimeError(
            "[apply_] expected a tensor outside the graph, got one that requires grad (Can't call "
            "apply_() on Variable that requires grad. Use var.detach().apply_() instead.)"
        )
    made = [callable(*values) for values in zip(*(t.flatten().tolist() for t in operands))]
    return self.copy_(weft.tensor(made, dtype=self.dtype).reshape(self.shape))


def _new(self: Tensor, *args: Any) -> Tensor:
    """A tensor of self's dtype: of sizes, or of data; older form of `new_empty`, `new_tensor`."""
    if len(args) == 1 and not isinstance(args[0], (int, _C.Size)):
        if isinstance(args[0], Tensor):
            return args[0].detach().to(self.dtype)
        return self.new_tensor(args[0])
    return self.new_empty(*args) if args else self.new_empty(0)


_FALSE = (
    "is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_sparse_csr",
    "is_vulkan", "is_xla", "is_xpu",
)  # fmt: skip

PROPERTIES: dict[str, property] = {
    name: property(lambda self: False, doc="False: there is no such tensor here.")
    for name in _FALSE
}
PROPERTIES["name"] = property(lambda self: None, doc="None: tensors have no names.")


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same memory, sizes and strides."""
    return (
        self.data_ptr() == tensor.data_ptr()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def to_dense(self: Tensor, dtype: Any = None) -> Tensor:
    """The tensor itself, of `dtype`: every tensor is dense."""
    return self if dtype is None else self.to(dtype)


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False: there is no device that pages would be locked for."""
    return False


def is_nonzero(self: Tensor) -> bool:
    """Whether the one element is not 0."""
    return weft.is_nonzero(self)


def const_data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    return self.data_ptr()


def dense_dim(self: Tensor) -> int:
    """The number of dimensions."""
    return self.dim()


def sparse_dim(self: Tensor) -> int:
    """0: every tensor is dense."""
    return 0


def is_coalesced(self: Tensor) -> bool:
    """False: no tensor is sparse."""
    return False


def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes (`share_memory_`)."""
    import sys

    if "weft.multiprocessing.shared" not in sys.modules:
        return False
    from weft.multiprocessing import shared

    return shared.is_shared(self)


def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor's storage to memory that processes share, in place; returns self.

    >>> weft.zeros(2).share_memory_().is_shared()
    True
    """
    from weft.multiprocessing import shared

    return shared.share_memory_(self)


def untyped_storage(self: Tensor) -> Any:
    """The tensor's memory as an object (weft/storage.py).

    >>> weft.zeros(2).untyped_storage().nbytes()
    8
    """
    from weft.storage import UntypedStorage

    return UntypedStorage(self)


def storage(self: Tensor) -> Any:
    """The same with elements of the tensor's dtype.

    >>> weft.zeros(2).storage().size()
    2
    """
    from weft.storage import TypedStorage

    return TypedStorage(self)


METHODS: dict[str, Callable[..., Any]] = {
    "adjoint": adjoint, "conj_physical_": conj_physical_, "get_device": get_device,
    "is_neg": is_neg, "is_signed": is_signed, "is_distributed": is_distributed,
    "resolve_neg": resolve_neg, "apply_": _apply, "map_": _map, "new": _new,
    "dense_dim": dense_dim, "sparse_dim": sparse_dim, "to_dense": to_dense,
    "is_coalesced": is_coalesced, "is_pinned": is_pinned, "is_shared": is_shared,
    "share_memory_": share_memory_, "storage": storage, "untyped_storage": untyped_storage,
    "is_nonzero": is_nonzero, "is_set_to": is_set_to, "const_data_ptr": const_data_ptr,
}  # fmt: skip
