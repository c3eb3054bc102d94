"""The folders of runs, read: what `weft runs` shows."""

from __future__ import annotations

import json
import math
import os
import socket
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.base.strict_json import as_float, decoded
from weft.experiments import lines

__all__ = ["Stored", "find", "last_of", "runs"]

_FACTS: dict[str, Any] = {
    "config": dict, "state": str, "host": str, "pid": int, "seconds": (int, float, type(None)),
    "started": str, "order": int,
}  # fmt: skip


class Stored:
    """A run as its folder has it, under way or over.

    Attributes:
        path: the folder.
        facts: what run.json has.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        facts = json.loads((self.path / "run.json").read_bytes())
        if not isinstance(facts, dict) or not all(
            name in facts and isinstance(facts[name], kind) for name, kind in _FACTS.items()
        ):
            raise ValueError(f"[runs] expected the facts of a run in {self.path}, got others")
        self.facts: dict[str, Any] = facts

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def config(self) -> dict[str, Any]:
        """The configuration."""
        return {k: decoded(v) for k, v in self.facts["config"].items()}

    @property
    def state(self) -> str:
        """ "running", "done", "failed", or "killed": it has not ended, and its process is gone."""
        state = str(self.facts["state"])
        if state == "running" and self.facts["host"] == socket.gethostname():
            if not is_alive(self.facts["pid"]):
                return "killed"
        return state

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl."""
        return list(_rows(self.path / "metrics.jsonl"))

    @cached_property
    def structures(self) -> list[dict[str, Any]]:
        """The lines of structure.jsonl."""
        return list(_rows(self.path / "structure.jsonl"))

    @cached_property
    def recent(self) -> list[dict[str, Any]]:
        """The last lines of metrics.jsonl, of 64 KiB."""
        return list(_rows(self.path / "metrics.jsonl", 1 << 16))

    @property
    def last(self) -> dict[str, Any]:
        """Of each metric the value that was logged last."""
        return last_of(self.metrics)

    def series(self, metric: str) -> tuple[list[int], list[float]]:
        """The steps at which a number was logged for a metric, and the numbers."""
        rows = [(row["step"], as_float(row.get(metric))) for row in self.metrics]
        return [s for s, v in rows if v is not None], [v for _, v in rows if v is not None]

    @property
    def seconds(self) -> float:
        """How long it took, or until it logged last."""
        whole = self.facts["seconds"]
        times = [whole] if whole is not None else [row.get("time") for row in self.recent]
        known = [as_float(t) for t in times]
        return max([0.0, *(t for t in known if t is not None and math.isfinite(t))])


def _rows(path: Path, most: int | None = None) -> Iterator[dict[str, Any]]:
    """The lines that have a step."""
    return (row for row in lines.read(path, most) if isinstance(row.get("step"), int))


def last_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each metric in some lines the last value."""
    out: dict[str, Any] = {}
    for row in rows:
        out.update({k: v for k, v in row.items() if k not in ("step", "time")})
    return out


def is_alive(pid: int) -> bool:
    """Whether there is a process of this number that has not ended."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    try:  # a child that nobody has waited for
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True


def runs(dir: str | os.PathLike[str] = "runs") -> list[Stored]:
    """The runs of a folder, in the order in which they began."""
    found = []
    for file in Path(dir).glob("*/run.json"):
        try:
            found.append(Stored(file.parent))
        except (ValueError, OSError) as error:  # one that a full disk cut off hides no other
            warnings.warn(f"[runs] expected a run in {file.parent}, got {error}", stacklevel=2)
    return sorted(found, key=lambda run: (run.facts["started"], run.facts["order"]))


def find(name: str, dir: str | os.PathLike[str] = "runs") -> Stored:
    """The run of this id, of the only id that has `name` as a part, or "last".

    Raises:
        LookupError: none, or several.
    """
    all_runs = runs(dir)
    if name == "last" and all_runs:
        return all_runs[-1]
    found = [run for run in all_runs if run.id == name] or [r for r in all_runs if name in r.id]
    if len(found) == 1:
        return found[0]
    what = ", ".join(run.id for run in found[:5]) or f"none among {len(all_runs)}"
    raise LookupError(
        f"[runs] expected the name of one run in {os.fspath(dir)}, got {name!r}, which is that of "
        f"{what}"
    )
