"""`weft rerun`: repeats a run and says whether its numbers are the same to the bit."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from weft.base import alias
from weft.experiments import facts
from weft.experiments.run import RERUN
from weft.experiments.stored import Stored, find

__all__ = ["add", "difference", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = (
        "Repeats a run by its command line and seed, in the folder where it ran, and compares the "
        "metrics. Exits with 0 if all numbers are the same to the bit."
    )
    parser.add_argument("name", metavar="ID", help='an id, a part of one, or "last"')
    parser.add_argument("--dir", default="runs", help="the folder of the runs (default: runs)")


def run(args: argparse.Namespace) -> int:
    """0: the same to the bit; 1: not; 2: it could not be repeated."""
    try:
        old = find(args.name, args.dir)
        argv = _command_line(old)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    for warning in _changes(old):
        print(f"warning: {warning}", file=sys.stderr)
    if old.state != "done":
        print(f"warning: the run is {old.state}", file=sys.stderr)
    command = old.facts["command"]
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        again = {
            "id": old.id, "order": old.facts["order"], "seed": old.facts["seed"],
            "dir": str(old.path.parent.resolve()), "answer": str(answer),
        }  # fmt: skip
        environment = {k: v for k, v in os.environ.items() if not facts.is_setting(k)}
        environment |= {**command["environment"], RERUN: json.dumps(again)}
        as_torch = environment.get(alias.MODE) == "1"
        (alias.to_children if as_torch else alias.not_to_children)(environment)
        try:
            code = subprocess.run(argv, cwd=command["cwd"], env=environment).returncode
        except OSError as error:
            print(f"[rerun] expected a command that can be started, got {error}", file=sys.stderr)
            return 2
        if not answer.exists():
            print(
                f"[rerun] expected a program that begins run {old.facts['order'] + 1} of its own, "
                f"got none; it ended with {code}",
                file=sys.stderr,
            )
            return 2
        new = Stored(answer.read_text())
    if code:
        print(f"warning: the program ended with {code}", file=sys.stderr)
    found = difference(old, new)
    rows = len(old.metrics)
    if found is None:
        print(f"{new.id} repeats {old.id}: {rows} lines of metrics are the same to the bit")
        return 0
    print(f"{new.id} differs from {old.id}: {found}")
    return 1


def _command_line(old: Stored) -> list[str]:
    argv = [str(word) for word in old.facts["command"]["argv"]]
    words = [word for word in argv[1:] if word == "-c" or not word.startswith("-")]
    if not words or "-i" in argv[1:2]:
        raise LookupError(
            f"[rerun] expected a run of a program, got {old.id}, which began in an interactive "
            "session or read its program from standard input"
        )
    return [sys.executable, *argv[1:]]


def _changes(old: Stored) -> list[str]:
    """What is not as it was when the run began."""
    out = []
    git = old.facts["git"]
    now, diff = facts.git_of(_folder_of_program(old))
    if git and not now:
        out.append("the commit is not known any more")
    if git and now:
        file = old.path / "git.diff"
        before = file.read_bytes() if file.exists() else b""
        if git["commit"] != now["commit"]:
            was, is_ = facts.short(git), facts.short(now)
            back = f": git checkout {was} goes back" if git["commit"] else ""
            out.append(f"the commit was {was} and is {is_}{back}")
        elif before != diff:
            out.append(f"the working tree differs from what it was: see {file}")
        if git["commit"] != now["commit"] and before:
            out.append(f"the working tree had changes then: git apply {file}")
    for name, version in facts.versions().items():
        was = old.facts["versions"].get(name)
        if was != version:
            out.append(f"{name} was {was} and is {version}")
    return out


def _folder_of_program(old: Stored) -> Path:
    command = old.facts["command"]
    for word in command["argv"][1:]:
        path = Path(command["cwd"]) / str(word)
        if not word.startswith("-") and path.is_file():
            return path.resolve().parent
    return Path(str(command["cwd"]))


def difference(old: Stored, new: Stored) -> str | None:
    """The first number that is not the same to the bit, in words; None: all are. When it was logged
    does not count."""
    for k, (a, b) in enumerate(zip(old.metrics, new.metrics)):
        for name in dict.fromkeys([*a, *b]):
            if name == "time":
                continue
            if name not in a or name not in b:
                return f"line {k + 1} has {name} in one alone"
            if not _same(a[name], b[name]):
                return f"{name} at step {a['step']} was {a[name]!r} and is {b[name]!r}"
    if len(old.metrics) != len(new.metrics):
        return f"{len(old.metrics)} lines of metrics became {len(new.metrics)}"
    return None


def _same(a: Any, b: Any) -> bool:
    return json.dumps(a) == json.dumps(b)  # the digits of floats tell their bits, -0.0 too
