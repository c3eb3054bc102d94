"""Calls too large to be gathered, and those that run at once (Note [Large])."""

from __future__ import annotations

import weft


def test_large_calls_stay_apart() -> None:
    """To gather them took longer than the loop, to keep the results of all filled the caches."""
    xs = [weft.ones(300, 300) * k for k in (1, 2, 3)]
    report = weft.explain(lambda x: (x * 2).sum(), xs)
    assert report.calls == 0  # they ran at once
    assert [t.item() for t in report.outputs] == [180000 * k for k in (1, 2, 3)]
    big = weft.ones(300, 300)
    report = weft.explain(lambda x: x * 2 + big, [weft.tensor(float(k)) for k in (1, 2, 3)])
    (flush,) = report.flushes
    assert [(b["op"], b["calls"]) for b in flush["batches"]] == [("mul", 3), ("add", 3)]
    assert "too large" in flush["batches"][1]["why"] and report.batches == 4
    assert [t.sum().item() for t in report.outputs] == [90000 * (2 * k + 1) for k in (1, 2, 3)]


def test_a_large_product_of_batches_of_matrices() -> None:
    """Its rows were laid out anew as if they waited; they had been computed at once."""
    x, w = weft.randn(40, 5, 100, requires_grad=True), weft.randn(100, 100, requires_grad=True)
    out = weft.autobatch(lambda k: (x * k) @ w.tanh())([1, 2])
    sum(out).sum().backward()
    grads = x.grad, w.grad
    x.grad = w.grad = None
    plain = [(x * k) @ w.tanh() for k in (1, 2)]
    sum(plain).sum().backward()
    for a, b in zip([*out, *grads], [*plain, x.grad, w.grad], strict=True):
        assert weft.allclose(a, b, atol=1e-4)
