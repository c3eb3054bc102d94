"""Compiled functions do under autobatch what they do there as they are."""

import gc
import os
import sys
from pathlib import Path

import pytest

import weft
from weft.batching import habit as habits_of

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS.parent / "bench"))
sys.path.insert(0, str(TESTS / "deferred"))

import fuzz  # noqa: E402
from batching import MODELS  # noqa: E402

compiles = os.environ.get("WEFT_COMPILE") != "0"
only_compiled = pytest.mark.skipif(not compiles, reason="nothing is compiled with WEFT_COMPILE=0")


@pytest.fixture(autouse=True)
def no_habits():
    """Of earlier functions at the same address."""
    habits_of._known.clear()


def kept(fn, examples):
    """How many calls of `fn` over examples were kept, and how many of them were stretches."""
    report = weft.explain(fn, examples)
    batches = [batch for flush in report.flushes for batch in flush["batches"]]
    return report.calls, sum(b["calls"] for b in batches if b["op"] == "compiled")


# ---- the models of bench/batching


def as_it_is(case, model):
    return lambda example: case.one(model, example)


def cells_compiled(case, model):
    for module in model.modules():
        if module is not model:
            module.compile()
    for name in ("merge", "cell", "state", "step"):
        if hasattr(model, name):
            setattr(model, name, weft.compile(getattr(model, name)))
    return lambda example: case.one(model, example)


def compiled_whole(case, model):
    return weft.compile(lambda example: case.one(model, example))


def outcome(case, way, n=24, runs=3):
    """Of several runs, as the first ones only look: the last one's losses and gradients."""
    weft.manual_seed(0)
    model, examples = case.make(weft, **case.small), case.examples(weft, 1, n, **case.small)
    weights = weft.linspace(-1, 2, n)
    batched = weft.autobatch(way(case, model))
    if not case.trains:
        return [batched(examples) for _ in range(runs)]
    for _ in range(runs):
        model.zero_grad()
        losses = weft.stack(batched(examples))
        (losses * weights).sum().backward()
    return losses.detach(), [p.grad for p in model.parameters()]


@pytest.mark.parametrize("way", [cells_compiled, compiled_whole], ids=lambda w: w.__name__)
@pytest.mark.parametrize("case", MODELS, ids=lambda m: m.name)
def test_models_do_compiled_what_they_do_as_they_are(case, way):
    expected, found = outcome(case, as_it_is), outcome(case, way)
    if not case.trains:
        assert found == expected
        return
    assert (found[0] - expected[0]).abs().max() < 2e-6 * expected[0].abs().max()
    for a, b in zip(found[1], expected[1], strict=True):
        assert (a is None) == (b is None)
        assert a is None or (a - b).norm() <= 3e-6 * max(b.norm(), 1e-3)


@only_compiled
def test_a_cell_is_one_kept_call():
    case = MODELS[0]
    model, examples = case.make(weft, **case.small), case.examples(weft, 1, 8, **case.small)
    calls, _ = kept(as_it_is(case, model), examples)
    whole = compiled_whole(case, model)
    for _ in range(4):
        found, inner = kept(whole, examples)
    assert found == inner + (inner + 8) + 2 * 8
    model.merge = weft.compile(model.merge)
    for _ in range(3):
        found, inner = kept(as_it_is(case, model), examples)
    assert calls == 14 * inner + (inner + 8) + 2 * 8  # nodes, leaves, and losses of two calls
    assert found == 2 * inner + (inner + 8) + 2 * 8  # a `cat` goes before


# ---- small programs


def cell(x, y, w):
    z = (x @ w).tanh() * y + x
    return z.sigmoid() * y


def run(fn, examples, weights, runs=4):
    for _ in range(runs):
        for t in weights:
            t.grad = None
        results = weft.autobatch(fn)(examples)
        total = sum((r * r).sum() for r in results)
        if total.requires_grad:
            total.backward()
    return [r.detach() for r in results], [t.grad for t in weights]


def same(fn, examples, weights, compiled=None):
    expected = run(fn, examples, weights)
    found = run(compiled or weft.compile(fn), examples, weights)
    for a, b in zip(found[0], expected[0], strict=True):
        assert weft.allclose(a, b, rtol=1e-6, atol=1e-6)
    for a, b in zip(found[1], expected[1], strict=True):
        assert (a is None) == (b is None)
        assert a is None or weft.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.fixture
def w():
    weft.manual_seed(1)
    return (weft.randn(4, 4) / 2).requires_grad_()


@pytest.fixture
def xs():
    weft.manual_seed(2)
    return [weft.randn(1, 4) for _ in range(9)]


def test_depths_that_differ(w, xs):
    def chain(example):
        x, n = example
        h = x
        for _ in range(n):
            h = cell(h, x, w)
        return h

    same(chain, [(x, k % 5 + 1) for k, x in enumerate(xs)], [w])


def test_values_that_are_read(w, xs):
    def halting(x):
        h, steps = x, 0
        while h.abs().sum() > 0.8 and steps < 9:
            h, steps = cell(h, x, w) * 0.7, steps + 1
        return h * steps

    same(halting, xs, [w])


def test_results_that_are_views_share_memory(w, xs):
    def parts(x):
        both = weft.cat([x @ w, x.tanh() + x], dim=1)
        return both, both[:, :4], both[:, 4:]

    part = weft.compile(parts)

    def f(x, parts=parts):
        both, a, b = parts(x)
        with weft.no_grad():
            a.mul_(2)
            both[0, -1] = 3.0
        return weft.cat([both, a, b], dim=1).detach() * 1

    same(f, xs, [], compiled=lambda x: f(x, part))


def test_without_gradients(w, xs):
    with weft.no_grad():
        same(lambda x: cell(cell(x, x, w), x, w), xs, [])
    with weft.inference_mode():
        found = weft.autobatch(weft.compile(lambda x: cell(x, x, w)))(xs)
    assert all(t.is_inference() for t in found)


def test_gradients_of_examples(w, xs):
    leaves = [x.requires_grad_() for x in xs]
    same(lambda x: cell(cell(x, x, w), x, w), leaves, [w, *leaves])


def test_gradients_within_examples(w, xs):
    def f(x):
        h = cell(x, x, w)
        (g,) = weft.autograd.grad(h.sum(), w, create_graph=True)
        return cell(h, x, w) + g.sum(0, keepdim=True)

    same(f, xs[:4], [w])


def test_numbers_and_broadcasting(w, xs):
    def f(example):
        x, k = example
        return ((x - x.mean(1, keepdim=True)) * k / 3 + x.T.sum() + w[0]).exp().T

    same(f, [(x, k % 3) for k, x in enumerate(xs)], [w])


def test_unlike_lengths(w):
    weft.manual_seed(3)
    examples = [weft.randn(n, 4) for n in (3, 1, 3, 5, 3, 2, 5, 3)]
    same(lambda x: ((x @ w).softmax(0) * x).sum(0, keepdim=True).tanh(), examples, [w])


def test_lengths_that_vary_merge_by_rows(w):
    """Kept whole, a call would merge with those of its own length alone."""
    weft.manual_seed(4)
    examples = [weft.randn(n % 5 + 1, 4) for n in range(40)]
    inner = weft.compile(lambda x: ((x @ w).tanh() * 2 + 1) @ w)
    for _ in range(4):
        report = weft.explain(lambda x: inner(inner(inner(x))), examples)
    assert report.batches == weft.explain(lambda x: _three(x, w), examples).batches


def _three(x, w):
    for _ in range(3):
        x = ((x @ w).tanh() * 2 + 1) @ w
    return x


def test_hooks_see_gradients(w, xs):
    compiled = weft.compile(cell)

    def f(x, cell=cell):
        h = cell(x, x, w)
        h.register_hook(lambda g: g * 2)
        return cell(h, x, w)

    same(f, xs, [w], compiled=lambda x: f(x, compiled))


ASKED = {
    "hook": lambda h, loss: (h.register_hook(lambda g: g * 2), loss)[1],
    "grad": lambda h, loss: (weft.autograd.grad(loss, h, create_graph=True)[0] * h).sum(),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4)], ids=str)
def test_gradients_of_what_a_stretch_used_itself(asked, shape, w):
    """They were lost: the loss had been made of the batch's value, not of the example's."""
    weft.manual_seed(5)
    examples = [weft.randn(shape) for _ in range(8)]

    def both(x):
        h = (x @ w).tanh()
        return h, (h * h).sum()

    compiled = weft.compile(both)
    ask = ASKED[asked]
    same(lambda x: ask(*both(x)), examples, [w], compiled=lambda x: ask(*compiled(x)))


@pytest.mark.parametrize("n", [2, 3, 9])
@pytest.mark.parametrize("matters", [False, True])
def test_what_only_gradients_of_zeros_need_may_be_written(n, matters, w):
    """Two sums that ran as one took zeros to a stretch that ran alone; a value of it was written:
    backward raised, where the loop's does not come there."""

    def f(x):
        h = (w * x).sigmoid()
        u = h * h
        float(h.sum())
        h *= w
        a, b = h.sum(), w.sum()
        return b, a + u.sum()

    compiled = weft.compile(f)

    def gradient(f):
        w.grad = None
        results = weft.autobatch(f, adaptive=False)([1.0 + k for k in range(n)])
        sum(r[matters] for r in results).backward()
        return w.grad

    if matters:
        with pytest.raises(
            RuntimeError, match="(?s)modified by an inplace.*overwritten at.*h [*]= w"
        ):
            gradient(compiled)
    else:
        assert weft.equal(gradient(compiled), weft.full((4, 4), float(n)))


def test_an_index_out_of_range_says_its_line(w):
    @weft.compile
    def look(i):
        row = weft.nn.functional.embedding(i, w)
        row = row * 2 + 1
        return row.tanh()

    good = [weft.tensor([k % 4]) for k in range(6)]
    f = weft.autobatch(look)
    for _ in range(3):
        f(good)
    line = look.callee.__code__.co_firstlineno + 2
    with pytest.raises(IndexError) as caught:
        f([*good, weft.tensor([9]), *good])
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert f"test_autobatch.py:{line}, in look" in text
    assert "example 6 of 13" in text
    assert len(f(good)) == 6


def test_compiled_functions_may_go_while_their_calls_wait(w, xs):
    for _ in range(3):
        made = []

        def f(x, made=made):
            once = made[0] if made else weft.compile(lambda h: cell(h, h, w))
            made[:] = [once]
            h = x
            for _ in range(4):
                h = once(h)
            if x is xs[5]:
                made.clear()
                del once
                gc.collect()
            return h

        def plain(x):
            h = x
            for _ in range(4):
                h = cell(h, h, w)
            return h

        same(plain, xs, [w], compiled=f)


def test_nothing_is_remembered_of_functions_that_are_gone(w, xs):
    """The batcher kept the record of each stretch, 10 kB."""
    known = []
    for _ in range(200):
        weft.autobatch(weft.compile(lambda x: cell(x, x, w)), adaptive=False)(xs)
        known.append(weft._C._kinds())
    assert max(known[100:]) <= max(known[:100])


def test_shapes_are_checked_at_the_call(w, xs):
    compiled = weft.compile(lambda x: cell(x, x, w))
    f = weft.autobatch(compiled)
    for _ in range(3):
        f(xs)
    with pytest.raises(RuntimeError, match="matmul"):
        f([xs[0], weft.ones(1, 3)])


def test_a_change_of_a_weight_counts(xs):
    layer = weft.nn.Linear(4, 4)
    compiled = weft.compile(lambda x: layer(x).tanh() + x)
    f = weft.autobatch(compiled)
    for _ in range(4):
        f(xs)
    with weft.no_grad():
        layer.weight.mul_(2)
    expected = [layer(x).tanh() + x for x in xs]
    assert all(weft.allclose(a, b, atol=1e-6) for a, b in zip(f(xs), expected, strict=True))
    layer.weight = weft.nn.Parameter(weft.zeros(4, 4))
    expected = [layer(x).tanh() + x for x in xs]
    assert all(weft.allclose(a, b, atol=1e-6) for a, b in zip(f(xs), expected, strict=True))


# ---- random programs


@pytest.mark.parametrize("seed", range(2))
def test_random_programs(seed, monkeypatch):
    """The programs had no source when they were compiled: only what they called was."""
    made, compile_it = [], weft.compile
    monkeypatch.setattr(weft, "compile", lambda fn: made.append(compile_it(fn)) or made[-1])
    report = fuzz.search(seed, 100, compiled=True)
    places = [p for compiled in made for *_, places in compiled._reached() for p in places]
    runs = sum(s["runs"] for place in places for s in place["stretches"])
    if report.mismatch is not None:
        key, difference, blocks, data, call = report.mismatch
        pytest.fail(f"{key}: {difference}\n{fuzz.script(blocks, data, call, compiled=True)}")
    assert runs > 500 or not compiles
