"""Examples whose order matters: they change what they share after they have waited for a value.

The first example that waits is on probation (Note [Probe] in weft/batching/examples.py); each
program here was once batched with stale values, without a word.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, ours

import weft
from weft import _C, nn
from weft.batching import fibers

PROGRAMS: list[Callable[[], tuple[Any, Callable[[], Any]]]] = []


def program(make: Any) -> Any:
    PROGRAMS.append(make)
    return make


def online(rate: float = 0.1) -> tuple[nn.Linear, weft.optim.SGD]:
    layer = nn.Linear(2, 1)
    return layer, weft.optim.SGD(layer.parameters(), lr=rate)


def error_of(layer: nn.Module, x: Any) -> Any:
    return (layer(x) - 1).pow(2).mean()


@program
def step_unless_easy():
    layer, optimizer = online()

    def f(x):
        loss = error_of(layer, x)
        if loss.item() > 1e-3:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    return f, lambda: list(layer.parameters())


@program
def step_by_grad():
    layer, _ = online()

    def f(x):
        loss = error_of(layer, x)
        found = weft.autograd.grad(loss, list(layer.parameters()))
        with weft.no_grad():
            for p, g in zip(layer.parameters(), found):
                p -= 0.1 * g
        return loss.detach()

    return f, lambda: list(layer.parameters())


@program
def step_by_data():
    layer, _ = online()

    def f(x):
        loss = error_of(layer, x)
        loss.backward()
        for p in layer.parameters():
            p.data -= 0.1 * p.grad
            p.grad.zero_()
        return loss.detach()

    return f, lambda: list(layer.parameters())


@program
def other_data():
    layer, _ = online()

    def f(x):
        layer.bias.data = layer.bias.data * 0.5 + 0.1
        return layer(x).detach().sum()

    return f, lambda: [layer.bias]


@program
def other_parameter():
    layer, _ = online()

    def f(x):
        layer.weight = nn.Parameter(layer.weight.detach() * 0.5)
        return layer(x).detach().sum()

    return f, lambda: [layer.weight]


@program
def contrastive_divergence():
    w = weft.zeros(2, 3)

    def f(x):
        v = (x[:1] > 0).double()
        h = weft.bernoulli(weft.sigmoid(v @ w))
        again = weft.bernoulli(weft.sigmoid(h @ w.t()))
        w.add_(0.5 * (v.t() @ h - again.t() @ weft.sigmoid(again @ w)))
        return (v - again).abs().sum()

    return f, lambda: [w]


@program
def moving_codebook():
    codes = weft.randn(3, 2)

    def f(x):
        nearest = weft.cdist(x, codes).argmin(-1).tolist()
        quantized = codes[nearest]
        for k, row in zip(nearest, x):
            codes[k].lerp_(row, 0.5)
        return (x - quantized).pow(2).sum()

    return f, lambda: [codes]


@program
def norm_in_both_modes():
    norm = nn.BatchNorm1d(2)

    def f(x):
        norm.train(len(x) % 2 == 1 and len(x) > 1)
        return norm(x * 2).pow(3).sum().detach()

    return f, lambda: [norm.running_mean]


@program
def results_to_one_place():
    total = weft.zeros(2)

    def f(x):
        if x.sum() > -100:
            weft.add(total, x.sum(0), out=total)
        return weft.sum(total * 1, 0, out=weft.empty(()))

    return f, lambda: [total]


@program
def draws_between_values():
    def f(x):
        for _ in range(3):
            if weft.rand(()) < 0.5:
                x = x * 2
        return x.sum()

    return f, lambda: []


def outcome(make: Any, batched: bool, **options: Any) -> Any:
    weft.manual_seed(0)
    f, state = make()
    xs = [weft.randn(k + 1, 2) for k in range(6)]
    runs = []
    for _ in range(2):  # the first one is on probation, the second knows
        if batched:
            runs.append(weft.autobatch(f, **options)(xs))
        else:
            runs.append([f(x) for x in xs])
    return [[float(loss) for loss in run] for run in runs], [t.tolist() for t in state()]


@pytest.fixture(autouse=True)
def doubles():
    weft.set_default_dtype(weft.float64)
    yield
    weft.set_default_dtype(weft.float32)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("options", [{}, {"max_batch": 2}], ids=str)
def test_shared_state_after_a_value_is_the_loops(make, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert outcome(make, True, **options) == outcome(make, False)


def late_step():
    """The first examples show nothing: only those with more than three rows change the weights."""
    layer, optimizer = online()

    def f(x):
        loss = error_of(layer, x)
        if loss.item() > 0 and len(x) > 3:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    return f, lambda: list(layer.parameters())


def test_a_change_that_comes_too_late_is_told_and_remembered():
    weft.manual_seed(0)
    f, _ = late_step()
    xs = [weft.randn(k + 1, 2) for k in range(6)]
    batched = weft.autobatch(f)
    with pytest.warns(UserWarning, match=r"in example 3, at .*test_order.py:\d+.*next calls of"):
        batched(xs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batched(xs)  # a plain loop by now


def test_own_memory_and_gradients_of_others_are_no_change_that_comes_too_late():
    weft.manual_seed(0)
    w = weft.randn(3, requires_grad=True)
    xs = [weft.randn(2, 3) for _ in range(6)]

    def f(x):
        h = (x @ w).sum()
        if h.item() > -100:
            x.add_(1)  # an input: older than the batch, but nobody else's
        return (x @ w).sum()

    expected = [f(x.clone()).item() for x in xs]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = weft.autobatch(f, adaptive=False)([x.clone() for x in xs])
        assert [r.item() for r in got] == pytest.approx(expected, rel=1e-12)
        weft.autobatch(f)(xs)


@pytest.mark.parametrize("examples", [1, 4])
def test_a_second_backward_in_an_example_raises(examples):
    w = weft.ones(3, requires_grad=True)

    def twice(x):
        y = (w * x).pow(2).sum()
        y.backward()
        y.backward()

    xs = [weft.randn(3) for _ in range(examples)]
    with pytest.raises(RuntimeError, match="a second time"):
        weft.autobatch(twice)(xs)
    assert weft.allclose(w.grad, 2 * xs[0] * xs[0])  # once, as in the loop, which ends there


def test_a_backward_inside_leaves_other_values_their_graph():
    """Two sums of one example ran as one: a pass over one of them took the other's nodes along."""
    x, w = weft.randn(3, 4, requires_grad=True), weft.randn(3, 4, requires_grad=True)

    def f(z):
        kept = (w * z).sum()
        return kept, weft.autograd.grad((x.sin() * x).sum(), x)[0]

    zs = [weft.randn(3, 4)]
    for adaptive in (True, False):
        ((kept, found),) = weft.autobatch(f, adaptive=adaptive)(zs)
        assert weft.allclose(found, (x.cos() * x + x.sin()).detach())
        kept.backward()
        assert weft.allclose(w.grad, zs[0])
        w.grad = x.grad = None


@pytest.mark.parametrize("examples", [50, 200])
def test_who_waits_for_its_turn_is_not_asked_again_and_again(examples, monkeypatch):
    """Each value that one example read woke all others: 25 s for 10^4 examples, 40 ms in a loop."""
    switches = 0
    is_done = fibers.is_done

    def counted(*args):
        nonlocal switches
        switches += 1
        return is_done(*args)

    monkeypatch.setattr(fibers, "is_done", counted)
    f, _ = draws_between_values()
    weft.autobatch(f, adaptive=False)([weft.ones(2) for _ in range(examples)])
    assert switches < 8 * examples


def test_probation_is_for_the_first_that_waits():
    """It goes on alone, all others together; a function that reads nothing has none."""
    log = []

    def f(x):
        log.append(("begin", int(len(x))))
        if len(x) > 2 and x.sum() > -100:
            log.append(("middle", int(len(x))))
        return x * 2

    xs = [weft.ones(n) for n in (1, 2, 3, 4, 5)]
    weft.autobatch(f)(xs)
    begins = [("begin", n) for n in (1, 2, 3)]
    assert log[:4] == [*begins, ("middle", 3)]
    assert log[4:] == [("begin", 4), ("begin", 5), ("middle", 4), ("middle", 5)]


TAKES_OUT = [
    (name, sample)
    for name, sample in CASES
    if RECORDS[name]["function"] and not RECORDS[name]["random"] and "empty" not in name
]


@pytest.mark.parametrize(
    ("name", "sample"), TAKES_OUT, ids=[i for c, i in zip(CASES, IDS) if c in set(TAKES_OUT)]
)
def test_out_in_deferred_execution(name, sample):
    """Half of the ops with out= read results that were not computed yet: a crash."""
    f = ours(RECORDS[name])
    plain = Inputs(weft, "float64", sample, grad=False).run(f, sample)
    if not all(isinstance(t, weft.Tensor) for t in plain):
        pytest.skip("no tensors")

    def into():
        outs = [weft.empty(0, dtype=t.dtype) for t in plain]
        out = outs[0] if len(outs) == 1 else tuple(outs)
        Inputs(weft, "float64", sample, grad=False).run(
            lambda *args, **named: f(*args, **named, out=out), sample
        )
        return outs

    try:
        expected = into()
    except (TypeError, RuntimeError) as error:
        pytest.skip(f"takes no out=: {re.sub(chr(10), ' ', str(error))[:60]}")
    with weft.deferred():
        got = into()
    for a, b in zip(got, expected):
        assert not _C._is_pending(a) and a.dtype == b.dtype and a.shape == b.shape
        assert weft.allclose(a, b, equal_nan=True, rtol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("change", [
    lambda t: setattr(t, "data", t.data * 0.5), lambda t: t.copy_(t * 0.5), lambda t: t.mul_(0.5),
    lambda t: t.set_(t * 0.5), lambda t: t.add_(-0.5 * t),
])  # fmt: skip
def test_a_change_before_the_first_value(change: Callable[[Any], Any]) -> None:
    """What later ones assigned was made of what they had read before their turn came."""
    run, other = weft.ones(2), weft.eye(2)

    def one(x: Any) -> float:
        change(run)
        return float((x @ other).sum())

    assert weft.autobatch(one)([weft.ones(2)] * 6) == [2] * 6
    assert run.tolist() == [0.5**6] * 2
