"""The run log: what a run's folder holds, whatever happens to its process."""

import argparse
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.__main__ import main
from weft.base import alias
from weft.experiments import Stored, facts, find, runs
from weft.experiments import lines as jsonl

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def generators_as_they_were() -> Any:
    state = weft.get_rng_state(), random.getstate(), np.random.get_state()
    yield
    weft.set_rng_state(state[0])
    random.setstate(state[1])
    np.random.set_state(state[2])


def python(*arguments: Any, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, **options)


# ---- numbers


VALUES: list[tuple[Any, Any]] = [
    (1, 1), (0.1, 0.1), (-0.0, -0.0), (1e-320, 1e-320), (1 / 3, 1 / 3), (True, True), ("a", "a"),
    (None, None), ("caf\udce9", "caf\udce9"), (INF, INF),
    (-INF, -INF), (2**70, 2**70), ([1, [2.5, -INF]], [1, [2.5, -INF]]),
    ((1, 2), [1, 2]), ({"a": 1.5}, {"a": 1.5}), (np.float32(0.1), float(np.float32(0.1))),
    (np.int64(3), 3), (np.bool_(True), True), (np.array([1.0, 2.0]), [1.0, 2.0]),
    (weft.tensor(0.1), float(np.float32(0.1))), (weft.tensor([[2]]), 2),
    (weft.tensor([1.0, INF]), [1.0, INF]), (weft.ones(2, requires_grad=True).sum(), 2.0),
]  # fmt: skip


@pytest.mark.parametrize(("value", "back"), VALUES, ids=lambda v: str(v)[:20])
def test_values_come_back_to_the_bit(value: Any, back: Any, tmp_path: Path) -> None:
    with weft.experiment(dir=tmp_path) as run:
        run.log(0, x=value)
    (row,) = run.stored.metrics
    assert repr(row["x"]) == repr(back)
    text = (run.path / "metrics.jsonl").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def cycle() -> list[Any]:
    out: list[Any] = []
    out.append(out)
    return out


def test_nan_comes_back(tmp_path: Path) -> None:
    with weft.experiment(dir=tmp_path) as run:
        run.log(3, x=NAN, y=[weft.tensor(NAN)])
    (row,) = run.stored.metrics
    assert row["step"] == 3 and np.isnan(row["x"]) and np.isnan(row["y"][0])
    assert json.loads((run.path / "metrics.jsonl").read_text())["x"] == "NaN"


@pytest.mark.parametrize(
    ("log", "error", "text"),
    [
        (lambda r: r.log(0, x=object()), TypeError, r"\[log\] expected numbers.*object for x"),
        (lambda r: r.log(0, x={"a": [1, 2j]}), TypeError, r"complex for x\['a'\]\[1\]"),
        (lambda r: r.log(1.5, x=1), TypeError, r"\[log\] expected an integer as step.*float"),
        (lambda r: r.log("a", x=1), TypeError, r"\[log\] expected an integer as step, got 'a'"),
        (lambda r: r.record("a").__enter__(), TypeError, r"\[record\] expected an integer"),
        (lambda r: r.checkpoint(0.5), TypeError, r"\[checkpoint\] expected an integer as step"),
        (lambda r: r.log(0, x={1: 2, "1": 3}), ValueError, r"\[log\] expected keys.*'1' twice"),
        (lambda r: r.log(0, x=cycle()), ValueError, r"lie in themselves, got x\[0\]"),
        (lambda r: r.log(0, time=1), ValueError, 'names than "time"'),
        (lambda r: r.save("../x", 1), ValueError, r"\[save\] expected the name of a file"),
        (lambda r: r.save("", 1), ValueError, r"\[save\] expected the name of a file"),
        (lambda r: r.checkpoint(0, step=1), TypeError, "step"),
        (lambda r: r.checkpoint(0, rng_state=1), ValueError, "other names"),
    ],
)
def test_what_is_refused_changes_nothing(
    log: Callable[[Any], Any], error: Any, text: str, tmp_path: Path
) -> None:
    with weft.experiment(dir=tmp_path) as run:
        with pytest.raises(error, match=text):
            log(run)
    assert run.stored.metrics == [] and list((run.path / "checkpoints").iterdir()) == []


def test_nothing_is_logged_after_the_end(tmp_path: Path) -> None:
    with weft.experiment(dir=tmp_path) as run:
        pass
    with pytest.raises(ValueError, match="expected a run under way"):
        run.log(0, x=1)
    run.finish()
    assert run.stored.state == "done"


# ---- configuration and seeds


@dataclasses.dataclass
class Inner:
    width: int = 3


@dataclasses.dataclass
class Config:
    lr: float = 0.1
    inner: Inner = dataclasses.field(default_factory=Inner)
    path: Path = Path("data")
    dtype: Any = weft.float32


@pytest.mark.parametrize(
    ("config", "plain"),
    [
        (None, {}),
        ({"a": 1, "b": NAN, 3: [1, (2,)]}, {"a": 1, "b": NAN, "3": [1, [2]]}),
        (Config(), {"lr": 0.1, "inner": {"width": 3}, "path": "data", "dtype": "torch.float32"}),
        (argparse.Namespace(lr=1, layers=[2]), {"lr": 1, "layers": [2]}),
        ({"a": "NaN", "b": ["Infinity", INF]}, {"a": "NaN", "b": ["Infinity", INF]}),
    ],
    ids=["none", "dict", "dataclass", "namespace", "names of numbers"],
)
def test_configurations(config: Any, plain: dict[str, Any], tmp_path: Path) -> None:
    with weft.experiment(config, dir=tmp_path) as run:
        assert run.config is config
    assert repr(run.stored.config) == repr(plain)


@pytest.mark.parametrize("config", [3, Config, "text", [1]])
def test_other_configurations_are_refused(config: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"\[experiment\] expected a dict, a dataclass"):
        weft.experiment(config, dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("config", "error", "text"),
    [
        ({1: 2, "1": 3}, ValueError, "keys of different text, got '1' twice in config"),
        ({"a": {1: 2, "1": 3}}, ValueError, r"'1' twice in config\['a'\]"),
        ({"a": cycle()}, ValueError, r"lie in themselves, got config\['a'\]\[0\]"),
        (argparse.Namespace(a={"b": cycle()}), ValueError, "lie in themselves"),
        ({"seed": "x"}, TypeError, "an integer as seed, got 'x' of type str"),
        ({"seed": 2**64}, ValueError, "a seed of 64 bits"),
    ],
)
def test_configurations_that_would_lose_something_are_refused(
    config: Any, error: Any, text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=r"\[experiment\] expected .*" + text):
        weft.experiment(config, dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def draws() -> tuple[float, float, float]:
    return weft.rand(1).item(), random.random(), float(np.random.rand())


@pytest.mark.parametrize("how", ["argument", "config", "argument first", "drawn"])
def test_the_seed_is_that_of_all_generators(how: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "argument": {"seed": 5},
        "config": {"config": {"seed": 5}},
        "argument first": {"seed": 5, "config": {"seed": 6}},
        "drawn": {},
    }[how]
    first = weft.experiment(dir=tmp_path, **given)
    a = draws()
    again = weft.experiment(dir=tmp_path, **(given or {"seed": first.seed}))
    assert draws() == a
    other = weft.experiment(dir=tmp_path)
    assert draws() != a and other.seed != first.seed
    assert first.stored.facts["seed"] == again.seed == (first.seed if how == "drawn" else 5)


def test_a_seed_of_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        weft.experiment(dir=tmp_path, seed=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a name of letters"):
        weft.experiment(dir=tmp_path, name="a/b")
    assert list(tmp_path.iterdir()) == []


# ---- what is written down


def test_facts(tmp_path: Path) -> None:
    with weft.experiment({"a": 1}, dir=tmp_path, name="first") as run:
        assert run.stored.state == "running"
        time.sleep(0.02)
    found = run.stored.facts
    assert run.id.startswith("first-") and found["id"] == run.id
    assert found["command"]["argv"] == sys.orig_argv and found["command"]["cwd"] == os.getcwd()
    assert found["versions"]["numpy"] == np.__version__ and found["threads"] >= 1
    assert (found["state"], found["error"]) == ("done", None) and found["seconds"] >= 0.02


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


PROGRAM = """
import sys, weft
with weft.experiment({"lr": 0.5}, dir="runs", seed=1) as run:
    w = weft.rand(3, requires_grad=True)
    for step in range(5):
        loss = ((w - 1) ** 2).sum()
        (g,) = weft.autograd.grad(loss, w)
        with weft.no_grad():
            w -= run.config["lr"] * g * weft.rand(3)
        run.log(step, loss=loss)
"""


def test_the_commit_and_what_was_changed_since(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "train.py")
    git(tmp_path, "commit", "-q", "-m", "one")
    (tmp_path / ".gitignore").write_text("runs\n")
    assert python("train.py", cwd=tmp_path).returncode == 0
    clean = find("last", tmp_path / "runs")
    assert clean.facts["git"]["commit"] == git(tmp_path, "rev-parse", "HEAD")
    assert clean.facts["git"]["branch"] == "main" and not clean.facts["git"]["dirty"]
    assert clean.facts["git"]["untracked"] == [".gitignore"]
    assert not (clean.path / "git.diff").exists()
    program.write_text(PROGRAM + "# more\n")
    assert python("train.py", cwd=tmp_path).returncode == 0
    dirty = find("last", tmp_path / "runs")
    assert dirty.facts["git"]["dirty"] and "+# more" in (dirty.path / "git.diff").read_text()


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts.git_of(tmp_path) == (None, b"")
    monkeypatch.setenv("PATH", "")
    assert facts.git_of(Path(__file__).parent) == (None, b"")


@pytest.mark.parametrize("settings", [(), ("diff.noprefix", "diff.mnemonicPrefix", "color.ui")])
@pytest.mark.parametrize("commits", [0, 1])
def test_the_diff_makes_the_same_files_again(
    commits: int, settings: tuple[str, ...], tmp_path: Path
) -> None:
    """Bytes that are no UTF-8 became U+FFFD, and files of bytes had no diff."""
    then, now = tmp_path / "then", tmp_path / "now"
    then.mkdir()
    git(then, "init", "-q", "-b", "main")
    for name in settings:
        git(then, "config", name, "always" if name == "color.ui" else "true")
    contents = {"latin.txt": b"caf\xe9\n", "bytes": bytes(range(256)), "same.txt": b"a\n"}
    for _ in range(commits):
        for name in contents:
            (then / name).write_bytes(b"a\n")
        git(then, "add", ".")
        git(then, "commit", "-q", "-m", "one")
    git(tmp_path, "clone", "-q", "then", "now")
    for name, content in contents.items():
        (then / name).write_bytes(content)
    if not commits:
        git(then, "add", ".")
    (then / "d\udce9").write_bytes(b"")
    found, diff = facts.git_of(then)
    assert found is not None and bool(found["commit"]) == bool(commits)
    assert found["branch"] == "main" and found["dirty"] and found["untracked"] == ["d\udce9"]
    (tmp_path / "git.diff").write_bytes(diff)
    git(now, "apply", "../git.diff")
    assert {name: (now / name).read_bytes() for name in contents} == contents


def test_a_diff_that_is_too_long_has_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    for name in "abc":
        (tmp_path / name).write_text(name * 50 + "\n")
    git(tmp_path, "add", ".")
    whole = facts.git_of(tmp_path)[1]
    monkeypatch.setattr(facts, "LARGEST_DIFF", len(whole) - 20)
    found, diff = facts.git_of(tmp_path)
    assert found and found["diff_cut"] and whole.startswith(diff)
    assert diff.count(b"diff --git") == 2 and diff.endswith(b"b" * 50 + b"\n")


# ---- what happens to the process


LONG = """
import sys, weft
run = weft.experiment(dir="runs", seed=0)
for step in range(10**9):
    run.log(step, loss=1 / (step + 1), values=list(range(50)))
    if step == 200:
        run.save("kept.pt", {"a": weft.ones(3)})
        print(run.id, flush=True)
"""


def test_what_was_logged_survives_a_kill(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LONG)
    with subprocess.Popen(
        [sys.executable, "train.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert Stored(tmp_path / "runs" / name).state == "running"
        process.send_signal(signal.SIGKILL)
    stored = Stored(tmp_path / "runs" / name)
    assert process.returncode == -signal.SIGKILL and stored.state == "killed"
    steps = [row["step"] for row in stored.metrics]
    assert steps == list(range(len(steps))) and len(steps) > 200
    assert weft.load(stored.path / "checkpoints" / "kept.pt")["a"].tolist() == [1, 1, 1]


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    with weft.experiment(dir=tmp_path) as run:
        run.log(0, x=1)
        run.log(1, x=2)
    file = run.path / "metrics.jsonl"
    whole = file.read_bytes()
    for cut in range(len(whole)):
        file.write_bytes(whole[:cut])
        rows = list(jsonl.read(file))
        assert len(rows) == whole[:cut].count(b"\n")


@pytest.mark.parametrize("most", [1, 30, 31, 32, 10**6])
def test_the_end_of_a_file_alone(most: int, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b'{"step": %d, "x": 1}\n' % i for i in range(100)))
    rows = list(jsonl.read(file, most))
    fitting = [
        r
        for r in range(1, 101)
        if sum(len(f'{{"step": {99 - k}, "x": 1}}\n') for k in range(r)) <= most
    ]
    assert len(rows) in (len(fitting), len(fitting) - 1)
    assert [row["step"] for row in rows] == list(range(100))[100 - len(rows) :]


def test_a_full_disk_spoils_one_line_alone(tmp_path: Path) -> None:
    """The line after one that was cut off was joined to it, and lost."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with weft.experiment(dir=tmp_path) as run:
        run.log(0, x=1)
        for room in (10, 0):  # a write of a part, and one of nothing
            size = (run.path / "metrics.jsonl").stat().st_size
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
                with pytest.raises(OSError):
                    run.log(1, x=2)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        run.log(2, x=3)
        run.log(3, x=4)
    assert [row["x"] for row in run.stored.metrics] == [1, 3, 4]
    assert (run.path / "metrics.jsonl").read_bytes().count(b"\n") == 4


def test_an_exception_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        with weft.experiment(dir=tmp_path) as run:
            run.log(0, x=1)
            1 / 0  # noqa: B018
    assert run.stored.state == "failed" and "ZeroDivisionError" in run.stored.facts["error"]
    with pytest.raises(SystemExit):
        with weft.experiment(dir=tmp_path) as run:
            sys.exit(0)
    assert run.stored.state == "done"


def test_a_process_that_was_forked_does_not_end_it(tmp_path: Path) -> None:
    with weft.experiment(dir=tmp_path) as run:
        child = os.fork()
        if child == 0:
            run.finish("failed")
            os._exit(0)
        os.waitpid(child, 0)
        assert run.stored.state == "running"
        run.log(0, x=1)
    assert run.stored.state == "done" and len(run.stored.metrics) == 1


def test_runs_that_begin_at_once_have_folders_of_their_own(tmp_path: Path) -> None:
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for _ in range(5):
                weft.experiment(dir=tmp_path / "new" / "runs").finish()
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert len(runs(tmp_path / "new" / "runs")) == 20


def test_threads_log_whole_lines(tmp_path: Path) -> None:
    with weft.experiment(dir=tmp_path) as run:
        threads = [
            threading.Thread(target=lambda k=k: [run.log(i, k=k, x=[0.5] * 99) for i in range(50)])
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted((r["k"], r["step"]) for r in run.stored.metrics) == [
        (k, i) for k in range(4) for i in range(50)
    ]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"\[experiment\] expected a folder that can be written in"):
        weft.experiment(dir=tmp_path / "file")
    if os.getuid():  # root may write anywhere
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        with pytest.raises(PermissionError, match=r"\[experiment\] expected a folder"):
            weft.experiment(dir=locked)


# ---- checkpoints and structures


def test_checkpoints(tmp_path: Path) -> None:
    model = weft.nn.Linear(3, 2)
    optimizer = weft.optim.Adam(model.parameters())
    with weft.experiment(dir=tmp_path) as run:
        for step in range(5):
            optimizer.zero_grad()
            model(weft.ones(1, 3)).sum().backward()
            optimizer.step()
            path = run.checkpoint(step, keep=2, model=model, optimizer=optimizer, best=0.5)
        names = sorted(p.name for p in (run.path / "checkpoints").iterdir())
        assert names == ["step-00000003.pt", "step-00000004.pt"]
        state = run.load(path.name)
        expected = weft.rand(3)
    assert state["step"] == 4 and state["best"] == 0.5
    other = weft.nn.Linear(3, 2)
    other.load_state_dict(state["model"])
    assert other.weight.equal(model.weight)
    weft.optim.Adam(other.parameters()).load_state_dict(state["optimizer"])
    weft.set_rng_state(state["rng_state"])
    assert weft.rand(3).equal(expected)


def test_a_checkpoint_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    with weft.experiment(dir=tmp_path) as run:
        run.save("a.pt", 1)
        with pytest.raises(Exception):  # noqa: B017
            run.save("a.pt", {"x": lambda: 1})
        assert run.load("a.pt") == 1
        assert [p.name for p in (run.path / "checkpoints").iterdir()] == ["a.pt"]


def test_the_structure_log_has_each_structure_once(tmp_path: Path) -> None:
    def step(x: weft.Tensor, deep: bool) -> weft.Tensor:
        y = x * 2
        if deep:
            y = y.exp()
        return y.sum()

    with weft.experiment(dir=tmp_path) as run:
        for i, deep in enumerate([False, False, True, False, True]):
            with run.record(i) as graph:
                step(weft.ones(3), deep)
            assert len(graph.find("mul")) == 1
    rows = run.stored.structures
    assert [(row["step"], "exp" in row["text"]) for row in rows] == [(0, False), (2, True)]
    assert len({row["structure"] for row in rows}) == 2
    assert "<html" in (run.path / "report.html").read_text()[:200].lower()


# ---- the commands


@pytest.fixture
def two_runs(tmp_path: Path) -> list[Any]:
    out = []
    for lr in (0.1, 0.01):
        with weft.experiment({"lr": lr, "depth": 2}, dir=tmp_path, seed=1) as run:
            for step in range(10):
                run.log(step, loss=lr * step, note="n")
            run.log(10, loss=NAN)
        out.append(run)
    return out


def shown(capsys: Any, *words: str) -> str:
    capsys.readouterr()
    assert main(words) == 0
    return str(capsys.readouterr().out)


def test_runs_lists(two_runs: list[Any], tmp_path: Path, capsys: Any) -> None:
    text = shown(capsys, "runs", "--dir", str(tmp_path))
    head, *rows = text.splitlines()
    assert head.split() == ["id", "state", "time", "steps", "last"]
    assert [row.split()[0] for row in rows] == sorted(
        (r.id for r in two_runs), key=lambda i: [r.id for r in two_runs].index(i)
    )
    assert all("done" in row and "loss=nan" in row for row in rows)
    rows = [
        json.loads(r)
        for r in shown(capsys, "runs", "--dir", str(tmp_path), "--json").split("\n")
        if r
    ]
    assert [r["config"]["lr"] for r in rows] == [0.1, 0.01]


def test_runs_shows_one(two_runs: list[Any], tmp_path: Path, capsys: Any) -> None:
    text = shown(capsys, "runs", two_runs[0].id[-4:], "--dir", str(tmp_path))
    assert text.startswith(two_runs[0].id) and "config lr" in text and "⠤" in text
    assert "0.9 ┤" in text  # what is not finite is left out


def test_runs_compares(two_runs: list[Any], tmp_path: Path, capsys: Any) -> None:
    text = shown(capsys, "runs", *(r.id for r in two_runs), "--dir", str(tmp_path))
    configurations = text.partition("last metrics")[0]
    assert "lr" in configurations and "depth" not in configurations
    assert "● loss of" in text and "○ loss of" in text


ODD: dict[str, Any] = {
    "bytes": {"note": "caf\udce9"}, "large": {"n": 10**400}, "lines": {"note": "a\nb\x1b"},
    "ends": {"x": -1e308, "y": 1.7e308},
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_an_odd_run_hides_no_other(name: str, tmp_path: Path) -> None:
    with weft.experiment(dir=tmp_path, name="plain") as run:
        run.log(0, x=1.5)
    with weft.experiment(ODD[name], dir=tmp_path, name="odd") as odd:
        for step in range(2):
            odd.log(step, **ODD[name])
            odd.log(step, **{k: -v for k, v in ODD[name].items() if not isinstance(v, str)})
    environment = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    for words in ([], ["odd"], ["odd", "plain"], ["--plot", "x"], ["--json"], ["odd", "--json"]):
        out = python("-m", "weft", "runs", "--dir", ".", *words, cwd=tmp_path, env=environment)
        assert out.returncode == 0 and out.stderr == "", out.stderr
        assert odd.id in out.stdout and "\x1b" not in out.stdout
    assert len(out.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", '{"x": 1}\n[1]\n{"step": "a", "x": 1}\n{"step": 1, "time": "x"}\n'),
        ("metrics.jsonl", "[" * 100_000 + "\n"),
        ("metrics.jsonl", '{"step": 1, "time": NaN, "x": 1' + "0" * 400 + "}\n"),
    ],
)
def test_lines_that_are_no_metrics_are_left_out(
    name: str, content: str, tmp_path: Path, capsys: Any
) -> None:
    with weft.experiment(dir=tmp_path) as run:
        pass
    stored = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(stored | {"seconds": None}))
    (run.path / name).write_text(content)
    assert run.id in shown(capsys, "runs", "--dir", str(tmp_path))
    assert run.stored.series("x")[0] in ([], [1])


def test_runs_of_nothing(tmp_path: Path, capsys: Any) -> None:
    assert "no runs in" in shown(capsys, "runs", "--dir", str(tmp_path / "none"))
    assert main(["runs", "x", "--dir", str(tmp_path)]) == 1
    assert "expected the name of one run" in capsys.readouterr().err


def rerun(folder: Path, name: str = "last") -> subprocess.CompletedProcess[str]:
    return python("-m", "weft", "rerun", name, cwd=folder)


def test_rerun_repeats_to_the_bit(tmp_path: Path) -> None:
    # of a seed that was drawn, too, and with another folder of its own
    (tmp_path / "train.py").write_text(PROGRAM.replace(", seed=1", "").replace("{", "{'k': 1, "))
    assert python("train.py", cwd=tmp_path).returncode == 0
    (first,) = runs(tmp_path / "runs")
    done = rerun(tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "5 lines of metrics are the same to the bit" in done.stdout and not done.stderr
    assert find("last", tmp_path / "runs").facts["rerun_of"] == first.id


def test_rerun_has_the_settings_of_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAM.replace("loss=loss)", "threads=weft.get_num_threads())")
    (tmp_path / "train.py").write_text(program)
    monkeypatch.setenv("WEFT_NUM_THREADS", "1")
    then = {k: v for k, v in os.environ.items() if k.startswith("WEFT_") or k == "PYTHONHASHSEED"}
    assert python("train.py", cwd=tmp_path).returncode == 0
    monkeypatch.setenv("WEFT_NUM_THREADS", "2")
    monkeypatch.setenv("WEFT_AUTOBATCH", "0")
    assert rerun(tmp_path).returncode == 0
    (new,) = [r for r in runs(tmp_path / "runs") if r.facts["rerun_of"]]
    assert new.facts["command"]["environment"] == then


@pytest.mark.parametrize("then", ["under weft run", "plain"])
@pytest.mark.parametrize("now", ["under weft run", "plain"])
def test_rerun_has_torch_be_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str, now: str
) -> None:
    """What ran under `weft run` was rerun where torch is PyTorch, or is not there at all."""
    program = PROGRAM.replace("loss=loss)", "loss=loss, as_torch='torch' in sys.modules)")
    (tmp_path / "train.py").write_text(program)
    words = ["-m", "weft", "run", "train.py"] if then == "under weft run" else ["train.py"]
    assert python(*words, cwd=tmp_path).returncode == 0
    assert runs(tmp_path / "runs")[0].last["as_torch"] is (then == "under weft run")
    if now == "under weft run":
        monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        monkeypatch.setenv(alias.MODE, "")
        alias.to_children(os.environ)
    done = rerun(tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "the same to the bit" in done.stdout and not done.stderr


def test_rerun_says_what_differs(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    assert python("train.py", cwd=tmp_path).returncode == 0
    program.write_text(PROGRAM.replace("- 1) ** 2", "- 1) ** 4"))
    first = runs(tmp_path / "runs")[0].id
    done = rerun(tmp_path)
    assert done.returncode == 1 and "loss at step 0 was" in done.stdout
    assert "warning: the working tree differs from what it was" in done.stderr
    git(tmp_path, "commit", "-q", "-a", "-m", "two")
    done = rerun(tmp_path, first)
    assert "warning: the commit was" in done.stderr
    program.write_text(PROGRAM.replace("range(5)", "range(4)"))
    assert "5 lines of metrics became 4" in rerun(tmp_path, first).stdout


def test_rerun_of_the_second_run_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import weft\n"
        "for k in range(3):\n"
        "    with weft.experiment({'k': k}) as run:\n"
        "        run.log(0, x=weft.rand(1))\n"
    )
    assert python("train.py", cwd=tmp_path).returncode == 0
    second = runs(tmp_path / "runs")[1]
    done = rerun(tmp_path, second.id)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rerun_of_what_is_no_program(tmp_path: Path) -> None:
    code = "import weft; weft.experiment(dir='runs', seed=0).finish()"
    done = subprocess.run(
        [sys.executable, "-"], input=code, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    done = rerun(tmp_path)
    assert done.returncode == 2 and "began in an interactive session" in done.stderr
    assert python("-c", code, cwd=tmp_path).returncode == 0
    done = rerun(tmp_path)
    assert done.returncode == 0, done.stderr


def test_rerun_of_a_program_that_begins_none(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    assert python("train.py", cwd=tmp_path).returncode == 0
    program.write_text("raise SystemExit(3)")
    done = rerun(tmp_path)
    assert done.returncode == 2 and "got none; it ended with 3" in done.stderr


def test_help_names_all_commands(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert "runs " in text and "rerun " in text and "compares" in text


@pytest.mark.parametrize("content", ['{"id": "x"', "{}", "null", "[1]", "\xff\x00"])
def test_a_damaged_run_hides_no_other(tmp_path: Path, content: str) -> None:
    """One folder that a full disk had cut off, and none could be listed."""
    with weft.experiment({"lr": 1.0}, dir=tmp_path) as run:
        run.log(0, loss=1.0)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_bytes(content.encode("latin-1"))
    with pytest.warns(UserWarning, match="expected a run in .*broken"):
        assert [found.id for found in runs(tmp_path)] == [run.id]


def test_the_step_that_fails_is_kept(tmp_path: Path) -> None:
    """Neither structure nor report was: the step that is wanted."""
    with pytest.raises(RuntimeError), weft.experiment(dir=tmp_path) as run:
        with run.record(3):
            weft.ones(2).exp() @ weft.ones(3)
    (row,) = run.stored.structures
    assert row["step"] == 3 and "matmul FAILED" in row["text"]
    assert (run.path / "report.html").exists()


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "\\NaN", "\\\\-Infinity", "\\x"])
def test_strings_that_look_like_numbers_stay_strings(text: str, tmp_path: Path) -> None:
    with weft.experiment({"x": text, "y": [NAN, -INF]}, dir=tmp_path) as run:
        run.log(0, text=text)
    assert run.stored.config["x"] == text
    assert str(run.stored.config["y"]) == "[nan, -inf]"
    assert run.stored.metrics[0]["text"] == text


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["runs", "--json"], 128 + signal.SIGPIPE), (["--help"], 0)],  # argparse goes on by itself
)
def test_a_reader_that_goes_ends_a_command_quietly(
    arguments: list[str], status: int, tmp_path: Path
) -> None:
    with weft.experiment({"x": "long" * 50_000}, dir=tmp_path / "runs"):
        pass
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "weft", *arguments],
            stdout=theirs, stderr=subprocess.PIPE, cwd=tmp_path, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (status, b"")
