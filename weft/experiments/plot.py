"""Curves in a terminal, of dots that Unicode's braille patterns have, 2 by 4 a character."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from weft.base.strict_json import as_float

__all__ = ["plot"]

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # by column, then row
_MARKS = "●○▲△■□"

Series = tuple[str, Sequence[float], Sequence[float]]


def plot(series: Sequence[Series], width: int = 72, height: int = 12) -> str:
    """Lines of text with (name, xs, ys) as curves in one frame; what is not finite is left out.

    Of several curves the last point has a mark of its own, which the names below show.

    >>> print(plot([("loss", [0, 1, 2, 3], [4.0, 2.0, 1.0, 0.5])], width=10, height=3))
      4 ┤⠑⢄
        │  ⠑⠤⣀
    0.5 ┤     ⠉⠒⠢⠤⣀
         0       3
      loss
    """
    points = [
        (name, [p for p in zip(map(_float, xs), map(_float, ys)) if all(map(math.isfinite, p))])
        for name, xs, ys in series
    ]
    every = [p for _, curve in points for p in curve]
    if not every:
        return "no finite numbers to plot"
    (left, right), (low, high) = _range([x for x, _ in every]), _range([y for _, y in every])
    cells = [[0] * width for _ in range(height)]
    marks: dict[tuple[int, int], str] = {}
    for k, (_, curve) in enumerate(points):
        at = [
            (
                round(_share(x, left, right) * (2 * width - 1)),
                round((1 - _share(y, low, high)) * (4 * height - 1)),
            )
            for x, y in curve
        ]
        for a, b in zip(at, at[1:] or at):
            _line(cells, a, b)
        if at and len(points) > 1:
            marks[at[-1][1] // 4, at[-1][0] // 2] = _MARKS[k % len(_MARKS)]
    top, bottom = f"{high:.4g}", f"{low:.4g}"
    margin = max(len(top), len(bottom), 3)
    rows = []
    for r, row in enumerate(cells):
        label = top if r == 0 else bottom if r == height - 1 else ""
        text = "".join(
            marks.get((r, c)) or (chr(0x2800 + dots) if dots else " ") for c, dots in enumerate(row)
        )
        rows.append(f"{label:>{margin}} {'┤' if label else '│'}{text}".rstrip())
    ends = f"{left:g}", f"{right:g}"
    rows.append(" " * (margin + 2) + ends[0] + ends[1].rjust(width - len(ends[0]) - 1))
    for k, (name, _) in enumerate(points):
        mark = f"{_MARKS[k % len(_MARKS)]} " if len(points) > 1 else ""
        rows.append(f"  {mark}{name}")
    return "\n".join(rows)


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if low == high:
        pad = (abs(low) or 1.0) * 0.5
        largest = sys.float_info.max
        return max(low - pad, -largest), min(high + pad, largest)
    return low, high


def _share(value: float, low: float, high: float) -> float:
    """Where a value lies, from 0 at `low` to 1 at `high`."""
    if math.isinf(high - low):
        value, low, high = value / 2, low / 2, high / 2
    return (value - low) / (high - low)


def _float(value: float) -> float:
    number = as_float(value)
    return math.nan if number is None else number


def _line(cells: list[list[int]], a: tuple[int, int], b: tuple[int, int]) -> None:
    steps = max(abs(b[0] - a[0]), abs(b[1] - a[1]), 1)
    for i in range(steps + 1):
        x = round(a[0] + (b[0] - a[0]) * i / steps)
        y = round(a[1] + (b[1] - a[1]) * i / steps)
        cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
