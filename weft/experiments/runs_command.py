"""`weft runs`: lists the runs of a folder, shows one, or compares several."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from typing import Any

from weft.experiments.facts import short
from weft.experiments.plot import plot
from weft.experiments.stored import Stored, find, last_of, runs

__all__ = ["add", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = "Lists runs; with one name shows it, with several compares them."
    parser.add_argument("names", nargs="*", metavar="ID", help='an id, a part of one, or "last"')
    parser.add_argument("--dir", default="runs", help="the folder of the runs (default: runs)")
    parser.add_argument("--plot", action="append", metavar="METRIC", help="plot this metric")
    parser.add_argument("--json", action="store_true", help="as JSON, one run a line")


def run(args: argparse.Namespace) -> int:
    """Prints what was asked for; 1 if there is no such run."""
    try:
        chosen = [find(name, args.dir) for name in args.names] or runs(args.dir)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    if not chosen:
        print(f"no runs in {args.dir}")
        return 0
    if args.json:
        for stored in chosen:
            print(json.dumps({**stored.facts, "state": stored.state}))
    elif not args.names:
        print(_listed(chosen))
        if args.plot:
            print(_plots(chosen, args.plot))
    elif len(chosen) == 1:
        print(_shown(chosen[0], args.plot))
    else:
        print(_compared(chosen, args.plot))
    return 0


def _listed(all_runs: list[Stored]) -> str:
    rows = [["id", "state", "time", "steps", "last"]]
    for stored in all_runs:
        last = ", ".join(f"{k}={_text(v)}" for k, v in list(last_of(stored.recent).items())[:4])
        steps = [row["step"] for row in stored.recent]
        shown = [stored.id, stored.state, _duration(stored.seconds)]
        rows.append([*shown, str(max(steps) if steps else ""), last])
    return _table(rows)


def _shown(stored: Stored, metrics: list[str] | None) -> str:
    facts = stored.facts
    git = facts["git"]
    commit = "none"
    if git:
        commit = f"{short(git)} on {git['branch']}"
        if git["dirty"]:
            commit += ", and git.diff"
    rows = [
        ["state", stored.state], ["started", facts["started"]],
        ["time", _duration(stored.seconds)], ["seed", str(facts["seed"])], ["commit", commit],
        ["command", " ".join(facts["command"]["argv"])],
        *([f"config {k}", _text(v)] for k, v in stored.config.items()),
        *([k, _text(v)] for k, v in stored.last.items()),
    ]  # fmt: skip
    if facts["rerun_of"]:
        rows.insert(1, ["rerun of", facts["rerun_of"]])
    if stored.structures:
        rows.append(["structures", str(len(stored.structures))])
    text = f"{stored.id}\n{_table(rows)}"
    if facts["error"]:
        text += f"\n{facts['error'].strip()}"
    wanted = metrics or [m for m in stored.last if len(stored.series(m)[0]) > 1][:4]
    return f"{text}\n{_plots([stored], wanted)}" if wanted else text


def _compared(chosen: list[Stored], metrics: list[str] | None) -> str:
    head = ["", *(stored.id for stored in chosen)]
    configs = [stored.config | {"seed": stored.facts["seed"]} for stored in chosen]
    parts = ["configurations", _table([head, *_differences(configs)])]
    if len(parts[1].splitlines()) == 1:
        parts[1] = "the same"
    last = [stored.last for stored in chosen]
    names = list(dict.fromkeys(k for row in last for k in row))
    rows = [[k, *(_text(row[k]) if k in row else "" for row in last)] for k in names]
    parts += ["last metrics", _table([head, *rows])]
    numbers = [m for m in names if sum(len(s.series(m)[0]) > 1 for s in chosen)]
    if wanted := metrics or numbers[:1]:
        parts.append(_plots(chosen, wanted))
    return "\n".join(parts)


def _differences(configs: list[dict[str, Any]]) -> list[list[str]]:
    names = list(dict.fromkeys(k for config in configs for k in config))
    shown = [[k, *(_text(c[k]) if k in c else "" for c in configs)] for k in names]
    return [row for row in shown if len(set(row[1:])) > 1]


def _plots(chosen: list[Stored], metrics: list[str]) -> str:
    width = max(min(shutil.get_terminal_size().columns - 12, 100), 20)
    out = []
    for metric in metrics:
        series = []
        for stored in chosen:
            xs, ys = stored.series(metric)
            if xs:
                name = metric if len(chosen) == 1 else f"{metric} of {stored.id}"
                series.append((name, xs, ys))
        out.append(plot(series, width) if series else f"no numbers of {metric}")
    return "\n".join(out)


def _text(value: Any) -> str:
    """A value in one line."""
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{seconds:.1f}s"


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[c]) for row in rows if c < len(row)) for c in range(max(map(len, rows)))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    )
