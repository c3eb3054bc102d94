"""`weft.record`: laws over every op, then what a graph answers about programs."""

import gc
import itertools
import random
import re
import sys
import threading
import tracemalloc
from collections import Counter
from typing import Any

import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, ours

import weft
from weft import _C, see
from weft.base.modes import WATCH
from weft.see.text import Item, Roller


def bits(results: Any) -> list[Any]:
    return [repr(r.tolist()) + str(r.dtype) if isinstance(r, weft.Tensor) else r for r in results]


@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_a_recorded_call_computes_the_same_and_shows(name: str, sample: str) -> None:
    """Values to the bit, and an event with the op's name, its inputs' and its results' shapes."""
    record = RECORDS[name]
    f = ours(record)
    weft.manual_seed(0)
    plain = Inputs(weft, "float32", sample, grad=record["differentiable"])
    expected = plain.run(f, sample)
    weft.manual_seed(0)
    again = Inputs(weft, "float32", sample, grad=record["differentiable"])
    with weft.record(statistics=True) as g:
        got = again.run(f, sample)
    if not record["public_name"].startswith("empty"):
        assert bits(got) == bits(expected)
    assert _C._Log.running() is None
    if not got:
        return
    calls = g.find(record["public_name"], where=lambda e: e.kind == "call") or g.find(
        f"{record['public_name']}_", where=lambda e: e.kind == "call"
    )
    assert calls or record["public_name"].startswith("_"), [e.name for e in g]
    for result in got:
        if not isinstance(result, weft.Tensor) or g._tables.log.number(result) is None:
            continue
        value = see.Value(g, g._number(result))
        assert (value.shape, value.dtype) == (tuple(result.shape), result.dtype)
        # A dim of one place has any stride: what is contiguous is told as such.
        steps = zip(value.strides, result.stride(), result.shape, strict=True)
        assert result.numel() == 0 or all(ours == its for ours, its, n in steps if n > 1)
        assert value.requires_grad == result.requires_grad


class Cell(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = weft.nn.Linear(4, 4)

    def forward(self, x: Any, h: Any) -> Any:
        return (self.mix(x) + h).tanh()


class Walk(weft.nn.Module):
    """A loop over the input, and a branch on its values."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()
        self.out = weft.nn.Linear(4, 1)

    def forward(self, xs: Any) -> Any:
        h = weft.zeros(4)
        for x in xs:
            h = self.cell(x, h)
            if x[0] > 0:
                h = h * 2
        return self.out(h)


def test_forward_and_backward_of_a_model() -> None:
    model = Walk()
    xs = weft.tensor([[1.0, 2, 3, 4], [-1, 2, 3, 4], [-2, 2, 3, 4]])
    with weft.record() as g:
        loss = model(xs).sum()
        loss.backward()
    linears = g.find("linear")
    assert [e.module for e in linears] == ["cell.mix"] * 3 + ["out"]
    assert [v.name for v in linears[0].inputs if v] == [None, "cell.mix.weight", "cell.mix.bias"]
    assert linears[0].line.startswith("test_record.py:") and "self.mix(x)" in linears[0].site.source
    assert linears[0].saved == linears[0].inputs[:2]
    assert [e.shape for e in g.find("Cell")] == [None] * 3
    tanh = g.find("tanh")[0]
    assert tanh.saved == tanh.outputs  # what its gradient is made of
    nodes = g.find("TanhBackward0")
    assert [n.forward for n in nodes] == g.find("tanh")[::-1]
    assert all(n.line == tanh.line and n.backward for n in nodes)
    assert g.find(backward=True, op="mm") == [e for e in g if e.name == "mm"]
    assert len(g.find("mul", line=tanh.site.file, backward=False)) == 1  # the branch was taken once
    passes = [e for e in g if e.kind == "backward"]
    assert len(passes) == 1 and passes[0].time >= sum(n.time for n in nodes) > 0
    assert passes[0].own_time <= passes[0].time


def test_paths_lead_from_parameters_and_inputs_to_the_loss() -> None:
    model, xs = Walk(), weft.ones(2, 4)
    with weft.record() as g:
        loss = model(xs).sum()
        other = weft.ones(3)
    names = [e.name for e in g.path(model.cell.mix.bias, loss)]
    assert names[0] == "linear" and names[-2:] == ["linear", "sum"]
    assert g.path(xs, loss)[0].name in ("select", "unbind")
    assert g.path(loss, xs) == []
    assert g.path(g.find("ones")[-1], loss) == [] and g.path(other, other) == g.find("ones")[-1:]
    with pytest.raises(ValueError, match=r"\[path\] expected a tensor that the graph has seen"):
        g.path(weft.ones(1), loss)
    with weft.record() as h:
        model(xs)
    with pytest.raises(ValueError, match="of this graph, got another's"):
        g.path(h[0], loss)


def test_values_are_told_apart_where_memory_is_shared() -> None:
    x = weft.ones(4)
    with weft.record() as g:
        view = x[1:]
        x.mul_(3)  # what view shows is of mul_ from here on
        a = view + 1
        b = a.detach() * 2  # another tensor over a's memory
    assert [e.name for e in g.path(g.find("mul_")[0], a)] == ["mul_", "add"]
    assert [e.name for e in g.path(a, b)] == ["add", "mul"]
    assert g.find("mul_")[0].inputs[0].event is None
    assert g.find("mul_")[0].outputs[0] != g.find("mul_")[0].inputs[0]


def test_memory_that_is_used_again_is_another_value() -> None:
    with weft.record() as g:
        for _ in range(50):
            y = weft.ones(8) * 2
            del y
            z = weft.tensor([1.0]) + 1  # made by no call, maybe where a dead one was
    for e in g.find("add"):
        assert e.inputs[0].event is None, e
    assert z.item() == 2


def test_find() -> None:
    with weft.record(statistics=True) as g:
        a = weft.ones(2, 3, 4)
        bad = (a - 1).log() * 0
        a.sum(dim=-1)
    assert [e.name for e in g.find(shape=(2, 3))] == ["sum"]
    assert [e.name for e in g.find(shape=(2, ...))] == ["ones", "sub", "log", "mul", "sum"]
    assert [e.name for e in g.find(shape=(None, 3, ...))] == [
        e.name for e in g.find(shape=(2, ...))
    ]
    assert [e.name for e in g.find(shape=(..., 3))] == ["sum"] and g.find(shape=()) == []
    assert [e.name for e in g.find(nan=True)] == ["mul"]
    assert [e.name for e in g.find(inf=True)] == ["log"]
    assert g.find(inf=True)[0].outputs[0].statistics["inf"] == 24
    assert g.find(nan=True)[0].outputs[0].statistics["nan"] == 24
    assert [e.name for e in g.find("s*")] == ["sub", "sum"]
    line = g.find("log")[0].site.line
    assert [e.name for e in g.find(line=line)] == ["sub", "log", "mul"]
    assert g.find(line=f"test_record.py:{line}") == g.find(line=line)
    assert g.find(line="no.py") == [] and len(g.find(line="test_record.py")) == 5
    assert g.find(where=lambda e: e.dtype == weft.float64) == []
    assert bad.isnan().all()
    with weft.record() as h:
        weft.ones(1)
    with pytest.raises(ValueError, match=r"weft\.record\(statistics=True\)"):
        h.find(nan=True)


def test_a_difference_names_branches_lengths_shapes_and_modules() -> None:
    model = Walk()

    def run(*firsts: float) -> see.Graph:
        with weft.record() as g:
            model(weft.tensor([[f, 0.0, 0, 0] for f in firsts]))
        return g

    a, b = run(-1, -1), run(-1, 1, -1)
    assert not a.diff(run(-1, -1)) and str(a.diff(a)) == "no difference in structure"
    d = a.diff(b)
    assert [(op, n) for (_, _, op), n in d.only_second.items()] == [("mul", 1)]
    assert d.counts[next(k for k in d.counts if k[2] == "linear")] == (2, 3)
    assert d.only_first == {} and d.modules == ([], [])
    model.cell.mix = weft.nn.Sequential(weft.nn.Linear(4, 4), weft.nn.Linear(4, 4))
    assert a.diff(run(-1, -1)).modules == ([], ["cell.mix.0", "cell.mix.1"])
    with weft.record() as c:
        Walk()(weft.ones(2, 4))
    assert "×1: " not in str(a.diff(c)) and "mul at test_record.py" in str(a.diff(c))


def test_the_peak_is_what_the_allocator_says() -> None:
    model = weft.nn.Sequential(*[weft.nn.Linear(256, 256) for _ in range(4)])
    x = weft.ones(512, 256)
    model(x).sum().backward()  # gradients are there from now on
    gc.collect()
    _C._reset_peak_memory()
    with weft.record() as g:
        y = x
        for layer in model:
            y = layer(y).relu()
        y.sum().backward()
    use, peak = g.memory(), _C._memory_stats()["peak"]
    assert abs(use.peak - peak) <= 0.05 * peak
    assert sum(b for _, b, _ in use.lines) == use.peak
    assert [n for _, b, n in use.lines if b == 4 * 512 * 256 * 4] == [4]  # what relu saved
    assert str(use).startswith(f"{use.peak / 1e6:.3g} MB at the peak, at the end of <")
    assert weft.graph(model(x).sum()).memory().peak == 0


def test_errors_end_events_and_recording() -> None:
    model = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.Linear(3, 2))
    with pytest.raises(RuntimeError), weft.record() as g:
        model(weft.ones(1, 3))
    assert [(e.name, e.failed) for e in g][1:] == [
        ("Sequential", True), ("Linear", False), ("linear", False),
        ("Linear", True), ("linear", True),
    ]  # fmt: skip
    assert "linear FAILED" in str(g)
    assert _C._Log.running() is None
    with weft.record() as h:
        with pytest.raises(ZeroDivisionError):
            weft.ones(1).register_hook  # noqa: B018
            raise ZeroDivisionError
        weft.ones(2)
    assert [e.name for e in h] == ["ones", "ones"]


def test_scopes_within_scopes() -> None:
    with weft.record() as g:
        x = weft.ones(2)
        with weft.record() as h:
            y = x * 2
        assert [e.name for e in g] == ["ones", "mul"]  # also while it grows
        z = y + 1
    assert [e.name for e in h] == ["mul"] and [e.name for e in g] == ["ones", "mul", "add"]
    assert h[0].inputs[0].event is None and g[1].inputs[0].event == g[0]
    assert g.path(x, z) == list(g)
    with weft.record(times=False) as outer:
        weft.ones(1)
        with weft.record(statistics=True) as inner:
            weft.ones(1)
        weft.ones(1)
    assert [e.outputs[0].statistics is None for e in outer] == [True, False, True]
    assert [e.time is None for e in outer] == [True, False, True]
    assert len(inner.find(nan=False)) == 1
    with weft.record(times=False) as t:
        weft.ones(1)
    assert t[0].time is None and t[0].own_time is None


def test_modes_that_change_inside_do_not_end_it() -> None:
    context = weft.no_grad()
    context.__enter__()
    with weft.record() as g:
        weft.ones(1)
        context.__exit__(None, None, None)
        with weft.inference_mode():
            weft.zeros(1)
        weft.set_grad_enabled(True)
        weft.full((1,), 2)
    assert [e.name for e in g] == ["ones", "zeros", "full"]
    assert not _C._mode() & WATCH


def test_a_recording_is_its_threads() -> None:
    def other() -> None:
        weft.zeros(1)

    with weft.record() as g:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        weft.ones(1)
    assert [e.name for e in g] == ["ones"]


def test_under_autobatch_the_batches_show() -> None:
    model = Walk()
    examples = [weft.randn(n, 4) for n in (1, 3, 2, 4)]
    expected = [model(x) for x in examples]
    batched = weft.autobatch(model, adaptive=False)
    with weft.record() as g:
        got = batched(examples)
        weft.stack(got).sum().backward()
    weft.testing.assert_close(got, expected)
    flushes = [e for e in g if e.kind == "flush"]
    assert any(e.parent in flushes for e in g.find("linear"))
    rows = [e.outputs[0].shape[0] for e in g.find("linear")]
    assert sum(rows) == 4 + 10 and len(rows) < 14
    assert "self.mix(x)" in g.find("linear")[0].site.source
    assert len(g.find("Cell")) == 10 and _C._Log.running() is None


def test_a_recording_inside_of_an_example_is_its_own() -> None:
    seen: list[list[str]] = []

    def one(x: Any) -> Any:
        if x[0] == 2:
            with weft.record() as g:
                y = (x * 2).sum()
                y.item()  # waits: others run
            seen.append([e.name for e in g if e.kind == "call"])
        return (x * 3).sum().item()

    assert weft.autobatch(one, adaptive=False)([weft.ones(2) * k for k in (1, 2, 3)]) == [6, 12, 18]
    assert len(seen) == 1 and _C._Log.running() is None


def test_custom_functions_optimizers_and_names() -> None:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    w = weft.nn.Parameter(weft.ones(3))
    optimizer = weft.optim.Adam([w])
    with weft.record() as g:
        Double.apply(w).sum().backward()
        optimizer.step()
    assert [e.kind for e in g.find("Double")] == ["function"]
    assert [c.name for c in g.find("Double")[0].children] == ["mul"]
    assert len(g.find("DoubleBackward")) == 1
    assert [e.kind for e in g.find("adam")] == ["step"]


def test_the_graph_behind_tensors() -> None:
    model, xs = Walk(), weft.ones(2, 4)
    loss = model(xs).sum()
    g = weft.graph(loss)
    assert [e.name for e in g] == ["linear", "add", "tanh", "mul"] * 2 + ["linear", "sum"]
    assert all(e.line.startswith("test_record.py:") for e in g) and g[-1].time is None
    assert g.path(model.cell.mix.weight, loss)[-1].name == "sum"
    assert g[2].saved == g[2].outputs
    assert g[0].shape == (4,) and g[1].inputs[1] is None  # zeros are no part of the graph
    assert len(weft.graph(weft.ones(2))) == 0
    both = weft.graph(loss, (model.out.weight * 2).exp())
    assert len(both) == len(g) + 2
    assert not weft.graph(loss).diff(g)
    with pytest.raises(TypeError, match=r"\[graph\] expected tensors, got none"):
        weft.graph()
    with pytest.raises(TypeError, match="got int"):
        weft.graph(3)


def test_nothing_is_held_afterwards() -> None:
    def once() -> None:
        with weft.record(statistics=True) as g:
            model = Walk()
            model(weft.ones(3, 4)).sum().backward()
            str(g)

    once()
    gc.collect()
    tensors = _C._memory_stats()["current"]
    tracemalloc.start()
    for _ in range(3):
        once()
    gc.collect()
    once_more = tracemalloc.get_traced_memory()[0]
    for _ in range(20):
        once()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - once_more
    tracemalloc.stop()
    assert _C._memory_stats()["current"] == tensors and grown < 20_000


def runs(items: list[Item]) -> Counter[str]:
    """How often each label ran, of rolled items."""
    out: Counter[str] = Counter()
    for item in items:
        out[item.label] += item.runs
        out += runs(item.inside)
    return out


def test_what_is_rolled_up_loses_nothing() -> None:
    rolled_up = 0
    for seed in range(300):
        rng = random.Random(seed)
        labels = []
        for _ in range(rng.randint(0, 6)):
            piece = [rng.choice("abc") for _ in range(rng.randint(1, 4))]
            labels += piece * rng.randint(1, 5)
        roller = Roller()
        items = [roller.item(label, "", 1.0, ((k, k),), []) for k, label in enumerate(labels)]
        rolled = roller.roll(items)
        found = runs(rolled)
        rolled_up += found.pop("", 0) > 0
        assert found == Counter(labels), (seed, labels)
        assert abs(sum(i.time for i in rolled) - len(labels)) < 1e-9
        assert not any(a.number == b.number for a, b in itertools.pairwise(rolled))
    assert rolled_up > 100


def test_the_text_rolls_loops_up_and_shows_ranges() -> None:
    with weft.record() as g:
        for n in (1, 5, 3):
            weft.ones(n).exp()
    first, loop, ones, exp = str(g).splitlines()
    assert first == "6 calls" and loop.split()[0] == "×3:"
    assert ones.startswith("    ones -> [1–5]") and exp.startswith("    exp -> [1–5]")
    assert g.text(depth=1) == str(g)  # a loop is no level
    timed, bare = g.text(lines=False), g.text(times=False, lines=False)
    assert ".py:" not in timed and timed != bare
    lines = g.text(times=False).splitlines()[1:]  # they went with the times
    assert [line.split("  test_record.py:")[0].rstrip() for line in lines] == bare.splitlines()[1:]
    assert sum("test_record.py:" in line for line in lines) == 2
    assert repr(g) == "<weft.see.Graph of 6 events>" and len(g[1:3]) == 2
    with pytest.raises(IndexError):
        g[6]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: g.find(op=3), "[find] expected op as str or None, got int"),
        (lambda g: g.find(module=3), "[find] expected module as str or None, got int"),
        (lambda g: g.find(line=1.5), "[find] expected line as str or int or None, got float"),
        (lambda g: g.find(shape=3), "[find] expected shape as Sequence or None, got int"),
        (lambda g: g.find(where=3), "[find] expected where as Callable or None, got int"),
        (lambda g: g.path(g[0], 3), "[path] expected events, values or tensors, got int"),
        (lambda g: g.find(nan=3), "[find] expected nan as bool or None, got int"),
        (
            lambda g: g.find(shape=(2.5,)),
            "[find] expected sizes, None and `...` in shape, got (2.5,)",
        ),
        (lambda g: g["a"], "[Graph] expected index as int or slice, got str"),
        (lambda g: g[1.5], "[Graph] expected index as int or slice, got float"),
        (lambda g: g.text(depth="a"), "[text] expected depth as int or None, got str"),
        (lambda g: g.memory().kinds_at(5), "[memory] expected event as Event, got int"),
        (lambda g: g.memory().lines_at(5), "[memory] expected event as Event, got int"),
        (lambda g: g.diff(3), "[diff] expected other as Graph, got int"),
        (lambda g: weft.memory.usage(3), "[memory.usage] expected graph as Graph, got int"),
        (lambda g: weft.memory.snapshot(3), "[memory.snapshot] expected graph as Graph, got int"),
    ],
)
def test_arguments_of_other_types_are_named(call: Any, words: str) -> None:
    with weft.record() as g:
        weft.ones(2)
    with pytest.raises(TypeError) as failed:
        call(g)
    assert str(failed.value) == words


def test_a_recording_that_was_not_entered_cannot_end() -> None:
    with pytest.raises(RuntimeError, match=r"^\[record\] expected a scope that was entered"):
        weft.record().__exit__(None, None, None)


def test_a_difference_names_the_outermost_module() -> None:
    with weft.record() as a:
        weft.ones(2)
    with weft.record() as b:
        weft.nn.Linear(2, 2)(weft.ones(2))
    assert a.diff(b).modules == ([], ["Linear"])
    assert "module in the second alone: Linear\n" in f"{a.diff(b)}\n"


class Chain(weft.nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: weft.Tensor) -> Any:
        return x + 1 if self.inner is None else self.inner(x) + 1


def test_a_deep_graph_prints_where_it_repeats() -> None:
    """Alike pieces were joined by recursion, and N levels took N * N characters of indentation."""
    model = Chain(None)
    for _ in range(599):
        model = Chain(model)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        with weft.record() as g:
            for _ in range(2):
                model(weft.ones(2))
    finally:
        sys.setrecursionlimit(limit)
    text = str(g)
    lines = text.splitlines()
    assert lines[0] == "1202 calls, 1200 of modules" and lines[1].split()[0] == "×2:"
    assert lines[3].split()[0] == "Chain" and lines[4].split()[:2] == ["inner:", "Chain"]
    assert "\n" + " " * 80 + "41 …" in text
    assert len(text) < 400 * len(lines)


def test_times_and_lines_of_a_text_go_apart() -> None:
    """Without times the lines were missing too."""
    with weft.record() as g:
        weft.ones(2) * 2
    times, lines = r" +[\d.]+ [mun]?s", r" +test_record.py:\d+"
    for given in ({}, {"times": False}, {"lines": False}, {"times": False, "lines": False}):
        row = r"  mul -> \[2\]"
        row += times * given.get("times", True) + lines * given.get("lines", True)
        assert re.fullmatch(row, g.text(**given).splitlines()[-1])


def test_paths_of_a_deep_chain_look_at_each_module_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Chain(None)
    for _ in range(99):
        model = Chain(model)
    with weft.record() as g:
        model(weft.ones(2))
    looked, whole = [0], weft.nn.Module.named_modules

    def counted(*args: Any, **keywords: Any) -> Any:
        for found in whole(*args, **keywords):
            looked[0] += 1
            yield found

    monkeypatch.setattr(weft.nn.Module, "named_modules", counted)
    assert g.find("add")[0].module == ".".join(["inner"] * 99)
    assert looked[0] <= 400  # 5000 and more if each looks through all below it
