"""Programs that lean on Python: state, time and identity of values, errors. Batched as in the loop.

Every program gets `c` (its number `k`, a `log`, weights `w`, a dict `shared` by all examples) and
rows `x` [n, 4]. Compared are results, logs, gradients, what is shared, what is printed, the error
with its line, and the random numbers drawn.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from semantics import KIND, Programs, check

import weft
from weft import nn

PROGRAMS = Programs()
program = PROGRAMS.add


# ---- structure of results, identity


@dataclasses.dataclass
class Made:
    h: Any
    n: int = 3


@program
def results_of_every_kind(c: Any, x: Any) -> Any:
    Pair = collections.namedtuple("Pair", "a b")
    y = x @ c.w.a
    return Made(y, len(x)), Pair(y.sum(), {"k": [x * 2, None]}), {1: y}, y, c.w.a, x, x[0], len


@program
def identity(c: Any, x: Any) -> Any:
    y, z = x * 2, x * 3
    names, ref = {y: 1, z: 2}, weakref.ref(y)
    y.tag = "kept"
    y.sum().item()
    c.log += [names[y], names[z], y in names, len({y, z, y}), ref() is y, y.tag, id(y) == id(ref())]
    w = y + z
    del y, names
    c.log.append(ref() is None)
    return w


@program
def questions(c: Any, x: Any) -> Any:
    y = x @ c.w.a
    c.log += [isinstance(y, weft.Tensor), y.dtype is KIND, y.ndim, tuple(y.shape), y.size(0),
              y.numel(), y.stride(), y.is_contiguous(), y.nbytes, y.grad_fn is not None, y.grad,
              type(y.grad_fn).__name__, y.contiguous() is y, y.double() is y, len(y)]  # fmt: skip
    return y


@program
def comparisons(c: Any, x: Any) -> Any:
    y, rows = (x * 2)[0], [r.sum() for r in x * 2]
    c.log += [y.equal(y * 1), rows[0] in rows, rows.index(rows[-1]), max(rows).item(),
              bool((y == y * 1).all()), y[0] in y, sorted(y.tolist())]  # fmt: skip
    return max(rows), min(list(y), key=lambda t: t.item()), sum(rows)


@program
def texts(c: Any, x: Any) -> Any:
    y = x * 2
    c.log += [repr(y), f"{y.sum():.4f}", f"{y}", f"{y[0, 0]:>9.2f}", f"{y!r}"[:9]]
    print("values", c.k, y, "and", y.sum())
    print(y.sum().item())
    return y


# ---- memory


@program
def shared_memory(c: Any, x: Any) -> Any:
    y = x.detach() * 2
    row, numbers, other = y[0], y.numpy(), copy.copy(y)
    row.fill_(3.0)
    numbers[0, 1] = 5
    y.t()[0] += 1
    other[0, 3] = 9
    apart = copy.deepcopy(y), pickle.loads(pickle.dumps(y)), weft.from_dlpack(y)
    apart[0][0, 0] = -1
    apart[2][0, 2] = -2
    before = y * 1
    y.data[0, 0] += 0.5  # unseen by what was called before: memory is known by its address
    c.log += [y.data_ptr() == y.view(-1).data_ptr(), row[0].item(), numbers.tolist()]
    return y, row, apart, before


@program
def detached_shares_memory(c: Any, x: Any) -> Any:
    """A copy was made, so the write was not seen."""
    y = x * 2
    d = y.detach()
    d.add_(1)
    z = x * 3
    late = z.detach()
    with weft.no_grad():
        z.mul_(3)
    return y * 1, d, late, z


@program
def in_place(c: Any, x: Any) -> Any:
    y = x * 2
    y += 1
    y[0] = 5
    y[:, 1] -= 2
    y[y > 1] = 1.0
    y[..., 1] = y[..., 2]
    row = y[-1]
    row *= 3
    row.add_(c.w.bias)
    return y, row, y.clamp_(-1, 1)


@program
def writes_between(c: Any, x: Any) -> Any:
    """What was called before a write must not see it."""
    p = weft.zeros(4, dtype=KIND)
    results = [p + x.detach()]
    p.copy_(x.detach()[0])
    results.append(p + x.detach())
    nn.init.ones_(p)
    results.append(p * 2)
    p.data = weft.full((4,), 4.0, dtype=KIND)
    results.append(p * 2)
    nn.init.normal_(p)
    return results, p


@program
def optimizer_between(c: Any, x: Any) -> Any:
    """Steps wrote below the door, unseen by calls that waited."""
    model = nn.Linear(4, 2, dtype=KIND)
    model.load_state_dict({"weight": weft.ones(2, 4), "bias": weft.ones(2)})
    for kind in (weft.optim.SGD, weft.optim.Adam):
        optimizer = kind(model.parameters(), lr=0.5)
        before = model(x.detach())
        (before * 1).sum().backward()
        again = model(x.detach()).detach()
        optimizer.step()
        c.log += [before.detach(), again, model(x.detach()).detach()]
        optimizer.zero_grad()


@program
def statistics_between(c: Any, x: Any) -> Any:
    norm = nn.BatchNorm1d(4, dtype=KIND)
    x = weft.cat([x, x * 2])
    before = norm.running_mean * 2
    y = norm(x)
    norm.eval()
    return before, y, norm(x), norm.running_var


@program
def flag_between(c: Any, x: Any) -> Any:
    p = weft.ones(4, dtype=KIND)
    y = p * c.w.bias
    p.requires_grad_()
    y.sum().backward()
    return p.grad, p.requires_grad


@program
def buffer_of_all(c: Any, x: Any) -> Any:
    """All examples write to one tensor: every call saw the last write."""
    total = c.shared.setdefault("total", weft.zeros(4, dtype=KIND))
    total += x.detach().sum(0) * 2
    with weft.no_grad():
        c.w.bias.mul_(0.9)
    return total.clone(), x.detach() + c.w.bias.detach()


@program
def state_of_all(c: Any, x: Any) -> Any:
    h = c.shared.get("h", c.w.bias * 1)
    for row in x:
        h = c.w.cell(row, h)
    c.shared["h"] = h
    c.shared.setdefault("seen", []).append(x * 2)
    return h, sum(t.sum() for t in c.shared["seen"])


# ---- gradients inside


@program
def backward_inside(c: Any, x: Any) -> Any:
    loss = (c.w.linear(x) ** 2).sum()
    if loss > 1:
        loss.backward()
    own = (x.detach() * 2).requires_grad_()
    (own**2).sum().backward()
    y = x.detach().requires_grad_()
    (g,) = weft.autograd.grad((c.w.linear(y) ** 3).sum(), y, create_graph=True)
    return loss.detach(), own.grad, own.is_leaf, g.norm()


@program
def hooks(c: Any, x: Any) -> Any:
    y = x * 2
    scale = (x.detach() * 3).sum()
    y.register_hook(lambda g: c.log.append(round(float(scale), 6)) or g * scale)
    model = nn.Linear(4, 4, dtype=KIND)
    model.load_state_dict(c.w.linear.state_dict())
    model.register_forward_hook(lambda m, i, o: o * 2)
    model.register_forward_pre_hook(lambda m, i: (i[0] + 1,))
    return model(y * 3)


class Square(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, v: Any, k: float) -> Any:
        ctx.save_for_backward(v)
        ctx.k = k
        return v * v * k

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (v,) = ctx.saved_tensors
        return g * 2 * v * ctx.k, None


@program
def custom_functions_and_checkpoints(c: Any, x: Any) -> Any:
    from weft.utils.checkpoint import checkpoint

    y = checkpoint(lambda v: (v @ c.w.a).tanh(), x * 1, use_reentrant=False)
    return Square.apply(x @ c.w.a, 3.0) + Square.apply(c.w.bias, c.k), y


@program
def optimizer_inside(c: Any, x: Any) -> Any:
    p = c.w.bias.detach().clone().requires_grad_()
    optimizer = weft.optim.Adam([p], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        ((x.detach() - p) ** 2).mean().backward()
        optimizer.step()
    return p.detach()


# ---- models


@program
def inner_batches(c: Any, x: Any) -> Any:
    y = x * 2
    two = weft.autobatch(max_batch=2, out_stack=True)
    rows = two(lambda r: (r * y.sum()).tanh() if r[0] > 0 else y[0] * 1)(list(y))
    with weft.deferred():
        total = sum((r @ c.w.a).tanh().sum() for r in rows)
        c.log.append(total.item())
    return rows, total


@program
def beams(c: Any, x: Any) -> Any:
    found = [(weft.zeros((), dtype=KIND), [])]
    for row in x:
        scores = (row @ c.w.a).log_softmax(-1)
        new = []
        for score, path in found:
            values, at = scores.topk(2)
            new += [(score + values[k], [*path, int(at[k])]) for k in range(2)]
        found = sorted(new, key=lambda p: -p[0].item())[:2]
    return found


@program
def stack_machine(c: Any, x: Any) -> Any:
    stack: list[Any] = []
    for row in x:
        stack.append(row)
        while len(stack) >= 2 and stack[-1] @ stack[-2] > 0:
            a, b = stack.pop(), stack.pop()
            stack.append((a + b @ c.w.a).tanh())
    return stack[-1], len(stack)


@program
def unlike_dtypes(c: Any, x: Any) -> Any:
    out = []
    for kind in (weft.uint8, weft.int8, weft.int32, weft.int64):
        i = (x.detach() * 5).abs().to(kind)
        out += [i + 1, i * i, i // 2, i % 3, i.sum(), i.float().mean(), i & 3, i / 2, -i]
    z = weft.complex(x.detach(), x.detach() * 2)
    out += [x > 0, x.float() * 2, i[:, None] * 2.5, x * True, (x > 0) + i, z.abs(), (z * z).real]
    half = x.detach().bfloat16()
    return [*out, (half * 2).double(), half.sum().double(), (half + 1e-3).double()]


@program
def nothing_in_it(c: Any, x: Any) -> Any:
    y = x[:0]
    z = y @ c.w.a
    return z, z.sum(), weft.cat([y, x]), weft.stack([z, z]), y.sum(0), y.t() @ y, x[len(x) :]


@program
def orders(c: Any, x: Any) -> Any:
    at = weft.arange(len(x)) % 2
    zeros = weft.zeros(2, 4, dtype=KIND)
    return [
        x.sort(-1), x.topk(2), x.argsort(0), x.max(0), x.min(), x.median(-1), x.cummax(0),
        x.kthvalue(2), weft.unique(x.detach().round(), return_counts=True), x[x > 0], x[at],
        zeros.index_add(0, at, x), zeros.scatter_add(0, at[:, None].expand(-1, 4), x),
        x.gather(1, x.argmax(-1, keepdim=True)), c.w.table[(x * 3).long().abs() % 10],
        x[: int((x > 0).sum()) % len(x)], weft.bincount(at), weft.where(x > 0, x, 0.0),
    ]  # fmt: skip


@pytest.mark.parametrize("fn", PROGRAMS.all, ids=lambda f: f.__name__)
def test_batched_is_loop(fn: Callable[[Any, Any], Any]) -> None:
    check(fn)


def test_a_print_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments of one print were separated by those of the other examples."""
    weft.autobatch(lambda k: print("example", k, weft.ones(()) * k))([1, 2, 3])
    assert capsys.readouterr().out.splitlines() == [f"example {k} tensor({k}.)" for k in (1, 2, 3)]


def test_losses_share_nodes_and_the_error_says_so() -> None:
    w = weft.ones(2, requires_grad=True)
    losses = weft.autobatch(lambda k: ((w * k) ** 2).sum())([1, 2])
    losses[0].backward()
    with pytest.raises(RuntimeError, match=r"autobatch share nodes.*sum\(losses\).backward\(\)"):
        losses[1].backward()


def test_threads_have_batches_of_their_own() -> None:
    w = weft.randn(4, 4, dtype=KIND)
    xs = [weft.randn(n, 4, dtype=KIND) for n in (1, 2, 3)]

    def one(x: Any) -> Any:
        for _ in range(20):
            x = (x @ w).tanh() if x.sum() > 0 else (x @ w).sin()
        return x

    expected = [one(x).tolist() for x in xs]
    found: list[Any] = []

    def work() -> None:
        found.append([np.array(t.tolist()) for t in weft.autobatch(one)(xs)])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    for results in found:
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-12)


def test_a_dense_copy_serves_calls_of_every_mode() -> None:
    """A copy made for a comparison was outside of the graph, and so were calls after it."""
    w = weft.randn(4, 4, dtype=KIND, requires_grad=True)

    def one(k: int) -> Any:
        d = w.diagonal()
        at, z = d.argmax(-1), weft.where(d > 0.2, d, d * 0.3)
        return (d * k).sum() + d.sum() + z.softmax(-1)[at]

    sum(weft.autobatch(one)([1, 2])).backward()
    found, w.grad = w.grad, None
    sum(one(k) for k in [1, 2]).backward()
    assert weft.allclose(found, w.grad)


def test_inner_batches_leave_nothing_behind() -> None:
    def one(k: int) -> Any:
        return sum(weft.autobatch(lambda j: weft.ones(2) * j * k)([1, 2]))

    weft.autobatch(one)([1, 2])
    with weft.deferred():
        one(3)
    module = sys.modules["weft.batching.examples"]
    assert [f for f in module._owners.by_number.values() if f is not None] == []


def test_the_collector_meets_tensors_that_wait() -> None:
    """It took what a tensor with attributes waits for for its gradient, and crashed."""
    with weft.deferred():
        y = weft.ones(2) * 2
        y.tag = [y]
        gc.collect()
        ref = weakref.ref(y)
        z = y + 1
        del y
        gc.collect()
        assert ref() is None
    assert z.tolist() == [3, 3]


def test_in_place_without_a_gradient_stays_in_the_graph() -> None:
    x = weft.ones(2, requires_grad=True)
    (y,) = weft.autobatch(lambda k: (x * 5).floor_divide_(k))([2])
    assert y.requires_grad and y.tolist() == [2, 2]
