"""`weft.nn.init`: PyTorch's numbers for PyTorch's seeds."""

from __future__ import annotations

import math
import warnings

import pytest

import weft
from weft.nn import init

SHAPES = [(3, 5), (40, 20), (4, 3, 3), (8, 2, 3, 3)]

FILLS = {
    "uniform": lambda t, w: t.nn.init.uniform_(w, -2.0, 3.0),
    "uniform defaults": lambda t, w: t.nn.init.uniform_(w),
    "normal": lambda t, w: t.nn.init.normal_(w, 1.0, 0.5),
    "normal defaults": lambda t, w: t.nn.init.normal_(w),
    "constant": lambda t, w: t.nn.init.constant_(w, 0.3),
    "ones": lambda t, w: t.nn.init.ones_(w),
    "zeros": lambda t, w: t.nn.init.zeros_(w),
    "xavier_uniform": lambda t, w: t.nn.init.xavier_uniform_(w, gain=2.0),
    "xavier_normal": lambda t, w: t.nn.init.xavier_normal_(w),
    "kaiming_uniform": lambda t, w: t.nn.init.kaiming_uniform_(w, a=math.sqrt(5)),
    "kaiming_uniform fan_out": lambda t, w: t.nn.init.kaiming_uniform_(
        w, mode="FAN_OUT", nonlinearity="relu"
    ),
    "kaiming_normal": lambda t, w: t.nn.init.kaiming_normal_(w, 0.1, "fan_out"),
    "kaiming_normal tanh": lambda t, w: t.nn.init.kaiming_normal_(w, nonlinearity="tanh"),
    "orthogonal": lambda t, w: t.nn.init.orthogonal_(w),
    "orthogonal gain": lambda t, w: t.nn.init.orthogonal_(w, gain=2.0),
    "trunc_normal": lambda t, w: t.nn.init.trunc_normal_(w),
    "trunc_normal std": lambda t, w: t.nn.init.trunc_normal_(w, std=0.02),
    "trunc_normal narrow": lambda t, w: t.nn.init.trunc_normal_(w, 0.0, 1.0, -0.2, 0.1),
    "trunc_normal far": lambda t, w: t.nn.init.trunc_normal_(w, 10.0, 1.0, -2.0, 2.0),
    "eye": lambda t, w: t.nn.init.eye_(w),
    "sparse": lambda t, w: t.nn.init.sparse_(w, 0.4, 0.1),
    "dirac": lambda t, w: t.nn.init.dirac_(w),
    "dirac groups": lambda t, w: t.nn.init.dirac_(w, 2),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FILLS)
def test_fill(agree, name, shape, dtype):
    def snippet(t):
        w = t.full(shape, 7.0, dtype=getattr(t, dtype))
        result = FILLS[name](t, w)
        assert result is w
        return w, t.rand(3)  # as many random numbers were drawn

    agree(snippet)


@pytest.mark.parametrize("name", ["normal", "uniform", "orthogonal", "trunc_normal", "sparse"])
def test_fills_parameters_without_recording(name):
    w = weft.nn.Parameter(weft.zeros(4, 5))
    FILLS[name](weft, w)
    assert w.is_leaf and w.requires_grad and w.grad_fn is None
    assert float(w.detach().abs().sum()) > 0


NAMES = [
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu", "swish",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_calculate_gain(agree, name):
    agree(lambda t: t.nn.init.calculate_gain(name))


@pytest.mark.parametrize("slope", [0.2, 1, "a", True, None])
def test_gain_of_a_slope(agree, slope):
    agree(lambda t: t.nn.init.calculate_gain("leaky_relu", slope))


REFUSALS = {
    "xavier of a vector": lambda t: t.nn.init.xavier_uniform_(t.zeros(2)),
    "kaiming of a vector": lambda t: t.nn.init.kaiming_normal_(t.zeros(2)),
    "kaiming mode": lambda t: t.nn.init.kaiming_uniform_(t.zeros(2, 2), mode="both"),
    "kaiming empty": lambda t: t.nn.init.kaiming_uniform_(t.zeros(0, 2)),
    "orthogonal of a vector": lambda t: t.nn.init.orthogonal_(t.zeros(2)),
    "orthogonal empty": lambda t: t.nn.init.orthogonal_(t.zeros(0, 2)),
    "sparse of a vector": lambda t: t.nn.init.sparse_(t.zeros(2), 0.1),
    "eye of a vector": lambda t: t.nn.init.eye_(t.zeros(2)),
    "dirac of a matrix": lambda t: t.nn.init.dirac_(t.zeros(2, 2)),
    "dirac groups": lambda t: t.nn.init.dirac_(t.zeros(3, 2, 3), 2),
    "fans": lambda t: t.nn.init._calculate_fan_in_and_fan_out(t.zeros(2, 3, 4, 5)),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(agree, name):
    agree(REFUSALS[name])


WARNINGS = {
    "kaiming empty": lambda t: t.nn.init.kaiming_normal_(t.zeros(0, 2)),
    "trunc_normal far": lambda t: t.nn.init.trunc_normal_(t.zeros(2), 10.0),
    "normal": lambda t: t.nn.init.normal(t.zeros(2)),
    "xavier_uniform": lambda t: t.nn.init.xavier_uniform(t.zeros(2, 2)),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(agree, name):
    def snippet(t):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            WARNINGS[name](t)
        return [(w.category.__name__, str(w.message)) for w in caught]

    agree(snippet)


def test_orthogonal_is_orthogonal():
    for rows, cols in ((5, 3), (3, 5), (4, 4)):
        w = init.orthogonal_(weft.empty(rows, cols, dtype=weft.float64))
        small = w @ w.t() if rows <= cols else w.t() @ w
        assert weft.allclose(small, weft.eye(min(rows, cols), dtype=weft.float64), atol=1e-12)


def test_truncation_holds():
    w = init.trunc_normal_(weft.empty(10_000), mean=0.5, std=2.0, a=-1.0, b=2.0)
    assert float(w.min()) >= -1.0 and float(w.max()) <= 2.0
    w = init.trunc_normal_(weft.empty(10_000), mean=0.0, std=1.0, a=1.5, b=1.75)
    assert float(w.min()) >= 1.5 and float(w.max()) <= 1.75
