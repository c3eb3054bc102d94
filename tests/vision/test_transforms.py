"""Each transform beside torchvision's: the same images, drawn numbers, shapes and values."""

import pickle
import random

import numpy as np
import pytest

import weft
from weft.vision import transforms as ours
from weft.vision import tv_tensors
from weft.vision.transforms import v2

Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(3)
COLOURS = RNG.integers(0, 256, (17, 23, 3), dtype=np.uint8)
SMOOTH = np.add.outer(np.arange(17) * 9, np.arange(23) * 4).astype(np.uint8)

#: What is transformed: PIL images, and tensors made of arrays [H, W, C] or [N, H, W, C].
INPUTS = {
    "pil": lambda lib: Image.fromarray(COLOURS),
    "pil grey": lambda lib: Image.fromarray(SMOOTH),
    "bytes": lambda lib: lib.from_numpy(COLOURS.transpose(2, 0, 1).copy()),
    "floats": lambda lib: lib.from_numpy(COLOURS.transpose(2, 0, 1).astype(np.float32) / 255),
    "grey bytes": lambda lib: lib.from_numpy(SMOOTH[None].copy()),
    "batch": lambda lib: lib.from_numpy(
        np.stack([COLOURS, COLOURS[::-1]]).transpose(0, 3, 1, 2).astype(np.float64) / 255
    ),
}
ALL = tuple(INPUTS)
PIL = ("pil", "pil grey")
TENSORS = ("bytes", "floats", "grey bytes", "batch")
BYTES = ("pil", "pil grey", "bytes", "grey bytes")
FLOATS = ("floats", "batch")
I = "T.InterpolationMode."  # noqa: E741

#: Transforms, and the inputs they take.
TRANSFORMS = {
    "T.Compose([T.Resize(12), T.CenterCrop(10)])": ALL,
    "T.Compose([T.ToTensor(), T.Normalize([0.4], [0.3])])": PIL,
    "T.PILToTensor()": PIL,
    "T.ToPILImage()": ("bytes", "floats", "grey bytes"),
    "T.ConvertImageDtype(t.float64)": TENSORS,
    "T.ConvertImageDtype(t.uint8)": TENSORS,
    "T.ConvertImageDtype(t.int16)": TENSORS,
    "T.ConvertImageDtype(t.float16)": TENSORS,
    "T.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))": FLOATS,
    "T.Resize((9, 31))": ALL,
    "T.Resize([40, 50])": ALL,
    "T.Resize(8)": ALL,
    "T.Resize(8, max_size=10)": ALL,
    f"T.Resize((9, 11), {I}NEAREST)": ALL,
    f"T.Resize((9, 11), {I}NEAREST_EXACT)": TENSORS,
    f"T.Resize((9, 11), {I}BICUBIC)": ALL,
    "T.Resize((9, 11), antialias=False)": TENSORS,
    f"T.Resize((9, 11), {I}LANCZOS)": PIL,
    "T.CenterCrop(10)": ALL,
    "T.CenterCrop((30, 11))": ALL,
    "T.FiveCrop(9)": ALL,
    "T.TenCrop((9, 8))": ALL,
    "T.TenCrop(8, vertical_flip=True)": ALL,
    "T.Pad(3)": ALL,
    "T.Pad((1, 2), fill=1)": ALL,
    "T.Pad((1, 2, 3, 4), padding_mode='edge')": ALL,
    "T.Pad([3], padding_mode='reflect')": ALL,
    "T.Pad(4, padding_mode='symmetric')": ALL,
    "T.Pad(-2)": TENSORS,
    "T.Lambda(lambda x: (x, 1))": ALL,
    "T.Grayscale()": ALL,
    "T.Grayscale(3)": ("pil", "pil grey", "bytes", "floats", "batch"),
    "T.RandomGrayscale(0.5)": ALL,
    "T.RandomCrop(10)": ALL,
    "T.RandomCrop((12, 13), padding=2)": ALL,
    "T.RandomCrop((40, 13), padding=(1, 2), pad_if_needed=True, fill=1)": ALL,
    "T.RandomCrop((20, 30), pad_if_needed=True, padding_mode='reflect')": ALL,
    "T.RandomResizedCrop(8)": ALL,
    "T.RandomResizedCrop((8, 9), scale=(2.0, 3.0), ratio=(2.0, 3.0))": ALL,
    "T.RandomHorizontalFlip()": ALL,
    "T.RandomVerticalFlip(0.6)": ALL,
    "T.RandomApply([T.RandomCrop(9), T.Grayscale()], 0.5)": ALL,
    "T.RandomApply(t.nn.ModuleList([T.RandomCrop(9)]), 0.5)": ALL,
    "T.RandomChoice([T.CenterCrop(4), T.CenterCrop(5)])": ALL,
    "T.RandomChoice([T.CenterCrop(4), T.CenterCrop(5)], p=[0.9, 0.1])": ALL,
    "T.RandomOrder([T.CenterCrop(8), T.RandomVerticalFlip(), T.Pad(1)])": ALL,
    "T.ColorJitter(0.5, 0.4, 0.3, 0.2)": ALL,
    "T.ColorJitter(brightness=(0.2, 0.8))": ALL,
    "T.ColorJitter(hue=0.4)": ALL,
    "T.RandomRotation(30)": ALL,
    f"T.RandomRotation((10, 50), {I}BILINEAR, expand=True)": ALL,
    "T.RandomRotation(80, center=(3, 4), fill=1)": ALL,
    "T.RandomAffine(20)": ALL,
    f"T.RandomAffine(20, (0.2, 0.1), (0.7, 1.4), 15, {I}BILINEAR, fill=0.5)": ALL,
    "T.RandomAffine((5, 9), shear=(-9, 9, 1, 2), center=(2, 3))": ALL,
    "T.RandomPerspective(0.4, 1.0)": ALL,
    "T.ElasticTransform(30.0, 0.5)": ALL,
    "T.ElasticTransform([9.0, 30.0], (0.4, 0.6), fill=1)": ALL,
    f"T.ElasticTransform(sigma=0.0, interpolation={I}NEAREST, fill=[1])": ALL,
    "T.RandomErasing(0.7)": TENSORS,
    "T.RandomErasing(1.0, value='random')": FLOATS,
    "T.RandomErasing(1.0, (0.1, 0.2), (0.5, 2), 0.5)": FLOATS,
    "T.GaussianBlur(3)": ALL,
    "T.GaussianBlur((5, 3), (0.5, 1.5))": ALL,
    "T.RandomInvert()": ALL,
    "T.RandomPosterize(3)": BYTES,
    "T.RandomSolarize(0.5)": FLOATS,
    "T.RandomSolarize(100)": BYTES,
    "T.RandomAdjustSharpness(2, 0.6)": ALL,
    "T.RandomAutocontrast()": ALL,
    "T.RandomEqualize()": BYTES,
}
#: Chains of changes, over as many draws as it takes for each change to come up.
AUGMENTS = {
    "T.RandAugment()": BYTES,
    f"T.RandAugment(3, 20, 30, {I}BILINEAR, fill=7)": BYTES,
    "T.RandAugment(fill=[3])": BYTES,
    "T.TrivialAugmentWide()": BYTES,
    f"T.TrivialAugmentWide(17, {I}BILINEAR, fill=100)": BYTES,
    "T.AutoAugment()": BYTES,
    "T.AutoAugment(T.AutoAugmentPolicy.CIFAR10, fill=3)": BYTES,
    f"T.AutoAugment(T.AutoAugmentPolicy('svhn'), {I}BILINEAR)": BYTES,
    "T.AugMix()": BYTES,
    f"T.AugMix(10, 2, 2, 0.5, False, {I}NEAREST, 9)": BYTES,
}
#: Functions of one image.
FUNCTIONS = {
    "F.affine(x, 30, [2, -1], 0.8, [10, -5])": ALL,
    "F.affine(x, 30, (2, -1), 0.8, 5, fill=[0.5], center=[4, 5])": ALL,
    "F.rotate(x, 45, expand=True)": ALL,
    "F.rotate(x, -200, center=[5, 6], fill=1)": ALL,
    "F.perspective(x, [[0, 0], [9, 0], [9, 9], [0, 9]], [[2, 1], [8, 3], [9, 7], [1, 9]])": ALL,
    "F.crop(x, -2, 3, 10, 30)": ALL,
    "F.crop(x, 4, -2, 3, 4)": ALL,
    "F.resized_crop(x, 2, 3, 8, 9, [5, 6])": ALL,
    "F.adjust_gamma(x, 0.7, 0.9)": ALL,
    "F.adjust_sharpness(x, 0.2)": ALL,
    "F.adjust_hue(x, -0.3)": ALL,
    "F.adjust_saturation(x, 1.7)": ALL,
    "F.adjust_contrast(x, 0.3)": ALL,
    "F.gaussian_blur(x, 5)": ALL,
    "F.gaussian_blur(x, [5, 7], [1.0, 2.0])": ALL,
    "F.autocontrast(x)": ALL,
    "F.equalize(x)": BYTES,
    "F.erase(x, 1, 2, 3, 4, t.tensor(1))": TENSORS,
    "F.elastic_transform(x, t.linspace(-0.3, 0.2, 782).view(1, 17, 23, 2), fill=1)": ALL,
    "F.get_dimensions(x)": ALL,
    "F.get_image_size(x)": ALL,
    "F.to_grayscale(x, 3)": PIL,
    "F.rgb_to_grayscale(x)": ALL,
    "F.to_pil_image(x)": ("bytes", "floats", "grey bytes"),
}


def seed(lib):
    lib.manual_seed(11)
    random.seed(11)


def pixels(x):
    """A result as arrays and plain values."""
    if isinstance(x, Image.Image):
        return (x.mode, np.asarray(x))
    if hasattr(x, "detach"):
        return (str(x.dtype), x.numpy())
    return [pixels(part) for part in x] if isinstance(x, (tuple, list)) else x


def same(a, b, part=0.02, steps=1):
    """The same kinds and shapes, floats to their rounding, some bytes but for `steps`."""
    assert type(a) is type(b) and (not isinstance(a, (tuple, list)) or len(a) == len(b))
    if isinstance(a, (tuple, list)):
        for one, other in zip(a, b):
            same(one, other, part, steps)
    elif isinstance(a, np.ndarray):
        assert a.shape == b.shape and a.dtype == b.dtype
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-3 if a.dtype == np.float16 else 0, atol=2e-5)
        else:
            apart = np.abs(a.astype(np.int64) - b.astype(np.int64))
            assert apart.max() <= steps and np.count_nonzero(apart) <= part * apart.size + 1
    else:
        assert a == b


def pairs(table):
    return [pytest.param(t, i, id=f"{t} {i}") for t, names in table.items() for i in names]


def spaces(torch, module, theirs):
    """The names of a text, here and there."""
    yield weft, {"T": module, "F": module.functional, "t": weft}
    yield torch, {"T": theirs, "F": theirs.functional, "t": torch}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("text", "name"), pairs(TRANSFORMS))
def test_a_transform_draws_and_does_the_same(torch, torchvision, text, name):
    results, shown = [], []
    for lib, names in spaces(torch, ours, torchvision.transforms):
        transform = eval(text, names)
        seed(lib)
        results.append([pixels(transform(INPUTS[name](lib))) for _ in range(4)])
        shown.append(repr(transform))
    in_floats = "Blur" in text or "Elastic" in text
    same(*results, part=0 if name in PIL and not in_floats else 0.02)
    assert shown[0].replace("weft.", "torch.") == shown[1] or "ModuleList" in text


#: Of bytes that are one step off where floats are rounded: bilinear sums in another order.
PART = 0.02


def augmented(lib, names, text, name, batch=False):
    """What a chain of changes makes of an image, or of a batch, again and again."""
    transform, image = eval(text, names), INPUTS[name](lib)
    image = lib.stack([image, image]) if batch else image
    seed(lib)
    return [pixels(transform(image)) for _ in range(60)], repr(transform)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("text", "name"), pairs(AUGMENTS))
def test_chains_of_changes_are_drawn_and_done_the_same(torch, torchvision, text, name):
    for batch in (False, True) if name == "bytes" else (False,):
        (mine, shown), (given, expected) = (
            augmented(lib, names, text, name, batch)
            for lib, names in spaces(torch, ours, torchvision.transforms)
        )
        same(mine, given, part=PART if "BILINEAR" in text or text == "T.AugMix()" else 0)
        assert shown == expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("text", "name"), pairs(AUGMENTS))
def test_chains_of_changes_of_v2_are_drawn_and_done_the_same(torch, torchvision, text, name):
    import torchvision.transforms.v2 as theirs

    found = [augmented(*s, text, name)[0] for s in spaces(torch, v2, theirs)]
    same(*found, part=PART if "AugMix" in text or name not in PIL else 0, steps=2)
    assert weft.rand(1).item() == torch.rand(1).item()


def test_v2_changes_the_one_image_of_its_inputs():
    image, label = weft.full((3, 8, 8), 7, dtype=weft.uint8), weft.tensor(3)
    out = v2.AutoAugment()({"image": tv_tensors.Image(image), "label": label})
    assert type(out["image"]) is tv_tensors.Image and out["label"] is label


@pytest.mark.parametrize("policy", list(ours.AutoAugmentPolicy))
def test_the_policies_are_torchvisions(torchvision, policy):
    theirs = torchvision.transforms
    expected = theirs.AutoAugment(theirs.AutoAugmentPolicy[policy.name])
    assert ours.AutoAugment(policy).policies == expected.policies


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("text", "name"), pairs(FUNCTIONS))
def test_a_function_does_the_same(torch, torchvision, text, name):
    results = [
        pixels(eval(text, {**names, "x": INPUTS[name](lib)}))
        for lib, names in spaces(torch, ours, torchvision.transforms)
    ]
    same(*results)


#: What v2 has of v1 but for the order of random numbers, and what is its own.
SECOND = {
    "T.RandomApply([T.RandomCrop(9)], 0.5)": ALL,
    "T.RandomChoice([T.CenterCrop(4), T.CenterCrop(5)], p=[0.3, 0.7])": ALL,
    "T.RandomOrder([T.CenterCrop(8), T.RandomVerticalFlip(), T.Pad(1)])": ALL,
    "T.Compose([T.ToImage(), T.ToDtype(t.float32, scale=True), T.ToPureTensor()])": ALL,
    "T.Compose([T.PILToTensor(), T.ToDtype(t.int32, scale=False)])": PIL,
    "T.Lambda(lambda x: 1)": ALL,
    "T.Identity()": ALL,
    "T.GaussianNoise(0.1, 0.2)": FLOATS,
    "T.RGB()": ("pil", "pil grey", "bytes", "grey bytes"),
    "T.RandomChannelPermutation()": ALL,
    "T.RandomPhotometricDistort()": ALL,
    "T.RandomPhotometricDistort((0.5, 2), (0.2, 0.3), (0.7, 0.8), (0.3, 0.4), 0.9)": ALL,
    "T.RandomZoomOut()": ALL,
    "T.RandomZoomOut(7, (1.5, 1.7), p=1.0)": ALL,
    "T.RandomZoomOut({T.InterpolationMode: 3, 'others': 1}, p=1.0)": ALL,
    "T.ScaleJitter((20, 15))": ALL,
    "T.ScaleJitter((20, 15), (0.9, 1.1), 'nearest')": ALL,
    "T.RandomShortestSize([8, 12, 30])": ALL,
    "T.RandomShortestSize(20, 25, antialias=False)": TENSORS,
    "T.RandomResize(9, 30)": ALL,
    "T.RandomResize(9, 30, 'bicubic')": PIL,
}
#: Not of v2, or drawn otherwise there.
OTHER = ("value='random'", "LANCZOS", "ModuleList", "RandomChoice", "RandomOrder", "ToTensor")


def second():
    shared = {t: i for t, i in TRANSFORMS.items() if not any(o in t for o in OTHER)}
    return pairs(SECOND | {t: [n for n in i if n not in FLOATS[1:]] for t, i in shared.items()})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("text", "name"), second())
def test_a_transform_of_v2_draws_and_does_the_same(torch, torchvision, text, name):
    import torchvision.transforms.v2 as theirs

    results = []
    for lib, names in spaces(torch, v2, theirs):
        transform = eval(text, names)
        seed(lib)
        results.append([pixels(transform(INPUTS[name](lib))) for _ in range(4)])
    in_floats = any(part in text for part in ("Blur", "Elastic", "Jitter(0", "Affine", "Distort"))
    same(*results, part=PART if in_floats else 0)


def test_v2_transforms_all_images_of_a_structure_alike(torch, torchvision):
    import torchvision.transforms.v2 as theirs
    import torchvision.tv_tensors as their_tensors

    results = []
    for lib, module, tensors in ((weft, v2, tv_tensors), (torch, theirs, their_tensors)):
        seed(lib)
        image = INPUTS["bytes"](lib)
        given = {
            "images": [tensors.Image(image), INPUTS["pil"](lib)], "label": lib.tensor([1, 2]),
            "name": "x",
        }  # fmt: skip
        t = module.Compose([module.RandomCrop(9), module.RandomHorizontalFlip()])
        out = t(given)
        assert type(out["images"][0]).__name__ == "Image" and out["name"] == "x"
        assert out["label"].tolist() == [1, 2]
        results.append([pixels(x) for x in out["images"]] + [pixels(t(image, 3))])
    same(*results)
    first, second_ = results[0][:2]
    assert np.array_equal(first[1].transpose(1, 2, 0), second_[1])


STRUCTURES = [("T.Compose([T.RandomCrop(4)])", (1, 2)), ("T.RandomApply([T.Pad(1)], 1.0)", (1,))]


@pytest.mark.parametrize(("text", "rest"), STRUCTURES)
def test_v2_gives_back_what_it_is_given_beside_images(text, rest):
    out = eval(text, {"T": v2})(weft.zeros(3, 5, 5), *rest)
    assert out[1:] == rest and isinstance(out[0], weft.Tensor)


#: Of batches: [N] labels, [N, classes] and others' names.
MIXED = [
    "T.MixUp(num_classes=5)(x, y)", "T.MixUp(alpha=0.3, num_classes=5)((x, y))",
    "T.MixUp()(x, t.nn.functional.one_hot(y, 5))", "T.CutMix(num_classes=5)(x, y)",
    "T.CutMix(alpha=0.4)(x, t.nn.functional.one_hot(y, 5).double())",
    "list(T.CutMix(num_classes=5)({'img': x, 'Labels': y, 'label_': 3}).values())",
    "list(T.MixUp(num_classes=5)({'img': x, 'the_labels': y}).values())",
    "T.MixUp(num_classes=6, labels_getter=lambda i: i[2])(x, 4, y)",
    "T.RandomChoice([T.MixUp(num_classes=5), T.CutMix(num_classes=5)])(x, y)",
    "T.CutMix(num_classes=5)(V.Image(x), y)",
]  # fmt: skip


def batches(torch):
    """Names of a text about batches, here and there."""
    import torchvision.transforms.v2 as theirs
    import torchvision.tv_tensors as their_tensors

    for lib, module, tensors in ((weft, v2, tv_tensors), (torch, theirs, their_tensors)):
        x = lib.from_numpy(RNG_BATCH.copy())
        yield lib, {"T": module, "V": tensors, "t": lib, "x": x, "y": lib.tensor([0, 4, 1, 1])}


RNG_BATCH = RNG.random((4, 3, 9, 11)).astype(np.float32)


@pytest.mark.parametrize("text", MIXED)
def test_batches_are_mixed_the_same(torch, torchvision, text):
    results = []
    for lib, names in batches(torch):
        seed(lib)
        results.append([pixels(eval(text, names)) for _ in range(5)])
        assert np.array_equal(names["x"].numpy(), RNG_BATCH)
    same(*results)


#: What v2 refuses.
WRONG_V2 = [
    ("T.MixUp()(x, y)", ValueError, "num_classes must be passed"),
    ("T.MixUp(num_classes=4)(x, t.zeros(4, 5))", ValueError, "must match num_classes: 5 != 4"),
    ("T.CutMix(num_classes=5)(x, t.zeros(4, 5, 1))", ValueError, "labels should be index based"),
    ("T.CutMix(num_classes=5)(x, 3)", ValueError, "must be a dictionary or a two-tuple"),
    ("T.CutMix(num_classes=5)(x, {'y': y})", ValueError, "Could not infer where the labels"),
    ("T.MixUp(num_classes=5, labels_getter=lambda i: 3)(x, y)", ValueError, "must be a tensor"),
    ("T.MixUp(labels_getter=3)", ValueError, "'default', a callable, or None"),
    ("T.CutMix(num_classes=5)(x[0], y)", ValueError, "a batched input with 4 dims"),
    ("T.MixUp(num_classes=5)(x[:3], y)", ValueError, "does not match the batch size"),
    ("T.MixUp(num_classes=5)(T.ToPILImage()(x[0]), y)", ValueError, "does not support PIL"),
    ("T.RandAugment(-1)", ValueError, "should be a non-negative integer"),
    ("T.AugMix(severity=11)", ValueError, "The severity must be between [1, 10]"),
    ("T.AutoAugment('imagenet')", ValueError, "is not recognized"),
    ("T.AutoAugment()(3)", TypeError, "Found no image in the sample"),
    ("T.RandAugment()([V.Image(x), V.Image(x)])", TypeError, "but found 2"),
    ("T.RandomZoomOut(side_range=(2, 1))", ValueError, "Invalid side range"),
    ("T.query_size([V.Image(x), V.Image(x[..., 1:])])", ValueError, "Found multiple CxHxW"),
    ("T.query_chw([3])", TypeError, "No image or video"),
    ("T.functional.permute_channels(x, [0, 1])", ValueError, "2 != 3"),
]


@pytest.mark.parametrize(("text", "error", "said"), WRONG_V2, ids=[w[0] for w in WRONG_V2])
def test_what_is_wrong_raises_as_in_v2(torch, torchvision, text, error, said):
    for lib, names in batches(torch):
        with pytest.raises(error) as caught:
            eval(text, names)
        if lib is weft:
            assert said in str(caught.value) and str(caught.value).startswith("[")


def test_a_transform_of_the_users_own(torch, torchvision):
    import torchvision.transforms.v2 as theirs

    results = []
    for lib, module in ((weft, v2), (torch, theirs)):

        class Own(module.Transform):
            def make_params(self, flat_inputs):
                return {"n": len(flat_inputs)}

            def transform(self, inpt, params):
                return inpt + params["n"]

        out = Own()((lib.zeros(3, 2, 2), {"other": lib.zeros(3, 2, 2)}))
        results.append([pixels(out[0]), pixels(out[1]["other"])])
    same(*results)


WRONG = [
    ("T.ToTensor()(3)", TypeError, "pic should be PIL Image or ndarray"),
    ("T.PILToTensor()(t.zeros(1, 2, 2))", TypeError, "pic should be PIL Image"),
    ("T.ToPILImage()(t.zeros(5, 2, 2))", ValueError, "pic should not have > 4 channels"),
    ("T.ToPILImage()(t.zeros(2))", ValueError, "pic should be 2/3 dimensional"),
    ("T.ToPILImage()('x')", TypeError, "pic should be Tensor or ndarray"),
    ("T.ToPILImage('RGB')(t.zeros(1, 2, 2))", ValueError, "Incorrect mode"),
    ("T.Normalize([0.5], [0.5])(t.zeros(1, 2, 2).int())", TypeError, "should be a float tensor"),
    ("T.Normalize([0.5], [0.0])(t.zeros(1, 2, 2))", ValueError, "division by zero"),
    ("T.Normalize([0.5], [0.5])(t.zeros(2, 2))", ValueError, "(..., C, H, W)"),
    ("T.Normalize([0.5], [0.5])(3)", TypeError, "should be Tensor Image"),
    ("T.ConvertImageDtype(t.int32)(t.zeros(1, 2, 2))", RuntimeError, "cannot be performed safely"),
    ("T.Resize((1, 2, 3))", ValueError, ""),
    ("T.Resize(8, max_size=8)(t.zeros(1, 4, 4))", ValueError, "must be strictly greater"),
    ("F.resize(t.zeros(1, 4, 4), 3, 'x')", TypeError, "Pillow integer constant"),
    ("F.resize(t.zeros(1, 4, 4), [2, 2], T.InterpolationMode.BOX)", NotImplementedError, ""),
    ("F.hflip(3)", TypeError, "img should be PIL Image"),
    ("F.hflip(t.zeros(3))", TypeError, "Tensor is not a torch image"),
    ("T.Pad(2, padding_mode='x')", ValueError, "Padding mode should be either"),
    ("T.Pad((1, 2, 3))", ValueError, "element tuple"),
    ("T.FiveCrop(9)(t.zeros(1, 4, 4))", ValueError, "is bigger than input size"),
    ("T.RandomCrop(9)(t.zeros(1, 4, 4))", ValueError, "is larger than input image size"),
    ("T.ColorJitter(-1)", ValueError, "must be non negative"),
    ("T.ColorJitter(hue=0.7)", ValueError, "values should be between"),
    ("T.ColorJitter('x')", TypeError, "should be a single number or a list/tuple"),
    ("T.RandomRotation(-1)", ValueError, "must be positive"),
    ("T.RandomAffine(1, translate=(2, 0))", ValueError, "translation values"),
    ("T.RandomAffine(1, scale=(0, 1))", ValueError, "scale values should be positive"),
    ("T.RandomErasing(value='x')", ValueError, "should be 'random'"),
    ("T.RandomErasing(scale=(0.5, 1.5))", ValueError, "between 0 and 1"),
    ("T.GaussianBlur(4)", ValueError, "odd and positive"),
    ("T.ElasticTransform(alpha=3)", TypeError, "alpha should be float"),
    ("T.ElasticTransform(sigma=[1.0])", ValueError, "its length should be 2"),
    ("T.ElasticTransform(sigma=[1.0, 2])", TypeError, "a sequence of floats"),
    ("T.ElasticTransform(fill='x')", TypeError, "fill should be int or float"),
    ("F.elastic_transform(t.zeros(1, 2, 2), 3)", TypeError, "should be a Tensor"),
    ("F.elastic_transform(t.zeros(1, 2, 2), t.zeros(1))", ValueError, "displacement shape should"),
    ("T.AugMix(0)", ValueError, "The severity must be between [1, 10]"),
    ("T.AutoAugment('x')", ValueError, "is not recognized"),
    ("T.RandAugment()(t.zeros(4))", TypeError, "Tensor is not a torch image"),
    ("T.GaussianBlur(3, (2, 1))", ValueError, "(min, max)"),
    ("F.adjust_hue(t.zeros(3, 2, 2), 0.6)", ValueError, "is not in [-0.5, 0.5]"),
    ("F.adjust_brightness(t.zeros(3, 2, 2), -1)", ValueError, "is not non-negative"),
    ("F.adjust_brightness(t.zeros(2, 2, 2), 1)", TypeError, "permitted channel values"),
    ("F.adjust_gamma(t.zeros(3, 2, 2), -1)", ValueError, "non-negative real number"),
    ("F.posterize(t.zeros(3, 2, 2).byte(), 9)", ValueError, "between 0 and 8"),
    ("F.posterize(t.zeros(3, 2, 2), 3)", TypeError, "torch.uint8 image tensors"),
    ("F.rotate(t.zeros(3, 2, 2), 'x')", TypeError, "angle should be int or float"),
    ("F.affine(t.zeros(3, 2, 2), 1, [1, 2], 0, [0])", ValueError, "scale should be positive"),
    ("F.affine(t.zeros(3, 2, 2), 1, 1, 1, [0])", TypeError, "translate should be a sequence"),
    ("F.rotate(t.zeros(3, 2, 2), 1, fill=[1, 2])", ValueError, "number of elements in 'fill'"),
    ("F.rgb_to_grayscale(t.zeros(3, 2, 2), 2)", ValueError, "should be either 1 or 3"),
    ("T.Compose([T.Lambda(3)])", TypeError, "lambd should be callable"),
    ("T.RandomChoice([T.Pad(1)], p=1)", TypeError, "p should be a sequence"),
    ("T.RandomOrder(3)", TypeError, "transforms should be a sequence"),
]


@pytest.mark.parametrize(("text", "error", "said"), WRONG, ids=[w[0] for w in WRONG])
def test_what_is_wrong_raises_as_in_torchvision(torch, torchvision, text, error, said):
    for lib, names in spaces(torch, ours, torchvision.transforms):
        with pytest.raises(error) as caught:
            eval(text, names)
        if lib is weft:
            assert said in str(caught.value) and str(caught.value).startswith("[")


def test_a_part_outside_of_the_image_is_black():
    out = ours.functional.crop(weft.ones(1, 4, 4), 1, -5, 3, 4)
    assert weft.equal(out, weft.zeros(1, 3, 4))


def test_grey_of_one_channel_becomes_three():
    assert ours.Grayscale(3)(weft.ones(1, 4, 4)).shape == (3, 4, 4)


def test_a_transform_is_a_copy_after_pickling():
    t = ours.Compose([ours.RandomResizedCrop(4), ours.ColorJitter(0.1, 0.1, 0.1, 0.1)])
    x = weft.rand(3, 9, 9)
    weft.manual_seed(1)
    first = t(x)
    weft.manual_seed(1)
    assert weft.equal(pickle.loads(pickle.dumps(t))(x), first)


def test_without_pillow_tensors_are_transformed_and_images_say_what_is_missing(monkeypatch):
    import sys

    for name in [n for n in sys.modules if n.partition(".")[0] == "PIL"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert ours.CenterCrop(2)(weft.zeros(3, 4, 4)).shape == (3, 2, 2)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'weft\[vision\]'"):
        ours.ToPILImage()(weft.zeros(3, 4, 4))


def test_gradients_flow_through_transforms_of_tensors():
    x = weft.rand(3, 8, 8, requires_grad=True)
    t = ours.Compose([ours.Resize(6), ours.RandomHorizontalFlip(1.0), ours.Normalize([0.5], [0.5])])
    t(x).sum().backward()
    assert x.grad.shape == x.shape and float(x.grad.abs().min()) > 0
