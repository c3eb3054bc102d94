"""The caching allocator: freed memory serves tensors of the same size, and smaller ones."""

import pytest

import weft


def stats() -> dict[str, int]:
    return weft._C._memory_stats()


def nothing_is_kept() -> bool:
    weft.ones(5000)
    return stats()["cached"] == 0


pytestmark = pytest.mark.skipif(nothing_is_kept(), reason="WEFT_CACHE=0, or ASAN")


@pytest.mark.parametrize("size", [100, 1 << 10, 60_000, 1 << 20])
def test_the_same_size_gets_the_same_memory(size: int) -> None:
    weft._C._empty_cache()
    x = weft.ones(size)
    at = x.data_ptr()
    del x
    assert weft.ones(size).data_ptr() == at


@pytest.mark.parametrize(("larger", "smaller", "reused"), [
    (100_000, 60_000, True), (100_000, 99_999, True), (100_000, 40_000, False),
    (40_000, 100_000, False),
])  # fmt: skip
def test_a_block_serves_smaller_tensors_down_to_half(
    larger: int, smaller: int, reused: bool
) -> None:
    """Batches of ever new sizes filled a class each."""
    weft._C._empty_cache()
    x = weft.ones(larger)
    del x
    kept = stats()["cached"]
    y = weft.ones(smaller)
    assert (stats()["cached"] < kept) == reused
    del y
    assert (stats()["cached"] == kept) == reused
    z = weft.ones(larger)  # the block is what it was
    assert z.sum().item() == larger


def test_sizes_that_change_need_little_more_than_the_largest() -> None:
    weft._C._empty_cache()
    for size in range(200_000, 100_000, -1000):
        weft.ones(size)
    assert stats()["cached"] < 4 * 250_000
