"""A graph as a drawing: boxes within boxes from top to bottom, and arrows where values go.

`drawing_of` lays it out, `svg_of` writes it and `save_png` paints it with matplotlib. A box is an
item of the rolled tree (text.py); a module or a loop that is open has those inside of it in its
frame, a pass of backward stays closed. Arrows go between boxes of one frame: straight to the next
box, in an arc to the right past others, dashed on the left from one round of a loop to the next.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.base.shown import interval
from weft.see.tables import CALL, FUNCTION, MODULE, spread
from weft.see.text import Item

if TYPE_CHECKING:
    from weft.see.graphs import Graph

MOST = 240  # boxes; deeper ones stay closed
PIXELS = 24_000_000  # of a PNG at most
FINE = 2.0  # pixels for a unit of it
FEW = 30  # boxes of a PNG, below which a large one is painted smaller instead
LETTER, ROW, GAP, PAD = 6.9, 24.0, 18.0, 14.0
HEAD = 26.0  # of an open box
LANE = 9.0  # between arcs

# name: (fill, stroke, text) on light and on dark ground
COLOURS = {
    "module": (("#eef4ff", "#7aa2e3", "#173a6d"), ("#182538", "#4c77b8", "#cfe0ff")),
    "call": (("#ffffff", "#b6bcc8", "#1d2433"), ("#232833", "#525b6e", "#e6e9f0")),
    "loop": (("#fbf6ea", "#cfa544", "#5f4708"), ("#2a2417", "#a1843b", "#f3e2b3")),
    "pass": (("#f4effb", "#a98bd6", "#43246f"), ("#271f36", "#7d63ab", "#e3d5f9")),
    "bad": (("#fdecea", "#d4453a", "#8c150c"), ("#3a1a18", "#e2675d", "#ffd3cf")),
    "arrow": (("none", "#8a93a5", "#8a93a5"), ("none", "#7d8799", "#7d8799")),
}


@dataclass
class Box:
    """A rectangle with a label; `x`, `y` of its upper left corner."""

    kind: str
    label: str
    note: str
    event: int  # the first that it stands for; -1: none
    inside: list[Box] = field(default_factory=list)
    item: Item | None = None
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    links: list[tuple[int, int]] = field(default_factory=list)  # among those inside
    lanes: list[tuple[int, int, int]] = field(default_factory=list)  # (from, to, lane) of arcs


@dataclass
class Drawing:
    """Boxes with their places, and how large all is."""

    boxes: list[Box]  # in the order of painting
    width: float
    height: float


def drawing_of(graph: Graph, items: list[Item], most: int = MOST) -> Drawing:
    """The layout of the rolled tree, with at most about `most` boxes."""
    top = Box("top", "", "", -1, _boxes(graph, items, most))
    _link(graph, top)
    _measure(top)
    _place(top, 0.0, -HEAD + PAD)
    boxes: list[Box] = []
    stack = [top]
    while stack:
        box = stack.pop()
        boxes.append(box)
        stack.extend(reversed(box.inside))
    return Drawing(boxes, top.width, top.height - HEAD + 2 * PAD)


def fitting(graph: Graph, items: list[Item]) -> Drawing:
    """The layout for a picture of at most `PIXELS`: where all `MOST` boxes take more, fewer."""
    most = MOST
    while True:
        drawing = drawing_of(graph, items, most)
        if drawing.width * drawing.height * FINE**2 <= PIXELS or most <= FEW:
            return drawing
        most //= 2


def _boxes(graph: Graph, items: list[Item], most: int) -> list[Box]:
    """Opened level by level as long as there is room; passes of backward stay closed."""
    kinds = graph._tables.events["kind"]
    out = [_box(kinds, item) for item in items]
    level, count = out, len(out)
    while level:
        below: list[Box] = []
        for box in level:
            assert box.item is not None
            if not box.item.inside or box.kind in ("call", "pass", "bad"):
                continue
            if count + len(box.item.inside) > most:
                continue
            count += len(box.item.inside)
            box.inside = [_box(kinds, item) for item in box.item.inside]
            below += box.inside
        level = below
    if len(out) <= most:
        return out
    left = Box("call", f"and {len(out) - most} more", "", -1, item=Item("", "", -1, 0.0))
    return [*out[:most], left]


def _box(kinds: Any, item: Item) -> Box:
    often = f"×{interval(item.times)}" if item.times[1] > 1 else ""
    if not item.events:
        return Box("loop", often, "", -1, item=item)
    kind = int(kinds[item.events[0]])
    name = "module" if kind == MODULE else "call" if kind in (CALL, FUNCTION) else "pass"
    label = f"{item.label} {often}".strip()
    note = "" if item.sizes is None else f"[{', '.join(map(interval, item.sizes))}]"
    if name == "pass" and item.inside:
        note = f"{sum(i.runs for i in item.inside)} inside"
    return Box("bad" if "nan" in item.odd else name, label, note, item.events[0], item=item)


# ---- arrows ------------------------------------------------------------------------------------


def _link(graph: Graph, top: Box) -> None:
    """Gives each frame the pairs of boxes between which values go."""
    tables = graph._tables
    leaves: list[Box] = []
    chains: list[
        list[tuple[Box, int]]
    ] = []  # of each leaf, the frames round it and its place in each
    leaf_of = np.full(len(tables.events), -1)

    def walk(frame: Box, chain: list[tuple[Box, int]]) -> None:
        for place, box in enumerate(frame.inside):
            here = [*chain, (frame, place)]
            if box.inside:
                for event in box.item.events if box.item else ():
                    leaf_of[event] = -2
                walk(box, here)
            else:
                stack = [box.item] if box.item else []
                while stack:
                    item = stack.pop()
                    leaf_of[item.events] = len(leaves)
                    stack.extend(item.inside)
                leaves.append(box)
                chains.append(here)

    walk(top, [])
    owner = leaf_of.tolist()
    for event, parent in enumerate(tables.events["parent"].tolist()):
        if owner[event] == -1 and parent >= 0:
            owner[event] = owner[parent]  # within a call that is a box
    of = np.asarray(owner)
    readers, at = spread(tables.events["operands"], tables.events["inputs"])
    values = tables.operands[at]
    readers, values = readers[values >= 0], values[values >= 0]
    makers = tables.values["event"][values]
    known = makers >= 0
    pairs = np.stack([of[makers[known]], of[readers[known]]], 1)
    pairs = np.unique(pairs[(pairs >= 0).all(1)], axis=0)
    found: dict[int, set[tuple[int, int]]] = {}
    for a, b in pairs.tolist():
        for (frame, i), (other, k) in zip(chains[a], chains[b]):
            if frame is not other:
                break
            if i != k:
                found.setdefault(id(frame), set()).add((i, k))
                break
    for frame in [top, *(f for chain in chains for f, _ in chain)]:
        if id(frame) in found:
            frame.links = sorted(found.pop(id(frame)))
            frame.lanes = _lanes(frame.links)


def _lanes(links: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Arcs past other boxes, each in the first lane that is free; back ones on the left."""
    taken: dict[bool, list[list[tuple[int, int]]]] = {True: [], False: []}
    out = []
    for a, b in sorted(links, key=lambda link: abs(link[1] - link[0])):
        if b == a + 1:
            continue
        low, high = min(a, b), max(a, b)
        lanes = taken[b > a]
        free = (n for n, lane in enumerate(lanes) if all(high <= c or d <= low for c, d in lane))
        number = next(free, len(lanes))
        if number == len(lanes):
            lanes.append([])
        if number < 6:  # more would be a tangle
            lanes[number].append((low, high))
            out.append((a, b, number))
    return out


# ---- places ------------------------------------------------------------------------------------


def _sides(box: Box) -> tuple[float, float]:
    """The room for arcs on the left and on the right."""
    left = max((n + 1 for a, b, n in box.lanes if b < a), default=0)
    right = max((n + 1 for a, b, n in box.lanes if b > a), default=0)
    return left * LANE, right * LANE


def _measure(box: Box) -> None:
    text = len(box.label) + (len(box.note) + 2 if box.note else 0)
    box.width, box.height = text * LETTER + 2 * PAD, ROW
    if not box.inside:
        return
    for child in box.inside:
        _measure(child)
    left, right = _sides(box)
    wide = max(child.width for child in box.inside)
    box.width = max(box.width, wide + 2 * PAD + 2 * max(left, right))
    tall = sum(child.height for child in box.inside) + GAP * (len(box.inside) - 1)
    box.height = HEAD + tall + PAD


def _place(box: Box, x: float, y: float) -> None:
    box.x, box.y = x, y
    down = y + HEAD
    for child in box.inside:
        _place(child, x + (box.width - child.width) / 2, down)
        down += child.height + GAP


Point = tuple[float, float]


def arrows(box: Box) -> list[tuple[list[Point], bool]]:
    """(points, dashed) of the arrows in a frame: a line of two, an arc of a Bézier's four."""
    out: list[tuple[list[Point], bool]] = []
    arcs = {(a, b): n for a, b, n in box.lanes}
    middle = box.x + box.width / 2
    for a, b in box.links:
        start, end = box.inside[a], box.inside[b]
        if b == a + 1:
            out.append(([(middle, start.y + start.height), (middle, end.y)], False))
        elif (a, b) in arcs:
            side = 1.0 if b > a else -1.0
            between = box.inside[min(a, b) : max(a, b) + 1]
            wide = max(c.width for c in between) / 2 + LANE * (arcs[a, b] + 1) * 1.3
            y0, y1 = start.y + start.height / 2, end.y + end.height / 2
            x0, x1 = middle + side * start.width / 2, middle + side * end.width / 2
            far = middle + side * wide
            out.append(([(x0, y0), (far, y0), (far, y1), (x1, y1)], side < 0))
    return out


# ---- SVG ---------------------------------------------------------------------------------------


def _rules(dark: int) -> str:
    return "".join(
        f".wd-{name} rect{{fill:{c[dark][0]};stroke:{c[dark][1]}}}"
        f".wd-{name} text{{fill:{c[dark][2]}}}.wd-{name} path{{stroke:{c[dark][1]};fill:none}}"
        for name, c in COLOURS.items()
    )


def style(page: bool) -> str:
    """The rules of the colours; in a page they follow its theme, else the reader's."""
    dark = _rules(1)
    if page:
        dark = dark.replace(".wd-", "[data-theme=dark] .wd-")
    else:
        dark = f"@media (prefers-color-scheme: dark){{{dark}.wd-ground{{fill:#14171e}}}}"
    text = "font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
    return f".wd text{{{text}}}.wd .wd-note{{opacity:.72}}.wd-ground{{fill:#fff}}{_rules(0)}{dark}"


def svg_of(drawing: Drawing, *, page: bool = False) -> str:
    """The drawing as SVG.

    Args:
        drawing: what `drawing_of` has laid out.
        page: for a page, whose theme it follows, and without a ground of its own.
    """
    width, height = drawing.width, drawing.height
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wd" role="img" aria-label="the graph" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<style>{style(page)}</style>",
        '<defs><marker id="wd-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8z" fill="#8a93a5"/></marker></defs>',
    ]
    if not page:
        out.append(f'<rect class="wd-ground" width="{width:.0f}" height="{height:.0f}"/>')
    for box in drawing.boxes:
        if box.kind != "top":
            out.append(_svg_box(box))
        if box.links:
            out.append('<g class="wd-arrow">')
            for points, dashed in arrows(box):
                dots = " ".join(f"{x:.1f} {y:.1f}" for x, y in points[1:])
                how = "L" if len(points) == 2 else "C"
                path = f"M{points[0][0]:.1f} {points[0][1]:.1f}{how}{dots}"
                dash = ' stroke-dasharray="4 3"' if dashed else ""
                out.append(f'<path d="{path}"{dash} marker-end="url(#wd-tip)"/>')
            out.append("</g>")
    return "".join([*out, "</svg>"])


def _svg_box(box: Box) -> str:
    line = box.item.line if box.item else ""
    dash = ' stroke-dasharray="5 3"' if box.kind == "loop" else ""
    event = f' data-event="{box.event}" tabindex="0" role="button"' if box.event >= 0 else ""
    label, note = html.escape(box.label), html.escape(box.note)
    base = box.y + 16
    text = f'<text x="{box.x + PAD:.1f}" y="{base:.1f}">{label}'
    if note:
        text += f'<tspan class="wd-note" dx="9">{note}</tspan>'
    return (
        f'<g class="wd-{box.kind}"{event}><title>{html.escape(f"{box.label} {box.note} {line}")}'
        f'</title><rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="5"{dash}/>{text}</text></g>'
    )


# ---- PNG ---------------------------------------------------------------------------------------


def save_png(drawing: Drawing, path: str) -> None:
    """Paints the drawing into a file, on light ground, two pixels for each unit, or as many as make
    a picture of at most `PIXELS`.

    Raises:
        ModuleNotFoundError: matplotlib is not there.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, PathPatch
        from matplotlib.path import Path
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "[save] expected matplotlib for a PNG, got none. "
            "Hint: pip install 'weft[plot]', or save as .svg or .html",
            name="matplotlib",
        ) from error
    fine = min(
        FINE,
        (PIXELS / (drawing.width * drawing.height)) ** 0.5,
        2**15 / max(drawing.width, drawing.height),  # matplotlib paints no longer sides than 2^16
    )
    figure = Figure(figsize=(drawing.width / 72, drawing.height / 72), dpi=72 * fine)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
    axes.axis("off")
    for box in drawing.boxes:
        if box.kind != "top":
            fill, stroke, ink = COLOURS[box.kind][0]
            axes.add_patch(
                FancyBboxPatch(
                    (box.x, box.y), box.width, box.height, boxstyle="round,pad=0,rounding_size=5",
                    facecolor=fill, edgecolor=stroke, linewidth=1,
                    linestyle="--" if box.kind == "loop" else "-",
                )
            )  # fmt: skip
            axes.text(
                box.x + PAD, box.y + 16, f"{box.label}  {box.note}".strip(), color=ink,
                fontsize=11, family="monospace", parse_math=False,
            )  # fmt: skip
        for points, dashed in arrows(box):
            codes = [Path.MOVETO, *([Path.LINETO] if len(points) == 2 else [Path.CURVE4] * 3)]
            how: dict[str, Any] = {
                "color": COLOURS["arrow"][0][1], "linewidth": 1, "fill": False,
                "linestyle": "--" if dashed else "-",
            }  # fmt: skip
            axes.add_patch(PathPatch(Path(points, codes), **how))
            axes.add_patch(
                FancyArrowPatch(
                    points[-2], points[-1], arrowstyle="-|>", mutation_scale=8,
                    shrinkA=0, shrinkB=0, linewidth=0, color=how["color"],
                )
            )  # fmt: skip
    figure.savefig(path)
