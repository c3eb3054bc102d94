"""Memory: what the allocator has lent, by kind and line, and snapshots for PyTorch's memory viewer.

A recording knows what was made, by which line, and when it went: `usage` sums it up, and
`snapshot` gives it in the format that https://pytorch.org/memory_viz draws.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

from weft import _C
from weft.base.checks import of_type

if TYPE_CHECKING:
    from weft.see.graphs import Graph
    from weft.see.memory import MemoryUse
    from weft.see.tables import Site

__all__ = [
    "allocated", "cached", "dump_snapshot", "empty_cache", "peak", "reset_peak", "snapshot",
    "usage",
]  # fmt: skip

HEADER = 64  # bytes before those of a storage that is the allocator's own


def allocated() -> int:
    """Bytes in tensors now, of the whole process; those of borrowed memory count nothing.

    >>> before = weft.memory.allocated()
    >>> x = weft.ones(1 << 20)
    >>> weft.memory.allocated() - before
    4194304
    """
    return int(_C._memory_stats()["current"])


def cached() -> int:
    """Bytes that were freed and are kept for the next tensors.

    At most 256 MB or, where that is more, what brings the memory in use to its peak: a step gets
    that of the step before it. Beyond 256 MB the system takes the pages when it is short of memory.

    >>> weft.memory.cached() >= 0
    True
    """
    return int(_C._memory_stats()["cached"])


def empty_cache() -> None:
    """Gives what was freed back to the system, and forgets the peak up to which more would be kept.

    >>> weft.memory.empty_cache()
    >>> weft.memory.cached()
    0
    """
    _C._empty_cache()


def peak() -> int:
    """The most bytes in tensors at a time, since the start or `reset_peak`.

    >>> weft.memory.peak() >= 0
    True
    """
    return int(_C._memory_stats()["peak"])


def reset_peak() -> None:
    """The peak is from now on.

    >>> weft.memory.reset_peak()
    >>> weft.memory.peak() == weft.memory.allocated()
    True
    """
    _C._reset_peak_memory()


def _graphs() -> type[Graph]:
    from weft.see.graphs import Graph

    return Graph


def usage(graph: Graph) -> MemoryUse:
    """The bytes over the course of a recording, by kind and by line: `graph.memory()`.

    >>> model = weft.nn.Linear(1000, 1000)
    >>> with weft.record() as g:
    ...     model(weft.ones(10, 1000)).sum().backward()
    >>> kinds = weft.memory.usage(g).kinds_at()  # now
    >>> kinds["parameters"], kinds["gradients"]
    (4004000, 4004000)
    """
    return of_type("memory.usage", "graph", graph, _graphs()).memory()


def snapshot(graph: Graph) -> dict[str, Any]:
    """A recording as PyTorch's memory viewer reads it: what `torch.cuda.memory._snapshot()` gives.

    `device_traces` has one list, of the CPU: for each storage that the recording has seen "alloc",
    and at its end "free_requested" and "free_completed", with address, size, time in microseconds
    and `frames`, the lines that made it (all with `weft.record(stacks=True)`, else one), the
    innermost first. `segments` has the storages that were alive at the end, each a segment of one
    block.

    >>> with weft.record(stacks=True) as g:
    ...     x = weft.ones(1000)
    >>> trace = weft.memory.snapshot(g)["device_traces"][0]
    >>> [(e["action"], e["size"]) for e in trace]
    [('alloc', 4000)]
    """
    tables = of_type("memory.snapshot", "graph", graph, _graphs())._tables
    rows, events = tables.memories, tables.events
    first = int(events["began"].min()) if len(events) else 0

    def time_of(event: int) -> int:
        began = int(events["began"][event]) if 0 <= event < len(events) else 0
        return int((began - first) * tables.tick * 1e6) if began else 0

    known: dict[tuple[int, int], list[dict[str, Any]]] = {}

    def frames_of(event: int) -> list[dict[str, Any]]:
        if event < 0:
            return []
        key = int(events["stack"][event]), int(events["site"][event])
        if key not in known:
            known[key] = [_frame(site) for site in tables.stack(*key)]
        return known[key]

    fields = ("storage", "bytes", "event", "since", "freed")
    trace: list[tuple[int, int, dict[str, Any]]] = []
    segments = []
    for address, size, event, since, freed in rows[list(fields)].tolist():
        common = {
            "addr": address + HEADER, "size": size, "stream": 0, "frames": frames_of(event),
            "device": 0, "segment_pool_id": (0, 0),
        }  # fmt: skip
        alloc = {"action": "alloc", **common, "time_us": time_of(since)}
        trace.append((since, 1, alloc))
        if freed == -1:
            segments.append(_segment(address, size, common["frames"]))
            continue
        for action in ("free_requested", "free_completed"):
            free = {"action": action, **common, "time_us": time_of(freed)}
            trace.append((freed, 2, free))
    trace.sort(key=lambda entry: entry[:2])
    return {
        "segments": sorted(segments, key=lambda s: s["address"]),
        "device_traces": [[entry for _, _, entry in trace]],
        "allocator_settings": {},
        "external_annotations": [],
    }


def _frame(site: Site) -> dict[str, Any]:
    return {"filename": site.file, "line": site.line, "name": site.function}


def _segment(address: int, size: int, frames: list[dict[str, Any]]) -> dict[str, Any]:
    block = {
        "address": address + HEADER, "size": size, "requested_size": size,
        "state": "active_allocated", "frames": frames,
    }  # fmt: skip
    return {
        "device": 0, "address": address + HEADER, "total_size": size, "allocated_size": size,
        "active_size": size, "requested_size": size, "stream": 0, "segment_type": "large",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": frames, "blocks": [block],
    }  # fmt: skip


def dump_snapshot(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write `snapshot(graph)` to a file for PyTorch's memory viewer, as a pickle.

    >>> import pathlib, tempfile
    >>> with weft.record(stacks=True) as g:
    ...     x = weft.ones(1000)
    >>> weft.memory.dump_snapshot(g, pathlib.Path(tempfile.mkdtemp(), "step.pickle"))
    """
    with open(path, "wb") as file:
        pickle.dump(snapshot(graph), file)
