"""A checkpoint as a folder.

Note [A whole checkpoint]
The folder has `index.json` and, for each process that wrote, a file of PyTorch's format in a folder
of its own for each save. The index says where each value is, and comes last: it is written aside
and renamed when all files are there, so a reader finds the checkpoint from before or the one from
after, whatever ended a process in between. Files that no index names are removed by the next save.
A tensor that all processes have is written by one of them, so that each writes about as much.
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
from weft.distributed.barriers import barrier
from weft.distributed.objects import all_gather_object, broadcast_object_list
from weft.distributed.world import ProcessGroup, _known, is_initialized

__all__ = ["load", "save"]

_INDEX = "index.json"


def _values(state: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of nested dicts, with their keys; of lists too, by number."""
    items: Any = None
    if isinstance(state, dict):
        items = state.items()
    elif isinstance(state, (list, tuple)) and any(isinstance(v, (Tensor, dict)) for v in state):
        items = enumerate(state)
    if items is None or not state:
        yield path, state
        return
    for key, value in items:
        word = key if isinstance(key, str) else f"#{key}"
        yield from _values(value, (*path, word.replace("/", "//")))


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
    checkpoint_id: str | os.PathLike[str],
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Writes a checkpoint; all processes of the group call it, and see the same folder.

    Args:
        state_dict: tensors and other values in nested dicts and lists. What several processes have
            under one name is taken to be the same.
        checkpoint_id: the folder; a checkpoint that is there is replaced as a whole.
        process_group: the processes; by default all.
        no_dist: this process alone writes what it has.
    """
    group = _group(process_group, no_dist)
    folder = os.fspath(checkpoint_id)
    os.makedirs(folder, exist_ok=True)
    values = _named(state_dict)
    have = {n: v.numel() * v.itemsize if isinstance(v, Tensor) else 0 for n, v in values.items()}
    everyone, nonce, rank = [have], [uuid.uuid4().hex[:12]], 0
    if group is not None:
        rank = group.rank()
        everyone = [{} for _ in range(group.size())]
        all_gather_object(everyone, have, group)
        broadcast_object_list(nonce, group=group, group_src=0)
    owner = _shares(everyone)
    part = os.path.join(f"save-{nonce[0]}", f"rank-{{}}-of-{len(everyone)}.pt")
    os.makedirs(os.path.join(folder, os.path.dirname(part)), exist_ok=True)
    mine = {name: value for name, value in values.items() if owner[name] == rank}
    _write(os.path.join(folder, part.format(rank)), mine)
    if group is not None:
        barrier(group)
    if rank == 0:
        index = {name: part.format(owner[name]) for name in owner}
        _replace(os.path.join(folder, _INDEX), json.dumps({"version": 1, "values": index}))
        _remove_others(folder, os.path.dirname(part))
    if group is not None:
        barrier(group)


def _write(path: str, values: dict[str, Any]) -> None:
    """A file, on the disk when this returns."""
    own = {n: v.detach().clone() if isinstance(v, Tensor) else v for n, v in values.items()}
    with open(path, "wb") as file:
        weft.save(own, file)
        file.flush()
        os.fsync(file.fileno())


def _replace(path: str, text: str) -> None:
    with open(path + ".new", "w") as file:
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
    checkpoint_id: str | os.PathLike[str],
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Reads a checkpoint into a state: tensors in place, other values in place of those there.

    Any number of processes may read it, and each reads what its state names. With several all call
    it, and leave it together, so that none saves while another reads.

    Raises:
        FileNotFoundError: no checkpoint.
        RuntimeError: a name that it has not, or a tensor of another shape; nothing is written then.
    """
    group = _group(process_group, no_dist)
    folder = os.fspath(checkpoint_id)
    with open(os.path.join(folder, _INDEX)) as file:
        index = json.load(file)["values"]
    wanted = _named(state_dict)
    missing = [name for name in wanted if name not in index]
    if missing:
        raise RuntimeError(
            f"[load] expected a checkpoint with {missing[0]!r}, got none of that name (Missing key "
            f"in checkpoint state_dict: {missing[0]}.)"
        )
    found: dict[str, Any] = {}
    for part in sorted({index[name] for name in wanted}):
        values = weft.load(os.path.join(folder, part))
        found.update({n: values[n] for n in wanted if index[n] == part})
    for name, value in wanted.items():
        if isinstance(value, Tensor) and value.shape != found[name].shape:
            raise RuntimeError(
                f"[load] expected {name!r} of shape {list(value.shape)}, got "
                f"{list(found[name].shape)} (Size mismatch between saved and current)"
            )
    _put(state_dict, found, ())
    if group is not None:
        barrier(group)


def _put(state: Any, found: dict[str, Any], path: tuple[str, ...]) -> None:
    """Writes what was found into a nested state."""
    items = state.items() if isinstance(state, dict) else enumerate(state)
    for key, value in list(items):
        word = key if isinstance(key, str) else f"#{key}"
        here = (*path, word.replace("/", "//"))
        name = "/".join(here)
        if name not in found:
            _put(value, found, here)
        elif isinstance(value, Tensor):
            with weft.no_grad():
                value.copy_(found[name])
        else:
            state[key] = found[name]
