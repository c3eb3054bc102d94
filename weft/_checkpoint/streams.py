"""PyTorch's archives record by record: `weft.PyTorchFileReader` and `weft.PyTorchFileWriter`."""

from __future__ import annotations

import os
from typing import IO, Any

import weft
from weft import _C
from weft._C import Tensor
from weft._checkpoint.archive import ArchiveReader, ArchiveWriter, Record
from weft._checkpoint.pickler import whole_memory

__all__ = ["PyTorchFileReader", "PyTorchFileWriter"]


class PyTorchFileReader:
    """The records of a file of `weft.save` or torch.save.

    Args:
        file: a path, or a binary file that can seek.

    Raises: RuntimeError for what is no such file, or a record that is not there.

    >>> import io
    >>> file = io.BytesIO()
    >>> weft.save(weft.ones(2), file)
    >>> reader = weft.PyTorchFileReader(file)
    >>> reader.has_record("data.pkl"), reader.get_storage_from_record("data/0", 2, weft.float32)
    (True, tensor([1., 1.]))
    """

    def __init__(self, file: str | os.PathLike[str] | IO[bytes]) -> None:
        opened = open(file, "rb") if isinstance(file, (str, os.PathLike)) else file
        self._archive = ArchiveReader(opened)

    def _record(self, name: str) -> Record:
        record = self._archive.find(name)
        if record is None:
            raise RuntimeError(
                f"[PyTorchFileReader] expected a record of the archive, got {name!r} "
                f"(PytorchStreamReader failed locating file {name}: file not found)"
            )
        return record

    def has_record(self, name: str) -> bool:
        """Whether there is such a record."""
        return self._archive.find(name) is not None

    def get_all_records(self) -> list[str]:
        """The names of all."""
        prefix = self._archive.prefix
        return [n.removeprefix(prefix) for n in self._archive.records if n.startswith(prefix)]

    def get_record(self, name: str) -> bytes:
        """The bytes of one."""
        data = self._archive.read(name, self._record(name).size)
        assert data is not None
        return data

    def get_record_offset(self, name: str) -> int:
        """Where in the file its bytes begin."""
        return self._record(name).offset

    def get_record_size(self, name: str) -> int:
        """How many they are."""
        return self._record(name).size

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Tensor:
        """A 1-D tensor over new memory with the record's bytes.

        Args:
            name: the record.
            numel: the number of elements.
            dtype: their dtype; `weft.UntypedStorage` for bytes.

        Raises: RuntimeError for a record of another size.
        """
        record = self._record(name)
        out = weft.empty(numel, dtype=dtype if isinstance(dtype, _C.dtype) else _C.uint8)
        if out.nbytes != record.size:
            raise RuntimeError(
                f"[PyTorchFileReader] expected {out.nbytes} bytes in {name!r}, got {record.size}"
            )
        if record.size:
            self._archive.read_into(record, whole_memory(out, record.size))  # type: ignore[arg-type]
        return out


class PyTorchFileWriter:
    """Writes such a file; `write_end_of_file` makes it whole.

    Args:
        file: a path, or a binary file open for writing.

    >>> import io
    >>> file = io.BytesIO()
    >>> writer = weft.PyTorchFileWriter(file)
    >>> writer.write_record("data.pkl", b"N.", 2)
    >>> writer.write_end_of_file()
    >>> weft.PyTorchFileReader(file).get_all_records()
    ['data.pkl', 'byteorder', 'version']
    """

    def __init__(self, file: str | os.PathLike[str] | IO[bytes]) -> None:
        is_path = isinstance(file, (str, os.PathLike))
        stem = os.path.splitext(os.path.basename(os.fspath(file)))[0] if is_path else "archive"  # type: ignore[arg-type]
        self._own: IO[bytes] | None = open(file, "wb") if is_path else None  # type: ignore[arg-type]
        self._archive = ArchiveWriter(self._own or file, stem or "archive")  # type: ignore[arg-type]

    def archive_name(self) -> str:
        """The folder that its records are in."""
        return self._archive.name

    def write_record(self, name: str, data: bytes | memoryview | Tensor, size: int) -> None:
        """Adds the first `size` bytes of `data`, which may be a tensor's memory."""
        whole = whole_memory(data, size) if isinstance(data, Tensor) else data
        self._archive.write(name, memoryview(whole)[:size])

    def write_end_of_file(self) -> None:
        """Writes what makes the file whole."""
        import sys

        self._archive.write("byteorder", sys.byteorder.encode())
        self._archive.write("version", b"3\n")
        self._archive.__exit__(None)
        if self._own is not None:
            self._own.close()
