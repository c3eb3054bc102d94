"""Adafactor and Muon: trajectories, state and refusals side by side with PyTorch's."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest

import weft

SIZES = {"Adafactor": [(3, 4), (5,), (), (2, 1, 3), (1, 7)], "Muon": [(4, 4), (6, 2), (2, 5)]}


def grid(name, **options):
    return [(name, dict(zip(options, values))) for values in itertools.product(*options.values())]


CASES = [
    *grid("Adafactor", weight_decay=[0, 0.1], maximize=[False, True], foreach=[None, True, False]),
    *grid("Adafactor", lr=[0.3, 5.0], beta2_decay=[-0.3, 0.0], eps=[(None, 0.1), (1e-2, 1e-3)]),
    *grid("Adafactor", d=[1.0, 3], lr=[0.1]),
    *grid("Muon", lr=[0.05], momentum=[0.0, 0.95], nesterov=[False, True], weight_decay=[0, 0.1]),
    *grid("Muon", adjust_lr_fn=[None, "original", "match_rms_adamw"], ns_steps=[0, 3]),
    ("Muon", {"lr": 0.1, "ns_coefficients": (2.0, -1.5, 0.5), "eps": 10.0}),
]
IDS = [f"{name} {case}" for name, case in CASES]
#: Muon's update is of bfloat16, whose rounding the steps of its iteration carry on.
TOLERANCES = {"Adafactor": dict(rtol=2e-5, atol=1e-6), "Muon": dict(rtol=1e-2, atol=1e-2)}


def run(t, name, case, dtype="float32", steps=6):
    rng = np.random.default_rng(0)
    params = [
        t.nn.Parameter(t.tensor(rng.normal(size=size), dtype=getattr(t, dtype)))
        for size in SIZES[name]
    ]
    opt = getattr(t.optim, name)(params, **case)
    values = []
    for step in range(steps):
        for i, p in enumerate(params):
            values_of_grad = rng.normal(size=tuple(p.shape)) * 10.0 ** (i - 1)
            p.grad = None if i == 2 and step < 2 else t.tensor(values_of_grad, dtype=p.dtype)
        opt.step()
        values.append([p.detach().numpy().copy() for p in params])
    return values, opt


def assert_agree(name, ours, theirs, **tolerance):
    (values, opt), (their_values, their_opt) = ours, theirs
    for step, (a, b) in enumerate(zip(values, their_values)):
        for x, y in zip(a, b):
            np.testing.assert_allclose(x, y, **tolerance, err_msg=f"step {step}")
    state, their_state = opt.state_dict()["state"], their_opt.state_dict()["state"]
    assert list(state) == list(their_state)
    for i, entry in state.items():
        assert list(entry) == list(their_state[i])
        for key, value in entry.items():
            other = their_state[i][key]
            assert tuple(value.shape) == tuple(other.shape), key
            assert str(value.dtype).split(".")[1] == str(other.dtype).split(".")[1], key
            np.testing.assert_allclose(value.numpy(), other.numpy(), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("name, case", CASES, ids=IDS)
def test_steps_and_state_are_those_of_torch(torch, name, case):
    ours, theirs = run(weft, name, case), run(torch, name, case)
    assert_agree(name, ours, theirs, **TOLERANCES[name])
    assert repr(ours[1]) == repr(theirs[1])


@pytest.mark.parametrize("case", [c for name, c in CASES if name == "Adafactor"], ids=str)
def test_adafactor_in_float64_is_that_of_torch(torch, case):
    ours, theirs = (run(t, "Adafactor", case, "float64", 20) for t in (weft, torch))
    assert_agree("Adafactor", ours, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", SIZES)
def test_a_learning_rate_tensor(torch, name):
    ours, theirs = (run(t, name, {"lr": t.tensor([0.05])}) for t in (weft, torch))
    assert_agree(name, ours, theirs, **TOLERANCES[name])


def test_muon_makes_singular_values_one():
    p = weft.nn.Parameter(weft.zeros(6, 3))
    p.grad = weft.tensor(np.random.default_rng(0).normal(size=(6, 3)), dtype=weft.float32)
    weft.optim.Muon([p], lr=1.0, adjust_lr_fn="original").step()
    lengths = weft.linalg.svdvals(p.detach()) / 2**0.5  # the rate is scaled by sqrt(6 / 3)
    assert (lengths - 1).abs().max() < 0.35


@pytest.mark.parametrize("name", SIZES)
def test_state_is_saved_and_loaded(name):
    (_, opt), (_, twin) = run(weft, name, {"lr": 0.1}), run(weft, name, {"lr": 0.3}, steps=1)
    for p, q in zip(*(o.param_groups[0]["params"] for o in (opt, twin))):
        q.data.copy_(p)
        q.grad = p.grad.clone()
    twin.load_state_dict(copy.deepcopy(opt.state_dict()))  # loading shares the tensors
    opt.step()
    twin.step()
    for p, q in zip(*(o.param_groups[0]["params"] for o in (opt, twin))):
        assert p.equal(q)


def leaf(t, *size, **options):
    return t.nn.Parameter(t.ones(*size, **options))


def stepped(t, name, *, sparse=False, **case):
    p = leaf(t, 2, 2, **({} if sparse else {"dtype": t.complex64}))
    p.grad = t.ones(2, 2).to_sparse() if sparse else t.ones_like(p)
    getattr(t.optim, name)([p], **case).step()


REFUSALS = {
    **{
        f"{name} {setting}={value}": lambda t, n=name, s=setting, v=value: getattr(t.optim, n)(
            [leaf(t, 2, 2)], **{s: v}
        )
        for name, setting, value in [
            ("Adafactor", "lr", -1),
            ("Adafactor", "beta2_decay", 0.1),
            ("Adafactor", "eps", (-1, 1)),
            ("Adafactor", "eps", (None, -1)),
            ("Adafactor", "d", 0.5),
            ("Adafactor", "weight_decay", -1),
            ("Muon", "lr", -1),
            ("Muon", "momentum", -1),
            ("Muon", "weight_decay", -1),
            ("Muon", "adjust_lr_fn", "other"),
        ]
    },
    "Adafactor lr": lambda t: t.optim.Adafactor([leaf(t, 2)], lr=t.ones(2)),
    "SparseAdam lr": lambda t: t.optim.SparseAdam([leaf(t, 2)], lr=t.ones(2)),
    "Muon lr": lambda t: t.optim.Muon([leaf(t, 2, 2)], lr=t.ones(2)),
    "Muon vector": lambda t: t.optim.Muon([leaf(t, 2)]),
    **{
        f"{name} {kind}": lambda t, name=name, sparse=kind == "sparse": stepped(
            t, name, sparse=sparse
        )
        for name in SIZES
        for kind in ("complex", "sparse")
    },
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refusals(torch, refusal):
    errors = []
    for t in (torch, weft):
        with pytest.raises(Exception) as caught:
            REFUSALS[refusal](t)
        errors.append(caught.value)
    assert isinstance(errors[1], type(errors[0])), errors
    assert str(errors[0]) in str(errors[1])


@pytest.mark.parametrize("case", [{"ns_steps": 100}, {"ns_coefficients": (1.0, 2.0)}], ids=str)
def test_a_refused_step_of_muon_changes_nothing(torch, case):
    for t in (torch, weft):
        p = leaf(t, 2, 2)
        p.grad = t.ones(2, 2)
        opt = t.optim.Muon([p], **case)
        with pytest.raises(ValueError, match="Number of steps must be|exactly 3 values"):
            opt.step()
        assert p.detach().tolist() == [[1, 1], [1, 1]]
    assert not opt.state


def test_sparse_adam_refuses_complex_parameters():
    with pytest.raises(ValueError, match="does not support complex parameters"):
        weft.optim.SparseAdam([leaf(weft, 2, dtype=weft.complex64)])
