"""`explain`: a report of what deferred execution did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import _C
from weft.batching import autobatched

_TIMES = [("planning", "plan_s"), ("packing", "pack_s"), ("running", "run_s")]


class Report:
    """What deferred execution did: `flushes`, a list of dicts, and as text.

    A flush has `reason`, `causes` (lines that read a value, and how many examples did), `calls`,
    `plan_known`, `plan_s`, `pack_s`, `run_s` (seconds) and `batches`: of each `op`, `calls`
    merged, `rows`, operands taken as they lay (`aliased`) or gathered (`packed`, from `pieces`),
    `why` calls did not merge, what keeps them `apart` from the line's first batch, and `lines` with
    their number of calls. `saved_s` estimates from such counts how much longer the plain loop would
    take. `to_dict()` has all as JSON.
    """

    def __init__(self) -> None:
        self.flushes: list[dict[str, Any]] = []
        self.saved_s = 0.0
        self.outputs: Any = None

    @property
    def calls(self) -> int:
        """Calls that were kept."""
        return sum(f["calls"] for f in self.flushes)

    @property
    def batches(self) -> int:
        """Calls that ran instead."""
        return sum(_kernels(b) for f in self.flushes for b in f["batches"])

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data that `json.dumps` takes.

        Keys `calls`, `batches` (numbers), `saved_s`, `plan_s`, `pack_s`, `run_s` (sums) and
        `flushes`: each as in `self.flushes`, with lines of code (`causes`, and `lines` of a batch)
        as dicts of `file`, `line`, `function`, `source` and `calls`.

        >>> report = weft.explain(lambda x: x * 2, [weft.ones(3), weft.ones(2)])
        >>> [(b["op"], b["calls"]) for b in report.to_dict()["flushes"][0]["batches"]]
        [('mul', 2)]
        """
        sums = {key: sum(f[key] for f in self.flushes) for _, key in _TIMES}
        flushes = [
            {
                **flush,
                "causes": _sites(flush["causes"]),
                "batches": [{**b, "lines": _sites(b["lines"])} for b in flush["batches"]],
            }
            for flush in self.flushes
        ]
        return {
            "calls": self.calls, "batches": self.batches, "saved_s": self.saved_s, **sums,
            "flushes": flushes,
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [
            f"{self.calls} calls ran as {self.batches}, in {_count(len(self.flushes), 'flush')}; "
            + ", ".join(
                f"{name} {1e3 * sum(f[key] for f in self.flushes):.2f} ms" for name, key in _TIMES
            )
        ]
        if self.calls:
            lost = ", so autobatch goes on one by one" if self.saved_s < 0 else ""
            what = "lost" if lost else "saved"
            spent = 1e3 * abs(self.saved_s)
            lines.append(f"estimate: {spent:.2f} ms {what} against the plain loop{lost}")
        for number, flush in enumerate(self.flushes):
            known = " (plan known)" if flush["plan_known"] else ""
            calls = _count(flush["calls"], "call")
            lines.append(f"flush {number}: {calls}, because of {flush['reason']}{known}")
            lines += [f"    read at {line} ({n})" for line, n in flush["causes"]]
            lines += _table(flush["batches"])
        return "\n".join(lines)

    __repr__ = __str__


def _sites(lines: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Lines as data, from "model.py:12, in forward: `y = x * b`" with a number of calls."""
    out = []
    for text, calls in lines:
        place, _, source = text.partition(": `")
        where, _, function = place.rpartition(", in ")
        file, _, line = where.rpartition(":")
        known = line.isdigit()
        out.append({
            "file": file if known else "", "line": int(line) if known else 0,
            "function": function if known else "", "source": source[:-1], "calls": calls,
        })  # fmt: skip
    return out


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "es" if what.endswith("h") else "s")


def _kernels(batch: dict[str, Any]) -> int:
    return batch["calls"] if batch["why"] else 1


def _table(batches: list[dict[str, Any]]) -> list[str]:
    """One line for each op and line of code: calls, batches, how operands came."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    apart: dict[tuple[str, str, str], dict[str, None]] = {}
    for b in batches:
        site, others = b["lines"][0][0], len(b["lines"]) - 1
        if others:
            site += f" and {others} more"
        group = b["op"], b["why"], site
        row = groups.setdefault(group, [0, 0, 0, 0])
        if b["apart"]:
            apart.setdefault(group, {})[b["apart"]] = None
        row[0] += b["calls"]
        row[1] += _kernels(b)
        row[2] += b["aliased"]
        row[3] += b["packed"]
    out = []
    for group, (calls, ran, aliased, packed) in groups.items():
        op, why, site = group
        note = f"; single: {why}" if why else ""
        if differences := [*apart.get(group, ())]:
            more = f" and {len(differences) - 2} more" if len(differences) > 2 else ""
            note += f"; apart: {', '.join(differences[:2])}{more}"
        out.append(
            f"  {op:<16} {calls:>6} as {ran:<5} operands {aliased} as they lay, {packed} packed  "
            f"{site}{note}"
        )
    return out


class explain(Report):
    """A report of what is batched: in a scope, or of one run of a function over examples.

    `with weft.explain() as report:` collects while the scope runs. `weft.explain(fn, *lists)` runs
    `autobatch(fn)(*lists)`; the results are in `report.outputs`. Print it.

    >>> report = weft.explain(lambda x: (x * 2).sum(), [weft.ones(3), weft.ones(2)])
    >>> report.calls, report.batches
    (4, 2)
    """

    def __init__(self, fn: Callable[..., Any] | None = None, *lists: Sequence[Any]) -> None:
        super().__init__()
        if fn is not None:
            with self:
                self.outputs = (fn if hasattr(fn, "_autobatched") else autobatched.autobatch(fn))(
                    *lists
                )

    def __enter__(self) -> explain:
        self._first = _C._report(None)
        self._saved_ns = sum(_C._saved(0))
        return self

    def __exit__(self, *exc: object) -> None:
        self.saved_s = 1e-9 * (sum(_C._saved(0)) - self._saved_ns)
        self.flushes = _C._report(self._first)
