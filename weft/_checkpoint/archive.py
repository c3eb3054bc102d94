"""Zip archives as PyTorch writes them: stored, never compressed, tensors aligned to 64 bytes."""

from __future__ import annotations

import struct
import zipfile
from typing import IO, Any

ALIGNMENT = 64
_LOCAL_HEADER = struct.Struct("<4s5HIIIHH")
_ZIP64_EXTRA = 20  # what zipfile adds to the header of a large record
_LARGE = 1 << 31
_CHUNK = 1 << 24
MAX_RECORDS = 10_000_000


def _fail(expected: str, got: Any) -> RuntimeError:
    return RuntimeError(
        f"[load] expected {expected}, got {got} (PytorchStreamReader failed reading zip archive)"
    )


class Record:
    """Where a record's bytes lie in the file."""

    __slots__ = ("crc", "name", "offset", "size")

    def __init__(self, name: str, offset: int, size: int, crc: int) -> None:
        self.name, self.offset, self.size, self.crc = name, offset, size, crc


class ArchiveReader:
    """The records of an archive, after checking that the file can hold what it declares.

    Raises RuntimeError for compressed, encrypted, overlapping or doubled records, for sizes beyond
    the file, and for anything else that is no archive of PyTorch's.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.bytes = file.seek(0, 2)
        self.records: dict[str, Record] = {}
        self.prefix = ""
        try:
            self._read_directory()
        except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, EOFError,
                UnicodeDecodeError, IndexError, OverflowError) as error:  # fmt: skip
            raise _fail("a zip archive", f"{type(error).__name__}: {error}") from None

    def _read_directory(self) -> None:
        with zipfile.ZipFile(self.file) as archive:
            infos = archive.infolist()
        if len(infos) > MAX_RECORDS:
            raise _fail(f"at most {MAX_RECORDS} records", len(infos))
        found = sorted((self._locate(info) for info in infos), key=lambda r: (r.offset, r.size))
        end = 0
        for record in found:
            if record.offset < end:
                raise _fail("records that do not overlap", record.name)
            end = record.offset + record.size
        main = [name for name in self.records if name.endswith("/data.pkl")]
        if len(main) != 1:
            raise _fail("one record data.pkl in a folder", f"{len(main)} of them")
        self.prefix = main[0].removesuffix("data.pkl")

    def _locate(self, info: zipfile.ZipInfo) -> Record:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise _fail("records that are not compressed", info.filename)
        if info.flag_bits & 0x1:
            raise _fail("records that are not encrypted", info.filename)
        if info.orig_filename in self.records or info.filename in self.records:
            raise _fail("a record once", f"{info.filename} twice")
        at = info.header_offset
        if not 0 <= at <= self.bytes - _LOCAL_HEADER.size:
            raise _fail(f"a record inside {self.bytes} bytes", f"{info.filename} at {at}")
        self.file.seek(at)
        header = _LOCAL_HEADER.unpack(_exactly(self.file, _LOCAL_HEADER.size))
        if header[0] != b"PK\x03\x04":
            raise _fail("a local header", f"{header[0]!r} at {at}")
        offset = at + _LOCAL_HEADER.size + header[9] + header[10]
        if info.file_size < 0 or offset + info.file_size > self.bytes:
            raise _fail(
                f"a record inside {self.bytes} bytes",
                f"{info.filename}, {info.file_size} bytes at {offset}",
            )
        record = Record(info.filename, offset, info.file_size, info.CRC)
        self.records[info.filename] = record
        return record

    def find(self, name: str) -> Record | None:
        """The record of that name below the archive's folder."""
        return self.records.get(self.prefix + name)

    def read(self, name: str, limit: int) -> bytes | None:
        """The bytes of a record of at most `limit` bytes; None where there is none."""
        record = self.find(name)
        if record is None:
            return None
        if record.size > limit:
            raise _fail(f"{name} of at most {limit} bytes", record.size)
        self.file.seek(record.offset)
        data = _exactly(self.file, record.size)
        self._check(record, data)
        return data

    def read_into(self, record: Record, memory: memoryview) -> None:
        """Fills `memory`, which has the record's size."""
        self.file.seek(record.offset)
        read_exactly_into(self.file, memory)
        self._check(record, memory)

    def _check(self, record: Record, data: bytes | memoryview) -> None:
        import zlib

        # PyTorch can be told to write no checksums: it then leaves 0.
        if record.crc and zlib.crc32(data) != record.crc:
            raise _fail(f"{record.name} with checksum {record.crc:#010x}", "another: it is damaged")


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise _fail(f"{count} bytes", len(data))
    return data


def read_exactly_into(file: IO[bytes], memory: memoryview) -> None:
    """Fills `memory` from the file's position; RuntimeError where the file ends before."""
    readinto = getattr(file, "readinto", None)
    done = 0
    while done < len(memory):
        if readinto is not None:
            count = readinto(memory[done:])
        else:
            piece = file.read(min(len(memory) - done, _CHUNK))
            count = len(piece)
            memory[done : done + count] = piece
        if not count:
            raise _fail(f"{len(memory)} bytes", done)
        done += count


class ArchiveWriter:
    """Writes records below a folder `name`, each one's bytes at a multiple of 64.

    >>> import io
    >>> from weft._checkpoint.archive import ArchiveReader, ArchiveWriter
    >>> file = io.BytesIO()
    >>> with ArchiveWriter(file, "archive") as archive:
    ...     archive.write("data.pkl", b"N.")
    >>> ArchiveReader(file).read("data.pkl", 10)
    b'N.'
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file = file
        self.name = name
        self.zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self.padded: list[zipfile.ZipInfo] = []

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: Any, *exc: Any) -> None:
        if kind is None:
            for info in self.padded:
                info.extra = b""  # the padding counts in the local headers only
            self.zip.close()
        else:
            # An unfinished archive gets no directory, so that nobody takes it for a whole one.
            self.zip.fp = None

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Adds a record."""
        import zlib

        info = zipfile.ZipInfo(f"{self.name}/{name}")
        large, at = len(data) >= _LARGE, self._position()
        before = _LOCAL_HEADER.size + len(info.filename.encode()) + (_ZIP64_EXTRA if large else 0)
        fill = -(at + before + 4) % ALIGNMENT
        info.extra = b"FB" + struct.pack("<H", fill) + b"Z" * fill
        info.file_size = info.compress_size = len(data)
        info.CRC = zlib.crc32(data)
        info.header_offset = at
        header = info.FileHeader(zip64=large)
        file: Any = self.zip.fp  # all is known: no header to be written again, as zipfile's own
        file.write(header)
        file.write(data)
        self.zip.filelist.append(info)
        file.flush()  # of a device the place is 0 when all is written
        self.zip.start_dir = file.tell()
        self.padded.append(info)

    def _position(self) -> int:
        return self.zip.start_dir if self.padded else self.zip.fp.tell()  # type: ignore[union-attr]
