"""Saving and loading: PyTorch's files, both ways. Loading runs no code of the file by default.

The format is that of torch.save since PyTorch 1.6, a zip archive of a pickle and of one record per
storage. `weft.load` interprets the pickle itself: a name outside the allow-list raises
pickle.UnpicklingError, and `add_safe_globals` extends the list. With `weights_only=False` Python's
pickle machinery reads it, whole modules included, and runs what the file says.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from contextvars import Token
from enum import Enum
from pickle import UnpicklingError
from typing import IO, TYPE_CHECKING, Any, Optional, Union

from weft.base.device import device

if TYPE_CHECKING:
    from weft._checkpoint.archive import ArchiveReader
    from weft._checkpoint.reader import Restore

__all__ = [
    "LoadEndianness", "add_safe_globals", "clear_safe_globals", "get_default_load_endianness",
    "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "safe_globals", "save",
    "set_default_load_endianness", "skip_data",
]  # fmt: skip

#: The protocol of pickles that `save` writes by default.
DEFAULT_PROTOCOL = 2
#: What `map_location` may be.
MAP_LOCATION = Optional[Union[Callable[[Any, str], Any], device, str, dict[str, str]]]  # noqa: UP007, UP045
#: What `load` and `save` take for a file.
FILE_LIKE = Union[str, os.PathLike[str], IO[bytes]]  # noqa: UP007

File = str | os.PathLike[str] | IO[bytes]

_MAX_SMALL_RECORD = 64
_MAX_VERSION = 10


# ---- saving


def save(
    obj: object,
    f: File,
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Writes `obj` to a file that `weft.load` and torch.load(weights_only=True) read.

    Tensors keep dtype, shape, strides, offset, `requires_grad` and the memory that they share;
    gradients and the graph are not written. A path is replaced as one step: if anything fails, the
    old file stays as it was.

    Args:
        obj: tensors, parameters, `state_dict()`s, and dicts, lists, tuples, sets, numbers, texts,
            bytes, Size, dtype, device of them. Other objects, such as whole modules, are written
            as pickle does it: by the import paths of their classes. `load` reads them with
            `weights_only=False`, or if their classes are allowed (`add_safe_globals`).
        f: a path, or a binary file open for writing.
        pickle_protocol: 1 to 5, or -1 for the last; 2 is that of PyTorch's files, and files of
            protocols above 3 need `weights_only=False` in PyTorch.
        _use_new_zipfile_serialization: False writes the format from before PyTorch 1.6, pickles
            and then storages, in place of a zip archive.

    Raises:
        RuntimeError: tensors of two dtypes view the same memory; the file's folder is not there.
        ValueError: another protocol or pickle module.

    >>> import io
    >>> file = io.BytesIO()
    >>> weft.save({"step": 3, "weight": weft.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> weft.load(file)
    {'step': 3, 'weight': tensor([1., 1.])}
    """
    from weft._checkpoint.pickler import PROTOCOLS

    if pickle_protocol == -1:
        pickle_protocol = PROTOCOLS[-1]
    if pickle_protocol not in PROTOCOLS:
        raise ValueError(
            f"[save] expected pickle_protocol from 1 to {PROTOCOLS[-1]}, got {pickle_protocol} "
            f"(pickle protocol must be <= {PROTOCOLS[-1]})"
        )
    if pickle_module is not None and getattr(pickle_module, "__name__", "") != "pickle":
        raise ValueError(f"[save] expected the pickle module of Python, got {pickle_module}")
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError(
            "[save] expected a path or a file with a method 'write' (expected 'f' to be string, "
            f"path, or a file-like object with a 'write' attribute), got {type(f).__name__}"
        )
    write = _write if _use_new_zipfile_serialization else _write_before_archives
    if not isinstance(f, (str, os.PathLike)):
        write(obj, f, "archive", pickle_protocol)
        return
    from weft._checkpoint.atomic import expect_folder, replaced

    expect_folder(f)
    stem = os.path.splitext(os.path.basename(os.fspath(f)))[0]
    with replaced(f) as file:
        write(obj, file, stem if stem.isascii() and stem else "archive", pickle_protocol)


def _write_before_archives(obj: object, file: IO[bytes], name: str, protocol: int) -> None:
    from weft._checkpoint import legacy
    from weft._checkpoint.skipping import SKIPPED

    if SKIPPED.get():
        raise RuntimeError(
            "[save] expected the zip format under skip_data, got the one from before PyTorch 1.6 "
            "(Cannot use skip_data=True with _use_new_zipfile_serialization=False)"
        )
    legacy.save(obj, file, protocol)


def _write(obj: object, file: IO[bytes], name: str, protocol: int) -> None:
    import sys

    from weft._checkpoint.archive import ALIGNMENT, ArchiveWriter
    from weft._checkpoint.pickler import Pickler
    from weft._checkpoint.skipping import SKIPPED

    pickler = Pickler(protocol)
    pickled, skipped = pickler.pickled(obj), SKIPPED.get()
    with ArchiveWriter(file, name) as archive:
        archive.write("data.pkl", pickled)
        archive.write(".format_version", b"1")
        archive.write(".storage_alignment", str(ALIGNMENT).encode())
        archive.write("byteorder", sys.byteorder.encode())
        for storage in pickler.storages.values():
            memory = bytes(storage.bytes) if skipped else storage.memory()
            archive.write(f"data/{storage.key}", memory)
        archive.write("version", b"3\n")


# ---- loading


def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """The object in a file of torch.save or `weft.save`; for a path *.safetensors, its tensors.

    Args:
        f: a path, or a binary file that can seek.
        map_location: where tensors of other devices go: a device, a dict from location to location,
            or a function of (storage, location) that returns the storage; a storage is the 1-D
            tensor over all of its memory. This build has the CPU.
        weights_only: True, the default, runs no code of the file: names outside the allow-list
            raise. False reads any object that pickle can, such as a whole module, and may run code
            of the file: only for files whose maker you trust.
        mmap: the tensors lie over the mapped file (copy on write); for paths.

    Raises:
        pickle.UnpicklingError: a name that is not allowed, a damaged pickle, or no such file at
            all. With `weights_only=False` also what the named classes raise.
        EOFError: an empty file.
        RuntimeError: a damaged archive, tensors of a device that is not there, or a
            `pickle_module` with `weights_only=True`.
        ValueError, TypeError: arguments that cannot be met.

    >>> torch.save(torch.nn.Linear(2, 1).state_dict(), "linear.pt")  # doctest: +SKIP
    >>> weft.nn.Linear(2, 1).load_state_dict(weft.load("linear.pt"))  # doctest: +SKIP
    <All keys matched successfully>
    """
    from weft._checkpoint.reader import restore_with

    trusting = pickle_module is not None if weights_only is None else not weights_only
    python_pickle = getattr(pickle_module, "__name__", "") == "pickle"
    if pickle_module is not None and not (trusting and python_pickle):
        raise RuntimeError(
            "[load] expected no pickle_module, or that of Python with weights_only=False (Can not "
            f"safely load weights when explicit pickle_module is specified), got {pickle_module}"
        )
    encoding = pickle_load_args.pop("encoding", "utf-8")
    if pickle_load_args or encoding not in ("utf-8", "ascii", "ASCII", "latin1"):
        raise TypeError(f"[load] expected no arguments for pickle, got {pickle_load_args}")
    restore = restore_with(map_location)
    if isinstance(f, (str, os.PathLike)):
        if os.fspath(f).endswith(".safetensors"):
            return _load_safetensors(f, map_location)
        with open(f, "rb") as file:
            return _load(file, restore, bool(mmap), trusting)
    if mmap:
        raise ValueError("[load] expected a path with mmap=True (f must be a file path in order "
                         f"to use the mmap argument), got {type(f).__name__}")  # fmt: skip
    _expect_seekable(f)
    return _load(f, restore, False, trusting)


def default_restore_location(storage: Any, location: str) -> Any:
    """A storage of a file at its place: what `map_location` functions hand on to.

    Raises: RuntimeError for another place than the CPU.
    """
    from weft._checkpoint.reader import _default

    return _default(storage, location)


def location_tag(storage: Any) -> str:
    """What a file says of where a storage was."""
    return str(storage.device)


def _expect_seekable(f: Any) -> None:
    try:
        f.seek(f.tell())
    except (AttributeError, OSError) as error:
        kind = AttributeError if isinstance(error, AttributeError) else io.UnsupportedOperation
        raise kind(
            f"[load] expected a file that can seek, got {type(f).__name__} (You can only "
            "torch.load from a file that is seekable.). Hint: read it into an io.BytesIO first"
        ) from None


def _load_safetensors(f: File, map_location: Any) -> Any:
    from weft import safetensors

    if isinstance(map_location, bytes):
        map_location = map_location.decode()
    if isinstance(map_location, dict) or callable(map_location):
        raise RuntimeError(
            "[load] expected map_location of a safetensors file to be a device, got "
            f"{type(map_location).__name__}"
        )
    return safetensors.load_file(f, device=map_location or "cpu")  # type: ignore[arg-type]


def _load(file: IO[bytes], restore: Restore, mapped: bool, trusting: bool) -> Any:
    from weft._checkpoint import legacy
    from weft._checkpoint.archive import ArchiveReader

    start = file.tell()
    head = file.read(4)
    file.seek(start)
    if not head:
        raise EOFError("[load] expected a file of torch.save, got an empty one (Ran out of input)")
    if isinstance(head, str):
        raise TypeError("[load] expected a binary file, got one of text (Expected bytes, got str)")
    if head.startswith(b"PK\x03\x04"):
        return _load_archive(ArchiveReader(file), restore, mapped, trusting)
    if not head.startswith((b"\x80", b"L119")):  # L119…: the magic number in protocol 1
        raise UnpicklingError(
            f"[load] expected a file of torch.save or weft.save, got one that begins with {head!r} "
            "(Invalid magic number; corrupt file?)"
        )
    if mapped:
        raise RuntimeError(
            "[load] expected a zip archive with mmap=True, got a file from before PyTorch 1.6 "
            "(mmap can only be used with files saved with _use_new_zipfile_serialization=True)"
        )
    return legacy.load(file, restore, trusting)


def _load_archive(archive: ArchiveReader, restore: Restore, mapped: bool, trusting: bool) -> Any:
    from weft._checkpoint.names import AllowList
    from weft._checkpoint.reader import ArchiveStorages, swapped_order
    from weft._checkpoint.unpickler import MAX_BYTES, Unpickler

    if archive.find("constants.pkl"):
        raise RuntimeError("[load] expected a file of torch.save, got a TorchScript archive")
    _expect_version(archive)
    foreign = swapped_order(archive.read("byteorder", _MAX_SMALL_RECORD), _default_order())
    storages = ArchiveStorages(archive, restore, foreign, _map(archive) if mapped else None)
    pickled = archive.read("data.pkl", MAX_BYTES)
    assert pickled is not None
    if trusting:
        from weft._checkpoint.trusting import TrustingUnpickler

        return TrustingUnpickler(pickled, storages.named).load()
    return Unpickler(pickled, AllowList(), storages.named).load()


def _expect_version(archive: ArchiveReader) -> None:
    version = archive.read("version", _MAX_SMALL_RECORD)
    if version is None:
        version = archive.read(".data/version", _MAX_SMALL_RECORD)
    text = (version or b"3").strip()
    if not text.isdigit() or not 1 <= int(text) <= _MAX_VERSION:
        raise RuntimeError(
            f"[load] expected a format version from 1 to {_MAX_VERSION}, got {text!r:.100}"
        )


class LoadEndianness(Enum):
    """The order of bytes of files that do not tell it; `set_default_load_endianness`.

    >>> weft.serialization.LoadEndianness.NATIVE.name
    'NATIVE'
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_default_endianness: LoadEndianness | None = None


def get_default_load_endianness() -> LoadEndianness | None:
    """What `set_default_load_endianness` was given last; None at first.

    >>> weft.serialization.get_default_load_endianness() is None
    True
    """
    return _default_endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Sets the order of bytes of archives that do not tell it (those before PyTorch 2.1).

    Args:
        endianness: None means little endian, NATIVE the machine's own order.

    Raises TypeError for anything else.

    >>> from weft.serialization import LoadEndianness, set_default_load_endianness
    >>> set_default_load_endianness(LoadEndianness.BIG)
    >>> weft.serialization.get_default_load_endianness()
    <LoadEndianness.BIG: 3>
    >>> set_default_load_endianness(None)
    """
    global _default_endianness
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(
            f"[set_default_load_endianness] expected a LoadEndianness or None, got {endianness!r} "
            "(Invalid argument type in function set_default_load_endianness)"
        )
    _default_endianness = endianness


def _default_order() -> str:
    import sys

    if _default_endianness is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if _default_endianness is LoadEndianness.BIG else "little"


class skip_data:
    """A scope in which `save` writes zeros for the tensors' bytes, and `load` reads none of them.

    What is saved so has the layout of the whole file, to be filled later; what is loaded so has
    shapes and dtypes, and holds zeros.

    Args:
        materialize_fake_tensors: there are no fake tensors here, so True raises
            NotImplementedError.

    >>> import io
    >>> file = io.BytesIO()
    >>> with weft.serialization.skip_data():
    ...     weft.save(weft.ones(2), file)
    >>> _ = file.seek(0)
    >>> weft.load(file)
    tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError(
                "[skip_data] expected materialize_fake_tensors=False, got True. Hint: there are no "
                "fake tensors; those on the meta device are saved without memory"
            )
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        from weft._checkpoint.skipping import SKIPPED

        self._tokens.append(SKIPPED.set(True))

    def __exit__(self, *exc: object) -> None:
        from weft._checkpoint.skipping import SKIPPED

        SKIPPED.reset(self._tokens.pop())


def _map(archive: ArchiveReader) -> Any:
    import mmap

    return mmap.mmap(archive.file.fileno(), archive.bytes, access=mmap.ACCESS_COPY)


# ---- the allow-list


def _named(entries: Iterable[Any]) -> dict[str, Any]:
    out = {}
    for entry in entries:
        if isinstance(entry, tuple):
            if len(entry) != 2:
                raise ValueError(
                    f"[add_safe_globals] expected pairs (global, name), got {len(entry)} items"
                )
            entry, name = entry
            if not isinstance(name, str):
                raise TypeError(
                    f"[add_safe_globals] expected the name to be a str, got {type(name).__name__}"
                )
        elif callable(entry) and hasattr(entry, "__qualname__"):
            name = f"{entry.__module__}.{entry.__qualname__}"
        else:
            raise TypeError(
                "[add_safe_globals] expected classes, functions or pairs (global, name), got "
                f"{type(entry).__name__}"
            )
        out[name] = entry
    return out


def add_safe_globals(safe_globals: Iterable[Callable[..., Any] | tuple[Any, str]]) -> None:
    """Allows `load` to use these classes and functions, or pairs (object, name in the file).

    What is allowed is called with arguments from the file: allow only what you would call so.

    >>> from collections import defaultdict
    >>> weft.serialization.add_safe_globals([defaultdict])
    >>> weft.serialization.get_safe_globals()
    [<class 'collections.defaultdict'>]
    >>> weft.serialization.clear_safe_globals()
    """
    from weft._checkpoint.names import user_names

    user_names().update(_named(safe_globals))


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` allowed.

    >>> class A:
    ...     pass
    >>> weft.serialization.add_safe_globals([A])
    >>> A in weft.serialization.get_safe_globals()
    True
    >>> weft.serialization.clear_safe_globals()
    """
    from weft._checkpoint.names import user_names

    return list(user_names().values())


def clear_safe_globals() -> None:
    """Takes back what `add_safe_globals` allowed.

    >>> weft.serialization.clear_safe_globals()
    >>> weft.serialization.get_safe_globals()
    []
    """
    from weft._checkpoint.names import user_names

    user_names().clear()


class safe_globals:
    """A scope in which these are allowed besides.

    >>> from collections import defaultdict
    >>> with weft.serialization.safe_globals([defaultdict]):
    ...     len(weft.serialization.get_safe_globals())
    1
    >>> weft.serialization.get_safe_globals()
    []
    """

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self.safe_globals = list(safe_globals)
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> safe_globals:
        from weft._checkpoint.names import user_names

        self._before.append(dict(user_names()))
        add_safe_globals(self.safe_globals)
        return self

    def __exit__(self, *exc: object) -> None:
        from weft._checkpoint.names import user_names

        names = user_names()
        names.clear()
        names.update(self._before.pop())


def get_unsafe_globals_in_checkpoint(f: File) -> list[str]:
    """Names in a file of torch.save that `load` would refuse, nothing being loaded.

    >>> import io
    >>> file = io.BytesIO()
    >>> weft.save({"weight": weft.ones(2)}, file)
    >>> weft.serialization.get_unsafe_globals_in_checkpoint(file)
    []
    """
    from weft._checkpoint.archive import ArchiveReader
    from weft._checkpoint.names import AllowList
    from weft._checkpoint.unpickler import MAX_BYTES

    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    pickled = ArchiveReader(f).read("data.pkl", MAX_BYTES)
    assert pickled is not None
    import pickletools

    allowed, refused = AllowList(), set()
    try:
        for opcode, argument, _ in pickletools.genops(pickled):
            if opcode.name == "GLOBAL":
                module, name = str(argument).split(" ", 1)
                try:
                    allowed.find(module, name)
                except UnpicklingError:
                    refused.add(f"{module}.{name}")
    except ValueError as error:
        raise UnpicklingError(f"[load] expected a valid pickle, got {error}") from None
    return sorted(refused)
