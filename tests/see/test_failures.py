"""What an exception says of the call that failed, and `last_graph`."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn
from weft.nn import functional as F


def notes_of(
    program: Callable[[], Any],
    kind: type[Exception] | tuple[type[Exception], ...] = RuntimeError,
) -> list[str]:
    with pytest.raises(kind) as error:
        program()
    return [line for note in error.value.__notes__ for line in note.split("\n")]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.mix(x) + weft.ones(7)


class Deep(nn.Module):
    """Calls itself `n` times, then fails in a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)

    def forward(self, x: Any, n: int) -> Any:
        return self(x, n - 1) if n else self.mix(x)


LINE = "test_failures.py"


@pytest.mark.parametrize(
    ("program", "call"),
    [
        (lambda: weft.ones(2, 3) + weft.ones(7), "add(float32[2, 3], float32[7])"),
        (lambda: weft.ones(2).add_(weft.ones(3)), "add_(float32[2], float32[3])"),
        (lambda: weft.ones(2, dtype=weft.int64).log_(), "log_(int64[2])"),
        (lambda: weft.ones(2, 3) @ weft.ones(2, 3), "matmul(float32[2, 3], float32[2, 3])"),
        (lambda: weft.ones(3).view(7), "view(float32[3])"),
        (lambda: weft.stack([weft.ones(3), weft.ones(2)]), "stack(float32[3], float32[2])"),
        (lambda: weft.ones(0, 0).max(), "max(float32[0, 0])"),
        (
            lambda: F.linear(weft.ones(2), weft.ones(3, 3)),
            "linear(float32[2], float32[3, 3], None)",
        ),
        (lambda: weft.add(weft.ones(2), weft.ones(2), out=weft.ones(2).int()), "add("),
        (lambda: weft.einsum("ij,jk->ik", weft.ones(2, 3), weft.ones(2, 3)), "float32[2, 3]"),
    ],
)
def test_an_op_and_its_operands(program: Callable[[], Any], call: str) -> None:
    notes = notes_of(program)
    assert call in notes[0] and LINE in notes[0], notes


def test_other_kinds() -> None:
    assert "getitem(float32[3], int)" in notes_of(lambda: weft.ones(3)[5], IndexError)[0]
    wrong: Any = "a"
    told = notes_of(lambda: weft.matmul(weft.ones(3), wrong), TypeError)[0]
    assert "matmul(float32[3], str)" in told
    bad = notes_of(lambda: F.cross_entropy(weft.ones(2, 3), weft.ones(5).long()), ValueError)
    assert any("cross_entropy(float32[2, 3], int64[5]" in note for note in bad)
    assert "LSTM(float32[2, 2, 5])" in notes_of(lambda: nn.LSTM(3, 4)(weft.ones(2, 2, 5)))[0]


@pytest.mark.parametrize(
    ("program", "call"),
    [
        (lambda t: t[0, 0, 0], "getitem(float32[3], tuple)"),
        (lambda t: t[weft.ones(7).bool()], "getitem(float32[3], bool[7])"),
        (lambda t: t.__setitem__((0, 0), 1), "setitem(float32[3], tuple, int)"),
        (lambda t: list(t.sum()), "iter(float32[])"),
        (lambda t: len(t.sum()), "len(float32[])"),
        (lambda t: t.item(), "item(float32[3])"),
        (lambda t: bool(t), "bool(float32[3])"),
        (lambda t: int(t), "int(float32[3])"),
        (lambda t: float(t), "float(float32[3])"),
        (lambda t: [1, 2][t], "index(float32[3])"),
        (lambda t: weft.tensor([[1], [2, 3]]), "tensor(list)"),
        (lambda t: weft.tensor([[1], [2, 3]], dtype=weft.int64), "tensor(list)"),
    ],
)
def test_methods_that_are_no_ops(program: Callable[[Any], Any], call: str) -> None:
    """They had no note, and `last_graph` was that of an earlier failure, or none."""

    class Mine(nn.Module):
        def forward(self, t: Any) -> Any:
            return program(t)

    kinds = RuntimeError, TypeError, ValueError, IndexError
    notes = notes_of(lambda: nn.Sequential(Mine())(weft.ones(3)), kinds)
    assert notes[0].startswith(f"in {call} at ") and notes[1:] == ["in 0 (Mine)"]
    last = weft.last_graph()
    assert last is not None and last[-1].failed and call.startswith(last[-1].name)


def test_a_call_within_a_call() -> None:
    """The inner one first, which the message is of; each once."""
    notes = notes_of(lambda: F.layer_norm(weft.ones(2, 3), (4,)))
    assert [note.split("(")[0] for note in notes] == ["in native_layer_norm", "in layer_norm"]


def test_the_module() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Sequential(Inner()))
    assert notes_of(lambda: model(weft.ones(2, 3)))[1:] == ["in 1.0 (Inner)"]
    assert notes_of(lambda: model(weft.ones(2, 4)))[1:] == ["in 1.0.mix (Linear)"]
    assert notes_of(lambda: nn.Linear(3, 3)(weft.ones(2)))[1:] == ["in Linear"]
    assert notes_of(lambda: Deep()(weft.ones(2), 5))[1:] == ["in mix (Linear)"]
    with weft.record(), pytest.raises(RuntimeError) as error:
        model(weft.ones(2, 4))
    assert error.value.__notes__[1] == "in 1.0.mix (Linear)"


def test_errors_of_the_user_are_left_alone() -> None:
    class Mine(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("mine")

    with pytest.raises(KeyError) as error:
        nn.Sequential(Mine())(weft.ones(1))
    assert not hasattr(error.value, "__notes__")
    with pytest.raises(KeyError) as error:
        weft.func.vmap(Mine())(weft.ones(2))
    assert not hasattr(error.value, "__notes__")


def test_backward() -> None:
    class Wrong(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g @ weft.ones(9)

    loss = Wrong.apply(weft.ones(3, requires_grad=True)).sum()
    notes = notes_of(loss.backward)
    assert "in matmul(float32[3], float32[9])" in notes[0]
    assert any("in the backward of WrongBackward" in note for note in notes)
    x = weft.ones(3, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda g: g @ weft.ones(9))
    notes = notes_of(y.sum().backward)
    assert any("in the backward of ExpBackward0" in note for note in notes)
    y = x.exp()
    z = y.sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="in the backward of ExpBackward0, made at .*test_fail"):
        z.backward()


def test_an_example_of_a_batch() -> None:
    weights = weft.ones(3, 3)
    layer = Inner()
    indices = [weft.tensor([1]), weft.tensor([9]), weft.tensor([0])]
    batched = weft.autobatch(lambda i: F.embedding(i, weights).sum())
    notes = notes_of(lambda: batched(indices), IndexError)
    assert "in embedding(float32[3, 3], int64[1])" in notes[0]
    assert notes[-1] == "in example 1 of 3"
    notes = notes_of(lambda: weft.autobatch(layer)([weft.ones(3), weft.ones(4)]))
    assert "in linear(float32[4], float32[3, 3], float32[3])" in notes[0] or "add(" in notes[0]


def test_operands_that_a_kernel_exchanged() -> None:
    """After a kernel that computes in another dtype the operands were gone: a crash."""
    failed = 0
    for dtype in (weft.float16, weft.bfloat16, weft.uint16, weft.complex64, weft.bool):
        x = weft.ones(2, 3).to(dtype)
        for name in ("frac", "erfinv", "digamma", "floor", "sort", "bernoulli", "softmax", "gt"):
            try:
                getattr(x, name)(*{"softmax": (-1,), "gt": (weft.ones(5),)}.get(name, ()))
            except (RuntimeError, NotImplementedError) as error:
                shown = str(x.dtype).removeprefix("torch.")
                assert f"{shown}[2, 3]" in "".join(error.__notes__)  # noqa: PT017
                failed += 1
    assert failed > 10


def test_exceptions_are_copied_and_pickled() -> None:
    with pytest.raises(RuntimeError) as error:
        Inner()(weft.ones(2, 3))
    for twin in (copy.copy(error.value), pickle.loads(pickle.dumps(error.value))):
        assert twin.__notes__ == error.value.__notes__ and str(twin) == str(error.value)
    shown = "".join(traceback.format_exception(error.value))
    assert shown.rstrip().endswith("in Inner")


def test_the_graph_up_to_there() -> None:
    w = weft.ones(3, requires_grad=True)
    h = (w * 2).exp()
    with pytest.raises(RuntimeError):
        h @ weft.ones(4)
    g = weft.last_graph()
    assert g is not None and [e.name for e in g] == ["mul", "exp", "matmul"]
    last = g[-1]
    assert last.failed and [v.shape for v in last.inputs if v] == [(3,), (4,)]
    assert last.inputs[0] and last.inputs[0].event == g[1] and last.outputs == []
    assert last.site and LINE in last.site.file and "matmul FAILED" in str(g)
    assert [e.name for e in g.path(g[0], last)] == ["mul", "exp", "matmul"]
    with pytest.raises(RuntimeError):
        weft.ones(2, 3).add(weft.ones(4))
    g = weft.last_graph()
    assert g is not None and len(g) == 1 and g[0].inputs[0].shape == (2, 3)  # type: ignore[union-attr]


def test_it_holds_no_values_and_ends_somewhere() -> None:
    import gc
    import weakref

    w = weft.ones(3, requires_grad=True)
    y = w
    for _ in range(3000):
        y = y * 1.5
    seen = weakref.ref(w)
    try:
        y @ weft.ones(4)
    except RuntimeError:
        pass
    g = weft.last_graph()
    assert g is not None and len(g) == 1001 and g[0].inputs[0].event is None  # type: ignore[union-attr]
    del w, y
    gc.collect()
    assert seen() is None


def test_within_a_recording_it_is_that() -> None:
    model = Inner()
    with weft.record() as g:
        x = weft.ones(2, 3)
        with pytest.raises(RuntimeError):
            model(x)
        found = weft.last_graph()
        assert found is not None and [
            e.name for e in found.find("*", where=lambda e: e.failed)
        ] == [
            "Inner",
            "add",
        ]
    again = weft.last_graph()
    assert again is not None and [e.name for e in again] == [e.name for e in g]
    assert again.find("add")[0].module == "" and again.find("linear")[0].module == "mix"


def test_a_recording_is_not_kept_for_its_failure() -> None:
    """It was until the next failure, with its modules."""
    import gc
    import weakref

    model = Inner()
    seen = weakref.ref(model)
    with weft.record() as g, pytest.raises(RuntimeError):
        model(weft.ones(2, 3))
    assert weft.last_graph() is not None
    del model, g
    gc.collect()
    assert seen() is None and weft.last_graph() is None


def test_the_last_failure_is_the_last() -> None:
    """It was that of a call before, where what failed was no op."""
    x = weft.ones(2, requires_grad=True)
    y = x.exp()
    loss = (y * 1).sum()
    y.add_(1)
    wrong: Any = "a"
    for program, name in (
        (lambda: weft.ones(2) @ weft.ones(3), "matmul"),
        (loss.backward, "backward"),
        (lambda: weft.einsum("ij,jk->ik", weft.ones(2, 3), weft.ones(4, 5)), None),
        (lambda: weft.nn.LSTM(3, 4)(weft.ones(5, 2, 7)), "LSTM"),
        (lambda: weft.matmul(weft.ones(3), wrong), "matmul"),
    ):
        with pytest.raises((RuntimeError, TypeError)):
            program()
        g = weft.last_graph()
        assert g is not None and g[-1].failed and g[-1].name == (name or g[-1].name), name
    with pytest.raises(TypeError):
        weft.set_default_dtype(3)
    assert weft.last_graph() is None  # an error of no call
    with weft.record() as recorded, pytest.raises(RuntimeError):
        loss.backward()
    found = weft.last_graph()
    assert found is not None and len(found) == len(recorded)
