"""Spans of the user's in a recording, and products that the engine makes together."""

import re
import threading

import pytest

import weft
from weft import _C
from weft.see.events import Event
from weft.see.tables import KINDS


def test_the_docstring_of_a_kind_names_all() -> None:
    assert set(re.findall(r'"(\w+)"', Event.kind.__doc__ or "")) == set(KINDS)


def test_a_span_is_an_event_round_what_runs_in_it() -> None:
    with weft.record() as g, _C._Named("step"):
        weft.ones(2) + 1
        with _C._Named("inner"):
            weft.ones(2) * 2
    (step,) = g.find("step")
    assert (step.kind, [e.name for e in step.children]) == ("named", ["ones", "add", "inner"])
    assert step.time is not None and not step.failed
    with weft.record() as g, pytest.raises(ZeroDivisionError), _C._Named("step"):
        raise ZeroDivisionError
    assert g.find("step")[0].failed


def test_spans_that_begin_or_end_elsewhere() -> None:
    """One that a recording ends in or begins in is not of it; nothing is where nobody records."""
    span = _C._Named("step")
    with span:
        with weft.record() as g:
            weft.ones(2)
    assert [e.name for e in g] == ["ones"]
    with weft.record() as g:
        span.__enter__()
        weft.ones(2)
    span.__exit__(None, None, None)
    assert [e.name for e in g] == ["step", "ones"]
    with span, pytest.raises(RuntimeError, match="not open, got step"):
        span.__enter__()
    with pytest.raises(TypeError):
        _C._Named(3)
    assert _C._Log.running() is None


def test_spans_may_overlap() -> None:
    """The one that ends first leaves those inside of it open, which stood for none afterwards."""
    a, b = _C._Named("a"), _C._Named("b")
    with weft.record() as g:
        a.__enter__()
        b.__enter__()
        a.__exit__(None, None, None)
        weft.ones(2)
        b.__exit__(None, None, None)
        weft.zeros(2)
    assert [(e.name, e.parent and e.parent.name) for e in g] == [
        ("a", None), ("b", "a"), ("ones", None), ("zeros", None),
    ]  # fmt: skip


def test_products_show_where_they_are_asked_for() -> None:
    """A weight's gradient is made at once for all its uses; each use shows as the product it is."""
    w = weft.ones(3, 3, requires_grad=True)
    with weft.record() as g:
        h = weft.ones(2, 3)
        for _ in range(4):
            h = (h @ w).tanh()
        h.sum().backward()
    products = g.find("mm", backward=True)
    assert sorted(p.shape for p in products) == [(2, 3)] * 3 + [(3, 3)] * 4
    assert all(p.parent and p.parent.name == "MmBackward0" for p in products)
    made = g.find("sum of products")
    assert {m.kind for m in made} == {"function"}
    assert sorted(m.shape for m in made) == [(2, 3)] * 3 + [(3, 3)]
    assert sorted(len(m.inputs) for m in made) == [2, 2, 2, 8]
    assert g.flops == 36 * (4 + 7)


def test_a_storage_that_another_thread_frees() -> None:
    """It stayed alive in the recording, as the watcher is the thread's."""
    with weft.record() as g:
        held = [weft.ones(1 << 16)]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        weft.ones(1)
    assert g._tables.memories["freed"].tolist() == [0, 1]
