"""Writes to values that calls which wait have saved, and to what views that wait show."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import weft

F = weft.nn.functional


def batched(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return weft.autobatch(fn, adaptive=False)


def loop(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda xs: [fn(x) for x in xs]


def outcome(way: Callable[[Any], Any], lengths: tuple[int, ...], fn: Callable[..., Any]) -> Any:
    """Values and gradients of examples of `lengths` rows, or the first line of an error."""
    xs = [weft.linspace(0.2, 1.3 + k, 4 * n).view(n, 4) for k, n in enumerate(lengths)]
    xs = [x.double().requires_grad_() for x in xs]
    w = weft.linspace(-1.0, 1.2, 16).view(4, 4).double().requires_grad_()
    numbered = {id(x): k for k, x in enumerate(xs)}
    try:
        results = way(lambda x: fn(x, w, numbered[id(x)]))(xs)
        sum(results).backward()
    except RuntimeError as error:
        return str(error).split("\n")[0].split(":")[0]
    return [r.item() for r in results], [t.grad.tolist() for t in (*xs, w)]


def check(fn: Callable[..., Any], lengths: tuple[int, ...] = (2, 2, 2)) -> Any:
    expected, found = (outcome(way, lengths, fn) for way in (loop, batched))
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
    else:
        for a, b in zip(found, expected):
            for one, other in zip(a, b):
                weft.testing.assert_close(weft.tensor(one), weft.tensor(other))
    return expected


REFUSED = {
    "another dtype": lambda h: h.add_(weft.ones(4, dtype=weft.complex128)),
    "another shape": lambda h: h.add_(weft.ones(7, 7)),
    "one of several views": lambda h: h.chunk(2)[0].add_(1),
    "an element": lambda h: h.__setitem__(0, weft.ones(9)),
    "an index": lambda h: h.index_fill_(0, weft.tensor([99]), 0.5),
    "elements that share memory": lambda h: h.unsqueeze(0).expand(3, 2, 4).add_(1),
    "a result": lambda h: weft.add(h, 1, out=h),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("known", [False, True])
def test_a_write_that_is_refused_has_overwritten_nothing(refused: Any, known: bool) -> None:
    """It had been noted before it was made: backward told of a value that was as it had been."""

    def f(x: Any, w: Any, k: int) -> Any:
        h = x * w[0]
        if known:
            x.sum().item()
        u = h * h
        with pytest.raises((RuntimeError, IndexError)):
            refused(h)
        return u.sum() + h.sum()

    assert not isinstance(check(f), str)


SAVED = {
    "norm": lambda h, w: h.norm(),
    "norm of columns": lambda h, w: h.norm(dim=0),
    "prod": lambda h, w: h.prod(0),
    "var": lambda h, w: h.var(0, correction=0),
    "logsumexp": lambda h, w: h.logsumexp(0),
    "amax": lambda h, w: h.amax(0),
    "softmax": lambda h, w: h.softmax(0),
    "own product": lambda h, w: h.t() @ h,
    "own vector": lambda h, w: h.t() @ h[:, 0],
    "outer": lambda h, w: weft.outer(h[:, 0], h[0]),
    "one row of each": lambda h, w: h * h[0],
    "cdist": lambda h, w: weft.cdist(h, h + 1),
    "attention": lambda h, w: F.scaled_dot_product_attention(h, h, h),
    "linear": lambda h, w: h @ w,
    "pointwise": lambda h, w: h * h,
}


@pytest.mark.parametrize("lengths", [(1, 3, 2, 4), (4, 1, 1, 5), (3, 3, 3, 3)], ids=str)
@pytest.mark.parametrize("saves", SAVED.values(), ids=SAVED.keys())
def test_what_only_dead_calls_of_a_batch_saved_may_be_written(saves: Any, lengths: Any) -> None:
    """The part of the gradient that tells whether a call matters was sought in proportion: of calls
    over unlike lengths, that of others was found."""
    for writers in ({0}, {1}, {2}, {0, 2}, {3}):
        for result in (False, True):

            def f(x: Any, w: Any, k: int) -> Any:
                h = x * w[0].square()
                u = saves(h, w)
                if k not in writers:  # noqa: B023
                    return u.sum()
                (u if result else h).mul_(2)  # noqa: B023
                return (h * 2).sum()

            assert not isinstance(check(f, lengths), str)


OF_SEVERAL = {
    "chunk": lambda h: h.chunk(2)[0],
    "split": lambda h: h.split(1)[1],
    "unbind": lambda h: h.unbind(0)[1],
    "columns": lambda h: h.chunk(2, 1)[0],
    "a view of one": lambda h: h.chunk(2)[1][0],
    "of a view": lambda h: h[0].chunk(2)[1],
    "a transposed one": lambda h: h.t().unbind(0)[1],
}


@pytest.mark.parametrize("view", OF_SEVERAL.values(), ids=OF_SEVERAL.keys())
@pytest.mark.parametrize("grad", [True, False])
def test_a_write_into_one_of_several_views(view: Any, grad: bool) -> None:
    """It went through in a batch, where the loop refuses it."""

    def f(x: Any) -> Any:
        h = x * 2
        view(h).add_(1)
        return h

    told = []
    for way in (batched(f), loop(f)):
        xs = [weft.arange(4.0).reshape(2, 2).add(k).requires_grad_(grad) for k in range(3)]
        try:
            told.append([h.tolist() for h in way(xs)])
        except RuntimeError as error:
            told.append(str(error))
    assert told[0] == told[1] and isinstance(told[0], str) == grad


WRITTEN = {
    "of the value": lambda h: h.add_(1),
    "of a row": lambda h: h[0].mul_(2),
    "of detached": lambda h: h.detach().mul_(2),
}


@pytest.mark.parametrize("view", OF_SEVERAL.values(), ids=OF_SEVERAL.keys())
@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN.keys())
@pytest.mark.parametrize("recorded", [True, False])
def test_a_view_that_cannot_be_made_anew_is_of_no_use_after_a_write(
    view: Any, write: Any, recorded: bool
) -> None:
    """A batch took it when it was first used, as though there had been no write before; where it
    was used again, the error came from the flush, behind the program's `try`."""

    def f(x: Any, w: Any, k: int) -> Any:
        h = x * w[0]
        with weft.set_grad_enabled(recorded):
            v = view(h)
        write(h)
        assert not (v > 1e9).any() and v.detach().sum() > -1e9  # what records nothing may read it
        for _ in range(2):
            with pytest.raises(RuntimeError, match="base or another view of its base"):
                v * 2
        return h.sum()

    assert not isinstance(check(f), str)


@pytest.mark.parametrize("read", [lambda h: h.t().reshape(-1), lambda h: h.t().contiguous()])
def test_a_copy_made_outside_of_the_graph_is_no_view(read: Any) -> None:
    """A reshape that copies was a view of the copy, and so could not be written in the graph."""

    def f(x: Any, w: Any, k: int) -> Any:
        h = x * w[0]
        with weft.no_grad():
            r = read(h)
        r.view(-1).mul_(w.view(-1)[:8])
        return h.sum() + r.sum()

    assert not isinstance(check(f), str)


@pytest.mark.parametrize("examples", [7, 9, 18, 49])
def test_whose_gradient_it_is_that_is_zero(examples: int) -> None:
    """Where a row of 3 elements has a gradient of 7, rounding took the next example's along, and
    read beyond the last one's."""
    weight = weft.ones(7, 3, requires_grad=True)

    def f(x: weft.Tensor, k: int, written: int) -> weft.Tensor:
        h = x * 2
        y = weft.nn.functional.linear(h, weight)
        if k != written:
            return y.sum()
        h += 1
        return y.sum() * 0

    for written in range(examples):
        rows = [weft.ones(1, 3)] * examples
        batched = weft.autobatch(f, adaptive=False)
        losses = batched(rows, list(range(examples)), [written] * examples)
        weight.grad = None
        sum(losses[:written] + losses[written + 1 :]).backward()
        assert weft.equal(weight.grad, weft.full((7, 3), 2.0 * (examples - 1)))


@pytest.mark.parametrize("budget", [2, 3, 4, 5])
def test_what_several_views_were_used_for_before_a_write_stays_in_the_graph(budget: int) -> None:
    """Where a flush came between, the batch took its own view for one whose base was written."""

    def f(x: Any, w: Any, k: int) -> Any:
        h = x * w[0]
        v = h.flatten()[2:].view(2, -1).t().unbind(0)[1]
        u = v + 1
        h.view_as(h)[...] = 0.3
        return h.sum() + u.sum()

    before = weft._C._set_budget(budget)
    try:
        assert not isinstance(check(f), str)
    finally:
        weft._C._set_budget(before)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda t: t,
    "t": lambda t: t.t(),
    "row": lambda t: t[1],
    "rows": lambda t: t[1:],
    "column": lambda t: t[:, 1],
    "columns": lambda t: t[:, :1],
    "t, rows": lambda t: t.t()[1:],
    "rows, t": lambda t: t[1:].t(),
    "t, rows, columns": lambda t: t.t()[1:][:, :1],
    "chunk": lambda t: t.chunk(2, 1)[1],
    "unbind": lambda t: t.unbind(1)[2],
    "diagonal": lambda t: t.diagonal(),
    "expand": lambda t: t[:1].expand(3, 4),
    "flat": lambda t: t.view(-1)[3:7],
    "copied": lambda t: t.t().reshape(-1),
    "gathered": lambda t: t[weft.tensor([0, 2])],
}
USES: dict[str, Callable[[Any], Any]] = {
    "sin": lambda v: v.sin(),  # saves its input
    "exp": lambda v: v.exp(),  # its result
    "add": lambda v: v + 1,  # nothing
    "dot": lambda v: v.reshape(-1) @ v.reshape(-1),
    "cat": lambda v: weft.cat([v, v]).sin(),
}
WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "base": lambda base, view, used: base.mul_(2),
    "view": lambda base, view, used: view.mul_(2),
    "result": lambda base, view, used: used.mul_(2),
    "other view": lambda base, view, used: base.t()[0].mul_(2),
    "element": lambda base, view, used: base.__setitem__((0, 0), 1.0),
    "detached base": lambda base, view, used: base.detach().mul_(2),
    "detached view": lambda base, view, used: view.detach().mul_(2),
    "detached result": lambda base, view, used: used.detach().mul_(2),
}


def written_after_use(view: Any, use: Any, write: Any, flushed: tuple[int, ...], times: int) -> Any:
    """Gradients, or whether it was the error of a saved value; `flushed`: before which statements
    what waits is computed. The last of `times` alike examples writes."""
    w = (weft.arange(16.0).view(4, 4) + 1).requires_grad_()
    kept: Any = []
    try:
        with weft.deferred():
            for statement in range(4):
                for k in range(times):
                    if statement == 0:
                        kept.append([w * 0.5])
                    elif statement == 1:
                        kept[k].append(view(kept[k][0]))
                    elif statement == 2:
                        kept[k].append(use(kept[k][1]))
                    elif k == times - 1:
                        write(*kept[k])
                if statement in flushed:
                    weft._C._flush("test")
            total = sum((base.sum() + used.sum() for base, _, used in kept), weft.zeros(()))
        total.backward()
    except RuntimeError as error:
        return "inplace" in str(error) or str(error)
    return w.grad


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("view", VIEWS)
def test_a_write_is_an_error_where_the_loops_is(
    view: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ran before and after: views of a block of an earlier flush, and several views that
    one call makes, were not known to show what is written."""
    places = [at for n in range(3) for at in itertools.combinations(range(4), n)]
    for (use, used), (write, written) in itertools.product(USES.items(), WRITES.items()):
        monkeypatch.setattr(weft.autobatch, "enabled", False)
        expected = written_after_use(VIEWS[view], used, written, (), times)
        monkeypatch.setattr(weft.autobatch, "enabled", True)
        for flushed in places:
            found = written_after_use(VIEWS[view], used, written, flushed, times)
            if isinstance(expected, weft.Tensor) and isinstance(found, weft.Tensor):
                weft.testing.assert_close(found, expected)
            else:
                assert type(found) is type(expected) and found == expected, (
                    use,
                    write,
                    flushed,
                    found,
                )
