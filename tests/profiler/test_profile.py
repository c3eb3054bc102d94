"""`weft.profiler`: sums that add up, schedules as PyTorch's, traces, stacks, spans."""

import gzip
import itertools
import json
import pathlib
import re
from typing import Any

import pytest

import weft
from weft import nn
from weft.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)

MODEL = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def step() -> None:
    with record_function("forward"):
        loss = MODEL(weft.ones(2, 8)).sum()
    loss.backward()


@pytest.mark.parametrize("modules", [False, True])
@pytest.mark.parametrize("by", ["op", "module", "line", "batch"])
def test_own_times_add_up(by: str, modules: bool) -> None:
    """To the times of what is inside of nothing, whatever the groups; kernels are their part."""
    with profile(with_modules=modules, with_flops=True, profile_memory=True) as prof:
        for _ in range(3):
            step()
    sums = prof.key_averages(group_by=by)
    events = prof.events()
    outer = sum(e.cpu_time_total for e in events if e.cpu_parent is None)
    assert sums.self_cpu_time_total == pytest.approx(outer)
    assert events.self_cpu_time_total == pytest.approx(outer)
    assert sum(e.count for e in sums) == len(events)
    assert sum(e.flops for e in sums) == prof.graph.flops == sum(e.flops for e in events)
    assert all(0 <= e.self_cpu_time_total <= e.cpu_time_total * 1.001 for e in sums)
    kernels, around = sums._overhead  # type: ignore[misc]
    assert kernels + around == pytest.approx(outer)
    calls = [e for e in events if e.name not in ("forward", "backward", "Sequential")]
    leaves = [e for e in calls if prof.graph[e.id].kind == "call" and not e.cpu_children]
    assert len(leaves) > 9 and kernels == pytest.approx(sum(e.cpu_time_total for e in leaves))
    assert ("Sequential" in {e.key for e in events}) == modules


def test_counts_and_keys() -> None:
    with profile() as prof:
        for _ in range(3):
            step()
    counts = {e.key: e.count for e in prof.key_averages()}
    assert (counts["aten::linear"], counts["forward"], counts["AddmmBackward0"]) == (6, 3, 6)
    by_module = {e.key: e for e in prof.key_averages(group_by="module")}
    assert by_module["0"].count == 3 * 4  # linear, its node, and the mm and sum in that
    by_line = {e.key: e for e in prof.key_averages(group_by="line")}
    assert any(key.startswith("test_profile.py:") for key in by_line)
    with pytest.raises(ValueError, match="group_by"):
        prof.key_averages(group_by="colour")


def test_batches() -> None:
    """What ran together under autobatch, flush by flush."""
    cell = nn.GRUCell(4, 4)

    def loss(n: int) -> Any:
        h = weft.zeros(4)
        for _ in range(n):
            h = cell(weft.ones(4), h)
        return h.sum()

    with profile() as prof:
        weft.stack(weft.autobatch(loss)([3, 4, 5, 6, 7, 8])).sum().backward()
    keys = [e.key for e in prof.key_averages(group_by="batch")]
    assert "no batch" in keys
    assert any(key.startswith("batches 1: ") for key in keys)


def test_memory_and_shapes() -> None:
    with profile(profile_memory=True, record_shapes=True) as prof:
        kept = [weft.ones(1 << n) for n in (10, 12, 12)]
        del kept[0]
    (total,) = prof.key_averages()
    assert total.cpu_memory_usage == total.self_cpu_memory_usage == 4 * (1024 + 2 * 4096)
    x = weft.ones(2, 3)
    with profile(record_shapes=True) as prof:
        x @ weft.ones(3, 4)
        x + x
        x[0] + x[0]
    shapes = [e.input_shapes for e in prof.key_averages(True) if e.key == "aten::add"]
    assert shapes == [[[2, 3], [2, 3]], [[3], [3]]]
    assert [e.input_shapes for e in prof.key_averages() if e.key == "aten::add"] == [[]]
    with profile() as prof:
        x + x
    assert prof.key_averages(group_by_input_shape=True)[0].input_shapes == []


def test_tables(torch: Any) -> None:
    """Columns, order and limits; numbers are printed as PyTorch prints them."""
    from torch.autograd import profiler_util

    from weft.profiler.tables import format_memory, format_time

    for value in (0.0, 0.4, 12.3456, 999.9996, 1000.0, 12345.6, 1e6, 98765432.1):
        assert format_time(value) == profiler_util._format_time(value)
        assert format_memory(int(value * 100)) == profiler_util._format_memory(int(value * 100))
    with profile(profile_memory=True, with_flops=True, record_shapes=True, with_stack=True) as ours:
        step()
    with torch.profiler.profile(
        profile_memory=True, with_flops=True, record_shapes=True, with_stack=True
    ) as theirs:
        model = torch.nn.Linear(8, 16)
        model(torch.ones(2, 8)).sum().backward()
    head, expected = (
        re.split(r"\s{2,}", p.key_averages(True, 2).table().splitlines()[1].strip())
        for p in (ours, theirs)
    )
    assert [h for h in head if h != "Source Location"][:-1] == expected[:-1]
    assert re.fullmatch("Total [KM]?FLOPs", head[-1])
    sums = ours.key_averages()
    for sort_by in ("cpu_time_total", "self_cpu_time_total", "count", "cpu_memory_usage", "flops"):
        rows = sums.table(sort_by=sort_by, row_limit=4).splitlines()
        assert len(rows) == 3 + 4 + 3
        names = [re.split(r"\s{2,}", row.strip())[0] for row in rows[3:7]]
        values = [next(getattr(e, sort_by) for e in sums if e.key == n) for n in names]
        assert values == sorted((getattr(e, sort_by) for e in sums), reverse=True)[:4]
    assert "ms" in sums.table(time_unit="ms")
    assert sums.table(header="Title").splitlines()[1] == "Title"
    outer = ours.events().table(top_level_events_only=True).splitlines()
    assert [line.split()[0] for line in outer if "%" in line] == ["Name", "forward", "backward"]
    assert sums.total_average().count == len(ours.events())
    with pytest.raises(ValueError, match="time_unit"):
        sums.table(time_unit="h")
    with pytest.raises(AttributeError):
        sums.table(sort_by="colour")


def actions(lib: Any, **given: int) -> list[str]:
    plan = lib.profiler.schedule(**given)
    return [plan(i).name for i in range(14)]


@pytest.mark.filterwarnings("ignore")
def test_schedules_are_pytorchs(torch: Any) -> None:
    for wait, warmup, active, repeat, skip in itertools.product(
        (0, 1, 2), (0, 1), (1, 2, 3), (0, 1, 2), (0, 3)
    ):
        for later in (0, 1):
            given = {
                "wait": wait, "warmup": warmup, "active": active, "repeat": repeat,
                "skip_first": skip, "skip_first_wait": later,
            }  # fmt: skip
            assert actions(weft, **given) == actions(torch, **given), given
    for bad in ({"wait": -1}, {"active": 0}, {"warmup": -2}):
        with pytest.raises(ValueError, match=r"\[schedule\]"):
            schedule(**{"wait": 1, "warmup": 1, "active": 1, **bad})


def ready_at(lib: Any, plan: list[str], steps: int) -> tuple[list[int], list[int]]:
    """The steps at which traces are ready, and how many steps of the program each has."""
    at: list[int] = []
    sizes: list[int] = []

    def ready(prof: Any) -> None:
        at.append(prof.step_num)
        names = [e.name for e in prof.events()]
        sizes.append(names.count("ProfilerStep*"))

    actions = [getattr(lib.profiler.ProfilerAction, name) for name in plan]
    with lib.profiler.profile(
        activities=[lib.profiler.ProfilerActivity.CPU],
        schedule=lambda i: actions[i % len(actions)],
        on_trace_ready=ready,
    ) as prof:
        for _ in range(steps):
            lib.ones(2) + 1
            prof.step()
    return at, sizes


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        (["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"], 8),
        (["WARMUP", "RECORD_AND_SAVE"], 5),
        (["RECORD_AND_SAVE"], 3),
        (["NONE"], 3),
        (["NONE", "NONE", "WARMUP", "RECORD"], 3),
    ],
)
def test_traces_are_ready_as_in_pytorch(torch: Any, plan: list[str], steps: int) -> None:
    ours, theirs = ready_at(weft, plan, steps), ready_at(torch, plan, steps)
    assert ours[0] == theirs[0]
    assert all(n >= 1 for n in ours[1])


def test_a_long_profile_keeps_one_cycle() -> None:
    sizes: list[int] = []
    plan = schedule(wait=1, warmup=1, active=2)
    with profile(schedule=plan, on_trace_ready=lambda p: sizes.append(len(p.events()))) as prof:
        for _ in range(40):
            step()
            prof.step()
            assert sum(len(c.numbers) for c in prof._kept) <= 200
    assert len(sizes) == 10
    assert len(set(sizes)) == 1
    with profile(schedule=plan, acc_events=True) as prof:
        for _ in range(8):
            step()
            prof.step()
    assert {e.key: e.count for e in prof.key_averages()}["forward"] == 4
    assert weft._C._Log.running() is None


def load(path: pathlib.Path) -> Any:
    text = gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text()
    return json.loads(text)


def assert_nested(events: list[Any]) -> None:
    """Complete events of a thread lie apart or within one another."""
    ends: list[float] = []
    for e in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        while ends and ends[-1] <= e["ts"] + 2e-3:
            ends.pop()
        assert not ends or e["ts"] + e["dur"] <= ends[-1] + 3e-3
        ends.append(e["ts"] + e["dur"])


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_traces(tmp_path: pathlib.Path, name: str) -> None:
    with profile(record_shapes=True, with_stack=True, with_modules=True) as prof:
        step()
    prof.add_metadata("run", "three")
    prof.add_metadata_json("config", '{"lr": 0.1}')
    prof.export_chrome_trace(tmp_path / name)
    trace = load(tmp_path / name)
    assert (trace["run"], trace["config"]) == ("three", {"lr": 0.1})  # as PyTorch has them
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in events] == [e.name for e in prof.events()]
    assert len({(e["pid"], e["tid"]) for e in trace["traceEvents"]}) == 1
    assert_nested(events)
    linear = next(e for e in events if e["name"] == "aten::linear")
    assert linear["cat"] == "cpu_op"
    assert linear["args"]["Input Dims"] == [[2, 8], [16, 8], [16]]
    assert linear["args"]["module"] == "0"
    assert linear["args"]["stack"][0].endswith(": step")
    with pytest.raises(ValueError, match="expected JSON"):
        prof.add_metadata_json("config", "{")
    with pytest.raises(TypeError, match="expected value as str, got dict"):
        prof.add_metadata_json("config", {})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected key as str, got int"):
        prof.add_metadata(3, "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a key that a trace has not itself"):
        prof.add_metadata("traceEvents", "a")


def test_a_trace_of_too_many_events_leaves_the_shortest_out(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.profiler import trace

    with profile() as prof:
        for _ in range(100):
            step()
    count = len(prof.events())
    for most in (count * 100, count * 40, 2000):
        monkeypatch.setattr(trace, "MOST_BYTES", most)
        path = tmp_path / f"{most}.json"
        prof.export_chrome_trace(path)
        assert path.stat().st_size <= most + 500
        written = load(path)
        events = [e for e in written["traceEvents"] if e["ph"] == "X"]
        assert len({(e["pid"], e["tid"]) for e in written["traceEvents"]}) == 1
        assert_nested(events)
        meta = next(e for e in written["traceEvents"] if e["ph"] == "M")
        assert {(e["pid"], e["tid"]) for e in events} == {(meta["pid"], meta["tid"])}
        left_out = written["otherData"].get("events left out, the shortest", 0)
        assert len(events) + left_out == count
    assert left_out > 0
    prof.export_chrome_trace(tmp_path / "packed.json.gz")  # has all, whatever their number
    packed = load(tmp_path / "packed.json.gz")
    events = [e for e in packed["traceEvents"] if e["ph"] == "X"]
    assert len(events) == count and all("args" in e for e in events)
    assert "events left out, the shortest" not in packed["otherData"]


def test_steps_of_a_schedule_are_one_row(tmp_path: pathlib.Path) -> None:
    with profile(schedule=schedule(wait=0, warmup=1, active=5)) as prof:
        for _ in range(4):
            step()
            prof.step()
    sums = {e.key: e.count for e in prof.key_averages()}
    assert sums["ProfilerStep*"] == 4 and sums["forward"] == 3
    steps = [e for e in prof.events() if e.name == "ProfilerStep*"]
    assert [e.trace_name for e in steps] == [f"ProfilerStep#{i}" for i in range(1, 5)]
    prof.export_chrome_trace(tmp_path / "trace.json")
    names = [e["name"] for e in load(tmp_path / "trace.json")["traceEvents"]]
    assert [n for n in names if n.startswith("Prof")] == [e.trace_name for e in steps]


def test_rows_have_pytorchs_names(torch: Any) -> None:
    def keys(lib: Any) -> set[str]:
        net = lib.nn.Sequential(lib.nn.Conv2d(1, 2, 3), lib.nn.ReLU(), lib.nn.Flatten())
        head = lib.nn.Linear(8, 3)
        with lib.profiler.profile() as prof:
            y = head(net(lib.randn(2, 1, 4, 4))).add_(1)
            lib.nn.functional.cross_entropy(y, lib.tensor([1, 2]))
            lib.empty(2).uniform_()
        return {e.key for e in prof.key_averages()}

    known = {
        "conv2d", "convolution", "relu", "flatten", "linear", "add_", "randn", "empty", "uniform_",
        "cross_entropy_loss",
    }  # fmt: skip
    assert {f"aten::{name}" for name in known} <= keys(weft) & keys(torch)


def test_events_have_what_pytorchs_have(torch: Any) -> None:
    def run(lib: Any) -> tuple[Any, Any]:
        w = lib.ones(2, 2, requires_grad=True)
        with lib.profiler.profile() as prof:
            with lib.profiler.record_function("span"):
                (w * 2).sum().backward()
        return prof.events(), prof.key_averages()

    (ours, our_sums), (theirs, their_sums) = run(weft), run(torch)
    one, other = (next(e for e in events if e.name == "span") for events in (ours, theirs))
    for name in (
        "is_async", "is_remote", "is_legacy", "scope", "kernels", "thread", "key", "count",
        "trace_name", "sequence_nr", "is_user_annotation", "node_id", "use_device",
    ):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name
    assert one.device_type.name == other.device_type.name
    assert one.time_range.elapsed_us() == pytest.approx(one.cpu_time_total)
    assert one.time_range.start == one.start
    for events in (ours, theirs):
        call = next(e for e in events if e.name == "aten::mul")
        node = next(e for e in events if "MulBackward0" in e.name)
        assert call.scope == 0 and call.sequence_nr == node.sequence_nr >= 0
    assert next(e for e in ours if e.name == "MulBackward0").scope == 1
    for e in (one, *our_sums):
        for name in ("cpu_time", "cpu_time_total", "self_cpu_time_total"):
            assert re.fullmatch(r"[\d.]+(us|ms|s)", getattr(e, f"{name}_str"))
    scopes = [next(e.scope for e in sums if e.key == "span") for sums in (our_sums, their_sums)]
    assert scopes == [7, 7]


def test_columns_without_a_limit() -> None:
    long = "a name of " + "many letters " * 10
    with profile() as prof:
        with record_function(long):
            step()
    table = prof.key_averages().table(
        max_name_column_width=None, max_src_column_width=None, max_shapes_column_width=None
    )
    assert long.strip() in table and long.strip() not in prof.key_averages().table()
    with profile(), pytest.raises(TypeError, match=r"\[record_function\] expected a name"):
        record_function(5)  # type: ignore[arg-type]


def test_stacks(tmp_path: pathlib.Path) -> None:
    def inner() -> None:
        for _ in range(20):
            weft.ones(64, 64) @ weft.ones(64, 64)

    with profile(with_stack=True) as prof:
        inner()
    stack = prof.events()[0].stack
    assert re.search(r"test_profile.py\(\d+\): inner$", stack[0])
    assert re.search(r"test_profile.py\(\d+\): test_stacks$", stack[1])
    sums = prof.key_averages(group_by_stack_n=1)
    assert {len(e.stack) for e in sums} == {1}
    prof.export_stacks(tmp_path / "stacks.txt")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert any(re.search(r": test_stacks;.*: inner;aten::m[atmul]+ \d+$", line) for line in lines)
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(tmp_path / "x", "self_cuda_time_total")
    with profile() as prof:
        inner()
    assert prof.events()[0].stack == []
    with pytest.raises(ValueError, match="with_stack=True"):
        prof.export_stacks(tmp_path / "x")


def test_record_function() -> None:
    @record_function("whole")
    def f(x: int, *, y: int) -> int:
        """Doc."""
        weft.ones(x)
        return x + y

    assert f(2, y=3) == 5
    assert (f.__name__, f.__doc__) == ("f", "Doc.")
    with profile() as prof:
        f(2, y=3)
        f(2, y=4)
        with record_function("other") as span:
            assert span.name == "other"
    assert [(e.key, e.count) for e in prof.key_averages()] == [
        ("whole", 2),
        ("aten::ones", 2),
        ("other", 1),
    ]
    events = prof.events()
    assert events[1].cpu_parent is events[0]
    assert events[0].cpu_children == [events[1]]


def test_tensorboard(tmp_path: pathlib.Path) -> None:
    for zipped in (False, True):
        handler = tensorboard_trace_handler(tmp_path / "runs", "me", zipped)
        with profile(on_trace_ready=handler):
            step()
    names = sorted(p.name for p in (tmp_path / "runs").iterdir())
    assert all(re.fullmatch(r"me\.\d+\.pt\.trace\.json(\.gz)?", n) for n in names)
    assert len(names) == 2
    assert all(load(p)["traceEvents"] for p in (tmp_path / "runs").iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="Can't create directory"):
        tensorboard_trace_handler(tmp_path / "file" / "x")(None)  # type: ignore[arg-type]


def test_what_is_not_there() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    with pytest.raises(ValueError, match="experimental_config"):
        profile(experimental_config=3)
    never = profile(schedule=lambda step: ProfilerAction.NONE)
    with never:
        step()
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        never.key_averages()


def test_within_a_recording_and_after_an_error() -> None:
    with weft.record() as g:
        with pytest.raises(ZeroDivisionError), profile() as prof:
            step()
            raise ZeroDivisionError
        weft.ones(1)
    assert len(prof.events()) < len(g)
    assert weft._C._Log.running() is None


def test_the_older_profiler() -> None:
    from weft.autograd import profiler

    with profiler.profile(record_shapes=True, with_flops=True) as prof:
        with profiler.record_function("span"):
            step()
    assert prof.key_averages()[0].key == "span"
    assert prof.function_events[0].name == "span"
    assert prof.total_average().flops > 0
    assert prof.self_cpu_time_total > 0
    assert "Self CPU time total" in prof.table()
    assert "linear" in str(prof)
    with profiler.profile(enabled=False) as off:
        step()
    with pytest.raises(RuntimeError):
        off.key_averages()
    for bad in ({"use_cuda": True}, {"use_device": "cuda"}, {"use_cpu": False}):
        with pytest.raises(ValueError, match=r"\[profile\]"):
            profiler.profile(**bad)
    with pytest.raises(RuntimeError, match="emit_nvtx"), profiler.emit_nvtx():
        pass
    with profiler.emit_itt(enabled=False):
        pass
    assert isinstance(profiler.FunctionEventAvg("x").cpu_time, float)
    with pytest.raises(AttributeError):
        profiler.no_such_name  # noqa: B018
