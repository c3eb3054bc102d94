"""The plan of a structure seen before is used again, whatever numbers flow through it."""

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
