"""`weft run --compare`: runs a program with weft and with PyTorch and tells what differs first."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from weft.running.comparing import Comparison, Difference, Side
from weft.running.rewriting import Site
from weft.running.run_command import checked_flags

__all__ = ["main"]

_USAGE = "weft run --compare [--seed N] [--rtol R] [--atol A] [FLAGS] script.py ARGS... | -m MODULE"
_OPTIONS = {"--seed": int, "--rtol": float, "--atol": float}
_SAME, _DIFFERS, _NOT_COMPARED = 0, 1, 2


def _parse(words: Sequence[str]) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Our options, which come first, Python's flags, and the program with its words."""
    parser = argparse.ArgumentParser(prog="weft run --compare", usage=_USAGE)
    parser.description = (
        "Runs a program twice, with weft and with PyTorch, which must be installed, and tells the "
        "first tensor, branch or error that differs. Exits with 0 if nothing does, 1 if something "
        "does, 2 if the two cannot be compared."
    )
    parser.add_argument("--seed", type=int, default=0, help="for all generators (default: 0)")
    parser.add_argument("--rtol", type=float, help="relative tolerance, in place of the dtype's")
    parser.add_argument("--atol", type=float, help="absolute tolerance, in place of the dtype's")
    ours: list[str] = []
    rest = list(words)
    while rest and (rest[0].partition("=")[0] in _OPTIONS or rest[0] in ("-h", "--help")):
        taken = 1 if "=" in rest[0] or rest[0] in ("-h", "--help") else 2
        ours, rest = ours + rest[:taken], rest[taken:]
    args = parser.parse_args(ours)
    flags = checked_flags(rest, parser)
    return args, flags, rest[len(flags) :]


def main(words: Sequence[str]) -> int:
    """Runs and compares; the exit status is one of the three above."""
    args, flags, program = _parse(words)
    problem = _problem(program)
    if problem:
        print(f"[run --compare] {problem}", file=sys.stderr)
        return _NOT_COMPARED
    by_name = program[0] == "-m"
    folder = os.getcwd() if by_name else str(Path(program[0]).resolve().parent)
    tolerance = {
        name: value
        for name, value in (("relative", args.rtol), ("absolute", args.atol))
        if value is not None
    }
    sides: list[Side] = []
    try:
        for name in ("torch", "weft"):
            sides.append(Side(name, flags, program, args.seed, folder))
        comparison = Comparison(sides[0], sides[1], tolerance)
        found = comparison.run()
        if found is None:
            for side in sides:
                side.finish()
    finally:
        for side in sides:
            side.close()
    print("\n".join(_report(comparison, found)))
    return _DIFFERS if found is not None or comparison.prints else _SAME


def _problem(program: list[str]) -> str:
    if PathFinder.find_spec("torch") is None:
        return ("expected PyTorch to be installed beside weft, got no package torch. "
                "Hint: pip install torch")  # fmt: skip
    if not program or program[0] in ("-c", "-"):
        got = program[0] if program else "none"
        return f"expected a script, or -m and a module, got {got}. Hint: {_USAGE}"
    if program[0] == "-m":
        return "" if len(program) > 1 else "expected a module after -m, got none"
    return "" if os.path.isfile(program[0]) else f"expected a file, got {program[0]!r}"


def _report(comparison: Comparison, found: Difference | None) -> list[str]:
    lines = []
    if comparison.taken:
        lines.append("weft draws other random numbers, and took PyTorch's, at:")
        lines += [f"  {_place(site)}: {n} ×" for site, n in comparison.taken.items()]
    for printed in comparison.prints[:3]:
        lines += _words(printed)
    if len(comparison.prints) > 3:
        lines.append(f"and {len(comparison.prints) - 3} more printed lines differ")
    if found is not None:
        return [*lines, *_words(found)]
    ended = f"; {comparison.ended}" if comparison.ended else ""
    prints = " but for what is printed" if comparison.prints else ""
    return [*lines, f"the same{prints}: {comparison.count} tensors compared{ended}"]


def _words(found: Difference) -> list[str]:
    site = found.site
    head = f"{_place(site)}: {found.what}" if site.line else found.what
    source = _source(site)
    return [
        head if found.what.startswith(("the runs part", "prints")) else f"{head}, differs",
        *([f"    {source}"] if source else []),
        f"  PyTorch: {found.torch}",
        f"  weft:    {found.weft}",
        *(f"  {line}" for line in found.more),
    ]


def _place(site: Site) -> str:
    path = os.path.relpath(site.file) if site.file else ""
    return f"{site.file if path.startswith('..') else path}:{site.line}"


def _source(site: Site) -> str:
    """The line of the program, as it is in the file."""
    try:
        lines = Path(site.file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return lines[site.line - 1].strip() if 0 < site.line <= len(lines) else ""
