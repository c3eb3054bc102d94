"""A tensor's memory as an object: its address and size, and whether processes share it.

weft's tensors carry their memory themselves; these are what programs ask about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft import _C
from weft._C import Tensor

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage:
    """The bytes under a tensor, those that its view leaves out too. `Tensor.untyped_storage()`.

    >>> x = weft.arange(4)
    >>> x[1:].untyped_storage().nbytes()
    32
    >>> x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    True
    """

    _dtype: _C.dtype = _C.uint8
    is_cuda = False

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"[{type(self).__name__}] expected a tensor, got {type(tensor).__name__}"
            )
        self._tensor = tensor

    @property
    def device(self) -> Any:
        """The CPU."""
        return self._tensor.device

    def data_ptr(self) -> int:
        """The address of the first byte; 0 if there is none."""
        address, size, _ = self._tensor._storage_info()
        return address if size else 0

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
        return _C._over(self._tensor, self._dtype, 0, (self.size(),), (1,))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self._all()[index])
        return self._all()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._all()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements as a list."""
        values: list[Any] = self._all().tolist()
        return values

    def fill_(self, value: Any) -> UntypedStorage:
        """Writes `value` into every element."""
        self._all().fill_(value)
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> UntypedStorage:
        """Writes the elements of `source`. RuntimeError for another size."""
        self._all().copy_(source._all())
        return self

    def clone(self) -> UntypedStorage:
        """A copy."""
        return type(self)(self._all().clone())

    def cpu(self) -> UntypedStorage:
        """self: it lies there already."""
        return self

    def is_shared(self) -> bool:
        """Whether other processes see what is written here."""
        return self._tensor.is_shared()

    def share_memory_(self) -> UntypedStorage:
        """`Tensor.share_memory_`."""
        self._tensor.share_memory_()
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """False: there is no GPU."""
        return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage) or self.nbytes() != other.nbytes():
            return False
        return self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def __repr__(self) -> str:
        lines = "".join(f" {v}\n" for v in self.tolist())
        kind = f"torch.storage.{type(self).__name__}"
        return f"{lines}[{kind}(device={self.device}) of size {len(self)}]"


class TypedStorage(UntypedStorage):
    """The same with elements of a dtype: what PyTorch's older `Tensor.storage()` gives."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor)
        self._dtype = tensor.dtype

    @property
    def dtype(self) -> _C.dtype:
        """The elements' dtype."""
        return self._dtype

    def untyped(self) -> UntypedStorage:
        """The same bytes without a dtype."""
        return UntypedStorage(self._tensor)

    def __repr__(self) -> str:
        lines = "".join(f" {v}\n" for v in self.tolist())
        return (
            f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of "
            f"size {len(self)}]"
        )
