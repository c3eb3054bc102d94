"""Models beside torchvision's: parameters' names, first weights, outputs with the same weights."""

import pickle

import numpy as np
import pytest

import weft
from weft.vision import models

#: Models, small ones where that can be said, and the sizes of images.
MODELS = {
    "m.resnet18(num_classes=7)": 40,
    "m.ResNet(m.resnet.BasicBlock, [1, 1, 2, 1], zero_init_residual=True)": 33,
    "m.ResNet(m.resnet.Bottleneck, [1, 2, 2, 2], 5, True, "
    "replace_stride_with_dilation=[False, True, True])": 64,
    "m.ResNet(m.resnet.Bottleneck, [1] * 4, 5, groups=32, width_per_group=4)": 33,
    "m.vgg.make_layers(m.vgg.cfgs['D'])": 32,
    "m.vgg.make_layers(m.vgg.cfgs['A'], batch_norm=True)": 32,
    "m.alexnet(num_classes=4)": 70,
    "m.DenseNet(4, (2, 1, 1, 2), 6, 2, num_classes=3)": 64,
    "m.DenseNet(4, (2, 1), 6, drop_rate=0.1, memory_efficient=True)": 40,
    "m.mobilenet_v2(num_classes=4, width_mult=0.6)": 40,
    "m.mobilenet_v3_small(num_classes=4, width_mult=0.5)": 40,
    "m.mobilenet_v3_large(num_classes=4, reduced_tail=True, dilated=True, width_mult=0.3)": 48,
    "m.squeezenet1_0(num_classes=4)": 48,
    "m.squeezenet1_1(num_classes=4, dropout=0.2)": 40,
    "m.efficientnet_b0(num_classes=4, dropout=0.3)": 33,
    "m.EfficientNet([m.efficientnet.FusedMBConvConfig(1, 3, 1, 8, 8, 2), "
    "m.efficientnet.FusedMBConvConfig(4, 3, 2, 8, 16, 2), "
    "m.efficientnet.MBConvConfig(4, 5, 2, 16, 24, 1, 0.8, 1.4)], 0.1, 0.3, 5, last_channel=12)": 33,
    "m.convnext_tiny(num_classes=4, layer_scale=0.5)": 32,
    "m.ConvNeXt([m.convnext.CNBlockConfig(8, 12, 1), m.convnext.CNBlockConfig(12, 20, 2)])": 32,
    "m.shufflenet_v2_x0_5(num_classes=4)": 40,
    "m.ShuffleNetV2([1, 2, 2], [8, 12, 16, 20, 24], 3)": 40,
    "m.SwinTransformer([4, 4], 8, [1, 2, 2], [2, 2, 4], [3, 4], num_classes=3)": 53,
    "m.SwinTransformer([2, 3], 8, [2, 2], [1, 2], [7, 7], 2.0, 0.1, 0.1, 0.2, 3)": 32,
    "m.GoogLeNet(num_classes=4, init_weights=True)": 48,
    "m.GoogLeNet(4, aux_logits=False, transform_input=True, init_weights=False)": 40,
    "m.mnasnet0_5(num_classes=4, dropout=0.1)": 40,
    "m.MNASNet(0.3, 3)": 33,
    "m.regnet_y_400mf(num_classes=4)": 40,
    "m.RegNet(m.regnet.BlockParams.from_init_params(5, 16, 9.0, 1.8, 12, 0.5), 3, 8)": 64,
    "m.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=4, representation_size=8)": 32,
    "m.VisionTransformer(32, 16, 1, 2, 16, 64, dropout=0.1, attention_dropout=0.1)": 32,
}


def build(lib, module, text):
    lib.manual_seed(4)
    return eval(text, {"m": module})


@pytest.mark.parametrize("text", MODELS)
def test_a_model_has_torchvisions_names_first_weights_and_outputs(torch, torchvision, text):
    size = MODELS[text]
    ours, theirs = build(weft, models, text), build(torch, torchvision.models, text)
    assert repr(ours) == repr(theirs)
    mine, given = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(given)
    for key, value in given.items():
        assert tuple(mine[key].shape) == tuple(value.shape)
        np.testing.assert_allclose(mine[key].numpy(), value.numpy(), 1e-5, 1e-6, err_msg=key)
    x = np.random.default_rng(1).normal(size=(2, 3, size, size)).astype(np.float32)
    ours.load_state_dict({k: weft.from_numpy(v.numpy()) for k, v in given.items()})
    out = ours.eval()(weft.from_numpy(x))
    with torch.no_grad():
        expected = theirs.eval()(torch.from_numpy(x)).numpy()
    scale = np.abs(expected).max() + 1e-3
    np.testing.assert_allclose(out.detach().numpy() / scale, expected / scale, 0, 2e-4)


def test_the_table_of_models_is_torchvisions(torch, torchvision):
    theirs = torchvision.models
    for name in models.list_models():
        ours, other = models.get_model_weights(name), theirs.get_model_weights(name)
        assert ours.__name__ == other.__name__ and name in theirs.list_models()
        for key, weights in ours.__members__.items():
            expected = other[key]
            assert weights.url == expected.url
            for fact in ("num_params", "min_size"):
                assert weights.meta[fact] == expected.meta[fact]
            assert repr(weights.transforms()) == repr(expected.transforms())
            assert repr(weights) == repr(expected)
    assert len(models.list_models(theirs.resnet)) == 7
    two = models.list_models(include=["a*", "mobile*"], exclude=["*3*"])
    assert two == ["alexnet", "mobilenet_v2"]


@pytest.fixture
def unfilled(monkeypatch):
    """Layers without first weights: they take no time, and no memory until they are read."""
    for name in ("constant", "kaiming_normal", "kaiming_uniform", "normal", "ones", "trunc_normal",
                 "uniform", "xavier_uniform", "zeros"):  # fmt: skip
        monkeypatch.setattr(weft.nn.init, f"{name}_", lambda tensor, *args, **kwargs: tensor)


@pytest.mark.filterwarnings("ignore:The default weight init:FutureWarning")
@pytest.mark.parametrize("name", models.list_models())
def test_each_model_has_torchvisions_layers_and_the_weights_parameters(
    torch, torchvision, unfilled, name
):
    ours = models.get_model(name)
    with torch.device("cpu" if "regnet" in name else "meta"):  # whose widths are read from tensors
        theirs = torchvision.models.get_model(name)
    assert repr(ours) == repr(theirs)
    shapes = [[(k, tuple(v.shape)) for k, v in m.state_dict().items()] for m in (ours, theirs)]
    assert shapes[0] == shapes[1]
    expected = models.get_model_weights(name).DEFAULT.meta["num_params"]
    counted = [p for n, p in ours.named_parameters() if not n.startswith("aux")]
    assert sum(p.numel() for p in counted) == expected  # which leave out heads on the way


def test_the_transforms_of_weights_are_torchvisions(torch, torchvision):
    x = np.random.default_rng(0).integers(0, 256, (3, 300, 260), dtype=np.uint8)
    ours = models.ResNet18_Weights.DEFAULT.transforms()(weft.from_numpy(x))
    theirs = torchvision.models.ResNet18_Weights.DEFAULT.transforms()(torch.from_numpy(x))
    assert np.abs(ours.numpy() - theirs.numpy()).max() < 0.03  # a step of bytes


def saved(folder, model, name):
    """A file of weights whose name has its sum, as `weights` expect it."""
    import hashlib

    path = folder / "checkpoints" / "x.pth"
    path.parent.mkdir()
    weft.save(model.state_dict(), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    return path.rename(path.with_name(f"{name}-{digest}.pth"))


def test_weights_that_are_there_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(weft.hub, "_folder", str(tmp_path))
    path = saved(tmp_path, models.mobilenet_v2(), "small")
    weights = models.MobileNet_V2_Weights.IMAGENET1K_V1
    monkeypatch.setattr(weights.value, "url", f"https://nowhere.invalid/{path.name}")
    given = weft.load(path)["classifier.1.weight"]
    for how in (weights, "IMAGENET1K_V1", "MobileNet_V2_Weights.IMAGENET1K_V1"):
        assert weft.equal(models.mobilenet_v2(weights=how).classifier[1].weight, given)
    with pytest.warns(UserWarning, match="deprecated"):
        assert weft.equal(models.mobilenet_v2(pretrained=True).classifier[1].weight, given)


def test_weights_that_cannot_be_fetched_say_where_they_belong(tmp_path, monkeypatch):
    def offline(url, *args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(weft.hub, "_folder", str(tmp_path))
    monkeypatch.setattr(weft.hub, "download_url_to_file", offline)
    with pytest.raises(RuntimeError, match=r"checkpoints/resnet18-f37072fd.pth.*put it there"):
        models.resnet18(weights=models.ResNet18_Weights.DEFAULT)


WRONG = [
    ("m.resnet18(weights=m.ResNet34_Weights.DEFAULT)", TypeError, "expected ResNet18_Weights"),
    ("m.resnet18(weights='X')", KeyError, "X"),
    ("m.resnet18(weights='DEFAULT', num_classes=3)", ValueError, "expected value 1000 but got 3"),
    ("m.resnet18(None, True, 3)", TypeError, ""),
    ("m.get_model('x')", ValueError, "Unknown model x"),
    ("m.get_weight('x')", ValueError, ""),
    ("m.ResNet(None, [1], replace_stride_with_dilation=[True])", ValueError, "3-element tuple"),
    ("m.resnet.BasicBlock(4, 4, groups=2)", ValueError, "only supports groups=1"),
    ("m.resnet.BasicBlock(4, 4, dilation=2)", NotImplementedError, "Dilation > 1"),
    ("m.vit_b_16(image_size=33)", AssertionError, "indivisible by patch size"),
    ("m.MobileNetV3([], 8)", ValueError, "should not be empty"),
    ("m.MobileNetV3([3], 8)", TypeError, "List[InvertedResidualConfig]"),
    ("m.mobilenetv3.InvertedResidual("
     "m.mobilenetv3.InvertedResidualConfig(8, 3, 8, 8, 0, '', 3, 1, 1), None)", ValueError,
     "illegal stride value"),
    ("m.SqueezeNet('2')", ValueError, "Unsupported SqueezeNet version 2"),
    ("m.EfficientNet([], 0.1)", ValueError, "should not be empty"),
    ("m.EfficientNet([3], 0.1)", TypeError, "List[MBConvConfig]"),
    ("m.efficientnet.MBConv(m.efficientnet.MBConvConfig(1, 3, 3, 8, 8, 1), 0.1, None)", ValueError,
     "illegal stride value"),
    ("m.ConvNeXt([])", ValueError, "should not be empty"),
    ("m.ConvNeXt([3])", TypeError, "List[CNBlockConfig]"),
    ("m.ShuffleNetV2([1], [1] * 5)", ValueError, "stages_repeats as list of 3"),
    ("m.ShuffleNetV2([1] * 3, [1])", ValueError, "stages_out_channels as list of 5"),
    ("m.shufflenetv2.InvertedResidual(8, 8, 4)", ValueError, "illegal stride value"),
    ("m.shufflenetv2.InvertedResidual(8, 6, 1)", ValueError, "Invalid combination of stride"),
    ("m.swin_transformer.ShiftedWindowAttention(8, [7], [0, 0], 2)", ValueError, "of length 2"),
    ("m.GoogLeNet(blocks=[1], init_weights=False)", ValueError, "should be 3 instead of 1"),
    ("m.MNASNet(0.0)", ValueError, "greater than 0.0 instead of 0.0"),
    ("m.mnasnet._InvertedResidual(8, 8, 3, 3, 1)", ValueError, "stride should be 1 or 2"),
    ("m.mnasnet._InvertedResidual(8, 8, 4, 1, 1)", ValueError, "kernel_size should be 3 or 5"),
    ("m.regnet.BlockParams.from_init_params(5, 9, 9.0, 1.8, 8)", ValueError, "Invalid RegNet"),
    ("m._utils.IntermediateLayerGetter(m.alexnet(), {'x': 'y'})", ValueError, "not present"),
    ("m.MobileNetV2(inverted_residual_setting=[])", ValueError, "4-element list"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("text", "error", "said"), WRONG, ids=[w[0] for w in WRONG])
def test_what_is_wrong_raises_as_in_torchvision(torchvision, text, error, said):
    for module in (models, torchvision.models):
        with pytest.raises(error) as caught, pytest.MonkeyPatch.context() as patch:
            patch.setattr("weft.hub.download_url_to_file", lambda *a, **k: None)
            eval(text, {"m": module})
        if module is models:
            assert said in str(caught.value)


def test_no_weights_by_the_older_names():
    with pytest.warns(UserWarning, match="deprecated"):
        assert models.resnet18(pretrained=False, num_classes=2).fc.out_features == 2
    with pytest.warns(UserWarning, match="deprecated"):
        models.mobilenet_v2(False)


def test_weights_and_models_are_pickled():
    weights = models.ResNet50_Weights.DEFAULT
    assert pickle.loads(pickle.dumps(weights)) is weights is models.ResNet50_Weights.IMAGENET1K_V2
    model = models.alexnet(num_classes=2)
    again = pickle.loads(pickle.dumps(model))
    assert weft.equal(again.classifier[-1].weight, model.classifier[-1].weight)
    assert models.get_weight("ResNet50_Weights.DEFAULT") is weights


def test_results_between_the_layers_of_a_model(torch, torchvision):
    found = []
    for lib, module in ((weft, models), (torch, torchvision.models)):
        model = build(lib, module, "m.resnet18(num_classes=3)").eval()
        if module is not models:
            given = build(weft, models, "m.resnet18(num_classes=3)").state_dict()
            model.load_state_dict({k: lib.from_numpy(v.numpy()) for k, v in given.items()})
        wanted = {"layer2": "b", "layer1": "a"}
        body = module._utils.IntermediateLayerGetter(model, wanted)
        assert list(body) == ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2"]
        assert wanted == {"layer2": "b", "layer1": "a"}
        out = body(lib.ones(1, 3, 33, 33))
        found.append((repr(body), {k: v.detach().numpy() for k, v in out.items()}))
    assert found[0][0] == found[1][0] and list(found[0][1]) == list(found[1][1]) == ["a", "b"]
    for name, value in found[0][1].items():
        np.testing.assert_allclose(value, found[1][1][name], 1e-4, 1e-4)


#: Models whose blocks are left out at random, and images of one size.
RANDOM = ["m.convnext_tiny(stochastic_depth_prob=0.5)", "m.efficientnet_b0(dropout=0.0)",
          "m.SwinTransformer([4, 4], 8, [2, 2], [1, 2], [4, 4], dropout=0.2)"]  # fmt: skip


@pytest.mark.parametrize("text", RANDOM)
def test_blocks_are_left_out_by_torchvisions_draws(torch, torchvision, text):
    drawn = []
    for lib, module in ((weft, models), (torch, torchvision.models)):
        model = build(lib, module, text).train()
        lib.manual_seed(2)
        model(lib.ones(2, 3, 32, 32))
        drawn.append(lib.rand(1).item())
    assert drawn[0] == drawn[1]


def test_a_model_is_made_without_values():
    with weft.device("meta"):
        assert models.regnet_x_400mf().fc.weight.device.type == "meta"


def test_heads_on_the_way_answer_while_training(torch, torchvision):
    text = "m.GoogLeNet(4, init_weights=False, dropout=0.0, dropout_aux=0.0)"
    ours, theirs = build(weft, models, text), build(torch, torchvision.models, text)
    ours.load_state_dict({k: weft.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(1).normal(size=(4, 3, 64, 64)).astype(np.float32)
    found, expected = ours(weft.from_numpy(x)), theirs(torch.from_numpy(x))
    assert found._fields == expected._fields
    for name in found._fields:
        one, other = (getattr(out, name).detach().numpy() for out in (found, expected))
        np.testing.assert_allclose(one, other, 0, 2e-3 * np.abs(other).max())


def test_weights_of_all_heads_are_loaded_and_heads_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(weft.hub, "_folder", str(tmp_path))
    path = saved(tmp_path, models.GoogLeNet(init_weights=False), "inception1")
    weights = models.GoogLeNet_Weights.DEFAULT
    monkeypatch.setattr(weights.value, "url", f"https://nowhere.invalid/{path.name}")
    model = models.googlenet(weights=weights)
    assert model.aux1 is None and not model.aux_logits and model.transform_input
    assert weft.equal(model.fc.weight, weft.load(path)["fc.weight"])
    assert models.googlenet(weights=weights, aux_logits=True).aux2 is not None


def test_a_model_trains():
    weft.manual_seed(0)
    model = models.mobilenet_v2(num_classes=2, width_mult=0.2, dropout=0.0)
    # SGD with momentum went up or down with the last bits that a processor computes.
    optimizer = weft.optim.Adam(model.parameters(), 1e-3)
    x, y = weft.randn(8, 3, 32, 32), weft.tensor([0, 1] * 4)
    x[1::2] += 1
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = weft.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
