"""Programs that lean on Python: state, time and identity of values, errors. Batched as in the loop.

Every program gets `c` (its number `k`, a `log`, weights `w`, a dict `shared` by all examples) and
rows `x` [n, 4]. Compared are results, logs, gradients, what is shared, what is printed, the error
with its line, and the random numbers drawn.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import copy
import dataclasses
import gc
import io
import json
import pickle
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn import functional as F

PROGRAMS: list[Callable[[Any, Any], Any]] = []
KIND = weft.float64
CALLER = contextvars.ContextVar("CALLER", default="nobody")


def program(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    PROGRAMS.append(f)
    return f


def world() -> tuple[list[Any], list[Any], list[Any]]:
    weft.manual_seed(0)
    w = SimpleNamespace(
        a=weft.randn(4, 4, dtype=KIND, requires_grad=True),
        bias=weft.randn(4, dtype=KIND, requires_grad=True),
        table=weft.randn(10, 4, dtype=KIND, requires_grad=True),
        linear=nn.Linear(4, 4, dtype=KIND), cell=nn.GRUCell(4, 4, dtype=KIND),
    )  # fmt: skip
    xs = [weft.randn(n, 4, dtype=KIND, requires_grad=True) for n in (1, 2, 3, 2, 5)]
    shared: dict[Any, Any] = {}
    cs = [SimpleNamespace(k=k, log=[], w=w, shared=shared) for k in range(len(xs))]
    leaves = [w.a, w.bias, w.table, *w.linear.parameters(), *w.cell.parameters(), *xs]
    return cs, xs, leaves


def tensors(value: Any) -> Iterator[weft.Tensor]:
    if isinstance(value, weft.Tensor):
        yield value
    elif dataclasses.is_dataclass(value):
        yield from tensors(list(vars(value).values()))
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors(item)


def plain(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        array = np.array(value.tolist())
        values = (array.round(8) if array.dtype.kind == "f" else array).tolist()
        return str(value.dtype), value.requires_grad, value.is_leaf, values
    if isinstance(value, float):
        return round(value, 8)
    if dataclasses.is_dataclass(value):
        return type(value).__name__, plain(vars(value))
    if isinstance(value, dict):
        return [(plain(a), plain(b)) for a, b in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    return value if isinstance(value, (int, str, bool)) else type(value).__name__


def line_of(error: BaseException) -> int:
    """The line of this file at which an error arose, or at which the call was made that failed."""
    if found := re.search(r"in the call at \S*test_semantics\.py:(\d+)", str(error)):
        return int(found[1])
    lines, frame = [], error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == __file__:
            lines.append(frame.tb_lineno)
        frame = frame.tb_next
    return lines[-1]


def outcome(fn: Callable[[Any, Any], Any], batch: bool) -> dict[str, Any]:
    cs, xs, leaves = world()
    out: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            if batch:
                results = weft.autobatch(fn)(cs, xs)
            else:
                results, errors = [], []
                for c, x in zip(cs, xs, strict=True):
                    try:
                        results.append(fn(c, x))
                    except Exception as error:  # noqa: BLE001
                        errors.append(error)
                if errors:
                    raise errors[0]
        except Exception as error:  # noqa: BLE001
            text = str(error).split("\n  in the call at")[0]
            return {"error": (type(error), text, line_of(error))}
    out["results"] = [plain(r) for r in results]
    out["shared"], out["logs"] = plain(cs[0].shared), [plain(c.log) for c in cs]
    out["printed"] = sorted(printed.getvalue().splitlines())  # examples take turns by lines
    total = sum((t * t).sum() for t in tensors(results) if t.requires_grad and not t.is_leaf)
    if isinstance(total, weft.Tensor):
        total.backward()
    out["gradients"] = [None if leaf.grad is None else plain(leaf.grad) for leaf in leaves]
    out["leaves"] = [plain(leaf) for leaf in leaves]
    out["logs after"], out["drawn"] = [plain(c.log) for c in cs], weft.rand(1).item()
    out["modes"] = weft.is_grad_enabled(), str(weft.get_default_dtype())
    return out


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


# ---- what belongs to an example


@program
def modes(c: Any, x: Any) -> Any:
    with [weft.no_grad, weft.enable_grad, weft.inference_mode][c.k % 3]():
        y = c.w.linear(x)
        y.sum().item()
        z = y * 2
        c.log += [z.requires_grad, weft.is_grad_enabled(), weft.is_inference_mode_enabled()]
    return x * 2


@program
def default_dtype(c: Any, x: Any) -> Any:
    was = weft.get_default_dtype()
    weft.set_default_dtype([weft.float32, weft.float64][c.k % 2])
    (weft.ones(2) * x.sum()).sum().item()
    y = weft.ones(3) / 3
    weft.set_default_dtype(was)
    return y, weft.ones(1) / 3


@program
def context_variables(c: Any, x: Any) -> Any:
    c.log.append(CALLER.get())
    token = CALLER.set(f"example {c.k}")
    x.sum().item()
    c.log.append(CALLER.get())
    CALLER.reset(token)
    return CALLER.get()


@program
def event_loops(c: Any, x: Any) -> Any:
    async def row(r: Any) -> Any:
        await asyncio.sleep(0)
        return r * 2 if r.sum() > 0 else r

    async def rows() -> Any:
        return await asyncio.gather(*[row(r) for r in x * 2])

    return asyncio.run(rows())


@program
def a_thread_inside(c: Any, x: Any) -> Any:
    y = x.detach() * 2
    y.sum().item()
    thread = threading.Thread(target=lambda: c.log.append((y * 3).sum().item()))
    thread.start()
    thread.join()


# ---- random numbers


@program
def seeds(c: Any, x: Any) -> Any:
    weft.manual_seed(c.k)
    y = weft.randn(4) * 2
    bool(x.sum() > 0)
    state = weft.get_rng_state()
    a = weft.rand(2)
    weft.set_rng_state(state)
    with weft.random.fork_rng():
        weft.manual_seed(3)
        (weft.rand(2).sum() * x.sum()).item()
    return y, a, weft.rand(2), nn.Linear(2, 2).weight.detach() * 1


@program
def generators(c: Any, x: Any) -> Any:
    """A fiber that waited inside of a draw left its generator to the others, which crashed."""
    g = weft.Generator().manual_seed(c.k)
    weights = (x.detach() * 2).abs()
    return weft.multinomial(weights, 2, generator=g), weft.rand(2), weft.randperm(5, generator=g)


@program
def dropout_until(c: Any, x: Any) -> Any:
    h = c.w.bias
    for row in x:
        h = F.dropout(c.w.cell(row, h), 0.3)
        if h.sum() > 1:
            break
    return h


# ---- errors


@program
def raised(c: Any, x: Any) -> Any:
    if c.k == 2:
        raise ValueError("boom")
    return x.sum().item()


@program
def asserted(c: Any, x: Any) -> Any:
    assert x.sum() < 1, f"sum {x.sum():.3f}"
    return x


@program
def of_a_shape(c: Any, x: Any) -> Any:
    y = x * 2
    return y @ weft.ones(3, 3, dtype=KIND) if c.k == 3 else y


@program
def of_a_value(c: Any, x: Any) -> Any:
    y = x * 2
    rows = F.embedding(weft.tensor([c.k * 4]), c.w.table)
    return y.sum() + rows.sum()


@program
def of_a_value_unread(c: Any, x: Any) -> Any:
    c.w.table[weft.tensor([c.k * 4])]
    return x * 2


@program
def caught(c: Any, x: Any) -> Any:
    try:
        return F.embedding(weft.tensor([c.k * 4]), c.w.table).sum().item()
    except IndexError:
        return x * 3


@program
def finally_reads(c: Any, x: Any) -> Any:
    y = x * 2
    try:
        if y.sum() > 0:
            raise RuntimeError("positive")
    finally:
        c.log.append(y.sum().item())


@program
def stop_iteration(c: Any, x: Any) -> Any:
    def rows() -> Iterator[float]:
        yield (x * 2).sum().item()
        if c.k:
            next(iter([]))

    return list(rows())


@program
def recursion(c: Any, x: Any) -> Any:
    def deeper(n: int) -> Any:
        return deeper(n + 1)

    return deeper(0) if c.k == 1 else x


@program
def in_an_inner_batch(c: Any, x: Any) -> Any:
    return weft.autobatch(lambda r: r @ weft.ones(3) if r.sum() > 0 else r)(list(x))


@program
def leaf_written(c: Any, x: Any) -> Any:
    x += 1
    return x


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


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_batched_is_loop(fn: Callable[[Any, Any], Any]) -> None:
    token = CALLER.set("the caller")
    try:
        expected, found = outcome(fn, batch=False), outcome(fn, batch=True)
    finally:
        CALLER.reset(token)
    for one in (expected, found):  # an input of a batched call has zeros for None
        one["gradients"] = [
            None if g is None or not np.any(g[-1]) else g for g in one.get("gradients", [])
        ]
    assert found == expected


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


def test_an_exit_leaves_no_scope_behind() -> None:
    def one(k: int) -> None:
        with weft.no_grad():
            (weft.ones(()) * k).item()
            if k == 1:
                raise SystemExit(3)

    with pytest.raises(SystemExit):
        weft.autobatch(one)([0, 1, 2])
    assert weft.is_grad_enabled() and not weft._C._mode() & 4


def test_a_report_is_true_and_is_data() -> None:
    """Counts, reasons and lines of flushes of several kinds; a failed batch is counted once."""
    w, table = weft.randn(4, 4), weft.randn(5, 4)

    def one(x: Any, k: int) -> Any:
        h = x @ w
        if h.sum() > -100:  # reads
            h = h.tanh()
        y = weft.zeros(4)
        z = y + h[0]
        y += 1  # writes
        return F.embedding(weft.tensor([k]), table).sum() + z.sum()  # fails

    with weft.explain() as report, pytest.raises(IndexError):
        weft.autobatch(one)([weft.randn(n, 4) for n in (1, 2, 3)], [1, 2, 9])
    data = json.loads(json.dumps(report.to_dict()))
    assert [f["reason"] for f in data["flushes"]] == ["values that are read"] * 2 + ["the end"]
    source = one.__code__.co_firstlineno
    causes = [[(c["line"] - source, c["calls"]) for c in f["causes"]] for f in data["flushes"]]
    assert causes == [[(2, 3)], [(6, 3)], []]
    assert data["flushes"][0]["causes"][0]["file"] == __file__
    assert data["flushes"][0]["causes"][0]["function"] == "one"
    assert data["flushes"][0]["causes"][0]["source"].endswith("# reads")
    for flush in data["flushes"][:2]:
        assert flush["calls"] == sum(b["calls"] for b in flush["batches"])
        assert all(b["calls"] == sum(n["calls"] for n in b["lines"]) for b in flush["batches"])
    ends = collections.Counter()
    for batch in data["flushes"][2]["batches"]:
        ends[batch["op"]] += batch["calls"]
    assert ends == {"embedding": 3, "sum": 5, "add": 2}
    assert data["calls"] == sum(f["calls"] for f in data["flushes"])


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


def test_a_failure_stops_the_examples_that_have_not_begun() -> None:
    done: list[int] = []

    def one(k: int) -> int:
        if k in (1, 3):
            raise KeyError(k)
        done.append(k)
        return k

    with pytest.raises(KeyError) as caught:
        weft.autobatch(one, max_batch=2)([0, 1, 2, 3, 4])
    assert done == [0] and caught.value.args == (1,)
    assert caught.value.__notes__ == ["in example 1 of 5"]


def test_what_an_interrupt_left_fails_for_those_who_read_it() -> None:
    """It failed in the next flush, whoever caused it."""
    table, kept = weft.ones(3, 2), []

    def one(k: int) -> None:
        kept.append(F.embedding(weft.tensor([k]), table))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weft.autobatch(one)([9])
    assert weft.autobatch(lambda k: (weft.ones(2) * k).sum().item())([1, 2]) == [2, 4]

    def in_a_scope(kind: type[Exception]) -> None:
        with weft.deferred():
            kept.append(F.embedding(weft.tensor([9]), table))
            kept.append(weft.ones(2) * 3)
            raise kind

    with pytest.raises(ValueError):  # noqa: PT011
        in_a_scope(ValueError)
    assert kept.pop().tolist() == [3, 3] and (weft.ones(2) * 2).tolist() == [2, 2]
    for failed in kept:
        with pytest.raises(IndexError):
            failed.tolist()


def test_inner_batches_leave_nothing_behind() -> None:
    def one(k: int) -> Any:
        return sum(weft.autobatch(lambda j: weft.ones(2) * j * k)([1, 2]))

    weft.autobatch(one)([1, 2])
    with weft.deferred():
        one(3)
    module = sys.modules["weft.batching.examples"]
    assert [f for f in module._owners.by_number.values() if f is not None] == []


def test_the_first_of_several_failures_is_raised() -> None:
    """The budget flushed between the two; numbers of calls begin anew in each flush."""
    table = weft.ones(3, 2)

    def one(k: int) -> Any:
        weft.ones(2) * k + 1
        F.embedding(weft.tensor([7]), table)  # first
        F.embedding(weft.tensor([8]), table)

    before = weft._C._set_budget(3)
    try:
        with pytest.raises(IndexError, match="# first"):
            weft.autobatch(one)([1, 2])
    finally:
        weft._C._set_budget(before)


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


@pytest.mark.parametrize("call", [
    lambda x: x & x, lambda x: (x > 0) // (x > 0), lambda x: F.linear(x > 0, x > 0),
    lambda x: weft.complex(x, x).amax(-1), lambda x: x.foo, lambda x: x @ x[:1],
])  # fmt: skip
def test_wrong_dtypes_and_shapes_fail_at_the_call(call: Callable[[Any], Any]) -> None:
    """Kernels refused dtypes at the flush, where no `try` caught it."""

    def one(k: int) -> str:
        x = weft.ones(2, 2) * k
        for _ in range(2):  # seen before, the call fails again
            with pytest.raises((NotImplementedError, AttributeError, RuntimeError)) as caught:
                call(x)
        return str(caught.value)

    assert weft.autobatch(one)([1, 2]) == [one(1), one(2)]


def test_in_place_without_a_gradient_stays_in_the_graph() -> None:
    x = weft.ones(2, requires_grad=True)
    (y,) = weft.autobatch(lambda k: (x * 5).floor_divide_(k))([2])
    assert y.requires_grad and y.tolist() == [2, 2]


def test_large_calls_stay_apart() -> None:
    """To gather them took longer than the loop, to keep the results of all filled the caches."""
    xs = [weft.ones(300, 300) * k for k in (1, 2, 3)]
    report = weft.explain(lambda x: (x * 2).sum(), xs)
    assert report.calls == 0  # they ran at once
    assert [t.item() for t in report.outputs] == [180000 * k for k in (1, 2, 3)]
    big = weft.ones(300, 300)
    report = weft.explain(lambda x: x * 2 + big, [weft.tensor(float(k)) for k in (1, 2, 3)])
    (flush,) = report.flushes
    assert [(b["op"], b["calls"]) for b in flush["batches"]] == [("mul", 3), ("add", 3)]
    assert "too large" in flush["batches"][1]["why"] and report.batches == 4
    assert [t.sum().item() for t in report.outputs] == [90000 * (2 * k + 1) for k in (1, 2, 3)]


def test_a_large_product_of_batches_of_matrices() -> None:
    """Its rows were laid out anew as if they waited; they had been computed at once."""
    x, w = weft.randn(40, 5, 100, requires_grad=True), weft.randn(100, 100, requires_grad=True)
    out = weft.autobatch(lambda k: (x * k) @ w.tanh())([1, 2])
    sum(out).sum().backward()
    grads = x.grad, w.grad
    x.grad = w.grad = None
    plain = [(x * k) @ w.tanh() for k in (1, 2)]
    sum(plain).sum().backward()
    for a, b in zip([*out, *grads], [*plain, x.grad, w.grad], strict=True):
        assert weft.allclose(a, b, atol=1e-4)
