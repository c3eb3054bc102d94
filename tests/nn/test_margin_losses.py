"""Losses of margins, pairs and sequences, dropout of channels and bags of rows, beside PyTorch."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import weft

RNG = np.random.default_rng(3)
X, Y, Z = (RNG.standard_normal((4, 5)) for _ in range(3))
SIGN = np.array([1.0, -1.0, 1.0, -1.0])
CLASS = np.array([0, 3, 4, 1])
MANY = (RNG.random((4, 5)) < 0.5).astype(float)
NAMED = np.array([[3, 0, -1, 1, 1], [1, -1, 0, 0, 0], [0, 1, 2, 3, 4], [-1, 0, 0, 0, 0]])

# class, its arguments, inputs
CASES: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("CosineSimilarity", {}, (X, Y)),
    ("CosineSimilarity", {"dim": 0}, (X, Y)),
    ("PairwiseDistance", {}, (X, Y)),
    ("PairwiseDistance", {"p": 1, "keepdim": True}, (X, Y)),
    ("MarginRankingLoss", {"margin": 0.3}, (X[:, 0], Y[:, 0], SIGN)),
    ("HingeEmbeddingLoss", {}, (X[:, 0], SIGN)),
    ("CosineEmbeddingLoss", {"margin": 0.1}, (X, Y, SIGN)),
    ("SoftMarginLoss", {}, (X[:, 0], SIGN)),
    ("MultiLabelMarginLoss", {}, (X, NAMED)),
    ("MultiLabelSoftMarginLoss", {}, (X, MANY)),
    ("MultiMarginLoss", {"p": 2}, (X, CLASS)),
    ("MultiMarginLoss", {"margin": -0.2}, (X, CLASS)),
    ("TripletMarginLoss", {"swap": True, "p": 1.0}, (X, Y, Z)),
    ("TripletMarginWithDistanceLoss", {"margin": 0.5}, (X, Y, Z)),
    ("PoissonNLLLoss", {"full": True}, (X, CLASS[:, None] * np.ones((4, 5)))),
    ("GaussianNLLLoss", {"full": True}, (X, Y, np.abs(Z))),
    ("Softmax2d", {}, (X.reshape(1, 2, 5, 2),)),
    ("RReLU", {}, (X,)),
    ("RReLU", {"lower": 0.2, "upper": 0.2}, (X,)),
    ("Dropout1d", {}, (X.reshape(2, 5, 2),)),
    ("Dropout2d", {"p": 0.3}, (X.reshape(1, 5, 2, 2),)),
    ("Dropout3d", {}, (X.reshape(5, 1, 2, 2),)),
    ("AlphaDropout", {}, (X,)),
    ("FeatureAlphaDropout", {"p": 0.2}, (X,)),
]
LOSSES = [c for c in CASES if c[0].endswith("Loss")]


def made(lib: Any, name: str, options: dict[str, Any], arrays: tuple[Any, ...]) -> Any:
    inputs = [lib.tensor(a.tolist(), dtype=lib.int64 if a.dtype.kind == "i" else lib.float64)
              for a in arrays]  # fmt: skip
    inputs[0].requires_grad_()
    layer = getattr(lib.nn, name)(**options)
    lib.manual_seed(5)
    out = layer(*inputs)
    out.sum().backward()
    return layer, out, inputs[0].grad


def same(a: Any, b: Any) -> None:
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.tolist(), b.tolist(), 1e-9, 1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "options", "arrays"), CASES)
def test_values_gradients_and_text(torch: Any, name: str, options: Any, arrays: Any) -> None:
    mine, theirs = (made(lib, name, options, arrays) for lib in (weft, torch))
    assert repr(mine[0]) == repr(theirs[0])
    same(mine[1].detach(), theirs[1].detach())
    same(mine[2], theirs[2])
    wanted = inspect.signature(getattr(torch.nn, name)).parameters
    got = inspect.signature(getattr(weft.nn, name)).parameters
    assert [(p.name, p.default) for p in got.values()] == [
        (p.name, p.default) for p in wanted.values()
    ]


@pytest.mark.parametrize("reduction", ["none", "sum"])
@pytest.mark.parametrize(("name", "options", "arrays"), LOSSES)
def test_reductions(torch: Any, name: str, options: Any, arrays: Any, reduction: str) -> None:
    mine, theirs = (
        made(lib, name, {**options, "reduction": reduction}, arrays) for lib in (weft, torch)
    )
    same(mine[1].detach(), theirs[1].detach())
    same(mine[2], theirs[2])


@pytest.mark.parametrize("flat", [False, True])
def test_ctc_through_log_softmax(torch: Any, flat: bool) -> None:
    logits = RNG.standard_normal((6, 3, 4))
    targets = [[1, 1, 2], [2, 3, 0], [1, 2, 3]]
    lengths, inputs = [3, 2, 0], [6, 5, 6]
    if flat:
        targets = [c for row, n in zip(targets, lengths) for c in row[:n]]

    def run(lib: Any) -> Any:
        x = lib.tensor(logits.tolist(), dtype=lib.float64).requires_grad_()
        loss = lib.nn.CTCLoss()(
            x.log_softmax(2), lib.tensor(targets), lib.tensor(inputs), lib.tensor(lengths)
        )
        loss.backward()
        return loss.detach(), x.grad

    for a, b in zip(run(weft), run(torch)):
        same(a, b)


@pytest.mark.parametrize("seed", range(40))
def test_ctc_is_pytorchs(torch: Any, seed: int) -> None:
    """Any lengths, blanks, repeated symbols and reductions, possible or not."""
    rng = np.random.default_rng(seed)
    time, batch, classes = rng.integers(1, 14), rng.integers(1, 4), rng.integers(2, 6)
    blank, dtype = int(rng.integers(classes)), ["float32", "float64"][seed % 2]
    counts, frames = rng.integers(0, 6, batch), rng.integers(0, time + 1, batch)
    rows = rng.integers(0, classes - 1, (batch, 7))
    rows += rows >= blank
    rows = np.concatenate([r[:n] for r, n in zip(rows, counts)]) if seed % 3 else rows
    logits = rng.standard_normal((time, batch, classes))
    options = {"blank": blank, "reduction": ["none", "mean", "sum"][seed % 5 % 3]}
    options["zero_infinity"] = bool(seed % 4 // 2)

    def run(lib: Any) -> Any:
        x = lib.tensor(logits.tolist(), dtype=getattr(lib, dtype), requires_grad=True)
        probs = x.log_softmax(2).transpose(0, 1).contiguous().transpose(0, 1)  # strided
        lengths = frames.tolist(), counts.tolist()
        if seed % 7 > 3:
            lengths = tuple(map(lib.tensor, lengths))
        target = lib.tensor(rows.tolist(), dtype=lib.int64)
        loss = lib.nn.functional.ctc_loss(probs, target, *lengths, **options)
        loss.sum().backward()
        return loss.detach(), x.grad

    tolerance = 1e-5 if dtype == "float32" else 1e-9
    for a, b in zip(run(weft), run(torch)):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.tolist(), b.tolist(), tolerance, tolerance)


def test_ctc_has_one_derivative(torch: Any) -> None:
    for lib in (weft, torch):
        x = lib.zeros(3, 1, 4).log_softmax(2).requires_grad_()
        loss = lib.nn.functional.ctc_loss(x, lib.tensor([[1]]), [3], [1])
        (slope,) = lib.autograd.grad(loss, x, create_graph=True)
        assert slope.requires_grad
        with pytest.raises(RuntimeError, match="derivative for aten::_ctc_loss_backward is not"):
            slope.sum().backward()


def test_a_class_that_ctc_cannot_emit_has_no_gradient() -> None:
    # PyTorch's is NaN: exp(-inf - -inf)
    probs = weft.tensor([[[0.5, 0.5, 0.0]]] * 3).log().requires_grad_()
    weft.nn.functional.ctc_loss(probs, weft.tensor([[1]]), [3], [1]).backward()
    assert probs.grad[:, :, 2].tolist() == [[0.0]] * 3
    assert bool(probs.grad.isfinite().all())


def test_ctc_of_the_impossible() -> None:
    probs = weft.zeros(2, 1, 3).log_softmax(2)
    args = weft.tensor([[1, 1, 1]]), [2], [3]
    assert weft.nn.functional.ctc_loss(probs, *args).item() == float("inf")
    assert weft.nn.functional.ctc_loss(probs, *args, zero_infinity=True).item() == 0


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("width", [1, 17, 300])
def test_multi_margin_of_wide_rows(torch: Any, p: int, width: int) -> None:
    scores = RNG.standard_normal((6, width))
    scores[0, 0] = np.nan  # counts as 0, unless it is the target's
    labels = [width - 1, 0, width // 2, 0, width - 1, width // 3]
    weights = np.abs(RNG.standard_normal(width)) + 0.1
    found = []
    for lib in (weft, torch):
        x = lib.tensor(scores.tolist(), dtype=lib.float64)
        loss = lib.nn.functional.multi_margin_loss(
            x, lib.tensor(labels), p, 0.7, lib.tensor(weights, dtype=lib.float64), reduction="none"
        )
        found.append(loss.tolist())
    np.testing.assert_allclose(*found, 1e-12)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_bags(torch: Any, mode: str, padding: int | None) -> None:
    indices, offsets = [1, 2, 4, 4, 0, 2], [0, 3, 3, 4]

    def run(lib: Any) -> Any:
        lib.manual_seed(0)
        layer = lib.nn.EmbeddingBag(5, 3, mode=mode, padding_idx=padding)
        out = layer(lib.tensor(indices), lib.tensor(offsets))
        (out * out).sum().backward()
        return layer, out.detach(), layer.weight.grad

    mine, theirs = run(weft), run(torch)
    assert repr(mine[0]) == repr(theirs[0])
    for a, b in zip(mine[1:], theirs[1:]):
        np.testing.assert_allclose(a.tolist(), b.tolist(), 1e-5, 1e-6)


def test_gumbel_softmax(torch: Any) -> None:
    for hard in (False, True):
        for lib in (weft, torch):
            lib.manual_seed(1)
        mine = weft.nn.functional.gumbel_softmax(weft.tensor(X.tolist()), tau=0.5, hard=hard)
        theirs = torch.nn.functional.gumbel_softmax(torch.tensor(X.tolist()), tau=0.5, hard=hard)
        np.testing.assert_allclose(mine.tolist(), theirs.tolist(), 1e-5, 1e-6)


@pytest.mark.parametrize("name", ["margin_ranking_loss", "multi_margin_loss", "ctc_loss", "pdist"])
def test_wrong_shapes_raise(name: str) -> None:
    f = getattr(weft.nn.functional, name)
    args = {
        "margin_ranking_loss": (weft.ones(2), weft.ones(2, 2), weft.ones(2)),
        "multi_margin_loss": (weft.ones(2, 3), weft.tensor([0, 3])),
        "ctc_loss": (weft.zeros(2, 1, 3), weft.tensor([[1]]), [3], [1]),
        "pdist": (weft.ones(3),),
    }[name]
    with pytest.raises(RuntimeError):
        f(*args)


@pytest.mark.parametrize("call", [
    "F.soft_margin_loss(x, t.ones(2, 3))", "F.multi_margin_loss(x, t.tensor([0, 2]))",
    "F.multilabel_margin_loss(x, t.tensor([[0, -1, 1], [2, -1, 0]]))",
    "F.ctc_loss(x.log_softmax(1)[:, None], t.tensor([[1]]), (2,), (1,), reduction='none')",
])  # fmt: skip
def test_a_loss_of_several_ops_prints_pytorchs_node(call):
    torch = pytest.importorskip("torch")
    names = []
    for t in (weft, torch):
        x = t.tensor([[0.5, -1.0, 2.0], [1.0, 0.0, -2.0]], requires_grad=True)
        loss = eval(call, {"t": t, "F": t.nn.functional, "x": x})  # noqa: S307
        names.append(loss.grad_fn.name())
        loss.sum().backward()
    assert names[0] == names[1]
