"""What is lowered does what CPython does: results, logs, exceptions and their places."""

import evaluate
import programs
import pytest

from weft.frontend import Kept, lower
from weft.frontend.emit import INLINES

CASES = [(p.function, case) for p in programs.PROGRAMS for case in p.cases]


def places(error):
    return [programs.spot(*place)[:2] for place in getattr(error, "places", ())]


@pytest.mark.parametrize(
    ("function", "case"), CASES, ids=[f"{f.__qualname__}({case})" for f, case in CASES]
)
@pytest.mark.filterwarnings("ignore")
def test_the_evaluator_agrees_with_cpython(function, case):
    expected = programs.outcome(function, case)
    assert programs.outcome(evaluate.function(function), case, places) == expected


@pytest.mark.filterwarnings("ignore")
def test_carets_are_those_of_cpython():
    compared = 0
    for function, case in CASES:
        expected = programs.outcome(function, case, programs.spots)["lines"]
        ours = programs.outcome(
            evaluate.function(function),
            case,
            lambda error: [programs.spot(*p) for p in error.places],
        )["lines"]
        if expected and function.__name__ not in programs.PAIRS:
            assert ours == expected, (function.__qualname__, case)
            compared += 1
    assert compared > 80


def instructions(lowered):
    """All of a function's instructions, those of inner functions included."""
    todo = [lowered.body, *(i.body for i in lowered.inner if not isinstance(i, Kept))]
    while todo:
        for instr in todo.pop():
            yield instr
            todo.extend(instr.regions)


def test_the_programs_use_every_verb():
    verbs = {name.removeprefix("verb_") for name in vars(evaluate.Machine) if "verb_" in name}
    used = {i.verb for p in programs.PROGRAMS for i in instructions(lower(p.function))}
    if INLINES:
        verbs.remove("outer")
    assert used == verbs


@pytest.mark.parametrize("function", [p.function for p in programs.PROGRAMS])
def test_registers_and_constants_are_in_range(function):
    lowered = lower(function)
    code = function.__code__
    n = code.co_argcount + code.co_kwonlyargcount
    n += bool(code.co_flags & 4) + bool(code.co_flags & 8)
    assert tuple(lowered.registers[:n]) == code.co_varnames[:n]
    named = [k for k, name in enumerate(lowered.registers) if name]
    assert named == list(range(len(named))), "temporaries come last"
    assert set(lowered.free) == set(code.co_freevars)
    for instr in instructions(lowered):
        assert isinstance(instr.regions, tuple) and isinstance(instr.outs, tuple)
    todo = [lowered]
    while todo:
        one = todo.pop()
        todo += [i for i in one.inner if not isinstance(i, Kept)]
        bodies = [one.body]
        while bodies:
            for instr in bodies.pop():
                bodies.extend(instr.regions)
                assert all(0 <= out < len(one.registers) for out in instr.outs)
                assert all(-len(one.consts) <= o < len(one.registers) for o in instr.operands)
                offset = instr.offset & 0xFFFFFF if instr.offset >= 0 else -1
                assert offset % 2 == 0 or offset == -1
