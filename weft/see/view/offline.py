"""The page as one file, and what else a graph can be saved as."""

from __future__ import annotations

import functools
import os
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.base.strict_json import text as json_of

if TYPE_CHECKING:
    from weft.batching.report import Report
    from weft.see.graphs import Graph

SCRIPTS = ("core", "tree", "strip", "details", "panels", "live", "runs", "main")


@functools.cache
def assets() -> tuple[str, str, str]:
    """(page, rules, scripts) as text."""
    folder = Path(__file__).parent / "page"
    scripts = "\n".join((folder / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    return (
        (folder / "page.html").read_text("utf-8"),
        (folder / "page.css").read_text("utf-8"),
        scripts.replace('"use strict";\n', ""),
    )


def page_of(model: dict[str, Any] | None, title: str) -> str:
    """The page with a model in it; without, it asks the server that it comes from."""
    page, css, js = assets()
    data = json_of(model).replace("<", "\\u003c")
    parts = {"title": escape(title), "css": css, "model": data, "js": f'"use strict";\n{js}'}
    out = []
    for piece in page.split("{{"):
        name, closed, rest = piece.partition("}}")
        out.append(parts[name] + rest if closed else piece)
    return "".join(out)


def save(
    graph: Graph, path: str | os.PathLike[str], title: str | None, report: Report | None
) -> None:
    """See `Graph.save`."""
    from weft.see.text import items_of
    from weft.see.view.drawing import drawing_of, fitting, save_png, svg_of
    from weft.see.view.model import model_of

    file = Path(path)
    kind = file.suffix.lower()
    if kind not in (".html", ".svg", ".png", ".json"):
        raise ValueError(
            f"[save] expected a path that ends in .html, .svg, .png or .json, got {file.name!r}"
        )
    if kind == ".png":
        save_png(fitting(graph, items_of(graph, backward=True)), str(file))
        return
    if kind == ".svg":
        text = svg_of(drawing_of(graph, items_of(graph, backward=True)))
    else:
        title = file.stem if title is None else title
        model = model_of(graph, title=title, report=report)
        text = page_of(model, title) if kind == ".html" else json_of(model)
    file.write_text(text, "utf-8", "backslashreplace")


def notebook(graph: Graph) -> str:
    """The drawing, of few boxes, for a notebook to show."""
    from weft.see.text import items_of
    from weft.see.view.drawing import drawing_of, svg_of

    drawing = drawing_of(graph, items_of(graph, backward=True), most=60)
    return f'<div style="max-height:640px;overflow:auto">{svg_of(drawing)}</div>'
