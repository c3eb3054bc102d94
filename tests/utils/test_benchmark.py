"""`utils.benchmark`: numbers and printing are PyTorch's for the same times."""

import random
import re
from typing import Any

import pytest

import weft
from weft.utils import benchmark

TASKS: list[dict[str, Any]] = [
    {"stmt": "x + 1", "setup": "pass"},
    {"stmt": "x + 1", "setup": "x = 1", "label": "Add", "sub_label": "4x4", "num_threads": 2},
    {"stmt": "x = 1\nx + 1", "setup": "a = 1\nb = 2", "sub_label": "more", "description": "how"},
    {"stmt": "f()", "setup": "", "label": "L", "description": "d", "env": "here"},
]


def times(seed: int, count: int) -> list[float]:
    rng = random.Random(seed)
    size, spread = 10 ** rng.uniform(-8, 1), rng.choice([0.001, 0.05, 0.2, 1.0])
    return [size * (1 + spread * rng.random()) for _ in range(count)]


def measured(lib: Any, seed: int, count: int, runs: int = 100) -> Any:
    task = lib.TaskSpec(**TASKS[seed % len(TASKS)])
    return lib.Measurement(runs, times(seed, count), task)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 20, 101])
def test_measurements(torch: Any, count: int) -> None:
    from torch.utils import benchmark as peer

    for seed in range(40):
        ours, theirs = measured(benchmark, seed, count), measured(peer, seed, count)
        for name in ("median", "mean", "iqr"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-5, abs=1e-15)
        for name in (
            "significant_figures",
            "has_warnings",
            "title",
            "as_row_name",
            "label",
            "stmt",
        ):
            assert getattr(ours, name) == getattr(theirs, name), (seed, name)
        text = [re.sub(r"<.*Measurement object at 0x\w+>", "<>", repr(m)) for m in (ours, theirs)]
        assert text[0] == text[1]
        assert benchmark.select_unit(ours.median) == peer.select_unit(theirs.median)


def test_figures(torch: Any) -> None:
    from torch.utils import benchmark as peer

    for x in (3.14159, 123456.0, 0.00123, 99.96, 1.5, -7.77):
        for n in (1, 2, 3, 4):
            assert benchmark.trim_sigfig(x, n) == pytest.approx(peer.trim_sigfig(x, n), rel=1e-5)
    with pytest.raises(AssertionError):
        benchmark.trim_sigfig(1.0, 1.5)  # type: ignore[arg-type]


def table(lib: Any, case: int, settings: tuple[str, ...]) -> str:
    rng = random.Random(case)
    results = []
    for label in ["one", None][: rng.choice([1, 2])]:
        for threads in [1, 4][: rng.choice([1, 2])]:
            for env in [None, "a", "bb"][: rng.choice([1, 3])]:
                for sub in ("4x4", "a longer name", "64"):
                    for how in ("weft", "by hand", "x"):
                        count = rng.choice([1, 4, 5])
                        size, spread = 10 ** rng.uniform(-6, -4), rng.choice([0.01, 0.5])
                        values = [size * (1 + spread * rng.random()) for _ in range(count)]
                        if rng.random() < 0.2 and how != "weft":
                            continue
                        task = lib.TaskSpec(
                            stmt="f()", setup="pass", label=label, sub_label=sub, description=how,
                            env=env or "", num_threads=threads,
                        )  # fmt: skip
                        results.append(lib.Measurement(1, values, task))
    compare = lib.Compare(results[:4])
    compare.extend_results(results[4:])
    for setting in settings:
        if setting == "rows":
            compare.colorize(rowwise=True)
        else:
            getattr(compare, setting)()
    return str(compare)


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("trim_significant_figures",),
        ("highlight_warnings",),
        ("colorize",),
        ("rows", "highlight_warnings", "trim_significant_figures"),
    ],
)
def test_tables(torch: Any, settings: tuple[str, ...]) -> None:
    from torch.utils import benchmark as peer

    for case in range(25):
        assert table(benchmark, case, settings) == table(peer, case, settings), case


def test_merge() -> None:
    task = benchmark.TaskSpec("f()", "pass")
    parts = [benchmark.Measurement(n, [n * 1e-6] * 2, task) for n in (1, 10)]
    (one,) = benchmark.Measurement.merge(parts)
    assert one.number_per_run == 1
    assert one.raw_times == pytest.approx([1e-6] * 4)
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        benchmark.Compare([3])  # type: ignore[list-item]
    with pytest.raises(AttributeError):
        one.no_such_name  # noqa: B018


class Clock:
    """Each run of a statement that calls `tick` takes `step` seconds by it."""

    def __init__(self, step: float) -> None:
        self.now, self.step, self.runs = 0.0, step, 0

    def __call__(self) -> float:
        return self.now

    def tick(self) -> None:
        self.now += self.step
        self.runs += 1


def timed(lib: Any, step: float, how: str, **options: Any) -> tuple[Any, Any, int]:
    clock = Clock(step)
    t = lib.Timer("tick()", timer=clock, globals={"tick": clock.tick}, label="x")
    result = getattr(t, how)(**options)
    return result.number_per_run, result.times, clock.runs


@pytest.mark.parametrize("step", [1e-5, 1e-3, 0.3])
@pytest.mark.parametrize(
    ("how", "options"),
    [
        ("timeit", {"number": 300}),
        ("blocked_autorange", {"min_run_time": 0.1}),
        ("adaptive_autorange", {"threshold": 0.2, "max_run_time": 2.0}),
    ],
)
def test_timers_run_as_often_as_pytorchs(
    torch: Any, step: float, how: str, options: dict[str, Any]
) -> None:
    from torch.utils import benchmark as peer

    ours, theirs = timed(benchmark, step, how, **options), timed(peer, step, how, **options)
    assert (ours[0], ours[2]) == (theirs[0], theirs[2])
    assert ours[1] == pytest.approx(theirs[1])


def test_what_a_statement_sees() -> None:
    seen: list[Any] = []
    before = weft.get_num_threads()
    benchmark.Timer(
        """
        y = torch.ones(2) + x
        seen.append((weft.get_num_threads(), y.tolist()))
        """,
        "x = 3",
        globals={"seen": seen},
        num_threads=2,
    ).timeit(2)
    assert set(map(str, seen)) == {"(2, [4.0, 4.0])"}
    assert weft.get_num_threads() == before
    calls: list[int] = []
    t = benchmark.Timer("pass")
    t.blocked_autorange(callback=lambda n, s: calls.append(n), min_run_time=1e-3)
    assert calls


def test_what_is_not_there() -> None:
    t = benchmark.Timer("pass")
    for call in (t.repeat, t.autorange):
        with pytest.raises(NotImplementedError, match="blocked_autorange"):
            call()
    with pytest.raises(RuntimeError, match="callgrind"):
        t.collect_callgrind()
    for bad in ({"stmt": 3}, {"language": "c++"}, {"global_setup": "x"}):
        with pytest.raises(ValueError):
            benchmark.Timer(**bad)
