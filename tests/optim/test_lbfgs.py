"""L-BFGS beside PyTorch's: the same points, the same number of evaluations, the same state."""

from __future__ import annotations

import numpy as np
import pytest

import weft


def rosenbrock(t, a, b):
    return ((1 - a) ** 2).sum() + 100 * ((b - a * a) ** 2).sum()


def quartic(t, a, b):
    return (a**4).sum() + (a - 2 * b).pow(2).sum() + t.sin(3 * b).sum()


def ridge(t, a, b):
    return (a.abs() + 0.1).log().sum() + (b * b).sum() * 50 + t.exp(-a).sum()


CASES = [
    {},
    {"lr": 0.1},
    {"max_iter": 4, "history_size": 2},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "max_iter": 7, "history_size": 3, "lr": 0.5},
    {"line_search_fn": "strong_wolfe", "max_eval": 6},
    {"line_search_fn": "strong_wolfe", "lr": 30.0},
    {"tolerance_grad": 1e-1, "lr": 1e-2},
]


def run(t, loss, case, steps=6, state=None):
    rng = np.random.default_rng(3)
    a, b = (t.nn.Parameter(t.tensor(rng.normal(size=s) * 0.5)) for s in ((2, 2), (2,)))
    unused = t.nn.Parameter(t.tensor(rng.normal(size=1)))
    opt = t.optim.LBFGS([a, unused, b], **case)
    losses = []

    def closure():
        opt.zero_grad()
        value = loss(t, a, b)
        value.backward()
        losses.append(value.item())
        return value

    with np.errstate(all="ignore"):
        returned = [opt.step(closure).item() for _ in range(steps)]
    values = np.concatenate([p.detach().numpy().ravel() for p in (a, b)])
    return losses, returned, values, opt


@pytest.mark.parametrize("loss", [rosenbrock, quartic, ridge])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_path_is_that_of_torch(torch, case, loss):
    ours, theirs = run(weft, loss, case, 3), run(torch, loss, case, 3)
    n = min(len(ours[0]), len(theirs[0]))
    assert n > 1
    # Far along a path of many evaluations rounding may decide a comparison; not at its beginning.
    near = [i for i in range(n) if i < 20 and np.isfinite(theirs[0][i])]
    np.testing.assert_allclose(
        [ours[0][i] for i in near], [theirs[0][i] for i in near], rtol=1e-7, atol=1e-9
    )
    if n < 20:
        assert len(ours[0]) == len(theirs[0])
        np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-7, atol=1e-9)


def test_state_goes_both_ways(torch):
    case = {"line_search_fn": "strong_wolfe", "max_iter": 3}
    ours, theirs = run(weft, quartic, case, 1)[3], run(torch, quartic, case, 1)[3]
    mine, other = (o.state_dict()["state"][0] for o in (ours, theirs))
    assert sorted(mine) == sorted(other)
    assert mine["n_iter"] == other["n_iter"] and mine["func_evals"] == other["func_evals"]
    for key in ("d", "t", "H_diag", "prev_flat_grad", "prev_loss"):
        np.testing.assert_allclose(np.asarray(mine[key]), np.asarray(other[key]), rtol=1e-9)
    assert len(mine["old_dirs"]) == len(other["old_dirs"]) > 0


def test_it_goes_down():
    losses, returned, values, _ = run(weft, rosenbrock, {"line_search_fn": "strong_wolfe"}, 20)
    assert returned[0] == losses[0] and losses[-1] < 1e-8 * losses[0]


def test_a_closure_is_needed():
    with pytest.raises(TypeError, match="closure"):
        weft.optim.LBFGS([weft.nn.Parameter(weft.ones(1))]).step()


def test_only_one_line_search_is_known(torch):
    for t in (torch, weft):
        with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
            run(t, quartic, {"line_search_fn": "golden"})
