"""The report of `weft.explain`: a summary by line of code, and single flushes on request."""

from __future__ import annotations

import collections
import json
from typing import Any

import pytest

import weft
from weft.nn import functional as F


def draws(x: Any) -> Any:
    x = x + weft.rand(2)
    return x * 2 if x.sum() > 0 else x


def test_one_line_of_code_is_one_line_over_all_flushes() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = x * 2 + 1
            if x.sum() > 1e9:
                break
        return x

    report = weft.explain(f, [weft.ones(3)] * 4)
    by_ops = {tuple(line.ops): line for line in report.lines}
    assert len(report.flushes) == 3
    line = by_ops["mul", "add"]
    assert line.calls == 24 and line.batches == 6 and line.time_s > 0
    assert by_ops["sum", "gt"].reads == 12
    assert str(report).count("x = x * 2 + 1") == 1


def test_the_most_expensive_line_comes_first_and_forty_at_most() -> None:
    source = "def f(x):\n" + "".join(f"    x = x + {n}\n" for n in range(60)) + "    return x @ x\n"
    space: dict[str, Any] = {}
    exec(compile(source, "many_lines.py", "exec"), space)
    report = weft.explain(space["f"], [weft.ones(2, 2), weft.ones(2, 2)])
    text = str(report).splitlines()
    assert len(text) == report.LINES and text[-1] == "and 24 more in `lines`"
    costs = [line.cost() for line in report.lines]
    assert costs == sorted(costs, reverse=True) and len(costs) == 61


def test_it_names_the_line_where_others_waited_to_draw() -> None:
    report = weft.explain(draws, [weft.ones(2), -weft.ones(2), weft.ones(2)])
    (line,) = [line for line in report.lines if line.draws]
    assert "weft.rand(2)" in line.site and "waited for its turn to draw" in str(report)
    assert not any(line.changes for line in report.lines)


def test_it_names_the_line_where_others_waited_to_change() -> None:
    memory = weft.zeros(2)

    def f(x: Any) -> Any:
        memory.add_(x)
        x = x + memory
        return x * 2 if x.sum() > 0 else x

    report = weft.explain(f, [weft.ones(2)] * 3)
    (line,) = [line for line in report.lines if line.changes]
    assert "memory.add_(x)" in line.site and not line.draws


def test_details_are_one_flush_or_all() -> None:
    report = weft.explain(lambda x: (x * 2).sum().item(), [weft.ones(2), weft.ones(3)])
    assert report.details(0).startswith("flush 0: 4 calls, because of values that are read")
    assert report.details() == "\n".join(map(report.details, range(len(report.flushes))))
    assert report.details(-1) == report.details(len(report.flushes) - 1)
    with pytest.raises(IndexError, match=r"\[details\] expected the number of one of"):
        report.details(len(report.flushes))


def test_lines_are_data_too() -> None:
    report = weft.explain(lambda x: x * 2, [weft.ones(2), weft.ones(3)])
    (line,) = json.loads(json.dumps(report.to_dict()))["lines"]
    assert line["file"].endswith("test_explain.py") and line["line"] > 0
    assert (line["ops"], line["calls"], line["batches"]) == (["mul"], 2, 1)


def test_a_report_of_nothing_is_one_line() -> None:
    with weft.explain() as report:
        pass
    assert report.lines == [] and str(report).startswith("0 calls ran as 0, in 0 flushes")
    assert report.details() == ""


def test_a_report_is_true_and_is_data() -> None:
    """Counts, reasons and lines of flushes of several kinds; a failed batch is counted once."""
    w, table = weft.randn(4, 4), weft.randn(5, 4)

    def one(x: Any, k: int) -> Any:
        h = x @ w
        if h.sum() > -100:  # reads
            h = h.tanh()
        y = weft.zeros(4)
        z = y + h[0]
        y += 1  # writes
        return F.embedding(weft.tensor([k]), table).sum() + z.sum()  # fails

    with weft.explain() as report, pytest.raises(IndexError):
        weft.autobatch(one)([weft.randn(n, 4) for n in (1, 2, 3)], [1, 2, 9])
    data = json.loads(json.dumps(report.to_dict()))
    assert [f["reason"] for f in data["flushes"]] == ["values that are read"] * 2 + ["the end"]
    source = one.__code__.co_firstlineno
    causes = [[(c["line"] - source, c["calls"]) for c in f["causes"]] for f in data["flushes"]]
    assert causes == [[(2, 3)], [(6, 3)], []]
    assert data["flushes"][0]["causes"][0]["file"] == __file__
    assert data["flushes"][0]["causes"][0]["function"] == "one"
    assert data["flushes"][0]["causes"][0]["source"].endswith("# reads")
    for flush in data["flushes"][:2]:
        assert flush["calls"] == sum(b["calls"] for b in flush["batches"])
        assert all(b["calls"] == sum(n["calls"] for n in b["lines"]) for b in flush["batches"])
    ends = collections.Counter()
    for batch in data["flushes"][2]["batches"]:
        ends[batch["op"]] += batch["calls"]
    assert ends == {"embedding": 3, "sum": 5, "add": 2}
    assert data["calls"] == sum(f["calls"] for f in data["flushes"])
