"""What may be traced, what is refused, and that a refusal leaves nothing behind."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import _C

X = (4, 6)


def plan_of(f: Callable[..., Any], *inputs: Any, tiles: bool = True) -> Any:
    return _C._trace(f, inputs, tiles)


def test_the_text_says_what_the_calls_are() -> None:
    x, w = weft.zeros(4, 8), weft.zeros(16, 8)

    def f(x: Any, w: Any) -> Any:
        h = weft.nn.functional.linear(x, w)
        y = weft.tanh(h) * 2.5
        return y.sum(1), y.T, y.detach()

    assert plan_of(f, x, w).text == (
        "%0 = input : float32[4, 8]\n"
        "%1 = input : float32[16, 8]\n"
        "%2 = linear(%0, %1, None) : float32[4, 16]\n"
        "%3 = tanh(%2) : float32[4, 16]\n"
        "%4 = constant 2.5 : float32[] number\n"
        "%5 = mul(%3, %4) : float32[4, 16]\n"
        "%6 = sum.dim(%5, dim=[1], keepdim=False, dtype=None) : float32[4]\n"
        "%7 = permute(%5, dims=[1, 0]) : float32[16, 4] strides [1, 16]\n"
        "%8 = detach(%5) : float32[4, 16]\n"
        "return %6, %7, %8\n"
    )


READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: 1 if x.sum() > 0 else 0,
    "float": lambda x: float(x.sum()),
    "index": lambda x: [1, 2][x.sum().long()],
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "array": lambda x: np.asarray(x),
    "repr": lambda x: repr(x),
    "data_ptr": lambda x: x.data_ptr(),
    "storage_offset": lambda x: x.storage_offset(),
    "equal": lambda x: weft.equal(x, x),
    "allclose": lambda x: weft.allclose(x, x),
    "mask": lambda x: x[x > 0],
    "deepcopy": lambda x: __import__("copy").deepcopy(x),
    "pickle": lambda x: __import__("pickle").dumps(x),
    "version": lambda x: x._version,
    "data": lambda x: x.data,
}


@pytest.mark.parametrize("how", READS)
def test_a_value_that_is_read_is_refused(how: str) -> None:
    x = weft.randn(*X)
    with pytest.raises(RuntimeError, match=r"^\[trace\] expected calls that depend on layouts"):
        plan_of(lambda x: (READS[how](x), x * 2)[1], x)


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(1),
    "into real": lambda x, y: y.add_(x),
    "real into real": lambda x, y: (y.mul_(2), x + 1)[1],
    "out": lambda x, y: weft.add(x, x, out=y),
    "setitem": lambda x, y: x.__setitem__(0, 1.0),
    "setitem of real": lambda x, y: y.__setitem__(0, x[0]),
    "t_": lambda x, y: x.t_(),
    "resize_": lambda x, y: x.resize_(3),
    "copy_": lambda x, y: y.copy_(x),
    "requires_grad_": lambda x, y: x.requires_grad_(),
    "requires_grad=": lambda x, y: x + weft.zeros_like(x, requires_grad=True),
    "generator=": lambda x, y: x + weft.rand(*X, generator=weft.default_generator),
}


@pytest.mark.parametrize("how", WRITES)
def test_a_write_is_refused_and_nothing_has_changed(how: str) -> None:
    x, y = weft.randn(*X), weft.randn(*X)
    before = x.tolist(), y.tolist(), y._version
    state = weft.get_rng_state().tolist()
    with pytest.raises(RuntimeError, match=r"^\[trace\] expected calls that depend on layouts"):
        plan_of(lambda x: WRITES[how](x, y), x)
    assert (x.tolist(), y.tolist(), y._version) == before
    assert weft.get_rng_state().tolist() == state
    x.add_(1)  # nothing is traced any more
    assert plan_of(lambda x: x + y, x).run(x)[0].tolist() == (x + y).tolist()


def test_tracing_draws_nothing_and_each_run_does() -> None:
    x = weft.ones(4)
    weft.manual_seed(3)
    state = weft.get_rng_state().tolist()
    plan = plan_of(
        lambda x: (weft.rand(2), weft.nn.functional.dropout(x, 0.5) + weft.rand(4))[1], x
    )
    assert weft.get_rng_state().tolist() == state
    first, second = plan.run(x)[0], plan.run(x)[0]
    weft.manual_seed(3)
    for found in (first, second):
        weft.rand(2)  # it runs though nothing needs it
        expected = weft.nn.functional.dropout(x, 0.5) + weft.rand(4)
        assert found.tolist() == expected.tolist()


def test_a_traced_tensor_that_leaks_cannot_be_used() -> None:
    x, kept = weft.randn(*X), []
    plan_of(lambda x: (kept.append(x), x + 1)[1], x)
    assert kept[0].shape == X and not kept[0].requires_grad
    for use in (lambda t: t + 1, lambda t: t.tolist(), lambda t: x + t, lambda t: t.add_(1)):
        with pytest.raises(RuntimeError, match="a value that is read"):
            use(kept[0])
    with pytest.raises(RuntimeError, match="a value that is read"):
        plan_of(lambda x: x + kept[0], x)  # of another trace


def test_what_needs_no_input_is_no_result() -> None:
    with pytest.raises(RuntimeError, match="a result that was not traced"):
        plan_of(lambda x: (x + 1, weft.zeros(3)), weft.ones(2))


def test_tensors_with_memory_are_constants() -> None:
    x, y = weft.randn(*X), weft.randn(6)
    plan = plan_of(lambda x: x * y + y.sum() + weft.arange(6), x)
    assert plan.text.count("constant") == 3
    assert plan.run(x)[0].equal(x * y + y.sum() + weft.arange(6))


def test_steps_that_nothing_needs_run_only_where_they_could_raise() -> None:
    def f(x: Any, i: Any) -> Any:
        weft.nn.functional.embedding(i, x)
        weft.tanh(x)
        i // i
        return weft.exp(x)

    x, i = weft.randn(*X), weft.tensor([1])
    plan = plan_of(f, x, i)
    assert [line.split()[-1] for line in plan.groups.splitlines()] == [
        "embedding", "floor_divide", "exp"
    ]  # fmt: skip
    for bad in (100, 0):
        with pytest.raises((IndexError, RuntimeError)):
            plan.run(x, weft.tensor([bad]))


def test_a_mode_is_what_it_was_when_a_trace_has_failed() -> None:
    x = weft.randn(*X)
    mode = _C._mode()

    def inner(x: Any) -> Any:
        plan_of(lambda z: z.item(), x)

    with pytest.raises(RuntimeError, match="a value that is read"):
        plan_of(inner, x)
    assert _C._mode() == mode
    assert (x + 1).tolist() == (x + 1).tolist()


def test_tracing_gives_memory_back() -> None:
    x, w = weft.randn(32, 32), weft.randn(32, 32)

    def f(x: Any) -> Any:
        h = x
        for _ in range(5):
            h = weft.tanh(h @ w + 1)
        return h, h.T, x[1:]

    def once() -> None:
        plan = plan_of(f, x)
        plan.run(x)
        plan.run(x)
        with pytest.raises(RuntimeError):
            plan_of(lambda x: f(x)[0].item(), x)

    once()
    gc.collect()
    used = _C._memory_stats()["current"]
    for _ in range(3):
        once()
    gc.collect()
    assert _C._memory_stats()["current"] == used


def test_under_vmap_and_autobatch_a_trace_is_a_trace() -> None:
    x = weft.randn(3, *X)
    plan = plan_of(lambda x: weft.tanh(x) * 2, x[0])
    expected = [(weft.tanh(t + 1) * 2 - t).tolist() for t in x]
    assert [
        t.tolist() for t in weft.autobatch(lambda t: plan.run(t + 1)[0] - t)(list(x))
    ] == expected
    assert weft.func.vmap(lambda t: plan.run(t + 1)[0] - t)(x).tolist() == expected

    def traced(t: Any) -> Any:
        return plan_of(lambda t: weft.tanh(t) * 2, t).run(t)[0]

    assert [t.tolist() for t in weft.autobatch(lambda t: traced(t + 1) - t)(list(x))] == expected
