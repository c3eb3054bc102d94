"""What layers and functions refuse or warn about, as PyTorch does."""

from __future__ import annotations

import warnings

import pytest

import weft

OTHER_ERRORS = {
    "smooth_l1 beta": lambda t, f: f.smooth_l1_loss(t.zeros(1), t.zeros(1), beta=-1.0),
    "huber delta": lambda t, f: f.huber_loss(t.zeros(1), t.zeros(1), delta=0.0),
    "bce shapes": lambda t, f: f.binary_cross_entropy(t.zeros(2), t.zeros(3)),
    "bce range": lambda t, f: f.binary_cross_entropy(t.ones(2) * 2, t.zeros(2)),
    "bce dtype": lambda t, f: f.binary_cross_entropy(t.zeros(2), t.zeros(2, dtype=t.float64)),
    "bce logits shapes": lambda t, f: f.binary_cross_entropy_with_logits(t.zeros(2), t.zeros(3)),
    "bce logits reduction": lambda t, f: f.binary_cross_entropy_with_logits(
        t.zeros(2), t.zeros(2), reduction="some"
    ),
    "kl reduction": lambda t, f: f.kl_div(t.zeros(2), t.zeros(2), reduction="some"),
    "glu odd": lambda t, f: f.glu(t.zeros(2, 3)),
    "glu scalar": lambda t, f: f.glu(t.tensor(1.0)),
    "prelu matrix": lambda t, f: f.prelu(t.zeros(2, 3), t.zeros(3, 1)),
    "prelu channels": lambda t, f: f.prelu(t.zeros(2, 3), t.zeros(2)),
    "prelu scalar": lambda t, f: f.prelu(t.tensor(-1.0), t.zeros(3)),
    "prelu of scalars": lambda t, f: f.prelu(t.tensor(-1.0), t.ones(1) / 4),
    "prelu of a vector": lambda t, f: f.prelu(t.tensor([-1.0, 2.0]), t.tensor(0.5)),
    "hardtanh": lambda t, f: f.hardtanh(t.zeros(1), 2, 1),
    "softshrink": lambda t, f: f.softshrink(t.zeros(1), -1.0),
    "celu": lambda t, f: f.celu(t.zeros(1), 0.0),
    "embedding padding": lambda t, f: f.embedding(t.tensor([1]), t.zeros(3, 4), padding_idx=7),
    "embedding index": lambda t, f: f.embedding(t.tensor([3]), t.zeros(3, 4)),
    "bilinear": lambda t, f: f.bilinear(t.zeros(5, 2), t.zeros(5, 2), t.zeros(4, 2, 3)),
    "bilinear batch": lambda t, f: f.bilinear(t.zeros(5, 2), t.zeros(3), t.zeros(4, 2, 3)),
    "Dropout 2": lambda t, f: t.nn.Dropout(2.0),
    "dropout -1": lambda t, f: f.dropout(t.zeros(1), -1),
    "Embedding padding": lambda t, f: t.nn.Embedding(3, 4, padding_idx=5),
    "Embedding weight": lambda t, f: t.nn.Embedding(3, 4, _weight=t.zeros(2, 2)),
    "Embedding vector": lambda t, f: t.nn.Embedding.from_pretrained(t.zeros(2)),
    "Bilinear 0": lambda t, f: t.nn.Bilinear(0, 1, 1),
    "Hardtanh": lambda t, f: t.nn.Hardtanh(2, 1),
    "Unflatten int": lambda t, f: t.nn.Unflatten(1, 3),
    "Unflatten string": lambda t, f: t.nn.Unflatten(1, [3, "a"]),
    "Linear shapes": lambda t, f: t.nn.Linear(2, 3)(t.zeros(2, 4)),
    "LayerNorm shapes": lambda t, f: t.nn.LayerNorm(2)(t.zeros(2, 3)),
    "MSELoss reduction": lambda t, f: t.nn.MSELoss(reduction="some")(t.zeros(1), t.zeros(1)),
}
# What the extension refuses, it refuses in its own words.
THEIR_WORDS = {
    "glu odd",
    "glu scalar",
    "hardtanh",
    "embedding padding",
    "Dropout 2",
    "dropout -1",
    "Embedding padding",
    "Embedding weight",
    "Embedding vector",
    "Bilinear 0",
    "Hardtanh",
    "Unflatten int",
    "Unflatten string",
}


@pytest.mark.parametrize("name", OTHER_ERRORS)
def test_arguments(agree, name):
    agree(
        lambda t: OTHER_ERRORS[name](t, t.nn.functional),
        messages=name in THEIR_WORDS,
    )


WARNINGS = {
    "target size": lambda t, f: f.l1_loss(t.zeros(2, 3), t.zeros(3)),
    "size_average": lambda t, f: f.l1_loss(t.zeros(2), t.ones(2), size_average=False),
    "reduce": lambda t, f: f.smooth_l1_loss(t.zeros(2), t.ones(2), reduce=False),
    "MSELoss": lambda t, f: t.nn.MSELoss(size_average=False).reduction,
    "NLLLoss": lambda t, f: t.nn.NLLLoss(reduce=False).reduction,
    "softmin": lambda t, f: f.softmin(t.zeros(2, 2)),
    "Softmin": lambda t, f: t.nn.Softmin()(t.zeros(2, 3, 2)),
    "min_value": lambda t, f: t.nn.Hardtanh(min_value=-3, max_value=2),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(agree, name):
    def snippet(t):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = WARNINGS[name](t, t.nn.functional)
        assert all(w.filename == __file__ for w in caught if t is weft), [str(w) for w in caught]
        return result, [(w.category.__name__, str(w.message)) for w in caught]

    agree(snippet)
