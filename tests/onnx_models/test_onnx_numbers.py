"""Numbers of Python's that are read from tensors, in ONNX Runtime as eagerly: values and dtypes."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import weft  # noqa: E402
from weft.onnx import NotOnnx  # noqa: E402

T = weft.tensor


def divided_by_the_larger(k: Any) -> Any:
    """An int or a float, which is the same to a tensor of floats."""
    return weft.ones(2) / max(k.item(), 2.5)


def tensor_of_the_smaller(k: Any) -> Any:
    return T(min(float(k.item()), 2.5))


def larger_of_tensors(k: Any) -> Any:
    return max(k * 1.0, T(2.5), T(0.5))


def larger_of_two_ints(k: Any) -> Any:
    return max(k, T(3)), max(k, 3) * T([1, 2]), max(3, k.item())


def nan_by_order(k: Any) -> Any:
    """Python keeps the first of what does not compare."""
    nan = k.item() * float("nan")
    return T(max(nan, 2.5)), T(max(2.5, nan)), T(min(k * nan, 2.5)).nan_to_num(7)


def number_on_the_left(k: Any) -> Any:
    y = weft.ones(2)
    if 2.5 > k:
        y = y * 2
    return y * (3 >= k) + (1 == k) + (2 != k)


def either_way(k: Any) -> Any:
    v = 1
    if k > 2:
        v = 2.5
    return weft.ones(2) / v


@pytest.mark.parametrize(
    "f",
    [
        divided_by_the_larger, tensor_of_the_smaller, larger_of_tensors, larger_of_two_ints,
        nan_by_order, number_on_the_left, either_way,
    ],
)  # fmt: skip
def test_numbers_are_eagers(f: Callable[[Any], Any]) -> None:
    """max and min of tensors gave float64; 2.5 > k was refused."""
    made = weft.onnx.export(f, (T(3),))
    for k in (T(3), T(1), T(2), T(5)):
        want = f(k)
        want = [weft.as_tensor(v) for v in (want if isinstance(want, tuple) else [want])]
        weft.testing.assert_close(made(k), want, equal_nan=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda k: T(max(k.item(), 2.5)),
        lambda k: T([1, 2]) * max(k.item(), 2.5),
        lambda k: weft.full((2,), min(2.5, k.item())),
        lambda k: max(k, 2.5),
        lambda k: max(k, T(2.5)),
        lambda k: max(k.item(), 2.5),
        lambda k: T(either_way_number(k)),
    ],
)
def test_dtypes_that_values_choose_are_refused(f: Callable[[Any], Any]) -> None:
    """max(3, 2.5) is an int, and max(1, 2.5) a float: a tensor of it had one dtype for both."""
    with pytest.raises(NotOnnx, match=r"a dtype that only a run knows.* Hint: .*float\(a\)"):
        weft.onnx.export(f, (T(3),))


def either_way_number(k: Any) -> Any:
    v = 1
    if k > 2:
        v = 2.5
    return v
