"""Forward mode agrees with backward mode, for every differentiable op: (J v)·u = v·(Jᵀ u)."""

from typing import Any

import numpy as np
import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, ours

import weft


class Given(Inputs):
    """A sample whose differentiable tensors are those of the caller."""

    def __init__(self, leaves: list[Any], dtype: str, sample: str) -> None:
        super().__init__(weft, dtype, sample)
        self.given = iter(leaves)

    def T(self, *sizes: int, lo: float = -2, hi: float = 2) -> Any:
        super().T(*sizes, lo=lo, hi=hi)
        return next(self.given)


def values(ts: Any) -> list[Any]:
    return [t.detach().numpy() for t in ts]


@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_forward_mode_agrees_with_backward_mode(name: str, sample: str) -> None:
    """It takes backward twice: where parts of a gradient have no derivative at 0, that gave nan."""
    record = RECORDS[name]
    if not record["differentiable"] or record["random"]:
        pytest.skip("not differentiable, or other numbers each time")
    f = ours(record)
    plain = Inputs(weft, "float64", sample, grad=True)
    outputs = plain.run(f, sample)
    kept = [k for k, o in enumerate(outputs) if isinstance(o, weft.Tensor) and o.requires_grad]
    if not kept or any(o.isnan().any() for o in outputs if isinstance(o, weft.Tensor)):
        pytest.skip("nothing to differentiate")
    leaves = [t.detach() for t in plain.leaves]

    def run(*ts: Any) -> Any:
        found = Given([t.clone() for t in ts], "float64", sample).run(f, sample)
        return tuple(found[k] for k in kept)

    rng = np.random.default_rng(0)
    v = tuple(weft.tensor(rng.standard_normal(tuple(t.shape))) for t in leaves)
    primals = tuple(leaves)
    _, forward = weft.func.jvp(run, primals, v)
    made, pull = weft.func.vjp(run, *primals)
    u = tuple(weft.tensor(rng.standard_normal(tuple(t.shape))).to(t.dtype) for t in made)
    backward = pull(u)
    left = sum(np.vdot(a, b) for a, b in zip(values(u), values(forward), strict=True))
    right = sum(np.vdot(a, b) for a, b in zip(values(v), values(backward), strict=True))
    np.testing.assert_allclose(np.real(left), np.real(right), 1e-7, 1e-9)


def test_second_derivatives_of_logcumsumexp() -> None:
    """Its gradient took logarithms of gradients, which may be 0: forward over reverse gave nan."""
    x = weft.tensor([[0.3, 0.7, -900.0], [1.0, -1.0, 4.0]], dtype=weft.float64)
    found = weft.func.hessian(lambda z: z.logcumsumexp(1).sum())(x)
    step, rows = 1e-6, []
    for k in range(6):
        shift = weft.zeros(6, dtype=weft.float64)
        shift[k] = step
        after, before = (
            weft.func.grad(lambda z: z.logcumsumexp(1).sum())(x + s * shift.reshape(2, 3))
            for s in (1, -1)
        )
        rows.append(((after - before) / (2 * step)).reshape(-1))
    np.testing.assert_allclose(found.reshape(6, 6).numpy(), weft.stack(rows).numpy(), 1e-5, 1e-7)
