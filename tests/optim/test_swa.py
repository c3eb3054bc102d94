"""Averaged models, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import weft


def net(t):
    made = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Linear(3, 1))
    made.register_buffer("count", t.zeros(2))
    return made


AVERAGES = {
    "equal": lambda u: {},
    "equal list": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()},
    "equal one": lambda u: {"avg_fn": u.get_swa_avg_fn(), "use_buffers": True},
    "ema": lambda u: {"avg_fn": u.get_ema_avg_fn(0.7)},
    "ema list": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.7), "use_buffers": True},
    "own": lambda u: {"avg_fn": lambda mean, now, count: mean * 0.5 + now / (1 + count)},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_those_of_torch(torch, name):
    def run(t):
        rng = np.random.default_rng(0)
        model = net(t)
        average = t.optim.swa_utils.AveragedModel(model, **AVERAGES[name](t.optim.swa_utils))
        for _ in range(4):
            with t.no_grad():
                for p in [*model.parameters(), *model.buffers()]:
                    p.copy_(t.tensor(rng.normal(size=tuple(p.shape)), dtype=t.float32))
            average.update_parameters(model)
        x = t.ones(1, 2)
        return average(x).tolist(), {k: v.tolist() for k, v in average.state_dict().items()}

    (y, state), (their_y, their_state) = run(weft), run(torch)
    assert list(state) == list(their_state)
    np.testing.assert_allclose(y, their_y, rtol=1e-5)
    for key in state:
        np.testing.assert_allclose(state[key], their_state[key], rtol=1e-5, atol=1e-7)


def test_the_average_is_a_model_of_its_own():
    model = net(weft)
    average = weft.optim.swa_utils.AveragedModel(model)
    average.update_parameters(model)
    with weft.no_grad():
        model[0].weight.add_(1)
    assert average.module[0].weight.tolist() != model[0].weight.tolist()
    assert average.module[0].weight.requires_grad


def test_refusals():
    utils = weft.optim.swa_utils
    with pytest.raises(ValueError, match="Invalid decay value 2 provided"):
        utils.get_ema_avg_fn(2)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        both = utils.get_ema_avg_fn(), utils.get_ema_multi_avg_fn()
        utils.AveragedModel(net(weft), None, *both)


def test_update_bn_leaves_a_model_without_statistics_alone():
    model = net(weft).eval()
    weft.optim.swa_utils.update_bn([weft.ones(1, 2)], model)
    assert not model.training
