"""Optimizers: trajectories, state and words side by side with PyTorch's."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from typing import ClassVar

import numpy as np
import pytest

import weft
from weft import optim
from weft.nn import Parameter

SIZES = [(3, 4), (5,), (), (2, 1, 3)]
STEPS = 6


def parameters(t, dtype="float32", sizes=SIZES):
    rng = np.random.default_rng(0)
    return [t.nn.Parameter(t.tensor(rng.normal(size=s), dtype=getattr(t, dtype))) for s in sizes]


def gradients(t, params, step):
    """Fill the gradients; one parameter has none at first, another one never."""
    rng = np.random.default_rng(step)
    for i, p in enumerate(params):
        values = rng.normal(size=tuple(p.shape))
        if i == 3 or (i == 2 and step < 2):
            p.grad = None
        else:
            p.grad = t.tensor(values, dtype=p.dtype)


def trajectory(t, make, dtype="float32", steps=STEPS):
    """The parameters after each step, and what the optimizer is then."""
    params = parameters(t, dtype)
    opt = make(t, params)
    values = []
    for step in range(steps):
        opt.zero_grad()
        gradients(t, params, step)
        opt.step()
        values.append([p.detach().numpy().copy() for p in params])
    return values, opt


def assert_close(ours, theirs, rtol, atol=1e-7):
    for step, (a, b) in enumerate(zip(ours, theirs)):
        for x, y in zip(a, b):
            np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, err_msg=f"step {step}")


def plain(value):
    """A state dictionary as NumPy arrays and built-in types."""
    if hasattr(value, "detach"):
        return str(value.dtype).split(".")[-1], tuple(value.shape), value.detach().numpy().copy()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def assert_same(a, b, rtol=1e-5):
    if isinstance(b, dict):
        assert list(a) == list(b)
        for key in b:
            assert_same(a[key], b[key], rtol)
    elif isinstance(b, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_same(x, y, rtol)
    elif isinstance(b, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-7)
    elif isinstance(b, float):
        assert a == pytest.approx(b, rel=1e-12)
    else:
        assert a == b


def grid(**options):
    names = list(options)
    return [dict(zip(names, values)) for values in itertools.product(*options.values())]


SGD_GRID = [
    case
    for case in grid(
        momentum=[0, 0.9],
        dampening=[0, 0.3],
        weight_decay=[0, 0.1],
        nesterov=[False, True],
        maximize=[False, True],
    )
    if not (case["nesterov"] and (not case["momentum"] or case["dampening"]))
]
ADAM_GRID = grid(weight_decay=[0, 0.1], amsgrad=[False, True], maximize=[False, True])
CASES = [("SGD", {"lr": 0.1, **case}) for case in SGD_GRID]
CASES += [("Adam", {"lr": 0.01, **case}) for case in ADAM_GRID]
CASES += [("AdamW", {"lr": 0.01, **case}) for case in ADAM_GRID]
CASES += [("Adam", {"betas": (0.5, 0.6), "eps": 1e-3, "decoupled_weight_decay": True})]
CASES += [("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}), ("AdamW", {})]
for name, options in {
    "RMSprop": dict(momentum=[0, 0.9], centered=[False, True], weight_decay=[0, 0.1]),
    "Adagrad": dict(lr_decay=[0, 0.1], weight_decay=[0, 0.1], initial_accumulator_value=[0, 0.5]),
    "Adadelta": dict(rho=[0.9, 0.5], weight_decay=[0, 0.1]),
    "Adamax": dict(betas=[(0.9, 0.999), (0.5, 0.6)], weight_decay=[0, 0.1]),
    "NAdam": dict(
        momentum_decay=[4e-3, 0.1], weight_decay=[0, 0.1], decoupled_weight_decay=[False, True]
    ),
    "RAdam": dict(betas=[(0.9, 0.999), (0.5, 0.6)], weight_decay=[0, 0.1],
                  decoupled_weight_decay=[False, True]),
    "ASGD": dict(t0=[1e6, 3], lambd=[1e-4, 0.1], weight_decay=[0, 0.1]),
    "Rprop": dict(etas=[(0.5, 1.2), (0.1, 3.0)], step_sizes=[(1e-6, 50), (0.01, 0.05)]),
}.items():  # fmt: skip
    CASES += [(name, case) for case in grid(**options)]
    CASES += [(name, {"lr": 0.03, "maximize": True})]
NAMES = list(dict.fromkeys(name for name, _ in CASES))
IDS = [name + " " + " ".join(f"{k}={v}" for k, v in case.items()) for name, case in CASES]


def maker(name, case, **more):
    return lambda t, params: getattr(t.optim, name)(params, **case, **more)


@pytest.mark.parametrize("name, case", CASES, ids=IDS)
def test_steps_are_those_of_torch(torch, name, case):
    theirs, their_opt = trajectory(torch, maker(name, case))
    for foreach in (None, False):
        ours, our_opt = trajectory(weft, maker(name, case, foreach=foreach))
        # a square less the square of the average is as good as nothing where they nearly cancel
        assert_close(ours, theirs, rtol=2e-5, atol=1e-4 if case.get("centered") else 1e-6)
        assert_same(plain(our_opt.state_dict()["state"]), plain(their_opt.state_dict()["state"]))
    twin = maker(name, case, foreach=False)(torch, parameters(torch))
    assert list(our_opt.state_dict()) == list(their_opt.state_dict())
    assert repr(our_opt) == repr(twin)


@pytest.mark.parametrize("name, case", CASES, ids=IDS)
def test_steps_in_float64_are_those_of_torch(torch, name, case):
    ours, our_opt = trajectory(weft, maker(name, case), "float64", 20)
    theirs, their_opt = trajectory(torch, maker(name, case), "float64", 20)
    assert_close(ours, theirs, rtol=1e-12, atol=1e-9 if case.get("centered") else 1e-13)
    assert repr(our_opt) == repr(their_opt)


@pytest.mark.parametrize("name, case", CASES, ids=IDS)
def test_the_fused_step_is_the_plain_one(name, case):
    fused, fused_opt = trajectory(weft, maker(name, case), "float64")
    simple, simple_opt = trajectory(weft, maker(name, case, foreach=False), "float64")
    assert_close(fused, simple, rtol=1e-12, atol=1e-14)
    a, b = plain(fused_opt.state_dict()), plain(simple_opt.state_dict())
    assert_same(a["state"], b["state"], rtol=1e-12)


HINTS = grid(foreach=[None, True], fused=[None, False]) + [{"fused": True}]


@pytest.mark.parametrize("hints", HINTS)
def test_hints_of_speed_change_nothing(hints):
    case = {"lr": 0.1, "momentum": 0.9}
    hinted, _ = trajectory(weft, maker("SGD", case, **hints))
    free, _ = trajectory(weft, maker("SGD", case))
    assert_close(hinted, free, rtol=0, atol=0)


@pytest.mark.parametrize("foreach", [None, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_learning_rate_tensor(torch, name, foreach):
    def make(t, params):
        return getattr(t.optim, name)(params, lr=t.tensor(0.05), foreach=foreach)

    ours, _ = trajectory(weft, make)
    theirs, _ = trajectory(torch, make)
    assert_close(ours, theirs, rtol=2e-5, atol=1e-6)


def test_groups_have_their_own_settings(torch):
    def make(t, params):
        groups = [{"params": params[:1], "lr": 0.5}, {"params": params[1:], "momentum": 0.9}]
        opt = t.optim.SGD(groups, lr=0.1)
        return opt

    ours, our_opt = trajectory(weft, make)
    theirs, their_opt = trajectory(torch, make)
    assert_close(ours, theirs, rtol=1e-5)
    assert_same(plain(our_opt.state_dict()), plain(their_opt.state_dict()))
    assert repr(our_opt) == repr(their_opt)


def test_a_group_that_comes_later(torch):
    def run(t):
        first, second = parameters(t, sizes=[(2,), (3,)])
        opt = t.optim.Adam([first], lr=0.1)
        for step in range(4):
            if step == 2:
                opt.add_param_group({"params": second, "lr": 0.2})
            gradients(t, [first, second], step)
            opt.step()
        return [[first.detach().numpy(), second.detach().numpy()]], opt

    (ours, our_opt), (theirs, their_opt) = run(weft), run(torch)
    assert_close(ours, theirs, rtol=1e-5)
    assert_same(plain(our_opt.state_dict()), plain(their_opt.state_dict()))


@pytest.mark.parametrize("name", NAMES)
def test_state_exchanged_by_hand_is_seen(name):
    """The step gathers anew: a list kept from the step before would miss all of these."""
    case = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
    key = getattr(optim, name)._buffers[0]

    def run(foreach):
        params = parameters(weft, "float64", [(2,), (3,)])
        opt = getattr(optim, name)(params, **case, foreach=foreach)
        for step in range(8):
            gradients(weft, params, step)
            if step == 2:  # a parameter replaced inside its group, its state moved
                new = Parameter(params[0].detach() * 2)
                opt.state[new] = opt.state.pop(params[0])
                opt.param_groups[0]["params"][0] = params[0] = new
                gradients(weft, params, step)
            if step == 4:  # a state tensor exchanged
                opt.state[params[1]][key] = weft.ones(3, dtype=weft.float64)
            if step == 5:  # all state forgotten
                opt.state.clear()
            if step == 6:  # the list of the group exchanged
                opt.param_groups[0]["params"] = [params[1]]
            opt.step()
        return [[p.detach().numpy() for p in params]]

    assert_close(run(None), run(False), rtol=1e-12)


def test_zero_grad():
    params = parameters(weft, sizes=[(2,), (2,)])
    opt = optim.SGD(params)
    params[0].grad = weft.ones(2)
    opt.zero_grad(set_to_none=False)
    assert params[0].grad.tolist() == [0, 0] and params[1].grad is None
    opt.zero_grad()
    assert params[0].grad is None


def test_zero_grad_cuts_the_gradient_off_its_graph():
    p = Parameter(weft.ones(2))
    (p * p).sum().backward(create_graph=True)
    assert p.grad.grad_fn is not None or p.grad.requires_grad
    optim.SGD([p]).zero_grad(set_to_none=False)
    assert p.grad.grad_fn is None and not p.grad.requires_grad


def test_a_step_is_not_recorded():
    p = Parameter(weft.ones(2))
    for foreach in (None, False):
        for make in (optim.SGD, optim.Adam):
            p.grad = weft.ones(2)
            make([p], lr=0.1, foreach=foreach).step()
            assert p.is_leaf and p.requires_grad and p.grad_fn is None


def test_closure():
    p = Parameter(weft.ones(1))
    opt = optim.SGD([p], lr=0.25)

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with weft.no_grad():
        assert opt.step(closure).item() == 1.0
    assert p.item() == 0.5
    assert opt.step() is None


# --- differentiable steps -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_gradients_through_steps(torch, name):
    def run(t):
        rng = np.random.default_rng(0)
        x = t.tensor(rng.normal(size=3), requires_grad=True)
        weight = x.clone()
        opt = getattr(t.optim, name)([weight], lr=0.1, differentiable=True)
        weight.grad = (x * x).sum() * t.ones(3, dtype=t.float64)
        opt.step()
        (weight * weight).sum().backward()
        return [[x.grad.numpy()]]

    # Beside differentiable parameters PyTorch computes the powers of betas in float32.
    assert_close(run(weft), run(torch), rtol=1e-9 if name == "SGD" else 1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_through_several_steps(name):
    """Against a difference quotient, with momentum from its first step on, unlike PyTorch."""

    def loss(x):
        weight = x.clone()
        case = {"SGD": {"momentum": 0.9, "nesterov": True}, "Adam": {"amsgrad": True}}.get(name, {})
        opt = getattr(optim, name)([weight], lr=0.07, differentiable=True, **case)
        for _ in range(3):
            weight.grad = weft.sin(x) * 2
            opt.step()
        return (weight * weight).sum()

    values = np.array([0.3, -0.7, 1.1])
    x = weft.tensor(values, requires_grad=True)
    loss(x).backward()
    for i in range(3):
        up, down = values.copy(), values.copy()
        up[i] += 1e-6
        down[i] -= 1e-6
        slope = (loss(weft.tensor(up)).item() - loss(weft.tensor(down)).item()) / 2e-6
        assert x.grad[i].item() == pytest.approx(slope, rel=1e-6)


# --- words --------------------------------------------------------------------------------------


def leaf(t, *size):
    return t.nn.Parameter(t.ones(*size))


def tensor_lr(t, opt, *size, **more):
    return getattr(t.optim, opt)([leaf(t, 2)], lr=t.ones(*size), **more)


def twice(t):
    p = leaf(t, 2)
    return t.optim.SGD([{"params": [p]}, {"params": [p]}])


REFUSALS = {
    "a tensor": lambda t, o: o(leaf(t, 2)),
    "nothing": lambda t, o: o([]),
    "an int": lambda t, o: o([3]),
    "a string": lambda t, o: o("abc"),
    "a dict": lambda t, o: o({"params": [leaf(t, 1)]}),
    "not a leaf": lambda t, o: o([leaf(t, 2) * 2]),
    "a set": lambda t, o: o([{"params": {leaf(t, 2)}}]),
    "two groups": lambda t, o: twice(t),
    "lr": lambda t, o: o([leaf(t, 2)], lr=-1),
    "lr of two": lambda t, o: o([leaf(t, 2)], lr=t.ones(2)),
    "lr tensor foreach": lambda t, o: t.optim.Adam([leaf(t, 2)], t.tensor(0.1), foreach=True),
    "weight_decay": lambda t, o: o([leaf(t, 2)], weight_decay=-1),
    "fused foreach": lambda t, o: o([leaf(t, 2)], fused=True, foreach=True),
    "fused differentiable": lambda t, o: o([leaf(t, 2)], fused=True, differentiable=True),
    "momentum": lambda t, o: t.optim.SGD([leaf(t, 2)], momentum=-1),
    "nesterov": lambda t, o: t.optim.SGD([leaf(t, 2)], nesterov=True),
    "nesterov dampening": lambda t, o: t.optim.SGD(
        [leaf(t, 2)], nesterov=True, momentum=0.9, dampening=0.1
    ),
    **{
        f"{name} {setting}": lambda t, o, name=name, setting=setting, value=value: getattr(
            t.optim, name
        )([leaf(t, 1)], **{setting: value})
        for name, setting, value in [
            ("RMSprop", "alpha", -1),
            ("RMSprop", "momentum", -1),
            ("RMSprop", "eps", -1),
            ("RMSprop", "lr", -1),
            ("Adagrad", "lr_decay", -1),
            ("Adagrad", "initial_accumulator_value", -1),
            ("Adadelta", "rho", 1.5),
            ("Adamax", "betas", (0.9, 1)),
            ("NAdam", "momentum_decay", -1),
            ("RAdam", "betas", (-1, 0.9)),
            ("ASGD", "weight_decay", -1),
            ("Rprop", "etas", (0.5, 0.9)),
            ("LBFGS", "lr", -1),
        ]
    },
    "LBFGS groups": lambda t, o: t.optim.LBFGS([{"params": [leaf(t, 1)]} for _ in "ab"]),
    "eps": lambda t, o: t.optim.Adam([leaf(t, 2)], eps=-1),
    "beta 1": lambda t, o: t.optim.Adam([leaf(t, 2)], betas=(1.0, 0.9)),
    "beta 2": lambda t, o: t.optim.Adam([leaf(t, 2)], betas=(0.9, 1.0)),
    "betas": lambda t, o: t.optim.Adam([leaf(t, 2)], betas=(t.tensor(0.9), 0.9)),
    "some names": lambda t, o: o([("a", leaf(t, 2)), leaf(t, 2)]),
    "names later": lambda t, o: o([{"params": [leaf(t, 1)]}, {"params": [("a", leaf(t, 1))]}]),
    "no names later": lambda t, o: o([{"params": [("a", leaf(t, 1))]}, {"params": [leaf(t, 1)]}]),
    "group int": lambda t, o: o([leaf(t, 1)]).add_param_group(3),
    "group twice": lambda t, o: (x := o([leaf(t, 1)])).add_param_group(
        {"params": x.param_groups[0]["params"]}
    ),
    "load other size": lambda t, o: o([leaf(t, 1)]).load_state_dict(
        o([leaf(t, 1), leaf(t, 1)]).state_dict()
    ),
    "load other groups": lambda t, o: o([leaf(t, 1)]).load_state_dict(
        o([{"params": leaf(t, 1)}, {"params": leaf(t, 1)}]).state_dict()
    ),
    "load nothing": lambda t, o: o([leaf(t, 1)]).load_state_dict({}),
    "unknown": lambda t, o: o([leaf(t, 1)], speed=3),
    "base step": lambda t, o: t.optim.Optimizer([leaf(t, 1)], {}).step(),
    "schedule of int": lambda t, o: t.optim.lr_scheduler.StepLR(3, 2),
    "lambdas": lambda t, o: t.optim.lr_scheduler.LambdaLR(o([leaf(t, 1)]), [abs, abs]),
}


def message(error):
    return re.sub(r"torch|weft", "", str(error))


@pytest.mark.parametrize("name", ["SGD", "Adam"])
@pytest.mark.parametrize("refusal", REFUSALS)
def test_refusals(torch, refusal, name):
    errors = []
    for t in (torch, weft):
        with pytest.raises(Exception) as caught:
            REFUSALS[refusal](t, getattr(t.optim, name))
        errors.append(caught.value)
    assert isinstance(errors[1], type(errors[0])), errors
    assert message(errors[1]) == message(errors[0])


def test_what_has_no_meaning_here_is_refused():
    with pytest.raises(RuntimeError, match=r"\[AdamW\] expected capturable=False, got True"):
        optim.AdamW([leaf(weft, 1)], capturable=True)


def test_required_settings():
    class Mine(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": optim.optimizer.required})

    with pytest.raises(ValueError, match="didn't specify a value of required optimization"):
        Mine([leaf(weft, 1)])
    assert Mine([{"params": [leaf(weft, 1)], "lr": 1}]).param_groups[0]["lr"] == 1


def test_a_parameter_twice_in_a_group_is_warned_about():
    p = leaf(weft, 1)
    with pytest.warns(UserWarning, match="parameter group with duplicate parameters"):
        optim.SGD([p, p])


# --- state --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_state_goes_from_torch_to_weft_and_back(torch, name):
    case = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
    if name in ("Adam", "AdamW"):
        case["amsgrad"] = True
    _, theirs = trajectory(torch, maker(name, case))
    moved = convert(theirs.state_dict(), weft)
    ours = maker(name, {"lr": 1.0})(weft, parameters(weft))
    ours.load_state_dict(moved)
    assert_same(plain(ours.state_dict()), plain(theirs.state_dict()))
    back = maker(name, {"lr": 1.0})(torch, parameters(torch))
    back.load_state_dict(convert(ours.state_dict(), torch))
    for opt, t in ((ours, weft), (back, torch)):
        params = opt.param_groups[0]["params"]
        gradients(t, params, 99)
        opt.step()
    assert_same(plain(ours.state_dict()), plain(back.state_dict()))


def convert(value, t):
    if hasattr(value, "detach"):
        return t.tensor(value.detach().numpy().copy())
    if isinstance(value, dict):
        return {k: convert(v, t) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(convert(v, t) for v in value)
    return value


def test_loading_converts_to_the_dtype_of_the_parameter(torch):
    def run(t):
        a = t.optim.Adam([leaf(t, 2)])
        a.param_groups[0]["params"][0].grad = t.ones(2)
        a.step()
        b = t.optim.Adam([t.nn.Parameter(t.ones(2, dtype=t.float64))])
        b.load_state_dict(a.state_dict())
        return plain(b.state_dict())

    assert_same(run(weft), run(torch))


def test_names_are_kept(torch):
    def run(t):
        named = t.optim.SGD([("a", leaf(t, 1)), ("b", leaf(t, 1))])
        plain_opt = t.optim.SGD([leaf(t, 1), leaf(t, 1)])
        other = t.optim.SGD([("x", leaf(t, 1)), ("y", leaf(t, 1))])
        other.load_state_dict(plain_opt.state_dict())
        plain_opt.load_state_dict(named.state_dict())
        return [o.state_dict() for o in (named, plain_opt, other)], [
            repr(o) for o in (named, plain_opt, other)
        ]

    assert_same(run(weft), run(torch))


def test_state_hooks(torch):
    def run(t):
        log = []
        opt = t.optim.SGD([leaf(t, 1)])
        opt.register_state_dict_pre_hook(lambda o: log.append("save"))
        opt.register_state_dict_post_hook(lambda o, sd: {**sd, "extra": 1})
        opt.register_state_dict_post_hook(lambda o, sd: log.append(sorted(sd)), prepend=True)
        opt.register_load_state_dict_pre_hook(lambda o, sd: {**sd, "state": {0: {"x": 1}}})
        opt.register_load_state_dict_post_hook(lambda o: log.append("loaded"))
        sd = opt.state_dict()
        opt.load_state_dict(sd)
        return log, sorted(sd), opt.state_dict()["state"]

    assert run(weft) == run(torch)


def test_step_hooks(torch):
    def run(t):
        log = []
        p = leaf(t, 1)
        opt = t.optim.SGD([p], lr=1.0)
        before = opt.register_step_pre_hook(lambda o, a, k: log.append((a[0] is o, len(a), k)))
        opt.register_step_post_hook(lambda o, a, k: log.append("after"))
        log.append(opt.step())
        log.append(opt.step(lambda: 5))
        log.append(opt.step(closure=lambda: 6))
        before.remove()
        opt.step()
        opt.register_step_pre_hook(lambda o, a, k: (a[:1], {"closure": lambda: 7}))
        log.append(opt.step())
        opt.register_step_pre_hook(lambda o, a, k: 3)
        with pytest.raises(RuntimeError, match="must return None or a tuple"):
            opt.step()
        return [x for x in log if not (isinstance(x, tuple) and "closure" in x[2])]

    assert run(weft) == run(torch)


def test_an_optimizer_without_hooks_does_not_pay():
    opt = optim.SGD([leaf(weft, 1)])
    assert "step" not in opt.__dict__
    own = opt.register_step_post_hook(lambda *args: None)
    every = optim.optimizer.register_optimizer_step_pre_hook(lambda *args: None)
    other = optim.SGD([leaf(weft, 1)])
    for handle in (own, every):
        opt.step()
        assert "step" in opt.__dict__
        handle.remove()
    for one in (opt, other):  # from the first step without hooks on it was as before, never
        one.step()
        assert "step" not in one.__dict__


@pytest.mark.parametrize("kind", ["pre", "post"])
def test_an_optimizer_whose_hooks_are_removed_does_not_pay(kind):
    """Every step went through the hooks' tables ever after."""
    register = getattr(optim.optimizer, f"register_optimizer_step_{kind}_hook")
    p = leaf(weft, 1)
    opt, seen = optim.SGD([p], lr=1.0), []
    own = opt.register_step_post_hook(lambda *args: seen.append("own"))
    handle = register(lambda *args: seen.append("all"))
    opt.step()
    handle.remove()
    opt.step()
    assert "step" in opt.__dict__ and sorted(seen) == ["all", "own", "own"]
    own.remove()
    assert opt.step(lambda: 5) == 5
    assert "step" not in opt.__dict__ and len(seen) == 3
    opt.register_step_post_hook(lambda *args: seen.append("new"))
    opt.step()
    assert seen[-1] == "new"


@pytest.mark.parametrize("make", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
@pytest.mark.parametrize("name", NAMES)
def test_copies_go_on_alone(name, make):
    params = parameters(weft, sizes=[(2,)])
    opt = getattr(optim, name)(params, lr=0.1)
    gradients(weft, params, 0)
    opt.step()
    twin = make(opt)
    other = twin.param_groups[0]["params"]
    assert other[0] is not params[0] and repr(twin) == repr(opt)
    for o, p in ((opt, params), (twin, other)):
        gradients(weft, p, 1)
        o.step()
    assert params[0].tolist() == other[0].tolist()
    assert_same(plain(opt.state_dict()), plain(twin.state_dict()))


def test_zero_grad_asks_the_class_that_says_what_grad_is():
    class Told(weft.nn.Parameter):
        written: ClassVar[list] = []

        @property
        def grad(self):
            return None

        @grad.setter
        def grad(self, value):
            self.written.append(value)

    class Heard(weft.nn.Parameter):
        written: ClassVar[list] = []

        def __setattr__(self, name, value):
            self.written.append((name, value))
            super().__setattr__(name, value)

    told, heard, plain = Told(weft.ones(2)), Heard(weft.ones(2)), weft.nn.Parameter(weft.ones(2))
    optimizer = weft.optim.SGD([told, heard, plain], lr=0.1)
    (told * heard * plain).sum().backward()
    optimizer.zero_grad()
    assert Told.written == [None] and Heard.written == [("grad", None)]
    assert heard.grad is None and plain.grad is None


def test_zero_grad_leaves_the_tensor_that_was_the_gradient():
    p = weft.nn.Parameter(weft.ones(2))
    optimizer = weft.optim.SGD([p], lr=0.1)
    (3 * p).sum().backward()
    grad = p.grad
    version = grad._version
    optimizer.zero_grad()
    assert p.grad is None and grad.tolist() == [3.0, 3.0] and grad._version == version


def test_a_group_whose_step_is_made_of_ops_is_asked_with_each_step():
    p, q = (weft.nn.Parameter(weft.ones(3)) for _ in range(2))
    optimizer = weft.optim.Adam([{"params": [p]}, {"params": [q]}], lr=0.1)
    plain = []
    optimizer._plain_step = plain.append
    p.grad = weft.ones(3)
    for setting, value in [("differentiable", True), ("differentiable", False), ("foreach", False)]:
        optimizer.param_groups[0][setting] = value
        optimizer.step()
    assert plain == [optimizer.param_groups[0]] * 2
    optimizer.param_groups[0]["fused"] = True
    optimizer.step()
    assert len(plain) == 2 and optimizer.state[p]["step"] == 2
    del optimizer.param_groups[0]["differentiable"]
    with pytest.raises(KeyError, match="differentiable"):
        optimizer.step()
