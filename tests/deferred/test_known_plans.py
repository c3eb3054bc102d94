"""The plan of a structure seen before is used again, whatever numbers flow through it."""

import gc
from typing import Any

import weft


def step(model: Any, size: int) -> list[dict[str, Any]]:
    def one(n: int) -> weft.Tensor:
        x = weft.randn(1, 4)
        for _ in range(n):
            x = model(x).tanh()
        return x.sum()

    return weft.explain(one, [1, 3, size]).flushes


def test_same_structure() -> None:
    model = weft.nn.Linear(4, 4)
    assert not step(model, 2)[0]["plan_known"]
    assert step(model, 2)[0]["plan_known"]
    assert not step(model, 5)[0]["plan_known"]
    assert step(model, 2)[0]["plan_known"]
    assert step(weft.nn.Linear(4, 4), 2)[0]["plan_known"]


def test_plans_between_many_reads_are_known() -> None:
    """Of more than eight flushes in a run, each plan had gone when the next run came to it."""

    def one(reads: int) -> float:
        x, total = weft.ones(3), 0.0
        for _ in range(reads):
            x = x.tanh()
            total += x.sum().item()
        return total

    lengths = [*range(11, 27), 30, 30]  # one example less from read to read
    runs = [weft.explain(one, lengths) for _ in range(2)]
    assert runs[0].calls == runs[1].calls
    known = [[flush["plan_known"] for flush in run.flushes] for run in runs]
    assert len(known[0]) >= 25 and not all(known[0]) and all(known[1])


def test_plans_that_are_kept_are_bounded() -> None:
    def step(calls: int) -> bool:
        with weft.explain() as report, weft.deferred():
            x = weft.ones(2)
            for _ in range(calls):
                x = x + 1
        return report.flushes[0]["plan_known"]

    assert not step(100) and step(100)
    assert not any(step(calls) for calls in range(60_000, 60_003))  # 2^17 calls are kept at most
    assert step(60_002) and not step(100)


def test_kinds_do_not_grow_with_data() -> None:
    """Weights were named by their place among all operands, which differs from batch to batch."""
    table, weight = weft.randn(9, 4, requires_grad=True), weft.randn(4, 4, requires_grad=True)

    def one(words: list[int]) -> weft.Tensor:
        rows = [weft.nn.functional.embedding(weft.tensor([w]), table) for w in words]
        return sum(rows[1:], rows[0]) @ weight

    weft.autobatch(one)([[1, 2], [3]])
    known = weft._C._kinds()
    for count in range(1, 9):
        weft.autobatch(one)([[k % 9 for k in range(count)], [3]])
    assert weft._C._kinds() == known


class Twice(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: weft.Tensor) -> weft.Tensor:
        return grad * 2


def test_flushes_within_a_flush_forget_no_classes_that_run() -> None:
    """Past 65536 classes of calls all are forgotten. Python may collect garbage amid a flush, and
    what it finds may compute."""
    weight = weft.ones(3, requires_grad=True)
    within = []

    def collected(phase: str, info: Any) -> None:
        if phase == "start" and not (within and within[-1]) and weft._C._kinds() > 1:
            within.append(True)
            with weft.deferred():
                weft.ones(3) * 2
            within[-1] = False

    def one(k: int) -> weft.Tensor:
        shapes = [weft.empty(0, k + 1, i, j) + 1 for i in range(1, 60) for j in range(1, 60)]
        assert len(shapes) == 59 * 59
        return Twice.apply(weight * k).exp()

    before = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    try:
        results = weft.autobatch(one, adaptive=False)(list(range(20)))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)
    assert within
    for k, result in enumerate(results):
        assert weft.allclose(result, weft.full((3,), 2.0 * k).exp())
    weft.stack(results).log().sum().backward()
    assert weft.equal(weight.grad, weft.full((3,), 2.0 * sum(range(20))))
