"""Recordings that begin and end where nobody expects it: no crash, no thread that goes on."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import weft
from weft import _C


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert _C._Log.running() is None
    with weft.record() as g:
        weft.ones(1)
    assert [e.name for e in g] == ["ones"]


def names(g: Any) -> list[str]:
    return [e.name for e in g]


def test_it_ends_inside_of_a_module() -> None:
    """The module's span closed an event that was not there: a crash."""

    class Ends(weft.nn.Module):
        def forward(self, x: Any) -> Any:
            scope.__exit__(None, None, None)
            return x * 2

    scope = weft.record()
    g = scope.__enter__()
    Ends()(weft.ones(2))
    assert names(g) == ["ones", "Ends"] and g[1].time is None


@pytest.mark.parametrize("begins", [True, False])
def test_it_begins_or_ends_in_a_hook(begins: bool) -> None:
    """Guards of the mode bring its bit back, or take it away."""
    scope, graphs = weft.record(), []
    if not begins:
        graphs.append(scope.__enter__())
    y = weft.ones(2, requires_grad=True) * 2

    def hook(grad: Any) -> None:
        if begins:
            graphs.append(scope.__enter__())
        else:
            scope.__exit__(None, None, None)

    y.register_hook(hook)
    y.sum().backward()
    weft.ones(2)
    if begins:
        scope.__exit__(None, None, None)
    assert "mul" in names(graphs[0]) and str(graphs[0])


def test_a_generator_that_another_thread_closes() -> None:
    """The log was freed while its thread went on writing there: a crash."""

    def generator() -> Iterator[Any]:
        with weft.record() as g:
            yield g

    it = generator()
    g = next(it)
    weft.ones(1)
    thread = threading.Thread(target=it.close)
    thread.start()
    thread.join()
    assert names(g) == ["ones"]
    del it, g
    gc.collect()
    for _ in range(100):
        weft.ones(3) * 2


def test_one_object_twice_and_ends_out_of_order() -> None:
    scope = weft.record()
    with scope as outer:
        with scope as inner:
            weft.ones(1)
        weft.zeros(1)
    assert (names(outer), names(inner)) == (["ones", "zeros"], ["ones"])
    a, b = weft.record(), weft.record()
    first, second = a.__enter__(), b.__enter__()
    a.__exit__(None, None, None)
    weft.ones(1)
    b.__exit__(None, None, None)
    assert (names(first), names(second)) == ([], ["ones"])


@pytest.mark.parametrize("last", [0, 1, 2])
def test_it_ends_in_an_example(last: int) -> None:
    """The others, which wait, have the watcher among their surroundings."""
    scope = weft.record()
    g = scope.__enter__()

    def one(x: Any) -> float:
        (x * 2).sum().item()
        if weft.batching.current_example() == last:
            scope.__exit__(None, None, None)
        return (x * 3).sum().item()

    assert weft.autobatch(one, adaptive=False)([weft.ones(2)] * 3) == [6, 6, 6]
    size = len(g)
    weft.ones(1)
    assert len(g) == size > 0


def test_a_model_may_hold_its_graph() -> None:
    """A log without a way for the collector kept the modules that it names for good."""

    class Twice(weft.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    model = Twice()
    with weft.record() as g:
        model(weft.ones(1))
    model.trace = g
    alive = weakref.ref(model)
    del model, g
    gc.collect()
    assert alive() is None


def test_the_graph_of_views_that_were_written() -> None:
    """Their nodes are made anew later than those that read them."""
    w = weft.ones(6, requires_grad=True)
    a = w * 2
    v = a[1:3]
    v.mul_(3)
    assert names(weft.graph(v.sum())) == ["mul", "CopySlices", "as_strided", "sum"]
    a = w * 2
    v = a[1:]
    a.mul_(2)
    assert names(weft.graph(v.sum())) == ["mul", "mul", "as_strided", "sum"]


def test_one_graph_does_not_take_anothers_values() -> None:
    w = weft.ones(3, requires_grad=True)
    with weft.record() as g:
        loss = (w * 2).sum()
    after = weft.graph(loss)
    assert names(g.path(w, loss)) == names(after.path(w, loss)) == ["mul", "sum"]


def test_many_operands() -> None:
    """They were counted in 16 bits."""
    with weft.record() as g:
        weft.cat([weft.ones(1)] * 65540)
    assert len(g[-1].inputs) == 65540


def test_what_only_shows_another_value_has_not_written_it() -> None:
    with weft.record() as g:
        x = weft.ones(6)
        shown, same = x.reshape(2, 3), x.contiguous()
        y = x[1:] + 1
    assert g.path(shown, y) == [] and same is x
    assert names(g.path(x, y)) == ["ones", "slice", "add"]


def test_samples_are_of_all_columns() -> None:
    """At a distance that the width divides, one column was looked at."""
    x = weft.zeros(2048, 512)
    x[:, 1:] = float("nan")
    with weft.record(statistics=True) as g:
        x * 1
    found = g[0].outputs[0].statistics
    assert found is not None and found["counted"] <= 256 and found["nan"] > 250
    with weft.record(statistics=True) as g:
        weft.full((3,), float("inf")) * 1
        weft.ones(3).long()
    assert g[1].outputs[0].statistics["mean"] != g[1].outputs[0].statistics["mean"]  # nan
    assert names(g.find(inf=False)) == ["ones"] and names(g.find(inf=True)) == ["full", "mul"]
    with weft.record(statistics=True) as empty:
        pass
    assert empty.find(nan=True) == []


def test_memory_that_went_before_an_inner_scope_is_not_its() -> None:
    with weft.record():
        x = weft.ones(1 << 20) * 2
        del x
        with weft.record() as g:
            weft.ones(1 << 16) * 2
    assert all(
        size < 1 << 20 for line, size, _ in g.memory().lines if line.endswith(("ones", "mul"))
    )
    assert sum(size for _, size, _ in g.memory().lines) == g.memory().peak


def test_of_other_dtypes_there_are_no_statistics() -> None:
    """Of ints there were zeros."""
    with weft.record(statistics=True) as g:
        weft.arange(1, 6) * 2
        weft.zeros(2, dtype=weft.complex64) * 1
        weft.ones(2) * 1
    assert [e.outputs[0].statistics is None for e in g.find("mul")] == [True, True, False]
