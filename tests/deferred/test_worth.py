"""What runs count, and what of that batching is estimated to save (Note [Worth])."""

from typing import Any

import pytest

import weft
from weft import nn

COUNTS = [
    "runs", "examples", "fibers", "waits", "calls", "merged", "nodes", "weights", "weights_back",
    "passes",
]  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_each_count_moves_the_estimate_one_way(name: str) -> None:
    none = dict.fromkeys(COUNTS, 0)
    assert weft._C._saved_by(none) == (0, 0)
    saved = sum(weft._C._saved_by({**none, name: 1000}))
    assert saved > 0 if name in ("merged", "weights", "weights_back") else saved < 0


def test_the_counts() -> None:
    layer, table = nn.Linear(6, 5), nn.Embedding(10, 6)
    xs = [weft.tensor([k, k + 1]) for k in range(4)]

    def one(x: Any) -> Any:
        y = layer(table(x))
        return y.sum() if y.sum() > -100 else y

    before = weft._C._tally()
    weft.autobatch(one, adaptive=False)(xs)
    after = weft._C._tally()
    found = {name: after[name] - before[name] for name in COUNTS}
    assert found == {
        "calls": 20, "merged": 16, "nodes": 4, "weights": 3 * 30, "weights_back": 3 * 30,
        "fibers": 4, "waits": 4, "passes": 0, "runs": 1, "examples": 4,
    }  # fmt: skip


def counts(fn: Any, xs: list[Any]) -> dict[str, int]:
    """Of a batched run."""
    run, before = weft.autobatch(fn, adaptive=False), weft._C._tally()
    run(xs)
    after = weft._C._tally()
    return {name: after[name] - before[name] for name in COUNTS}


def test_weights_count_again_for_rows_that_want_a_gradient() -> None:
    """The gradient of the first layer's rows was taken to be computed: nobody asks for it."""
    layer = nn.Linear(6, 6)
    first = counts(lambda x: layer(x).sum(), [weft.ones(6)] * 3)
    both = counts(lambda x: layer(layer(x)).sum(), [weft.ones(6)] * 3)
    assert first["weights"] == 2 * 36 and first["weights_back"] == 0
    assert both["weights"] == 4 * 36 and both["weights_back"] == 2 * 36


def test_weights_count_without_gradients() -> None:
    w = weft.ones(512, 512)
    with weft.no_grad():
        found = counts(lambda x: weft.nn.functional.linear(x, w), [weft.ones(512)] * 3)
    assert found["weights"] == 2 * 512 * 512 and found["merged"] == found["nodes"] == 0


@pytest.mark.parametrize("lengths", [[4, 4, 4], [2, 5, 3]])
def test_a_recurrence_reads_its_weights_in_every_step(lengths: list[int]) -> None:
    """An LSTM's batch was taken to spare one reading of the weights for each sequence."""
    layer = nn.LSTM(6, 5)
    found = counts(lambda x: layer(x)[0].sum(), [weft.randn(n, 6) for n in lengths])
    of_inputs, of_state = layer.weight_ih_l0.numel(), layer.weight_hh_l0.numel()
    steps = sum(lengths) - max(lengths)  # those of the longest are taken in any case
    assert found["weights"] == of_inputs * (len(lengths) - 1) + of_state * steps


def test_parts_of_a_call_merge_nothing() -> None:
    """Each has a kernel call and a backward formula of its own."""
    w = weft.ones(4, 4, requires_grad=True)

    def one(x: Any) -> Any:
        return (x @ w).softmax(0)

    alike = counts(one, [weft.ones(3, 4)] * 4)
    unlike = counts(one, [weft.ones(n, 4) for n in (2, 3, 5, 7)])
    assert alike["merged"] == 8 and unlike["merged"] == 4
    assert alike["nodes"] == unlike["nodes"] == 2


def test_an_example_that_stops_is_counted_once_and_each_of_its_stops() -> None:
    def one(k: int) -> Any:
        x = weft.ones(2)
        for _ in range(k):
            x = x + float(x.sum())
        return x

    found = counts(one, [0, 2, 0, 2])
    assert found["fibers"] == 2 and found["waits"] == 4


def estimate(**found: int) -> tuple[float, float]:
    return weft._C._saved_by({**dict.fromkeys(COUNTS, 0), **found})


# What batched runs of 32 examples count, by hand; whether they are better batched without a graph,
# and in a training step.
RUNS: dict[str, tuple[dict[str, int], bool, bool]] = {
    "a layer": ({"calls": 32, "nodes": 1, "weights": 31 * 256}, False, False),
    "a few layers": ({"calls": 32 * 6, "nodes": 6, "weights": 31 * 1024}, False, True),
    "wide layers": ({"calls": 32 * 6, "nodes": 6, "weights": 3 * 31 << 18}, True, True),
    "a deep chain": ({"calls": 32 * 50, "nodes": 50}, False, True),
    "few alike": ({"calls": 32 * 50, "nodes": 400}, False, False),
    "a value of each":
        ({"calls": 32 * 6, "nodes": 6, "fibers": 32, "waits": 32}, False, False),
    "a deep chain, and a value of each":
        ({"calls": 32 * 50, "nodes": 50, "fibers": 32, "waits": 32}, False, True),
    "a value after each call":
        ({"calls": 32 * 8, "nodes": 8, "fibers": 32, "waits": 32 * 8}, False, False),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_decisions(name: str) -> None:
    found, *wanted = RUNS[name]
    found = {**found, "runs": 1, "examples": 32}
    forward = estimate(**{**found, "nodes": 0})[0]
    training = sum(estimate(**{**found, "merged": found["calls"]}))
    assert [forward >= 0, training >= 0] == wanted


def test_backward_inside_of_an_example_is_never_worth_it() -> None:
    assert sum(estimate(calls=10**4, merged=10**4, nodes=20, passes=32)) < 0
