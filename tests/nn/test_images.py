"""Layers over images beside PyTorch's: starting values, results, gradients, printing, state."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft
from weft.nn import functional as F

X1, X2, X3 = (2, 4, 9), (2, 4, 9, 8), (2, 4, 5, 6, 4)

LAYERS = {
    "conv1": (X1, "Conv1d(4, 6, 3)"),
    "conv1 alone": (X1[1:], "Conv1d(4, 6, 3, padding='same', bias=False)"),
    "conv2": (X2, "Conv2d(4, 6, (3, 2), stride=(2, 1), padding=1)"),
    "conv2 groups": (X2, "Conv2d(4, 6, 3, groups=2, dilation=2)"),
    "conv2 depthwise": (X2, "Conv2d(4, 8, 3, 2, 1, groups=4)"),
    "conv2 1x1": (X2, "Conv2d(4, 5, 1)"),
    "conv2 valid": (X2, "Conv2d(4, 5, 3, padding='valid')"),
    "conv2 same": (X2, "Conv2d(4, 5, (2, 3), padding='same', dilation=(1, 2))"),
    "conv2 circular": (X2, "Conv2d(4, 5, 3, padding=(1, 2), padding_mode='circular')"),
    "conv2 reflect": (X2, "Conv2d(4, 5, 3, padding='same', padding_mode='reflect')"),
    "conv2 replicate": (X2, "Conv2d(4, 5, 3, 2, 2, padding_mode='replicate')"),
    "conv3": (X3, "Conv3d(4, 3, 2, padding=1)"),
    "conv2 in pieces": ((1, 16, 70, 66), "Conv2d(16, 4, 3, padding=1)"),
    "conv2 beyond the edge": ((1, 2, 4, 3), "Conv2d(2, 3, (5, 5), padding=4, dilation=2)"),
    "conv3 in pieces": ((1, 8, 9, 40, 30), "Conv3d(8, 3, 3, padding=1)"),
    "transpose1": (X1, "ConvTranspose1d(4, 6, 3, stride=2, output_padding=1)"),
    "transpose2": (X2, "ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2, dilation=2)"),
    "transpose3": (X3, "ConvTranspose3d(4, 2, 2, bias=False)"),
    "lazy conv": (X2, "LazyConv2d(5, 3)"),
    "lazy transpose": (X1, "LazyConvTranspose1d(5, 3)"),
    "lazy linear": (X1, "LazyLinear(5)"),
    "lazy batch norm": (X2, "LazyBatchNorm2d()"),
    "lazy instance norm": (X1, "LazyInstanceNorm1d(affine=True)"),
    "batch norm 1": (X1, "BatchNorm1d(4)"),
    "batch norm rows": ((8, 5), "BatchNorm1d(5, eps=0.1, affine=False)"),
    "batch norm wide": ((8, 70), "BatchNorm1d(70)"),
    "batch norm 2": (X2, "BatchNorm2d(4, momentum=None)"),
    "batch norm 3": (X3, "BatchNorm3d(4, track_running_stats=False)"),
    "batch norm eval": (X2, "BatchNorm2d(4).eval()"),
    "instance norm": (X2, "InstanceNorm2d(4)"),
    "instance norm running": (X1, "InstanceNorm1d(4, affine=True, track_running_stats=True)"),
    "instance norm alone": (X3[1:], "InstanceNorm3d(4)"),
    "group norm": (X2, "GroupNorm(2, 4)"),
    "group norm plain": (X2, "GroupNorm(4, 4, affine=False)"),
    "rms norm": (X1, "RMSNorm(9)"),
    "rms norm 2": (X2, "RMSNorm([9, 8], eps=0.1, elementwise_affine=False)"),
    "local response": (X2, "LocalResponseNorm(3, alpha=0.5)"),
    "max 1": (X1, "MaxPool1d(2)"),
    "max 2": (X2, "MaxPool2d(2)"),
    "max 2 uneven": ((2, 3, 7, 9), "MaxPool2d(2)"),
    "max 2 ceil": (X2, "MaxPool2d(3, 2, 1, ceil_mode=True)"),
    "max 2 alone": (X2[1:], "MaxPool2d((3, 2), dilation=2)"),
    "max 3": (X3, "MaxPool3d(2, return_indices=True)"),
    "avg 1": (X1, "AvgPool1d(3, 2, 1)"),
    "avg 2": (X2, "AvgPool2d(3, 2, 1, True, False)"),
    "avg 3": (X3, "AvgPool3d(2, divisor_override=3)"),
    "lp 1": (X1, "LPPool1d(2, 3)"),
    "lp 2": (X2, "LPPool2d(2.0, 3, stride=2)"),
    "adaptive avg 1": (X1, "AdaptiveAvgPool1d(4)"),
    "adaptive avg 2": (X2, "AdaptiveAvgPool2d((None, 3))"),
    "adaptive avg 2 one": (X2, "AdaptiveAvgPool2d(1)"),
    "adaptive avg 3": (X3, "AdaptiveAvgPool3d((2, 4, 3))"),
    "adaptive max 1": (X1, "AdaptiveMaxPool1d(4)"),
    "adaptive max 2": (X2, "AdaptiveMaxPool2d((5, None), return_indices=True)"),
    "adaptive max 3": (X3, "AdaptiveMaxPool3d(3)"),
    "constant pad": (X1, "ConstantPad1d((1, 2), 3.5)"),
    "constant pad 2": (X2, "ConstantPad2d(2, -1)"),
    "constant pad 3": (X3, "ConstantPad3d(1, 0.5)"),
    "zero pad 1": (X1, "ZeroPad1d(2)"),
    "zero pad": (X2, "ZeroPad2d((1, -1, 2, 0))"),
    "zero pad 3": (X3, "ZeroPad3d(1)"),
    "reflection 1": (X1, "ReflectionPad1d(3)"),
    "reflection 2": (X2, "ReflectionPad2d((1, 2, 3, 4))"),
    "reflection 3": (X3, "ReflectionPad3d(1)"),
    "replication 1": (X1, "ReplicationPad1d((3, 0))"),
    "replication 2": (X2, "ReplicationPad2d(12)"),
    "replication 3": (X3, "ReplicationPad3d(2)"),
    "circular 1": (X1, "CircularPad1d(4)"),
    "circular 2": (X2, "CircularPad2d((1, 2, 3, 0))"),
    "circular 3": (X3, "CircularPad3d(1)"),
    "nearest": (X2, "Upsample(scale_factor=2)"),
    "nearest exact": (X1, "Upsample(scale_factor=1.7, mode='nearest-exact')"),
    "linear": (X1, "Upsample(13, mode='linear')"),
    "bilinear": (X2, "Upsample(scale_factor=(1.5, 0.6), mode='bilinear')"),
    "bicubic": (X2, "Upsample((5, 17), mode='bicubic', align_corners=True)"),
    "trilinear": (X3, "Upsample(scale_factor=1.3, mode='trilinear')"),
    "upsampling nearest": (X2, "UpsamplingNearest2d(size=(4, 11))"),
    "upsampling bilinear": (X2, "UpsamplingBilinear2d(scale_factor=2)"),
    "unfold": (X2, "Unfold((2, 3), dilation=2, padding=1, stride=2)"),
    "fold": ((2, 12, 20), "Fold((5, 6), 2)"),
    "pixel shuffle": (X2, "PixelShuffle(2)"),
    "pixel unshuffle": ((2, 3, 6, 4), "PixelUnshuffle(2)"),
    "channel shuffle": (X2, "ChannelShuffle(2)"),
    "dropout 1": (X1, "Dropout1d(0.3)"),
    "dropout 2": (X2, "Dropout2d()"),
    "dropout 3": (X3, "Dropout3d(0.7)"),
    "alpha dropout": (X2, "AlphaDropout(0.4)"),
    "feature alpha dropout": (X2, "FeatureAlphaDropout(0.4)"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layer(agree, numbers, run, name):
    """Two calls from the same seed, with its own starting values, and the state after them."""
    shape, text = LAYERS[name]

    def snippet(t):
        layer = eval("nn." + text, {"nn": t.nn})
        before = repr(layer)
        first = run(layer, numbers(t, *shape))
        second = run(layer, numbers(t, *shape, low=-1.0, high=3.0))
        return before, first, second, dict(layer.state_dict()), repr(layer)

    agree(snippet, rtol=1e-4, atol=1e-4)


WRONG = {
    "conv groups": "nn.Conv2d(3, 4, 3, groups=2)",
    "conv no groups": "nn.Conv2d(3, 4, 3, groups=0)",
    "conv padding": "nn.Conv2d(3, 4, 3, padding='some')",
    "conv same strided": "nn.Conv2d(3, 4, 3, 2, padding='same')",
    "conv mode": "nn.Conv2d(3, 4, 3, padding_mode='mirror')",
    "transpose mode": "nn.ConvTranspose2d(3, 4, 3, padding_mode='reflect')",
    "conv channels": "nn.Conv2d(3, 4, 3)(zeros(1, 2, 5, 5))",
    "conv dims": "nn.Conv2d(3, 4, 3)(zeros(3, 5))",
    "conv small": "nn.Conv2d(3, 4, 7)(zeros(1, 3, 5, 5))",
    "conv dtype": "nn.Conv2d(3, 4, 3)(zeros(1, 3, 5, 5).double())",
    "transpose size": "nn.ConvTranspose2d(3, 4, 3)(zeros(1, 3, 5, 5), output_size=(20, 20))",
    "pool padding": "nn.MaxPool2d(2, padding=2)(zeros(1, 3, 5, 5))",
    "pool small": "nn.MaxPool2d(7)(zeros(1, 3, 5, 5))",
    "pool dims": "nn.MaxPool2d(2)(zeros(5, 5))",
    "pool divisor": "nn.AvgPool2d(2, divisor_override=0)(zeros(1, 1, 5, 5))",
    "pool ints": "nn.MaxPool2d(2)(zeros(1, 3, 4, 4).long().bool())",
    "unpool index": "nn.MaxUnpool1d(2)(zeros(1, 1, 2), zeros(1, 1, 2).long() + 9)",
    "unpool size": "nn.MaxUnpool1d(2)(zeros(1, 1, 2), zeros(1, 1, 2).long(), output_size=(9,))",
    "batch norm dims": "nn.BatchNorm2d(3)(zeros(2, 3))",
    "batch norm one": "nn.BatchNorm1d(3)(zeros(1, 3))",
    "batch norm channels": "nn.BatchNorm1d(3)(zeros(4, 2))",
    "instance norm one": "nn.InstanceNorm1d(3)(zeros(2, 3, 1))",
    "group norm": "nn.GroupNorm(3, 4)",
    "group norm channels": "nn.GroupNorm(2, 4)(zeros(2, 6, 3))",
    "reflect wide": "nn.ReflectionPad1d(4)(zeros(1, 2, 4))",
    "circular wide": "nn.CircularPad1d(5)(zeros(1, 2, 4))",
    "pad negative": "nn.ZeroPad1d(-3)(zeros(1, 2, 4))",
    "pad value": "nn.functional.pad(zeros(1, 2, 4), (1, 1), 'reflect', 2.0)",
    "pad mode": "nn.functional.pad(zeros(1, 2, 4), (1, 1), 'some')",
    "resize both": "nn.functional.interpolate(zeros(1, 1, 4), 3, 2)",
    "resize neither": "nn.functional.interpolate(zeros(1, 1, 4))",
    "resize align": "nn.functional.interpolate(zeros(1, 1, 4), 3, align_corners=True)",
    "resize mode": "nn.functional.interpolate(zeros(1, 1, 4), 3, mode='bilinear')",
    "resize empty": "nn.functional.interpolate(zeros(1, 1, 4, 4), 0)",
    "fold places": "nn.Fold((4, 5), 2)(zeros(1, 12, 11))",
    "fold channels": "nn.Fold((4, 5), 2)(zeros(1, 11, 12))",
    "shuffle": "nn.PixelShuffle(2)(zeros(1, 6, 2, 2))",
    "channel shuffle": "nn.ChannelShuffle(4)(zeros(1, 6, 2, 2))",
    "dropout": "nn.Dropout2d(1.5)",
    "grid mode": "nn.functional.grid_sample(zeros(1, 1, 2, 2), zeros(1, 1, 1, 2), mode='some')",
    "grid size": "nn.functional.grid_sample(zeros(1, 1, 2, 2), zeros(1, 1, 1, 3))",
    "affine": "nn.functional.affine_grid(zeros(1, 2, 2), (1, 1, 2, 2))",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use(agree, name):
    agree(lambda t: eval(WRONG[name], {"nn": t.nn, "zeros": t.zeros}), messages=False)


def test_circular_pads_that_leave_nothing():
    """PyTorch gives whatever was in memory."""
    with pytest.raises(RuntimeError, match="leave something of the input"):
        weft.nn.CircularPad1d((-4, 3))(weft.zeros(1, 2, 4))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling(agree, numbers, dims):
    def snippet(t):
        x = numbers(t, 2, 3, *[7, 6, 4][:dims]).requires_grad_()
        pool = getattr(t.nn, f"MaxPool{dims}d")(2, return_indices=True)
        unpool = getattr(t.nn, f"MaxUnpool{dims}d")(2)
        y, at = pool(x)
        back = unpool(y, at, output_size=x.shape)
        (back * back).sum().backward()
        return back, x.grad, repr(unpool), unpool(y.detach(), at)

    agree(snippet)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("dims", "mode"), [
    (2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest"),
])  # fmt: skip
def test_sampling_through_an_affine_map(agree, numbers, dims, mode, padding, align):
    def snippet(t):
        x = numbers(t, 2, 3, *[5, 6, 4][:dims], dtype=t.float64).requires_grad_()
        theta = numbers(t, 2, dims, dims + 1, low=-0.9, high=1.3, dtype=t.float64).requires_grad_()
        grid = t.nn.functional.affine_grid(theta, (2, 3, *[4, 3, 5][:dims]), align)
        y = t.nn.functional.grid_sample(x, grid, mode, padding, align)
        (y * y).sum().backward()
        return grid, y, x.grad, 0 if mode == "nearest" else theta.grad

    agree(snippet, rtol=1e-7, atol=1e-9)


SIZES = [(2, 3, 5, 6, 4), (1, 1, 1, 7, 2), (2, 5, 9, 1, 1)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("dims", "mode"), [
    (2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest"),
])  # fmt: skip
def test_sampling_far_outside_and_in_blocks(agree, numbers, dims, mode, padding, dtype):
    """Up to 200 places, some of them several images away, over images of one pixel too."""

    def snippet(t):
        results = []
        for n, c, *sizes in SIZES:
            for places in ((1, 1, 3), (20, 10, 1)):
                x = numbers(t, n, c, *sizes[:dims], dtype=getattr(t, dtype)).requires_grad_()
                grid = numbers(t, n, *places[:dims], dims, low=-4, high=4, dtype=x.dtype)
                grid.requires_grad_()
                for align in (False, True):
                    y = t.nn.functional.grid_sample(x, grid, mode, padding, align)
                    results += [y, *t.autograd.grad(y, [x, grid], t.sin(y.detach()))]
        return results

    agree(snippet, rtol=1e-3 if dtype == "float32" else 1e-8, atol=1e-4)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_places_that_are_no_numbers_and_pixels_that_are_none(agree, mode, padding):
    """What lies outside counts as 0, whatever the pixel is that stands for it."""

    def snippet(t):
        nan, inf = float("nan"), float("inf")
        x = t.tensor([nan, 2, 3, 4, inf, 6, 7, 8, 9]).view(1, 1, 3, 3)
        grid = t.tensor([nan, 0, 0, nan, 1e30, 0, inf, 0.1, -inf, 0.1, 3, 3, 1, 1, 0.9, 0.2])
        return t.nn.functional.grid_sample(x, grid.view(1, 1, -1, 2), mode, padding, False)

    agree(snippet)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("dims", "mode"), [(2, "bilinear"), (2, "bicubic"), (3, "bilinear")])
def test_derivatives_of_sampling_to_the_third_order(dims, mode, padding):
    """PyTorch has the first one only."""
    weft.manual_seed(0)
    x = weft.randn(2, 2, 4, 3, 5, dtype=weft.float64)[(..., *[0] * (3 - dims))].requires_grad_()
    grid = weft.rand(2, *[2, 3, 1][:dims], dims, dtype=weft.float64) * 2.6 - 1.3
    grid.requires_grad_()

    def sample(x, grid):
        return F.grid_sample(x, grid, mode, padding, False)

    def slopes(x, grid):
        return weft.autograd.grad(sample(x, grid).sin().sum(), [x, grid], create_graph=True)

    assert weft.autograd.gradcheck(sample, (x, grid))
    assert weft.autograd.gradgradcheck(sample, (x, grid))
    assert weft.autograd.gradgradcheck(slopes, (x, grid))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
def test_the_affine_grid_of_the_identity_is_pytorchs_to_the_bit(agree, dims, align, dtype):
    # An ulp decides which cell grid_sample picks.
    def snippet(t):
        theta = t.eye(dims, dims + 1, dtype=getattr(t, dtype))[None]
        sizes = [2, 3, 5, 7, 16, 17, 28, 31, 33, *([64, 100, 224] if dims == 2 else [])]
        shapes = [(1, 1, *(n + k for k in range(dims))) for n in sizes]
        return [t.nn.functional.affine_grid(theta, shape, align) for shape in shapes]

    agree(snippet, rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 4), (20, 5)])
def test_antialiasing(agree, numbers, mode, size):
    def snippet(t):
        x = numbers(t, 2, 3, 11, 9).requires_grad_()
        y = t.nn.functional.interpolate(x, size, mode=mode, antialias=True)
        (y * y).sum().backward()
        return y, x.grad

    agree(snippet, rtol=1e-4, atol=1e-4)


#: What is asked of `interpolate` for bytes: enough channels and sizes for each way of PyTorch's.
OF_BYTES = [
    dict(size=size, mode=mode, antialias=antialias)
    for mode in ("bilinear", "bicubic")
    for antialias in (False, True)
    for size in ((5, 6), (37, 12), (9, 30), (40, 70), (1, 1), (23, 19))
] + [
    dict(size=(30, 9), mode="bilinear", align_corners=True),
    dict(size=(9, 30), mode="bicubic", align_corners=True),
    dict(scale_factor=1.3, mode="bilinear"),
    dict(scale_factor=(0.37, 2), mode="bicubic", antialias=True),
    dict(size=(30, 9), mode="nearest"),
    dict(size=(9, 30), mode="nearest-exact"),
]


@pytest.mark.parametrize("asked", OF_BYTES, ids=str)
def test_bytes_are_resized_in_integers(agree, asked):
    drawn = np.random.default_rng(5).integers(0, 256, (2, 5, 23, 19), dtype=np.uint8)
    drawn[0, 0], drawn[0, 1] = 255, np.where(drawn[0, 1] > 127, 255, 0)

    def snippet(t):
        x = t.from_numpy(drawn)
        strided = t.from_numpy(drawn.transpose(0, 1, 3, 2).copy()).transpose(2, 3)
        return [
            t.nn.functional.interpolate(x, **asked)
            for x in (x, x[:, :3], x[:, 1:2], x[:0], strided)
        ]

    agree(snippet, rtol=0, atol=0)


#: Dtypes and shapes by mode that PyTorch resizes no integers of.
UNSIZED = [
    (d, m, (1, 1, *[4] * n))
    for d in ("uint8", "int64")
    for m, n in (("linear", 1), ("trilinear", 3))
]
UNSIZED += [(d, m, (1, 1, 4, 4)) for d in ("int64", "bool") for m in ("nearest", "bilinear")]


@pytest.mark.parametrize(("dtype", "mode", "shape"), UNSIZED)
def test_integers_that_are_not_resized(torch, dtype, mode, shape):
    for lib in (weft, torch):
        x = lib.zeros(shape, dtype=getattr(lib, dtype))
        with pytest.raises(NotImplementedError, match="not implemented"):
            lib.nn.functional.interpolate(x, scale_factor=2, mode=mode)


@pytest.mark.parametrize(("scale", "recompute"), [(1.3, True), (1.3, False), (0.37, False)])
def test_scales(agree, numbers, scale, recompute):
    def snippet(t):
        x = numbers(t, 1, 2, 9, 7)
        return [
            t.nn.functional.interpolate(
                x, scale_factor=scale, mode=mode, recompute_scale_factor=recompute
            )
            for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
        ]

    agree(snippet, rtol=1e-4, atol=1e-4)


def test_pooling_takes_the_first_of_equals_and_nan(agree):
    def snippet(t):
        results = []
        for kernel, stride in ((2, 2), (3, 1)):
            x = t.tensor([0.0, 1, 1, 1, 2, 1, float("nan"), 2, 2, 0, 1, 5, 0, 0, 5, 0]).tile(9)
            x = x.reshape(1, 1, 12, 12).requires_grad_()
            y = t.nn.functional.max_pool2d(x, kernel, stride)
            y.sum().backward()
            results += [y.isnan(), y.nan_to_num() if hasattr(y, "nan_to_num") else 0, x.grad]
        return [r for r in results if not isinstance(r, int)][::2]

    agree(snippet)


def test_output_size_of_a_transposed_convolution(agree, numbers):
    def snippet(t):
        layer = t.nn.ConvTranspose2d(2, 3, 3, stride=2)
        x = numbers(t, 1, 2, 4, 5)
        return layer(x, output_size=(10, 11)), layer(x, output_size=(1, 3, 9, 12))

    agree(snippet)


def test_a_lazy_layer_loads_what_a_trained_one_saved():
    trained = weft.nn.Conv2d(3, 4, 2)
    lazy = weft.nn.LazyConv2d(4, 2)
    assert lazy.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="uninitialized"):
        _ = lazy.weight.shape
    lazy.load_state_dict(trained.state_dict())
    x = weft.randn(1, 3, 5, 5)
    assert weft.equal(lazy(x), trained(x))
    assert type(lazy) is weft.nn.Conv2d
    assert lazy.in_channels == 3


def cnn(t):
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 4 * 4, 10),
    )  # fmt: skip


def curve(t, make, optimizer):
    t.manual_seed(3)
    model = make(t)
    step = optimizer(t, model.parameters())
    x, target = t.randn(16, 1, 16, 16), t.randint(0, 10, (16,))
    losses = []
    for _ in range(20):
        step.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses, model


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_same_seed_trains_to_the_same_curve(torch, momentum):
    def sgd(t, parameters):
        return t.optim.SGD(parameters, lr=0.05, momentum=momentum)

    ours, model = curve(weft, cnn, sgd)
    theirs, other = curve(torch, cnn, sgd)
    assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    for name, value in other.state_dict().items():
        kept = model.state_dict()[name].flatten().tolist()
        assert kept == pytest.approx(value.flatten().tolist(), rel=1e-2, abs=1e-3)
    assert ours[-1] < 0.5 * ours[0]


@pytest.mark.parametrize(
    "shape", [(3, 8), (2, 8, 1, 5), (5, 8, 3, 7), (2, 8, 130), (0, 8, 2), (2, 8, 0)]
)
@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (1, 2), (0, 1, 2)], ids=str)
def test_group_norm_gives_the_gradients_asked_for(shape, wanted):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = [rng.normal(3, 1, size=s) for s in (shape, (8,), (8,))]
    grad = rng.normal(size=shape)
    results = []
    for lib in (weft, torch):
        x, w, b = leaves = [lib.from_numpy(v.copy()) for v in values]
        for i in wanted:
            leaves[i].requires_grad_()
        y = lib.group_norm(x, 4, w, b)
        y.backward(lib.from_numpy(grad))
        results.append([y.detach().numpy(), *(leaves[i].grad.numpy() for i in wanted)])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)


def test_the_number_of_threads_does_not_change_a_bit():
    def run():
        weft.manual_seed(0)
        x = weft.randn(9, 3, 12, 13, requires_grad=True)
        layer = weft.nn.Sequential(
            weft.nn.Conv2d(3, 8, 3), weft.nn.BatchNorm2d(8), weft.nn.MaxPool2d(2),
            weft.nn.GroupNorm(2, 8),
        )  # fmt: skip
        layer(x).square().sum().backward()
        return [x.grad, *(p.grad for p in layer.parameters())]

    before = weft.get_num_threads() if hasattr(weft, "get_num_threads") else 1
    try:
        weft.set_num_threads(1)
        one = run()
        weft.set_num_threads(2)
        two = run()
    finally:
        weft.set_num_threads(before)
    assert all(weft.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize(
    "batch, channels, filters, size, kernel, stride, padding, dilation",
    [
        (2, 3, 1, (8, 9), (3, 3), 1, 1, 1),
        (2, 4, 2, (11, 7), (3, 5), 2, 1, 1),
        (1, 5, 1, (20, 33), (7, 7), 1, 3, 1),
        (3, 2, 3, (9, 9), (2, 3), 3, 2, 2),
        (1, 3, 1, (1, 40), (1, 4), 1, 0, 1),
        (2, 3, 1, (40, 40), (3, 3), 2, 0, 3),
        (1, 2, 1, (6, 6), (2, 2), 5, 0, 1),  # some pixels are under no tap
        (2, 40, 1, (30, 30), (3, 3), 1, 1, 1),  # several threads
        # several rows of the output at a time: every remainder of rows and vectors
        (1, 2, 1, (4, 16), (3, 1), (1, 1), (1, 0), 1),
        (1, 2, 2, (5, 49), (5, 3), (1, 2), (2, 1), (1, 2)),
        (1, 3, 1, (7, 70), (7, 7), 1, 3, 1),
        (2, 2, 1, (10, 129), (4, 5), 1, 2, 1),
        (1, 2, 1, (13, 5), (9, 2), 1, 4, (1, 3)),
    ],
)
def test_depthwise_is_a_convolution_of_each_channel(
    dtype, batch, channels, filters, size, kernel, stride, padding, dilation
):
    weft.manual_seed(0)
    x = weft.randn(batch, channels, *size, dtype=dtype, requires_grad=True)
    w = weft.randn(channels * filters, 1, *kernel, dtype=dtype, requires_grad=True)
    b = weft.randn(channels * filters, dtype=dtype, requires_grad=True)
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    y = F.conv2d(x, w, b, groups=channels, **how)
    parts = [
        F.conv2d(x[:, c : c + 1], w[c * filters :][:filters], b[c * filters :][:filters], **how)
        for c in range(channels)
    ]
    want, g = weft.cat(parts, 1), weft.randn(y.shape, dtype=dtype)
    weft.testing.assert_close(y, want, rtol=1e-4, atol=1e-5)
    gots = weft.autograd.grad(y, (x, w, b), g)
    for got, expected in zip(gots, weft.autograd.grad(want, (x, w, b), g)):
        weft.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize(
    "batch, channels, outputs, groups, size, kernel, stride, padding, dilation",
    [
        (2, 3, 5, 1, (40,), (5,), 1, 2, 1),
        (1, 4, 6, 2, (70,), (4,), 3, 1, 2),
        (1, 40, 7, 1, (3000,), (2,), 1, 0, 900),  # channels in blocks, rows that are not whole
        (2, 3, 13, 1, (9, 17), (3, 3), 1, 1, 1),  # every number of rows and vectors of a tile
        (1, 2, 6, 1, (21, 33), (3, 2), (2, 3), (1, 2), 1),
        (1, 4, 8, 4, (30, 28), (3, 3), 1, 0, 2),
        (2, 3, 1, 1, (16, 20), (7, 7), 2, 3, 1),
        (1, 2, 3, 1, (12, 31), (2, 3), 4, 1, 3),  # some pixels are under no tap
        (1, 2, 2, 1, (24, 24), (4, 6), (4, 6), 0, 1),
        (1, 130, 6, 1, (40, 40), (3, 3), 1, 9, 9),  # channels in blocks, bands of rows
        (1, 5, 3, 1, (300, 200), (3, 3), 1, 1, 1),  # bands
        (2, 2, 3, 1, (5, 12, 18), (3, 2, 3), 1, 1, 1),
        (1, 3, 2, 1, (9, 10, 33), (2, 3, 3), (2, 1, 2), (1, 0, 1), (1, 2, 1)),
        (1, 20, 2, 1, (12, 40, 50), (3, 3, 3), 1, 1, 1),  # bands of depth
    ],
)
def test_convolution_of_floats_is_that_of_integers(
    dtype, batch, channels, outputs, groups, size, kernel, stride, padding, dilation
):
    """Which goes by products; sums of small integers are exact in both."""
    weft.manual_seed(0)

    def draw(*shape):
        return weft.randint(-4, 5, shape)

    x, b = draw(batch, channels, *size), draw(outputs)
    w = draw(outputs, channels // groups, *kernel)
    conv = getattr(F, f"conv{len(size)}d")
    transposed = getattr(F, f"conv_transpose{len(size)}d")
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    want = conv(x, w, b, **how)
    image = x.to(dtype).requires_grad_()
    y = conv(image, w.to(dtype), b.to(dtype), **how)
    assert weft.equal(y.detach(), want.to(dtype))
    dy = draw(*want.shape)
    back = transposed(dy, w, **how)
    assert weft.equal(transposed(dy.to(dtype), w.to(dtype), **how), back.to(dtype))
    (dx,) = weft.autograd.grad(y, image, dy.to(dtype))
    how["output_padding"] = [n - m for n, m in zip(size, back.shape[2:], strict=True)]
    assert weft.equal(dx, transposed(dy, w, **how).to(dtype))


@pytest.mark.parametrize("far", [5000, 2**30])
def test_padding_and_dilation_may_be_larger_than_any_image(far):
    x, w = weft.arange(16.0).view(1, 1, 16), weft.tensor([[[3.0, 5.0, 7.0]]])
    y = F.conv1d(x, w, padding=far, dilation=far)
    assert weft.equal(y, 5 * x)
    assert weft.equal(F.conv_transpose1d(x, w, padding=far, dilation=far), 5 * x)


@pytest.mark.parametrize("odd", [math.inf, math.nan])
def test_a_weight_that_is_not_finite_stays_where_its_taps_are(odd):
    """Zeros around the image times it were NaN in every pixel of the adjoint's edge."""
    w = weft.ones(1, 1, 3, 3)
    w[0, 0, 0, 0] = odd
    y = F.conv_transpose2d(weft.ones(1, 1, 32, 32), w)
    reached = F.pad(weft.ones(32, 32), (0, 2, 0, 2)) == 1
    assert weft.equal(y[0, 0].isfinite(), ~reached)


def test_convolution_has_the_same_bits_on_any_number_of_threads():
    weft.manual_seed(0)
    x, w = weft.randn(1, 100, 40, 37), weft.randn(9, 100, 3, 3)
    back = weft.randn(1, 9, 40, 37)

    def run():
        return F.conv2d(x, w, padding=4, dilation=4), F.conv_transpose2d(back, w, stride=2)

    before = weft.get_num_threads()
    try:
        weft.set_num_threads(1)
        one = run()
        weft.set_num_threads(7)
        many = run()
    finally:
        weft.set_num_threads(before)
    assert all(weft.equal(a, b) for a, b in zip(one, many, strict=True))


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64, weft.int64])
@pytest.mark.parametrize("kernel, stride, padding", [(2, 2, 0), (3, 1, 1), (3, 2, 1), (5, 3, 2)])
@pytest.mark.parametrize("size", [(5, 6), (8, 37), (7, 70)])
def test_averages_are_sums_over_windows(dtype, kernel, stride, padding, size):
    weft.manual_seed(0)
    x = weft.randint(-9, 10, (2, 3, *size)).to(dtype)
    padded = F.pad(x, (padding,) * 4)
    windows = padded.unfold(2, kernel, stride).unfold(3, kernel, stride)
    sums = windows.sum((-2, -1)).to(dtype)
    assert weft.equal(F.avg_pool2d(x, kernel, stride, padding, divisor_override=1), sums)
    if dtype == weft.int64:
        return
    got = F.avg_pool2d(x.requires_grad_(), kernel, stride, padding)
    weft.testing.assert_close(got, sums / kernel**2)
    ones = F.pad(weft.ones_like(x), (padding,) * 4).unfold(2, kernel, stride)
    counts = ones.unfold(3, kernel, stride).sum((-2, -1))
    apart = F.avg_pool2d(x, kernel, stride, padding, count_include_pad=False)
    weft.testing.assert_close(apart, sums / counts)
    dy = weft.randint(-9, 10, got.shape).to(dtype)
    (dx,) = weft.autograd.grad(got, x, dy * kernel**2)
    (by_sums,) = weft.autograd.grad(
        F.pad(x, (padding,) * 4).unfold(2, kernel, stride).unfold(3, kernel, stride).sum((-2, -1)),
        x, dy,
    )  # fmt: skip
    weft.testing.assert_close(dx, by_sums)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 5), (14, 20), (40, 7)])
def test_resampling_many_rows_is_that_of_each(mode, size):
    """Many rows go by tables, few by plain loops; an infinite gradient stays where it belongs."""
    weft.manual_seed(0)
    x = weft.randn(4, 3, 7, 10, requires_grad=True)
    rows = [x[n : n + 1, c : c + 1, :1] for n in range(4) for c in range(3)]
    tall = weft.cat([row.detach() for row in rows])
    assert tall.shape == (12, 1, 1, 10)
    got = F.interpolate(tall, (1, size[1]), mode=mode)
    for row, one in zip(rows, got):
        weft.testing.assert_close(F.interpolate(row, (1, size[1]), mode=mode)[0], one)
    y = F.interpolate(x, size, mode=mode)
    g = weft.randn(y.shape)
    (whole,) = weft.autograd.grad(y, x, g, retain_graph=True)
    parts = [
        weft.autograd.grad(F.interpolate(x[n : n + 1, :1], size, mode=mode), x, g[n : n + 1, :1])[0]
        for n in range(4)
    ]
    weft.testing.assert_close(whole[:, :1], sum(parts)[:, :1], rtol=1e-4, atol=1e-5)
    wild = weft.zeros(12, 1, 1, 4)
    wild[..., 0] = float("inf")
    z = weft.randn(12, 1, 1, 40, requires_grad=True)
    (dz,) = weft.autograd.grad(F.interpolate(z, (1, 4), mode="nearest"), z, wild)
    assert dz.isinf().sum() == 12 and not dz.isnan().any()
