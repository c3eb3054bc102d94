"""The models of bench/batching: batched by hand and one by one, values and gradients agree."""

import sys
from pathlib import Path

import pytest

import weft

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from batching import MODELS  # noqa: E402


@pytest.fixture(autouse=True)
def double():
    weft.set_default_dtype(weft.float64)
    yield
    weft.set_default_dtype(weft.float32)


def results(model, run, weights):
    """The losses of all examples, and the gradients of a weighted sum of them."""
    model.zero_grad()
    losses = run()
    losses = losses if isinstance(losses, weft.Tensor) else weft.stack(losses)
    (losses * weights).sum().backward()
    return losses.detach(), {name: p.grad for name, p in model.named_parameters()}


def prepare(case, n=7):
    weft.manual_seed(0)
    return case.make(weft, **case.small), case.examples(weft, 1, n, **case.small)


@pytest.mark.parametrize("case", [m for m in MODELS if m.trains], ids=lambda m: m.name)
def test_by_hand_is_the_plain_loop(case):
    model, examples = prepare(case)
    weights = weft.linspace(-1, 2, len(examples))
    values, gradients = results(model, lambda: [case.one(model, e) for e in examples], weights)
    by_hand, others = results(model, lambda: case.by_hand(model, examples), weights)
    assert (by_hand - values).abs().max() < 1e-10
    assert any(g is not None and g.abs().max() > 1e-3 for g in gradients.values())
    for name, gradient in gradients.items():
        # A parameter that no example used has no gradient in the one, zeros in the other.
        given = [weft.zeros(1) if g is None else g for g in (others[name], gradient)]
        assert (given[0] - given[1]).abs().max() < 1e-10, name


@pytest.mark.parametrize("case", [m for m in MODELS if m.trains], ids=lambda m: m.name)
def test_autobatch_is_the_plain_loop(case):
    """With 32 examples, calls gather from more than 64 tensors: their gradients once got lost."""
    model, examples = prepare(case, n=32)
    weights = weft.linspace(-1, 2, len(examples))
    values, gradients = results(model, lambda: [case.one(model, e) for e in examples], weights)
    batched = weft.autobatch(lambda example: case.one(model, example))
    found, others = results(model, lambda: batched(examples), weights)
    assert (found - values).abs().max() < 1e-12 * max(1, values.abs().max())
    for name, gradient in gradients.items():
        given = [weft.zeros(1) if g is None else g for g in (others[name], gradient)]
        assert (given[0] - given[1]).abs().max() < 1e-12 * max(1, given[1].abs().max()), name


@pytest.mark.parametrize("case", [m for m in MODELS if not m.trains], ids=lambda m: m.name)
def test_autobatch_says_what_the_plain_loop_says(case):
    model, examples = prepare(case, n=32)
    said = weft.autobatch(lambda example: case.one(model, example))(examples)
    assert said == [case.one(model, example) for example in examples]


@pytest.mark.parametrize("case", [m for m in MODELS if not m.trains], ids=lambda m: m.name)
def test_by_hand_says_what_the_plain_loop_says(case):
    model, examples = prepare(case)
    said = [case.one(model, example) for example in examples]
    assert len({len(text) for text in said}) > 2
    assert case.by_hand(model, examples) == said


@pytest.mark.parametrize("case", MODELS, ids=lambda m: m.name)
def test_a_batch_of_one(case):
    model, (example,) = prepare(case, n=1)
    (by_hand,), plain = case.by_hand(model, [example]), case.one(model, example)
    if case.trains:
        by_hand, plain = by_hand.item(), pytest.approx(plain.item(), abs=1e-10)
    assert by_hand == plain


def test_examples_think_for_unlike_times():
    (case,) = [m for m in MODELS if m.name == "adaptive computation time"]
    model, examples = prepare(case, n=20)
    steps = []
    model.halt.register_forward_hook(lambda *_: steps.append(len(costs)))
    costs = []
    for example in examples:
        costs.append(case.one(model, example))
    assert len({steps.count(i) for i in range(20)}) > 3
