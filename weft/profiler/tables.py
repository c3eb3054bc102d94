"""The table of a profile, in the form of PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.profiler.averages import EventList

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
_WIDTH = 12


def format_time(us: float, unit: str | None = None) -> str:
    """Microseconds as text."""
    unit = unit or ("s" if us >= 1e6 else "ms" if us >= 1e3 else "us")
    return f"{us / _UNITS[unit]:.3f}{unit}"


def format_memory(count: int) -> str:
    """Bytes as text."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(count) >= scale:
            return f"{count / scale:.2f} {unit}"
    return f"{count} B"


def _share(of: float, whole: float) -> str:
    return f"{of * 100 / whole:.2f}%" if whole else "NaN"


def _cut(text: str, width: int | None) -> str:
    if width is None:
        return text
    return text[: width - 3] + "..." if len(text) >= width - 3 else text


def _tail(text: str, width: int) -> str:
    return "..." + text[len(text) - width + 3 :] if len(text) > width else text


def _width(lengths: Iterable[int], most: int | None) -> int:
    width = max(lengths, default=0) + 4
    return width if most is None else min(width, most)


def table_of(
    events: EventList, sort_by: str | None, row_limit: int,
    widths: tuple[int | None, int | None, int | None],
    header: str | None, top_level_only: bool, unit: str | None,
) -> str:  # fmt: skip
    """Columns of the times and counts, and of what else the events have."""
    if unit is not None and unit not in _UNITS:
        raise ValueError(f"[table] expected time_unit 's', 'ms' or 'us', got {unit!r}")
    if not events:
        return ""
    order = list(events)
    if sort_by is not None:
        wanted = sort_by
        order.sort(key=lambda e: getattr(e, wanted), reverse=True)
    name_width, shape_width, line_width = widths
    heads = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    if events._memory:
        heads += ["CPU Mem", "Self CPU Mem"]
    heads.append("# of Calls")
    columns = [_width((len(e.key) for e in order), name_width)] + [_WIDTH] * (len(heads) - 1)
    has_shapes = any(e.input_shapes for e in order)
    has_lines = any(e.stack for e in order)
    if has_shapes:
        heads.append("Input Shapes")
        columns.append(_width((len(str(e.input_shapes)) for e in order), shape_width))
    if has_lines:
        heads.append("Source Location")
        columns.append(_width((len(line) for e in order for line in e.stack), line_width))
    counts = [e.flops for e in order if e.flops > 0] if events._flops else []
    power = min(int(math.log10(min(counts)) / 3), len(_FLOPS) - 1) if counts else 0
    if counts:
        heads.append(f"Total {_FLOPS[power]}")
        columns.append(_WIDTH)
    whole = events.self_cpu_time_total
    lines_at = heads.index("Source Location") if has_lines else -1

    def row_of(e: Any) -> list[str]:
        row = [
            _cut(e.key, name_width),
            _share(e.self_cpu_time_total, whole), format_time(e.self_cpu_time_total, unit),
            _share(e.cpu_time_total, whole), format_time(e.cpu_time_total, unit),
            format_time(e.cpu_time, unit),
        ]  # fmt: skip
        if events._memory:
            row += [format_memory(e.cpu_memory_usage), format_memory(e.self_cpu_memory_usage)]
        row.append(str(e.count))
        if has_shapes:
            row.append(str(e.input_shapes)[: columns[len(row)]])
        if has_lines:
            row.append(_tail(e.stack[0], columns[lines_at]) if e.stack else "")
        if counts:
            row.append(f"{e.flops / 1000**power:8.3f}" if e.flops > 0 else "--")
        return row

    def line(cells: list[str]) -> str:
        placed = (
            c.ljust(w) if i == lines_at else c.rjust(w)
            for i, (c, w) in enumerate(zip(cells, columns, strict=True))
        )
        return "  ".join(placed) + "  "

    rule = "".join("-" * w + "  " for w in columns)
    wide = "=" * (len(rule) - 2)
    out = [wide, header] if header is not None else []
    if top_level_only:
        out += [wide, "This report only display top-level ops statistics"]
    out += [rule, line(heads), rule]
    left = row_limit
    for e in order:
        if left == 0:
            break
        if top_level_only and getattr(e, "cpu_parent", None) is not None:
            continue
        left -= 1
        out.append(line(row_of(e)))
        if has_lines:
            blank = [""] * len(columns)
            for outer in [*e.stack[1:], ""]:
                blank[lines_at] = _tail(outer, columns[lines_at])
                out.append(line(blank))
    out += [rule, f"Self CPU time total: {format_time(whole, unit)}"]
    if events._overhead is not None:
        kernels, around = events._overhead
        out.append(
            f"In ops: {format_time(kernels, unit)}, around them: {format_time(around, unit)}"
        )
    return "\n".join([*out, ""])
