"""Which dtype comes of two, beside PyTorch."""

import itertools
import operator

import pytest
from pairs import DTYPES, same, torch

import weft

OPERANDS = [
    *((d, shape) for d in DTYPES for shape in ("1-d", "0-d")),
    ("bool", "number"),
    ("int64", "number"),
    ("float64", "number"),
]


def operand(lib, dtype, kind):
    if kind == "number":
        return {"bool": True, "int64": 2, "float64": 1.5}[dtype]
    values = [1, 0, 1] if kind == "1-d" else 1
    return lib.tensor(values, dtype=getattr(lib, dtype))


@pytest.mark.parametrize(
    "op", ["add", "mul", "truediv", "floordiv", "pow", "eq", "lt", "sub", "mod"]
)
def test_promotion(op):
    apply = getattr(operator, op)
    for left, right in itertools.product(OPERANDS, OPERANDS):
        if left[1] == right[1] == "number" or (op == "pow" and left[0] == right[0] == "bool"):
            continue  # PyTorch refuses bool ** bool, except for the literal True
        outcomes = []
        for lib in (weft, torch):
            try:
                outcomes.append(apply(operand(lib, *left), operand(lib, *right)))
            except RuntimeError as error:
                outcomes.append(type(error))
        got, expected = outcomes
        if isinstance(expected, type):
            assert got in (expected, RuntimeError), (left, right)
        else:
            assert same(got, expected), (left, right, got, expected)


@pytest.mark.parametrize("op", ["iadd", "imul", "itruediv", "ipow", "isub"])
def test_promotion_in_place(op):
    apply = getattr(operator, op)
    for left, right in itertools.product(OPERANDS, OPERANDS):
        if left[1] == "number" or (left[1] == "0-d" and right[1] == "1-d"):
            continue
        if op == "ipow" and left[0] == right[0] == "bool":
            continue
        outcomes = []
        for lib in (weft, torch):
            target = operand(lib, *left)
            try:
                result = apply(target, operand(lib, *right))
                assert result is target
                outcomes.append(result)
            except RuntimeError as error:
                outcomes.append(type(error))
        got, expected = outcomes
        if isinstance(expected, type):
            assert isinstance(got, type), (left, right, got)
        else:
            assert not isinstance(got, type) and same(got, expected), (left, right, got, expected)


def test_promote_types_and_can_cast():
    for a, b in itertools.product(DTYPES, DTYPES):
        ours = weft.promote_types(getattr(weft, a), getattr(weft, b))
        assert str(ours) == str(torch.promote_types(getattr(torch, a), getattr(torch, b)))
        assert weft.can_cast(getattr(weft, a), getattr(weft, b)) == torch.can_cast(
            getattr(torch, a), getattr(torch, b)
        )
    for left, right in itertools.product(OPERANDS, OPERANDS):
        ours = weft.result_type(operand(weft, *left), operand(weft, *right))
        theirs = torch.result_type(operand(torch, *left), operand(torch, *right))
        assert str(ours) == str(theirs), (left, right)
