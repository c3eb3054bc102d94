"""A checkpoint as a folder.

Note [A whole checkpoint]
The folder has `index.json` and, for each process that wrote, a file of PyTorch's format in a folder
of its own for each save. The index says where each value is, and comes last: it is written aside
and renamed when all files are there, so a reader finds the checkpoint from before or the one from
after, whatever ended a process in between. Files that no index names are removed by the next save.
A tensor that all processes have is written by one of them, so that each writes about as much; of
one that lies on a mesh in parts each writes its own, and the index tells the rows of each part.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import Any

import weft
from weft._C import Tensor
from weft.base.subclasses import alias
from weft.distributed.checkpoint.api import in_all
from weft.distributed.checkpoint.filesystem import (
    INDEX,
    FileSystemReader,
    FileSystemWriter,
    folder_of,
)
from weft.distributed.checkpoint.stateful import Stateful, states_of
from weft.distributed.tensor.dtensor import DTensor
from weft.distributed.tensor.placement_types import Shard
from weft.distributed.world import ProcessGroup, _known, is_initialized

__all__ = ["load", "read_whole", "save"]


def _values(state: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of nested dicts, with their keys; of lists too, by number."""
    items: Any = None
    if isinstance(state, dict):
        items = state.items()
    elif _is_walked(state):
        items = enumerate(state)
    if items is None or not state:
        yield path, state
        return
    for key, value in items:
        yield from _values(value, (*path, _word(key)))


def _is_walked(state: Any) -> bool:
    """Whether a value is a list whose members are values of their own."""
    of_lists = isinstance(state, (list, tuple))
    return of_lists and any(isinstance(v, (Tensor, dict)) for v in state)


def _word(key: Any) -> str:
    return (key if isinstance(key, str) else f"#{key}").replace("/", "//")


def _lists(state: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The names of the lists that `_values` walks."""
    items: Any = state.items() if isinstance(state, dict) else ()
    if _is_walked(state):
        yield "/".join(path)
        items = enumerate(state)
    for key, value in items:
        yield from _lists(value, (*path, _word(key)))


def _named(state: dict[str, Any]) -> dict[str, Any]:
    return {"/".join(path): value for path, value in _values(state)}


def _group(process_group: Any, no_dist: bool) -> ProcessGroup | None:
    """The processes that save or load together; None: this one alone."""
    if no_dist or not is_initialized():
        return None
    group = _known(process_group)
    return group if group.size() > 1 else None


def _shares(everyone: list[dict[str, int]]) -> dict[str, int]:
    """Who writes each value: of those that have it the one with least to write so far."""
    loads, owner = [0] * len(everyone), {}
    sizes = {name: size for have in everyone for name, size in have.items()}
    for name in sorted(sizes, key=lambda n: (-sizes[n], n)):
        having = [rank for rank, have in enumerate(everyone) if name in have]
        owner[name] = min(having, key=lambda rank: (loads[rank], rank))
        loads[owner[name]] += sizes[name]
    return owner


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Writes a checkpoint; all processes of the group call it, and see the same folder.

    Args:
        state_dict: tensors and other values in nested dicts and lists, and what is `Stateful`. What
            several processes have under one name is taken to be the same.
        checkpoint_id: the folder; a checkpoint that is there is replaced as a whole.
        storage_writer: names the folder, too.
        process_group: the processes; by default all.
        no_dist: this process alone writes what it has.

    Raises:
        ValueError: the processes do not have all parts of a tensor that lies on a mesh; nothing is
            written to the index then.
        CheckpointException: it failed in some of several processes; all raise it, and the
            checkpoint from before is whole.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> weft.distributed.checkpoint.save({"w": weft.ones(2), "step": 3}, checkpoint_id=folder)
    >>> state = {"w": weft.zeros(2), "step": 0}
    >>> weft.distributed.checkpoint.load(state, checkpoint_id=folder)
    >>> state
    {'w': tensor([1., 1.]), 'step': 3}
    """
    group = _group(process_group, no_dist)
    rank = 0 if group is None else group.rank()
    folder = folder_of("save", checkpoint_id, storage_writer, FileSystemWriter)
    state_dict = states_of(state_dict)
    named = _named(state_dict)
    cut = {name: value for name, value in named.items() if _is_cut(value)}
    values = {name: value for name, value in named.items() if name not in cut}

    def plan() -> tuple[dict[str, int], dict[str, Any], str]:
        have = {
            n: v.numel() * v.itemsize if isinstance(v, Tensor) else 0 for n, v in values.items()
        }
        return have, {name: _span(value) for name, value in cut.items()}, uuid.uuid4().hex[:12]

    plans = in_all("save", group, plan)
    everyone = [have for have, _, _ in plans]
    owner = _shares(everyone)
    part = os.path.join(f"save-{plans[0][2]}", f"rank-{{}}-of-{len(everyone)}.pt")
    parts = _parts([spans for _, spans, _ in plans], part)

    def write() -> None:
        os.makedirs(os.path.join(folder, os.path.dirname(part)), exist_ok=True)
        mine = {name: value for name, value in values.items() if owner[name] == rank}
        _write(os.path.join(folder, part.format(rank)), {**mine, **cut})

    def end() -> None:
        if rank == 0:
            index: dict[str, Any] = {name: part.format(owner[name]) for name in owner}
            index.update(parts)
            told = {"version": 1, "values": index, "lists": list(_lists(state_dict))}
            _replace(os.path.join(folder, INDEX), json.dumps(told))
            _remove_others(folder, os.path.dirname(part))

    in_all("save", group, write)
    in_all("save", group, end)


def _is_cut(value: Any) -> bool:
    """Whether each process has another part of a tensor."""
    return isinstance(value, DTensor) and isinstance(value.placements[0], Shard)


def _span(value: DTensor) -> tuple[list[int], int, int, int]:
    """The shape of a tensor, the dimension that is cut, and where this process' part is in it."""
    (placement,) = value.placements
    assert isinstance(placement, Shard)
    size, start = value._spec.span()
    return list(value.shape), placement.dim, start, size


def _parts(spans: list[dict[str, Any]], part: str) -> dict[str, Any]:
    """By name the shape, the dimension that is cut, and (file, start, size) of each part.

    Raises: ValueError where the parts that the processes have are not the whole tensor.
    """
    out: dict[str, Any] = {}
    for name in {name for of_one in spans for name in of_one}:
        having = [(rank, of_one[name]) for rank, of_one in enumerate(spans) if name in of_one]
        shape, dim = having[0][1][:2]
        parts = sorted((start, size, part.format(rank)) for rank, (_, _, start, size) in having)
        ends = [0, *(start + size for start, size, _ in parts)]
        if [start for start, size, _ in parts if size] != [
            end for end, (_, size, _) in zip(ends, parts) if size
        ] or ends[-1] != shape[dim]:
            raise ValueError(
                f"[save] expected all parts of {name!r} among the processes, got "
                f"{[(start, start + size) for start, size, _ in parts]} of {shape[dim]}. Hint: all "
                "processes of its mesh save together; full_tensor() is the whole"
            )
        files = [(file, start, size) for start, size, file in parts]
        out[name] = {"shape": shape, "dim": dim, "parts": files}
    return out


def _write(path: str, values: dict[str, Any]) -> None:
    """A file, on the disk when this returns."""
    own = {n: alias(v).detach().clone() if isinstance(v, Tensor) else v for n, v in values.items()}
    with open(path, "wb") as file:
        weft.save(own, file)
        file.flush()
        os.fsync(file.fileno())


def _replace(path: str, text: str) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def _remove_others(folder: str, kept: str) -> None:
    for name in os.listdir(folder):
        if name.startswith("save-") and name != kept:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Reads a checkpoint into a state: tensors in place, other values in place of those there.

    Any number of processes may read it, and each reads what its state names. With several all call
    it, and leave it together, so that none saves while another reads.

    Args:
        state_dict: what to read, by name: tensors of the saved shapes, whose dtypes stay theirs,
            and other values. What is `Stateful` gets its state.
        checkpoint_id: the folder.
        storage_reader: names the folder, too.
        process_group: the processes; by default all.
        no_dist: this process alone reads.

    Raises:
        FileNotFoundError: no checkpoint.
        RuntimeError: a name that it has not, or a tensor of another shape; nothing is written then.
        CheckpointException: one of these in some of several processes; all raise it.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> weft.distributed.checkpoint.save(weft.nn.Linear(2, 1).state_dict(), checkpoint_id=folder)
    >>> part = {"bias": weft.zeros(1)}
    >>> weft.distributed.checkpoint.load(part, checkpoint_id=folder)
    >>> bool(part["bias"] != 0)
    True
    """
    group = _group(process_group, no_dist)
    folder = folder_of("load", checkpoint_id, storage_reader, FileSystemReader)
    state = states_of(state_dict)
    found: dict[str, Any] = {}
    in_all("load", group, lambda: found.update(_read(state, folder)))
    _put(state, found, ())
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(state[key])
        else:
            state_dict[key] = state[key]


def _index(folder: str) -> dict[str, Any]:
    with open(os.path.join(folder, INDEX), encoding="utf-8") as file:
        return dict(json.load(file))


def _read(state_dict: dict[str, Any], folder: str) -> dict[str, Any]:
    """What a checkpoint has of a state, by name."""
    index = _index(folder)["values"]
    wanted = _named(state_dict)
    missing = [name for name in wanted if name not in index]
    if missing:
        raise RuntimeError(
            f"[load] expected a checkpoint with {missing[0]!r}, got none of that name (Missing key "
            f"in checkpoint state_dict: {missing[0]}.)"
        )
    files = _Files(folder)
    for name, value in wanted.items():
        shape = files.shape(name, index[name])
        if isinstance(value, Tensor) and value.shape != shape:
            raise RuntimeError(
                f"[load] expected {name!r} of shape {list(value.shape)}, got {list(shape or ())} "
                "(Size mismatch between saved and current)"
            )
    return {name: files.value(name, index[name], value) for name, value in wanted.items()}


def read_whole(folder: str) -> dict[str, Any]:
    """All that a checkpoint has, nested as it was saved, with lists for tuples."""
    index = _index(folder)
    files = _Files(folder)
    nested: dict[str, Any] = {}
    for name, where in index["values"].items():
        words = [word.replace("\0", "/") for word in name.replace("//", "\0").split("/")]
        inner = nested
        for word in words[:-1]:
            inner = inner.setdefault(word, {})
        inner[words[-1]] = files.value(name, where, None)
    return dict(_unnamed(nested, (), set(index.get("lists", ()))))


def _unnamed(nested: Any, path: tuple[str, ...], lists: set[str]) -> Any:
    """Dicts by words as what they were: lists, and dicts by numbers."""
    if not isinstance(nested, dict):
        return nested
    inner = {
        w: _unnamed(value, (*path, w.replace("/", "//")), lists) for w, value in nested.items()
    }
    by_key = {int(w[1:]) if w[:1] == "#" and w[1:].isdecimal() else w: v for w, v in inner.items()}
    return [by_key[k] for k in sorted(by_key)] if "/".join(path) in lists else by_key


class _Files:
    """The files of a checkpoint, mapped into memory as they are asked for."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open: dict[str, dict[str, Any]] = {}

    def _file(self, part: str) -> dict[str, Any]:
        if part not in self._open:
            self._open[part] = weft.load(os.path.join(self._folder, part), mmap=True)
        return self._open[part]

    def shape(self, name: str, where: Any) -> tuple[int, ...] | None:
        """The shape of a saved tensor; None for another value."""
        if isinstance(where, dict):
            return tuple(where["shape"])
        value = self._file(where)[name]
        return tuple(value.shape) if isinstance(value, Tensor) else None

    def value(self, name: str, where: Any, wanted: Any) -> Any:
        """A saved value; of a tensor as much as the wanted one has in this process."""
        if not isinstance(where, dict):
            value = self._file(where)[name]
            is_part = _is_cut(wanted) and isinstance(value, Tensor)
            return wanted._spec.part_of(value) if is_part else value
        dim, shape = where["dim"], list(where["shape"])
        first, last = 0, shape[dim]
        is_part = _is_cut(wanted) and tuple(wanted.shape) == tuple(shape)
        if is_part and wanted.placements == (Shard(dim),):
            size, first = wanted._spec.span()
            last = first + size
        pieces = [
            self._file(part)[name].narrow(dim, max(first - start, 0), min(last, start + size) -
                                          max(first, start))
            for part, start, size in where["parts"]
            if max(first, start) < min(last, start + size)
        ]  # fmt: skip
        if not pieces:
            shape[dim] = last - first
            return alias(wanted).new_empty(shape)
        value = weft.cat(pieces, dim) if len(pieces) > 1 else pieces[0]
        whole = last - first == shape[dim]
        return wanted._spec.part_of(value) if is_part and whole else value


def _put(state: Any, found: dict[str, Any], path: tuple[str, ...]) -> None:
    """Writes what was found into a nested state."""
    items = state.items() if isinstance(state, dict) else enumerate(state)
    for key, value in list(items):
        here = (*path, _word(key))
        name = "/".join(here)
        if name not in found:
            _put(value, found, here)
        elif isinstance(value, Tensor):
            with weft.no_grad():
                alias(value).copy_(found[name])
        else:
            state[key] = found[name]
