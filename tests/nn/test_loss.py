"""Losses, side by side with PyTorch's: values and gradients."""

from __future__ import annotations

import warnings

import pytest

import weft

LOSSES = {
    "MSE": lambda n, r: n.MSELoss(reduction=r),
    "L1": lambda n, r: n.L1Loss(reduction=r),
    "SmoothL1": lambda n, r: n.SmoothL1Loss(reduction=r),
    "SmoothL1 beta": lambda n, r: n.SmoothL1Loss(reduction=r, beta=0.3),
    "SmoothL1 0": lambda n, r: n.SmoothL1Loss(reduction=r, beta=0.0),
    "Huber": lambda n, r: n.HuberLoss(reduction=r),
    "Huber delta": lambda n, r: n.HuberLoss(r, 0.3),
    "BCEWithLogits": lambda n, r: n.BCEWithLogitsLoss(reduction=r),
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_of_equal_shapes(agree, name, reduction, numbers, run):
    def snippet(t):
        x = numbers(t, 3, 5, low=-30.0, high=30.0)
        y = numbers(t, 3, 5, low=0.0, high=1.0)
        y = t.cat([y[:2], x[2:]]) if "BCE" not in name else y  # some differences are 0
        return run(LOSSES[name](t.nn, reduction), x, y.detach())

    agree(snippet)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss"])
@pytest.mark.parametrize("shapes", [((), (2,)), ((2,), ()), ((), ())])
@pytest.mark.parametrize("wide", [0, 1])
def test_both_operands_count_for_the_dtype(torch, name, shapes, wide):
    """One of no dims and a wider dtype gave way, as in arithmetic."""

    def dtype(t):
        dtypes = [t.float32, t.float64][:: 1 - 2 * wide]
        x, y = (t.ones(shape, dtype=d) for shape, d in zip(shapes, dtypes))
        return str(getattr(t.nn.functional, name)(x, y, reduction="none").dtype).split(".")[-1]

    assert dtype(weft) == dtype(torch) == "float64"


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_bce(agree, reduction, weighted, numbers, run):
    def snippet(t):
        w = numbers(t, 5, low=0.5, high=1.5) if weighted else None
        x = numbers(t, 3, 5, low=0.01, high=0.99)
        y = numbers(t, 5, 3, low=0.0, high=1.0).reshape(3, 5)
        return run(t.nn.BCELoss(weight=w, reduction=reduction), x, y)

    agree(snippet, rtol=1e-4)


def test_bce_at_certainty(agree):
    def snippet(t):
        x = t.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
        loss = t.nn.BCELoss(reduction="none")(x, t.tensor([1.0, 0.0, 0.0, 1.0]))
        loss[:2].sum().backward()
        return loss, x.grad

    agree(snippet)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_bce_with_logits_weights(agree, reduction, numbers, run):
    def snippet(t):
        loss = t.nn.BCEWithLogitsLoss(
            numbers(t, 5, low=0.5, high=1.5), None, None, reduction, numbers(t, 5, low=1, high=3)
        )
        x = t.cat([numbers(t, 2, 5, low=-60.0, high=60.0), t.zeros(1, 5)])
        return run(loss, x, numbers(t, 3, 5, low=0.0, high=1.0)), list(loss.state_dict())

    agree(snippet)


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum", "batchmean"])
def test_kl_div(agree, reduction, log_target, numbers, run):
    def snippet(t):
        x = t.log_softmax(numbers(t, 3, 5), 1)
        y = t.softmax(numbers(t, 5, 3).reshape(3, 5), 1)
        y = y.log() if log_target else t.cat([y[:2], t.tensor([[1.0, 0, 0, 0, 0]])])
        return run(t.nn.KLDivLoss(reduction=reduction, log_target=log_target), x, y)

    def value_only(t):
        return snippet(t)[0]

    # The slope of x log(x) at 0 is minus infinity; ours is 0 there.
    agree(snippet if log_target else value_only)


CLASS_LOSSES = {
    "CrossEntropy": lambda n, r, w: n.CrossEntropyLoss(weight=w, reduction=r),
    "CrossEntropy smooth": lambda n, r, w: n.CrossEntropyLoss(w, reduction=r, label_smoothing=0.1),
    "CrossEntropy ignore": lambda n, r, w: n.CrossEntropyLoss(w, reduction=r, ignore_index=1),
    "NLL": lambda n, r, w: n.NLLLoss(weight=w, reduction=r),
    "NLL ignore": lambda n, r, w: n.NLLLoss(w, ignore_index=1, reduction=r),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", CLASS_LOSSES)
def test_loss_of_classes(agree, name, reduction, weighted, numbers, run):
    def snippet(t):
        weight = numbers(t, 5, low=0.5, high=2.0) if weighted else None
        module = CLASS_LOSSES[name](t.nn, reduction, weight)
        return run(module, numbers(t, 4, 5), t.tensor([0, 1, 4, 1]))

    agree(snippet)


FUNCTIONS = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]
LOSS_ERRORS = {
    "reduction": lambda t, f: f(t.zeros(2), t.zeros(2), reduction="some"),
    "shapes": lambda t, f: f(t.zeros(2, 3), t.zeros(2)),
    "broadcast": lambda t, f: f(t.zeros(2, 3), t.ones(3)),
    "weight": lambda t, f: f(t.zeros(2), t.ones(2) * 3, weight=t.tensor([1.0, 3.0])),
    "weight sum": lambda t, f: f(t.zeros(2), t.ones(2), weight=t.ones(2), reduction="sum"),
    "weight none": lambda t, f: f(t.zeros(2), t.ones(2), weight=t.ones(2), reduction="none"),
    "weight size": lambda t, f: f(t.zeros(2), t.ones(2), weight=t.ones(3)),
}


LOSS_ARGUMENTS = [
    (name, error)
    for name in FUNCTIONS
    for error in LOSS_ERRORS
    if name != "smooth_l1_loss" or not error.startswith("weight")  # it has none
]


@pytest.mark.parametrize("name, error", LOSS_ARGUMENTS)
def test_loss_arguments(agree, name, error):
    agree(
        lambda t: LOSS_ERRORS[error](t, getattr(t.nn.functional, name)),
        messages=False,
    )


OLD_REDUCTION = {
    "mse_loss": "xx", "l1_loss": "xx", "smooth_l1_loss": "xx", "huber_loss": "xx",
    "cross_entropy": "xc", "nll_loss": "xc", "binary_cross_entropy": "xx",
    "binary_cross_entropy_with_logits": "xx", "kl_div": "xx", "poisson_nll_loss": "xx",
    "gaussian_nll_loss": "xxx", "hinge_embedding_loss": "xx", "cosine_embedding_loss": "xxs",
    "margin_ranking_loss": "sss", "multilabel_margin_loss": "xC", "soft_margin_loss": "xx",
    "multilabel_soft_margin_loss": "xx", "multi_margin_loss": "xc", "triplet_margin_loss": "xxx",
    "triplet_margin_with_distance_loss": "xxx", "ctc_loss": "lCnn", "linear_cross_entropy": "xxc",
}  # fmt: skip


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("name", OLD_REDUCTION)
def test_reduction_elementwise_mean(torch, name):
    """It raised; programs of PyTorch 0.4 say it, and PyTorch takes the mean, with a warning. Four
    losses refuse it, in PyTorch too."""

    def told(t):
        pool = {
            "x": t.tensor([[0.1, 0.5], [0.3, 0.9]]), "c": t.tensor([0, 1]), "n": t.tensor([2, 2]),
            "C": t.tensor([[0, 1], [1, 0]]), "s": t.tensor([1.0, -1.0]),
            "l": t.log_softmax(t.arange(12.0).reshape(2, 2, 3), -1),
        }  # fmt: skip
        args = [pool[letter].clone() for letter in OLD_REDUCTION[name]]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                got = getattr(t.nn.functional, name)(*args, reduction="elementwise_mean").item()
            except ValueError:
                got = None
        return got, [str(w.message) for w in caught if "elementwise_mean" in str(w.message)]

    ours, theirs = told(weft), told(torch)
    assert (ours[0] is None) == (theirs[0] is None) and ours[1] == theirs[1]
    assert ours[0] is None or ours[0] == pytest.approx(theirs[0], rel=1e-5)
    assert (theirs[0] is None) == (not theirs[1])
