"""`weft launch`: runs a program in several processes, which MPI connects."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

__all__ = ["add", "main"]


def add(parser: argparse.ArgumentParser) -> None:
    """The words of the command."""
    from weft.distributed.run import add_words

    parser.usage = "weft launch -n N [--hosts A,B] script.py ARGS... | -m MODULE ARGS..."
    parser.description = (
        "Runs a program in N processes, which `weft.distributed.init_process_group` makes one "
        "world. Each line of output has its rank; the first that fails ends all."
    )
    add_words(parser)


def main(words: Sequence[str]) -> int:
    """Launches; returns the exit status."""
    from weft.distributed.run import run

    parser = argparse.ArgumentParser(prog="weft launch")
    add(parser)
    return run(parser.parse_args(words), parser)
