"""Files that PyTorch wrote before version 1.6: pickles one after the other, then raw storages."""

from __future__ import annotations

import pickle
import struct
import sys
from pickle import UnpicklingError
from typing import IO, Any

from weft._C import Tensor
from weft._checkpoint.names import AllowList
from weft._checkpoint.pickler import Pickler, whole_memory
from weft._checkpoint.reader import (
    Restore,
    expect_storage,
    new_storage,
    swap,
    swapped_order,
    truths,
)
from weft._checkpoint.trusting import TrustingUnpickler
from weft._checkpoint.unpickler import Unpickler

MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001


def save(obj: object, file: IO[bytes], protocol: int) -> None:
    """Writes `obj` so. RuntimeError: see `Pickler`."""
    pickler = Pickler(protocol, before_archives=True)
    pickled = pickler.pickled(obj)
    storages = sorted(pickler.storages.values(), key=lambda storage: storage.key)
    machine = {
        "protocol_version": VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for head in (MAGIC, VERSION, machine):
        pickle.dump(head, file, protocol)
    file.write(pickled)
    pickle.dump([storage.key for storage in storages], file, protocol)
    for storage in storages:
        file.write(struct.pack("<q", storage.count))
        file.write(storage.memory())


def load(file: IO[bytes], restore: Restore, trusting: bool = False) -> Any:
    """The object of such a file. UnpicklingError or RuntimeError if it is none."""
    data = file.read()
    storages: dict[str, tuple[Tensor, int, int]] = {}
    moved: dict[str, Tensor] = {}
    left = len(data)

    def persistent_load(pid: Any) -> Any:
        nonlocal left
        if trusting and type(pid) is tuple and len(pid) == 4 and pid[0] == "module":
            return pid[1]  # a class of modules, with its source, which PyTorch compares
        kind, key, location, count, view = expect_storage(pid, 6)
        if view is not None:
            raise UnpicklingError("[load] expected whole storages, got a view of one (PyTorch 0.3)")
        if key not in storages:
            size = count * kind.size
            if size > left:
                raise UnpicklingError(f"[load] expected {size} bytes of a storage, got {left}")
            left -= size
            flat = new_storage(kind, count)
            storages[key] = flat, size, kind.word
            moved[key] = restore(flat, location)
        return moved[key]

    reader: Unpickler | TrustingUnpickler
    if trusting:
        reader = TrustingUnpickler(data, persistent_load)
    else:
        reader = Unpickler(data, AllowList(), persistent_load)
    if reader.load() != MAGIC:
        raise RuntimeError(
            "[load] expected a file of torch.save, got another (Invalid magic number; corrupt "
            "file?)"
        )
    if (version := reader.load()) != VERSION:
        raise RuntimeError(f"[load] expected protocol {VERSION}, got {version!r:.100}")
    machine = reader.load()
    little = not (isinstance(machine, dict) and machine.get("little_endian") is False)
    out = reader.load()
    keys = reader.load()
    known = isinstance(keys, list) and all(type(key) is str and key in storages for key in keys)
    if not known or len(set(keys)) != len(storages):
        raise UnpicklingError("[load] expected the keys of all storages, got others")
    _fill([storages[key] for key in keys], data, reader.at, little)
    return out


def _fill(storages: list[tuple[Tensor, int, int]], data: bytes, at: int, little: bool) -> None:
    """Reads storages from `data`: the number of elements, then their bytes."""
    foreign = swapped_order(b"little" if little else b"big")
    for flat, size, word in storages:
        end = at + 8 + size
        if end > len(data) or struct.unpack_from("<q", data, at)[0] != flat.numel():
            raise RuntimeError(
                f"[load] expected {size} bytes of a storage, got others or fewer (unexpected EOF. "
                "The file might be corrupted.)"
            )
        if size:
            memory = whole_memory(flat, size)
            memory[:] = data[at + 8 : end]  # type: ignore[index]
            if foreign:
                swap(memory, word)  # type: ignore[arg-type]
            truths(flat)
        at = end
