"""The law of batching: every op of the table gives the loop's values and gradients, batched."""

import itertools
from typing import Any

import numpy as np
import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, flat, ours

import weft

SKIP = {"_region", "_pack", "_take"}  # of the batcher itself: they want memory

# Their samples have no operands that a batch could share, or none that is one tensor in all
# examples; tests below show that they merge.
SHOWN_BELOW = {"_batch_norm"}


class Example(Inputs):
    """A sample's inputs with numbers of its own, as results of ops that wait to be computed.

    The float inputs that `shared` numbers are the same tensor in every example, as weights are.
    """

    def __init__(
        self, sample: str, seed: int, dtype: str, shared: tuple[int, ...] = (), weights: Any = None
    ) -> None:
        super().__init__(weft, dtype, sample, grad=True)
        self.rng = np.random.default_rng(seed)
        self.shared, self.weights = shared, {} if weights is None else weights
        self.count = itertools.count()

    def T(self, *sizes: int, lo: float = -2, hi: float = 2) -> Any:
        t = super().T(*sizes, lo=lo, hi=hi)
        number = next(self.count)
        return self.weights.setdefault(number, t) if number in self.shared else t * 1

    def I(self, *sizes: int, high: int = 5) -> Any:  # noqa: E743
        return super().I(*sizes, high=high) + 0

    def B(self, *sizes: int) -> Any:
        return super().B(*sizes) ^ False


def loops_over(name: str) -> bool:
    return not (RECORDS[name]["random"] or "empty" in name or name in SKIP)


def ways_to_share(sample: str) -> list[tuple[int, ...]]:
    """No input is shared; all but the first or the second, as weights; the first, as a table."""
    n = sample.count("T(")
    if n < 2:
        return [(), (0,)] if "I(" in sample else [()]
    ways = [(), tuple(range(1, n)), (0,)]
    return ways if n == 2 else [*ways, (0, *range(2, n))]


def results(
    name: str, sample: str, dtype: str, batch: bool, shared: tuple[int, ...] = ()
) -> tuple[list[Any], list[Any]]:
    f, weights = ours(RECORDS[name]), {}
    examples = [Example(sample, seed, dtype, shared, weights) for seed in (1, 2, 3)]

    def one(e: Example) -> list[Any]:
        return flat(e.run(f, sample))

    outs = weft.autobatch(one)(examples) if batch else [one(e) for e in examples]
    terms = [
        (t * weft.cos(weft.arange(t.numel(), dtype=t.dtype).reshape(t.shape))).sum()
        for out in outs
        for t in out
        if t.requires_grad and not t.is_complex()
    ]
    leaves = [leaf for e in examples for leaf in e.leaves]
    grads = []
    if terms and leaves:
        grads = list(weft.autograd.grad(sum(terms), leaves, allow_unused=True))
    return outs, grads


def same(a: Any, b: Any, tolerance: float) -> None:
    if a is None or b is None:
        assert b is None or not np.any(np.array(b.tolist()))
        return
    if not isinstance(b, weft.Tensor):
        assert a == b
        return
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_allclose(np.array(a.tolist()), np.array(b.tolist()), tolerance, tolerance)


def compare(name: str, sample: str, dtype: str, shared: tuple[int, ...] = ()) -> None:
    plain, plain_grads = results(name, sample, dtype, False, shared)
    batched, batched_grads = results(name, sample, dtype, True, shared)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    for ours_, theirs in zip(batched, plain, strict=True):
        for a, b in zip(ours_, theirs, strict=True):
            same(a, b, tolerance)
            assert not isinstance(b, weft.Tensor) or a.requires_grad == b.requires_grad
    for a, b in zip(batched_grads, plain_grads, strict=True):
        same(a, b, 10 * tolerance)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_every_op(name: str, sample: str, dtype: str) -> None:
    if not loops_over(name):
        pytest.skip("random, uninitialised, or part of the batcher")
    compare(name, sample, dtype)


SHARING = [
    (name, sample, shared)
    for name, sample in CASES
    if loops_over(name) and RECORDS[name]["batch"] in ("rows", "body")
    for shared in ways_to_share(sample)[1:]
]


@pytest.mark.parametrize(
    ("name", "sample", "shared"), SHARING, ids=[f"{n}-{s}-{w}" for n, s, w in SHARING]
)
def test_every_op_with_weights(name: str, sample: str, shared: tuple[int, ...]) -> None:
    compare(name, sample, "float64", shared)


def merges(name: str, sample: str, shared: tuple[int, ...]) -> bool:
    """Whether the op's calls of three examples ran as one: what it needs ran before it."""
    f, weights = ours(RECORDS[name]), {}
    examples = [Example(sample, seed, "float32", shared, weights) for seed in (1, 2, 3)]
    report = weft.explain(lambda e: flat(e.run(f, sample)), examples)
    if [flush["reason"] for flush in report.flushes] != ["the end"]:
        return False
    last = report.flushes[0]["batches"][-1]
    return last["calls"] == 3 and not last["why"]


def numbers_differ(name: str, sample: str, dtype: str) -> tuple[Any, list[Example]]:
    """The op, with the numbers among its arguments larger in every further example."""
    f, examples = ours(RECORDS[name]), [Example(sample, seed, dtype) for seed in (1, 2, 3)]

    def one(e: Example) -> list[Any]:
        more = examples.index(e)

        def unlike(*args: Any, **kwargs: Any) -> Any:
            return f(*(a + more if type(a) in (int, float) else a for a in args), **kwargs)

        return flat(e.run(unlike, sample))

    return one, examples


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "sample"), [c for c in CASES if RECORDS[c[0]]["pointwise"]])
def test_pointwise_ops_over_numbers_that_differ(name: str, sample: str, dtype: str) -> None:
    runs = []
    for batch in (False, True):
        one, examples = numbers_differ(name, sample, dtype)
        try:
            outs = weft.autobatch(one)(examples) if batch else [one(e) for e in examples]
        except (RuntimeError, TypeError) as error:  # a number that the op refuses
            runs.append(type(error))
            continue
        total = sum(
            t.sum() for out in outs for t in out if t.requires_grad and t.is_floating_point()
        )
        if isinstance(total, weft.Tensor):
            total.backward()
        runs.append((outs, [leaf.grad for e in examples for leaf in e.leaves]))
    if isinstance(runs[0], type) or isinstance(runs[1], type):
        assert runs[0] is runs[1]
        return
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    for a, b in zip(flat(runs[1][0]), flat(runs[0][0]), strict=True):
        same(a, b, tolerance)
    for a, b in zip(runs[1][1], runs[0][1], strict=True):
        same(a, b, 10 * tolerance)


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("add", "f(T(3), 2)"), ("sub", "f(I(3), 2)"), ("rsub", "f(T(3), 2)"),
        ("mul", "f(T(2, 3), 0.5)"), ("mul", "f(T(), 2)"), ("div", "f(I(3), 2)"),
        ("rdiv", "f(T(3, lo=0.5), 2)"), ("gt", "f(T(3), 0.1)"), ("fmod", "f(T(3), 1.5)"),
        ("where", "f(B(2, 1), T(3), 0.5)"), ("where", "f(B(3), 1.0, 0.0)"),
        ("bitwise_and", "f(I(5), 3)"),
    ],
)  # fmt: skip
def test_calls_over_numbers_that_differ_merge(name: str, sample: str) -> None:
    report = weft.explain(*numbers_differ(name, sample, "float32"))
    last = report.flushes[0]["batches"][-1]
    assert (last["op"], last["calls"]) == (RECORDS[name]["public_name"], 3)


def test_calls_over_pieces_of_a_weight_merge() -> None:
    table = weft.linspace(-1, 1, 20, dtype=weft.float64).view(5, 4).requires_grad_()
    examples = [(weft.ones(n % 3 + 1, 4, dtype=weft.float64) * n, n % 5) for n in range(7)]

    def one(example: tuple[Any, int]) -> Any:
        x, k = example
        h = x.tanh() + table[k]
        return (h * table[k, 3 - k % 4]).sum() * table[2, 1]

    report = weft.explain(one, examples)
    merged = [(b["op"], b["calls"]) for b in report.flushes[0]["batches"]]
    assert merged == [("tanh", 7), ("add", 7), ("mul", 7), ("sum", 7), ("mul", 7)]
    (batched,) = weft.autograd.grad(sum(report.outputs), [table])
    loop = [one(e) for e in examples]
    same(batched, weft.autograd.grad(sum(loop), [table])[0], 1e-12)
    for a, b in zip(report.outputs, loop, strict=True):
        same(a, b, 1e-12)


@pytest.mark.parametrize(
    "product",
    [
        lambda x, w, v: (x * 2) @ v,
        lambda x, w, v: v @ (x[0] * 2),
        lambda x, w, v: w @ (x[:1] * 2).t(),
        lambda x, w, v: weft.nn.functional.linear(v.expand(2, 3), x.tanh()[:1], x[0, :1] * 2),
        lambda x, w, v: weft.nn.functional.linear(x[0] * 2, x.tanh()[:1]),
        lambda x, w, v: weft.nn.functional.linear(x[0] * 2, x.tanh()[:1], v[:1]),
    ],
    ids=["rows-vector", "vector-vector", "matrix-column", "layers", "layers-row", "one-bias"],
)
def test_products_that_merge(product: Any) -> None:
    """With a weight as either operand, and with each example's own as a layer's weight."""
    w = weft.linspace(-1, 1, 12, dtype=weft.float64).view(4, 3).requires_grad_()
    v = weft.tensor([0.3, -0.7, 1.1], dtype=weft.float64, requires_grad=True)
    xs = [
        weft.full((n % 3 + 1, 3), 0.3 * n, dtype=weft.float64, requires_grad=True) for n in range(5)
    ]
    report = weft.explain(lambda x: product(x, w, v), xs)
    assert report.flushes[0]["batches"][-1]["calls"] == len(xs)
    loop, leaves = [product(x, w, v) for x in xs], [w, v, *xs]
    for a, b in zip(report.outputs, loop, strict=True):
        same(a, b, 1e-12)

    def gradients(outs: list[Any]) -> Any:
        return weft.autograd.grad(sum((o * o).sum() for o in outs), leaves, allow_unused=True)

    for a, b in zip(gradients(report.outputs), gradients(loop), strict=True):
        same(a, b, 1e-12)


@pytest.mark.parametrize(
    "product",
    [
        lambda a, x: (a * 2) @ x,
        lambda a, x: x @ x.t(),
        lambda a, x: weft.nn.functional.linear(a * 2, x.t()),
        lambda a, x: (a * 2) @ (a * 3).t() @ (x[:2] * 1) @ x.t(),
        lambda a, x: weft.mv(x, x[0]),
    ],
)
def test_an_example_s_own_data_is_no_weight(product: Any) -> None:
    """Note [Own]: each example's was taken for a weight of its own."""
    xs = [weft.randn(3, 3, dtype=weft.float64) for _ in range(5)]
    a = weft.randn(2, 3, dtype=weft.float64, requires_grad=True)
    report = weft.explain(lambda x: product(a, x), xs)
    assert {b["calls"] for b in report.flushes[0]["batches"]} <= {5, 10}
    for ours_, x in zip(report.outputs, xs, strict=True):
        same(ours_, product(a, x), 1e-12)


def test_a_frozen_weight_is_shared() -> None:
    """Not stacked for each call: examples, and a plain loop, share it."""
    first, second = weft.randn(3, 3), weft.randn(3, 3)

    def one(x: Any) -> Any:
        for _ in range(4):
            x = ((x @ first).tanh() @ second).tanh()
        return x

    xs = [weft.randn(n % 3 + 1, 3) for n in range(5)]
    batches = weft.explain(one, xs).flushes[0]["batches"]
    assert [b["rows"] for b in batches if b["op"] == "mm"] == [sum(len(x) for x in xs)] * 8
    with weft.explain() as report, weft.deferred():
        for x in xs:
            one(x)
    batches = report.flushes[0]["batches"]
    assert [b["rows"] for b in batches if b["op"] == "mm"] == [sum(len(x) for x in xs)] * 8


def test_parameters_of_one_example_each_are_gathered_and_shared_ones_are_not() -> None:
    scales = [weft.randn(4, dtype=weft.float64, requires_grad=True) for _ in range(5)]
    biases = [weft.randn(4, dtype=weft.float64, requires_grad=True) for _ in range(2)]

    def one(k: int) -> Any:
        h = weft.full((k + 1, 4), 0.3 * k, dtype=weft.float64) * scales[k]
        for bias in biases:
            h = (h + bias).tanh()
        return h.sum()

    report = weft.explain(one, list(range(5)))
    ran = [(b["op"], b["calls"]) for b in report.flushes[0]["batches"]]
    assert ran == [("mul", 5), *[("add", 5), ("tanh", 5)] * 2, ("sum", 5)]
    leaves = scales + biases
    batched = weft.autograd.grad(sum(report.outputs), leaves)
    loop = weft.autograd.grad(sum(one(k) for k in range(5)), leaves)
    for a, b in zip(batched, loop, strict=True):
        same(a, b, 1e-12)


def test_gradients_of_rows_that_somebody_watches() -> None:
    """Rows of a table are pieces of it only where nobody can ask for their own gradient."""
    table = weft.linspace(-1, 1, 12, dtype=weft.float64).view(4, 3).clone().requires_grad_()

    def run(call: Any) -> Any:
        table.grad, seen, rows = None, [], []

        def one(k: int) -> Any:
            row, other = table[k], table[3 - k]
            if k == 1:
                row.register_hook(lambda g: (seen.append(g.tolist()), g * 2)[1])
            if k == 2:
                row.retain_grad()
            rows.append(row)
            return (row.tanh() * other + table[0]).sum()

        total = sum(call(one)(range(4)))
        (kept,) = weft.autograd.grad(total, [rows[3]], retain_graph=True)
        total.backward()
        return seen, kept, rows[2].grad, table.grad

    loop = run(lambda f: lambda ks: [f(k) for k in ks])
    batched = run(lambda f: weft.autobatch(f, adaptive=False))
    assert batched[0] == loop[0]
    for a, b in zip(batched[1:], loop[1:], strict=True):
        same(a, b, 1e-12)


def with_samples(*ways: int) -> list[str]:
    return [n for n, r in RECORDS.items() if r["batch"] in ways and r["samples"] and loops_over(n)]


@pytest.mark.parametrize("name", with_samples("rows", "join"))
def test_an_op_with_a_rule_merges(name: str) -> None:
    if name in SHOWN_BELOW:
        pytest.skip("shown below")
    samples = RECORDS[name]["samples"]
    assert any(merges(name, s, shared) for s in samples for shared in ways_to_share(s))


READS_VALUES = {"f(I(4))"}  # one_hot without a size


@pytest.mark.parametrize("name", with_samples("body"))
def test_a_composite_of_layouts_makes_nothing_run(name: str) -> None:
    f = ours(RECORDS[name])
    for sample in RECORDS[name]["samples"]:
        examples = [Example(sample, seed, "float32") for seed in (1, 2, 3)]
        report = weft.explain(lambda e, s=sample: flat(e.run(f, s)), examples)
        reasons = [flush["reason"] for flush in report.flushes]
        assert reasons in (["the end"], []) or sample in READS_VALUES


def check_merging(f: Any, examples: list[Any], weights: list[Any], batches: int) -> None:
    """The last op ran in `batches` batches; values and gradients are the loop's."""
    report = weft.explain(f, examples)
    last = report.flushes[-1]["batches"][-1]["op"]
    merged = [b for b in report.flushes[-1]["batches"] if b["op"] == last]
    assert len(merged) == batches and sum(b["calls"] for b in merged) == len(examples)
    assert not any(b["why"] for b in merged)
    loop = [f(e) for e in examples]
    for a, b in zip(report.outputs, loop, strict=True):
        same(a, b, 1e-12)
    if not loop[0].requires_grad:
        return
    leaves = weights + [t for e in examples for t in flat(e) if t.requires_grad]

    def gradients(outs: list[Any]) -> Any:
        total = sum((o * weft.arange(1, o.numel() + 1).view(o.shape)).sum() for o in outs)
        return weft.autograd.grad(total, leaves, allow_unused=True)

    for a, b in zip(gradients(report.outputs), gradients(loop), strict=True):
        same(a, b, 1e-12)


def matrices(*lengths: int, width: int = 4) -> list[Any]:
    rng = np.random.default_rng(len(lengths))
    return [
        weft.tensor(rng.normal(size=(n, width)), dtype=weft.float64, requires_grad=True)
        for n in lengths
    ]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.tanh() > 0).sum(),
        lambda x: (x.tanh() > 0).sum(0),
        lambda x: (x.tanh() > 0).sum((0, 1), keepdim=True),
        lambda x: (x * 9).long().sum(),
        lambda x: (x * 9).to(weft.int8).sum(0, dtype=weft.int8),
        lambda x: (x.tanh() > 0).sum(dtype=weft.bool),
        lambda x: (x.tanh() > 0).mean(dtype=weft.float64),
        lambda x: x.tanh().float().sum(dtype=weft.float64),
        lambda x: x.tanh().sum(-2, dtype=weft.complex128).real,
        lambda x: x.tanh().mean((-1, -2)),
        lambda x: x.tanh()[:, 0].sum(-1),
        lambda x: (x.tanh() > 2).any(),
        lambda x: (x.tanh() > 0.9).any(0, keepdim=True),
        lambda x: (x.tanh() > 0.9).to(weft.uint8).any(),
        lambda x: (x.tanh() / 0).any((0, 1)),
        lambda x: (x.tanh() > -0.9).all(),
        lambda x: (x.tanh() > -0.9).to(weft.uint8).all(0),
        lambda x: x.half().tanh().relu().all(-2),
        lambda x: x.tanh().relu().count_nonzero(),
        lambda x: x.tanh().relu().count_nonzero(0),
    ],
)  # fmt: skip
def test_sums_of_any_dtype_merge_whatever_their_length(f: Any) -> None:
    check_merging(f, matrices(3, 1, 5, 3, 2), [], 1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: weft.where(x > 0, x.tanh(), x.sum()),
        lambda x, w: weft.where(x > 0, x.tanh(), w[0]),
        lambda x, w: weft.where(x.sum() > 0, x.tanh(), w),
        lambda x, w: (x > 0) * x.sum(),
        lambda x, w: x.tanh() * x.sum().float(),
    ],
    ids=["own", "piece", "condition", "mask", "float"],
)
def test_scalars_of_an_example_merge_where_the_dtype_stays(f: Any) -> None:
    w = weft.linspace(-1, 1, 4, dtype=weft.float64).requires_grad_()
    narrower = weft.float32 if f(matrices(2)[0], w).dtype == weft.float32 else weft.float64
    assert narrower == weft.float64
    check_merging(lambda x: f(x, w), matrices(3, 3, 3), [w], 1)


def test_scalars_that_would_change_the_dtype_stay_scalars() -> None:
    def f(x: Any) -> Any:
        return x.float().tanh() * x.sum()  # float32: a 0-d operand does not raise it

    xs = matrices(3, 3)
    for a, b in zip(weft.autobatch(f)(xs), [f(x) for x in xs], strict=True):
        assert a.dtype == weft.float32
        same(a, b, 1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", ["class", "row", "element", "number", "scalar"])
@pytest.mark.parametrize("positive", [False, True])
def test_weighted_binary_losses_merge(reduction: str, weight: str, positive: bool) -> None:
    classes = weft.tensor([0.5, 1.0, 2.0, 3.0], dtype=weft.float64)
    made = {
        "class": lambda x: classes.expand_as(x),
        "row": lambda x: x.detach()[:, :1] * 2,
        "element": lambda x: x.detach() * 2,
        "number": lambda x: x.detach()[0, :1] * 2,
        "scalar": lambda x: x.detach().sum(),
    }[weight]

    def logits(x: Any) -> Any:
        return weft.nn.functional.binary_cross_entropy_with_logits(
            x * 2, (x > 0).double(), weight=None if weight == "class" else made(x),
            reduction=reduction, pos_weight=classes if positive else None,
        )  # fmt: skip

    def probabilities(x: Any) -> Any:
        return weft.nn.functional.binary_cross_entropy(
            x.sigmoid(), (x > 0).double(), weight=made(x), reduction=reduction
        )

    lengths = (3, 1, 2) if weight in ("class", "row", "element") else (2, 2, 2)
    check_merging(logits, matrices(*lengths), [], 1)
    if not positive:
        check_merging(probabilities, matrices(*lengths), [], 1)


def own(x: Any) -> Any:
    return x * 2


ROWS_OF = weft.tensor([[2, 0], [1, -1]])


@pytest.mark.parametrize(
    ("f", "lengths"),
    [
        (lambda x, w: own(x)[weft.arange(len(x)), own(x).argmax(1)], (3, 1, 5)),
        (lambda x, w: own(x)[weft.arange(len(x)), -1 - own(x).argmax(1)], (3, 1, 5)),
        (lambda x, w: own(x)[weft.arange(len(x)) - len(x)], (3, 1, 5)),
        (lambda x, w: own(x)[ROWS_OF - 1], (4, 3, 5)),
        (lambda x, w: w[x.argmax(1), x.argmin(1) - 4], (3, 1, 5)),
        (lambda x, w: w[x.argmax(1)], (3, 1, 5)),
        (lambda x, w: w[x[0].argmax(), x[0].argmin()], (3, 1, 5)),
        (lambda x, w: w[x.argmax(1)[:, None], x.argmin(1)], (3, 3, 3)),
        (lambda x, w: w[:, x.argmax(1)], (3, 3, 3)),
        (lambda x, w: own(x)[:, [0, 2]], (3, 3, 3)),
        (lambda x, w: own(x)[:, ROWS_OF], (3, 3, 3)),
        (lambda x, w: own(x)[weft.arange(len(x))[:, None], ROWS_OF[0]], (3, 3, 3)),
        (lambda x, w: own(x).view(3, 2, 2)[:, [1, 0], [0, 1]], (3, 3, 3)),
        (lambda x, w: own(x).view(3, 2, 2)[[1, 0], :, [0, 1]], (3, 3, 3)),
        (lambda x, w: own(x).view(3, 1, 2, 2)[:, :, ROWS_OF[1], ROWS_OF - 1], (3, 3, 3)),
        (lambda x, w: w.view(2, 2, 4)[:, x.argmax(1) // 2, x.argmax(1)], (3, 3, 3)),
        (lambda x, w: w.view(2, 2, 4)[x.argmax(1) // 2, :, x.argmax(1)], (3, 3, 3)),
    ],
)
def test_indices_of_several_dims_merge(f: Any, lengths: tuple[int, ...]) -> None:
    w = weft.linspace(-1, 1, 16, dtype=weft.float64).view(4, 4).requires_grad_()
    check_merging(lambda x: f(x, w), matrices(*lengths), [w], 1)


def test_an_index_out_of_range_is_the_calls_own_error() -> None:
    tables = [weft.ones(2, 3) * n for n in range(3)]

    def f(x: Any, k: int) -> Any:
        return (x * 2)[weft.tensor([0, 1]), weft.tensor([k, 0])]

    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1 with size 3"):
        weft.autobatch(f)(tables, [0, 3, 1])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_cross_entropies_with_class_weights_merge(reduction: str, own: bool, fused: bool) -> None:
    classes = weft.tensor([0.5, 1.0, 2.0, 3.0], dtype=weft.float64)

    def f(x: Any) -> Any:
        target = x[:, 0].abs().long().clamp(max=3)  # class 1 is ignored
        weight = (x * x)[0] + 0.1 if own else classes
        loss = weft.nn.functional.cross_entropy if fused else weft.nn.functional.nll_loss
        scores = x * 2 if fused else (x * 2).log_softmax(1)
        return loss(scores, target, weight=weight, reduction=reduction, ignore_index=1)

    check_merging(f, matrices(3, 6, 2, 3), [], 1)


def test_one_product_serves_all_examples_of_a_bilinear_layer() -> None:
    layer = weft.nn.Bilinear(4, 4, 3).double()

    def f(x: Any) -> Any:
        return layer(x.tanh(), x.sin())

    report = weft.explain(f, matrices(3, 1, 5))
    assert [(b["op"], b["calls"]) for b in report.flushes[0]["batches"]][2:] == [
        ("linear", 3), ("bmm", 3), ("add", 3),
    ]  # fmt: skip
    check_merging(f, matrices(3, 1, 5), list(layer.parameters()), 1)
    check_merging(lambda x: layer(x[0] * 2, x[-1]), matrices(3, 1, 5), list(layer.parameters()), 1)
