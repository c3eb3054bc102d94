"""Pointwise operations on more memory than the caches hold."""

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("threads", [1, 2])
def test_large_outputs_equal_numpy(threads: int) -> None:
    before = weft.get_num_threads()
    weft.set_num_threads(threads)
    try:
        x = np.arange(6_000_001, dtype=np.float32) % 1013 - 500
        t = weft.from_numpy(x)
        assert np.array_equal((t * t - 3).numpy(), x * x - 3)
        assert np.array_equal((t[1:] > t[:-1]).numpy(), x[1:] > x[:-1])
        t += t  # reads what it writes
        assert np.array_equal(t.numpy(), 2 * (np.arange(6_000_001) % 1013 - 500))
    finally:
        weft.set_num_threads(before)
