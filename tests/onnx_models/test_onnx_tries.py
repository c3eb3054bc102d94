"""try in programs: a handler that a run would reach is refused, and all else is as eager."""

import math
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from test_onnx_models import agrees  # noqa: E402

import weft  # noqa: E402
from weft.onnx import NotOnnx, export  # noqa: E402

R = weft.ones
FREE = {"dynamic_shapes": ({0: "n"},)}
Program = Callable[[Any], Any]


def caught(compute: Program, kinds: Any = Exception) -> Program:
    """A program with a try around a computation."""

    def program(x: Any) -> Any:
        y = x.sum() * 0
        try:
            y = compute(x)
        except kinds:
            y = y - 1
        return y

    return program


def stacked(x: Any) -> Any:
    out = []
    for row in x:
        out.append(row * 2)
    return weft.stack(out)


def set_a_row(x: Any) -> Any:
    y = x * 2
    y[2] = 5
    return y.sum()


RAISING: dict[str, tuple[Program, Any]] = {
    "stack of no rows": (stacked, RuntimeError),
    "max of no element": (lambda x: x.max(), Exception),
    "a row that is not there": (lambda x: x[2], IndexError),
    "its like among others": (lambda x: x[2], (KeyError, LookupError)),
    "a row that is not there, written": (set_a_row, IndexError),
    "int of nan": (lambda x: int(x.sum()), (ValueError, OverflowError)),
    "int of inf": (lambda x: int(x.sum()), OverflowError),
    "division by a size of 0": (lambda x: 10 // x.shape[0], ZeroDivisionError),
    "division by a number": (lambda x: 1.5 / x.sum().item(), ArithmeticError),
    "a rest": (lambda x: 10 % int(x[:1].sum() * 3), BaseException),
    "view": (lambda x: x.view(4, -1), RuntimeError),
    "sizes that may not fit": (lambda x: x + x[1:], RuntimeError),
    "a product": (lambda x: x.T @ x[1:], RuntimeError),
    "item of many": (lambda x: x.item(), RuntimeError),
    "a truth of many": (lambda x: x * 2 if x[:, 0] > 0 else x, RuntimeError),
    "an index": (lambda x: x.T[:, (x[0] * 2).long()], IndexError),
    "a logarithm": (lambda x: math.log(x.sum().item()), ValueError),
    "a power": (lambda x: x.sum().item() ** -2, ZeroDivisionError),
    "a negative size": (lambda x: weft.zeros(int(x.sum())), RuntimeError),
    "round of nan": (lambda x: round(x.sum().item()), ValueError),
}  # fmt: skip


@pytest.mark.parametrize("name", RAISING)
def test_what_a_handler_would_catch_is_refused(name: str) -> None:
    """The handler was left out: an empty batch gave another result than eager, or failed."""
    compute, kinds = RAISING[name]
    with pytest.raises(NotOnnx, match=r"sizes or values than the example's, within a try with exc"):
        export(caught(compute, kinds), (R(4, 2),), **FREE)


def reads_a_key(x: Any) -> Any:
    try:
        return x.max(0).values + {"a": 1}["a"]
    except KeyError:
        return x[0]


def many_calls(x: Any) -> Any:
    n = x.shape[0]
    y = weft.zeros(n, 2)
    for row in x:
        y = y + row
    y[:] = y * 2
    y = weft.relu(x * 2 + y).softmax(-1).sum(0) @ R(2, 3)
    return y.unsqueeze(0).expand(2, 3) / (n + 1) + (-n) // 2


PASSING: dict[str, tuple[Program, Any]] = {
    "calls that do not raise": (many_calls, Exception),
    "cuts": (lambda x: x[1:] * 2 + x[:-1], RuntimeError),
    "of another kind": (lambda x: x[1], (ValueError, KeyError)),
    "division of another kind": (lambda x: 10 // x.shape[0], IndexError),
    "masks": (lambda x: x[x[:, 0] > 0] * 2, Exception),
    "rows joined": (lambda x: weft.cat([x, x * 2]), Exception),
    "int of an int": (lambda x: int(x.long().sum()) + 1, Exception),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_raises_nothing_passes(name: str) -> None:
    program = caught(*PASSING[name])
    agrees(program, export(program, (R(4, 2),), **FREE), [(weft.randn(n, 2),) for n in (2, 5)])
    agrees(reads_a_key, export(reads_a_key, (R(4, 2),)), [(R(4, 2),)])


def raises_another(x: Any) -> Any:
    try:
        return x[1] * 2
    except IndexError as error:
        raise ValueError("too few rows") from error


def catches_the_other(x: Any) -> Any:
    try:
        return raises_another(x)
    except ValueError:
        return x.sum(0)


def test_handlers_that_raise() -> None:
    """They catch nothing, but where another handler catches what they raise."""
    agrees(raises_another, export(raises_another, (R(4, 2),), **FREE), [(R(2, 2),), (R(5, 2),)])
    with pytest.raises(NotOnnx, match="raises_another.* within a try with except"):
        export(catches_the_other, (R(4, 2),), **FREE)


def returns_out_of_it(x: Any) -> Any:
    y = x
    try:
        if x.shape[0] > 2:
            return y * 2
        y = y + 1
    finally:
        y = y - 5
    return y


def returns_none_of_two(x: Any) -> Any:
    try:
        if x.sum() > 2:
            return x, 1
    except KeyError:
        return x, 7
    else:
        x = x * 3
    finally:
        print("done")
    return x, 2


def breaks_out_of_it(x: Any) -> Any:
    count = 0
    for row in x:
        try:
            if row.sum() > 2:
                break
            if row.sum() < 0:
                continue
            count = count + 10
        finally:
            count = count + 1
    return count


def writes_at_the_end(x: Any) -> Any:
    y = x * 1
    try:
        for row in x:
            if row.sum() > 2:
                return y
    finally:
        y += 1
    return y * 10


@pytest.mark.parametrize(
    "f", [returns_out_of_it, returns_none_of_two, breaks_out_of_it, writes_at_the_end]
)
def test_ways_out_of_a_try(f: Program) -> None:
    """What stood behind the try was not a part of the way that stays."""
    made = export(f, (R(3, 2),), **FREE)
    rows = weft.tensor([[1.0, 0.0], [-1.0, -1.0], [0.5, 1.0], [4.0, 1.0], [1.0, 1.0]])
    agrees(f, made, [(rows[:n],) for n in (1, 2, 3, 4, 5)] + [(-rows,), (rows[3:],)])


def rows_by_mask(x: Any) -> Any:
    out, chosen = weft.zeros(x.shape[0], 2), x[:, 0] > 0
    out[chosen] = x[chosen] * 2
    return out


def from_the_end_on(x: Any) -> Any:
    out = []
    for row in x:
        out.append(row * 2)
    return weft.stack(out[::-1]), weft.cat([out[-1], out[0]])


@pytest.mark.parametrize("f", [rows_by_mask, from_the_end_on])
def test_rows_by_masks_and_backwards(f: Program) -> None:
    """They were said to raise."""
    made = export(f, (R(3, 2),), **FREE)
    agrees(f, made, [(weft.randn(n, 2),) for n in (1, 2, 5)])


def test_a_part_from_the_end_on_is_refused() -> None:
    def f(x: Any) -> Any:
        out = []
        for row in x:
            out.append(row)
        return weft.stack(out[::-2])

    with pytest.raises(NotOnnx, match=r"from the end on.* Hint: take \[::-1\]"):
        export(f, (R(3, 2),), **FREE)
