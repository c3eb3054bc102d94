"""Programs that run once with weft and once with PyTorch and must observe the same."""

import inspect
import warnings

import pytest

import weft


def plain(value):
    """`value` without tensors, nodes and exceptions, so that it compares across the two."""
    if isinstance(value, BaseException):
        return type(value).__name__
    if hasattr(value, "requires_grad") and hasattr(value, "tolist"):
        return [str(value.dtype), tuple(value.shape), _rounded(value.tolist())]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if hasattr(value, "next_functions"):
        return value.name()
    return _rounded(value)


def _rounded(value):
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, float):
        return "nan" if value != value else float(f"{value:.5g}") + 0.0
    return value


def observe(program, module):
    """What `program` returns, and what it noted with `note`."""
    notes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if len(inspect.signature(program).parameters) == 2:
            result = program(module, lambda *values: notes.append(plain(values)))
        else:
            result = program(module)
    return plain(result), notes


def error_of(call):
    """The exception that `call` raises; None if it raises none."""
    try:
        call()
    except Exception as error:
        return error
    return None


@pytest.fixture
def same(torch):
    """Checks that a program observes the same with weft and with PyTorch."""

    def check(program):
        expected = observe(program, torch)
        assert observe(program, weft) == expected
        assert expected != (None, []), "the program must return or note something"

    return check


@pytest.fixture
def same_error(torch):
    """Checks that a program raises one type of exception in both, whose texts contain `text`."""

    def check(program, text):
        ours, theirs = error_of(lambda: program(weft)), error_of(lambda: program(torch))
        assert theirs is not None and text in str(theirs), repr(theirs)
        assert type(ours).__name__ == type(theirs).__name__, repr(ours)
        assert text in str(ours), str(ours)

    return check
