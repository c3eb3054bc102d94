"""Layers and the functions behind them, side by side with PyTorch's: values and gradients."""

from __future__ import annotations

import copy
import math

import pytest

import weft
from weft import nn

ACTIVATIONS = {
    "ReLU": lambda n: n.ReLU(),
    "ReLU6": lambda n: n.ReLU6(),
    "LeakyReLU": lambda n: n.LeakyReLU(0.2),
    "ELU": lambda n: n.ELU(1.5),
    "SELU": lambda n: n.SELU(),
    "CELU": lambda n: n.CELU(2.0),
    "GELU": lambda n: n.GELU(),
    "GELU tanh": lambda n: n.GELU("tanh"),
    "SiLU": lambda n: n.SiLU(),
    "Mish": lambda n: n.Mish(),
    "Sigmoid": lambda n: n.Sigmoid(),
    "Tanh": lambda n: n.Tanh(),
    "Softplus": lambda n: n.Softplus(2, 10),
    "Softsign": lambda n: n.Softsign(),
    "LogSigmoid": lambda n: n.LogSigmoid(),
    "Hardtanh": lambda n: n.Hardtanh(-1.5, 1.0),
    "Hardsigmoid": lambda n: n.Hardsigmoid(),
    "Hardswish": lambda n: n.Hardswish(),
    "Threshold": lambda n: n.Threshold(0.5, -3.0),
    "Tanhshrink": lambda n: n.Tanhshrink(),
    "Softshrink": lambda n: n.Softshrink(0.7),
    "Softshrink 0": lambda n: n.Softshrink(0.0),
    "Hardshrink": lambda n: n.Hardshrink(),
    "PReLU": lambda n: n.PReLU(),
    "PReLU 4": lambda n: n.PReLU(4, 0.1),
    "GLU": lambda n: n.GLU(1),
    "Softmax": lambda n: n.Softmax(-1),
    "LogSoftmax": lambda n: n.LogSoftmax(0),
    "Softmin": lambda n: n.Softmin(1),
    "Flatten": lambda n: n.Flatten(0),
    "Unflatten": lambda n: n.Unflatten(1, (2, 2)),
    "Unflatten -1": lambda n: n.Unflatten(-1, [5, -1]),
    "Identity": lambda n: n.Identity(3, x=4),
    "LayerNorm": lambda n: n.LayerNorm(5),
    "LayerNorm 2": lambda n: n.LayerNorm([4, 5], 1e-3),
    "LayerNorm plain": lambda n: n.LayerNorm(5, elementwise_affine=False),
    "LayerNorm without bias": lambda n: n.LayerNorm((5,), bias=False),
    "Dropout 0": lambda n: n.Dropout(0.0),
    "Dropout eval": lambda n: n.Dropout(0.9).eval(),
    "Linear": lambda n: n.Linear(5, 3),
    "Linear without bias": lambda n: n.Linear(5, 3, bias=False),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_one_input(agree, name, dtype, numbers, run, fixed):
    def snippet(t):
        module = fixed(ACTIVATIONS[name](t.nn), t).to(getattr(t, dtype))
        x = numbers(t, 3, 4, 5, low=-9.0, high=9.0, dtype=getattr(t, dtype))
        return run(module, x)

    # Gradients of normalised rows nearly cancel, so that only their absolute error means something.
    rtol, atol = (2e-5, 5e-6) if dtype == "float32" else (1e-7, 1e-9)
    agree(snippet, rtol=rtol, atol=atol)


POINTWISE = [
    "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "sigmoid",
    "logsigmoid", "tanh", "softplus", "softsign", "hardtanh", "hardsigmoid", "hardswish",
    "tanhshrink", "softshrink", "hardshrink",
]  # fmt: skip
CORNERS = [-200.0, -6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 200.0]


@pytest.mark.parametrize("name", POINTWISE)
def test_corners(agree, name):
    """Kinks, where the slope is a convention, and numbers whose exponential overflows."""

    def snippet(t):
        x = t.tensor(CORNERS, requires_grad=True)
        y = getattr(t.nn.functional, name)(x)
        y.sum().backward()
        return y, x.grad

    agree(snippet)


@pytest.mark.parametrize("name", POINTWISE)
def test_nan_stays(agree, name):
    def snippet(t):
        y = getattr(t.nn.functional, name)(t.tensor([float("nan"), 1.0]))
        return y.isnan().tolist()

    agree(snippet)


MIXED = {
    "LayerNorm": lambda n: n.LayerNorm(3),
    "BatchNorm1d": lambda n: n.BatchNorm1d(3),
    "BatchNorm1d eval": lambda n: n.BatchNorm1d(3).eval(),
    "BatchNorm1d without statistics": lambda n: n.BatchNorm1d(3, track_running_stats=False),
    "GroupNorm": lambda n: n.GroupNorm(1, 3),
    "RMSNorm": lambda n: n.RMSNorm(3),
}


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("make", MIXED.values(), ids=MIXED.keys())
def test_narrow_inputs_go_with_float32_parameters(agree, make, dtype):
    """They were refused; statistics and the parameters' gradients are float32."""

    def snippet(t):
        layer = make(t.nn)
        x = t.tensor([[0.1, 0.5, 0.3], [0.9, -0.2, 0.4]]).to(getattr(t, dtype)).requires_grad_()
        y = layer(x)
        (y * t.tensor([1.0, 2.0, -1.0])).sum().backward()
        moved = [b.float() for b in layer.buffers()]
        grads = [p.grad for p in layer.parameters()]
        return str(y.dtype)[-8:], str(x.grad.dtype)[-8:], y.float(), x.grad.float(), grads, moved

    agree(snippet, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float16")])
def test_other_mixtures_are_refused(agree, dtypes):
    def snippet(t):
        x, w = (t.ones(2, 3, dtype=getattr(t, dtype)) for dtype in dtypes)
        return t.nn.functional.layer_norm(x, (3,), w[0], w[0])

    agree(snippet, messages=False)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (0, 3), (2, 0)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_weight_may_be_a_vector(agree, shape, bias):
    if bias and len(shape) == 2:
        pytest.skip("PyTorch asks for a matrix here")

    def snippet(t):
        x = t.arange(float(math.prod(shape))).reshape(shape).requires_grad_()
        w = t.arange(1.0, 1.0 + shape[-1]).requires_grad_()
        b = t.tensor(2.0, requires_grad=True) if bias else None
        y = t.nn.functional.linear(x, w, b)
        (y * y).sum().backward()
        return y, x.grad, w.grad, b.grad if bias else 0

    agree(snippet)


IN_PLACE = {
    "ReLU": lambda n: n.ReLU(True),
    "ReLU6": lambda n: n.ReLU6(True),
    "LeakyReLU": lambda n: n.LeakyReLU(0.2, True),
    "ELU": lambda n: n.ELU(1.5, True),
    "SELU": lambda n: n.SELU(True),
    "CELU": lambda n: n.CELU(2.0, True),
    "SiLU": lambda n: n.SiLU(True),
    "Mish": lambda n: n.Mish(True),
    "Hardtanh": lambda n: n.Hardtanh(inplace=True),
    "Hardsigmoid": lambda n: n.Hardsigmoid(True),
    "Hardswish": lambda n: n.Hardswish(True),
    "Threshold": lambda n: n.Threshold(0.5, -3.0, True),
    "Dropout": lambda n: n.Dropout(0.0, True),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(agree, name, numbers):
    def snippet(t):
        module = IN_PLACE[name](t.nn)
        leaf = numbers(t, 4, 5, low=-4.0, high=4.0).requires_grad_()
        x = leaf * 1
        y = module(x)
        assert y is x
        y.sum().backward()
        return y, leaf.grad, repr(module)

    agree(snippet)


def test_in_place_on_a_leaf(agree):
    agree(lambda t: t.nn.ReLU6(True)(t.ones(2, requires_grad=True)), messages=False)


# --- linear, bilinear, embedding ----------------------------------------------------------------

BILINEAR = [((2,), (3,)), ((5, 2), (5, 3)), ((5, 6, 2), (5, 6, 3)), ((0, 2), (0, 3))]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("left, right", BILINEAR)
def test_bilinear(agree, left, right, bias, numbers, run, fixed):
    def snippet(t):
        module = fixed(t.nn.Bilinear(2, 3, 4, bias=bias), t)
        return run(module, numbers(t, *left), numbers(t, *right))

    agree(snippet)


EMBEDDINGS = {
    "plain": lambda n: n.Embedding(6, 3),
    "padding": lambda n: n.Embedding(6, 3, padding_idx=2),
    "padding from the end": lambda n: n.Embedding(6, 3, padding_idx=-1),
    "max_norm": lambda n: n.Embedding(6, 3, max_norm=0.5),
    "max_norm 1": lambda n: n.Embedding(6, 3, max_norm=0.5, norm_type=1.0),
    "frequency": lambda n: n.Embedding(6, 3, scale_grad_by_freq=True),
}


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("index", [[[1, 2, 2], [5, 0, 1]], [1], [], 3])
def test_embedding(agree, name, index, run, fixed):
    def snippet(t):
        module = fixed(EMBEDDINGS[name](t.nn), t)
        index_tensor = t.tensor(index, dtype=t.int64)
        out = run(module, index_tensor)
        return out, module.weight, module.padding_idx

    agree(snippet)


def test_embedding_of_a_table(agree, numbers, run):
    def snippet(t):
        table = numbers(t, 4, 2)
        frozen = t.nn.Embedding.from_pretrained(table)
        free = t.nn.Embedding.from_pretrained(table, freeze=False, padding_idx=1)
        index = t.tensor([1, 3])
        return run(frozen, index), run(free, index), frozen, free

    agree(snippet)


# --- cells --------------------------------------------------------------------------------------

CELLS = {
    "RNN": lambda n: n.RNNCell(3, 4),
    "RNN relu": lambda n: n.RNNCell(3, 4, nonlinearity="relu"),
    "RNN without bias": lambda n: n.RNNCell(3, 4, bias=False),
    "GRU": lambda n: n.GRUCell(3, 4),
    "GRU without bias": lambda n: n.GRUCell(3, 4, bias=False),
    "LSTM": lambda n: n.LSTMCell(3, 4),
    "LSTM without bias": lambda n: n.LSTMCell(3, 4, bias=False),
}


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("name", CELLS)
def test_cell(agree, name, batch, state, numbers, run, fixed):
    def snippet(t):
        cell = fixed(CELLS[name](t.nn), t)
        x = numbers(t, *batch, 3)
        if not state:
            return run(cell, x)
        h = numbers(t, *batch, 4, low=-0.5)
        if name.startswith("LSTM"):
            out, *rest = run(Packed(cell), x, h, numbers(t, *batch, 4, low=-0.7))
            return out, rest[:2], repr(cell)
        return run(cell, x, h)

    agree(snippet)


class Packed:
    """A cell whose state comes as two arguments."""

    def __init__(self, cell):
        self.cell = cell

    def __call__(self, x, h, c):
        return self.cell(x, (h, c))

    def parameters(self):
        return self.cell.parameters()


def states(t, name, *shape):
    h = t.zeros(*shape)
    return (h, h) if name == "LSTM" else h


CELL_ERRORS = {
    "3-D input": lambda t, c, n: c(t.zeros(2, 2, 3)),
    "0-D input": lambda t, c, n: c(t.zeros(())),
    "3-D state": lambda t, c, n: c(t.zeros(2, 3), states(t, n, 2, 2, 4)),
    "input size": lambda t, c, n: c(t.zeros(2, 5)),
    "input size of one": lambda t, c, n: c(t.zeros(5)),
    "state size": lambda t, c, n: c(t.zeros(2, 3), states(t, n, 2, 5)),
    "state of one size": lambda t, c, n: c(t.zeros(3), states(t, n, 5)),
    "batches": lambda t, c, n: c(t.zeros(2, 3), states(t, n, 3, 4)),
    "batch of states for one": lambda t, c, n: c(t.zeros(3), states(t, n, 2, 4)),
}


@pytest.mark.parametrize("error", CELL_ERRORS)
@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_cell_errors(agree, name, error):
    def snippet(t):
        return CELL_ERRORS[error](t, getattr(t.nn, name + "Cell")(3, 4), name)

    agree(snippet, messages="D" in error)


def test_unknown_nonlinearity(agree):
    agree(lambda t: t.nn.RNNCell(3, 4, nonlinearity="sine")(t.zeros(3)))


# --- starting values and settings ---------------------------------------------------------------

MAKERS = {
    "Linear": lambda n: n.Linear(7, 5),
    "Bilinear": lambda n: n.Bilinear(3, 4, 5),
    "Embedding": lambda n: n.Embedding(7, 5),
    "Embedding padding": lambda n: n.Embedding(7, 5, padding_idx=3),
    "LayerNorm": lambda n: n.LayerNorm([2, 3]),
    "PReLU": lambda n: n.PReLU(3, 0.1),
    "RNNCell": lambda n: n.RNNCell(5, 6),
    "GRUCell": lambda n: n.GRUCell(5, 6),
    "LSTMCell": lambda n: n.LSTMCell(5, 6, bias=False),
}


@pytest.mark.parametrize("name", MAKERS)
def test_starting_values_follow_the_seed(agree, name):
    def snippet(t):
        module = MAKERS[name](t.nn)
        before = module.state_dict(keep_vars=True)
        twin = copy.deepcopy(module)
        twin.reset_parameters()
        return before, twin.state_dict(), repr(module)

    agree(snippet)


def test_dtype_of_parameters(agree):
    def snippet(t):
        kinds = [
            t.nn.Linear(2, 3, dtype=t.float64),
            t.nn.Bilinear(2, 3, 4, dtype=t.float64),
            t.nn.Embedding(2, 3, dtype=t.float64),
            t.nn.LayerNorm(3, dtype=t.float64),
            t.nn.PReLU(dtype=t.float64),
            t.nn.GRUCell(2, 3, dtype=t.float64),
            t.nn.Linear(2, 3, device="cpu"),
        ]
        return [m.state_dict(keep_vars=True) for m in kinds]

    agree(snippet)


PLAIN = {
    "Linear": lambda n: n.Linear(1, 2, False),
    "Embedding": lambda n: n.Embedding(3, 4, 1, 2.0, 1.0, True),
    "Dropout": lambda n: n.Dropout(0.1, True),
    "LayerNorm": lambda n: n.LayerNorm((3, 4), 1e-3, False),
    "ReLU6": lambda n: n.ReLU6(),
    "Softplus": lambda n: n.Softplus(),
    "Threshold": lambda n: n.Threshold(1, 2),
    "PReLU": lambda n: n.PReLU(),
    "RNNCell": lambda n: n.RNNCell(1, 2, False, "relu"),
    "GRUCell": lambda n: n.GRUCell(1, 2),
    "CrossEntropyLoss": lambda n: n.CrossEntropyLoss(),
    "HuberLoss": lambda n: n.HuberLoss(),
    "SmoothL1Loss": lambda n: n.SmoothL1Loss(),
    "KLDivLoss": lambda n: n.KLDivLoss(),
    "Unflatten": lambda n: n.Unflatten(1, (2, 3)),
}


@pytest.mark.parametrize("name", PLAIN)
def test_settings_are_attributes(agree, name):
    def snippet(t):
        module = PLAIN[name](t.nn)
        settings = {k: v for k, v in module.__dict__.items() if not k.startswith("_")}
        return sorted(settings.items()), repr(module)

    agree(snippet)


def test_dropout_draws_as_torch_does(agree):
    def snippet(t):
        x = t.ones(4, 5, requires_grad=True)
        y = t.nn.Dropout(0.3)(x)
        y.sum().backward()
        return y, x.grad

    agree(snippet)


def test_mlp_trains_as_torch_does(agree):
    def snippet(t):
        net = t.nn.Sequential(t.nn.Linear(4, 16), t.nn.Tanh(), t.nn.Linear(16, 3))
        x, target = t.randn(32, 4), t.randint(0, 3, (32,))
        opt = t.optim.Adam(net.parameters(), lr=1e-2)
        losses = []
        for _ in range(20):
            opt.zero_grad()
            loss = t.nn.CrossEntropyLoss()(net(x), target)
            loss.backward()
            t.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            opt.step()
            losses.append(loss.item())
        return losses, net.state_dict()

    agree(snippet, rtol=1e-4, atol=1e-5)


def test_the_public_list_is_all_there():
    for package in (nn, nn.functional, nn.utils, weft.optim):
        missing = [name for name in package.__all__ if not hasattr(package, name)]
        assert not missing and len(set(package.__all__)) == len(package.__all__)
