"""`explain`: a report of what deferred execution did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import _C
from weft.batching import autobatched

_TIMES = [("planning", "plan_s"), ("packing", "pack_s"), ("running", "run_s")]


class Line:
    """What one line of the user's code did, over all flushes of a report.

    `site` is its place as text; `calls` of the `ops` were kept there and ran as `batches`, which
    took about `time_s` seconds; `apart` says what kept them from one batch, `single` why some did
    not merge at all. So many times examples waited there: `reads` for a value, `draws` for
    their turn to draw random numbers, `changes` to change what examples share.
    """

    _WAIT_S = 2e-6  # what one wait costs, about

    def __init__(self, site: str) -> None:
        self.site = site
        self.ops: list[str] = []
        self.calls = self.batches = 0
        self.time_s = 0.0
        self.apart: list[str] = []
        self.single: list[str] = []
        self.reads = self.draws = self.changes = 0

    def cost(self) -> float:
        """Seconds, waits included: by this the worst line comes first."""
        return self.time_s + self._WAIT_S * (self.reads + self.draws + self.changes)

    def add(self, batch: dict[str, Any], calls: int) -> None:
        if batch["op"] not in self.ops:
            self.ops.append(batch["op"])
        self.calls += calls
        self.batches += calls if batch["why"] else 1
        self.time_s += batch.get("run_s", 0.0) * calls / max(batch["calls"], 1)
        for notes, note in ((self.apart, batch["apart"]), (self.single, batch["why"])):
            if note and note not in notes:
                notes.append(note)

    def __str__(self) -> str:
        notes = [self.site]
        for word, causes in (("single", self.single), ("apart", self.apart)):
            if causes:
                more = f" and {len(causes) - 2} more" if len(causes) > 2 else ""
                notes.append(f"{word}: {', '.join(causes[:2])}{more}")
        for count, what in (
            (self.reads, "waited for a value"), (self.draws, "waited for its turn to draw"),
            (self.changes, "waited for its turn to change what examples share"),
        ):  # fmt: skip
            if count:
                notes.append(f"{what} {_count(count, 'time')}")
        ops = ", ".join(self.ops[:2]) + (" ..." if len(self.ops) > 2 else "")
        ran = f"{self.calls} as {self.batches}" if self.calls else ""
        return f"{1e3 * self.time_s:9.3f} ms {ran:>16}  {ops:<20} {'; '.join(notes)}"


class Report:
    """What deferred execution did: `flushes`, a list of dicts, `lines`, and as text.

    As text it is a summary: a line for each line of code, the most expensive first, at most 40;
    `details()` gives one flush, or all. A flush has `reason`, `causes` (lines that read a value,
    and how many examples did), `draws` and `changes` (lines where examples waited for their turn),
    `calls`, `plan_known`, `plan_s`, `pack_s`, `run_s` (seconds) and `batches`: of each `op`,
    `calls` merged, `rows`, operands taken as they lay (`aliased`) or gathered (`packed`, from
    `pieces`), `run_s`, `why` calls did not merge, what keeps them `apart` from the line's first
    batch, and `lines` with their number of calls. `saved_s` estimates from such counts how much
    longer the plain loop would take. `to_dict()` has all as JSON.
    """

    LINES = 40

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

    @property
    def lines(self) -> list[Line]:
        """What each line of code did over all flushes, the most expensive one first.

        >>> report = weft.explain(lambda x: (x * 2).sum(), [weft.ones(3), weft.ones(2)])
        >>> [(line.ops, line.calls, line.batches) for line in report.lines]
        [(['mul', 'sum'], 4, 2)]
        """
        found: dict[str, Line] = {}

        def line(site: str) -> Line:
            return found.setdefault(site, Line(site))

        for flush in self.flushes:
            for batch in flush["batches"]:
                for site, calls in batch["lines"]:
                    line(site).add(batch, calls)
            for site, n in flush["causes"]:
                line(site).reads += n
            for site, n in flush.get("draws", ()):  # a report of an older version has none
                line(site).draws += n
            for site, n in flush.get("changes", ()):
                line(site).changes += n
        return sorted(found.values(), key=Line.cost, reverse=True)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data that `json.dumps` takes.

        Keys `calls`, `batches` (numbers), `saved_s`, `plan_s`, `pack_s`, `run_s` (sums), `lines`
        and `flushes`: each as in `self.lines` and `self.flushes`, with lines of code as dicts of
        `file`, `line`, `function`, `source` and, within a flush, `calls`.

        >>> report = weft.explain(lambda x: x * 2, [weft.ones(3), weft.ones(2)])
        >>> [(b["op"], b["calls"]) for b in report.to_dict()["flushes"][0]["batches"]]
        [('mul', 2)]
        """
        sums = {key: sum(f[key] for f in self.flushes) for _, key in _TIMES}
        flushes = [
            {
                **flush,
                **{key: _sites(flush.get(key, [])) for key in ("causes", "draws", "changes")},
                "batches": [{**b, "lines": _sites(b["lines"])} for b in flush["batches"]],
            }
            for flush in self.flushes
        ]
        lines = []
        for line in self.lines:
            data = dict(vars(line))
            lines.append(_sites([(data.pop("site"), line.calls)])[0] | data)
        return {
            "calls": self.calls, "batches": self.batches, "saved_s": self.saved_s, **sums,
            "lines": lines, "flushes": flushes,
        }  # fmt: skip

    def __str__(self) -> str:
        text = self._summary()
        lines = self.lines
        room = self.LINES - len(text)
        if len(lines) > room:
            left = len(lines) - (room - 1)
            return "\n".join([*text, *map(str, lines[: room - 1]), f"and {left} more in `lines`"])
        return "\n".join([*text, *map(str, lines)])

    __repr__ = __str__

    def _summary(self) -> list[str]:
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
        return lines

    def details(self, flush: int | None = None) -> str:
        """One flush as text, or all: its reason, who read a value, and each op of each line.

        Raises: IndexError for a flush that there is not.

        >>> report = weft.explain(lambda x: x * 2, [weft.ones(3), weft.ones(2)])
        >>> report.details(0).splitlines()[0][:35]
        'flush 0: 2 calls, because of the en'
        """
        if flush is None:
            return "\n".join(self.details(number) for number in range(len(self.flushes)))
        if not -len(self.flushes) <= flush < len(self.flushes):
            raise IndexError(
                f"[details] expected the number of one of {_count(len(self.flushes), 'flush')}, "
                f"got {flush}"
            )
        number, one = flush % len(self.flushes), self.flushes[flush]
        known = " (plan known)" if one["plan_known"] else ""
        calls = _count(one["calls"], "call")
        lines = [f"flush {number}: {calls}, because of {one['reason']}{known}"]
        lines += [f"    read at {line} ({n})" for line, n in one["causes"]]
        lines += [f"    waited to draw at {line} ({n})" for line, n in one.get("draws", ())]
        lines += [f"    waited to change at {line} ({n})" for line, n in one.get("changes", ())]
        return "\n".join(lines + _table(one["batches"]))


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
