"""Note [Remembered calls]: a call like an earlier one means what it would mean alone."""

import itertools
from typing import Any

import pytest

import weft

X = weft.arange(24.0).view(2, 3, 4)
ONE = weft.tensor([1])
TWO = weft.tensor(2)

# Calls of one callable that look alike: each must not be taken for another.
FAMILIES: dict[str, list[Any]] = {
    "sum": [
        lambda: X.sum(1), lambda: X.sum(-1), lambda: X.sum((0, 1)), lambda: X.sum((0, 2)),
        lambda: X.sum(1, True), lambda: X.sum(1, keepdim=True), lambda: X.sum(dim=1),
        lambda: X.sum(1, dtype=weft.float64), lambda: X.sum(1, dtype=weft.int64), lambda: X.sum(),
        lambda: X.sum(axis=1), lambda: X.sum([0, 1]),
    ],
    "repeat_interleave": [
        lambda: weft.repeat_interleave(X[0, 0], 2), lambda: weft.repeat_interleave(X[0, 0], ONE),
        lambda: weft.repeat_interleave(X[0, 0], weft.tensor([1, 0, 2, 1])),
        lambda: weft.repeat_interleave(X, weft.tensor([1, 2]), 0),
        lambda: weft.repeat_interleave(X, weft.tensor([1, 2]), dim=0),
        lambda: weft.repeat_interleave(X, 2, dim=0), lambda: weft.repeat_interleave(X, TWO, dim=0),
    ],
    "split": [
        lambda: X.split(2, -1), lambda: X.split(3, -1), lambda: X.split([1, 3], -1),
        lambda: X.split([2, 2], -1), lambda: X.split(2), lambda: X.split(split_size=2, dim=1),
        lambda: X.split(dim=1, split_size=2), lambda: X.split((3, 1), 2),
    ],
    "view": [
        lambda: X.view(-1), lambda: X.view(6, 4), lambda: X.view(4, 6), lambda: X.view((4, 6)),
        lambda: X.view(2, -1), lambda: X.view([2, 12]), lambda: X.view(weft.int32),
        lambda: X.view(1 << 0, 24), lambda: X.view(TWO, 12),
    ],
    "cat": [
        lambda: weft.cat([X, X]), lambda: weft.cat([X, X], 1), lambda: weft.cat((X, X, X), 1),
        lambda: weft.cat([X], dim=1), lambda: weft.cat(dim=1, tensors=[X, X]),
        lambda: weft.cat([X, X.long()], dim=-1), lambda: weft.cat([X] * 8),
        lambda: weft.cat([X] * 9), lambda: weft.cat((X,) * 20, 1), lambda: weft.cat([X + 1] * 9),
    ],
    "add": [
        lambda: weft.add(X, X), lambda: weft.add(X, X, alpha=2), lambda: weft.add(X, 1, alpha=2),
        lambda: weft.add(X, X, alpha=2.5), lambda: weft.add(X, 1), lambda: weft.add(1.5, X),
        lambda: weft.add(X, TWO, alpha=-1), lambda: weft.add(X, True),
    ],
    "to": [lambda: X.to(weft.float64), lambda: X.to(weft.int64), lambda: X.to(X.long())],
    "softmax": [
        lambda: weft.softmax(X, 0), lambda: weft.softmax(X, 1), lambda: weft.softmax(X, dim=1),
        lambda: weft.softmax(X, 1, weft.float64), lambda: weft.softmax(X, dim=1, dtype=None),
    ],
    "linear": [
        lambda: weft.nn.functional.linear(X, X[0]),
        lambda: weft.nn.functional.linear(X, X[0], None),
        lambda: weft.nn.functional.linear(X, X[0], X[0, :, 0]),
        lambda: weft.nn.functional.linear(X, X[1], bias=X[0, :, 0]),
    ],
    "clamp": [
        lambda: X.clamp(1, 3), lambda: X.clamp(1.0, 3), lambda: X.clamp(min=1),
        lambda: X.clamp(max=1), lambda: X.clamp(X, X + 1), lambda: X.clamp(-0.0, 2),
        lambda: X.clamp(0.0, 2),
    ],
    "full": [
        lambda: weft.full((2,), 1), lambda: weft.full((2,), 1.0), lambda: weft.full((2,), True),
        lambda: weft.full((2, 1), 1), lambda: weft.full((2,), 1, dtype=weft.float64),
        lambda: weft.full((2,), 1 << 40), lambda: weft.full((2,), 1 << 41),
    ],
}  # fmt: skip


def shown(value: Any) -> Any:
    if isinstance(value, tuple):
        return [shown(v) for v in value]
    return str(value.dtype), tuple(value.shape), value.tolist()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_call_is_not_taken_for_one_that_looks_like_it(name: str) -> None:
    calls = FAMILIES[name]
    before = weft._C._set_remembering(False)
    try:
        alone = [shown(call()) for call in calls]
    finally:
        weft._C._set_remembering(before)
    assert before
    for i, k in itertools.product(range(len(calls)), repeat=2):
        for n in (i, i, k, i):
            assert shown(calls[n]()) == alone[n], (i, k, n)


def test_refusals_stay_what_they_are() -> None:
    for _ in range(3):
        assert X.sum(1).shape == (2, 4)
        with pytest.raises(IndexError):
            X.sum(7)
        with pytest.raises(TypeError):
            X.sum(1, keepdim="yes")
        with pytest.raises(TypeError):
            weft.cat([X, 1], 1)
        with pytest.raises(TypeError):
            X.sum(1, dim=1)


def test_tensors_are_those_of_the_call() -> None:
    pairs = [(weft.full((2, 2), float(n)), weft.full((2, 2), float(n + 1))) for n in range(3)]
    for a, b in pairs:
        assert weft.cat([a, b], dim=1)[0].tolist() == [a[0, 0], a[0, 0], b[0, 0], b[0, 0]]
        assert weft.add(a, b, alpha=2)[0, 0] == a[0, 0] + 2 * b[0, 0]
