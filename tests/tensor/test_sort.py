"""Rows are sorted by comparison or by radix, after their length and how close their numbers lie."""

from __future__ import annotations

import numpy as np
import pytest

import weft

# the largest difference of two keys has so many bits
BITS = [0, 1, 5, 8, 9, 17, 33, 57, 63]
LENGTHS = [1, 2, 63, 64, 65, 97, 250, 700, 1023, 1500]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
def test_integers_of_any_spread(n: int, descending: bool) -> None:
    rng = np.random.default_rng(n)
    for bits in BITS:
        low = -(2**bits) // 2 if bits % 2 else 2**60 - 3
        rows = rng.integers(low, low + 2**bits - 1, (3, n), endpoint=True)
        expect_sorted(rows, descending)
    expect_sorted(rng.choice([-(2**63), 2**63 - 1, 0], (2, n)), descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", LENGTHS)
def test_floats_with_repeats_zeros_and_nan(n: int, dtype: str, descending: bool) -> None:
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((4, n)).astype(dtype)
    rows[1] = np.round(rows[1])  # many alike, zeros of both signs
    rows[2] = 1 + np.abs(rows[2]) * 1e-6  # keys that lie close
    rows[3, rng.integers(0, n, 3)] = np.nan
    values, indices = weft.tensor(rows).sort(1, descending=descending, stable=True)
    numbers = np.nan_to_num(rows, nan=np.inf)
    order = np.argsort(-numbers if descending else numbers, 1, kind="stable")
    assert indices.tolist() == order.tolist()
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(rows, order, 1))


def expect_sorted(rows: np.ndarray, descending: bool) -> None:
    values, indices = weft.tensor(rows).sort(1, descending=descending, stable=True)
    order = np.argsort(~rows if descending else rows, 1, kind="stable")
    assert indices.tolist() == order.tolist()
    assert values.tolist() == np.take_along_axis(rows, order, 1).tolist()
    columns = weft.tensor(rows).t().sort(0, descending=descending, stable=True)
    assert columns.indices.t().tolist() == order.tolist()
