"""`live`, `why_alive`, and the warning about graphs that grow."""

import contextvars
import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from weft.see import alive

KEPT: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    KEPT.clear()
    gc.collect()
    yield
    KEPT.clear()


def step(x: weft.Tensor) -> weft.Tensor:
    return (x * 2).exp().sum()


# ---- live


def grown(make: Callable[[], Any]) -> tuple[alive.Alive, Any]:
    before = weft.live()
    made = make()
    return weft.live() - before, made


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def in_a_generator(value: Any) -> Iterator[Any]:
    yield value


def started(value: Any) -> Any:
    generator = in_a_generator(value)
    next(generator)
    return generator


PLACES: dict[str, Callable[[Any], Any]] = {
    "a local": lambda t: t,
    "a list": lambda t: [t],
    "a tuple": lambda t: (t,),
    "a dict": lambda t: {"a": t},
    "a set": lambda t: {t},
    "an attribute": Holder,
    "a slot": Slotted,
    "a closure": lambda t: lambda: t,
    "a generator": started,
    "a module": lambda t: weft.nn.ParameterList([weft.nn.Parameter(t)]),
    "a bound method": lambda t: t.sum,
    "an attribute of a tensor": lambda t: setattr(a := weft.ones(1), "own", t) or a,
}


@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_is_found_in(place: str) -> None:
    found, kept = grown(lambda: PLACES[place](weft.ones(1000)))
    assert found.bytes >= 4000 and found.tensors >= 1
    del kept
    gc.collect()


GRAPHS: dict[str, tuple[Callable[[weft.Tensor], weft.Tensor], int]] = {
    "a chain": (lambda x: (x * 2).exp(), 2),
    "a view": (lambda x: (x * 2)[3:], 2),
    "several outputs": (lambda x: (x * 2).unbind()[0], 2),
    "in place": (lambda x: (x * 2).exp_(), 2),
    "a write into a view": (lambda x: weft.zeros(1000).index_fill(0, weft.tensor([1]), 2) * x, 1),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_nodes_are_counted_by_line(kind: str) -> None:
    f, nodes = GRAPHS[kind]
    x = weft.ones(1000, requires_grad=True)
    found, kept = grown(lambda: [f(x) for _ in range(5)])
    here = [row for row in found.lines if row.line.startswith("test_alive.py")]
    assert sum(row.nodes for row in here) == 5 * nodes
    del kept
    assert (weft.live() - weft.live()).nodes == 0


def test_memory_that_tensors_share_counts_once() -> None:
    t = weft.ones(1000)
    found, kept = grown(lambda: [t[i:] for i in range(10)])
    assert (found.tensors, found.bytes) == (10, 0) and len(kept) == 10


def test_bytes_of_saved_tensors_are_of_the_line_that_made_them() -> None:
    x = weft.ones(1000, requires_grad=True)
    found, kept = grown(lambda: (x * 2).exp().sum())
    made = {row.name: row.bytes for row in found.lines if row.bytes}
    assert made == {"MulBackward0": 4, "ExpBackward0": 4000, "SumBackward0": 4}
    kept.backward()
    assert (weft.live() - weft.live()).bytes == 0


def test_the_difference_of_nothing_is_nothing() -> None:
    same = weft.live() - weft.live()
    assert (same.tensors, same.nodes, same.bytes, same.lines) == (0, 0, 0, [])
    assert str(same) == "0 tensors and 0 nodes, 0 B"


def test_what_no_tensor_shows_is_unseen() -> None:
    before = weft.live()
    lent = weft.ones(5000).__dlpack__()
    after = weft.live()
    assert after.unseen - before.unseen >= 20000 and lent
    assert "besides that no tensor was found for" in str(after)


def test_looking_keeps_nothing_alive() -> None:
    """f_locals would: of a frame that runs it makes a dict which the frame keeps."""

    def run() -> int:
        t = weft.ones(100000)
        weft.live()
        weft.why_alive(t)
        del t
        return int(weft._C._memory_stats()["current"])

    before = weft._C._memory_stats()["current"]
    assert run() - before < 400000


def test_locals_of_other_threads_are_seen() -> None:
    ready, done = threading.Event(), threading.Event()

    def hold() -> None:
        t = weft.ones(1000)
        ready.set()
        done.wait()
        del t

    before = weft.live()
    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait()
    found = weft.live() - before
    done.set()
    thread.join()
    assert found.bytes >= 4000


@pytest.mark.parametrize("kind", ["function", "cell", "class", "unbound"])
def test_locals_are_those_of_the_frame(kind: str) -> None:
    import sys

    seen: dict[str, Any] = {}
    if kind == "class":

        class Body:
            inner = 1
            seen.update(weft._C._locals(sys._getframe()))

        assert seen["inner"] == 1
        return

    def f(a: int, *rest: int, key: int = 3) -> Callable[[], int]:
        b = a + 1
        if kind == "unbound":
            del b
            b = 7 if a < 0 else 0
            del b
        seen.update(weft._C._locals(sys._getframe()))
        return lambda: key

    f(1, 5)
    assert {k: seen.get(k) for k in ("a", "rest", "key")} == {"a": 1, "rest": (5,), "key": 3}
    assert seen.get("b") == (None if kind == "unbound" else 2)


# ---- why_alive


def holders(t: Any) -> list[str]:
    head, *rows = weft.why_alive(t).splitlines()
    assert head.endswith(("is alive: held by", "holds it")), head
    return [row.strip() for row in rows]


def test_names_places() -> None:
    t = weft.ones(3)
    box = Holder([0, {"a": t}])
    model = weft.nn.Linear(1, 1)
    model.register_buffer("seen", t)
    KEPT.append(t)
    found = holders(t)
    assert any(row.startswith("t (local of test_names_places(), test_alive.py:") for row in found)
    assert any(row.startswith("box.value[1]['a'] (local of ") for row in found), found
    assert any(row.startswith("model.seen (local of ") for row in found), found
    assert any(row.startswith("KEPT[0] (global of ") for row in found), found
    assert box and model


def test_names_what_an_exception_and_a_context_keep() -> None:
    def fails() -> None:
        big = weft.ones(3) * 7
        raise ValueError(big)

    try:
        fails()
    except ValueError as error:
        kept = error
    (t,) = kept.args
    assert any(row.startswith("big (local of fails(), ") for row in holders(t))
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("state")
    variable.set([weft.ones(2)])
    assert "state[0] (a ContextVar)" in holders(variable.get()[0])


def test_names_the_classic_leak() -> None:
    x = weft.ones(2, requires_grad=True)
    total: Any = 0
    for _ in range(50):
        h = (x * 2).exp()
        total = total + h.sum()
        if _ == 0:
            first = h.grad_fn
    del h
    found = [row for row in holders(first) if "total" in row]
    (row,) = found
    assert row.startswith("SumBackward0 (test_alive.py:")
    assert "AddBackward0 (test_alive.py:" in row and ") ×50 ← total (local of " in row


def test_of_an_input_that_a_node_saved() -> None:
    x = weft.ones(2, requires_grad=True)
    a = x * 2
    b = a * a
    assert any(row.startswith("saved by MulBackward0") and "← b (" in row for row in holders(a))
    b.sum().backward()
    assert not any(row.startswith("saved by") for row in holders(a))


def test_of_gradients_and_bases() -> None:
    x = weft.ones(4, requires_grad=True)
    (x * 2).sum().backward()
    grad = x.grad
    assert any(row.startswith("gradient of x (local of ") for row in holders(grad))
    y = weft.ones(4)
    v = y.view(2, 2)
    assert any(row.startswith("base of v (local of ") for row in holders(y)) and v._is_view()


def test_of_nothing_that_holds_it() -> None:
    held = weft.why_alive(weft.ones(2, 3))
    assert held == "[2, 3] is alive: nothing that Python or the graph knows holds it"


def test_refuses_others() -> None:
    with pytest.raises(TypeError, match=r"\[why_alive\] expected a tensor or a node, got int"):
        weft.why_alive(3)  # type: ignore[arg-type]


def test_cycles_of_containers_end() -> None:
    box: list[Any] = [weft.ones(1)]
    box.append(box)
    assert any(row.startswith("box[0] (local of") for row in holders(box[0]))


# ---- the warning


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Runs passes until the next look at what is alive, and gives what it warned of."""
    ends: list[int] = []
    original = alive._look_for_growth
    alive._warned.clear()
    monkeypatch.setattr(alive, "_look_for_growth", lambda ends: None)  # what backward calls

    def run(one_pass: Callable[[int], Any], passes: int = 64) -> list[str]:
        ends.clear()
        for i in range(passes):
            one_pass(i)
            ends.append(weft._C._nodes_made())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            original(list(ends))
        return [str(w.message) for w in caught]

    yield run  # type: ignore[misc]
    alive._warned.clear()


X = weft.ones(3, requires_grad=True)


def leak_sum(i: int) -> None:
    loss = step(X)
    loss.backward()
    KEPT[:] = [(KEPT[0] if KEPT else 0) + loss]


def leak_list(i: int) -> None:
    loss = step(X)
    loss.backward()
    KEPT.append(loss)


def leak_output(i: int) -> None:
    h = (X * 2).exp()
    h.sum().backward()
    KEPT.append(h)


def leak_state(i: int) -> None:
    h = ((KEPT[0] if KEPT else 0) + X * 2).tanh()
    h.sum().backward(retain_graph=True)
    KEPT[:] = [h]


def plain(i: int) -> None:
    step(X).backward()


def keeps_the_last(i: int) -> None:
    plain(i)
    KEPT[:] = [step(X)]


def longer_and_longer(i: int) -> None:
    h = X
    for _ in range(i + 1):
        h = h * 1.01
    h.sum().backward()
    KEPT[:] = [h]


def one_graph_kept(i: int) -> None:
    if not KEPT:
        h = X
        for _ in range(500):
            h = h * 1.0
        KEPT.append(h)
    (KEPT[0] * 2).sum().backward(retain_graph=True)


def detached_state(i: int) -> None:
    h = ((KEPT[0].detach() if KEPT else 0) + X * 2).tanh()
    h.sum().backward()
    KEPT[:] = [h]


def window(i: int) -> None:
    plain(i)
    KEPT.append(step(X))
    del KEPT[:-32]


def detached_losses(i: int) -> None:
    loss = step(X)
    loss.backward()
    KEPT.append(loss.detach())


def cycles(i: int) -> None:
    loss = step(X)
    loss.backward()
    box = Holder(loss)
    box.box = box  # type: ignore[attr-defined]


def create_graph(i: int) -> None:
    x = weft.ones(2, requires_grad=True)
    (g,) = weft.autograd.grad((x * x * x).sum(), x, create_graph=True)
    g.sum().backward()


@pytest.mark.parametrize("leak", [leak_sum, leak_list, leak_output, leak_state])
def test_warns_of(leak: Callable[[int], None], look: Any) -> None:
    (text,) = look(leak)
    assert "graphs of earlier passes to be freed" in text
    assert "held by KEPT[" in text
    assert look(leak) == []  # once


@pytest.mark.parametrize(
    "loop",
    [plain, keeps_the_last, longer_and_longer, one_graph_kept, detached_state, window,
     detached_losses, cycles, create_graph],
)  # fmt: skip
def test_is_silent_about(loop: Callable[[int], None], look: Any) -> None:
    assert look(loop) == []


PROGRAM = """
import warnings, weft
def train(steps, leak):
    total = 0
    w = weft.ones(3, requires_grad=True)
    for i in range(steps):
        loss = (w * 2).sum()
        loss.backward()
        total = total + (loss if leak else loss.item())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    train(300, False)
    assert not caught, caught[0]
    train(1000, True)
print([(w.filename, w.lineno, "total (local of train()" in str(w.message)) for w in caught])
"""


def test_backward_itself_looks_and_warns_at_the_users_line(tmp_path: Any) -> None:
    import subprocess
    import sys

    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.stdout.strip() == str([(str(program), 8, True)]), done.stdout + done.stderr


BOUNDED = """
import warnings, weft
warnings.simplefilter("error")
x = weft.ones(3, requires_grad=True)
last = {}
for i in range(1200):
    loss = (x * 2).sum()
    loss.backward()
    last[i % 100] = loss
w = x
for i in range(600):  # a graph that goes on: an inner loop that is differentiated
    (g,) = weft.autograd.grad((w**2).sum(), w, create_graph=True)
    w = w - 0.001 * g
w.sum().backward()
total, told = 0, None
try:
    for i in range(3000):
        loss = (x * 2).sum()
        loss.backward()
        total = total + loss
except UserWarning as warning:
    told = i
print(told is not None)
"""


def test_neither_a_full_history_nor_a_graph_of_gradients_is_a_leak(tmp_path: Any) -> None:
    """The last losses of a hundred models were, a false alarm at the 128th pass, and the hessian of
    300 numbers."""
    import subprocess
    import sys

    program = tmp_path / "program.py"
    program.write_text(BOUNDED)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stdout + done.stderr
