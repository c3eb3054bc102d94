"""A short run of the autodiff fuzzer, and the faults it must find."""

import sys
from pathlib import Path

import pytest

import weft

sys.path.insert(0, str(Path(__file__).parent))

import autodiff_fuzz as fuzz  # noqa: E402
from autodiff_names import names_for  # noqa: E402
from autodiff_programs import draw  # noqa: E402

PROGRAMS = 25


@pytest.mark.parametrize("seed", [0, 1])
def test_programs_do_what_they_do_in_pytorch(torch, seed):
    report = fuzz.search(seed, PROGRAMS, torch)
    for kind, cases in report.differences.items():
        key, statements = cases[0]
        small = fuzz.minimal(statements, (torch, weft), kind)
        found = fuzz.check(small, (torch, weft))
        pytest.fail(f"program {key}: {kind}\n{fuzz.script(small)}\n{found}")
    assert report.statements > 8 * PROGRAMS


def test_programs_repeat_and_most_statements_run(torch):
    assert draw("a", torch) == draw("a", torch) != draw("b", torch)
    outcomes = [fuzz.run(draw(f"c{i}", torch), torch) for i in range(100)]
    errors = [error for out in outcomes for error in out.errors]
    assert sum(error is not None for error in errors) < 0.15 * len(errors)
    assert any(error is not None for error in errors)
    assert sum(what.startswith("grad value") for out in outcomes for what, _ in out.seen) > 100


PROGRAM = [
    "v0 = leaf(2, 3, at=0)",
    "v1 = v0 * 2",
    "v2 = v1.select(0, 1)",
    "hook(v1, look('h'))",
    "v2.mul_(3)",
    "loss(v1).backward()",
]


def quieter(names):
    names["hook"] = lambda x, f: None


def off(names):
    plain = names["loss"]
    names["loss"] = lambda *tensors: plain(*tensors) * (1 + 1e-7)


def elsewhere(names):
    plain = names["leaf"]
    names["leaf"] = lambda *sizes, **how: plain(*sizes, order=(1, 0), **how)


def raising(names):
    def hook(x, f):
        raise ValueError

    names["hook"] = hook


@pytest.mark.parametrize(
    ("change", "kind"),
    [(quieter, "order"), (off, "grad value"), (elsewhere, "grad layout"), (raising, "error")],
)
def test_the_fuzzer_finds(torch, monkeypatch, change, kind):
    names, log = names_for(weft)
    assert fuzz.check(PROGRAM, (torch, weft)) == []
    changed = dict(names)
    change(changed)
    plain = fuzz.names_for
    monkeypatch.setattr(
        fuzz, "names_for", lambda lib: (changed, log) if lib is weft else plain(lib)
    )
    found = [each[0] for each in fuzz.check(PROGRAM, (torch, weft))]
    assert any(each.startswith(kind) for each in found), found


def test_a_difference_is_made_smaller(torch, monkeypatch):
    names, log = names_for(weft)
    changed = names | {"Scale": names["Save"]}
    plain = fuzz.names_for
    monkeypatch.setattr(
        fuzz, "names_for", lambda lib: (changed, log) if lib is weft else plain(lib)
    )
    program = [
        "v0 = leaf(2, at=0)",
        "v1 = leaf(2, at=1)",
        "v2 = v0.sin()",
        "with t.enable_grad():\n    v3 = v1 * 2\n    v4 = Scale.apply(v0)",
        "v5 = v4 + v2",
    ]
    libs = (torch, weft)
    assert fuzz.minimal(program, libs, "value") == ["v0 = leaf(2, at=0)", "v4 = Scale.apply(v0)"]
