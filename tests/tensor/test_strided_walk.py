"""How pointwise ops walk operands that lie unlike, and segments of one length, beside loops."""

import itertools

import numpy as np
import pytest

import weft
from weft import _C


@pytest.mark.parametrize("threads", [1, 3])
def test_operands_of_any_layout_meet_element_by_element(threads):
    """Rows of an axis follow each other at once; pieces for threads begin anywhere in them."""
    before = weft.get_num_threads()
    weft.set_num_threads(threads)
    try:
        for shape in ((3, 5), (2, 3, 4), (3, 1, 2, 5), (40, 61, 33), (2, 40, 3, 171)):
            for order in itertools.islice(itertools.permutations(range(len(shape))), 4):
                a = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape)
                b = np.asfortranarray(a[..., :1] + 1)
                c = np.ascontiguousarray(a.transpose(order)[::-1]).transpose(np.argsort(order))
                x, y, z = (weft.from_numpy(v) for v in (a, b, c))
                assert np.array_equal((x * y).numpy(), a * b)
                assert np.array_equal((x - z).numpy(), a - c)
                assert np.array_equal((z[..., ::2] + y).numpy(), c[..., ::2] + b)
    finally:
        weft.set_num_threads(before)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("counts", [(3, 3, 3), (1, 2, 2, 0, 0, 5, 5, 1), (4,), (0, 0), (7, 1, 1)])
def test_segments_of_one_length_beside_each_other_are_reduced_like_single_ones(counts, mean):
    for width in ((), (1,), (5, 3)):
        x = weft.randn(sum(counts), *width)
        found = _C.ops._segment_sum(x, counts, mean)
        parts = [p.mean(0) if mean else p.sum(0) for p in x.split(counts)]
        assert weft.allclose(found, weft.stack(parts), equal_nan=True)
