"""Running sums and their like along rows, of which several go in step."""

from typing import Any

import numpy as np
import pytest

import weft

FLOATING = ["float32", "float64", "float16"]
OPS = [(name, dtype) for name in ("cumsum", "cumprod") for dtype in [*FLOATING, "int64"]]
OPS += [("logcumsumexp", dtype) for dtype in FLOATING]


@pytest.mark.parametrize(("name", "dtype"), OPS)
def test_rows_together_are_rows_alone(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for rows in (1, 2, 3, 4, 5, 7, 9):
        for n in (1, 2, 37):
            x = weft.from_numpy(rng.uniform(-1.5, 1.5, (rows, n))).to(getattr(weft, dtype))
            alone = weft.stack([getattr(row, name)(0) for row in x])
            assert weft.equal(getattr(x, name)(1), alone)
            out = weft.empty_like(x)
            total: Any = getattr(weft, name)
            assert weft.equal(total(x, 1, out=out), alone)
            assert weft.equal(total(x, 1, out=x), alone)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_of_running_sums(dtype: str) -> None:
    x = np.random.default_rng(0).normal(0, 30, (6, 50)).astype(dtype)
    x[1, 3:5], x[2, :4], x[3, 7] = np.inf, -np.inf, np.nan
    got = weft.from_numpy(x).logcumsumexp(1).numpy()
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp.accumulate(x, 1)
    np.testing.assert_allclose(got, expected, 1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
@pytest.mark.parametrize("n", [3, 32, 64, 65, 200, 1000])
def test_the_first_place_of_an_extreme(dtype: str, n: int) -> None:
    """Whole blocks of a row are looked through at a time."""
    weft.manual_seed(0)
    x = weft.randint(-20, 20, (30, n)).to(getattr(weft, dtype))
    for row, place in ((1, n - 1), (2, n // 2), (3, 0)):
        x[row, place] = 99
    if dtype != "int64":
        x[4, n // 3] = x[4, n - 1] = x[5, 0] = float("nan")
    plain = x.double().numpy()
    for name in ("argmax", "argmin"):
        assert getattr(x, name)(1).tolist() == getattr(np, name)(plain, 1).tolist()
    assert x.max(1)[1].tolist() == x.argmax(1).tolist()
