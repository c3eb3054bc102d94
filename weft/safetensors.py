"""Files of safetensors, read and written as https://huggingface.co/docs/safetensors says.

The names are those of the package safetensors.torch. A file is the length of a JSON header (8
bytes), the header, and the bytes of the tensors, row-major and little-endian. Whatever the header
says is checked before a byte is read or allocated for it.
"""

from __future__ import annotations

import itertools
import os
import struct
import sys
from collections.abc import Iterable, Mapping
from typing import IO, Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.shown import dtype_name

__all__ = ["SafetensorError", "load", "load_file", "safe_open", "save", "save_file"]

Path = str | os.PathLike[str]

MAX_HEADER = 100_000_000
# A file is mapped, and products read their weights where they lie: a fifth faster where these begin
# with a line of the cache. So the header ends with one, and what fills whole lines comes first.
_LINE = 64
_NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "int32": "I32",
    "uint32": "U32", "int64": "I64", "uint64": "U64", "float16": "F16", "bfloat16": "BF16",
    "float32": "F32", "float64": "F64", "complex64": "C64", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
_SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4, "I64": 8, "U64": 8,
    "F16": 2, "BF16": 2, "F32": 4, "F64": 8, "C64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}  # fmt: skip
_DTYPES = {short: name for name, short in _NAMES.items()}


class SafetensorError(ValueError):
    """A file that breaks the rules of the format."""


def _fail(expected: str, got: Any) -> SafetensorError:
    return SafetensorError(f"[safetensors] expected {expected}, got {str(got)[:200]}")


# ---- the header


class _Entry:
    """A tensor of the header: its place counts from the end of the header."""

    __slots__ = ("begin", "dtype", "end", "shape")

    def __init__(self, dtype: str, shape: list[int], begin: int, end: int) -> None:
        self.dtype, self.shape, self.begin, self.end = dtype, shape, begin, end

    def kind(self) -> _C.dtype:
        """weft's dtype."""
        kind: _C.dtype = getattr(_C, _DTYPES[self.dtype])
        return kind


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _entry(name: str, info: Any) -> _Entry:
    if not isinstance(info, dict) or set(info) != {"dtype", "shape", "data_offsets"}:
        raise _fail(f"dtype, shape and data_offsets of {name!r}", info)
    dtype, shape, offsets = info["dtype"], info["shape"], info["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _SIZES:
        raise _fail(f"a known dtype of {name!r}", dtype)
    if not isinstance(shape, list) or len(shape) > 64 or not all(map(_is_count, shape)):
        raise _fail(f"a shape of {name!r}", shape)
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise _fail(f"two offsets of {name!r}", offsets)
    size = _SIZES[dtype]
    for n in shape:
        size *= n
    if offsets[1] - offsets[0] != size:
        raise _fail(f"{size} bytes for {name!r}, {dtype} {shape}", offsets)
    return _Entry(dtype, shape, *offsets)


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _fail("every name once", "a name twice")
    return out


def _refuse(text: str) -> Any:
    raise _fail("JSON", text)


def _parse(header: bytes) -> Any:
    import json

    if not header.startswith(b"{"):
        raise _fail("a header that begins with '{'", header[:1])
    try:
        text = header.decode("utf-8")
        return json.loads(text, object_pairs_hook=_no_doubles, parse_constant=_refuse)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise _fail("a header in JSON", error) from None
    except SafetensorError:
        raise
    except ValueError as error:  # an int of too many digits
        raise _fail("a header in JSON", error) from None


def _read_header(file: IO[bytes], total: int) -> tuple[dict[str, _Entry], dict[str, str], int]:
    """Entries by name in the order of their bytes, the metadata, and where the bytes begin."""
    head = file.read(8)
    if len(head) < 8:
        raise _fail("a header length of 8 bytes", f"{len(head)} bytes")
    (length,) = struct.unpack("<Q", head)
    if length > MAX_HEADER or length > total - 8:
        raise _fail(f"a header of at most {min(MAX_HEADER, total - 8)} bytes", length)
    header = file.read(length)
    if len(header) != length:
        raise _fail(f"{length} bytes of header", len(header))
    parsed = _parse(header)
    metadata = parsed.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _fail("metadata from text to text", metadata)
    entries = {name: _entry(name, info) for name, info in parsed.items()}
    entries = dict(sorted(entries.items(), key=lambda pair: (pair[1].begin, pair[1].end)))
    at = 0
    for name, entry in entries.items():
        if entry.begin != at:
            raise _fail(f"the bytes of {name!r} from {at}, without holes or overlaps", entry.begin)
        at = entry.end
    if at != total - 8 - length:
        raise _fail(f"{at} bytes of tensors", total - 8 - length)
    return entries, metadata, 8 + length


# ---- writing


def _checked(tensors: Any) -> list[tuple[str, Tensor]]:
    if not isinstance(tensors, Mapping):
        raise ValueError(f"[safetensors] expected a dict of tensors, got {type(tensors).__name__}")
    places: list[tuple[int, int, str]] = []
    for name, t in tensors.items():
        if not isinstance(name, str) or not isinstance(t, Tensor):
            raise ValueError(
                f"[safetensors] expected tensors by name, got {name!r}: {type(t).__name__}"
            )
        if dtype_name(t.dtype) not in _NAMES:
            raise ValueError(f"[safetensors] expected a dtype of the format, got {t.dtype}")
        if t.is_meta:
            raise ValueError(
                f"[safetensors] expected tensors with values, got {name!r} of the meta device"
            )
        if not t.is_contiguous():
            raise ValueError(
                f"[safetensors] expected contiguous tensors, got {name!r} with strides "
                f"{t.stride()} (You are trying to save a non contiguous tensor). Hint: pass "
                "tensor.contiguous()"
            )
        if t.numel():
            address, _, offset = t._storage_info()
            begin = address + offset * t.itemsize
            places.append((begin, begin + t.numel() * t.itemsize, name))
    places.sort()
    for before, after in itertools.pairwise(places):
        if after[0] < before[1]:
            raise RuntimeError(
                f"[safetensors] expected tensors with memory of their own, got {after[2]!r} over "
                f"that of {before[2]!r} (Some tensors share memory, this will lead to duplicate "
                "memory on disk). Hint: clone() one, or use weft.save"
            )

    def order(pair: tuple[str, Tensor]) -> tuple[bool, int, str]:
        name, t = pair
        return t.numel() * t.itemsize % _LINE != 0, -t.itemsize, name

    return sorted(tensors.items(), key=order)


def _header(tensors: list[tuple[str, Tensor]], metadata: Any) -> bytes:
    import json

    out: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(k, str) and isinstance(v, str) for k, v in metadata.items()):
            raise ValueError(f"[safetensors] expected metadata from str to str, got {metadata}")
        out["__metadata__"] = dict(metadata)
    at = 0
    for name, t in tensors:
        if name == "__metadata__":
            raise ValueError("[safetensors] expected names of tensors, got '__metadata__'")
        size = t.numel() * t.itemsize
        out[name] = {
            "dtype": _NAMES[dtype_name(t.dtype)],
            "shape": list(t.shape),
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(out, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    return text + b" " * (-(8 + len(text)) % _LINE)


def _memory(t: Tensor) -> memoryview | bytes:
    """The bytes of a contiguous tensor, not copied."""
    if not t.numel():
        return b""
    size, offset = t.numel() * t.itemsize, t._storage_info()[2] * t.itemsize
    return memoryview(_C._over(t, _C.bool, offset, (size,), (1,))).cast("B")


def _expect_cpu(device: Any) -> None:
    if weft.device(device).type != "cpu":
        raise RuntimeError(f"[safetensors] expected the device 'cpu', got {str(device)!r}")


def _expect_little() -> None:
    if sys.byteorder != "little":
        raise RuntimeError("[safetensors] expected a little-endian machine, got a big-endian one")


def _pieces(tensors: Any, metadata: Any) -> Iterable[memoryview | bytes]:
    _expect_little()
    ordered = _checked(tensors)
    header = _header(ordered, metadata)
    return [struct.pack("<Q", len(header)), header, *(_memory(t) for _, t in ordered)]


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these tensors.

    Tensors of any shapes.

    Raises:
        ValueError: names or dtypes that the format has not, tensors that are not contiguous.
        RuntimeError: tensors that share memory.

    >>> weft.safetensors.load(weft.safetensors.save({"a": weft.ones(2)}))
    {'a': tensor([1., 1.])}
    """
    return b"".join(_pieces(tensors, metadata))


def save_file(
    tensors: Mapping[str, Tensor], filename: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes these tensors to a file, which is replaced as one step.

    Raises as `save`.

    Tensors of any shapes.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.safetensors")
    ...     weft.safetensors.save_file({"a": weft.ones(2)}, path, {"by": "weft"})
    ...     weft.safetensors.load_file(path)
    {'a': tensor([1., 1.])}
    """
    from weft._checkpoint.atomic import replaced

    pieces = _pieces(tensors, metadata)
    with replaced(filename) as file:
        for piece in pieces:
            file.write(piece)


# ---- reading


def read(data: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata in the bytes of a file."""
    import io

    from weft._checkpoint.archive import read_exactly_into
    from weft._checkpoint.reader import truths

    _expect_little()
    file = io.BytesIO(data)
    entries, metadata, start = _read_header(file, len(data))
    kinds = {name: entry.kind() for name, entry in entries.items()}
    out = {}
    file.seek(start)
    for name, entry in entries.items():
        out[name] = weft.empty(entry.shape, dtype=kinds[name], device="cpu")
        if entry.end > entry.begin:
            read_exactly_into(file, _memory(out[name]))  # type: ignore[arg-type]
            truths(out[name])
    return out, metadata


def mapped(filename: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The same of a file, whose bytes are the tensors' memory (Note [Files in use],
    src/native/file.h): a tensor that is written gets pages of its own."""
    _expect_little()
    with open(filename, "rb"):  # who may not, hears it as Python says it
        pass
    try:
        return _C._map_file(filename)
    except ValueError as error:
        raise SafetensorError(str(error)) from None


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors in the bytes of a file. SafetensorError (a ValueError) if it breaks a rule.

    Shapes and dtypes are those of the file.

    >>> weft.safetensors.load(weft.safetensors.save({"w": weft.ones(2)}))
    {'w': tensor([1., 1.])}
    """
    return read(data)[0]


def load_file(filename: Path, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a file. SafetensorError (a ValueError) if it breaks a rule of the format.

    The file is mapped: nothing is read before it is used, and what is written into a tensor is not
    written into the file. While tensors of it live, replace the file by renaming another one, as
    `save_file` does; do not write into it or cut it.

    Shapes and dtypes are those of the file.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> weft.safetensors.save_file({"w": weft.ones(2)}, path)
    >>> weft.safetensors.load_file(path)
    {'w': tensor([1., 1.])}
    """
    _expect_cpu(device)
    return mapped(filename)[0]


class _Slice:
    """A tensor in a file, of which only what is asked for is read."""

    def __init__(self, mapped: Tensor, entry: _Entry) -> None:
        self._mapped, self._entry = mapped, entry

    def get_shape(self) -> list[int]:
        """Its shape."""
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        """Its dtype, as the format calls it."""
        return self._entry.dtype

    def __getitem__(self, index: Any) -> Tensor:
        return self._mapped[index].clone()


class safe_open:
    """A file whose tensors are read when asked for.

    >>> import os, tempfile
    >>> from weft.safetensors import safe_open, save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.safetensors")
    ...     save_file({"a": weft.arange(6.).reshape(3, 2)}, path, {"by": "weft"})
    ...     with safe_open(path, framework="pt") as file:
    ...         list(file.keys()), file.metadata(), file.get_slice("a")[1:, :1]
    (['a'], {'by': 'weft'}, tensor([[2.],
            [4.]]))
    """

    def __init__(self, filename: Path, framework: str = "pt", device: Any = "cpu") -> None:
        if framework not in ("pt", "torch", "pytorch", "weft"):
            raise SafetensorError(f"[safe_open] expected framework 'pt', got {framework!r}")
        _expect_little()
        _expect_cpu(device)
        import mmap

        with open(filename, "rb") as file:
            total = os.fstat(file.fileno()).st_size
            self._entries, self._metadata, self._start = _read_header(file, total)
            self._map: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exc: object) -> None:
        self._map = None  # unmapped with the last tensor over it

    def keys(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._entries)

    def offset_keys(self) -> list[str]:
        """The names in the order of their bytes."""
        return list(self._entries)

    def metadata(self) -> dict[str, str] | None:
        """The metadata, or None where there is none."""
        return dict(self._metadata) or None

    def _mapped(self, name: str) -> tuple[Tensor, _Entry]:
        if self._map is None:
            raise SafetensorError("[safe_open] expected an open file, got a closed one")
        if name not in self._entries:
            raise SafetensorError(f"[safe_open] expected one of {self.keys()}, got {name!r}")
        from weft._checkpoint.reader import truths

        entry = self._entries[name]
        stride: list[int] = []
        step = 1
        for n in reversed(entry.shape):
            stride.insert(0, step)
            step *= max(n, 1)
        part = memoryview(self._map)[self._start + entry.begin : self._start + entry.end]
        try:
            out = _C._over(part, entry.kind(), 0, tuple(entry.shape), tuple(stride))
        except ValueError:  # not aligned
            out = weft.empty(entry.shape, dtype=entry.kind(), device="cpu")
            _memory(out)[:] = part  # type: ignore[index]
        return truths(out), entry

    def get_tensor(self, name: str) -> Tensor:
        """The tensor of that name, in memory of its own."""
        return self._mapped(name)[0].clone()

    def get_slice(self, name: str) -> _Slice:
        """The tensor of that name; indexing it reads the part."""
        return _Slice(*self._mapped(name))
