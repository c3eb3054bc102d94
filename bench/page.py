"""docs/measured.md: the table of a run, with the machine and the versions it was made with."""

import os
import platform
from pathlib import Path

from harness import WAYS, shown

OTHERS = ". Others ran besides: expect noise, and no meaning in rows of several threads"
SCALE = """![Time per op, tree and step against size, weft and PyTorch](scale.png)

Drawn by `make bench SCALE=1` (`bench/scale.py`), both axes by powers of ten."""
MET = {None: "", True: "met", False: "short"}


def processor():
    """Its name where Linux tells it, else the kind of its instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(columns, rows):
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 2) + ["---"], *rows]
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )


def plain_row(found):
    unit, ratio = found["unit"], found["ratio"]
    return [
        found["row"], shown(found["weft"], unit), shown(found["peer"], unit),
        f"{ratio:.2f}x" if ratio else "-", " ".join([found["target"] or "", MET[found["met"]]]),
    ]  # fmt: skip


def ways_row(found, ways):
    cells = [shown(found["ways"].get(way), "s") for way in ways]
    return [found["row"], *cells, " ".join([found["target"] or "", MET[found["met"]]])]


def text(results, libs, only, busy):
    """The page in Markdown; `busy` is what the machine had to do besides as the run began."""
    versions = ", ".join(f"{name} {lib.__version__}" for name, lib in libs.items())
    part = f"Only the rows whose names match this were run: `{only}`.\n" if only else ""
    cores = os.cpu_count()
    parts = [
        "# Measured",
        "Written by `make bench`, which runs all rows of `bench/run.py` and replaces this page:\n"
        "weft beside PyTorch on one machine, in one process, in turn; medians, one thread unless\n"
        "the row says otherwise. The ratio is PyTorch's time over weft's: above 1 weft is the\n"
        "faster one. Times differ between machines, ratios much less.",
        f"{processor()}, {cores} cores; {platform.system()}, Python {platform.python_version()}; "
        f"{versions}.\n\n{part}Load of the machine as the run began, without it: {busy:.1f} of "
        f"{cores} cores{OTHERS if busy > 0.5 else ''}.",
    ]
    plain = [plain_row(r) for r in results if "ways" not in r]
    if plain:
        parts.append(table(["what", *libs, "ratio", "target"], plain))
    ways = [r for r in results if "ways" in r]
    if ways:
        there = [way for way in WAYS if any(way in r["ways"] for r in ways)]
        columns = ["what", *there, "target"]
        parts += ["## Compiled and loaded", table(columns, [ways_row(r, there) for r in ways])]
    parts += ["## As programs grow", SCALE]
    return "\n\n".join(parts) + "\n"
