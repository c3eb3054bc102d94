"""Layers written for one example: batched they give the loop's values, gradients and buffers."""

import pytest

import weft
from weft import nn

LAYERS = {
    "conv1d": (lambda: nn.Conv1d(3, 4, 3, padding=1), [(3, 7), (1, 3, 7), (2, 3, 7)]),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, 2, groups=2), [(4, 7, 6), (1, 4, 7, 6)]),
    "conv2d, same": (lambda: nn.Conv2d(4, 6, 2, padding="same"), [(4, 7, 6)]),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), [(1, 2, 4, 3, 3)]),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(3, 4, 2, 2), [(3, 4, 5), (1, 3, 4, 5)]),
    "batch_norm, eval": (lambda: nn.BatchNorm2d(3).eval(), [(1, 3, 4, 4), (2, 3, 4, 4)]),
    "group_norm": (lambda: nn.GroupNorm(2, 4), [(1, 4, 3), (2, 4, 3)]),
    "rms_norm": (lambda: nn.RMSNorm(4), [(4,), (3, 4)]),
    "max_pool": (lambda: nn.MaxPool2d(2), [(3, 4, 6), (1, 2, 4, 6)]),
    "avg_pool": (lambda: nn.AvgPool2d(2), [(3, 4, 6), (1, 2, 4, 6)]),
    "adaptive_pool": (lambda: nn.AdaptiveAvgPool2d((2, 3)), [(3, 5, 7)]),
    "adaptive_max_pool": (lambda: nn.AdaptiveMaxPool1d(2), [(3, 5)]),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), [(1, 3, 4, 5)]),
    "pad": (lambda: nn.ReflectionPad2d(1), [(3, 4, 5)]),
    "pixel_shuffle": (lambda: nn.PixelShuffle(2), [(4, 2, 3), (1, 8, 2, 3)]),
    "prelu": (lambda: nn.PReLU(3), [(2, 3)]),
    "lstm": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), [(5, 3), (2, 3), (7, 3)]),
    "gru": (lambda: nn.GRU(3, 4), [(5, 3), (2, 1, 3), (1, 3)]),
    "rnn": (lambda: nn.RNN(3, 4, bidirectional=True, batch_first=True), [(5, 3), (1, 2, 3)]),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), [(1, 5, 8)]),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        [(1, 5, 8), (5, 8)],
    ),
}


SCALE = weft.tensor(1.5, requires_grad=True)


def calls(layer, x):
    x = x * SCALE
    out = layer(x, x, x) if isinstance(layer, nn.MultiheadAttention) else layer(x)
    return out if isinstance(out, weft.Tensor) else out[0]


def train(layer, run, examples):
    layer.zero_grad()
    SCALE.grad = None
    outs = run(examples)
    sum((out * weft.cos(weft.arange(out.numel()).view(out.shape))).sum() for out in outs).backward()
    grads = [p.grad for p in [*layer.parameters(), SCALE] if p.grad is not None]
    return [*outs, *grads, *layer.buffers()]


def make(name):
    weft.manual_seed(0)
    layer, shapes = LAYERS[name]
    return layer(), [weft.randn(shape) for shape in shapes for _ in range(3)]


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_over_examples_is_the_loop(name):
    layer, examples = make(name)
    plain = train(layer, lambda xs: [calls(layer, x) for x in xs], examples)
    batched = train(layer, weft.autobatch(lambda x: calls(layer, x)), examples)
    assert len(plain) == len(batched)
    for a, b in zip(plain, batched, strict=True):
        assert a.shape == b.shape and weft.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_calls_of_equal_shapes_are_one(name):
    """In one flush, with no call left single."""
    layer, examples = make(name)
    report = weft.explain(lambda x: calls(layer, x), examples)
    assert [flush["reason"] for flush in report.flushes] == ["the end"]
    batches = report.flushes[0]["batches"]
    assert not any(b["why"] for b in batches)
    assert all(b["calls"] >= 3 for b in batches) and len(batches) <= report.calls / 3


def test_training_batch_norm_sees_one_example_at_a_time():
    def run(batch):
        weft.manual_seed(1)
        layer = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
        examples = [weft.randn(1, 2, 6, 6) for _ in range(4)]
        f = weft.autobatch(layer) if batch else lambda xs: [layer(x) for x in xs]
        return train(layer, f, examples)

    for a, b in zip(run(False), run(True), strict=True):
        assert weft.allclose(a, b, atol=1e-5)


def test_attention_over_unlike_numbers_of_heads_and_rows():
    """[T, d] and [H, T, d] of one length are rows of one kind."""
    shapes = [(5, 4), (2, 5, 4), (3, 5, 4), (2, 3, 5, 4)]
    examples = [weft.randn(shape) for shape in shapes]

    def one(x):
        return weft.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    report = weft.explain(one, examples)
    assert report.batches == 1
    for out, x in zip(report.outputs, examples, strict=True):
        assert weft.allclose(out, one(x), atol=1e-6)


VIEWS_OF_WEIGHTS = {
    "transposed": lambda x, w: x @ w.t(),
    "one of a stack": lambda x, w: x * w[1],
    "a view of a view": lambda x, w: x @ w[:2].mT[:3],
    "pieces": lambda x, w: x @ w.chunk(3)[2].t() + x @ w.chunk(3)[0].t(),
    "another shape": lambda x, w: nn.functional.linear(x, w.view(3, 3)),
    "after a write": lambda x, w: x @ (w * 1).add_(1)[0],
}


@pytest.mark.parametrize("f", VIEWS_OF_WEIGHTS.values(), ids=VIEWS_OF_WEIGHTS)
@pytest.mark.parametrize("grad", [True, False])
def test_views_of_one_weight_are_one_weight(f, grad):
    w = weft.randn(3, 3, requires_grad=True)
    examples = [weft.randn(n, 3) for n in (1, 4, 2)]

    def run(batched):
        w.grad = None
        with weft.set_grad_enabled(grad):
            outs = batched(examples)
            if grad:
                sum((out * out).sum() for out in outs).backward()
        return [*outs, w.grad] if grad else outs

    plain = run(lambda xs: [f(x, w) for x in xs])
    for a, b in zip(plain, run(weft.autobatch(lambda x: f(x, w))), strict=True):
        assert weft.allclose(a, b, atol=1e-5)
    report = weft.explain(lambda x: f(x, w), examples)
    if f is not VIEWS_OF_WEIGHTS["after a write"]:
        assert all(b["calls"] % 3 == 0 and not b["why"] for b in report.flushes[-1]["batches"])


def test_views_of_other_weights_are_not():
    w = weft.randn(4, 3, 3, requires_grad=True)
    examples = [(weft.randn(2, 3), k) for k in (0, 3, 0, 1, 3)]
    outs = weft.autobatch(lambda x, k: x @ w[k])(*zip(*examples, strict=True))
    for out, (x, k) in zip(outs, examples, strict=True):
        assert weft.allclose(out, x @ w[k], atol=1e-6)
    (sum(out.sum() for out in outs)).backward()
    assert w.grad[2].abs().sum() == 0 and w.grad[3].abs().sum() > 0


@pytest.mark.parametrize("layer", [nn.LSTM(3, 4), nn.GRU(3, 4)], ids=["lstm", "gru"])
@pytest.mark.parametrize("frozen", [False, True])
def test_sequences_of_unlike_length_are_one_call(layer, frozen):
    layer.requires_grad_(not frozen)
    examples = [weft.randn(n, 3) for n in (2, 5, 1, 5, 3)]
    report = weft.explain(lambda x: layer(x * 2)[0], examples)
    calls = [b["calls"] for b in report.flushes[0]["batches"] if b["op"] == "_rnn_sequence"]
    assert calls == [5]
    for out, x in zip(report.outputs, examples, strict=True):
        assert weft.allclose(out, layer(x * 2)[0], atol=1e-6)
