"""Large operands of float16 and bfloat16."""

from typing import Any

import numpy as np
import pytest

import weft

HALVES = ["float16", "bfloat16"]


def patterns(dtype: str, step: int = 1, n: int = 1 << 16) -> Any:
    """Every half, in the order of `step` (which is odd), from the first one on."""
    bits = (np.arange(n, dtype=np.uint32) * step & 0xFFFF).astype(np.uint16)
    return weft.from_numpy(bits.view(np.int16)).view(getattr(weft, dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [(256, 256), (40, 33, 70), (1, 5000), (3000, 2), (31, 32)])
def test_transposes_move_halves(dtype: str, shape: tuple[int, ...]) -> None:
    x = patterns(dtype, 40503, int(np.prod(shape))).reshape(shape)
    expected = np.swapaxes(x.view(weft.int16).numpy(), 0, -1)
    got = x.transpose(0, -1).contiguous()
    assert got.is_contiguous()
    np.testing.assert_array_equal(got.view(weft.int16).numpy(), expected)
