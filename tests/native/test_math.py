"""Saved programs compute what Python's module math does: values, kinds and errors."""

import io
import itertools
import math
from typing import Any

import math_programs
import pytest

import weft

REALS = [0, 1, -1, 2, 20, 0.0, -0.0, 0.5, -2.5, 1e-300, 1e300, 710.5, math.inf, -math.inf, math.nan]
VALUES = [*REALS, 170, 2**53 + 1, True, None, "a"]


def outcome(f: Any, *given: Any) -> tuple[str, str]:
    """The kind and text of a result or an error: so are zeros of either sign and NaNs compared."""
    try:
        found = f(*given)
    except Exception as error:
        return type(error).__name__, str(error)
    return type(found).__name__, repr(found)


def loaded(f: Any) -> Any:
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(f), file)
    file.seek(0)
    return weft.jit.load(file)


@pytest.mark.parametrize("k", range(len(math_programs.OF_ONE)))
def test_functions_of_one_number(k: int) -> None:
    f = math_programs.OF_ONE[k]
    program = loaded(f)
    for v in VALUES:
        if isinstance(v, int) and v > 20 and "Overflow" in outcome(program, v)[0]:
            continue  # integers have 64 bits
        assert outcome(program, v) == outcome(f, v), v


@pytest.mark.parametrize("k", range(len(math_programs.OF_TWO)))
def test_functions_of_two_numbers(k: int) -> None:
    """pow(0, -inf) was a domain error, and of two wrong arguments the last one was named."""
    f = math_programs.OF_TWO[k]
    program = loaded(f)
    wrong = [] if "dist" in f.__code__.co_names else VALUES[-2:]
    for a, b in itertools.product([*REALS, True, *wrong], repeat=2):
        assert outcome(program, a, b) == outcome(f, a, b), (a, b)


@pytest.mark.parametrize("name", ["factorial", "perm", "lcm"])
def test_integers_beyond_64_bits(name: str) -> None:
    program = loaded({"factorial": math_programs.OF_ONE[14], "perm": math_programs.OF_ONE[15],
                      "lcm": lambda n: math.lcm(n, 2**61 - 1)}[name])  # fmt: skip
    with pytest.raises(OverflowError, match=rf"\[{name}\] expected a result of 64 bits"):
        program(2**62)
