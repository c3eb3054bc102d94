"""Learning rate schedules, side by side with PyTorch's: the same floats."""

from __future__ import annotations

import sys
import warnings

import pytest

import weft
from weft import optim
from weft.optim import lr_scheduler


def leaf(t, *size):
    return t.nn.Parameter(t.ones(*size))


class Halving:
    """A schedule with a state."""

    def __init__(self):
        self.base = 0.5

    def __call__(self, epoch):
        return self.base**epoch


SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingLR 1": lambda s, o: s.CosineAnnealingLR(o, 1),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 1 - 0.05 * epoch),
    "MultiplicativeLR two": lambda s, o: s.MultiplicativeLR(o, [Halving(), lambda epoch: 0.9]),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], 0.3),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.9, 6),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 7, 1.7),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "CosineAnnealingWarmRestarts 1": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.3, 3, 2),
    "CyclicLR 2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.3, 0.4], 3, mode="triangular2"),
    "CyclicLR exp": lambda s, o: s.CyclicLR(o, 0.01, 0.3, 3, mode="exp_range", gamma=0.8),
    "CyclicLR own": lambda s, o: s.CyclicLR(
        o, 0.01, 0.3, 3, scale_fn=Halving(), cycle_momentum=False
    ),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, 15),
    "OneCycleLR 3": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.6], epochs=5, steps_per_epoch=3, three_phase=True, anneal_strategy="linear"
    ),
    "OneCycleLR no momentum": lambda s, o: s.OneCycleLR(o, 0.5, 14, cycle_momentum=False),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 3), s.CosineAnnealingLR(o, 5), s.ExponentialLR(o, 0.9)], [3, 8]
    ),
    "SequentialLR nested": lambda s, o: s.SequentialLR(
        o, [s.ChainedScheduler([s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.9)]),
            s.StepLR(o, 2, 0.5)], [4]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9), s.StepLR(o, 3)]
    ),
    "SWALR": lambda s, o: swa(s).SWALR(o, 0.05, 4),
    "SWALR linear": lambda s, o: swa(s).SWALR(o, [0.05, 0.5], 3, "linear"),
    "SWALR at once": lambda s, o: swa(s).SWALR(o, 0.05, 0),
    "LambdaLR two": lambda s, o: s.LambdaLR(o, [Halving(), lambda epoch: 0.1 * epoch]),
}  # fmt: skip


def swa(schedules):
    return (optim if schedules is lr_scheduler else sys.modules["torch.optim"]).swa_utils


def state_of(schedule):
    """The state without what PyTorch keeps to choose its functions."""
    state = schedule.state_dict()
    for part in [state, *state.get("_schedulers", [])]:
        for key in ("_scale_fn_ref",):
            part.pop(key, None)
    return state


def scheduled(t, name, lr=0.1):
    groups = [{"params": [leaf(t, 1)], "lr": 0.2}, {"params": [leaf(t, 1)]}]
    opt = t.optim.SGD(groups, lr=lr, momentum=0.5)
    return opt, SCHEDULES[name](t.optim.lr_scheduler, opt)


def settings(opt):
    return [{k: v for k, v in g.items() if k != "params"} for g in opt.param_groups]


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates(torch, name):
    def run(t):
        opt, schedule = scheduled(t, name)
        rates = [[g["lr"] for g in opt.param_groups] + schedule.get_last_lr()]
        for epoch in range(13):
            opt.step()
            if epoch == 8:  # someone else changes a rate
                opt.param_groups[0]["lr"] *= 2
            schedule.step()
            rates.append([g["lr"] for g in opt.param_groups] + schedule.get_last_lr())
        return rates, settings(opt), state_of(schedule)

    ours, theirs = run(weft), run(torch)
    assert ours == theirs


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_after_loading(torch, name):
    def run(t):
        opt, schedule = scheduled(t, name)
        for _ in range(4):
            opt.step()
            schedule.step()
        opt2, schedule2 = scheduled(t, name, lr=5.0)
        opt2.load_state_dict(opt.state_dict())
        schedule2.load_state_dict(schedule.state_dict())
        rates = []
        for _ in range(5):
            opt2.step()
            schedule2.step()
            rates.append(schedule2.get_last_lr())
        return rates

    assert run(weft) == run(torch)


@pytest.mark.parametrize("name", ["StepLR", "ExponentialLR", "CosineAnnealingLR"])
def test_rates_from_a_later_epoch(torch, name):
    makers = {
        "StepLR": lambda s, o: s.StepLR(o, 3, 0.5, last_epoch=6),
        "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9, last_epoch=6),
        "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01, last_epoch=6),
    }

    def run(t):
        opt = t.optim.SGD([{"params": [leaf(t, 1)], "initial_lr": 0.3}], lr=0.2)
        schedule = makers[name](t.optim.lr_scheduler, opt)
        rates = [schedule.get_last_lr()]
        for _ in range(4):
            opt.step()
            schedule.step()
            rates.append(schedule.get_last_lr())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            schedule.step(2)
        return [*rates, schedule.get_last_lr()]

    assert run(weft) == run(torch)


def test_a_rate_that_is_a_tensor(torch):
    def run(t):
        opt = t.optim.SGD([leaf(t, 1)], lr=t.tensor(0.5))
        rate = opt.param_groups[0]["lr"]
        schedule = t.optim.lr_scheduler.ExponentialLR(opt, 0.5)
        opt.step()
        schedule.step()
        assert opt.param_groups[0]["lr"] is rate
        return rate.item(), schedule.get_last_lr()[0].item()

    assert run(weft) == run(torch)


def test_the_order_of_steps_is_watched():
    opt, schedule = scheduled(weft, "StepLR")
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()
    for hook in (False, True):
        opt, schedule = scheduled(weft, "StepLR")
        if hook:
            opt.register_step_pre_hook(lambda *args: None)
        opt.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schedule.step()
    # After the first step the optimizer's own method is back.
    opt, schedule = scheduled(weft, "StepLR")
    opt.step()
    assert "step" not in opt.__dict__


def test_schedule_refusals():
    opt = optim.SGD([leaf(weft, 1)])
    with pytest.raises(KeyError, match="'initial_lr' is not specified"):
        lr_scheduler.StepLR(opt, 2, last_epoch=3)
    schedule = lr_scheduler.StepLR(opt, 2)
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()
    with pytest.raises(NotImplementedError):
        lr_scheduler.LRScheduler(optim.SGD([leaf(weft, 1)]))


PLATEAUS = [
    {},
    {"mode": "max", "patience": 1},
    {"patience": 2, "cooldown": 2, "factor": 0.5},
    {"threshold_mode": "abs", "threshold": 0.3, "patience": 0},
    {"mode": "max", "threshold_mode": "abs", "threshold": 0.3, "patience": 1},
    {"min_lr": [0.05, 0.001], "patience": 0},
    {"patience": 0, "eps": 0.05},
]


@pytest.mark.parametrize("case", PLATEAUS, ids=str)
def test_plateaus(torch, case):
    metrics = [3.0, 2.0, 2.0, 1.9, 1.95, 1.95, 1.95, 1.0, 1.1, 1.2, 1.2, 1.3, 0.9, 5, 5, 5, 5, 5]

    def run(t, lr=0.1):
        groups = [{"params": [leaf(t, 1)], "lr": 0.2}, {"params": [leaf(t, 1)]}]
        opt = t.optim.SGD(groups, lr=lr)
        schedule = t.optim.lr_scheduler.ReduceLROnPlateau(opt, **case)
        twin = t.optim.lr_scheduler.ReduceLROnPlateau(opt, **case)
        rates = []
        for i, metric in enumerate(metrics):
            if i == 9:
                twin.load_state_dict(schedule.state_dict())
                schedule = twin
            schedule.step(t.tensor(metric) if i % 2 else metric)
            rates.append(schedule.get_last_lr())
        return rates, schedule.state_dict()

    assert run(weft) == run(torch)


def test_one_cycle_turns_the_betas_of_adam(torch):
    def run(t):
        opt = t.optim.Adam([leaf(t, 1)], lr=0.1)
        schedule = t.optim.lr_scheduler.OneCycleLR(opt, 0.5, 6)
        seen = [opt.param_groups[0]["betas"]]
        for _ in range(6):
            opt.step()
            schedule.step()
            seen.append(opt.param_groups[0]["betas"])
        with pytest.raises(ValueError, match="Tried to step 7 times"):
            schedule.step()
        return seen

    assert run(weft) == run(torch)


def test_warm_restarts_at_fractions(torch):
    def run(t):
        opt = t.optim.SGD([leaf(t, 1)], lr=0.1)
        schedule = t.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 3, 2)
        rates = []
        for epoch in (0.5, 2.9, 3.0, 8.9, 9.1, 1.0):
            schedule.step(epoch)
            rates.append((schedule.get_last_lr(), schedule.T_i, schedule.last_epoch))
        with pytest.raises(ValueError, match="Expected non-negative epoch"):
            schedule.step(-1)
        return rates

    assert run(weft) == run(torch)


WRONG = {
    "constant": lambda s, o: s.ConstantLR(o, 2),
    "linear start": lambda s, o: s.LinearLR(o, 0),
    "linear end": lambda s, o: s.LinearLR(o, 0.5, 2),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, 3),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "restarts mult": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 0),
    "restarts eta": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 1, "a"),
    "cyclic mode": lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="square"),
    "cyclic groups": lambda s, o: s.CyclicLR(o, [0.1, 0.2, 0.3], 0.2),
    "cyclic rprop": lambda s, o: s.CyclicLR(
        type(o).__mro__[-2]([o.param_groups[0]["params"][0].detach()], {"lr": 1.0}), 0.1, 0.2
    ),
    "cyclic int": lambda s, o: s.CyclicLR(3, 0.1, 0.2),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.1),
    "one cycle 0": lambda s, o: s.OneCycleLR(o, 0.1, 0),
    "one cycle epochs": lambda s, o: s.OneCycleLR(o, 0.1, epochs=1.5, steps_per_epoch=2),
    "one cycle steps": lambda s, o: s.OneCycleLR(o, 0.1, epochs=1, steps_per_epoch=-2),
    "one cycle pct": lambda s, o: s.OneCycleLR(o, 0.1, 5, pct_start=2.0),
    "one cycle strategy": lambda s, o: s.OneCycleLR(o, 0.1, 5, anneal_strategy="log"),
    "plateau factor": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "plateau mode": lambda s, o: s.ReduceLROnPlateau(o, "mean"),
    "plateau threshold": lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="mean"),
    "plateau rates": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    "plateau int": lambda s, o: s.ReduceLROnPlateau(3),
    "sequential none": lambda s, o: s.SequentialLR(o, [], []),
    "sequential milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 2)], [2]),
    "sequential plateau": lambda s, o: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
    "sequential int": lambda s, o: s.SequentialLR(o, [3], []),
    "chained none": lambda s, o: s.ChainedScheduler([]),
    "chained plateau": lambda s, o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
    "swa strategy": lambda s, o: swa(s).SWALR(o, 0.1, 3, "log"),
    "swa epochs": lambda s, o: swa(s).SWALR(o, 0.1, -3),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_schedules_are_refused_in_torchs_words(torch, name):
    errors = []
    for t in (torch, weft):
        groups = [{"params": [leaf(t, 1)]}, {"params": [leaf(t, 1)]}]
        with pytest.raises((ValueError, TypeError)) as caught:
            WRONG[name](t.optim.lr_scheduler, t.optim.SGD(groups, lr=0.1))
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]) == str(errors[1])
