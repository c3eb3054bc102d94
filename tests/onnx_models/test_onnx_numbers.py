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


def counts_to_a_tensor(k: Any) -> Any:
    """TypeError, as of lt() with a number first: it is one of the run in the second turn."""
    i = 0
    while i < k:
        i += 1
        if i == 4:
            break
    return T(i), T([1, 2]) + divmod(k.item(), 3)[1], T(k.item() / 2) == k, k.item() >= k


def number_or_tensor(k: Any) -> Any:
    """Refused: a number and a tensor without dimensions."""
    y = k * 1.5 if k > 2 else 0
    z = k if k > 2 else -1
    return weft.ones(2) + y, z * T([1, 2]), y > 3, T([1.0, 2.0]) ** y


def total_from_a_number(k: Any) -> Any:
    total, best = 0, -1.0
    for row in weft.arange(6.0).view(3, 2) * k:
        if row.sum() > 4:
            total = total + row.sum()
        if row.max() > best:
            best = row.max()
    return weft.zeros(2) + total, best * weft.ones(1)


@pytest.mark.parametrize(
    "f",
    [
        counts_to_a_tensor, number_or_tensor, total_from_a_number,
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


def same(got: Any, want: Any) -> None:
    """As eager: values and dtypes."""
    want = want if isinstance(want, tuple) else (want,)
    assert len(got) == len(want)
    for one, other in zip(got, want):
        weft.testing.assert_close(one, weft.as_tensor(other), equal_nan=True)


def inverted(x: Any) -> Any:
    a = int(x)
    return ~a, -~a, ~-a, a & ~3, ~a | 1, ~~a, not ~a, ~(a > 1), -(a > 1), +(a > 1), ~(x > 1)


def rounded(x: Any) -> Any:
    a = x.item()
    return round(a), round(a, -1), round(a, -2), round(-a, -1), round(a, 2), round(a > 3, 1)


def chosen_bools(x: Any) -> Any:
    a = x.item()
    return max(a > 0, a > 1), min(a > 0, a > 1), 2 * min(a > 0, a), weft.ones(2) * max(a > 3, 1)


def powers(x: Any) -> Any:
    return weft.ones(2) * 2 ** -abs(x.item())


def between_ints(x: Any) -> Any:
    a = int(x)
    return (
        weft.linspace(0, a, 5), weft.linspace(a, 1.5, 3), weft.linspace(a, 2 * a, 4),
        weft.logspace(0, a / 50, 3), weft.logspace(0, a % 5, 3, base=2), weft.linspace(0, a, 1),
        weft.linspace(0, a, 3, dtype=weft.float64), weft.linspace(0.0, float(x), 5),
    )  # fmt: skip


@pytest.mark.parametrize("f", [inverted, rounded, chosen_bools, powers, between_ints])
def test_operators_on_numbers_are_eagers(f: Callable[[Any], Any]) -> None:
    """~ of a number was dropped, round() passed over its digits, max of bools was an int, and
    linspace to an int of the run gave zeros."""
    made = weft.onnx.export(f, (T(37),))
    for k in (T(37), T(0), T(1), T(5), T(15), T(25), T(45), T(150), T(250), T(-25), T(-4)):
        same(made(k), f(k))


def of_sizes(x: Any) -> Any:
    n = x.shape[0]
    return x.sum() + ~n, n & ~1, weft.linspace(0, n, 5), weft.linspace(n, 1, n), round(n, -1)


def which_bools(x: Any) -> Any:
    return weft.where(x > 0, x > 1, x < -1), x.roll(1), (x > 1).masked_fill(x > 2, False)


@pytest.mark.parametrize("f", [of_sizes, which_bools])
def test_free_sizes_are_eagers(f: Callable[[Any], Any]) -> None:
    """ONNX Runtime has no Where of bools, and took roll(1) of no element for a division by 0."""
    made = weft.onnx.export(f, (weft.ones(3),), dynamic_shapes=({0: "n"},))
    for n in (4, 3, 2, 1, 0):
        x = weft.arange(n) - 1.5
        same(made(x), f(x))


def test_windows_of_no_image() -> None:
    """The Reshape behind unfold had to divide by a batch of 0."""
    f = weft.nn.functional.unfold
    made = weft.onnx.export(lambda x: f(x, 2), (weft.ones(2, 3, 4, 4),), dynamic_shapes=({0: "n"},))
    for n in (0, 1, 3):
        x = weft.randn(n, 3, 4, 4)
        same(made(x), f(x, 2))


def test_decimals_of_floats_are_refused() -> None:
    """round(2.375, 1) was 2."""
    with pytest.raises(
        NotOnnx, match=r"round\(a, 1\) of a float of the run.* Hint: round\(a \* 10"
    ):
        weft.onnx.export(lambda x: round(x.item(), 1), (T(0.25),))


@pytest.mark.parametrize("f", [lambda x: min(x.item() > 0, 1), lambda x: 2 ** -abs(x.item())])
def test_kinds_that_values_choose_are_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(NotOnnx, match="a dtype that only a run knows"):
        weft.onnx.export(f, (T(3),))


def total_of_rows(x: Any) -> Any:
    total = 0
    for row in x:
        if row.sum() > -9:
            total = total + row
    return total


NUMBERS_AND_TENSORS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: (x if x.sum() > 0 else 0) + x, "a number and a tensor with dimensions"),
    (lambda x: (x.sum() if x.sum() > 0 else 2**40 + 1) + x, "a number of .*int64 and a tensor of"),
    (lambda x: (x.sum() if x.sum() > 0 else x.argmax().item()) + x, "int64 and a tensor of"),
    (lambda x: (x.argmax() if x.sum() > 0 else 0.5) + x, "float64 and a tensor of .*int64"),
    (total_of_rows, "a variable .*: a number and a tensor with dimensions"),
]


@pytest.mark.parametrize(("f", "says"), NUMBERS_AND_TENSORS)
def test_numbers_that_are_no_such_tensors_are_refused(f: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(NotOnnx, match=says):
        weft.onnx.export(f, (weft.ones(3, 2),), dynamic_shapes=({0: "n"},))


@pytest.mark.parametrize("name", ["isqrt", "copysign", "log1p", "fmod", "gamma"])
def test_functions_of_math_are_refused_as_documented(name: str) -> None:
    """isqrt and others raised NotExportable, which is no NotOnnx."""
    import math

    function = getattr(math, name)
    more = (2.0,) if name in ("copysign", "fmod") else ()
    with pytest.raises(NotOnnx, match=name):
        weft.onnx.export(lambda x: function(int(x), *more), (T(3),))


COUNTED: list[Callable[..., Any]] = [
    lambda x: weft.arange(0.5, x.shape[0], 0.7),
    lambda x: weft.arange(0, x.shape[0] * 0.1, 0.1),
    lambda x: weft.arange(x.shape[0] / 3, 1.5, -0.1) if x.shape[0] > 5 else x,
    lambda x: weft.arange(0.5, x.shape[0] + 0.5, 0.7, dtype=weft.float64),
    lambda x: weft.arange(1.9, x.shape[0] + 2.5, 1, dtype=weft.int64),
    lambda x: weft.arange(0.5, x.shape[0] + 0.7, 1, dtype=weft.int32),
    lambda x: weft.arange(1, x.shape[0] + 2, 3),
]


@pytest.mark.parametrize("k", range(len(COUNTED)))
def test_arange_counts_in_double_as_eager_does(k: int) -> None:
    """Range in float32 had an element more or less where the last is near the end."""
    f = COUNTED[k]
    made = weft.onnx.export(f, (weft.ones(7),), dynamic_shapes={"x": {0: "n"}})
    for n in range(1, 60):
        got, expected = made(weft.ones(n))[0], f(weft.ones(n))
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape, n
        assert weft.allclose(got, expected), n


@pytest.mark.parametrize("dtype", [weft.uint8, weft.int8, weft.int32, weft.int64])
def test_shifts_beyond_the_width(dtype: Any) -> None:
    """Of uint8 >> 8 the highest bit was left, as if it were a sign."""
    a = T([127, 100, 7, 1], dtype=dtype) * (2 if dtype == weft.uint8 else -1)
    for bits in (0, 1, 7, 8, 9, 31, 32, 63, 64, 100):
        b = T([bits] * 4, dtype=dtype)
        right, left = weft.onnx.export(lambda a, b: (a >> b, a << b), (a, b))(a, b)
        assert right.tolist() == (a >> b).tolist(), bits
        assert left.tolist() == (a << b).tolist(), bits
