"""Programs run as CPython runs the functions: results, logs, exceptions and their places."""

import programs
import pytest

import weft

CASES = [(p.function, case) for p in programs.PROGRAMS for case in p.cases]


def spot(code, offset):
    return code.co_name, *(list(code.co_positions())[offset // 2] if offset >= 0 else [None] * 4)


def spots(error):
    """Of the traceback's entries that are of programs, with columns."""
    found, trace = [], error.__traceback__
    while trace is not None:
        if (code := trace.tb_frame.f_code) in programs.CODES:
            found.append(spot(code, trace.tb_lasti))
        trace = trace.tb_next
    return found


@pytest.mark.parametrize(
    ("function", "case"), CASES, ids=[f"{f.__qualname__}({case})" for f, case in CASES]
)
@pytest.mark.filterwarnings("ignore")
def test_programs_do_what_cpython_does(function, case):
    expected = programs.outcome(function, case)
    compiled = weft._C._Compiled(function)
    for _ in range(3):  # as it is, traced, by plan
        assert programs.outcome(compiled, case) == expected


PAIRS = {"exception_name_in_a_loop"}  # see tests/frontend/test_programs.py


@pytest.mark.filterwarnings("ignore")
def test_carets_are_those_of_cpython():
    for function, case in CASES:
        expected = programs.outcome(function, case, spots)["lines"]
        if expected and function.__name__ not in PAIRS:
            compiled = weft._C._Compiled(function)
            ours = programs.outcome(compiled, case, spots)["lines"]
            assert ours == expected, (function.__qualname__, case)
