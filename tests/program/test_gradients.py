"""Results of plans in the graph: hooks, releases, writes, second derivatives, views, as in eager.

Most tests run a body twice: with a function as it is, and through its plan."""

import gc
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import _C
from weft.nn import functional as F

Body = Callable[[Callable[..., Any], list[Any]], Any]


def cell(x: Any, h: Any, c: Any, w: Any, b: Any) -> Any:
    """An LSTM's: the new c is a result, and h is made of it."""
    i, f, g, o = (F.linear(weft.cat([x, h], 1), w, b)).chunk(4, 1)
    c = weft.sigmoid(f) * c + weft.sigmoid(i) * weft.tanh(g)
    return weft.sigmoid(o) * weft.tanh(c), c


def cell_inputs() -> list[Any]:
    generator = weft.Generator().manual_seed(3)
    sizes = ((2, 3), (2, 4), (2, 4), (16, 7), (16,))
    return [weft.randn(*s, generator=generator).requires_grad_() for s in sizes]


def plan_of(f: Callable[..., Any], *inputs: Any) -> Callable[..., Any]:
    plan = _C._trace(f, inputs, True, True)

    def call(*tensors: Any) -> Any:
        results = plan.run(*tensors)
        return results if len(results) > 1 else results[0]

    call.plan = plan  # type: ignore[attr-defined]
    return call


def both(f: Callable[..., Any], make: Callable[[], list[Any]], body: Body) -> tuple[Any, Any]:
    """What the body gives with f, and with its plan."""
    seen = []
    for how in (lambda *_: f, plan_of):
        inputs = make()
        seen.append(body(how(f, *inputs), inputs))
    return seen[0], seen[1]


def lists(ts: Any) -> Any:
    return [None if t is None else t.tolist() for t in ts]


def same(f: Callable[..., Any], make: Callable[[], list[Any]], body: Body) -> Any:
    expected, found = both(f, make, body)
    assert found == expected
    return expected


def two() -> list[Any]:
    generator = weft.Generator().manual_seed(4)
    return [weft.randn(3, 4, generator=generator).requires_grad_() for _ in range(2)]


def test_a_part_ends_at_a_result_that_is_used() -> None:
    inputs = cell_inputs()
    f = plan_of(cell, *inputs)
    h, c = f(*inputs)
    assert f.plan.parts == 2  # type: ignore[attr-defined]
    assert h.grad_fn.name() == c.grad_fn.name() == "CompiledBackward0"
    assert h.grad_fn is not c.grad_fn
    assert c.grad_fn in [node for node, _ in h.grad_fn.next_functions]
    assert plan_of(lambda *a: cell(*a)[0], *inputs).plan.parts == 1  # type: ignore[attr-defined]


def test_hooks_see_whole_gradients() -> None:
    def body(f: Any, inputs: list[Any]) -> Any:
        h, c = f(*inputs)
        seen: list[Any] = []
        c.register_hook(lambda g: seen.append(("c", g.tolist())))
        c.register_hook(lambda g: g * 2)
        h.register_hook(lambda g: seen.append(("h", g.tolist())))
        c.retain_grad()
        (h.sum() + (c * c).sum()).backward()
        return seen, c.grad.tolist(), lists(t.grad for t in inputs)

    same(cell, cell_inputs, body)


def test_a_chain_of_cells() -> None:
    def body(f: Any, inputs: list[Any]) -> Any:
        x, h, c, w, b = inputs
        for _ in range(4):
            h, c = f(x, h, c, w, b)
        h.sum().backward()
        return lists(t.grad for t in inputs)

    expected, found = both(cell, cell_inputs, body)
    for a, b in zip(expected, found, strict=True):
        assert weft.allclose(weft.tensor(a), weft.tensor(b), rtol=1e-6, atol=1e-7)


def test_gradients_of_some() -> None:
    def body(f: Any, inputs: list[Any]) -> Any:
        h, c = f(*inputs)
        grad = weft.autograd.grad
        seen = [
            lists(grad(h.sum(), inputs[:1], retain_graph=True)),
            lists(grad(c.sum(), inputs[3:], retain_graph=True)),
            lists(grad(h.sum(), [c, inputs[1]], retain_graph=True)),
        ]
        c.sum().backward(inputs=inputs[1:3])
        return seen, lists(t.grad for t in inputs)

    same(cell, cell_inputs, body)


def apart(x: Any, y: Any) -> Any:
    return x.exp() * x, (y * y).sin(), x.detach() * 2, x > y


def test_results_that_have_nothing_in_common() -> None:
    def body(f: Any, inputs: list[Any]) -> Any:
        a, b, c, d = f(*inputs)
        assert [t.requires_grad for t in (a, b, c, d)] == [True, True, False, False]
        assert c.grad_fn is None and d.grad_fn is None and d.dtype == weft.bool
        a.sum().backward()
        assert inputs[1].grad is None
        b.sum().backward()  # of calls that the first pass did not release
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            a.sum().backward()
        with pytest.raises(RuntimeError, match="appears to not have been used"):
            weft.autograd.grad(f(*inputs)[0].sum(), inputs[1])
        return lists(t.grad for t in inputs)

    same(apart, two, body)


def test_once_more_needs_retain_graph() -> None:
    def body(f: Any, inputs: list[Any]) -> Any:
        h, c = f(*inputs)
        (h + c).sum().backward(retain_graph=True)
        (h + c).sum().backward()
        for t in (h, c):
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                t.sum().backward()
        return lists(t.grad for t in inputs)

    same(cell, cell_inputs, body)


@pytest.mark.parametrize("which", range(6))
def test_what_was_saved_must_not_be_written(which: int) -> None:
    def f(x: Any, y: Any) -> Any:
        h = x.exp()
        k = h + y  # reads neither of them later
        return h, (k * x).tanh()

    def body(f: Any, inputs: list[Any]) -> Any:
        x, y = inputs
        h, out = f(x, y)
        with weft.no_grad():
            (x, y, h, out, x, x)[which].mul_(2)
        try:
            if which == 4:
                weft.autograd.grad(h.sum(), x)
            elif which == 5:
                weft.autograd.grad(out.sum(), y)
            else:
                (h.sum() + out.sum()).backward()
        except RuntimeError as error:
            text = str(error)
            assert "modified by an inplace operation" in text
            return "raised", re.split(", which is| is at version", text)[0]
        return lists(t.grad for t in inputs)

    assert (same(f, two, body)[0] == "raised") == (which in (0, 2, 3, 5))


def test_views_among_the_results() -> None:
    def f(x: Any, y: Any) -> Any:
        h = x * y
        k = h.exp()
        return h, h[1:], h.t(), k[0], x[:, 1], y, k.detach(), k.view(-1)

    def body(f: Any, inputs: list[Any]) -> Any:
        out = f(*inputs)
        assert out[5] is inputs[1]
        names = [t.grad_fn.name() if t.grad_fn else None for t in out[1:]]
        bases = [t._base is not None for t in out]
        out[2].mul_(3)  # writes h, as every view of it sees
        loss = sum((t * t).sum() for t in out)
        loss.backward()
        return names, bases, lists(out), lists(t.grad for t in inputs)

    same(f, two, body)


def test_a_view_that_is_used_further() -> None:
    def f(x: Any, y: Any) -> Any:
        h = (x * y)[1:]
        return h, h.tanh() + h

    def body(f: Any, inputs: list[Any]) -> Any:
        h, out = f(*inputs)
        seen: list[Any] = []
        h.register_hook(lambda g: seen.append(g.tolist()))
        (out.sum() + h.sum()).backward()
        return seen, lists(t.grad for t in inputs)

    same(f, two, body)


def test_under_no_grad_and_without_requires_grad() -> None:
    x, y = two()
    f = plan_of(apart, x, y)
    with weft.no_grad():
        assert not any(t.requires_grad for t in f(x, y))
    with weft.inference_mode():
        assert not any(t.requires_grad for t in f(x, y))
    with pytest.raises(RuntimeError, match="tensors laid out as those that were traced"):
        f(x, y.detach())
    g = plan_of(apart, x, y.detach())
    a, b, *_ = g(x, y.detach())
    assert a.requires_grad and not b.requires_grad


def test_second_derivatives() -> None:
    def body(f: Any, inputs: list[Any]) -> Any:
        h, c = f(*inputs)
        x, w = inputs[0], inputs[3]
        gx, gw = weft.autograd.grad((h * h).sum() + c.sum(), (x, w), create_graph=True)
        assert gx.requires_grad
        ((gx * gx).sum() + gw.sum()).backward()
        return lists(t.grad for t in inputs)

    expected, found = both(cell, cell_inputs, body)
    for a, b in zip(expected, found, strict=True):
        assert weft.allclose(weft.tensor(a), weft.tensor(b), rtol=1e-5, atol=1e-6)


def test_gradcheck_to_the_second_order() -> None:
    def f(x: Any, y: Any) -> Any:
        k = weft.exp(x * 0.1)
        h = weft.tanh(x @ y.t()).softmax(1)
        return (h @ y * k).sum(1), k

    inputs = [t.detach().double().requires_grad_() for t in two()]
    g = plan_of(f, *inputs)
    assert weft.autograd.gradcheck(g, inputs)
    assert weft.autograd.gradgradcheck(g, inputs)


def test_products_of_a_weight_are_stacked_or_made() -> None:
    def f(x: Any, w: Any) -> Any:
        for _ in range(3):
            x = F.linear(x, w).tanh()
        return x

    def make() -> list[Any]:
        generator = weft.Generator().manual_seed(4)
        return [weft.randn(*s, generator=generator).requires_grad_() for s in ((2, 4), (4, 4))]

    def body(f: Any, inputs: list[Any]) -> Any:
        f(*inputs).sum().backward()
        once = lists(t.grad for t in inputs)
        f(*inputs).sum().backward()
        with pytest.warns(UserWarning), weft.autograd.detect_anomaly(check_nan=True):
            f(*inputs).sum().backward()
        return once, lists(t.grad for t in inputs)

    same(f, make, body)


def test_gradients_in_many_layouts() -> None:
    def body(f: Any, inputs: list[Any]) -> Any:
        seen = []
        for grad in (
            weft.ones(3, 4), weft.ones(4, 3).t(), weft.ones(()).expand(3, 4),
            weft.ones(3, 8)[:, ::2], *(weft.ones(3, n)[:, :4] for n in range(5, 60)),
        ):  # fmt: skip
            seen.append(lists(weft.autograd.grad(f(*inputs), inputs, grad)))
        return seen

    same(lambda x, y: (x * y).sin() * x, two, body)


def test_pack_hooks_are_asked_for_each_value() -> None:
    def body(f: Any, inputs: list[Any]) -> Any:
        packed: list[Any] = []

        def pack(t: Any) -> Any:
            packed.append(t.tolist())
            return t.detach() * 1

        with weft.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = f(*inputs)[0]
        out.sum().backward()
        return packed, lists(t.grad for t in inputs)

    assert len(same(cell, cell_inputs, body)[0]) > 5


def test_anomaly_mode_names_the_call() -> None:
    def body(f: Any, inputs: list[Any]) -> Any:
        with pytest.warns(UserWarning), weft.autograd.detect_anomaly():
            out = f(*inputs)
            with pytest.raises(RuntimeError, match=r"Function 'SqrtBackward0' returned nan"):
                out.backward(weft.zeros(3, 4))
        return True

    same(lambda x, y: ((x * 0).sqrt() + y).exp(), two, body)


def test_what_a_watcher_hears() -> None:
    x, y = two()
    f = plan_of(lambda x, y: (x * y).tanh(), x, y)
    out = f(x, y)
    with weft.record() as g:
        out.sum().backward()
    assert len(g.find("tanh_backward")) == 1 and "CompiledBackward0" in str(g)
    assert x.grad.equal(weft.autograd.grad((x * y).tanh().sum(), x)[0])


def test_constants_that_require_grad() -> None:
    x, w = two()
    out = plan_of(lambda x: (x * w).exp(), x)(x)
    out.sum().backward()
    expected = weft.autograd.grad((x * w).exp().sum(), (x, w))
    assert x.grad.equal(expected[0]) and w.grad.equal(expected[1])
    of_constant = plan_of(lambda x: (x * w).exp(), x.detach())(x.detach())
    assert weft.autograd.grad(of_constant.sum(), w)[0].equal(expected[1])


def test_a_graph_that_goes_away_gives_memory_back() -> None:
    inputs = cell_inputs()
    f = plan_of(cell, *inputs)

    def once(how: str) -> None:
        x, h, c, w, b = inputs
        for _ in range(3):
            h, c = f(x, h, c, w, b)
        if how == "run":
            h.sum().backward()
        if how == "twice":
            g = weft.autograd.grad(h.sum(), x, create_graph=True)[0]
            g.sum().backward()
        for t in inputs:
            t.grad = None

    for how in ("drop", "run", "twice"):
        once(how)
        gc.collect()
        used = _C._memory_stats()["current"]
        for _ in range(3):
            once(how)
        gc.collect()
        assert _C._memory_stats()["current"] == used, how


def test_backward_lets_go_of_what_was_kept() -> None:
    x = weft.randn(300, 300).requires_grad_()
    f = plan_of(lambda x: (x @ x).tanh() @ x, x)
    out = f(x)
    held = _C._memory_stats()["current"]
    assert f.plan.kept_bytes == 300 * 300 * 4  # type: ignore[attr-defined]
    out.sum().backward()
    grad = 300 * 300 * 4
    assert _C._memory_stats()["current"] == held + grad - f.plan.kept_bytes  # type: ignore[attr-defined]


def test_cycles_through_hooks_are_found() -> None:
    x, y = two()
    out = plan_of(lambda x, y: x * y, x, y)(x, y)

    class Thing:
        pass

    thing: Any = Thing()
    thing.out = out
    out.register_hook(lambda g, thing=thing: None)
    seen = weakref.ref(thing)
    del thing, out
    gc.collect()
    eager = x * y
    thing = Thing()
    thing.out = eager
    eager.register_hook(lambda g, thing=thing: None)
    of_eager = weakref.ref(thing)
    del thing, eager
    gc.collect()
    assert (seen() is None) == (of_eager() is None)


def test_threads_in_one_plan_and_its_nodes() -> None:
    x = weft.randn(400, 400).requires_grad_()
    f = plan_of(lambda x: ((x @ x).tanh() @ x.t()).sigmoid(), x)
    grad = weft.randn(400, 400)
    expected = weft.autograd.grad(f(x), x, grad)[0]
    shared, failed = f(x), []

    def work() -> None:
        for _ in range(3):
            for out in (f(x), shared):
                found = weft.autograd.grad(out, x, grad, retain_graph=True)[0]
                if not found.equal(expected):
                    failed.append(1)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert failed == []


def test_autocast_of_the_forward_and_of_the_pass() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x @ y.t()).tanh()

    for of_pass in (False, True):

        def body(f: Any, inputs: list[Any], of_pass: bool = of_pass) -> Any:
            out = f(*inputs)
            with weft.autocast("cpu", enabled=of_pass, dtype=weft.bfloat16):
                out.float().sum().backward()
            return str(out.dtype), lists(t.grad for t in inputs)

        with weft.autocast("cpu", dtype=weft.bfloat16):
            x, y = two()
            plan = _C._trace(f, (x, y), True, True)
        expected = body(lambda *a: autocast_call(f, a), two())
        assert body(lambda *a: plan.run(*a)[0], two()) == expected  # noqa: B023


def autocast_call(f: Any, args: Any) -> Any:
    with weft.autocast("cpu", dtype=weft.bfloat16):
        return f(*args)


def test_vmap_over_gradients() -> None:
    x, y = two()
    f = plan_of(lambda x, y: (x * y).sin(), x, y)
    rows = weft.eye(12).view(12, 3, 4)
    eager, planned = (
        weft.autograd.grad(g(x, y), x, rows, is_grads_batched=True)[0]
        for g in (lambda x, y: (x * y).sin(), f)
    )
    assert planned.equal(eager)


def test_what_sees_the_graph_sees_the_nodes() -> None:
    inputs = cell_inputs()
    h, _ = plan_of(cell, *inputs)(*inputs)
    node = h.grad_fn
    node.metadata["k"] = 1
    assert h.grad_fn.metadata == {"k": 1}
    seen: list[Any] = []
    node.register_hook(lambda gi, go: seen.append((len(gi), len(go))))
    node.register_prehook(lambda go: seen.append(len(go)))
    h.sum().backward()
    assert seen == [1, (len(node.next_functions), 1)]
    assert "CompiledBackward0" in repr(node)
    assert weft.why_alive(inputs[0]) is not None
    assert "CompiledBackward0" in str(weft.autograd.graph.get_gradient_edge(h).node)


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + weft.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def test_what_is_cheap_is_made_again() -> None:
    x = weft.randn(64, 64).requires_grad_()
    f = plan_of(gelu, x)
    out = f(x)
    assert f.plan.kept_bytes == 64 * 64 * 4  # type: ignore[attr-defined]  # tanh's
    found = weft.autograd.grad(out.sum(), x, retain_graph=True)[0]
    assert found.equal(weft.autograd.grad(gelu(x).sum(), x)[0])
    with weft.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_what_is_made_again_has_its_place_in_the_graph() -> None:
    x = weft.randn(3, 4, dtype=weft.float64).requires_grad_()
    f = plan_of(gelu, x)
    assert weft.autograd.gradgradcheck(f, (x,))
    with weft.record():  # which runs the rules one by one
        found = weft.autograd.grad(f(x).sum(), x)[0]
    assert found.equal(weft.autograd.grad(gelu(x).sum(), x)[0])


def test_nothing_is_made_again_of_what_was_not_saved() -> None:
    """x + y is read, x and y are not: they may be written."""

    def f(x: Any, y: Any) -> Any:
        h = x + y
        return h * h

    def body(f: Any, inputs: list[Any]) -> Any:
        out = f(*inputs)
        with weft.no_grad():
            for t in inputs:
                t.zero_()
        out.sum().backward()
        return lists(t.grad for t in inputs)

    same(f, two, body)


def deep(x: Any, w: Any) -> Any:
    for _ in range(6):
        x = weft.relu(F.linear(x, w)) + x
    return x.square().mean()


def stepped(x: Any, w: Any) -> Any:
    h, c = x, x
    for _ in range(4):
        h, c = weft.sigmoid(h @ w) * weft.tanh(c), weft.tanh(h @ w) + c
    return h, c


@pytest.mark.parametrize(("f", "share"), [(gelu, 1), (deep, 1), (stepped, 1)])
def test_the_peak_of_memory(f: Callable[..., Any], share: float) -> None:
    """Beside eager's, which drops saved values one by one; a plan drops what is kept at its end."""
    inputs = [
        weft.randn(512, 512).mul_(0.1).requires_grad_() for _ in range(f.__code__.co_argcount)
    ]

    def peak(f: Callable[..., Any]) -> int:
        most = 0
        for _ in range(3):
            before = _C._memory_stats()["current"]
            _C._reset_peak_memory()
            out = f(*inputs)
            weft.autograd.backward(
                out, [weft.ones_like(t) for t in out] if type(out) is tuple else weft.ones_like(out)
            )
            most = _C._memory_stats()["peak"] - before
            del out
            for t in inputs:
                t.grad = None
        return most

    of_eager, of_plan = peak(f), peak(plan_of(f, *inputs))
    assert of_plan <= share * of_eager, (of_plan / 2**20, of_eager / 2**20)


@pytest.mark.parametrize("uses", ["linear", "mm", "addmm", "row"])
def test_factors_of_a_shared_weight_are_handed_over(uses: str) -> None:
    """50 cells make one product of all factors, to the bit as eager."""

    def f(x: Any, w: Any, b: Any) -> Any:
        if uses == "linear":
            return F.linear(x, w, b).tanh()
        if uses == "mm":
            return (x @ w).tanh()
        if uses == "addmm":
            return weft.addmm(b, x, w).tanh()
        return x * w[3] + x  # a part of the weight

    def make() -> list[Any]:
        generator = weft.Generator().manual_seed(4)
        return [
            weft.randn(*s, generator=generator).mul_(0.3).requires_grad_()
            for s in ((1, 40), (40, 40), (40,))
        ]

    def body(f: Any, inputs: list[Any]) -> Any:
        x, w, b = inputs
        for _ in range(50):
            x = f(x, w, b)
        out = x.sum()
        out.backward(retain_graph=True)  # plans are made
        w.grad = None
        before = _C._memory_stats()["allocations"]
        out.backward()
        counts.append(_C._memory_stats()["allocations"] - before)
        return w.grad.tolist()

    counts: list[int] = []
    same(f, make, body)
    assert counts[1] <= counts[0]


def test_reductions_by_hand() -> None:
    """A row's mean goes back to each of its elements."""

    def f(x: Any, y: Any) -> Any:
        d = x - x.mean(-1, keepdim=True)
        return d / ((d * d).mean(-1, keepdim=True) + 1e-5).sqrt() * y

    def body(f: Any, inputs: list[Any]) -> Any:
        out = f(*inputs)
        out.square().sum().backward()
        return out.tolist(), lists(t.grad for t in inputs)

    def make() -> list[Any]:
        generator = weft.Generator().manual_seed(4)
        return [weft.randn(70, 90, generator=generator).requires_grad_() for _ in range(2)]

    expected, found = both(f, make, body)
    assert found[0] == expected[0] and found[1][1] == expected[1][1]
    assert weft.allclose(weft.tensor(found[1][0]), weft.tensor(expected[1][0]), rtol=1e-5)
