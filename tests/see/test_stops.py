"""stop_when: where it stops, where it does not, what is at hand there, and where no terminal is."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import _C, nn
from weft.see import StopError, Stopped
from weft.see import stops as stops_module


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert _C._Log.running() is None


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.inner(x).tanh()


def program() -> Any:
    weft.manual_seed(0)
    model = nn.Sequential(Block(), Block())
    x = weft.ones(2, 3, requires_grad=True)
    y = model(x)
    z = (y - 2).sqrt()  # nan
    (z * 3).sum().backward()
    weft.zeros(4, 0) @ weft.zeros(0, 2)
    (x.detach() * 1e4).exp()  # inf
    return x.grad


def stopped_at(**conditions: Any) -> list[str]:
    found: list[str] = []
    with weft.stop_when(**conditions, action=lambda s: found.append(s.event.name)) as stop:
        program()
    assert stop.hits == len(found)
    return found


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        ({"nan": True}, ["sqrt"]),
        ({"inf": True}, ["exp"]),
        ({"nan": True, "inf": True}, ["sqrt", "exp"]),
        ({"op": "tanh"}, ["tanh", "tanh"]),
        ({"op": "tan?"}, ["tanh", "tanh"]),
        ({"op": "linear", "module": "1.inner"}, ["linear"]),
        ({"module": "1*", "backward": False}, ["linear", "tanh"]),
        ({"module": "1.inner", "backward": True}, ["mm", "sum"]),
        ({"module": "no"}, []),
        ({"shape": (4, None)}, ["zeros", "mm"]),
        ({"shape": (..., 0)}, ["zeros"]),
        ({"shape": (0, ...)}, ["zeros"]),
        ({"shape": (), "backward": False}, ["sum"]),
        ({"line": "test_stops.py", "op": "exp"}, ["exp"]),
        ({"line": "elsewhere.py"}, []),
        ({"norm_above": 1e4, "backward": False}, ["mul", "exp"]),
        ({"op": "exp", "when": lambda t: t.isinf().any()}, ["exp"]),
        ({"op": "exp", "when": lambda t: False}, []),
        ({"op": "tanh", "backward": True}, []),
    ],
)
def test_where_it_stops(conditions: dict[str, Any], names: list[str]) -> None:
    assert stopped_at(**conditions) == names


def test_a_line_of_forward_and_backward() -> None:
    found: list[Stopped] = []
    x = weft.ones(2, requires_grad=True)
    line = sys._getframe().f_lineno + 2
    with weft.stop_when(line=f"test_stops.py:{line}", backward=True, action=found.append):
        y = x.exp() * 2
        y.sum().backward()
    assert [s.event.parent.name for s in found if s.event.parent] == [
        "MulBackward0",
        "ExpBackward0",
    ]
    assert {s.event.site.line for s in found if s.event.site} == {line}
    assert "in backward, MulBackward0" in str(found[0])


def test_what_is_at_hand() -> None:
    found: list[Stopped] = []
    a, b = weft.full((2, 3), 2.0), weft.ones(3, 4)
    with weft.stop_when(op="mm", action=found.append):
        inside = a @ b
    (stopped,) = found
    assert stopped.inputs[0] is a and stopped.inputs[1] is b
    assert stopped.output.equal(inside) and stopped.outputs == [stopped.output]
    assert stopped.event.shape == (2, 4) and stopped.frame.f_code.co_name == "test_what_is_at_hand"
    assert "inside = a @ b" in str(stopped) and "op='mm'" in str(stopped)


def test_operands_are_as_they_were() -> None:
    """Where nobody else holds an operand a result is written over it."""
    values: list[list[float]] = []

    def look(stopped: Stopped) -> None:
        values.extend(t.tolist() for t in stopped.inputs[:1] if t is not None)

    with weft.stop_when(op="exp", action=look):
        (weft.zeros(2) + 1).exp()
    assert values == [[1.0, 1.0]]


def test_a_changed_result_goes_on() -> None:
    x = weft.zeros(3, requires_grad=True)
    with weft.stop_when(op="exp", action=lambda s: s.change(5.0)):
        y = x.exp()
    y.sum().backward()
    assert y.tolist() == [5.0] * 3 and x.grad is not None and x.grad.tolist() == [5.0] * 3
    with (
        pytest.raises(RuntimeError),
        weft.stop_when(op="exp", action=lambda s: s.change(weft.ones(7))),
    ):
        x.exp()


def test_steps() -> None:
    found: list[str] = []

    def step(stopped: Stopped) -> None:
        found.append(stopped.event.name)
        if len(found) < 3:
            stopped.step()

    with weft.stop_when(op="exp", when=lambda t: t.numel() == 2, action=step):
        weft.ones(2).exp().sin().cos().tan()
    assert found == ["exp", "sin", "cos"]


def test_what_a_debugger_computes_is_not_heard_of() -> None:
    found: list[int] = []

    def look(stopped: Stopped) -> None:
        found.append(len(stopped.graph))
        (stopped.output * 0).log().exp()

    with weft.stop_when(inf=True, action=look), weft.record() as g:
        x = weft.zeros(2).log()
        x.exp()
    assert found == [2] and [e.name for e in g] == ["zeros", "log", "exp"]


def test_an_exception_of_the_action_is_that_of_the_call() -> None:
    def refuse(stopped: Stopped) -> None:
        raise KeyError("no")

    x = weft.ones(2, requires_grad=True)
    with weft.record() as g, pytest.raises(KeyError, match="no"):
        with weft.stop_when(op="exp", action=refuse):
            x.exp()
    assert g[-1].name == "exp" and g[-1].failed


def test_it_may_be_removed_at_a_hit() -> None:
    hits: list[str] = []

    def once(stopped: Stopped) -> None:
        hits.append(stopped.event.name)
        stopped.stop.remove()

    stop = weft.stop_when(op="exp", action=once)
    weft.ones(1).exp().exp()
    assert hits == ["exp"] and _C._Log.running() is None
    stop.remove()
    assert "removed" in repr(stop)


def test_a_removed_one_is_set_again_when_it_is_entered() -> None:
    """It did nothing from the second time on, and said nothing."""
    found: list[str] = []
    stop = weft.stop_when(op="exp", action=lambda s: found.append(s.event.name))
    for times in (1, 2, 3):
        with stop:
            weft.ones(1).exp()
        weft.ones(1).exp()
        assert _C._Log.running() is None
        assert len(found) == stop.hits == times


def test_a_call_that_has_gone_on_is_not_stepped_from() -> None:
    found: list[Stopped] = []
    with weft.stop_when(op="exp", action=found.append):
        weft.zeros(2).exp()
        with pytest.raises(RuntimeError, match=r"\[step\] .*got one that has gone on from exp"):
            found[0].step()
        weft.zeros(2).sin()
    assert len(found) == 1


def test_the_next_op_is_not_said_to_have_the_condition() -> None:
    said: list[str] = []

    def step(stopped: Stopped) -> None:
        said.append(str(stopped).splitlines()[0])
        if len(said) == 1:
            stopped.step()

    with weft.stop_when(op="mul", action=step):
        (weft.ones(3) * 2).exp()
    assert said == ["mul -> float32[3], which has op='mul'", "exp -> float32[3], the next op"]


def test_two_stops_and_a_recording() -> None:
    hits: list[str] = []
    a = weft.stop_when(op="exp", action=lambda s: hits.append("a"))
    with weft.record() as g:
        b = weft.stop_when(op="e*", action=lambda s: hits.append("b"))
        weft.ones(1).exp().erf()
        a.remove()
        weft.ones(1).exp()
    b.remove()
    assert hits == ["a", "b", "b", "b"]
    assert [e.name for e in g] == ["ones", "exp", "erf", "ones", "exp"]


def test_a_batch_and_its_example() -> None:
    def example(x: Any) -> Any:
        return (x - 1).sqrt() * 2

    lines: list[str] = []
    xs = [weft.ones(3), weft.zeros(3), weft.ones(3)]
    with weft.stop_when(nan=True, action=lambda s: lines.append(s.event.line)):
        weft.autobatch(example)(xs)
    assert [line.split(":")[0] for line in lines] == ["test_stops.py"]
    with weft.stop_when(nan=True, action=_refuse), pytest.raises(ValueError) as error:
        weft.autobatch(example)(xs)
    assert error.value.__notes__ == ["in example 1 of 3"]


def _refuse(stopped: Stopped) -> None:
    raise ValueError("no")


def test_a_module_of_a_kept_call() -> None:
    """A batch had no module: the calls of several examples run in it."""
    model = nn.Sequential(Block(), Block())
    with weft.record() as g:
        weft.autobatch(model)([weft.ones(3), weft.zeros(3)])
    assert [e.module for e in g.find("linear")] == ["0.inner", "1.inner"]
    assert {e.module for e in g.find(module="0*")} == {"0", "0.inner"}
    assert set(stopped_in(model)) == {"1.inner"}  # batched or one by one


def stopped_in(model: Any) -> list[str]:
    paths: list[str] = []
    with weft.stop_when(op="linear", module="1*", action=lambda s: paths.append(s.event.module)):
        weft.autobatch(model)([weft.ones(3), weft.zeros(3)])
    return paths


@pytest.mark.parametrize(
    "dtype", [weft.float16, weft.bfloat16, weft.float32, weft.float64, weft.complex64]
)
@pytest.mark.parametrize("layout", ["dense", "strided", "one", "empty"])
def test_values_are_seen_in_every_dtype_and_layout(dtype: weft.dtype, layout: str) -> None:
    shape = {"dense": (70, 300), "strided": (70, 300), "one": (), "empty": (0, 2)}[layout]
    x = weft.zeros(shape, dtype=dtype)
    if layout == "strided":
        x = x.t()
    last = weft.arange(x.numel()).reshape(x.shape) == x.numel() - 1
    for bad, asked in ((float("nan"), "nan"), (float("inf"), "inf"), (-float("inf"), "inf")):
        for condition in ("nan", "inf"):
            hits: list[Stopped] = []
            y = weft.empty_like(x).copy_(x)
            with weft.stop_when(**{condition: True}, action=hits.append):
                x.masked_fill(last, bad)
                y.masked_fill_(last, bad)
            assert len(hits) == 2 * (condition == asked and x.numel() > 0), (bad, condition)


def test_norm() -> None:
    for dtype in (weft.float32, weft.float64, weft.bfloat16, weft.complex64):
        x = weft.full((3, 4), 2.0, dtype=dtype)
        for bound, hits in ((6.9, 1), (7.0, 0)):
            found: list[Stopped] = []
            with weft.stop_when(norm_above=bound, action=found.append):
                x.t() * 1
            assert len(found) == hits


def test_it_forgets_where_nothing_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of days is watched in bounded memory."""
    monkeypatch.setattr(stops_module, "_WANTED", (False, 0, 50))
    hits: list[int] = []
    model = Block()
    with weft.stop_when(op="tanh", module="", action=lambda s: hits.append(len(s.graph))) as stop:
        for _ in range(100):
            model(weft.ones(3))
            weft.ones(2) * 2
        count = stop._log.count
        with weft.record() as g:  # wants all of it
            for _ in range(100):
                model(weft.ones(3))
    assert len(hits) == 200 and max(hits[:100]) < 60 and count < 60
    assert len(g.find("tanh")) == 100


def test_bad_calls() -> None:
    with pytest.raises(ValueError, match="expected a condition"):
        weft.stop_when()
    with pytest.raises(TypeError, match="at most one"):
        weft.stop_when(shape=(..., ...))
    with pytest.raises(TypeError, match="expected sizes"):
        weft.stop_when(shape=("a",))
    with pytest.raises(ZeroDivisionError):
        with weft.stop_when(op="exp", when=lambda t: 1 / 0, action=_refuse):
            weft.ones(1).exp()


def test_no_terminal(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import weft; weft.stop_when(nan=True); weft.ones(2).neg().log()"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONBREAKPOINT": ""},
    )  # fmt: skip
    assert run.returncode == 1
    assert "StopError: [stop_when] expected a terminal" in run.stderr and "log -> " in run.stderr


def test_the_workers_of_a_data_loader() -> None:
    from weft.utils.data import DataLoader

    class Rows(weft.utils.data.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Any:
            return (weft.ones(1) - i).log()

    with weft.stop_when(nan=True, action=None) as stop:
        stop._action = stops_module.debug  # pytest has a hook of its own
        hook, sys.breakpointhook = sys.breakpointhook, sys.__breakpointhook__
        try:
            with pytest.raises(StopError, match="expected a terminal"):
                list(DataLoader(Rows(), num_workers=1))
        finally:
            sys.breakpointhook = hook


def test_an_installed_debugger_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: found.append(sys._getframe(1).f_locals))
    with weft.stop_when(op="exp"):
        weft.zeros(1).exp()
    assert found[0]["output"].tolist() == [1.0] and found[0]["inputs"][0].tolist() == [0.0]


PROGRAM = """
    import weft
    def forward(x):
        scale = 3
        y = x * scale
        return y.log().sum()
    stop = weft.stop_when(nan=True)
    print("sum", forward(weft.tensor([1.0, -1.0])).item())
    print("again", forward(weft.tensor([1.0, -1.0])).item())
    print("finished")
"""


def converse(path: Path, lines: list[tuple[str, str]]) -> str:
    """Runs the program at a terminal: waits for each text, and types the line."""
    main, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(path)], stdin=child, stdout=child, stderr=child, close_fds=True,
        env={**os.environ, "PYTHONBREAKPOINT": "", "TERM": "dumb"},
    )  # fmt: skip
    os.close(child)
    seen, at = "", 0
    deadline = time.monotonic() + 60
    for wanted, typed in [*lines, ("", "")]:
        while wanted not in seen[at:] or not wanted:
            ready, _, _ = select.select([main], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"waited for {wanted!r} after {seen!r}"
            try:
                more = os.read(main, 4096)
            except OSError:  # the other end is closed
                more = b""
            if not more:
                break
            seen += more.decode()
        at = len(seen)
        if typed:
            os.write(main, (typed + "\n").encode())
    process.wait(60)
    os.close(main)
    return seen


def test_pdb_at_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    seen = converse(
        path,
        [
            ("(weft)", "p scale, inputs[0].tolist()"),
            ("(weft)", "next_op"),
            ("(weft)", "p 'at', stopped.event.name"),
            ("(weft)", "stopped.change(42.0)"),
            ("(weft)", "n"),
            ("(weft)", "c"),
            ("(weft)", "stop.remove()"),
            ("(weft)", "c"),
        ],
    )
    assert "stopped at log -> float32[2]" in seen and "(3, [3.0, -3.0])" in seen
    assert "('at', 'sum')" in seen and "sum 42.0" in seen
    assert "again nan" in seen and "finished" in seen


def test_quitting_ends_the_program(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    seen = converse(path, [("(weft)", "q")])
    assert "BdbQuit" in seen and "finished" not in seen


def test_what_was_seen_at_a_stop_stays() -> None:
    """The graph of a stop that was kept went on growing, and was another one after much more."""
    found: list[Stopped] = []
    with weft.stop_when(op="log", action=found.append):
        weft.ones(2).log().exp()
        for _ in range(10):
            weft.ones(2).exp()
    (stopped,) = found
    assert [e.name for e in stopped.graph] == ["ones", "log"]
    assert stopped.event.name == "log" and stopped.event.shape == (2,)


@pytest.mark.parametrize("raised", [StopError, ValueError, KeyboardInterrupt])
def test_what_a_debugger_raises_ends_a_batch(raised: type[BaseException]) -> None:
    """It was taken for an error of an example, whose calls ran again, and was lost."""
    names: list[str] = []

    def act(stopped: Stopped) -> None:
        names.append(stopped.event.name)
        raise raised("enough")

    def one(t: Any) -> Any:
        h = t.log()
        return (h * 2).sum()

    for conditions in ({"op": "log"}, {"nan": True}):
        names.clear()
        batched = weft.autobatch(one)
        with weft.stop_when(**conditions, action=act), pytest.raises(raised, match="enough"):
            [x.item() for x in batched([-weft.ones(3), weft.ones(3)])]
        assert names == ["log"]


def test_nan_that_is_made_in_place() -> None:
    """The operand, which had been written over, had it too."""
    hits: list[str] = []
    with weft.stop_when(nan=True, action=lambda s: hits.append(s.event.name)):
        a = -weft.ones(3)
        a.log_()
        b = weft.zeros(3)
        b /= b.clone()
        c = weft.ones(3)
        c[0] = float("nan")
        d = weft.ones(3)
        d.masked_fill_(d > 0, float("nan"))
    assert hits[:2] == ["log_", "div_"] and len(hits) == 4
    w = weft.ones(2, requires_grad=True)
    optimizer = weft.optim.SGD([w], lr=float("inf"))
    hits.clear()
    with weft.stop_when(nan=True, inf=True, action=lambda s: hits.append(s.event.kind)):
        (w * 0).sum().backward()
        optimizer.step()
    assert hits == ["step"]


def test_views() -> None:
    hits: list[str] = []
    x = weft.full((4, 6), float("nan"))
    with weft.stop_when(op="view", action=lambda s: hits.append(s.event.name)):
        x.view(24)
    with weft.stop_when(shape=(24,), action=lambda s: hits.append(s.event.name)):
        x.view(24)
    with weft.stop_when(nan=True, action=lambda s: hits.append(s.event.name)):
        x.view(24)  # computes nothing
    assert hits == ["view", "view"]


def test_all_stops_that_hold_are_told() -> None:
    hits: list[str] = []
    z = weft.zeros(2)
    with (
        weft.stop_when(nan=True, action=lambda s: hits.append("nan")),
        weft.stop_when(op="div", action=lambda s: hits.append("op")),
    ):
        z / z
    assert hits == ["nan", "op"]


def test_masks_of_attention_are_no_infinities_that_a_call_made() -> None:
    mask = weft.full((3, 3), float("-inf")).triu(1)
    bad = weft.full((2,), float("nan"))
    hits: list[str] = []
    with weft.stop_when(inf=True, nan=True, action=lambda s: hits.append(s.event.name)):
        (weft.randn(3, 3) + mask).softmax(-1)
        assert hits == []
        (bad * 2).exp()
    assert hits == ["mul"]  # nan that was there is of the first to read it


@pytest.mark.parametrize(
    ("name", "value"),
    [("op", 3), ("module", 3), ("shape", 3), ("line", 1.5), ("when", 3), ("action", 3),
     ("norm_above", "x"), ("norm_above", True), ("backward", "x"), ("nan", 3), ("inf", "x")],
)  # fmt: skip
def test_an_argument_of_another_type_sets_nothing(name: str, value: Any) -> None:
    wrong: dict[str, Any] = {"nan": True, name: value}
    with pytest.raises(TypeError, match=rf"^\[stop_when\] expected {name} as .*, got "):
        weft.stop_when(**wrong)
    assert _C._Log.running() is None


def test_nothing_is_changed_once_the_program_has_gone_on() -> None:
    found: list[Stopped] = []
    with weft.stop_when(op="exp", action=found.append):
        y = weft.zeros(2).exp()
    with pytest.raises(RuntimeError, match=r"^\[change\] expected a program that is stopped"):
        found[0].change(5)
    assert y.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=r"^\[step\] expected a breakpoint that is set"):
        found[0].step()
