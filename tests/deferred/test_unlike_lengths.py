"""Calls over unlike numbers of rows run as one, with the loop's values, gradients and errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

F = weft.nn.functional
W = weft.linspace(-1, 1, 16, dtype=weft.float64).view(4, 4)
V = weft.tensor([0.4, -0.9, 1.3, 0.2], dtype=weft.float64)
FILTER = weft.linspace(-1, 1, 24, dtype=weft.float64).view(2, 4, 3)
INTO = weft.tensor([2, 0, 1, 1])
Function = Callable[[Any, Any, Any], Any]


def heads(t: Any) -> Any:
    return t.view(-1, 2, 2).transpose(0, 1)


# By name: a function of an example [n, 4] with n >= 3 and of two weights that examples share.
BROADCASTS: dict[str, Function] = {
    "gate": lambda x, w, v: x * x[:, 1].sigmoid()[:, None],
    "a column": lambda x, w, v: x / (x * x).sum(1, keepdim=True),
    "less the mean": lambda x, w, v: x - x.mean(0),
    "less a kept mean": lambda x, w, v: x - x.mean(0, keepdim=True),
    "a vector of its own": lambda x, w, v: x[0] * x + v,
    "a number of its own": lambda x, w, v: x * x.sum(),
    "its own kept number": lambda x, w, v: x / x.exp().sum().view(1, 1),
    "an outer product": lambda x, w, v: x[:, :1] * x[0],
    "three operands": lambda x, w, v: weft.addcmul(x, x[:, :1], x[1], value=0.5),
    "and a weight": lambda x, w, v: weft.where(x[:, :1] > 0.1, x[0], v),
    "a square": lambda x, w, v: (x @ x.t()) - (x @ x.t()).sum(1, keepdim=True),
    "three dims": lambda x, w, v: x.view(-1, 2, 2) * x[:, :2].reshape(-1, 1, 2),
    "the middle": lambda x, w, v: x.view(-1, 2, 2) * x[0].view(2, 2)[:, :1],
    "a norm": lambda x, w, v: x / x.norm(dim=1, keepdim=True),
    "normalized": lambda x, w, v: F.normalize(x, dim=1),
    "normalized columns": lambda x, w, v: F.normalize(x, dim=0),
    "its length": lambda x, w, v: x / len(x),
}
REDUCTIONS: dict[str, Function] = {
    "sum": lambda x, w, v: x.sum(0),
    "mean": lambda x, w, v: x.mean(0),
    "max": lambda x, w, v: x.max(0).values,
    "max all": lambda x, w, v: x.max(),
    "min": lambda x, w, v: x.min(0, keepdim=True).values,
    "which max": lambda x, w, v: x.max(0).indices,
    "argmax": lambda x, w, v: x.argmax(0),
    "argmin all": lambda x, w, v: x.argmin(),
    "amax": lambda x, w, v: x.amax(0),
    "amin all": lambda x, w, v: x.amin(),
    "logsumexp": lambda x, w, v: x.logsumexp(0),
    "logsumexp all": lambda x, w, v: x.logsumexp((0, 1)),
    "std": lambda x, w, v: x.std(0),
    "var": lambda x, w, v: x.var(0, keepdim=True),
    "prod": lambda x, w, v: x.prod(0),
    "prod all": lambda x, w, v: x.prod(),
    "norm": lambda x, w, v: x.norm(dim=0),
    "norm all": lambda x, w, v: x.norm(),
    "softmax": lambda x, w, v: x.softmax(0),
    "log_softmax": lambda x, w, v: x.log_softmax(0),
    "softmax of scores": lambda x, w, v: (x @ x.t()).softmax(-1) @ x,
    "any": lambda x, w, v: (x > 0.5).any(0),
    "all": lambda x, w, v: (x > -0.5).all(),
    "median": lambda x, w, v: x.median(0).values,
    "kthvalue": lambda x, w, v: x.kthvalue(2, 0).values,
    "of the middle": lambda x, w, v: x.view(2, -1, 2).softmax(1),
}
OTHERS: dict[str, Function] = {
    "scatter_add": lambda x, w, v: weft.zeros(3, 4, dtype=x.dtype).scatter_add(
        0, (x * 0).long() + INTO, x
    ),
    "scatter": lambda x, w, v: x.scatter(0, x.argmax(0, keepdim=True), 2.5),
    "gather": lambda x, w, v: x.gather(0, x.argsort(0)[:2]),
    "index_add": lambda x, w, v: weft.zeros(5, 4, dtype=x.dtype).index_add(
        0, x[:, 0].argsort() % 5, x
    ),
    "index_select": lambda x, w, v: x.index_select(1, INTO),
    "flip": lambda x, w, v: x.flip(0),
    "roll": lambda x, w, v: x.roll(1, 0),
    "roll all": lambda x, w, v: x.roll(2),
    "pad": lambda x, w, v: F.pad(x, (0, 0, 1, 2), value=0.7),
    "pad by reflection": lambda x, w, v: F.pad(x.t(), (1, 2), mode="reflect"),
    "cumsum": lambda x, w, v: x.cumsum(0),
    "cumprod": lambda x, w, v: x.cumprod(0),
    "logcumsumexp": lambda x, w, v: x.logcumsumexp(0),
    "cummax": lambda x, w, v: x.cummax(0).values,
    "cdist": lambda x, w, v: weft.cdist(x, x[:2] + 1),
    "topk": lambda x, w, v: x.topk(2, 0).values,
    "sort": lambda x, w, v: x.sort(0).values,
    "argsort": lambda x, w, v: x.argsort(0, descending=True),
    "diff": lambda x, w, v: x.diff(dim=0),
    "a product of its own": lambda x, w, v: x.t() @ x.tanh(),
    "scores": lambda x, w, v: x @ x.t(),
    "a transposed weight": lambda x, w, v: (w @ x.t()).contiguous(),
    "expand": lambda x, w, v: x[0].expand(len(x), 4).contiguous() * w[0],
    "repeat": lambda x, w, v: x[:1].repeat(len(x), 1),
    "tril": lambda x, w, v: (x @ x.t()).tril(),
    "convolution": lambda x, w, v: F.conv1d(x.t(), FILTER.to(x.dtype), v[:2], padding=1),
    "strided convolution": lambda x, w, v: F.conv1d(x.t()[None], w.view(4, 4, 1), v, stride=2),
    "pooling": lambda x, w, v: F.max_pool1d(x.t()[None], 2, 1),
    "mean pooling": lambda x, w, v: F.avg_pool1d(x.t()[None], 3, 1, 1),
    "to one size": lambda x, w, v: F.adaptive_avg_pool1d(x.t()[None], 2),
    "attention": lambda x, w, v: F.scaled_dot_product_attention(
        heads(x @ w), heads(x), heads(x + v)
    ),
    "causal attention": lambda x, w, v: F.scaled_dot_product_attention(x @ w, x, x, is_causal=True),
    "attention to others": lambda x, w, v: F.scaled_dot_product_attention(x[:2] @ w, x, x + v),
}  # fmt: skip
NUMBERS: dict[str, Function] = {
    "pow": lambda x, w, v: x.exp() ** (0.5 * len(x)),
    "clamp": lambda x, w, v: x.clamp(-0.1 * len(x), 0.3 * len(x)),
    "leaky_relu": lambda x, w, v: F.leaky_relu(x, 0.01 * len(x)),
    "elu": lambda x, w, v: F.elu(x, 0.1 * len(x)),
    "softplus": lambda x, w, v: F.softplus(x, 0.3 * len(x)),
    "add": lambda x, w, v: weft.add(x, v, alpha=len(x)),
    "narrow": lambda x, w, v: x[: len(x) - 1, 1:] * 2,
}
ALL = BROADCASTS | REDUCTIONS | OTHERS | NUMBERS
CONSTANT = {"which max", "argmax", "argmin all", "any", "all", "argsort"}


def examples(lengths: tuple[int, ...], dtype: Any) -> list[Any]:
    rng = np.random.default_rng(len(lengths))
    return [weft.tensor(rng.normal(size=(n, 4)), dtype=dtype, requires_grad=True) for n in lengths]


def same(a: Any, b: Any, tolerance: float) -> None:
    if a is None or b is None:
        assert b is None or not np.any(np.array(b.tolist()))
        return
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_allclose(np.array(a.tolist()), np.array(b.tolist()), tolerance, tolerance)


def run(name: str, xs: list[Any], batched: bool, order: int) -> list[Any]:
    """Results, then gradients, then gradients of those."""
    weights = [t.to(xs[0].dtype).detach().requires_grad_() for t in (W, V)]

    def f(x: Any) -> Any:
        return ALL[name](x * 1.0, *weights)

    outs = weft.autobatch(f, adaptive=False)(xs) if batched else [f(x) for x in xs]
    if name in CONSTANT:
        return list(outs)

    def weighted(ts: list[Any]) -> Any:
        return sum(
            ((t * t * t) * weft.arange(1, t.numel() + 1).view(t.shape)).sum()
            for t in ts
            if t is not None
        )

    found, leaves = list(outs), [*xs, *weights]
    total = weighted(list(outs))
    for _ in range(order):
        grads = weft.autograd.grad(total, leaves, create_graph=order > 1, allow_unused=True)
        found += grads
        total = weighted([g for g in grads if g is not None and g.requires_grad])
        if not isinstance(total, weft.Tensor):
            break
    return found


def check(name: str, lengths: tuple[int, ...], dtype: Any, order: int = 1) -> None:
    plain = run(name, examples(lengths, dtype), False, order)
    batched = run(name, examples(lengths, dtype), True, order)
    tolerance = 1e-11 if dtype == weft.float64 else 1e-3
    for a, b in zip(batched, plain, strict=True):
        same(a, b, tolerance)


@pytest.mark.parametrize("name", ALL)
def test_calls_merge_and_are_the_loop_s(name: str) -> None:
    xs = examples((4, 3, 6, 5, 7), weft.float64)
    report = weft.explain(lambda x: ALL[name](x * 1.0, W, V), xs)
    (flush,) = report.flushes
    assert [b for b in flush["batches"] if b["calls"] % len(xs) or b["why"]] == []
    check(name, (4, 3, 6, 5, 3), weft.float64)
    check(name, (4, 3, 6), weft.float32)


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_gradients(name: str) -> None:
    check(name, (3, 5, 4), weft.float64, order=2)


@pytest.mark.parametrize("name", [n for n in ALL if "pad by" not in n])
@pytest.mark.parametrize("lengths", [(3, 1, 4), (2, 0, 3)])
def test_one_row_and_none(name: str, lengths: tuple[int, ...]) -> None:
    """Or the loop's error, at the same example."""
    outcomes = []
    for batched in (False, True):
        try:
            outcomes.append(run(name, examples(lengths, weft.float64), batched, 1))
        except (RuntimeError, IndexError) as error:
            outcomes.append([type(error), str(error).split("\n")[0]])
    plain, both = outcomes
    if isinstance(plain[0], type):
        assert plain == both
        return
    for a, b in zip(both, plain, strict=True):
        same(a, b, 1e-11)


@pytest.mark.parametrize("name", ["softmax", "max", "less the mean", "attention", "convolution"])
def test_many_of_a_length_run_by_themselves(name: str) -> None:
    """Each length of which there are many is one kernel call; the order is the program's."""
    check(name, (4,) * 7 + (3, 5) + (4, 6) * 3 + (3,) * 9, weft.float64)


def test_one_attention_layer_serves_sequences_of_any_length() -> None:
    layer = weft.nn.MultiheadAttention(4, 2, batch_first=True, dtype=weft.float64)
    xs = examples((4, 3, 6, 5, 2, 9), weft.float64)

    def f(x: Any) -> Any:
        return layer(x[None] * 1, x[None], x[None], need_weights=False)[0]

    (flush,) = weft.explain(f, xs).flushes
    assert [b for b in flush["batches"] if b["calls"] % len(xs) or b["why"]] == []
    leaves = [*xs, *layer.parameters()]
    for a, b in zip(weft.autobatch(f)(xs), map(f, xs), strict=True):
        same(a, b, 1e-12)

    def gradients(outs: list[Any]) -> Any:
        return weft.autograd.grad(sum((o * o).sum() for o in outs), leaves)

    batched, plain = gradients(weft.autobatch(f)(xs)), gradients([f(x) for x in xs])
    for a, b in zip(batched, plain, strict=True):
        same(a, b, 1e-11)


def test_a_call_that_fails_is_found_among_the_others() -> None:
    def f(x: Any) -> Any:
        return (x * 2).gather(0, (x[:1] * 0).long() + 3)

    xs = examples((4, 3, 6), weft.float64)
    with pytest.raises(RuntimeError, match="index 3 is out of bounds"):
        weft.autobatch(f)(xs)


def test_an_example_without_rows_takes_no_row_of_a_parameter() -> None:
    """Two parameters for two rows were taken for one each, though both rows were one example's."""
    scales = [weft.full((4,), n + 1.0, requires_grad=True) for n in range(2)]

    def f(x: Any, scale: Any) -> Any:
        return x.tanh() * scale

    xs = [weft.ones(2, 4), weft.ones(0, 4)]
    batched = weft.autobatch(f, adaptive=False)(xs, scales)
    for a, x, scale in zip(batched, xs, scales, strict=True):
        same(a, f(x, scale), 1e-6)
