"""Parametrizations, normalised weights, pruning and functional calls, beside PyTorch's."""

from __future__ import annotations

import copy
import importlib
import re
import warnings

import numpy as np
import pytest

import weft


def seeded(t):
    importlib.import_module(f"{t.__name__}.nn.utils.prune")
    t.manual_seed(3)
    return t.nn.Linear(4, 3)


def values(x):
    if hasattr(x, "detach"):
        return x.detach().numpy().copy()
    if isinstance(x, dict):
        return {k: values(v) for k, v in x.items()}
    return [values(v) for v in x] if isinstance(x, list | tuple) else x


def assert_same(a, b):
    if isinstance(b, dict):
        assert list(a) == list(b)
        for key in b:
            assert_same(a[key], b[key])
    elif isinstance(b, list):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_same(x, y)
    elif isinstance(b, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    else:
        assert a == b


def modules(t):
    class Symmetric(t.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x):
            return x.triu()

    class Scale(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = t.nn.Parameter(t.tensor(2.0))

        def forward(self, x):
            return x * self.factor

        def right_inverse(self, x):
            return x / self.factor

    class Sum(t.nn.Module):
        def forward(self, a, b):
            return a + b

        def right_inverse(self, x):
            return x * 0.25, x * 0.75

    class Blind(t.nn.Module):
        def forward(self, x):
            return x + 1

    class Cut(t.nn.Module):
        def forward(self, x):
            return x[:1]

    return Symmetric, Scale, Sum, Blind, Cut


def look(t, net):
    """Everything that can be seen of a module, and its gradients."""
    weight = net.weight
    net.zero_grad()
    net(t.ones(2, 4)).pow(2).sum().backward()
    grads = {name: p.grad for name, p in net.named_parameters()}
    return values([weight, net.state_dict(), grads, net(t.ones(1, 4)), type(net).__name__])


@pytest.mark.parametrize("kinds", [(1,), (2,), (3,), (1, 3), (2, 1), (1, 1, 3)], ids=str)
def test_parametrizations_are_those_of_torch(torch, kinds):
    def run(t):
        tools = t.nn.utils.parametrize
        net, made = seeded(t), modules(t)
        seen = []
        for kind in kinds:
            tools.register_parametrization(net, "weight", made[kind]())
            seen.append(look(t, net))
        seen.append(look(t, copy.deepcopy(net)))
        if 3 not in kinds:
            net.weight = t.arange(12.0).view(3, 4)
            seen.append(look(t, net))
        opt = t.optim.SGD(net.parameters(), lr=0.1)
        opt.step()
        seen.append(look(t, net))
        with tools.cached():
            assert net.weight is net.weight
        assert net.weight is not net.weight
        seen += [tools.is_parametrized(net), tools.is_parametrized(net, "bias")]
        seen.append(tools.type_before_parametrizations(net).__name__)
        tools.remove_parametrizations(net, "weight")
        seen += [look(t, net), tools.is_parametrized(net)]
        return seen

    assert_same(run(weft), run(torch))


def test_the_original_can_be_left(torch):
    def run(t):
        net = seeded(t)
        t.nn.utils.parametrize.register_parametrization(net, "weight", modules(t)[3]())
        t.nn.utils.parametrize.remove_parametrizations(net, "weight", leave_parametrized=False)
        return look(t, net)

    assert_same(run(weft), run(torch))


def test_buffers_and_transfers(torch):
    def run(t):
        tools = t.nn.utils.parametrize
        net, other = seeded(t), t.nn.Linear(4, 3)
        net.register_buffer("scale", t.ones(3))
        tools.register_parametrization(net, "scale", modules(t)[3]())
        tools.register_parametrization(net, "weight", modules(t)[1]())
        tools.transfer_parametrizations_and_params(net, other, "weight")
        other.bias.data.zero_()
        return values([net.scale, net.state_dict(), other.state_dict(), other.weight])

    assert_same(run(weft), run(torch))


REFUSALS = {
    "no tensor": lambda t, p, m, net: p.register_parametrization(net, "wait", m[1]()),
    "shape": lambda t, p, m, net: p.register_parametrization(net, "weight", m[4]()),
    "not parametrized": lambda t, p, m, net: p.remove_parametrizations(net, "weight"),
    "sequence": lambda t, p, m, net: p.remove_parametrizations(
        p.register_parametrization(net, "weight", m[2]()), "weight", leave_parametrized=False
    ),
    "another inverse's shape": lambda t, p, m, net: inverse(t, p, net, lambda x: x[0]),
    "another inverse's dtype": lambda t, p, m, net: inverse(t, p, net, lambda x: x.double()),
    "another inverse's type": lambda t, p, m, net: inverse(t, p, net, lambda x: [x]),
    "blind": lambda t, p, m, net: setattr(
        p.register_parametrization(net, "weight", m[3]()), "weight", t.ones(3, 4)
    ),
    "pickle": lambda t, p, m, net: p.register_parametrization(net, "weight", m[3]()).__getstate__(),
    "spectral": lambda t, p, m, net: t.nn.utils.parametrizations.spectral_norm(net, "wait"),
    "spectral 0": lambda t, p, m, net: t.nn.utils.parametrizations.spectral_norm(
        net, n_power_iterations=0
    ),
    "spectral dim": lambda t, p, m, net: t.nn.utils.parametrizations.spectral_norm(net, dim=3),
    "old spectral 0": lambda t, p, m, net: t.nn.utils.spectral_norm(net, n_power_iterations=0),
    "old spectral twice": lambda t, p, m, net: t.nn.utils.spectral_norm(
        t.nn.utils.spectral_norm(net)
    ),
    "old weight twice": lambda t, p, m, net: t.nn.utils.weight_norm(t.nn.utils.weight_norm(net)),
    "no old weight": lambda t, p, m, net: t.nn.utils.remove_weight_norm(net),
    "no old spectral": lambda t, p, m, net: t.nn.utils.remove_spectral_norm(net),
    "prune amount": lambda t, p, m, net: t.nn.utils.prune.l1_unstructured(net, "weight", 1.5),
    "prune count": lambda t, p, m, net: t.nn.utils.prune.l1_unstructured(net, "weight", 50),
    "prune type": lambda t, p, m, net: t.nn.utils.prune.l1_unstructured(net, "weight", "a"),
    "prune negative": lambda t, p, m, net: t.nn.utils.prune.l1_unstructured(net, "weight", -1),
    "prune flat": lambda t, p, m, net: t.nn.utils.prune.ln_structured(net, "bias", 1, 2, 0),
    "prune nothing": lambda t, p, m, net: t.nn.utils.prune.remove(net, "weight"),
    "prune global": lambda t, p, m, net: t.nn.utils.prune.global_unstructured(
        [(net, "weight")], t.nn.utils.prune.LnStructured, amount=1, n=2
    ),
    "call": lambda t, p, m, net: t.func.functional_call(
        net, {"wait": t.ones(1), **dict(net.named_parameters())}, t.ones(1, 4), strict=True
    ),
    "call strict": lambda t, p, m, net: t.func.functional_call(
        net, {"weight": t.ones(3, 4)}, t.ones(1, 4), strict=True
    ),
    "call twice": lambda t, p, m, net: t.func.functional_call(
        net, [{"bias": t.ones(3)}, {"bias": t.ones(3)}], t.ones(1, 4)
    ),
}


def inverse(t, p, net, right_inverse):
    """A second parametrization, whose `right_inverse` is looked at too."""
    for how in (lambda x: x, right_inverse):
        module = t.nn.Identity()
        module.right_inverse = how
        p.register_parametrization(net, "weight", module)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_of_torchs_type(torch, name):
    errors = []
    for t in (torch, weft):
        with pytest.raises(Exception) as caught:
            REFUSALS[name](t, t.nn.utils.parametrize, modules(t), seeded(t))
        errors.append(caught.value)
    assert isinstance(errors[1], type(errors[0])), errors
    words = [set(re.findall(r"[a-z_]{4,}", str(e))) for e in errors]
    assert words[0] & words[1], errors


NORMS = {
    "weight": lambda u, net: u.parametrizations.weight_norm(net),
    "weight 1": lambda u, net: u.parametrizations.weight_norm(net, dim=1),
    "weight None": lambda u, net: u.parametrizations.weight_norm(net, dim=None),
    "spectral": lambda u, net: u.parametrizations.spectral_norm(net),
    "spectral 3": lambda u, net: u.parametrizations.spectral_norm(net, n_power_iterations=3, dim=1),
    "old weight": lambda u, net: u.weight_norm(net),
    "old weight 1": lambda u, net: u.weight_norm(net, dim=1),
    "old weight None": lambda u, net: u.weight_norm(net, dim=None),
    "old spectral": lambda u, net: u.spectral_norm(net),
    "old spectral 2": lambda u, net: u.spectral_norm(net, n_power_iterations=2, dim=1),
}


@pytest.mark.parametrize("name", NORMS)
def test_normalised_weights_are_those_of_torch(torch, name):
    def run(t):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = NORMS[name](t.nn.utils, seeded(t))
        seen = [look(t, net)]
        opt = t.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            opt.zero_grad()
            net(t.ones(2, 4)).pow(2).sum().backward()
            opt.step()
        net.eval()
        seen.append(look(t, net))
        seen.append(values(net(t.ones(1, 4))))
        if name.startswith("old weight"):
            t.nn.utils.remove_weight_norm(net)
        elif name.startswith("old"):
            t.nn.utils.remove_spectral_norm(net)
        else:
            t.nn.utils.parametrize.remove_parametrizations(net, "weight")
        return [*seen, look(t, net)]

    assert_same(run(weft), run(torch))


PRUNINGS = {
    "identity": lambda p, net: p.identity(net, "weight"),
    "random": lambda p, net: p.random_unstructured(net, "weight", 0.4),
    "l1": lambda p, net: p.l1_unstructured(net, "weight", 5),
    "l1 share": lambda p, net: p.l1_unstructured(net, "weight", 0.5),
    "l1 nothing": lambda p, net: p.l1_unstructured(net, "weight", 0),
    "random channels": lambda p, net: p.random_structured(net, "weight", 2, 1),
    "ln": lambda p, net: p.ln_structured(net, "weight", 1, 2, 0),
    "ln 1": lambda p, net: p.ln_structured(net, "weight", 0.5, 1, -1),
    "mask": lambda p, net: p.custom_from_mask(net, "weight", (net.weight > 0).detach()),
    "twice": lambda p, net: p.l1_unstructured(p.l1_unstructured(net, "weight", 3), "weight", 0.5),
    "channel after": lambda p, net: p.ln_structured(
        p.ln_structured(net, "weight", 1, 2, 0), "weight", 1, 2, 0
    ),
    "scores": lambda p, net: p.l1_unstructured(
        net, "weight", 4, importance_scores=-net.weight.abs() + 10
    ),
    "global": lambda p, net: p.global_unstructured(
        [(net, "weight"), (net, "bias")], p.L1Unstructured, amount=6
    ),
    "global twice": lambda p, net: [
        p.global_unstructured([(net, "weight"), (net, "bias")], p.L1Unstructured, amount=0.3)
        for _ in range(2)
    ],
}


@pytest.mark.parametrize("name", PRUNINGS)
def test_prunings_are_those_of_torch(torch, name):
    def run(t):
        prune = t.nn.utils.prune
        net = seeded(t)
        PRUNINGS[name](prune, net)
        seen = [look(t, net), prune.is_pruned(net), [n for n, _ in net.named_buffers()]]
        t.optim.SGD(net.parameters(), lr=0.1).step()
        seen.append(look(t, net))
        prune.remove(net, "weight")
        return [*seen, look(t, net)]

    assert_same(run(weft), run(torch))


def test_a_method_of_ones_own(torch):
    def run(t):
        class Even(t.nn.utils.prune.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, tensor, default_mask):
                mask = default_mask.clone()
                mask.view(-1)[::2] = 0
                return mask

        net = seeded(t)
        Even.apply(net, "weight")
        return [look(t, net), values(Even().prune(t.ones(4)))]

    assert_same(run(weft), run(torch))


class TestFunctionalCall:
    def test_values_and_gradients(self, torch):
        def run(t):
            t.manual_seed(1)
            net = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 2))
            before = values(net.state_dict())
            other = {k: (v * 2).detach().requires_grad_() for k, v in net.named_parameters()}
            y = t.func.functional_call(net, other, (t.ones(2, 3),))
            y.sum().backward()
            assert_same(values(net.state_dict()), before)
            assert all(p.grad is None for p in net.parameters())
            part = t.func.functional_call(net, [{"0.bias": t.zeros(4)}, {}], t.ones(2, 3))
            return values([y, {k: v.grad for k, v in other.items()}, part])

        assert_same(run(weft), run(torch))

    def test_tied_weights(self, torch):
        def run(t):
            class Tied(t.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.a = t.nn.Linear(2, 2, bias=False)
                    self.b = self.a

                def forward(self, x):
                    return self.a(x) + 2 * self.b(x)

            net = Tied()
            given = {"a.weight": t.ones(2, 2)}
            seen = values([t.func.functional_call(net, given, t.ones(1, 2))])
            with pytest.raises(ValueError):
                both = {"a.weight": t.ones(2, 2), "b.weight": t.zeros(2, 2)}
                t.func.functional_call(net, both, t.ones(1, 2))
            return seen

        assert_same(run(weft), run(torch))

    def test_a_buffer_that_forward_replaces(self, torch):
        def run(t):
            class Count(t.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("n", t.zeros(1))

                def forward(self, x, *, by=1):
                    self.n = self.n + by
                    return x * self.n

            net, given = Count(), {"n": t.ones(1)}
            y = t.func.functional_call(net, given, t.ones(1), {"by": 2})
            return values([y, given, net.n])

        assert_same(run(weft), run(torch))

    def test_an_error_leaves_the_module_as_it_was(self):
        net = seeded(weft)
        weight = net.weight
        with pytest.raises(RuntimeError):
            weft.func.functional_call(net, {"weight": weft.ones(5, 5)}, weft.ones(1, 4))
        assert net.weight is weight
