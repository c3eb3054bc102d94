"""A whole training step compiled is the step: weights, gradients, states of optimizers, what hooks
and errors say, step by step, and whatever changes between two steps."""

import os

import pytest

import weft
from weft import nn
from weft.nn import functional as F

STEPS = 24  # runs as it is, is traced, and runs by plan
needs_programs = pytest.mark.skipif(
    os.environ.get("WEFT_COMPILE") == "0", reason="programs are switched off"
)


class Kit:
    """A model, its optimizer, data, and a list for what a step has to tell."""

    def __init__(self, make=weft.optim.Adam, **settings):
        weft.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.opt = make(self.model.parameters(), **({"lr": 1e-2} | settings))
        self.x, self.y = weft.randn(5, 6), weft.randint(0, 3, (5,))
        self.told = []

    def loss(self):
        return F.cross_entropy(self.model(self.x), self.y)

    def tell(self, what):
        self.told.append(what)


def plain(kit):
    def step():
        kit.opt.zero_grad()
        loss = kit.loss()
        loss.backward()
        kit.opt.step()
        return loss

    return step


def clipped(kit):
    def step():
        kit.opt.zero_grad()
        loss = kit.loss()
        loss.backward()
        kit.tell(nn.utils.clip_grad_norm_(kit.model.parameters(), 0.1).item())
        kit.opt.step()
        return loss

    return step


def accumulated(kit):
    def step():
        kit.opt.zero_grad(set_to_none=False)
        before = [p.grad for p in kit.model.parameters()]
        for scale in (0.5, 0.25):
            loss = kit.loss() * scale
            loss.backward()
        kit.tell([p.grad is g for p, g in zip(kit.model.parameters(), before, strict=True)])
        kit.opt.step()
        return loss

    return step


def by_closure(kit):
    def closure():
        kit.opt.zero_grad()
        loss = kit.loss()
        loss.backward()
        return loss

    def step():
        return kit.opt.step(closure)

    return step


def two_optimizers(kit):
    first = weft.optim.SGD(kit.model[0].parameters(), lr=1e-2, momentum=0.9)
    second = weft.optim.RMSprop(kit.model[2].parameters(), lr=1e-3)

    def step():
        first.zero_grad()
        loss = kit.loss()
        loss.backward(retain_graph=True)
        first.step()
        second.zero_grad()
        loss = kit.loss() * 2
        loss.backward()
        second.step()
        return loss

    return step


def hooked(kit):
    weight = kit.model[0].weight
    weight.register_hook(lambda g: g * 0.5)
    weight.register_post_accumulate_grad_hook(lambda p: kit.tell(p.grad.sum().item()))
    kit.model[2].register_full_backward_hook(lambda m, i, o: kit.tell(o[0].sum().item()))
    return plain(kit)


def retained(kit):
    def step():
        kit.opt.zero_grad()
        hidden = kit.model[1](kit.model[0](kit.x))
        hidden.retain_grad()
        loss = F.cross_entropy(kit.model[2](hidden), kit.y)
        loss.backward()
        kit.tell(hidden.grad.sum().item())
        kit.opt.step()
        return loss

    return step


def tried(kit, first):
    """A step whose backward raises, after `first(kit)` has given the loss."""

    def step():
        kit.opt.zero_grad()
        loss = first(kit)
        try:
            loss.backward()
        except RuntimeError as error:
            kit.tell(str(error).split("\n")[0])
        kit.opt.step()
        return loss

    return step


def loss_gone_back_from(kit):
    loss = kit.loss()
    loss.backward()
    return loss


def loss_without_graph(kit):
    with weft.no_grad():
        return kit.loss()


def raising(kit):
    return tried(kit, loss_gone_back_from)


def without_graph(kit):
    return tried(kit, loss_without_graph)


def scaled(kit):
    def step():
        kit.opt.zero_grad()
        loss = kit.loss()
        (loss * 1024.0).backward()
        for p in kit.model.parameters():
            p.grad.mul_(1 / 1024.0)
            kit.tell(p.grad._version)
        kit.opt.step()
        return loss

    return step


MAKERS = [plain, clipped, accumulated, by_closure, two_optimizers, hooked, retained, raising,
          without_graph, scaled]  # fmt: skip


def bits(t):
    return None if t is None else t.detach().contiguous().view(-1).numpy().tobytes()


def state_of(kit):
    """What there is to see between two steps."""
    state = kit.opt.state_dict()
    return (
        [(bits(p), p._version) for p in kit.model.parameters()],
        [None if p.grad is None else (bits(p.grad), p.grad._version)
         for p in kit.model.parameters()],
        [{k: bits(v) for k, v in state["state"][i].items()} for i in sorted(state["state"])],
        [{k: v for k, v in group.items() if k != "params"} for group in state["param_groups"]],
        list(kit.told),
    )  # fmt: skip


def both(make, *args, **settings):
    kits = Kit(*args, **settings), Kit(*args, **settings)
    return kits, (weft.compile(make(kits[0])), make(kits[1]))


def run(kits, steps, count=STEPS):
    for _ in range(count):
        fast, slow = (step() for step in steps)
        assert bits(fast) == bits(slow)
        assert state_of(kits[0]) == state_of(kits[1])


@pytest.mark.parametrize("make", MAKERS)
def test_a_compiled_step_is_the_step(make):
    run(*both(make))


@pytest.mark.parametrize("foreach", [None, False, True])
@pytest.mark.parametrize(
    "make", [weft.optim.SGD, weft.optim.AdamW, weft.optim.Adagrad, weft.optim.RMSprop]
)
def test_every_way_of_an_optimizer(make, foreach):
    run(*both(plain, make, foreach=foreach, weight_decay=0.1))


CHANGES = {
    "setting": lambda kit: kit.opt.param_groups[0].update(weight_decay=0.1, betas=(0.8, 0.9)),
    "made of ops": lambda kit: kit.opt.param_groups[0].update(foreach=False),
    "state loaded": lambda kit: kit.opt.load_state_dict(kit.opt.state_dict()),
    "state gone": lambda kit: kit.opt.state.clear(),
    "frozen": lambda kit: kit.model[0].weight.requires_grad_(False),
    "hook": lambda kit: kit.model[0].weight.register_hook(lambda g: -g),
    "step hook": lambda kit: kit.opt.register_step_pre_hook(lambda *a: kit.tell("before")),
    "other weight": lambda kit: setattr(kit.model[2], "weight", nn.Parameter(weft.ones(3, 8))),
    "group": lambda kit: kit.opt.add_param_group({"params": [nn.Parameter(weft.ones(2))], "lr": 1}),
    "batch": lambda kit: kit.__dict__.update(x=kit.x[:3], y=kit.y[:3]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_between_steps_is_seen(change):
    kits, steps = both(plain)
    run(kits, steps)
    for kit in kits:
        CHANGES[change](kit)
    run(kits, steps)


def test_in_anomaly_mode():
    kits, steps = both(plain)
    run(kits, steps)
    with pytest.warns(UserWarning, match="Anomaly"), weft.autograd.detect_anomaly():
        run(kits, steps, 4)
    run(kits, steps)


@needs_programs
def test_a_schedule_compiles_nothing():
    kits, steps = both(plain)
    schedules = [weft.optim.lr_scheduler.StepLR(kit.opt, 1, gamma=0.9) for kit in kits]

    def known():
        places = [p for f in steps[0].explain().compiled for p in f.places]
        return len(places), sum(p.runs for p in places)

    run(kits, steps)
    places, runs = known()
    for _ in range(STEPS):
        for schedule in schedules:
            schedule.step()
        run(kits, steps, 1)
    assert known()[0] == places and known()[1] > runs
