"""The runs of a folder (weft/experiments), as the page compares them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

POINTS = 500  # of a metric of a run, at equal distances


def runs_of(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Of each run its id, state, seconds, config, last values, and the `series` of its metrics."""
    from weft.base.strict_json import encoded
    from weft.experiments import runs

    if not Path(folder).is_dir():
        return []
    out = []
    for run in runs(folder):
        names = dict.fromkeys(k for row in run.metrics for k in row if k not in ("step", "time"))
        series = {}
        for name in names:
            steps, values = run.series(name)
            every = max(1, -(-len(steps) // POINTS))
            kept = list(zip(steps, values))[::every]
            if kept and kept[-1][0] != steps[-1]:
                kept.append((steps[-1], values[-1]))
            if kept:
                series[name] = encoded(kept, name)
        out.append({
            "id": run.id, "state": run.state, "seconds": run.seconds, "config": run.facts["config"],
            "last": {k: v for k, v in encoded(run.last, "last").items() if k in series},
            "series": series,
        })  # fmt: skip
    return out
