"""`weft run`: runs a PyTorch program, unmodified."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from weft.base import alias

__all__ = ["add", "checked_flags", "main"]

_USAGE = "weft run [--compare] [PYTHON'S FLAGS] script.py ARGS... | -m MODULE ARGS... | -c CODE"
#: Python's flags that take the next word, if they are not followed by their value at once.
_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}
#: Those by which Python would not look at its environment, or load what finds weft.
_WITHOUT = "IES"


def add(parser: argparse.ArgumentParser) -> None:
    """The words of the command; all but the first may be Python's."""
    parser.usage = _USAGE
    parser.description = (
        "Runs a program with Python, where torch is weft; in the processes that it starts, too. "
        "Python's own flags, -m and -c are as Python has them, and without a program it is "
        "Python's prompt."
    )
    parser.add_argument(
        "--compare", action="store_true",
        help="run it with PyTorch too and tell what differs first; before all other words",
    )  # fmt: skip
    parser.add_argument("program", nargs="*", help="the program and its arguments")


def main(words: Sequence[str]) -> int:
    """Becomes Python, running the program; returns from `--help` alone."""
    parser = argparse.ArgumentParser(prog="weft run")
    add(parser)
    if words[:1] in (["-h"], ["--help"]):
        parser.print_help()
        return 0
    if words[:1] == ["--compare"]:
        from weft.running import compare_command

        return compare_command.main(words[1:])
    checked_flags(words, parser)
    alias.to_children(os.environ)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *words])


def checked_flags(words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """The words that are flags for Python, before the program; those refused end the process."""
    found = _flags(words)
    for flag in found:
        refused = "".join(c for c in _WITHOUT if c in flag)
        if flag[:1] != "-" or flag[:2] == "--":
            continue  # a long flag, or the word that one takes
        if refused and flag[:2] not in _WITH_VALUE:
            parser.error(
                f"Python's -{refused[0]} has it start without what makes torch weft; "
                "weft.install_as_torch() in the program works there"
            )
    return found


def _flags(words: Sequence[str]) -> list[str]:
    """The words that are flags for Python, before the program."""
    flags, rest = [], iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-" or word[:2] in ("-m", "-c"):
            break
        flags.append(word)
        if word in _WITH_VALUE:
            flags += [value for value in [next(rest, None)] if value is not None]
    return flags
