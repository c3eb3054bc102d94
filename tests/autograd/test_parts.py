"""Gradients that fill a part of a tensor are added where they belong (Note [Sums of parts])."""

from typing import Any

import numpy as np
import pytest

import weft

USES = [
    "x[0] * 2",
    "x[-1] * x[-1] + x[0]",
    "x[1:3].sum(0) + x[2]",
    "x[:, 1] * x[:, 1:2].T[0]",
    "x[::2].exp().sum(0) + x[1] * x[3]",
    "x[0, 1:3] + x[1:3, 0]",
    "x.sum(0) + x[0] + x[1:].sum(0)",
    "x[3:3].sum(0) + x[0]",
    "torch.stack([row * k for k, row in enumerate(x)]).sum(0)",
    "sum(x[k % 4] * k for k in range(9))",
    "(x * 1.5)[0] + (x * 2)[1:2].sum(0)",
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "complex128"])
@pytest.mark.parametrize("text", USES)
def test_gradients_of_parts(torch: Any, text: str, dtype: str) -> None:
    results = []
    for lib in (weft, torch):
        x = (lib.arange(16).reshape(4, 4) / 8).to(getattr(lib, dtype)).requires_grad_(True)
        eval(text, {"x": x, "torch": lib}).abs().sum().backward()
        results.append(x.grad.tolist())
    narrow = dtype in ("float16", "bfloat16")
    assert np.allclose(results[0], results[1], rtol=1e-2 if narrow else 1e-6)


@pytest.mark.parametrize("text", USES)
def test_the_graph_of_the_gradient_too(text: str) -> None:
    x = (weft.arange(16, dtype=weft.float64).reshape(4, 4) / 8).requires_grad_(True)

    def f(x: weft.Tensor) -> weft.Tensor:
        return eval(text, {"x": x, "torch": weft})

    assert weft.autograd.gradcheck(f, (x,)) and weft.autograd.gradgradcheck(f, (x,))


def test_hooks_see_the_whole_gradient() -> None:
    base = weft.ones(3, 2, requires_grad=True)
    x = base * 1
    seen = []
    x.register_hook(lambda g: seen.append(g.clone()))
    x[0].register_hook(lambda g: g * 100)
    (x[0] * 2 + x[2] * 3).sum().backward()
    assert seen[0].tolist() == [[2, 2], [0, 0], [3, 3]] == base.grad.tolist()


def test_a_gradient_somebody_holds_is_not_written() -> None:
    x = weft.zeros(3, requires_grad=True)
    y = x * 1
    given = weft.ones(3)
    weft.autograd.backward([y, y[0]], [given, weft.tensor(5.0)])
    assert x.grad.tolist() == [6, 1, 1] and given.tolist() == [1, 1, 1]
