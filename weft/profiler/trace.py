"""Traces in the JSON format of Chrome's trace events, which Perfetto reads.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from weft.profiler.averages import Columns
from weft.see.tables import KINDS

MOST_BYTES = 48_000_000
TAKEN = frozenset({"schemaVersion", "displayTimeUnit", "traceEvents", "otherData"})
_CATEGORIES = {
    "call": "cpu_op", "module": "python_function", "node": "cpu_op", "named": "user_annotation",
    "step": "user_annotation",
}  # fmt: skip


def write_trace(
    path: str | os.PathLike[str], parts: list[Columns], shapes: bool, stacks: bool,
    metadata: dict[str, Any],
) -> None:  # fmt: skip
    """One complete event a line; those of several cycles one after the other."""
    count = sum(len(p.numbers) for p in parts)
    name = os.fspath(path)
    is_packed = name.endswith(".gz")  # to some 10 bytes an event, so that it has all of them
    # else no more than a name and the times, and only so many
    is_short = not is_packed and count * 160 > MOST_BYTES
    opened: Any = (
        gzip.open(name, "wt", 5, "utf-8") if is_packed else open(name, "w", encoding="utf-8")
    )
    with opened as file:
        file.write('{"schemaVersion":1,"displayTimeUnit":"ns",')
        file.writelines(f"{json.dumps(k)}:{json.dumps(v)}," for k, v in metadata.items())
        file.write('"traceEvents":[\n')
        pid, tid = os.getpid(), threading.get_native_id()
        _write(file, {"ph": "M", "pid": pid, "tid": tid, "name": "process_name",
                      "args": {"name": "weft"}})  # fmt: skip
        left_out, begin = 0, 0.0
        written = 200 + len(json.dumps(metadata))
        for part in parts:
            shown = np.arange(len(part.numbers))
            if is_short:
                at = f'"pid":{pid},"tid":{tid}'
                sizes = _short_bytes(part, at)
                shown = _longest(part, sizes, MOST_BYTES - written)
                left_out += len(part.numbers) - len(shown)
                written += int(sizes[shown].sum())
                lines = _short_lines(part, shown, begin, at)
            else:
                lines = _lines(part, begin, shapes, stacks, pid, tid)
            file.writelines(lines)
            begin += float((part.start + part.time).max(initial=0.0))
        other = {"events left out, the shortest": left_out} if left_out else {}
        file.write("\n],\n" + f'"otherData":{json.dumps(other)}' + "}\n")


def _write(file: IO[str], event: dict[str, Any]) -> None:
    file.write(json.dumps(event, separators=(",", ":")))


def _lines(
    part: Columns, begin: float, shapes: bool, stacks: bool, pid: int, tid: int
) -> Iterator[str]:
    count = len(part.numbers)
    shape_of: list[Any] = part.shapes() if shapes else [None] * count
    stack_of: list[Any] = part.stacks() if stacks else [None] * count
    categories = [_CATEGORIES.get(kind, kind) for kind in KINDS]
    names = {name: json.dumps(name) for name in set(part.names)}
    rows = zip(
        part.names, part.kinds.tolist(), (part.start + begin).tolist(), part.time.tolist(),
        part.groups("line"), part.groups("module"), shape_of, stack_of, strict=True,
    )  # fmt: skip
    for name, kind, start, time, line, module, shape, stack in rows:
        args: dict[str, Any] = {}
        if line != "no line":
            args["line"] = line
        if module != "no module":
            args["module"] = module
        if shape is not None:
            args["Input Dims"] = shape
        if stack:
            args["stack"] = stack
        yield (
            f',\n{{"ph":"X","cat":"{categories[kind]}","name":{names[name]},"pid":{pid},"tid":{tid},'
            f'"ts":{start:.3f},"dur":{time:.3f},"args":{json.dumps(args, separators=(",", ":"))}}}'
        )


def _short_bytes(part: Columns, at: str) -> Any:
    lengths = {name: 51 + len(at) + len(json.dumps(name)) for name in set(part.names)}
    return np.array([lengths[name] for name in part.names], np.int64)


def _longest(part: Columns, sizes: Any, most: int) -> Any:
    """The longest events that fit: of what is shown, all that it is inside of is shown too."""
    order = np.argsort(-part.time, kind="stable")
    fits = np.cumsum(sizes[order]) <= most
    return np.sort(order[fits])


def _short_lines(part: Columns, shown: Any, begin: float, at_thread: str) -> Iterator[str]:
    names = {name: json.dumps(name) for name in set(part.names)}
    all_names = part.names
    rows = zip(
        shown.tolist(), (part.start[shown] + begin).tolist(), part.time[shown].tolist(), strict=True
    )
    for at, start, time in rows:
        yield (
            f',\n{{"ph":"X",{at_thread},"ts":{start:.3f},"dur":{time:.3f},'
            f'"name":{names[all_names[at]]}}}'
        )
