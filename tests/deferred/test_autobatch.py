"""weft.autobatch keeps what Python means: values, branches, order, exceptions, in-place writes."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

WEIGHTS = [weft.ones(4, 4).requires_grad_() for _ in range(3)]
X = [(weft.arange(float(n), dtype=weft.float64) - 1).requires_grad_() for n in (1, 2, 3, 2, 5)]


def both(fn: Callable[..., Any], *lists: list[Any], **kwargs: Any) -> tuple[Any, Any]:
    """What batched and plain runs give, each with its effects on a list."""
    outcomes = []
    for batch in (True, False):
        weft.manual_seed(3)
        seen: list[Any] = []
        was = weft.autobatch.enabled
        weft.autobatch.enabled = batch
        try:
            copies = [[copy(x) for x in column] for column in lists]
            one = functools.partial(fn, seen)
            result: Any = weft.autobatch(one, **kwargs)(*copies)
            leaves = [x for column in copies for x in column if isinstance(x, weft.Tensor)]
            total = sum((t.sum() for t in tensors(result) if t.requires_grad), weft.zeros(()))
            if total.requires_grad:
                total.backward()
            outcomes.append((plain(result), plain(seen), [plain(x.grad) for x in leaves]))
        except Exception as error:  # noqa: BLE001
            outcomes.append((type(error), str(error).split("\n")[0]))
        finally:
            weft.autobatch.enabled = was
    return outcomes[0], outcomes[1]


def copy(x: Any) -> Any:
    return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, weft.Tensor) else x


def tensors(value: Any) -> list[weft.Tensor]:
    if isinstance(value, weft.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value
    return [t for v in items for t in tensors(v)] if isinstance(value, (list, tuple, dict)) else []


def plain(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        return np.round(value.tolist(), 9).tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return (
            type(value)(*map(plain, value))
            if hasattr(value, "_fields")
            else type(value)(map(plain, value))
        )
    return value


def branch(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    return x * 2 if x.sum() > 0 else x - 2


def loop(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    steps = 0
    while x.norm() < 20:
        x = x * 1.5 + 1
        steps += 1
        assert steps < 50
    return x * steps


def in_place(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    y = x * 2
    y += 1
    y.mul_(x)
    z = y.exp()
    y.zero_()
    return y + z


def in_place_on_views(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    y = weft.cat([x, x]) * 1
    first = y[: x.shape[0]]
    y[0] = 7.0
    first += 1
    late = y[1:]
    late *= 2
    return y * first.sum()


def views_of_inner_dims(seen: list[Any], x: weft.Tensor) -> Any:
    y = weft.stack([x, x * 2], 1)
    column = y[:, 1]
    column += 1
    y += 1
    return {"y": y, "column": column, "t": y.t() @ y}


def buffer(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    out = weft.zeros(3)
    for k in range(3):
        out[k] = (x * k).sum()
    return out


def outside_the_graph(seen: list[Any], x: weft.Tensor) -> Any:
    y = x * 2
    with weft.no_grad():
        z = y * 3
        w = y.view(-1)
    return (y * z).sum() + (w * 2).sum(), y.detach() * 2, z


def structure(seen: list[Any], x: weft.Tensor) -> Any:
    Pair = collections.namedtuple("Pair", "a b")
    return {"pair": Pair(x * 2, "text"), "list": [x.sum(), None, 3], "same": x}


def generator(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    def rows() -> Any:
        for v in x:
            yield v * 2 if v > 0 else v

    return weft.stack(list(rows()))


def draws(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    y = x + weft.randn(x.shape)
    if y.sum() > 0:
        y = y + weft.rand(())
    return weft.nn.functional.dropout(y * 2, 0.5)


def gradient_inside(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    w = weft.ones(3, requires_grad=True)
    (g,) = weft.autograd.grad(((w * 2) ** 2 * x.detach().sum()).sum(), w)
    return x * g.sum()


def custom_function(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, v: weft.Tensor) -> weft.Tensor:
            return v * 2 if v.sum() > 0 else v * 3

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g * 10

    return Double.apply(x * 1) + x


def nested(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    parts = weft.autobatch(lambda v: v * 2 if v > 0 else v - 1)(list(x))
    return weft.stack(parts).sum()


def numbers(seen: list[Any], x: weft.Tensor) -> Any:
    y = x * 2
    return [int(y.sum()), float(y[0]), y.tolist(), y.sum().item(), bool(y[0] > 0), f"{y}", len(y),
            y.shape, y.dtype, y.requires_grad, y.is_leaf, y.numpy(force=True).tolist()]  # fmt: skip


def fails_in_python(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    if x.sum() > 5:
        raise KeyError("five")
    return x * 2


def fails_in_a_shape(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    return x * 2 + weft.ones(2)


def fails_in_a_value(seen: list[Any], x: weft.Tensor) -> weft.Tensor:
    index = (x.detach() * 2).to(weft.int64)
    return weft.nn.functional.embedding(index.clamp(min=0), weft.ones(5, 2))


def unbatched(seen: list[Any], x: weft.Tensor) -> Any:
    y = x * 2
    return y[y > 0], weft.unique(y), y.nonzero(), weft.histc(y.detach())


PROGRAMS = [
    branch, loop, in_place, in_place_on_views, views_of_inner_dims, buffer, outside_the_graph,
    structure, generator, draws, gradient_inside, custom_function, nested, numbers,
    fails_in_python, fails_in_a_shape, fails_in_a_value, unbatched,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("max_batch", [None, 1, 2])
def test_programs(program: Callable[..., Any], max_batch: int | None) -> None:
    batched, loop_ = both(program, X, max_batch=max_batch)
    assert batched == loop_


def test_one_flush_serves_all_that_wait() -> None:
    report = weft.explain(lambda x: x * 2 if (x * 3).sum() > 0 else x - 2, X)
    assert len(report.flushes) == 2
    assert report.flushes[0]["causes"][0][1] == len(X)
    assert "test_autobatch.py" in str(report)
    assert report.calls > report.batches


def test_unlike_lengths_are_one_product() -> None:
    layer = weft.nn.Linear(4, 3)
    report = weft.explain(lambda x: layer(x).tanh(), [weft.randn(n, 4) for n in (1, 7, 3)])
    assert [(b["op"], b["calls"], b["rows"]) for f in report.flushes for b in f["batches"]] == [
        ("linear", 3, 11), ("tanh", 3, 33)]  # fmt: skip
    names = str(report.outputs[1].grad_fn.next_functions[0][0])
    assert "Tanh" in names


def test_others_are_not_harmed_and_the_line_is_named() -> None:
    done = []

    def one(k: int) -> weft.Tensor:
        rows = weft.nn.functional.embedding(weft.tensor([k]) + 0, weft.ones(3, 2))  # the line
        done.append(rows.sum().item())
        return rows

    with pytest.raises(IndexError) as caught:
        weft.autobatch(one)([0, 9, 1, 2])
    assert done == [2.0, 2.0, 2.0]
    assert "in example 1 of 4" in "".join(caught.value.__notes__)
    assert "# the line" in str(caught.value)


def test_arguments() -> None:
    f = weft.autobatch(lambda a, b, scale=1: a * b * scale)
    assert [t.item() for t in f([weft.ones(()), weft.ones(()) * 2], [3, 4], scale=2)] == [6, 16]
    assert f([], []) == []
    with pytest.raises(ValueError, match="one length"):
        f([1], [1, 2])
    with pytest.raises(TypeError, match="list of examples"):
        f()
    with pytest.raises(TypeError, match="function"):
        weft.autobatch(3)
    with pytest.raises(ValueError, match="at least 1"):
        weft.autobatch(max_batch=0)

    @weft.autobatch(out_stack=True)
    def decorated(x: weft.Tensor) -> Any:
        """Doc."""
        return x.sum(), {"two": x[:1] * 2}

    total, parts = decorated([weft.ones(n) for n in (1, 2)])
    assert decorated.__doc__ == "Doc." and total.tolist() == [1, 2]
    assert parts["two"].tolist() == [[2], [2]]


def test_a_module_is_a_function() -> None:
    model = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.BatchNorm1d(2), weft.nn.Dropout(0.0))
    xs = [weft.randn(n, 3) for n in (2, 5)]
    batched = weft.autobatch(model)
    before = [t.clone() for t in model.state_dict().values()]
    outs = batched(xs)
    after = [t.clone() for t in model.state_dict().values()]
    model.load_state_dict(dict(zip(model.state_dict(), before, strict=True)))
    for out, x in zip(outs, xs, strict=True):
        assert weft.allclose(out, model(x), atol=1e-6)
    for a, b in zip(after, model.state_dict().values(), strict=True):
        assert weft.allclose(a.double(), b.double())
    assert not hasattr(batched, "training")


def test_deferred_scope() -> None:
    w = weft.ones(3, 3, requires_grad=True)
    with weft.explain() as report, weft.deferred():
        rows = [weft.ones(3) * k for k in range(4)]
        loss = sum((r @ w).sum() for r in rows)
        first = rows[1].tolist()
    loss.backward()
    assert first == [1, 1, 1] and w.grad.tolist() == [[6.0] * 3] * 3
    assert report.flushes[0]["reason"] == "a value that is read"


def test_deep_recursion_and_long_programs() -> None:
    def depth(x: weft.Tensor) -> weft.Tensor:
        for _ in range(20_000):
            x = x + 1
        return x

    outs = weft.autobatch(depth)([weft.zeros(()), weft.ones(())])
    assert [t.item() for t in outs] == [20000, 20001]


def test_many_fibers() -> None:
    def one(k: int) -> float:
        x = weft.ones(()) * k
        return (x * 2).item() if x > 5000 else x.item()

    out = weft.autobatch(one)(list(range(10_000)))
    assert out[5000] == 5000.0 and out[9999] == 19998.0


def test_an_interrupt_ends_all() -> None:
    ended = []

    def one(k: int) -> None:
        try:
            if (weft.ones(()) * k).item() == 2:
                raise KeyboardInterrupt
            (weft.ones(()) * k).item()
        finally:
            ended.append(k)

    with pytest.raises(KeyboardInterrupt):
        weft.autobatch(one)([0, 1, 2, 3])
    assert sorted(ended) == [0, 1, 2, 3]
    assert not weft._C._mode() & 4 and (weft.ones(2) * 2).tolist() == [2, 2]


def test_modes_belong_to_the_example() -> None:
    def one(k: int) -> tuple[bool, bool]:
        x = weft.ones(2, requires_grad=True)
        with weft.no_grad() if k % 2 else weft.enable_grad():
            (x * k).sum().item()
            inside = (x * 2).requires_grad
        return inside, (x * 2).requires_grad

    assert weft.autobatch(one)([0, 1, 2, 3]) == [(True, True), (False, True)] * 2


def test_one_example_alone_runs_as_the_loop_once_it_reads() -> None:
    def count(n: weft.Tensor) -> tuple[int, bool]:
        steps, kept = 0, False
        while n > 0:
            n = n - 1
            kept |= steps > 0 and weft._C._is_pending(n)
            steps += 1
        return steps, kept

    batched = weft.autobatch(count)
    assert batched([weft.tensor(5)]) == [(5, False)]
    assert batched([weft.tensor(3)]) == [(3, False)]
    results = batched([weft.tensor(n) for n in (1, 4, 2)])
    assert [steps for steps, _ in results] == [1, 4, 2]
    assert any(kept for _, kept in results)  # as long as others wait, calls do


def test_one_example_without_reads_merges_its_calls() -> None:
    layer = weft.nn.Linear(3, 3)

    def tree(depth: int) -> weft.Tensor:
        return layer(tree(depth - 1) + tree(depth - 1)) if depth else weft.ones(1, 3) * 2

    assert weft.explain(tree, [4]).batches < 10
    (out,) = weft.autobatch(tree)([4])
    assert weft.allclose(out, tree(4))


@pytest.mark.parametrize(
    ("call", "apart"),
    [
        (lambda x, n: weft.nn.functional.leaky_relu(x, 0.1 * n), {"another negative_slope"}),
        (lambda x, n: x @ WEIGHTS[n], {"another weight"}),
        (lambda x, n: x**n, {"another number"}),
        (
            lambda x, n: weft.softmax(x.repeat(7, 1).view(-1, 14 * n), 1),  # sizes not seen before
            {"rows of shape [14] and [28]"},
        ),
        (lambda x, n: x * n, set()),
    ],
)
def test_explain_tells_what_keeps_calls_apart(call: Any, apart: set[str]) -> None:
    many = 6  # of each: a few would be parts of one call (Note [Each])
    xs, numbers = [weft.ones(2, 4)] * 2 * many, [1, 2] * many
    report = weft.explain(lambda x, n: call(x.tanh(), n), xs, numbers)
    assert {b["apart"] for b in report.flushes[0]["batches"]} - {""} == apart
    assert all(f"apart: {text}" in str(report) for text in apart)


def test_explain_names_the_op_that_was_called() -> None:
    """A dot and a matrix by one vector are of one kind, and were named by the first ever made."""
    v = weft.ones(3).requires_grad_()
    for _ in range(2):
        for x, op in ((weft.ones(3), "dot"), (weft.ones(2, 3), "mv")):
            report = weft.explain(lambda x: x.tanh() @ v, [x] * 2)
            assert report.flushes[0]["batches"][-1]["op"] == op
