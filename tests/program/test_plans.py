"""Plans: the bits of eager on random programs, whatever is tiled, streamed or run at once."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from plans import bits, planned, tensors_in
from pointwise_programs import program

import weft
from weft import _C


@pytest.fixture
def threads() -> Iterator[Any]:
    before = weft.get_num_threads()
    yield weft.set_num_threads
    weft.set_num_threads(before)


@pytest.mark.parametrize("start", range(0, 600, 100))
def test_random_programs_give_eagers_bits(start: int) -> None:
    together = 0
    for seed in range(start, start + 100):
        run, inputs = program(seed)
        with weft.no_grad():
            expected = [bits(t) for t in run(*inputs)]
            for tiles in (True, False):
                plan, given = planned(run, inputs, {}, tiles=tiles)
                together += plan.groups.count("group")
                assert tiles or "group" not in plan.groups
                for _ in range(2):
                    assert [bits(t) for t in plan.run(*given)] == expected, (seed, tiles)
    assert together > 100


def chain(x: Any, y: Any, row: Any) -> Any:
    a = weft.tanh(x * y + row)
    b = weft.sigmoid(a - x) * 0.5
    return b + y, b > a


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("sizes", [(1, 32769), (3, 50001), (1300, 2001)])
def test_large_operands_on_several_threads(threads: Any, count: int, sizes: Any) -> None:
    """The last is more than the caches hold: its results go past them."""
    threads(count)
    x, y, row = weft.randn(*sizes), weft.randn(*sizes), weft.randn(sizes[1])
    plan = _C._trace(chain, (x, y, row))
    assert plan.groups.count("group") == 1 and plan.arena_bytes == 0
    for found, expected in zip(plan.run(x, y, row), chain(x, y, row)):
        assert found.equal(expected)
    strided = weft.randn(sizes[1], sizes[0]).T
    plan = _C._trace(chain, (strided, y, row))
    for found, expected in zip(plan.run(strided, y, row), chain(strided, y, row)):
        assert found.equal(expected) and found.stride() == expected.stride()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 16, 63, 64, 200, 1000, 5000])
def test_arithmetic_in_a_row_gives_the_bits_of_each_call(size: int, dtype: str) -> None:
    """One loop over all of it, in registers; nothing is contracted."""
    rng = random.Random(size)
    for _ in range(20):
        links = [(rng.randrange(5), rng.randrange(4)) for _ in range(rng.randint(2, 40))]

        def f(x: Any, y: Any, row: Any, one: Any, links: Any = links) -> Any:
            acc = x
            for how, which in links:
                other = (y, row, one, 1.37)[which]
                if how == 0:
                    acc = acc + other
                elif how == 1:
                    acc = other - acc
                elif how == 2:
                    acc = acc - other
                else:
                    acc = acc * other if how == 3 else other * acc
            return acc, weft.tanh(acc) * acc + y

        kind = getattr(weft, dtype)
        args = [weft.randn(*n, dtype=kind) for n in ((2, size), (2, size), (size,), (1,))]
        plan = _C._trace(f, tuple(args))
        for found, expected in zip(plan.run(*args), f(*args), strict=True):
            assert bits(found) == bits(expected), links


def test_a_group_joins_what_has_its_shape_and_lets_others_pass() -> None:
    def f(x: Any, w: Any) -> Any:
        a = weft.tanh(x)
        b = x @ w  # needs nothing of the group, so it comes before it
        c = a * b
        return (c + 1).sum(0) * 2

    x, w = weft.randn(8, 8), weft.randn(8, 8)
    plan = _C._trace(f, (x, w))
    assert [line.split()[0] for line in plan.groups.splitlines()] == [
        "call", "group", "call", "group"
    ]  # fmt: skip
    assert "tanh" in plan.groups.splitlines()[1] and "add" in plan.groups.splitlines()[1]
    assert plan.run(x, w)[0].equal(f(x, w))


def heads(x: Any, count: int = 4) -> Any:
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def attention(q: Any, k: Any, v: Any) -> Any:
    weights = (heads(q) @ heads(k).transpose(-2, -1) * 0.3).softmax(-1)
    return (weights @ heads(v)).transpose(1, 2).reshape(q.shape) + q


COPIES: dict[str, tuple[Any, list[tuple[int, ...]], int]] = {
    # what, its operands' sizes, how many copies are left
    "attention": (attention, [(3, 6, 32)] * 3, 1),  # of the keys: a transposed one sums otherwise
    "one row": (attention, [(1, 1, 4)] * 3, 0),
    "matrices for all": (lambda a, b: (a @ b) * 2, [(2, 3, 4, 5), (5, 6)], 0),
    "matrices of a batch for all": (lambda a, b: a @ b + 1, [(2, 3, 4, 5), (2, 1, 5, 6)], 1),
    "a copy that two read": (
        lambda a, b: (a.transpose(1, 2) @ b, a.transpose(1, 2).contiguous() * 2),
        [(2, 3, 4, 5), (2, 4, 5, 3)], 2,
    ),
    "a product that two read": (
        lambda a, b: ((p := a @ b).transpose(1, 2).reshape(2, -1) * 2, p.sum(0) + 1),
        [(2, 3, 4, 5), (2, 3, 5, 6)], 1,
    ),
    "the copy itself": (lambda a, b: (a @ b).transpose(1, 2).reshape(2, -1),
                        [(2, 3, 4, 5), (2, 3, 5, 6)], 1),
    "a row": (lambda a, b: (a @ b) * 2, [(5,), (5, 6)], 0),
    "another order": (
        lambda a, b: (a @ b).permute(3, 0, 2, 1).reshape(-1) * 2,
        [(2, 3, 4, 5), (2, 3, 5, 6)], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("grad", [False, True])
def test_copies_that_a_plan_leaves_out(name: str, grad: bool) -> None:
    f, sizes, left = COPIES[name]
    inputs = [weft.randn(*n).requires_grad_(grad) for n in sizes]
    plan, given = planned(f, inputs, {}, grad=grad)
    results = f(*inputs)
    for _ in range(2):
        found = plan.run(*given)
        for one, other in zip(found, tensors_in(results), strict=True):
            assert bits(one) == bits(other)
    if not grad:
        copies = [line for line in plan.groups.splitlines() if "_unsafe_view" in line]
        copies += [line for line in plan.groups.splitlines() if "_contiguous_copy" in line]
        assert len(copies) == left, plan.groups
        return
    total = sum((t * t).sum() for t in tensors_in(results))
    expected = weft.autograd.grad(total, inputs)
    gradients = weft.autograd.grad(sum((t * t).sum() for t in found), inputs)
    for one, other in zip(gradients, expected, strict=True):
        assert (one - other).norm() <= 1e-6 * other.norm()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(
    "inner, columns", [(1, 8), (7, 1), (8, 64), (64, 2), (70, 129), (9000, 65)]
)
def test_a_layer_on_one_sample(inner: int, columns: int, dtype: str) -> None:
    """A row's product is decided with the plan; calls decide each time."""
    numbers = [weft.randn(*size) for size in ((1, inner), (columns, inner), (columns,))]
    if dtype == "int64":
        numbers = [(t * 9).round() for t in numbers]
    x, w, b = (t.to(getattr(weft, dtype)) for t in numbers)

    def layers(x: Any, w: Any, b: Any) -> Any:
        return (
            weft.nn.functional.linear(x, w, b),
            weft.nn.functional.linear(x.reshape(inner), w),
            weft.nn.functional.linear(x.reshape(1, 1, inner), w, b),
            x @ w.T,
            weft.addmm(b, x, w.T, beta=3, alpha=2),
            weft.addmm(b, x, w.T, beta=0),
            weft.nn.functional.linear(x, w, b) + x.sum(),
        )

    rows = weft.cat([x, x])
    for given in ((x, w, b), (rows[1:], w, b), (rows.T.contiguous().T[:1], w, b)):
        plan = _C._trace(layers, given)
        for _ in range(2):
            for found, expected in zip(plan.run(*given), layers(*given), strict=True):
                assert bits(found) == bits(expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 3, 16, 40, 200])
@pytest.mark.parametrize("inner, columns", [(1, 8), (7, 1), (24, 33), (70, 128), (2100, 65)])
def test_what_is_added_to_a_layer_is_added_with_it(
    threads: Any, rows: int, inner: int, columns: int, dtype: str
) -> None:
    def f(x: Any, w: Any, b: Any, rest: Any) -> Any:
        first = (rest + weft.nn.functional.linear(x, w, b)).softmax(1)
        second = (weft.addmm(b, x, w.T) + rest).softmax(1)
        third = weft.nn.functional.linear(x, w, b) + rest
        return first, second, third, (weft.nn.functional.linear(x, w) + rest).softmax(1)

    kind = getattr(weft, dtype)
    sizes = ((rows, inner), (columns, inner), (columns,), (rows, columns))
    args = [weft.randn(*n, dtype=kind) for n in sizes]
    threads(3)
    plan = _C._trace(f, tuple(args))
    for _ in range(2):
        for found, expected in zip(plan.run(*args), f(*args), strict=True):
            assert bits(found) == bits(expected)
    names = [line.split()[2::2] for line in plan.groups.splitlines() if "call" in line]
    assert ["linear", "add"] in names and ["addmm", "add"] in names, plan.groups


def test_integers_are_divided_as_by_the_kernel() -> None:
    """Where a divisor is 0 it says so, before anything is written."""
    a, b = weft.arange(6), weft.tensor([1, 2, 0, 1, 2, 3])
    plan = _C._trace(lambda a, b: a // b + 1, (a, b))
    with pytest.raises(RuntimeError, match="divisors other than 0"):
        plan.run(a, b)
    assert plan.run(a, b + 1)[0].equal(a // (b + 1) + 1)


def test_a_call_that_fails_leaves_the_plan_as_it_was() -> None:
    table, at = weft.randn(5, 3), weft.tensor([0, 4])
    plan = _C._trace(lambda table, at: weft.tanh(table[at]) @ table.T, (table, at))
    expected = (weft.tanh(table[at]) @ table.T).tolist()
    for _ in range(2):
        assert plan.run(table, at)[0].tolist() == expected
        with pytest.raises(IndexError):
            plan.run(table, at + 3)


def test_results_are_new_and_inputs_stay() -> None:
    def f(x: Any) -> Any:
        y = weft.exp(x)
        return y, y[1:], y, x, x[0], y.T

    x = weft.randn(3, 4)
    plan = _C._trace(f, (x,))
    first, second = plan.run(x), plan.run(x)
    assert first[0] is first[2] and first[3] is x
    assert first[1].data_ptr() == first[0].data_ptr() + 16 == first[5][:, 1].data_ptr()
    assert first[4].data_ptr() == x.data_ptr()
    first[0].zero_()
    assert second[0].equal(weft.exp(x)) and plan.run(x)[0].equal(weft.exp(x))


def test_inputs_are_used_where_they_lie() -> None:
    x = weft.randn(64)
    plan = _C._trace(lambda x: (x[32:].view(4, 8) @ x[:32].view(8, 4)).tanh(), (x,))
    for _ in range(3):
        y = weft.randn(64)
        assert plan.run(y)[0].equal((y[32:].view(4, 8) @ y[:32].view(8, 4)).tanh())
    with pytest.raises(RuntimeError, match="tensors laid out as those that were traced"):
        plan.run(weft.randn(128)[::2])
    with pytest.raises(RuntimeError, match="tensors laid out as those that were traced"):
        plan.run()


def test_an_arena_holds_what_lives_at_the_same_time() -> None:
    def f(x: Any) -> Any:
        for _ in range(10):
            x = x @ x / 9
        return x.sum()

    x = weft.randn(16, 16)
    plan = _C._trace(f, (x,))
    assert plan.arena_bytes == 2 * 16 * 16 * 4  # a product, and what it is of
    assert plan.run(x)[0].equal(f(x))


def residual(x: Any) -> Any:
    for _ in range(6):
        x = x + (x @ x / 900).relu()
    return x


def gathered(x: Any) -> Any:
    y = x @ x
    return y.tanh() * y.T + y[0]  # read elsewhere than where it would be written over


def read_twice(x: Any) -> Any:
    y = x @ x
    return (y + 1).tanh(), y * 2, (y - 3).sigmoid() * y


def joined(x: Any) -> Any:
    return weft.cat([x.sin(), x.cos(), x.exp()]).view(3, -1).sum(0) * x.view(-1)


def views(x: Any) -> Any:
    y = x @ x
    z = (y.view(-1)[: x.numel() // 2] + 1).exp()
    return z, (y @ x).view(-1)[7:]


@pytest.mark.parametrize("f", [residual, gathered, read_twice, joined, views])
@pytest.mark.parametrize("size", [150, 300])
def test_large_values_take_memory_as_calls_do(f: Callable[..., Any], size: int) -> None:
    """One by one, as they are made, and give it back when they have been read."""
    x = weft.randn(size, size, generator=weft.Generator().manual_seed(size)).mul_(0.1)
    plan = _C._trace(f, (x,))

    def run(f: Callable[..., Any]) -> tuple[int, Any]:
        _C._reset_peak_memory()
        before = _C._memory_stats()["current"]
        out = f(x)
        return _C._memory_stats()["peak"] - before, out

    for _ in range(2):
        before = _C._memory_stats()["current"]
        of_eager, wanted = run(f)
        of_plan, found = run(plan.run)
        assert of_plan <= of_eager
        for a, b in zip(found, wanted if type(wanted) is tuple else (wanted,), strict=True):
            assert a.equal(b)
        del wanted, found, a, b
        assert _C._memory_stats()["current"] == before


def test_threads_in_one_plan() -> None:
    """Long kernels let other threads have the lock, which then run the same plan."""
    inputs = [weft.randn(600, 600) for _ in range(3)]

    def f(x: Any) -> Any:
        return (weft.tanh(x @ x) + x).sum(1), weft.sigmoid(x @ x.T)

    plan = _C._trace(f, (inputs[0],))
    expected = [[bits(t) for t in f(x)] for x in inputs]
    failed = []

    def work(i: int) -> None:
        for _ in range(4):
            if [bits(t) for t in plan.run(inputs[i])] != expected[i]:
                failed.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert failed == []


def test_a_plan_dies_with_its_last_user() -> None:
    x = weft.randn(8)
    results = _C._trace(lambda x: (weft.exp(x), x.sum()), (x,)).run(x)
    assert results[0].equal(weft.exp(x))


def chained(x: Any, y: Any, z: Any) -> Any:
    return x - y * z + y


@pytest.mark.parametrize("make", [weft.from_numpy, weft.tensor], ids=["NumPy's", "weft's"])
@pytest.mark.parametrize("at", [1, 2, 5, 15])
def test_chains_read_operands_wherever_they_lie(make: Any, at: int) -> None:
    """A chain of sums and products read its second operands as aligned to a vector: where they were
    not, in arrays of NumPy or parts of tensors, the process ended (SIGSEGV)."""
    base = make(np.arange(400, dtype="float32"))
    args = [base[at * k :][:100] for k in (1, 2, 3)]
    run = weft.compile(chained)
    for _ in range(3):
        assert weft.equal(run(*args), chained(*args))
