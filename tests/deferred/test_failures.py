"""The first example that fails stops those that have not begun; those under way end.

With no value read that is what a plain loop does, so nested batches take as many calls as nested
loops: each example failed in its turn, and all of a tree ran to fail, 2 ** depth of them.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.nn import functional as F


def calls_until_failure(run: Callable[[Callable[[int], Any], list[int]], Any], plan: Any) -> Any:
    """The calls that a tree of batches makes; `plan(path)`: its children, or an exception."""
    calls: list[tuple[int, ...]] = []

    def node(path: tuple[int, ...]) -> Any:
        calls.append(path)
        found = plan(path)
        if isinstance(found, Exception):
            raise found
        return run(node, [(*path, k) for k in range(found)])

    try:
        result = node(())
    except Exception as error:
        result = type(error), error.args
    return calls, result


def loop(fn: Callable[[Any], Any], xs: list[Any]) -> Any:
    return [fn(x) for x in xs]


def batched(fn: Callable[[Any], Any], xs: list[Any]) -> Any:
    return weft.autobatch(fn, adaptive=False)(xs)


def adaptive(fn: Callable[[Any], Any], xs: list[Any]) -> Any:
    return weft.autobatch(fn)(xs)


def two_at_once(fn: Callable[[Any], Any], xs: list[Any]) -> Any:
    return weft.autobatch(fn, max_batch=2)(xs)


@pytest.mark.parametrize("way", [batched, adaptive, two_at_once])
@pytest.mark.parametrize("seed", range(40))
def test_nested_batches_make_the_loops_calls(way: Any, seed: int) -> None:
    import random

    rng = random.Random(seed)
    fails = {path for depth in range(5) for path in itertools.product(range(3), repeat=depth)
             if depth and rng.random() < 0.15}  # fmt: skip

    def plan(path: tuple[int, ...]) -> Any:
        if path in fails:
            return KeyError(path)
        return 0 if len(path) == 4 else rng_of[path]

    rng_of = {path: rng.randrange(1, 4) for depth in range(4)
              for path in itertools.product(range(3), repeat=depth)}  # fmt: skip
    assert calls_until_failure(way, plan) == calls_until_failure(loop, plan)


def test_a_failing_leaf_stops_a_deep_tree() -> None:
    """32767 calls and 6 s for the loop's 15."""
    calls, result = calls_until_failure(batched, lambda p: ValueError() if len(p) == 14 else 2)
    assert len(calls) == 15 and result == (ValueError, ())


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("way", [batched, adaptive])
def test_endless_recursion_of_batches_is_an_error(width: int, way: Any) -> None:
    """Two examples at each level hung, as each failed only when the levels below had."""
    calls = 0

    def g(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return way(g, [x - 1] * width)

    with pytest.raises(RecursionError):
        g(0)
    assert calls < 2000
    assert batched(lambda x: (weft.ones(2) * x).sum().item(), [1, 2]) == [2, 4]


@pytest.mark.parametrize("late", [False, True])
def test_those_under_way_end(late: bool) -> None:
    log: list[Any] = []

    def one(k: int) -> Any:
        log.append(("begins", k))
        total = (weft.ones(2) * k).sum().item()
        if k == 1:
            if late:
                weft.nn.functional.embedding(weft.tensor([9]), weft.ones(3, 2)).sum().item()
            raise ValueError(k)
        log.append(("ends", k, total))

    with pytest.raises(IndexError if late else ValueError) as caught:
        batched(one, [0, 1, 2, 3])
    assert caught.value.__notes__[-1] == "in example 1 of 4"
    assert log == [*(("begins", k) for k in range(4)), *(("ends", k, 2.0 * k) for k in (0, 2, 3))]


def test_no_fiber_is_left_to_the_garbage_collection() -> None:
    """One that ended amid a collection freed what that was about to free: a crash."""
    from weft.batching import fibers

    def leaf(x: int) -> Any:
        if weft.full((2,), float(x)).sum().item() == 14:
            raise ValueError(x)
        return x

    def node(depth: int) -> Any:
        return batched(node, [depth - 1] * 2) if depth else batched(leaf, list(range(300)))

    gc.collect()
    gc.disable()
    try:
        errors = []
        for _ in range(2):
            with pytest.raises(ValueError, match="7") as raised:
                node(2)
            errors.append(raised.value)
        held = {id(f) for f in fibers._idle.fibers}
        for idle in fibers._idle.fibers:
            parent = idle.parent
            while parent is not None:
                held.add(id(parent))
                parent = parent.parent
        left = [o for o in gc.get_objects() if isinstance(o, fibers.Fiber) and id(o) not in held]
    finally:
        gc.enable()
    assert left == []


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_what_fails_late_in_inner_batches_is_raised(levels: int) -> None:
    """From three levels on nobody was told, as the example that answered was done by then."""
    table = weft.ones(3, 2)

    def node(path: tuple[int, ...]) -> Any:
        if len(path) < levels:
            return batched(node, [(*path, k) for k in range(2)])
        return weft.nn.functional.embedding(weft.tensor([9 if path[-1] else 1]), table)

    for _ in range(2):
        with pytest.raises(IndexError):
            node(())


def test_an_exit_leaves_no_scope_behind() -> None:
    def one(k: int) -> None:
        with weft.no_grad():
            (weft.ones(()) * k).item()
            if k == 1:
                raise SystemExit(3)

    with pytest.raises(SystemExit):
        weft.autobatch(one)([0, 1, 2])
    assert weft.is_grad_enabled() and not weft._C._mode() & 4


def test_a_failure_stops_the_examples_that_have_not_begun() -> None:
    done: list[int] = []

    def one(k: int) -> int:
        if k in (1, 3):
            raise KeyError(k)
        done.append(k)
        return k

    with pytest.raises(KeyError) as caught:
        weft.autobatch(one, max_batch=2)([0, 1, 2, 3, 4])
    assert done == [0] and caught.value.args == (1,)
    assert caught.value.__notes__ == ["in example 1 of 5"]


def test_what_an_interrupt_left_fails_for_those_who_read_it() -> None:
    """It failed in the next flush, whoever caused it."""
    table, kept = weft.ones(3, 2), []

    def one(k: int) -> None:
        kept.append(F.embedding(weft.tensor([k]), table))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weft.autobatch(one)([9])
    assert weft.autobatch(lambda k: (weft.ones(2) * k).sum().item())([1, 2]) == [2, 4]

    def in_a_scope(kind: type[Exception]) -> None:
        with weft.deferred():
            kept.append(F.embedding(weft.tensor([9]), table))
            kept.append(weft.ones(2) * 3)
            raise kind

    with pytest.raises(ValueError):  # noqa: PT011
        in_a_scope(ValueError)
    assert kept.pop().tolist() == [3, 3] and (weft.ones(2) * 2).tolist() == [2, 2]
    for failed in kept:
        with pytest.raises(IndexError):
            failed.tolist()


def test_the_first_of_several_failures_is_raised() -> None:
    """The budget flushed between the two; numbers of calls begin anew in each flush."""
    table = weft.ones(3, 2)

    def one(k: int) -> Any:
        weft.ones(2) * k + 1
        F.embedding(weft.tensor([7]), table)  # first
        F.embedding(weft.tensor([8]), table)

    before = weft._C._set_budget(3)
    try:
        with pytest.raises(IndexError, match="# first"):
            weft.autobatch(one)([1, 2])
    finally:
        weft._C._set_budget(before)


@pytest.mark.parametrize("call", [
    lambda x: x & x, lambda x: (x > 0) // (x > 0), lambda x: F.linear(x > 0, x > 0),
    lambda x: weft.complex(x, x).amax(-1), lambda x: x.foo, lambda x: x @ x[:1],
])  # fmt: skip
def test_wrong_dtypes_and_shapes_fail_at_the_call(call: Callable[[Any], Any]) -> None:
    """Kernels refused dtypes at the flush, where no `try` caught it."""

    def one(k: int) -> str:
        x = weft.ones(2, 2) * k
        for _ in range(2):  # seen before, the call fails again
            with pytest.raises((NotImplementedError, AttributeError, RuntimeError)) as caught:
                call(x)
        return str(caught.value)

    assert weft.autobatch(one)([1, 2]) == [one(1), one(2)]


@pytest.mark.parametrize("budget", [1, 2, 100])
def test_what_follows_a_failed_call_does_not_run_before_its_error(budget: int) -> None:
    """A flush for another reason ran the call; the error was kept to the end, and a pass of
    backward meanwhile gave gradients that the loop does not."""
    w, told = weft.ones(2, requires_grad=True), []

    def one(x: weft.Tensor, index: weft.Tensor) -> None:
        x.index_select(0, index)
        (x.sum() * w).sum().backward()
        told.append(x.shape[0])

    before = weft._C._set_budget(budget)
    try:
        with pytest.raises(IndexError) as error:
            weft.autobatch(one, adaptive=False)(
                [weft.ones(1), weft.ones(2)], [weft.tensor([0]), weft.tensor([5])]
            )
    finally:
        weft._C._set_budget(before)
    assert told == [1] and w.grad.tolist() == [1, 1]
    assert "index_select" in str(error.value)
