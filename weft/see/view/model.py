"""What a page shows of a graph, as JSON: the tables as columns, the rolled tree, its drawing.

A column is `{"t": dtype, "d": base64}` of the narrowest dtype that holds it, little-endian; `t` is
NumPy's name for it. A row is named by its number, -1 is none.
"""

from __future__ import annotations

import base64
import linecache
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft import _C
from weft.base.shown import dtype_name, interval
from weft.see.tables import KINDS
from weft.see.text import Item, items_of, structure_of

if TYPE_CHECKING:
    from weft.batching.report import Report
    from weft.see.graphs import Graph

AROUND = 7  # lines of the source above and below one that ran
MOST_LINES = 4000  # of sources in a page


def model_of(
    graph: Graph, *, title: str = "weft", report: Report | None = None, drawing: bool = True
) -> dict[str, Any]:
    """All that the page shows of a graph.

    Args:
        graph: what was recorded.
        title: above it.
        report: what `weft.explain` said of the same batches.
        drawing: with the drawing of it.
    """
    from weft import version
    from weft.see.view.drawing import drawing_of, svg_of

    tables = graph._tables
    items = items_of(graph, backward=True)
    use = graph.memory()
    events = tables.events
    began = events["began"]
    start = int(began.min()) if len(began) else 0
    spans = (events["ended"] - began) * tables.tick
    spans[events["ended"] == 0] = np.nan
    seconds = (int(events["ended"].max()) - start) * tables.tick if len(events) else 0.0
    return {
        "format": 1,
        "weft": version.weft,
        "title": title,
        "made": time.time(),
        "seconds": max(seconds, 0.0),
        "structure": structure_of(graph, items),
        "kinds": KINDS,
        "dtypes": {number: [dtype_name(d), d.itemsize] for number, d in _C._Log.dtypes.items()},
        **_sites(graph),
        "names": _unique(tables.event_names),
        "paths": _unique([tables.paths.get(m, "") for m in events["module"].tolist()]),
        "events": {
            "kind": pack(events["kind"]),
            "parent": pack(events["parent"]),
            "site": pack(events["site"]),
            "flags": pack(
                events["failed"]
                + 2 * events["in_place"]
                + 4 * events["backward"]
                + 8 * tables.kernels
            ),  # fmt: skip
            "began": pack(((began - start) * tables.tick).astype(np.float64)),
            "time": pack(spans.astype(np.float32)),
            "bytes": pack(events["bytes"]),
            "operands": pack(events["operands"]),
            "inputs": pack(events["inputs"]),
            "outputs": pack(events["outputs"]),
            "saved": pack(events["saved"]),
            "forward": pack(tables.forward),
        },
        "operands": pack(tables.operands),
        "dims": pack(tables.dims),
        "values": {
            name: pack(tables.values[name])
            for name in ("event", "dims", "ndim", "dtype", "marks", "memory")
        },
        "value_names": tables.value_names,
        "statistics": {
            name: pack(tables.statistics[name])
            for name in ("value", "counted", "nans", "infs", "mean", "std", "least", "most")
        },
        "tree": _tree(items),
        "memory": {
            "peak": use.peak,
            "at": use.at.number if use.at else -1,
            "at_begin": use.at_begin,
            "lines": use.lines,
        },
        "batches": report.to_dict() if report is not None else None,
        "drawing": svg_of(drawing_of(graph, items), page=True) if drawing else None,
    }


def pack(column: NDArray[Any]) -> dict[str, str]:
    """A column of the narrowest dtype that holds it."""
    column = np.asarray(column)
    if column.dtype.kind != "f":
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        for name in ("u1", "i2", "u2", "i4", "u4", "f8"):
            kind = np.dtype(name)
            if kind.kind == "f" or np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                column = column.astype(kind)
                break
    data = np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes()
    return {"t": column.dtype.str[1:], "d": base64.b64encode(data).decode()}


def _unique(texts: list[str]) -> dict[str, Any]:
    """The texts that there are, and which one each row has."""
    numbers: dict[str, int] = {}
    rows = [numbers.setdefault(text, len(numbers)) for text in texts]
    return {"texts": list(numbers), "of": pack(np.asarray(rows, np.int64))}


def _sites(graph: Graph) -> dict[str, Any]:
    """The lines of the program, and the text round each."""
    files: dict[str, int] = {}
    source: list[dict[int, str]] = []
    sites, left = [], MOST_LINES
    for site in graph._tables.sites:
        number = files.setdefault(site.file, len(files))
        if number == len(source):
            source.append({})
        sites.append([number, site.line, site.function])
        if left <= 0:
            continue
        text = linecache.getlines(site.file)
        for line in range(max(site.line - AROUND, 1), min(site.line + AROUND, len(text)) + 1):
            if line not in source[number]:
                source[number][line] = text[line - 1].rstrip("\n")[:200]
                left -= 1
    return {"files": list(files), "sites": sites, "source": source}


def _tree(items: list[Item]) -> dict[str, Any]:
    """The rolled tree in its order: `level`, and of each item the events that it stands for."""
    rows: list[tuple[int, Item]] = []
    stack = [(0, item) for item in reversed(items)]
    while stack:
        level, item = stack.pop()
        rows.append((level, item))
        stack.extend((level + 1, i) for i in reversed(item.inside))

    def column(of: Iterable[Any], dtype: Any = np.int64) -> dict[str, str]:
        return pack(np.fromiter(of, dtype, len(rows)))

    return {
        "level": column(level for level, _ in rows),
        "label": _unique([item.label for _, item in rows]),
        "low": column(item.times[0] for _, item in rows),
        "high": column(item.times[1] for _, item in rows),
        "runs": column(item.runs for _, item in rows),
        "time": column((item.time for _, item in rows), np.float32),
        "sizes": _unique([_sizes(item) for _, item in rows]),
        "odd": _unique([" and ".join(sorted(item.odd)) for _, item in rows]),
        "count": column(len(item.events) for _, item in rows),
        "events": pack(np.asarray([e for _, item in rows for e in item.events], np.int64)),
    }


def _sizes(item: Item) -> str:
    return "" if item.sizes is None else f"[{', '.join(map(interval, item.sizes))}]"
