"""Where one is: the example that runs, frames in tracebacks, in debuggers and in reports."""

import gc
import sys
import traceback
import warnings
import weakref

import pytest

import weft

WEFT = weft.__path__[0]
WAYS = {
    "batched": {"adaptive": False},
    "in pieces": {"adaptive": False, "max_batch": 2},
    "adaptive": {},
    "streams": {"rng": "per_example"},
}


def reads(x: weft.Tensor) -> object:
    first = weft.batching.current_example()
    return first, x.sum().item(), weft.batching.current_example(), weft.batching.current_example(1)


@pytest.fixture(params=[True, False])
def enabled(request, monkeypatch):
    monkeypatch.setattr(weft.autobatch, "enabled", request.param)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_the_current_example_has_its_index_in_the_list(way, enabled) -> None:
    xs = [weft.full((1,), float(k)) for k in range(5)]
    for _ in range(20):  # the adaptive one changes its way meanwhile
        assert weft.autobatch(reads, **way)(xs) == [(k, float(k), k, None) for k in range(5)]
    assert weft.batching.current_example() is None


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_around_it_is_the_example_that_called(way, enabled) -> None:
    def outer(x):
        x.sum().item()
        inner = weft.autobatch(reads, **way)([x, x])
        return inner, weft.batching.current_example()

    results = weft.autobatch(outer, **way)([weft.ones(1)] * 3)
    assert results == [([(0, 1.0, 0, k), (1, 1.0, 1, k)], k) for k in range(3)]


def test_a_level_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="outer of at least 0"):
        weft.batching.current_example(-1)


def fails_at_once(x):
    return helper(x)


def helper(x):
    return x @ weft.ones(7)


def fails_when_read(x):
    row = weft.ones(3)[(x.sum() * 5).long()]
    return row.item()


def fails_at_the_end(x):
    return weft.nn.functional.embedding((x.sum() * 5).long(), weft.ones(3, 2))


FAILURES = {
    fails_at_once: ["fails_at_once", "helper"],
    fails_when_read: ["fails_when_read"],
    fails_at_the_end: [],
}


def frames_of(error: BaseException) -> list[traceback.FrameSummary]:
    return traceback.extract_tb(error.__traceback__)


@pytest.mark.parametrize("fn", FAILURES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_tracebacks_show_the_users_frames(fn, way) -> None:
    with pytest.raises((RuntimeError, IndexError)) as caught:
        weft.autobatch(fn, **way)([weft.ones(1)] * 3)
    frames = frames_of(caught.value)
    assert [f.name for f in frames][1:] == FAILURES[fn]
    assert all(not f.filename.startswith(WEFT) for f in frames)
    assert "in example 0 of 3" in caught.value.__notes__


def test_the_switch_shows_weft_too(monkeypatch) -> None:
    monkeypatch.setattr(weft.autobatch, "full_tracebacks", True)
    with pytest.raises(RuntimeError) as caught:
        weft.autobatch(fails_at_once)([weft.ones(1)])
    assert any(f.filename.startswith(WEFT) for f in frames_of(caught.value))


def test_an_interrupt_keeps_its_type_and_the_users_frames() -> None:
    def interrupted(x):
        x.item()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        weft.autobatch(interrupted, adaptive=False)([weft.ones(1)] * 3)
    assert [f.name for f in frames_of(caught.value)][1:] == ["interrupted"]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_debugger_sees_who_called_the_batch(way) -> None:
    stacks = []

    def stops(x):
        if x.item() > 0:
            stacks.append([f.f_code.co_name for f in frames_from(sys._getframe())])
        return x

    def caller_of_the_batch():
        return weft.autobatch(stops, **way)([weft.full((1,), float(k)) for k in range(3)])

    caller_of_the_batch()
    assert len(stacks) == 2
    for stack in stacks:
        assert stack[0] == "stops"
        assert "caller_of_the_batch" in stack
        assert "test_a_debugger_sees_who_called_the_batch" in stack


def frames_from(frame):
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_nested_batches_have_all_callers_around_them() -> None:
    def inner(x):
        x.item()
        return [f.f_code.co_name for f in frames_from(sys._getframe())]

    def outer(x):
        x.item()
        return weft.autobatch(inner, adaptive=False)([x, x])

    here = sys._getframe().f_code.co_name
    for stack in weft.autobatch(outer, adaptive=False)([weft.ones(1)] * 2)[1]:
        names = [name for name in stack if name in ("inner", "outer", here)]
        assert names == ["inner", "outer", here]


@pytest.mark.parametrize("fails", [False, True])
def test_frames_are_let_go_of(fails) -> None:
    class Local:
        pass

    def stops(x):
        if x.item() == 1 and fails:
            raise ValueError
        return x

    def caller():
        local = Local()
        try:
            weft.autobatch(stops, adaptive=False)([weft.zeros(1), weft.ones(1), weft.ones(1)])
        except ValueError:
            pass
        return weakref.ref(local)

    alive = caller()
    gc.collect()
    assert alive() is None


def test_reports_of_anomaly_mode_name_the_example() -> None:
    def root(x):
        return (x.sqrt() * 0).sum()

    leaves = [weft.tensor([float(k != 2)], requires_grad=True) for k in range(4)]
    with warnings.catch_warnings(record=True) as seen, pytest.raises(RuntimeError, match="nan"):
        warnings.simplefilter("always")
        with weft.autograd.detect_anomaly():
            sum(weft.autobatch(root)([x * 1 for x in leaves])).backward()
    report = next(str(w.message) for w in seen if "Traceback of forward call" in str(w.message))
    assert "in example 2\n" in report
    assert "in root" in report
