"""Random numbers of examples: in the loop's order, or from a stream of each example's own."""

import pickle
from typing import Any

import pytest

import weft

XS = [weft.full((3,), float(n)) for n in (1, -1, 2, -2, 3)]


def noisy(x: Any) -> Any:
    x = x + weft.rand(3)
    if x.sum() > 0:
        x = x * weft.randn(3)
    return weft.nn.functional.dropout(x, 0.5) + weft.rand(3)


def drawn(fn: Any, xs: Any = XS, seed: int = 1, **options: Any) -> tuple[list[Any], float]:
    """Results, and the number that the generator gives next."""
    weft.manual_seed(seed)
    results = weft.autobatch(fn, rng="per_example", **options)(xs)
    return [r.tolist() for r in results], weft.rand(()).item()


@pytest.mark.parametrize("options", [{"max_batch": 1}, {"max_batch": 2}, {"adaptive": False}])
def test_streams_are_the_same_however_examples_run(options: dict[str, Any]) -> None:
    assert drawn(noisy, **options) == drawn(noisy)
    weft.autobatch.enabled = False
    try:
        assert drawn(noisy, **options) == drawn(noisy)
    finally:
        weft.autobatch.enabled = True
    assert drawn(noisy, **options) == drawn(noisy)


def test_a_function_that_goes_one_by_one_draws_the_same() -> None:
    f = weft.autobatch(lambda x: x + weft.rand(3), rng="per_example")
    runs = []
    for _ in range(40):  # after the first one loses, some go one by one
        weft.manual_seed(3)
        runs.append([r.tolist() for r in f(XS)])
    assert all(run == runs[0] for run in runs)


def test_streams_differ_by_example_by_seed_and_by_call() -> None:
    f = weft.autobatch(lambda x: weft.rand(4), rng="per_example")
    rows = [r.tolist() for _ in range(3) for r in f([0] * 200)]
    assert len({tuple(row) for row in rows}) == 600
    assert drawn(noisy, seed=1)[0] != drawn(noisy, seed=2)[0]


def test_the_call_takes_one_number() -> None:
    """Whatever the examples draw, and however many there are."""
    assert drawn(noisy)[1] == drawn(noisy, XS[:1])[1] == drawn(lambda x: x)[1]


def test_numbers_of_an_example_do_not_depend_on_those_behind_it() -> None:
    assert drawn(noisy)[0][:2] == drawn(noisy, XS[:2])[0]


def test_draws_between_reads_merge() -> None:
    """In the loop's order an example that draws waits for those before it: many flushes."""
    model = weft.nn.Sequential(weft.nn.Linear(3, 3), weft.nn.Dropout(0.5), weft.nn.Linear(3, 3))

    def f(x: Any) -> Any:
        for _ in range(3):
            x = model(x)
            if x.sum() > 1e9:
                break
        return x

    merged = weft.explain(weft.autobatch(f, rng="per_example"), XS * 4)
    apart = weft.explain(weft.autobatch(f), XS * 4)
    assert merged.batches < apart.batches / 3
    assert not any(line.draws for line in merged.lines) and any(line.draws for line in apart.lines)


@pytest.mark.parametrize("inner", ["loop", "per_example"])
@pytest.mark.parametrize("outer", ["loop", "per_example"])
def test_nested_calls(outer: str, inner: str) -> None:
    def leaf(x: Any) -> Any:
        x = x + weft.rand(())
        return x * weft.rand(()) if x > 1 else x

    def f(x: Any) -> Any:
        if x.sum() > 0:
            x = x + weft.rand(3)
        return weft.stack(weft.autobatch(leaf, rng=inner)(list(x)))

    results = []
    for enabled in (True, False):
        weft.manual_seed(5)
        weft.autobatch.enabled = enabled
        try:
            out = weft.autobatch(f, rng=outer)(XS)
        finally:
            weft.autobatch.enabled = True
        results.append(([r.tolist() for r in out], weft.rand(()).item()))
    assert results[0] == results[1]


def test_an_examples_own_generator_waits_for_nobody() -> None:
    def f(x: Any) -> Any:
        own = weft.Generator().manual_seed(int(x[0].item()) + 7)
        for _ in range(2):
            x = x + weft.rand(3, generator=own)
            if x.sum() > 1e9:
                break
        return x

    report = weft.explain(f, XS)
    assert not any(line.draws for line in report.lines)
    assert [r.tolist() for r in report.outputs] == [f(x).tolist() for x in XS]


def test_a_shared_generator_is_drawn_from_in_the_loops_order() -> None:
    def run(batched: bool) -> list[Any]:
        shared = weft.Generator().manual_seed(11)

        def f(x: Any) -> Any:
            if x.sum() > 0:
                x = x + weft.rand(3, generator=shared)
            return x + weft.rand(3, generator=shared)

        out = weft.autobatch(f)(XS) if batched else [f(x) for x in XS]
        return [r.tolist() for r in out]

    assert run(True) == run(False)


def test_gradients_and_exceptions_are_the_loops() -> None:
    weight = weft.ones(3, requires_grad=True)
    weft.manual_seed(2)
    sum(weft.autobatch(lambda x: (noisy(x * weight)).sum(), rng="per_example")(XS)).backward()
    batched, weight.grad = weight.grad, None
    weft.manual_seed(2)
    sum(
        weft.autobatch(lambda x: (noisy(x * weight)).sum(), rng="per_example", max_batch=1)(XS)
    ).backward()
    assert weft.allclose(batched, weight.grad)
    with pytest.raises(ZeroDivisionError) as raised:
        weft.autobatch(
            lambda x: weft.rand(3) / 0 if x is XS[1] and 1 / 0 else x, rng="per_example"
        )(XS)
    assert "in example 1 of 5" in raised.value.__notes__


def test_wrong_names_and_what_is_kept() -> None:
    with pytest.raises(ValueError, match=r"\[autobatch\] expected rng 'loop' or 'per_example'"):
        weft.autobatch(noisy, rng="mine")
    assert weft.autobatch(rng="per_example")(noisy)([]) == []
    again = pickle.loads(pickle.dumps(weft.autobatch(noisy, rng="per_example")))
    weft.manual_seed(1)
    assert [r.tolist() for r in again(XS)] == drawn(noisy)[0]
