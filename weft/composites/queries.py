"""What programs ask of places, memory and marks that weft has one of."""

from __future__ import annotations

from typing import Any

from weft._C import Tensor
from weft.base.device import CPU, META, expect_cpu
from weft.base.forms import attach, method
from weft.base.names import strided

__all__ = ["get_device", "is_distributed", "is_storage", "is_tensor"]


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage: weft has tensors alone."""
    return False


@method
def get_device(input: Tensor) -> int:
    """-1: of the CPU, and of meta tensors."""
    return -1


@method
def is_distributed(input: Tensor) -> bool:
    """False."""
    return False


@method
def cpu(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """self: it lives there already. A meta tensor raises NotImplementedError."""
    return self.to("cpu") if self.is_meta else self


@method
def cuda(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raises AssertionError: this build has the CPU only."""
    expect_cpu("cuda")
    return self


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False: there is no device that pages would be locked for."""
    return False


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """RuntimeError: there is no device that pages would be locked for."""
    raise RuntimeError(
        "[pin_memory] expected an accelerator, got a build for the CPU (Cannot access accelerator "
        "device when none is available.)"
    )


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, of `dtype`: every tensor is dense, and `masked_grad` is for others."""
    return self if dtype is None else self.to(dtype)


@method
def dense_dim(self: Tensor) -> int:
    """The number of dimensions."""
    return self.dim()


@method
def sparse_dim(self: Tensor) -> int:
    """0: every tensor is dense."""
    return 0


@method
def is_coalesced(self: Tensor) -> bool:
    """False: no tensor is sparse."""
    return False


# ---- memory


@method
def const_data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    return self.data_ptr()


@method
def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes (`share_memory_`)."""
    import sys

    if self.is_meta or "weft.multiprocessing.shared" not in sys.modules:
        return False
    from weft.multiprocessing import shared

    return shared.is_shared(self)


@method
def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor's storage to memory that processes share, in place; returns self.

    >>> weft.zeros(2).share_memory_().is_shared()
    True
    """
    from weft.multiprocessing import shared

    return shared.share_memory_(self)


@method
def untyped_storage(self: Tensor) -> Any:
    """The tensor's memory as an object (weft/storage.py).

    >>> weft.zeros(2).untyped_storage().nbytes()
    8
    """
    from weft.storage import UntypedStorage

    return UntypedStorage(self)


@method
def storage(self: Tensor) -> Any:
    """The same with elements of the tensor's dtype.

    >>> weft.zeros(2).storage().size()
    2
    """
    from weft.storage import TypedStorage

    return TypedStorage(self)


# ---- marks


def _constant(name: str, value: Any, doc: str) -> None:
    attach(name, property(lambda self: value, doc=doc))


attach("device", property(lambda self: META if self.is_meta else CPU, doc="Where it lies."))
attach("is_cpu", property(lambda self: not self.is_meta, doc="Whether it lies in main memory."))
_constant("layout", strided, "`weft.strided`.")
_constant("name", None, "None: tensors have no names.")
for _name in (
    "is_cuda", "is_ipu", "is_maia", "is_mkldnn", "is_mps", "is_mtia", "is_nested",
    "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu",
):  # fmt: skip
    _constant(_name, False, "False: there is no such tensor here.")
