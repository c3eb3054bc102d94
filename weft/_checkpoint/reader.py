"""Storages of a file: read into new memory, or mapped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft._checkpoint.archive import ArchiveReader
from weft._checkpoint.dtypes import BYTES, StorageType, dtype_named
from weft._checkpoint.pickler import whole_memory
from weft._checkpoint.skipping import SKIPPED

#: From (storage, location) to the storage where it is wanted.
Restore = Callable[[Tensor, str], Tensor]


def restore_with(map_location: Any) -> Restore:
    """The meaning of `load`'s argument: None, a device, a dict of locations, or a function."""
    if map_location is None:
        return _default
    if isinstance(map_location, dict):
        return lambda storage, at: _default(storage, str(map_location.get(at, at)))
    if isinstance(map_location, (str, bytes, weft.device)):
        name = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, at: _default(storage, name)
    if not callable(map_location):
        raise TypeError(
            "[load] expected map_location to be a device, a dict or a function, got "
            f"{type(map_location).__name__}"
        )

    def restore(storage: Tensor, at: str) -> Tensor:
        out = map_location(storage, at)
        if out is None:
            return _default(storage, at)
        if not isinstance(out, Tensor) or out.dtype is not storage.dtype:
            raise TypeError(
                f"[load] expected map_location to return the storage, got {type(out).__name__}"
            )
        return out

    return restore


def _default(storage: Tensor, at: str) -> Tensor:
    if at.partition(":")[0] == "meta":
        return storage.to("meta")
    if at.partition(":")[0] != "cpu":
        raise RuntimeError(
            f"[load] expected tensors of the CPU, got some of {at!r} (Attempting to deserialize "
            "object on a CUDA device but torch.cuda.is_available() is False). Hint: pass "
            "map_location='cpu'"
        )
    return storage


def expect_storage(pid: Any, parts: int) -> tuple[Any, ...]:
    """Checks a persistent id; returns (type, key, location, elements, ...)."""
    if type(pid) is not tuple or len(pid) != parts or pid[0] not in ("storage", b"storage"):
        raise UnpicklingError(
            "[load] expected the id of a storage (Only persistent_load of storage is allowed), got "
            f"{pid!r:.200}"
        )
    kind, key, location, count = pid[1:5]
    if (
        not isinstance(kind, StorageType)
        or type(key) is not str
        or type(location) is not str
        or type(count) is not int
        or count < 0
    ):
        raise UnpicklingError(f"[load] expected type, key, place and size, got {pid!r:.200}")
    return pid[1:]


def kept_as(kind: StorageType) -> Any:
    """The dtype of the 1-D tensor over a storage."""
    return BYTES if kind.dtype is None else dtype_named(kind.dtype)


def new_storage(kind: StorageType, count: int) -> Tensor:
    """Memory for a storage; the caller has checked that the file has the bytes for it."""
    return weft.empty(count, dtype=kept_as(kind), device="cpu")


def swap(memory: memoryview, word: int) -> None:
    """Exchanges the byte order of all numbers of `word` bytes, in place."""
    if word > 1 and len(memory):
        import numpy as np

        np.frombuffer(memory, dtype=f"u{word}").byteswap(inplace=True)


def swapped_order(record: bytes | None, default: str = "little") -> bool:
    """Whether the file's byte order is not the machine's."""
    if record not in (None, b"little", b"big"):
        raise ValueError(f"Unknown endianness type: {record!r:.100}")
    order = default if record is None else record.decode()
    return order != sys.byteorder


def truths(t: Tensor) -> Tensor:
    """`t`, which a file has filled from its storage's start on. A file may hold any byte where a
    bool is only ever 0 or 1 in memory: others become 1."""
    if t.dtype is _C.bool and t.numel():
        raw = _C._over(t, _C.uint8, 0, (t.numel(),), (1,))
        if bool((raw > 1).any()):
            raw.clamp_(max=1)
    return t


def over_map(memory: Any, kind: StorageType, count: int, offset: int) -> Tensor:
    """The 1-D tensor over a part of a mapped file; a copy where the part is not aligned."""
    part = memoryview(memory)[offset : offset + count * kind.size]
    try:
        return _C._over(part, kept_as(kind), 0, (count,), (1,))
    except ValueError:
        out = new_storage(kind, count)
        memoryview(_C._over(out, _C.bool, 0, (len(part),), (1,))).cast("B")[:] = part
        return out


class ArchiveStorages:
    """Those of a zip archive, each read, or found in `memory`, when it is first asked for."""

    def __init__(
        self, archive: ArchiveReader, restore: Restore, foreign: bool, memory: Any
    ) -> None:
        self._archive, self._restore = archive, restore
        self._foreign, self._memory = foreign, memory  # another order of bytes; the mapped file
        self._known: dict[str, Tensor] = {}

    def named(self, pid: Any) -> Tensor:
        """The storage of a persistent id of the pickle."""
        kind, key, location, count = expect_storage(pid, 5)
        if key not in self._known:
            self._known[key] = self._restore(self._read(kind, key, count), location)
        if self._known[key].dtype is not kept_as(kind):
            raise UnpicklingError(f"[load] expected storage {key!r:.100} in one dtype, got two")
        return self._known[key]

    def _read(self, kind: Any, key: str, count: int) -> Tensor:
        record = self._archive.find(f"data/{key}")
        size = count * kind.size
        if record is None or record.size != size:
            raise UnpicklingError(
                f"[load] expected {size} bytes for storage {key!r:.100}, got "
                f"{'no record' if record is None else record.size}"
            )
        if SKIPPED.get():
            return weft.zeros(count, dtype=kept_as(kind), device="cpu")
        if self._memory is not None and size:
            out = over_map(self._memory, kind, count, record.offset)
        else:
            out = new_storage(kind, count)
            if size:
                self._archive.read_into(record, whole_memory(out, size))  # type: ignore[arg-type]
        if self._foreign and size:
            swap(whole_memory(out, out._storage_info()[1]), kind.word)  # type: ignore[arg-type]
        return truths(out)
