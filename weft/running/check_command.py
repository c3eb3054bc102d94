"""`weft check`: tells which of PyTorch's names a program uses that weft does not offer."""

from __future__ import annotations

import argparse
import os
import sys

from weft.running.check import Missing, Names, check
from weft.running.sources import Source, Unreadable, find, read

__all__ = ["add", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = (
        "Reads programs, without running them, and tells which names of PyTorch's they use that "
        "weft does not offer, by file and line. What a program can do without, because it asks "
        "first or catches the error, is marked optional. Exits with 1 if any other is missing."
    )
    parser.add_argument("what", nargs="+", help="scripts, notebooks, folders, installed packages")


def run(args: argparse.Namespace) -> int:
    """0: all is there; 1: not, or a file is no Python; 2: there is nothing to read."""
    try:
        files = list(dict.fromkeys(path for what in args.what for path in find(what)))
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    sources: list[Source] = []
    unread = 0
    for path in files:
        try:
            sources.append(read(path))
        except Unreadable as error:
            print(f"not read: {error}", file=sys.stderr)
            unread += 1
    names = Names(source.tree for source in sources)
    found = [(source, one) for source in sources for one in check(source.tree, names)]
    for source, one in found:
        print(_line(source, one))
    needed = [(source.path, one.name) for source, one in found if not one.optional]
    print(_summary(len(sources), needed, len(found) - len(needed)))
    return 1 if needed or unread else 0


def _line(source: Source, one: Missing) -> str:
    place = source.place(one.line)
    place = os.path.relpath(place) if not os.path.relpath(place).startswith("..") else place
    told = f"{one.name}: optional, {one.optional}" if one.optional else one.name
    return f"{place}: {told}" + (f". Hint: {one.hint}" if one.hint and not one.optional else "")


def _summary(files: int, needed: list[tuple[str, str]], optional: int) -> str:
    read_ = f"{files} file" + ("s" if files != 1 else "")
    rest = f"; {optional} optional" if optional else ""
    if not needed:
        return f"{read_}: all of PyTorch's names are there{rest}"
    names, of = len({name for _, name in needed}), len({path for path, _ in needed})
    return (
        f"{read_}: {names} name{'s' if names != 1 else ''} missing, "
        f"at {len(needed)} place{'s' if len(needed) != 1 else ''} in {of}{rest}"
    )
