"""The law of batching: every op of the table gives the loop's values and gradients, batched."""

from typing import Any

import numpy as np
import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, flat, ours

import weft

SKIP = {"_region", "_pack", "_take"}  # of the batcher itself: they want memory


class Example(Inputs):
    """A sample's inputs with numbers of its own, as results of ops that wait to be computed."""

    def __init__(self, sample: str, seed: int, dtype: str) -> None:
        super().__init__(weft, dtype, sample, grad=True)
        self.rng = np.random.default_rng(seed)

    def T(self, *sizes: int, lo: float = -2, hi: float = 2) -> Any:
        return super().T(*sizes, lo=lo, hi=hi) * 1

    def I(self, *sizes: int, high: int = 5) -> Any:  # noqa: E743
        return super().I(*sizes, high=high) + 0

    def B(self, *sizes: int) -> Any:
        return super().B(*sizes) ^ False


def results(name: str, sample: str, dtype: str, batch: bool) -> tuple[list[Any], list[Any]]:
    f = ours(RECORDS[name])
    examples = [Example(sample, seed, dtype) for seed in (1, 2, 3)]

    def one(e: Example) -> list[Any]:
        return flat(e.run(f, sample))

    outs = weft.autobatch(one)(examples) if batch else [one(e) for e in examples]
    terms = [
        (t * weft.cos(weft.arange(t.numel(), dtype=t.dtype).reshape(t.shape))).sum()
        for out in outs
        for t in out
        if t.requires_grad and not t.is_complex()
    ]
    leaves = [leaf for e in examples for leaf in e.leaves]
    grads = []
    if terms and leaves:
        grads = list(weft.autograd.grad(sum(terms), leaves, allow_unused=True))
    return outs, grads


def same(a: Any, b: Any, tolerance: float) -> None:
    if a is None or b is None:
        assert b is None or not np.any(np.array(b.tolist()))
        return
    if not isinstance(b, weft.Tensor):
        assert a == b
        return
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_allclose(np.array(a.tolist()), np.array(b.tolist()), tolerance, tolerance)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_every_op(name: str, sample: str, dtype: str) -> None:
    record = RECORDS[name]
    if record["random"] or "empty" in name or name in SKIP:
        pytest.skip("random, uninitialised, or part of the batcher")
    plain, plain_grads = results(name, sample, dtype, batch=False)
    batched, batched_grads = results(name, sample, dtype, batch=True)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    for ours_, theirs in zip(batched, plain, strict=True):
        for a, b in zip(ours_, theirs, strict=True):
            same(a, b, tolerance)
            assert not isinstance(b, weft.Tensor) or a.requires_grad == b.requires_grad
    for a, b in zip(batched_grads, plain_grads, strict=True):
        same(a, b, 10 * tolerance)
