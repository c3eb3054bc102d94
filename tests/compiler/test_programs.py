"""Programs run as CPython runs the functions: results, logs, exceptions and their places."""

import programs
import pytest

import weft

CASES = [(p.function, case) for p in programs.PROGRAMS for case in p.cases]


@pytest.mark.parametrize(
    ("function", "case"), CASES, ids=[f"{f.__qualname__}({case})" for f, case in CASES]
)
@pytest.mark.filterwarnings("ignore")
def test_programs_do_what_cpython_does(function, case):
    expected = programs.outcome(function, case)
    compiled = weft._C._Compiled(function)
    for _ in range(3):  # as it is, traced, by plan
        assert programs.outcome(compiled, case) == expected


@pytest.mark.filterwarnings("ignore")
def test_carets_are_those_of_cpython():
    for function, case in CASES:
        expected = programs.outcome(function, case, programs.spots)["lines"]
        if expected and function.__name__ not in programs.PAIRS:
            compiled = weft._C._Compiled(function)
            ours = programs.outcome(compiled, case, programs.spots)["lines"]
            assert ours == expected, (function.__qualname__, case)
