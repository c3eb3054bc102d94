"""Operations on boxes and regions beside torchvision's Python, or by what defines them."""

import sys

import numpy as np
import pytest

import weft
from weft.vision import ops

RNG = np.random.default_rng(2)


def boxes(n, kind=np.float32, low=-2):
    corner = RNG.uniform(low, 12, (n, 2))
    return np.concatenate([corner, corner + RNG.uniform(0.5, 9, (n, 2))], 1).astype(kind)


B, C = boxes(7), boxes(5)
NAMES = {
    "B": B, "C": C, "D": B.astype(np.float64), "N": (B * 3).astype(np.int32),
    "L": RNG.normal(size=(4, 3)), "Y": RNG.integers(0, 2, (4, 3)).astype(np.float64),
    "X": RNG.normal(size=(2, 6, 5, 4)).astype(np.float32),
    "M": (np.add.outer(np.arange(6), np.arange(7)) % 5 == 2)[None].repeat(2, 0),
}  # fmt: skip
FORMATS = ("xyxy", "xywh", "cxcywh")
CALLS = [
    "o.box_area(B)", "o.box_area(D, fmt='xywh')", "o.box_area(N)", "o.box_iou(B, C)",
    "o.box_iou(D, D)", "o.box_iou(N, N)", "o.box_iou(B, C, fmt='xywh')",
    "o.box_iou(B, C, fmt='cxcywh')", "o.box_iou(B[:, None], C[None, :1])",
    "o.generalized_box_iou(B, C)", "o.distance_box_iou(B, C)", "o.complete_box_iou(B, C)",
    "o.clip_boxes_to_image(B, (6, 9))", "o.clip_boxes_to_image(B[None], (6, 9))",
    "o.remove_small_boxes(B, 3.0)", "o.masks_to_boxes(M)",
    *(f"o.box_convert(B, {a!r}, {b!r})" for a in FORMATS for b in FORMATS),
    "o.sigmoid_focal_loss(L, Y)", "o.sigmoid_focal_loss(L, Y, alpha=-1, gamma=1.5)",
    "o.sigmoid_focal_loss(L, Y, reduction='mean')", "o.sigmoid_focal_loss(L, Y, 0.7, 0.0, 'sum')",
    "o.stochastic_depth(X, 0.4, 'row')", "o.stochastic_depth(X, 0.4, 'batch')",
    "o.stochastic_depth(X, 0.4, 'row', training=False)", "o.StochasticDepth(0.3, 'row')(X)",
    "o.MLP(4, [8, 3], dropout=0.2)(X)", "o.MLP(4, [3], inplace=True)(X)",
    "o.MLP(4, [8, 3], t.nn.LayerNorm, t.nn.GELU, bias=False)(X)",
    "o.Conv2dNormActivation(6, 4)(X)", "o.Conv2dNormActivation(6, 4, (3, 1), dilation=2)(X)",
    "o.Conv2dNormActivation(6, 4, 5, 2, norm_layer=None, activation_layer=None)(X)",
    "o.Conv2dNormActivation(6, 6, groups=3, activation_layer=t.nn.GELU, inplace=None)(X)",
    "o.Conv3dNormActivation(2, 3)(X.transpose(0, 1)[None, 0:1].expand(1, 2, 2, 5, 4))",
    "o.SqueezeExcitation(6, 2)(X)", "o.FrozenBatchNorm2d(6)(X)", "o.Permute([0, 2, 3, 1])(X)",
]  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_a_call_gives_torchvisions_values(torch, torchvision, text):
    found = []
    for lib, module in ((weft, ops), (torch, torchvision.ops)):
        lib.manual_seed(3)
        values = {n: lib.from_numpy(a.copy()) for n, a in NAMES.items()}
        out = eval(text, {"o": module, "t": lib, **values}).detach()
        found.append((str(out.dtype), out.numpy()))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], 1e-4, 2e-6)


LAYERS = [
    "o.MLP(4, [8, 3], t.nn.LayerNorm)", "o.Conv2dNormActivation(6, 4, bias=True)",
    "o.SqueezeExcitation(6, 2)", "o.FrozenBatchNorm2d(6)", "o.StochasticDepth(0.3, 'row')",
    "o.RoIAlign((2, 3), 0.5, 2, True)",
]  # fmt: skip


@pytest.mark.parametrize("text", LAYERS)
def test_a_layer_prints_and_is_named_as_torchvisions(torch, torchvision, text):
    ours = eval(text, {"o": ops, "t": weft})
    theirs = eval(text, {"o": torchvision.ops, "t": torch})
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs) or "RoIAlign" in text


def plain_nms(boxes, scores, threshold):
    """What defines it: best first, against all that are kept."""
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        overlaps = ops.box_iou(weft.from_numpy(boxes[[i]]), weft.from_numpy(boxes[kept]))
        if not (overlaps > threshold).any():
            kept.append(int(i))
    return kept


@pytest.mark.parametrize("n", [0, 1, 2, 40])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
def test_nms_keeps_what_overlaps_no_better_one(n, threshold):
    some = np.concatenate([boxes(n), boxes(n)[: n // 2]])
    some[n:] = some[: n // 2]  # the same box twice
    scores = RNG.uniform(size=len(some)).astype(np.float32).round(1)
    ours = ops.nms(weft.from_numpy(some), weft.from_numpy(scores), threshold)
    assert ours.dtype == weft.int64 and ours.tolist() == plain_nms(some, scores, threshold)


def test_batched_nms_is_nms_of_each_class():
    some, scores = boxes(50), RNG.uniform(size=50).astype(np.float32)
    classes = RNG.integers(0, 4, 50)
    kept = ops.batched_nms(*(weft.from_numpy(x) for x in (some, scores, classes)), 0.2).tolist()
    expected = []
    for c in range(4):
        places = np.flatnonzero(classes == c)
        expected += places[plain_nms(some[places], scores[places], 0.2)].tolist()
    assert kept == sorted(expected, key=lambda i: -scores[i])
    empty = weft.zeros(0, 4), weft.zeros(0), weft.zeros(0, dtype=weft.int64)
    assert ops.batched_nms(*empty, 0.5).tolist() == []


ALIGNS = [
    dict(output_size=2), dict(output_size=(3, 2), spatial_scale=0.5, aligned=True),
    dict(output_size=(2, 4), sampling_ratio=2), dict(output_size=5, sampling_ratio=3, aligned=True),
    dict(output_size=1, spatial_scale=2.0),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ALIGNS, ids=str)
def test_roi_align_gives_torchvisions_values_and_gradients(torch, torchvision, how):
    module = sys.modules["torchvision.ops.roi_align"]
    plain = module._roi_align.__wrapped__  # in Python, as it is; not compiled
    maps = RNG.normal(size=(2, 3, 12, 10))
    inside = boxes(9, low=0) / (2.5 * how.get("spatial_scale", 1.0))  # it repeats edges outside
    rois = np.concatenate([RNG.integers(0, 2, (9, 1)), inside], 1)
    size = how["output_size"]
    x, y = weft.from_numpy(maps).requires_grad_(), torch.from_numpy(maps).requires_grad_()
    ours = ops.roi_align(x, weft.from_numpy(rois), **how)
    height, width = (size, size) if isinstance(size, int) else size
    scale, ratio = how.get("spatial_scale", 1.0), how.get("sampling_ratio", -1)
    aligned = how.get("aligned", False)
    theirs = plain(y, torch.from_numpy(rois), scale, height, width, ratio, aligned)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-9, 1e-9)
    (ours * ours).sum().backward()
    (theirs * theirs).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-9, 1e-9)


def test_samples_more_than_a_pixel_outside_count_as_0():
    ones = weft.ones(1, 1, 4, 4)
    far = ops.roi_align(ones, [weft.tensor([[-8.0, -8.0, 0.0, 0.0]])], 2, sampling_ratio=2)
    assert far.flatten().tolist() == [0, 0, 0, 0.25]  # one of four samples, at -1


def test_roi_align_of_a_list_is_that_of_rows():
    maps = weft.randn(2, 3, 8, 8)
    first, second = (weft.from_numpy(boxes(n)).clamp(0, 8) for n in (3, 2))
    rows = weft.cat([weft.tensor([[0.0]] * 3 + [[1.0]] * 2), weft.cat([first, second])], 1)
    layer = ops.RoIAlign(3, 1.0, 2)
    assert weft.equal(layer(maps, [first, second]), layer(maps, rows))
    assert ops.roi_align(maps, weft.zeros(0, 5), 2).shape == (0, 3, 2, 2)


WRONG = [
    ("o.nms(t.zeros(2, 3), t.zeros(2), 0.5)", RuntimeError, "4 columns"),
    ("o.nms(t.zeros(2, 4), t.zeros(3), 0.5)", RuntimeError, "same number of elements"),
    ("o.box_convert(t.zeros(2, 4), 'xyxy', 'x')", ValueError, "Unsupported Bounding Box"),
    ("o.box_area(t.zeros(2, 4), fmt='x')", ValueError, ""),
    ("o.roi_align(t.zeros(1, 1, 2, 2), t.zeros(2, 4), 2)", AssertionError, "Tensor[K, 5]"),
    ("o.roi_align(t.zeros(1, 1, 2, 2), [t.zeros(2, 5)], 2)", AssertionError, "Tensor[L, 4]"),
    ("o.roi_align(t.zeros(1, 1, 2, 2), t.ones(2, 5), 2)", IndexError, "images 0 to 0"),
    ("o.sigmoid_focal_loss(t.zeros(2), t.zeros(2), alpha=2)", ValueError, "Invalid alpha"),
    ("o.sigmoid_focal_loss(t.zeros(2), t.zeros(2), reduction='x')", ValueError, "Invalid Value"),
    ("o.stochastic_depth(t.zeros(2), 2.0, 'row')", ValueError, "drop probability"),
    ("o.stochastic_depth(t.zeros(2), 0.2, 'x')", ValueError, "mode has to be"),
]


@pytest.mark.parametrize(("text", "error", "said"), WRONG, ids=[w[0] for w in WRONG])
def test_what_is_wrong_raises(text, error, said):
    with pytest.raises(error) as caught:
        eval(text, {"o": ops, "t": weft})
    assert said in str(caught.value) and str(caught.value).startswith("[")
