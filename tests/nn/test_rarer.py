"""Rarer layers beside PyTorch's: random windows, clusters of classes, orthogonal weights."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import weft

POOLS = {
    "2d": ("FractionalMaxPool2d(2, output_size=3)", (2, 3, 7, 8)),
    "2d ratio": ("FractionalMaxPool2d((3, 2), output_ratio=(0.5, 0.6))", (3, 9, 8)),
    "2d one": ("FractionalMaxPool2d(2, output_size=(1, 4))", (1, 2, 6, 7)),
    "2d indices": ("FractionalMaxPool2d(2, output_size=(3, 4), return_indices=True)", (2, 2, 6, 9)),
    "3d": ("FractionalMaxPool3d(2, output_size=(2, 3, 4))", (2, 3, 5, 6, 9)),
    "3d ratio": ("FractionalMaxPool3d(2, output_ratio=0.5, return_indices=True)", (2, 6, 8, 6)),
    "2d neither": ("FractionalMaxPool2d(2)", (2, 6, 6)),
    "2d both": ("FractionalMaxPool2d(2, output_size=2, output_ratio=0.5)", (2, 6, 6)),
    "2d great ratio": ("FractionalMaxPool2d(2, output_ratio=1.5)", (2, 6, 6)),
    "2d too many": ("FractionalMaxPool2d(3, output_size=5)", (2, 6, 6)),
    "2d no channels": ("FractionalMaxPool2d(2, output_size=2)", (0, 6, 6)),
}


@pytest.mark.parametrize("name", POOLS)
def test_fractional_pools(agree, numbers, name):
    text, shape = POOLS[name]

    def go(t):
        x = numbers(t, *shape).requires_grad_()
        out = eval("t.nn." + text, {"t": t})(x)
        values = out[0] if isinstance(out, tuple) else out
        (values * numbers(t, *values.shape)).sum().backward()
        return out, x.grad

    agree(go, messages=False)


def test_fractional_second_gradients(beside):
    for text in (
        "F.fractional_max_pool2d(M(1, 2, 6, 7), 2, 3, _random_samples=u(1, 2, 2))",
        "F.fractional_max_pool3d(M(2, 5, 4, 6), 2, 2, _random_samples=u(1, 2, 3))",
    ):
        text = f"(lambda F, u: {text}.square())(t.nn.functional, lambda *s: P(*s, lo=0, hi=1))"
        text = text.replace("hi=1)", "hi=1).detach()")
        beside.values(text)
        beside.gradients(text, 1)
        beside.gradients(text, 2)


ADAPTIVE = "AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs=[4, 10, 15], div_value=2.0)"
CLUSTERS = {
    "forward": lambda t, m, x: m(x, t.tensor([0, 5, 3, 19, 12, 14])),
    "forward head": lambda t, m, x: m(x, t.tensor([0, 1, 2, 3, 3, 0])),
    "forward one": lambda t, m, x: m(x[0], t.tensor(11)),
    "log_prob": lambda t, m, x: m.log_prob(x),
    "predict": lambda t, m, x: m.predict(x),
    "outside": lambda t, m, x: m(x, t.tensor([0, 5, 3, 20, 12, 14])),
    "too few": lambda t, m, x: m(x, t.tensor([0, 5])),
    "two targets": lambda t, m, x: m(x.reshape(2, 3, 16), t.zeros(2, 3, dtype=t.int64)),
    "gradients": lambda t, m, x: t.autograd.grad(
        m(x, t.tensor([0, 5, 3, 19, 12, 14])).loss, list(m.parameters())
    ),
    "no cutoffs": lambda t, m, x: t.nn.AdaptiveLogSoftmaxWithLoss(4, 5, []),
    "cutoff twice": lambda t, m, x: t.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2, 2]),
    "cutoff too great": lambda t, m, x: t.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2, 5]),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_clusters_of_classes(agree, numbers, name):
    def go(t):
        module = eval("t.nn." + ADAPTIVE, {"t": t})
        return repr(module), CLUSTERS[name](t, module, numbers(t, 6, 16))

    agree(go, messages=False)


ORTHOGONAL = [
    (shape, how, trivial)
    for shape in ((4, 4), (5, 3), (3, 5), (2, 4, 3))
    for how in (None, "matrix_exp", "cayley", "householder")
    for trivial in (True, False)
]


@pytest.mark.parametrize(("shape", "how", "trivial"), ORTHOGONAL)
def test_orthogonal_weights(torch, shape, how, trivial):
    found = []
    for t in (weft, torch):
        t.manual_seed(1)
        module = t.nn.Module()
        module.weight = t.nn.Parameter(t.randn(*shape, dtype=t.float64))
        t.nn.utils.parametrizations.orthogonal(module, "weight", how, use_trivialization=trivial)
        W = module.weight
        start = W.detach().numpy().copy()
        original = module.parametrizations.weight.original
        with t.no_grad():
            step = 0.1 * t.arange(original.numel(), dtype=t.float64).reshape(shape).sin()
            original += step * (1 - t.eye(*shape[-2:], dtype=t.float64))  # its diagonal holds signs
        moved = module.weight
        (moved * t.arange(moved.numel(), dtype=t.float64).reshape(shape).cos()).sum().backward()
        found.append([start, moved.detach().numpy(), original.grad.numpy()])
        found[-1].append(repr(module))
        if trivial:
            with t.no_grad():
                module.weight = t.eye(shape[-2], shape[-1], dtype=t.float64).expand(shape)
            found[-1].insert(3, module.weight.detach().numpy())
    for a, b in zip(found[0][:-1], found[1][:-1]):
        np.testing.assert_allclose(a, b, 1e-9, 1e-10)
        assert a.shape == shape
    rows = found[0][1]
    rows = np.swapaxes(rows, -1, -2) if shape[-2] > shape[-1] else rows
    eye = np.broadcast_to(np.eye(min(shape[-2:])), (*shape[:-2], *(min(shape[-2:]),) * 2))
    np.testing.assert_allclose(rows @ np.swapaxes(rows, -1, -2), eye, 0, 1e-12)


WRONG = {
    "name": lambda t, o: o(t.nn.Linear(3, 2), "other"),
    "vector": lambda t, o: o(t.nn.Linear(3, 2), "bias"),
    "map": lambda t, o: o(t.nn.Linear(3, 2), orthogonal_map="other"),
    "complex": lambda t, o: o(t.nn.Linear(3, 2, dtype=t.complex64), orthogonal_map="householder"),
    "assigned": lambda t, o: setattr(
        o(t.nn.Linear(3, 3), orthogonal_map="cayley", use_trivialization=False), "weight", t.eye(3)
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_orthogonal_errors(agree, name):
    agree(lambda t: WRONG[name](t, t.nn.utils.parametrizations.orthogonal), messages=False)


def test_fused_batch_norms(agree, fixed, numbers):
    def bn(t, module):
        fixed(module, t)
        for i, buffer in enumerate((module.running_mean, module.running_var)):
            buffer.copy_(numbers(t, *buffer.shape, low=0.5, high=1.5 + i))
        return module.eval()

    def go(t):
        u, nn = t.nn.utils.fusion if hasattr(t.nn.utils, "fusion") else t.nn.utils, t.nn
        conv = fixed(nn.Conv2d(2, 3, 3, bias=False), t).eval()
        norm = bn(t, nn.BatchNorm2d(3))
        x = numbers(t, 2, 2, 5, 5)
        fused = u.fuse_conv_bn_eval(conv, norm)
        assert float((fused(x) - norm(conv(x))).abs().max()) < 1e-5
        back = fixed(nn.ConvTranspose2d(2, 3, 3), t).eval()
        turned = u.fuse_conv_bn_eval(back, norm, transpose=True)
        assert float((turned(x) - norm(back(x))).abs().max()) < 1e-5
        linear = fixed(nn.Linear(4, 3), t).eval()
        plain = bn(t, nn.BatchNorm1d(3, affine=True))
        both = u.fuse_linear_bn_eval(linear, plain)
        return fused.weight, fused.bias, turned(x), both.weight, both.bias

    agree(go, rtol=1e-5)
    agree(lambda t: t.nn.utils.fusion.fuse_conv_bn_eval(t.nn.Conv1d(1, 1, 1), t.nn.BatchNorm1d(1)),
          messages=False)  # fmt: skip


def test_replicas_share_parameters_and_give_them_gradients():
    net = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.BatchNorm1d(2))
    copies = weft.nn.parallel.replicate(net, ["cpu", "cpu"])
    x, y = weft.rand(4, 3), weft.rand(5, 3)
    outs = weft.nn.parallel.parallel_apply(copies, [x, (y,)])
    (outs[0].square().sum() + outs[1].sum()).backward()
    assert copies[0][1].running_mean is net[1].running_mean and copies[1] is not net
    got, net[0].weight.grad = net[0].weight.grad, None
    (net(x).square().sum() + net(y).sum()).backward()
    weft.testing.assert_close(got, net[0].weight.grad)
    frozen = weft.nn.parallel.replicate(net, ["cpu"], detach=True)[0]
    assert not any(p.requires_grad for p in frozen.parameters())


@pytest.mark.parametrize(
    "text",
    ["parallel_apply([abs], [])", "parallel_apply([abs], [1], [{}, {}])", "replicate(None, [0])"],
)
def test_replicas_that_are_refused(text):
    with pytest.raises((AssertionError, RuntimeError)):
        eval(text, vars(weft.nn.parallel))


def test_data_parallel_is_the_module(agree, numbers):
    def go(t):
        t.manual_seed(0)
        # device_ids=[0] raised, where PyTorch without accelerators does not read it.
        net = t.nn.DataParallel(t.nn.Linear(3, 2), device_ids=[0, 1], output_device=0)
        state = net.state_dict()
        t.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        return net(numbers(t, 4, 3)), list(net.state_dict()), list(state)

    agree(go)


def test_paths_of_pytorchs_files(torch):
    from weft.nn.modules.batchnorm import _BatchNorm
    from weft.nn.modules.conv import Conv2d

    from weft.nn.modules.utils import _ntuple, _pair

    assert isinstance(weft.nn.BatchNorm2d(2), _BatchNorm) and Conv2d is weft.nn.Conv2d
    assert _pair((1, 2)) == (1, 2) and _ntuple(5)(0) == (0,) * 5
    for name in ("activation", "batchnorm", "container", "conv", "linear", "loss", "rnn"):
        theirs, ours = getattr(torch.nn.modules, name), getattr(weft.nn.modules, name)
        missing = [n for n, v in vars(theirs).items()
                   if not n.startswith("_") and getattr(v, "__module__", "") == theirs.__name__
                   and n not in vars(ours)]  # fmt: skip
        known = {"Container", "NLLLoss2d", "LinearCrossEntropyLoss", "SyncBatchNorm", "T",
                 "LazyLinear", "NonDynamicallyQuantizableLinear", "LazyBatchNorm1d",
                 "apply_permutation"}  # fmt: skip
        assert set(missing) <= known, (name, missing)
    module = weft.nn.DataParallel(weft.nn.modules.linear.Linear(1, 1))
    assert repr(pickle.loads(pickle.dumps(module))) == repr(module)


def test_skip_init_draws_nothing():
    weft.manual_seed(0)
    expected = weft.rand(1).item()
    weft.manual_seed(0)
    module = weft.nn.utils.skip_init(weft.nn.Linear, 3, 2, bias=False)
    assert module.bias is None and weft.rand(1).item() == expected
    with pytest.raises(RuntimeError, match="Expected a Module"):
        weft.nn.utils.skip_init(dict)


@pytest.mark.parametrize("name", [name for name in dir(weft.nn) if name.startswith("Lazy")])
def test_a_lazy_layer_takes_pytorchs_arguments(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (
        [(p.name, p.kind, p.default) for p in inspect.signature(layer).parameters.values()]
        for layer in (getattr(weft.nn, name), getattr(torch.nn, name))
    )
    assert ours == theirs
