"""A graph as text: the tree of modules and calls, with what repeats rolled up.

Note [Rolling]
Two events are alike if their names, lines and what is inside of them are; shapes may differ. A run
of k >= 2 equal pieces of up to `LONGEST` events each becomes one piece with "×k", the one that
covers most first; what was rolled can be a part of a longer repetition, so it is done again until
nothing changes. Loops of unlike lengths are alike; numbers that differ show as a range.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from weft.base.shown import duration, interval
from weft.see.tables import CALL, MODULE, NODE

if TYPE_CHECKING:
    from weft.see.graphs import Graph

LONGEST = 64
LEVELS = 40  # that are indented: deeper ones are numbered, or N of them would take N * N spaces
LABEL = 100  # characters of a label that are shown, the last ones: of a path those nearest
Sizes = tuple[tuple[int, int], ...]  # least and most of each dim


@dataclass(slots=True)
class Item:
    """A line of the text, or (`label` empty) the repetition of those inside."""

    label: str
    line: str
    number: int  # of what is alike, the same
    time: float
    sizes: Sizes | None = None
    inside: list[Item] = field(default_factory=list)
    runs: int = 1  # in all
    times: tuple[int, int] = (1, 1)  # one after the other: at least, at most
    odd: frozenset[str] = frozenset()  # what some result had among the elements looked at: nan, inf
    events: list[int] = field(default_factory=list)  # that it stands for; of a repetition none


class Roller:
    """Makes items, and gives those that are alike one number."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[object, ...], int] = {}

    def number(self, *of: object) -> int:
        return self.numbers.setdefault(of, len(self.numbers))

    def item(
        self, label: str, line: str, time: float, sizes: Sizes | None, inside: list[Item]
    ) -> Item:
        inside = self.roll(inside)
        number = self.number(label, line, *(i.number for i in inside))
        return Item(label, line, number, time, sizes, inside)

    def roll(self, items: list[Item]) -> list[Item]:
        """The items with each run of equal pieces made one."""
        while True:
            rolled = self._roll_once(items)
            if len(rolled) == len(items):
                return rolled
            items = rolled

    def _roll_once(self, items: list[Item]) -> list[Item]:
        numbers = [i.number for i in items]
        out: list[Item] = []
        at = 0
        while at < len(items):
            length, count = _repetition(numbers, at)
            if count == 1:
                out.append(items[at])
            else:
                out.append(self._merged(items, at, length, count))
            at += length * count
        return out

    def _merged(self, items: list[Item], at: int, length: int, count: int) -> Item:
        pieces = [
            _joined([items[at + k * length + i] for k in range(count)]) for i in range(length)
        ]
        if length == 1:
            (one,) = pieces
            one.times = one.times[0] * count, one.times[1] * count
            one.number = self.number("again", one.number)
            return one
        time = sum(p.time for p in pieces)
        number = self.number("loop", *(p.number for p in pieces))
        return Item("", "", number, time, None, self.roll(pieces), count, (count, count))


def _repetition(numbers: list[int], at: int) -> tuple[int, int]:
    """(length of a piece, how often it comes) from `at` on, to cover most; (1, 1): once."""
    best = 1, 1
    for length in range(1, min(LONGEST, (len(numbers) - at) // 2) + 1):
        if numbers[at] != numbers[at + length]:
            continue
        piece = numbers[at : at + length]
        count = 1
        while numbers[at + count * length : at + (count + 1) * length] == piece:
            count += 1
        if count > 1 and length * count > best[0] * best[1]:
            best = length, count
    return best


def _joined(items: list[Item]) -> Item:
    """One item for several that are alike, and so for what is inside of them."""
    top = _one_for(items)
    waiting = [(top, items)]
    while waiting:
        one, alike = waiting.pop()
        for column in zip(*(i.inside for i in alike), strict=True):
            one.inside.append(_one_for(column))
            waiting.append((one.inside[-1], list(column)))
    return top


def _one_for(items: Sequence[Item]) -> Item:
    """One item for several that are alike, with nothing inside yet."""
    first = items[0]
    sizes = first.sizes
    for item in items[1:]:
        if sizes is None or item.sizes is None or len(sizes) != len(item.sizes):
            sizes = None
            break
        sizes = tuple(
            (min(a, c), max(b, d)) for (a, b), (c, d) in zip(sizes, item.sizes, strict=True)
        )
    times = min(i.times[0] for i in items), max(i.times[1] for i in items)
    time, runs = sum(i.time for i in items), sum(i.runs for i in items)
    odd = frozenset().union(*(i.odd for i in items))
    events = [e for i in items for e in i.events]
    return Item(first.label, first.line, first.number, time, sizes, [], runs, times, odd, events)


def items_of(graph: Graph, backward: bool) -> list[Item]:
    """The tree of a graph: modules, calls that are inside of no other, nodes of backward."""
    tables = graph._tables
    roller = Roller()
    events = tables.events
    kinds, parents, sites = (events[f].tolist() for f in ("kind", "parent", "site"))
    spans = np.maximum((events["ended"] - events["began"]) * tables.tick, 0.0).tolist()
    lines = [str(site) for site in tables.sites]
    left_out = np.isin(events["kind"][events["parent"]], (CALL, NODE)) & (events["parent"] >= 0)
    if not backward:
        left_out |= events["backward"]
    names, shapes, failed = tables.event_names, tables.shapes, events["failed"].tolist()
    odd = tables.odd_events
    inside: list[list[Item]] = [[] for _ in range(len(kinds) + 1)]
    for number in (~left_out).nonzero()[0][::-1].tolist():
        shape = shapes[number]
        sizes = None if shape is None else tuple([(s, s) for s in shape])
        label = names[number]
        if kinds[number] == MODULE:
            path = tables.path(number)
            label = f"{path}: {label}" if path and path != label else label
        if failed[number]:
            label += " FAILED"
        line = lines[sites[number]] if sites[number] >= 0 else ""
        item = roller.item(label, line, spans[number], sizes, inside[number][::-1])
        item.odd = odd.get(number, frozenset())
        item.events = [number]
        inside[number] = []
        inside[parents[number]].append(item)
    return roller.roll(inside[-1][::-1])


def text_of(graph: Graph, depth: int | None, times: bool, backward: bool, lines: bool) -> str:
    """The tree as lines: what, how often, the result's sizes, the time, the line of the program."""
    calls, modules = (
        sum(backward or not e.backward for e in events) for events in (graph.calls, graph.modules)
    )
    head = f"{calls} calls" + (f", {modules} of modules" if modules else "")
    rows: list[tuple[str, Item]] = []
    stack = [(item, 1, 1) for item in reversed(items_of(graph, backward))]
    while stack:
        item, indent, level = stack.pop()
        rows.append((_indented(indent) + _what(item), item))
        if depth is None or level < depth or not item.label:  # a loop is no level
            inside = level + bool(item.label)
            stack.extend((i, indent + 1, inside) for i in reversed(item.inside))
    if not times and not lines:
        return "\n".join([head, *(what for what, _ in rows)])
    width = min(max((len(what) for what, _ in rows), default=0), 72)
    out = [head]
    for what, item in rows:
        time = f"  {duration(item.time):>8}" if times else ""
        out.append(f"{what:<{width}}{time}  {item.line if lines else ''}".rstrip())
    return "\n".join(out)


def _indented(level: int) -> str:
    return "  " * level if level <= LEVELS else f"{'  ' * LEVELS}{level} "


def _what(item: Item) -> str:
    often = f"×{interval(item.times)}" if item.times[1] > 1 else ""
    if not item.label:
        return f"{often}:"
    label = item.label if len(item.label) <= LABEL else "…" + item.label[-LABEL:]
    what = f"{label} {often}".strip()
    if item.sizes is not None:
        what += f" -> [{', '.join(map(interval, item.sizes))}]"
    return f"{what} {' and '.join(sorted(item.odd))}" if item.odd else what


def structure_of(graph: Graph, items: list[Item]) -> str:
    """A name for what ran forward: equal if the tree, its names and its lines are. Sizes, and how
    often a loop goes round, if twice at least, may differ."""
    backward = graph._tables.events["backward"]
    digest = hashlib.blake2b(digest_size=6)
    stack = [(item, 0) for item in reversed(items)]
    while stack:
        item, level = stack.pop()
        if item.events and backward[item.events[0]]:
            continue
        digest.update(f"{level}\t{item.label}\t{item.line}\n".encode())
        stack.extend((i, level + 1) for i in reversed(item.inside))
    return digest.hexdigest()
