"""Graphs in several threads, and after a fork."""

import os
import subprocess
import sys
import threading

import pytest

import weft


def in_threads(count, work):
    """Runs work(0), ..., work(count - 1) at once; raises the first error."""
    errors = []
    start = threading.Barrier(count)

    def run(i):
        try:
            start.wait()
            work(i)
        except BaseException as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def fast_switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("size", [4, 300_000])  # the larger one releases the lock in kernels
def test_shared_leaves_accumulate_exactly(fast_switching, size):
    w = weft.ones(size, requires_grad=True)
    rounds = 50 if size < 1000 else 10

    def work(i):
        for k in range(rounds):
            (w * float(i + k)).sum().backward()

    in_threads(4, work)
    want = float(sum(i + k for i in range(4) for k in range(rounds)))
    assert bool((w.grad == want).all())


def test_one_graph_from_several_threads(fast_switching):
    x = weft.full((3,), 2.0, requires_grad=True)
    shared = (x * x).exp()

    def work(i):
        for _ in range(30):
            (shared * float(i)).sum().backward(retain_graph=True)

    in_threads(4, work)
    one = (x.detach() * x.detach()).exp() * 2 * x.detach()
    assert weft.allclose(x.grad, one * (30 * (0 + 1 + 2 + 3)), rtol=1e-4)


def test_grad_in_threads_is_apart(fast_switching):
    x = weft.arange(1.0, 4.0).requires_grad_()
    found = [None] * 4

    def work(i):
        for _ in range(30):
            (found[i],) = weft.autograd.grad((x**2 * float(i)).sum(), x)

    in_threads(4, work)
    assert x.grad is None
    for i, g in enumerate(found):
        assert g.tolist() == [2.0 * i * v for v in (1, 2, 3)]


def test_products_over_a_shared_weight(fast_switching):
    weft.manual_seed(0)
    w = weft.randn(64, 64, dtype=weft.float64, requires_grad=True)
    rows = weft.randn(4, 8, 64, dtype=weft.float64)

    def loss(i):
        return sum((rows[i][k : k + 1] @ w).sum() for k in range(8))

    in_threads(4, lambda i: loss(i).backward())
    (want,) = weft.autograd.grad(sum(loss(i) for i in range(4)), w)
    assert weft.allclose(w.grad, want, rtol=1e-12)


def test_modes_and_hooks_are_the_threads_own():
    inside, checked = threading.Event(), threading.Event()
    seen = {}

    def other(i):
        if i == 0:
            hooks = weft.autograd.graph.saved_tensors_hooks(
                lambda t: seen.setdefault("hook", t) and t, lambda t: t
            )
            with weft.no_grad(), hooks:
                inside.set()
                assert checked.wait(10)
        else:
            assert inside.wait(10)
            seen["grad"] = weft.is_grad_enabled()
            y = weft.ones(2, requires_grad=True).exp()
            seen["recorded"] = y.requires_grad
            checked.set()

    in_threads(2, other)
    assert seen == {"grad": True, "recorded": True}


def test_errors_stay_in_their_thread(fast_switching):
    class Fails(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("mine")

    x = weft.ones(2, requires_grad=True)

    def work(i):
        for _ in range(20):
            if i % 2:
                with pytest.raises(KeyError, match="mine"):
                    Fails.apply(x).sum().backward()
            else:
                (x * 2).sum().backward()

    in_threads(4, work)
    assert x.grad.tolist() == [80.0, 80.0]


def test_graph_built_in_one_thread_and_dropped_in_another(balance):
    box = []

    def build():
        y = weft.ones(3, requires_grad=True)
        for _ in range(1000):
            y = y * 1.0
        box.append(y)

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    box.pop().sum().backward()
    assert balance() == 0


FORK = """
import os
import weft

w = weft.ones(400, 400, requires_grad=True)
(w @ w).sum().backward()  # the pool's threads run
child = os.fork()
if child == 0:
    w.grad = None
    (w @ w).sum().backward()
    os._exit(0 if bool((w.grad == 800).all()) else 1)
_, status = os.waitpid(child, 0)
(w @ w).sum().backward()
print(os.waitstatus_to_exitcode(status), w.grad.mean().item())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_fork(threads):
    program = FORK.replace("import weft\n", f"import weft\nweft.set_num_threads({threads})\n", 1)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=os.path.dirname(weft.__path__[0]),
    )
    assert done.stdout.split() == ["0", "1600.0"], done.stdout + done.stderr
