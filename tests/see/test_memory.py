"""`g.memory()` and `weft.memory`: bytes by kind and line, the peak, snapshots."""

import gc
import pathlib
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest

import weft
from weft import _C, nn

MODELS: dict[str, Any] = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)),
        weft.ones(64, 256),
    ),
    "images": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.Flatten()
        ),
        weft.ones(4, 3, 20, 20),
    ),
    "transformer": lambda: (nn.TransformerEncoderLayer(64, 4, 128), weft.ones(16, 4, 64)),
    "lstm": lambda: (nn.LSTM(64, 96), weft.ones(20, 8, 64)),
}


def train(model: Any, x: Any, optimizer: Any) -> None:
    out = model(x)
    loss = (out[0] if isinstance(out, tuple) else out).pow(2).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_the_peak_is_the_allocators(name: str, kind: str) -> None:
    """Within 5 %, which is what kernels take for themselves between two events."""
    model, x = MODELS[name]()
    optimizer = getattr(weft.optim, kind)(model.parameters(), lr=1e-3)
    for _ in range(2):
        train(model, x, optimizer)
    gc.collect()
    _C._reset_peak_memory()
    with weft.record() as g:
        train(model, x, optimizer)
    actual = weft.memory.peak()
    assert g.memory().peak == pytest.approx(actual, rel=0.05)


@pytest.mark.parametrize("name", MODELS)
def test_kinds(name: str) -> None:
    """Parameters, gradients and Adam's two moments are what they are, at the end of a step."""
    model, x = MODELS[name]()
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-3)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    for fresh in (True, False):
        with weft.record() as g:
            out = model(x)
            loss = (out[0] if isinstance(out, tuple) else out).pow(2).sum()
            forward = g[-1]
            loss.backward()
            optimizer.step()
        use = weft.memory.usage(g)
        after = use.kinds_at()
        assert after["parameters"] == size, fresh
        assert after["gradients"] == pytest.approx(size, rel=0.02)
        assert 2 * size <= after["optimizer state"] <= 2 * size + 4096
        before = use.kinds_at(forward)
        assert before["activations"] > 0
        assert before["parameters"] == size
        # those of the step before are seen when backward adds to them, and the moments in the step
        assert before["gradients"] == before["optimizer state"] == 0
        if not fresh:
            assert before["unseen"] - after["unseen"] == pytest.approx(3 * size, rel=0.05)
        del out, loss
    assert sum(use.kinds.values()) >= use.peak
    assert [kind in str(use) for kind in ("parameters", "activations")] == [True, True]
    with weft.record() as other:
        weft.ones(1)
    with pytest.raises(ValueError, match="another's"):
        use.kinds_at(other[0])


def test_parameters_that_an_op_wrote() -> None:
    """They were "other" from then on, as the value that names them is an older one."""
    layer = nn.Linear(100, 100)
    with weft.record() as g:
        layer(weft.ones(2, 100)).sum().backward()
        with weft.no_grad():
            for p in layer.parameters():
                p -= 0.1 * p.grad
    use = g.memory()
    assert use.kinds_at()["parameters"] == 4 * (100 * 100 + 100)
    assert ("parameters", 40400, 2) in use.lines_at()
    assert ("parameters", 40400, 2) in use.lines


def test_parameters_made_while_recording() -> None:
    with weft.record() as g:
        layer = nn.Linear(50, 50)
        layer(weft.ones(2, 50))
    assert g.memory().kinds_at()["parameters"] == 4 * (50 * 50 + 50)


def test_a_storage_that_another_thread_frees_is_gone() -> None:
    with weft.record() as g:
        held = [weft.ones(1 << 16)]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        weft.ones(1)
    assert all(size < 1 << 18 for line, size, _ in g.memory().lines_at() if line != "unseen")


def test_the_peak_may_be_at_a_begin() -> None:
    """The page said that it was at an end."""
    with weft.record() as g:
        weft.ones(1)
        x = _C._aside(weft.ones, 1 << 20)  # no event has it at its end
        with weft.profiler.record_function("frees"):
            del x
    use = g.memory()
    assert use.at is not None and use.at.name == "frees" and use.at_begin
    assert "at the peak, at the begin of <" in str(use)


def test_lines_add_up() -> None:
    model, x = MODELS["mlp"]()
    with weft.record() as g:
        model(x).sum().backward()
    use = g.memory()
    assert sum(size for _, size, _ in use.lines) == use.peak == sum(use.kinds.values())
    for event in (None, g[0], g[-1], use.at):
        whole = int(use.bytes[event.number if event else len(g) - 1])
        assert sum(size for _, size, _ in use.lines_at(event)) == whole
        assert sum(use.kinds_at(event).values()) == whole


def test_counts_of_the_allocator() -> None:
    before = weft.memory.allocated()
    weft.memory.reset_peak()
    x = weft.ones(1 << 18)
    y = weft.ones(1 << 18)
    del y
    assert weft.memory.allocated() - before == 1 << 20
    assert weft.memory.peak() - before == pytest.approx(1 << 21, abs=64)
    assert x.numel()


def test_what_was_freed_is_cached() -> None:
    """In a process of its own, whose cache is not full; where it is off, nothing is."""
    program = (
        "import weft; y = weft.ones(1 << 18); at, before = y.data_ptr(), weft.memory.cached(); "
        "del y; kept = weft.memory.cached() - before; z = weft.ones(1 << 18); "
        "print(kept >= 1 << 20 if z.data_ptr() == at else kept == 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def make(n: int) -> Any:
    return weft.ones(n) * 2


def test_snapshots(torch: Any, tmp_path: pathlib.Path) -> None:
    """PyTorch's own viewer reads them: sums, the trace, and the page."""
    from torch.cuda import _memory_viz

    with weft.record(stacks=True) as g:
        kept = [make(1 << 12) for _ in range(3)]
        kept.pop(0)
    path = tmp_path / "step.pickle"
    weft.memory.dump_snapshot(g, path)
    data = pickle.loads(path.read_bytes())
    trace = [e for e in data["device_traces"][0] if e["size"] == 4 << 12]
    actions = [e["action"] for e in trace]
    assert actions.count("alloc") == 6
    assert actions.count("free_requested") == actions.count("free_completed") == 4
    live: set[int] = set()
    for entry in trace:
        if entry["action"] == "alloc":
            assert entry["addr"] not in live
            live.add(entry["addr"])
        elif entry["action"] == "free_completed":
            live.remove(entry["addr"])
    blocks = [b for s in data["segments"] for b in s["blocks"]]
    assert live == {b["address"] for b in blocks}
    assert {b["size"] for b in blocks} == {4 << 12}
    assert {k.data_ptr() for k in kept} == live
    names = [f["name"] for f in trace[0]["frames"]]
    assert names[:2] == ["make", "<listcomp>"] or names[:2] == ["make", "test_snapshots"]
    assert trace[0]["frames"][0]["filename"] == __file__
    times = [e["time_us"] for e in trace]
    assert times == sorted(times)
    assert "32.0KiB" in _memory_viz.segsum(data)
    assert "16.0KiB" in _memory_viz.trace(data)
    assert "script" in _memory_viz.trace_plot(data)
    with weft.record() as plain:
        weft.ones(3)
    (entry,) = weft.memory.snapshot(plain)["device_traces"][0][:1]
    assert [f["name"] for f in entry["frames"]] == ["test_snapshots"]
