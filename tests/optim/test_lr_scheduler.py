"""Learning rate schedules, side by side with PyTorch's: the same floats."""

from __future__ import annotations

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
    "LambdaLR two": lambda s, o: s.LambdaLR(o, [Halving(), lambda epoch: 0.1 * epoch]),
}


def scheduled(t, name, lr=0.1):
    groups = [{"params": [leaf(t, 1)], "lr": 0.2}, {"params": [leaf(t, 1)]}]
    opt = t.optim.SGD(groups, lr=lr)
    return opt, SCHEDULES[name](t.optim.lr_scheduler, opt)


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
        return rates, schedule.state_dict()

    (ours, our_state), (theirs, their_state) = run(weft), run(torch)
    assert ours == theirs
    assert our_state == their_state


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
