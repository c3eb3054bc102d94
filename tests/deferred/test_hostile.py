"""Programs that were batched wrongly: destructors, threads, views of views, other memory."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

import weft


def loop(f: Any) -> Any:
    return lambda xs: [f(x) for x in xs]


def batched(f: Any) -> Any:
    return weft.autobatch(f, adaptive=False)


def test_a_value_that_waits_in_another_thread_is_refused_as_an_operand() -> None:
    """It was taken for one of the other thread's own: wrong values, or a crash."""
    caught: list[str] = []

    def work(y: Any) -> None:
        with weft.deferred():
            mine = weft.ones(2) * 7
            with pytest.raises(RuntimeError) as error:
                y + 1
            caught.append(str(error.value))
            assert (mine + 1).tolist() == [8, 8]

    with weft.deferred():
        rows = [weft.ones(2) * i for i in range(5)]
        y = weft.ones(2) * 30
        thread = threading.Thread(target=work, args=(y,))
        thread.start()
        thread.join()
    assert "the thread that made it" in caught[0]
    assert y.tolist() == [30, 30] and rows[4].tolist() == [4, 4]


def test_a_destructor_may_ask_for_a_value_that_waits() -> None:
    """Views of weights were dropped in the middle of a flush, with what hangs on them."""
    w = weft.randn(4, 4, requires_grad=True)
    seen: list[float] = []

    class Asks:
        def __init__(self, y: Any) -> None:
            self.y = y

        def __del__(self) -> None:
            seen.append((self.y + 1).sum().item())

    with weft.deferred():
        y = weft.ones(2) * 30
        rows = []
        for _ in range(3):
            v = w[0]
            v.tag = Asks(y)
            rows.append(v * 2)
            del v
        rows[0].sum().item()
    del rows, y
    assert seen == [62.0] * 3


@pytest.mark.parametrize("view", [
    lambda s: s.t()[0], lambda s: s[0].detach(), lambda s: s.detach()[0],
    lambda s: s[None].expand(2, 2, 2), lambda s: s.view(4)[1:][::2], lambda s: s.view(2, 2).t(),
])  # fmt: skip
def test_views_of_views_see_what_is_written_later(view: Any) -> None:
    """Only the next tensor was asked whether it has memory by now, not the one below."""

    def one(k: int) -> tuple[float, float]:
        s = weft.ones(2, 2) * k
        e = view(s)
        s.zero_()
        return (e * 1 + 1).sum().item(), e.sum().item()

    assert batched(one)([1, 2, 3]) == loop(one)([1, 2, 3])


def test_each_call_has_its_default_dtype() -> None:
    """Integers were promoted to the one at the flush."""

    def one(k: int) -> tuple[str, float]:
        if k:
            weft.set_default_dtype(weft.float64)
        try:
            y = weft.tensor(k + 1) / 3
            return str(y.dtype), y
        finally:
            weft.set_default_dtype(weft.float32)

    for (kind, a), (wanted, b) in zip(batched(one)([0, 1, 1]), loop(one)([0, 1, 1]), strict=True):
        assert kind == wanted == str(a.dtype) and a.item() == b.item()


def test_views_of_a_weight_whose_memory_changes() -> None:
    def other_weight(x: Any) -> Any:
        v = w[0]
        before = v * x
        w.data = weft.zeros(4, 4)
        after = w[0] * x
        w.data = values
        return before, after

    def other_view(x: Any) -> Any:
        v = w[0]
        v.data = weft.zeros(4)
        return w[0] * x

    values = weft.randn(4, 4)
    w = values.clone().requires_grad_()
    xs = [weft.ones(4), weft.ones(4) * 2]
    for f in (other_weight, other_view):
        for a, b in zip(batched(f)(xs), loop(f)(xs), strict=True):
            for i, j in zip(weft.atleast_2d(*a), weft.atleast_2d(*b), strict=True):
                assert i.tolist() == j.tolist()


@pytest.mark.parametrize("out_stack", [False, True])
@pytest.mark.parametrize("max_batch", [None, 2])
def test_what_fails_late_comes_first(out_stack: bool, max_batch: int | None) -> None:
    """With out_stack an index too large ended the other examples, without a note."""
    table, done = weft.ones(3, 2), []

    def one(k: int) -> Any:
        y = weft.nn.functional.embedding(weft.tensor([9 if k == 0 else 1]), table)
        if k >= 2:
            (weft.ones(2) * k).sum().item()
        if k == 1:
            raise ValueError(k)
        done.append(k)
        return y

    run = weft.autobatch(one, max_batch=max_batch, out_stack=out_stack, adaptive=False)
    with pytest.raises(IndexError) as caught:
        run([0, 1, 2, 3])
    assert caught.value.__notes__[-1] == "in example 0 of 4" and done == [0]


class NoNotes(Exception):
    def add_note(self, *args: Any) -> None:
        raise TypeError("no notes")


class NotesAreText(Exception):
    __notes__ = "not a list"


@pytest.mark.parametrize("kind", [NoNotes, NotesAreText])
def test_an_exception_that_takes_no_note_comes_as_it_is(kind: type[Exception]) -> None:
    """The error of its add_note came in its place."""

    def one(k: int) -> Any:
        if k == 1:
            raise kind(k)
        return weft.ones(2) * k

    for batch in (weft.autobatch(one, adaptive=False), weft.autobatch(one)):
        for _ in range(3):  # of the second, also one by one
            with pytest.raises(kind) as caught:
                batch([0, 1, 2])
            assert caught.value.args == (1,)
            assert len(batch([0, 2])) == 2


def test_stacked_results_keep_structure_and_gradients() -> None:
    w = weft.ones(3, requires_grad=True)

    def one(k: int) -> Any:
        y = w * k
        return {"a": y, "b": (y.sum(), y * y)}

    found = weft.autobatch(one, out_stack=True, adaptive=False)([1, 2])
    assert found["a"].tolist() == [[1, 1, 1], [2, 2, 2]] and found["b"][0].tolist() == [3, 6]
    (found["a"].sum() + found["b"][1].sum()).backward()
    assert w.grad is not None and w.grad.tolist() == [13, 13, 13]


def test_a_greenlet_exit_of_the_user_s_own_is_raised() -> None:
    """The batch waited for ever for the fiber that it had ended."""
    from greenlet import GreenletExit

    def one(k: int) -> float:
        a = (weft.ones(2) * k).sum().item()
        if k == 1:
            raise GreenletExit
        return a + (weft.ones(2) * a).sum().item()

    with pytest.raises(GreenletExit):
        batched(one)([0, 1, 2])
    assert batched(lambda k: (weft.ones(2) * k).sum().item())([1, 2]) == [2, 4]


def test_an_interrupt_starts_no_other_example() -> None:
    started: list[int] = []

    def one(k: int) -> None:
        started.append(k)
        try:
            (weft.ones(2) * k).sum().item()
        except BaseException:  # even if it is swallowed
            return
        raise AssertionError

    def stops(k: int) -> None:
        if k == 1:
            raise KeyboardInterrupt
        one(k)

    with pytest.raises(KeyboardInterrupt):
        batched(stops)([0, 1, 2])
    assert started == [0]


def test_examples_do_not_meet_in_functional_call() -> None:
    """A read inside let the next example swap the same parameters."""

    class Net(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = weft.nn.Linear(1, 1, bias=False)

        def forward(self, x: Any) -> Any:
            if x.sum() > 1e9:
                raise AssertionError
            return self.layer(x)

    net = Net()
    before = net.layer.weight.item()

    def one(k: int) -> float:
        weight = {"layer.weight": weft.full((1, 1), float(k))}
        return weft.func.functional_call(net, weight, (weft.ones(1) * k,)).item()

    assert batched(one)([1, 2, 3]) == [1, 4, 9] and net.layer.weight.item() == before


def test_anomaly_mode_ends_with_its_scope() -> None:
    def one(k: int) -> float:
        with weft.autograd.set_detect_anomaly(True):
            return (weft.ones(2) * k).sum().item()

    assert batched(one)([1, 2, 3]) == [2, 4, 6] and not weft.is_anomaly_enabled()


def read_then_write(s: Any, k: Any) -> Any:
    y = k - s
    s.add_(k)
    return y


def moving_mean(s: Any, k: Any) -> Any:
    h = (k * 2).tanh()
    s.mul_(0.9).add_(h, alpha=0.1)
    return h - s


def one_row(s: Any, k: Any) -> Any:
    y = s * 2
    s[0] = k[1] * 3
    return y + s


@pytest.mark.parametrize("program", [read_then_write, moving_mean, one_row])
@pytest.mark.parametrize("nested", [False, True])
def test_shared_memory_is_written_in_the_order_of_the_loop(program: Any, nested: bool) -> None:
    """The writer waited, and the others read what it was about to write."""

    def run(over: Any) -> list[Any]:
        def all_of(start: float) -> list[Any]:
            s = weft.zeros(2) + start
            s.sum().item()
            xs = [weft.ones(2) * k for k in (1, 2, 3)]
            return [t.tolist() for t in [*over(lambda k: program(s, k))(xs), s]]

        return over(all_of)([0.0, 1.0]) if nested else all_of(0.0)

    assert run(batched) == run(loop)


def test_the_running_loop_is_the_caller_s() -> None:
    """Examples found none, and one that ran a loop of its own took it to the others."""

    def one(k: int) -> tuple[bool, bool, float]:
        before = asyncio.get_running_loop() is outer[0]
        value = (weft.ones(2) * k).sum().item()
        return before, asyncio.get_running_loop() is outer[0], value

    outer: list[Any] = []

    async def main() -> Any:
        outer.append(asyncio.get_running_loop())
        return batched(one)([0, 1, 2])

    assert asyncio.run(main()) == [(True, True, 0), (True, True, 2), (True, True, 4)]

    async def inner(k: int) -> float:
        return (weft.ones(2) * k).sum().item()

    assert batched(lambda k: asyncio.run(inner(k)))([1, 2, 3]) == [2, 4, 6]


def test_reports_lie_within_reports() -> None:
    """The inner one ended the outer one."""
    with weft.explain() as outer:
        batched(lambda k: weft.ones(2) * k)([1, 2])
        with weft.explain() as inner:
            batched(lambda k: weft.ones(2) * k + 1)([1, 2, 3])
        batched(lambda k: weft.ones(2) * k)([1])
    assert (inner.calls, outer.calls) == (6, 9) and len(outer.flushes) == 3
    assert not weft._C._reporting()


def per_example_gradient(layer: Any, x: Any) -> Any:
    layer.zero_grad()
    layer(x).square().sum().backward()
    return layer.weight.grad.clone()


def loss_before_zero_grad(layer: Any, x: Any) -> Any:
    loss = layer(x).square().sum()
    layer.weight.grad = None
    loss.backward()
    return layer.weight.grad.clone()


def step(layer: Any, x: Any) -> Any:
    loss = layer(x).square().sum()
    layer.zero_grad(set_to_none=False)
    loss.backward()
    with weft.no_grad():
        layer.weight -= 0.01 * layer.weight.grad
    return loss.detach()


def optimizer_step(layer: Any, x: Any) -> Any:
    if not hasattr(layer, "optimizer"):
        layer.optimizer = weft.optim.Adam(layer.parameters(), lr=0.1)
    layer.optimizer.zero_grad()
    loss = layer(x).square().sum()
    loss.backward()
    layer.optimizer.step()
    return loss.detach()


@pytest.mark.parametrize("fn", [per_example_gradient, loss_before_zero_grad, step, optimizer_step])
def test_gradients_of_weights_inside_examples_are_the_loop_s(fn: Any) -> None:
    """All examples forgot the gradient, then waited for the first one's backward pass."""
    runs = []
    for batch in (False, True):
        weft.manual_seed(0)
        layer = weft.nn.Linear(3, 2, dtype=weft.float64)
        xs = [weft.randn(3, dtype=weft.float64) for _ in range(4)]

        def one(x: Any, layer: Any = layer) -> Any:
            return fn(layer, x)

        outs = weft.autobatch(one, adaptive=False)(xs) if batch else [one(x) for x in xs]
        runs.append([t.tolist() for t in (*outs, layer.weight)])
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    "write",
    [
        lambda m, h: m.mul_(0.5).add_(h),
        lambda m, h: m.lerp_(h, 0.25),
        lambda m, h: (m.mul_(3), m.__setitem__(0, h[1]), m.add_(m[:1].clone())),
        lambda m, h: m.data.add_(h).mul_(2),
        lambda m, h: m[:1].sub_(h[:1]).mul_(3),
    ],
)
def test_memory_that_the_first_example_made_is_written_in_the_order_of_the_loop(write: Any) -> None:
    def make() -> Any:
        state: dict[str, Any] = {}

        def one(x: Any) -> Any:
            h = x * 2
            if "m" not in state:
                state["m"] = weft.zeros(2, dtype=weft.float64)
            write(state["m"], h)
            return state["m"].clone()

        return one

    xs = [weft.full((2,), float(n), dtype=weft.float64) for n in range(1, 5)]
    plain = make()
    loop = [plain(x).tolist() for x in xs]
    assert [t.tolist() for t in weft.autobatch(make(), adaptive=False)(xs)] == loop


def test_results_of_inference_mode_are_inference_tensors() -> None:
    def one(x: Any) -> Any:
        with weft.inference_mode():
            y = x * 2
            if y.sum() > 1e9:
                y = y + 1
            z = y + x
            w = x * 1
        w2 = x * 3
        flags = [t.is_inference() for t in (y, z, z[0], z.chunk(2)[1], w, w2, x[:1])]
        return y, z, z[:1], w2, flags

    def outside(x: Any) -> Any:
        with weft.inference_mode():
            y = x * 2
        return y.add_(1)

    xs = [weft.randn(2) for _ in range(3)]
    for a, b in zip(batched(one)(xs), loop(one)(xs), strict=True):
        assert a[-1] == b[-1]
        assert [t.is_inference() for t in a[:-1]] == [t.is_inference() for t in b[:-1]]
    told = []
    for way in (batched, loop):
        with pytest.raises(RuntimeError) as error:
            way(outside)(xs)
        told.append(str(error.value))
    assert told[0] == told[1]


def test_the_default_dtype_that_another_thread_sets_stays() -> None:
    """Each example that went on put back the one that it had left."""

    def one(x: Any) -> float:
        total = (x * 2).sum().item()
        if x[0] == 1:
            thread = threading.Thread(target=weft.set_default_dtype, args=(weft.float64,))
            thread.start()
            thread.join()
        return total + (x * 3).sum().item()

    try:
        batched(one)([weft.ones(2) * k for k in range(4)])
        assert weft.get_default_dtype() == weft.float64
    finally:
        weft.set_default_dtype(weft.float32)


def test_each_example_has_its_default_dtype() -> None:
    def one(k: int) -> list[str]:
        kinds = [str((weft.ones(1) * k).dtype)]
        if k == 1:
            weft.set_default_dtype(weft.float64)
        (weft.ones(2) * k).sum().item()
        kinds.append(str((weft.ones(1) * k).dtype))
        return kinds

    inner = weft.autobatch(one, adaptive=False)
    try:
        found = batched(one)([0, 1, 0])
        assert [kinds[1] for kinds in found] == ["torch.float32", "torch.float64", "torch.float32"]
        assert weft.get_default_dtype() == weft.float64  # as the loop leaves it
        weft.set_default_dtype(weft.float32)
        found = batched(lambda k: (inner([0, k]), one(0)))([0, 1, 0])
        assert [after[1] for _, after in found] == [
            "torch.float32",
            "torch.float64",
            "torch.float32",
        ]
    finally:
        weft.set_default_dtype(weft.float32)


def test_what_nested_batches_read_of_those_around_them() -> None:
    """A generator and the index of a plain loop lay on the stack of a fiber, where another's was by
    then: other random numbers, and crashes."""

    def leaf(x: Any) -> Any:
        x = x + weft.rand(())
        indices = [weft.batching.current_example(outer) for outer in range(4)]
        return (x * weft.rand(()) if x.sum() > 1 else x), indices

    def plain(x: Any) -> Any:  # one by one: what it makes has habits of its own
        return batched(leaf)(list(x))

    def middle(x: Any) -> Any:
        if x.sum() > 0:
            x = x + weft.rand(3)
        with_loop = weft.autobatch(plain)
        with_loop._habit.in_order[weft._C._mode()] = 100
        return with_loop([x, x * 2])

    outer = weft.autobatch(middle, adaptive=False, rng="per_example")
    results = []
    for enabled in (True, False):
        xs = [weft.arange(3.0) - k for k in range(4)]
        weft.manual_seed(5)
        weft.autobatch.enabled = enabled
        try:
            batched(lambda x: x.sum().item())(xs)  # fibers that began before
            for _ in range(3):
                out = outer(xs)
        finally:
            weft.autobatch.enabled = True
        results.append([[[(y.item(), i) for y, i in z] for z in zs] for zs in out])
    assert results[0] == results[1]
    assert results[0][1][1][2][1] == [2, 1, 1, None]


def test_hooks_of_saved_tensors_are_an_examples_own() -> None:
    """While one waited in their scope, others began in it, and hooks that were gone by then were
    called."""
    w = weft.randn(3, 3, requires_grad=True)
    packed: list[int] = []

    def one(x: Any, k: int) -> Any:
        def pack(t: Any) -> Any:
            packed.append(k)
            return t

        y = (x @ w).tanh()
        with weft.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            z = (y * y).sum()
            if z.item() > -1:
                z = z * z
        return z + (x @ w).sigmoid().exp().sum()

    found = []
    for batch in (False, True):
        xs = [weft.arange(3.0) + k for k in range(5)]
        packed.clear()
        w.grad = None
        rows = (
            weft.autobatch(one, adaptive=False)(xs, range(5)) if batch else map(one, xs, range(5))
        )
        sum(rows).backward()
        found.append((sorted(packed), w.grad))
    assert found[0][0] == found[1][0]
    weft.testing.assert_close(found[0][1], found[1][1])


@pytest.mark.parametrize("scope", ["autobatch", "deferred"])
def test_hooks_around_a_batch_see_what_each_call_saves(scope: str) -> None:
    """Calls were kept under them, and a flush runs by nobody's hooks: nothing was packed."""
    graph, w = weft.autograd.graph, weft.eye(3).requires_grad_()
    found = []
    for enabled in (False, True):
        packed: list[Any] = []
        w.grad = None
        xs = [weft.arange(3.0) + k for k in range(3)]
        weft.autobatch.enabled = enabled
        with graph.saved_tensors_hooks(lambda t: packed.append(t.tolist()) or t * 0.5, lambda t: t):
            if scope == "autobatch":
                ys = batched(lambda x: (x @ w).tanh().exp())(xs)
            else:
                with weft.deferred():
                    ys = [(x @ w).tanh().exp() for x in xs]
        weft.autobatch.enabled = True
        weft.stack(ys).sum().backward()
        found.append((packed, w.grad))
    assert found[0][0] == found[1][0] and len(found[0][0]) == 12
    weft.testing.assert_close(found[0][1], found[1][1])


FORKS = """
import os, sys
import multiprocessing
import weft

fork = multiprocessing.get_context("fork")

def by_pipe(h):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(weft.autobatch(lambda y: y.item())([h, h * 2])[1] / 2).encode())
        os._exit(0)
    os.wait()
    return float(os.read(read, 99))

def by_process(h):
    queue = fork.SimpleQueue()
    process = fork.Process(target=lambda: queue.put(h.item()))
    process.start()
    value = queue.get()
    process.join()
    return value

def one(x, way):
    h = (x * 2).sum()
    return h + way(h)

for way in (by_pipe, by_process):
    print(weft.autobatch(one, adaptive=False)([weft.ones(3) * k for k in range(3)], [way] * 3))
"""


def test_a_child_of_a_fork_in_an_example_reads_what_waits() -> None:
    """It ran the other examples first, which forked, and waited for children, in their turn."""
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert told.stdout == "[tensor(0.), tensor(12.), tensor(24.)]\n" * 2, told.stderr
