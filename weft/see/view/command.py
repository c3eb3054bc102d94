"""`weft view`: the page of a script that it runs, or of a process that listens."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import time
import traceback

from weft.see.view import EVERY, view


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = "Run a script and show its steps in the browser, or those of a process."
    parser.add_argument("--attach", type=int, metavar="PID", help="of a process that listens")
    parser.add_argument(
        "--every", type=int, default=EVERY, help=f"record one step in so many ({EVERY})"
    )
    parser.add_argument("--runs", metavar="DIR", help="compare the runs of a folder")
    parser.add_argument("--wait", action="store_true", help="run when a page is open")
    parser.add_argument("script", nargs="?", help="the script to run")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")


def run(args: argparse.Namespace) -> int:
    """Does it: the exit status."""
    if args.attach is not None:
        from weft.see.view.attach import attach

        try:
            print(attach(args.attach))
        except (ProcessLookupError, PermissionError) as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    if args.script is None and args.runs is None:
        print("[view] expected a script, --runs DIR or --attach PID", file=sys.stderr)
        return 2
    try:
        if args.script is not None:
            whole = os.path.isdir(args.script)
            open(os.path.join(args.script, "__main__.py") if whole else args.script, "rb").close()
        title = os.path.basename(args.script or args.runs)
        page = view(every=args.every, title=title, runs=args.runs or "runs")
    except OSError as error:
        print(f"[view] expected a script that can be read, got {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if args.script is None:
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            return 0
    status = 0
    try:
        while args.wait and not page.is_watched:
            time.sleep(0.1)
        sys.argv = [args.script, *args.args]
        sys.path.insert(0, os.path.dirname(os.path.abspath(args.script)))
        runpy.run_path(args.script, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except BaseException:
        traceback.print_exc()
        status = 1
    try:
        if page.is_watched:
            print("[view] the script has ended; the page stays while it is open", file=sys.stderr)
        while page.is_watched:
            time.sleep(0.2)
    except KeyboardInterrupt:
        pass
    return status
