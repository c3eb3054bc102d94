"""The command line: `python -m weft COMMAND`, or `weft COMMAND` where it is installed."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import select
import signal
import sys
from collections.abc import Sequence

__all__ = ["COMMANDS", "main"]

#: The module of each command: it has `add(parser)` and `run(args)`, and says in its first line what
#: the command does. One with `main(words)` in place of `run` reads its words itself.
COMMANDS = {
    "check": "weft.running.check_command",
    "launch": "weft.running.launch_command",
    "rerun": "weft.experiments.rerun_command",
    "run": "weft.running.run_command",
    "runs": "weft.experiments.runs_command",
    "serve": "weft.serve.command",
    "view": "weft.see.view.command",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status. Characters that the output lacks are escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # of --help too, which ends by SystemExit
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        # as what SIGPIPE ends: no word, and nothing for the interpreter's end to write
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE


def _reader_is_gone() -> bool:
    """Whether what reads standard output, as in `weft runs | head`, has ended."""
    poll = select.poll()
    poll.register(1, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _run(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="weft", description="Commands of the weft framework.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    given = sys.argv[1:] if arguments is None else list(arguments)
    # one command loads what it needs alone; help and mistakes show all
    wanted = given[:1] if given[:1] and given[0] in COMMANDS else list(COMMANDS)
    if len(wanted) == 1:
        command = importlib.import_module(COMMANDS[wanted[0]])
        if hasattr(command, "main"):
            return int(command.main(given[1:]))
    for name in wanted:
        module = importlib.import_module(COMMANDS[name])
        does = (module.__doc__ or "").partition("\n")[0].partition(": ")[2]
        module.add(commands.add_parser(name, help=does))
    args = parser.parse_args(given)
    return int(importlib.import_module(COMMANDS[args.command]).run(args))


if __name__ == "__main__":
    sys.exit(main())
