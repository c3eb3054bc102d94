"""Examples that are calls of compiled functions wait without a fiber, and find what they left."""

import contextvars
import os
import sys
import threading

import pytest

import weft
from weft.batching import habit as habits_of

compiles = os.environ.get("WEFT_COMPILE") != "0"
N = 12


@pytest.fixture(autouse=True)
def no_habits():
    """Of earlier functions at the same address."""
    habits_of._known.clear()


def examples():
    return [weft.linspace(-1, k / 3, 5) for k in range(N)]


def batched(f, xs, **options):
    """The results of several runs, and how many fibers they took."""
    out = []

    def run():
        from weft.batching import fibers

        try:
            for _ in range(4):
                out[:] = weft.autobatch(f, adaptive=False, **options)(xs)
        except BaseException as error:  # noqa: BLE001
            out.append(error)
        out.append(len(fibers._idle.fibers))

    thread = threading.Thread(target=run)  # without idle fibers
    thread.start()
    thread.join()
    if isinstance(out[-2], BaseException):
        raise out[-2]
    return out[:-1], out[-1]


var = contextvars.ContextVar("var", default=0)


@weft.compiler.disable
def read(x):
    return float(x.sum())


def halting(x):
    n = 0
    while (x * x).sum() > 0.1:
        x, n = x * 0.7, n + 1
    return n, float(x.sum())


def ways_to_read(x):
    y = x * 2
    kinds = ["a", "b", "c", "d", "e", "f"]
    out = [bool(y.sum() + 1), not y.sum(), int(y.sum() * 10), y.mean().item(), (y + 1).tolist()]
    return [*out, kinds[(y * y).argmax()], 1 if y.sum() > 0 and y[0] < 0 else 2]


def modes(x):
    with weft.no_grad():
        positive = bool(x.sum() > 0)
        inside = weft.is_grad_enabled()
    return positive, inside, weft.is_grad_enabled(), float((x * 3).sum())


def default_dtype(x):
    weft.set_default_dtype(weft.float64 if x.sum() > 0 else weft.float32)
    float((x * 2).sum())
    try:
        return weft.ones(1).dtype
    finally:
        weft.set_default_dtype(weft.float32)


def variables(x):
    token = var.set(var.get() + x.numel())
    float(x.sum() * 2)
    var.set(var.get() * 2)
    large = bool((x * 2).sum() > 1)
    found = var.get()
    var.reset(token)
    return found, large, var.get()


def handled(x):
    log = []
    try:
        raise ValueError(x.numel())
    except ValueError as error:
        log.append((float((x + 1).sum()), sys.exc_info()[1] is error))
        try:
            raise KeyError("inner")
        except KeyError as inner:
            log.append((float((x + 2).sum()), inner.__context__ is error))
        log.append((float((x + 3).sum()), sys.exc_info()[1] is error))
    log.append((float((x + 4).sum()), sys.exc_info()[1]))
    return log


def down(x, n):
    if n == 0:
        return float((x * 2).sum())
    if (x + n).sum() > 100:
        return 0.0
    return down(x, n - 1) + 1


def recursion(x):
    return down(x, 60)


def too_deep(x):
    try:
        return down(x, 10**6)
    except RecursionError:
        return down(x, 20)


def own_errors(x):
    try:
        row = weft.nn.functional.embedding(weft.tensor([x.numel()]), weft.ones(3, 2))
        return float(row.sum())
    except IndexError:
        return "none", float(x.sum())
    finally:
        float((x * 5).sum())


def nested(x):
    if x.sum() > 0:
        return weft.autobatch(halting)(list(x.view(5, 1))), float(x.sum())
    return float((x * 2).sum())


ALONE = [halting, ways_to_read, modes, default_dtype, variables, handled, recursion, own_errors]


@pytest.mark.parametrize("f", ALONE, ids=lambda f: f.__name__)
def test_an_example_finds_what_it_left(f):
    xs = examples()
    found, fibers = batched(weft.compile(f), xs)
    assert found == [f(x) for x in xs]
    assert fibers == 1 or not compiles


@pytest.mark.parametrize("f", [nested, too_deep], ids=lambda f: f.__name__)
def test_other_examples(f):
    xs = examples()[-3:]
    assert batched(weft.compile(f), xs)[0] == [f(x) for x in xs]


def test_recursion_is_as_deep_afterwards():
    """What waited is counted as it is left, and again as it goes on."""

    def depth(n=0):
        try:
            return depth(n + 1)
        except RecursionError:
            return n

    before = depth()
    for _ in range(3):
        weft.autobatch(weft.compile(recursion), adaptive=False)(examples())
    assert depth() == before


def test_below_a_function_of_pythons_an_example_waits_in_a_fiber():
    def f(x):
        a = float(x.sum())
        b = read(x * 2)
        return a, b, read(x * 3) if (x * 4).sum() > 0 else float((x * 5).sum())

    xs = examples()
    found, fibers = batched(weft.compile(f), xs)
    assert found == [f(x) for x in xs]
    assert fibers >= N - 1


def test_gradients_and_lines():
    w = weft.linspace(-1, 1, 25).view(5, 5).requires_grad_()

    def f(x):
        h = (x @ w).tanh()
        while h.abs().sum() > 0.5:
            h = (h @ w).tanh() * 0.6
        return h.sum()

    def outcome(results):
        w.grad = None
        sum(results).backward()
        return [r.item() for r in results], w.grad

    expected = outcome([f(x) for x in examples()])
    compiled = weft.compile(f)
    for _ in range(4):
        found = outcome(weft.autobatch(compiled, adaptive=False)(examples()))
    assert found[0] == pytest.approx(expected[0], abs=1e-6)
    assert weft.allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)
    report = weft.explain(compiled, examples())
    line = f.__code__.co_firstlineno + 2
    assert any(f"{line}" in str(flush["causes"]) for flush in report.flushes)


def test_streams_of_ones_own():
    def f(x):
        out = []
        for _ in range(4):
            out.append(float(weft.rand(()) + x.sum()))
        return out

    def drawn(f, batched):
        weft.manual_seed(3)
        weft.autobatch.enabled = batched
        try:
            return weft.autobatch(f, rng="per_example")(examples())
        finally:
            weft.autobatch.enabled = True

    expected = drawn(f, False)
    for _ in range(3):
        assert drawn(weft.compile(f), True) == expected


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_examples_that_wait_end_where_the_batch_does(error):
    log = []

    def f(x):
        k = x.numel()
        try:
            with weft.no_grad():
                for _ in range(3):
                    float((x * 2).sum())
                    if k == 3:
                        raise error
        finally:
            log.append((k, float((x * 3).sum()), weft.is_grad_enabled()))

    def run(f):
        log.clear()
        with pytest.raises(error):
            weft.autobatch(f, adaptive=False)([weft.ones(k) for k in range(1, 6)])
        return sorted(log)

    expected = run(f)
    assert [k for k, *_ in expected] == [1, 2, 3, 4, 5]
    compiled = weft.compile(f)
    for _ in range(3):
        assert run(compiled) == expected
    assert weft.is_grad_enabled() and weft.autobatch(halting)(examples())


@pytest.mark.filterwarnings("ignore:.*before later ones read it")
def test_the_first_example_goes_on_alone_where_order_matters():
    memory = weft.zeros(())

    def f(x):
        if (x.sum() + memory) > 0:
            memory.add_(1)
        return float(memory + x.sum())

    def run(way):
        memory.zero_()
        return way(f if way is loop else weft.compile(f))

    def loop(f):
        return [f(x) for x in examples()]

    expected = run(loop)
    assert run(lambda f: weft.autobatch(f)(examples())) == expected
    assert run(lambda f: weft.autobatch(f, adaptive=False)(examples()[:1])) == expected[:1]
