"""Jacobians, Hessians and their products beside PyTorch's."""

from __future__ import annotations

import pytest

import weft

# f: one tensor to one; g: one element; several: two to two. x, y, u, w are tensors
CALLS = """
F.vjp(f, x, u); F.vjp(g, x); F.vjp(several, (x, y), (u, w)); F.vjp(constant, x, u); F.jvp(f, x, u)
F.jvp(several, (x, y), (u, w)); F.jvp(g, x, u); F.jacobian(f, x); F.jacobian(g, x)
F.jacobian(several, (x, y)); F.jacobian(constant, x); F.jacobian(f, m); F.hessian(g, x)
F.hessian(g, m); F.hessian(both, (x, y)); F.vhp(g, x, u); F.hvp(g, x, u)
F.vhp(both, (x, y), (u, w))
F.hvp(both, (x, y), (u, w)); F.jacobian(f, x, vectorize=True); F.hessian(linear, x)
F.vjp(g, x[:1]); F.jvp(f, x[:1]); F.jacobian(f, x, create_graph=True)
F.jacobian(f, x, strict=True); F.hessian(g, x, strict=True)
F.jacobian(constant, x, strict=True); F.vjp(f, x); F.jvp(f, x); F.vjp(f, x, x[:1]); F.hessian(f, x)
F.jacobian(f, 3); F.jacobian(lambda v: 3, x); F.vhp(f, x, u); F.vjp(several, (x, y), (u,))
F.jacobian(f, x, strategy='other'); F.vjp(first, (x, y), u, strict=True); F.vhp(g, x)
"""


def seen(t, text, grad=False):
    x = t.tensor([0.5, -1.0, 2.0], dtype=t.float64).requires_grad_(grad)
    names = {
        "t": t, "F": t.autograd.functional, "x": x, "y": x.detach().exp(), "u": x.detach() + 1,
        "w": x.detach() ** 2, "m": t.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=t.float64),
        "f": lambda v: v.sin() * v, "g": lambda v: (v**3).sum() * v.exp().sum(),
        "constant": lambda v: t.ones(3, dtype=t.float64), "linear": lambda v: v.sum(),
        "several": lambda a, b: (a * b, b.exp() - a),
        "both": lambda a, b: (a * b).sum() * a.prod(), "first": lambda a, b: a * 2,
    }  # fmt: skip
    return eval(text, names), x  # noqa: S307


def flat(value):
    return [t for v in value for t in flat(v)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(
    "text", [c.strip() for c in CALLS.replace("\n", ";").split(";") if c.strip()]
)
def test_they_are_pytorchs(torch, text):
    try:
        theirs = seen(torch, text)[0]
    except Exception as error:  # noqa: BLE001
        with pytest.raises(type(error)) as caught:
            seen(weft, text)
        assert str(caught.value).startswith("[")
        return
    ours = seen(weft, text)[0]
    assert isinstance(ours, tuple) == isinstance(theirs, tuple)
    assert len(flat(ours)) == len(flat(theirs))
    for a, b in zip(flat(ours), flat(theirs)):
        weft.testing.assert_close(a.detach(), weft.from_numpy(b.detach().numpy().copy()))
        assert a.requires_grad == b.requires_grad


@pytest.mark.parametrize("text", ["F.jacobian(f, x, create_graph=True)", "F.hessian(g, x, True)",
                                  "F.vjp(f, x, u, create_graph=True)[1]",
                                  "F.jvp(f, x, u, create_graph=True)[1]",
                                  "F.hvp(g, x, u, create_graph=True)[1]"])  # fmt: skip
def test_they_may_be_differentiated_again(torch, text):
    found = []
    for t in (weft, torch):
        out, x = seen(t, text, grad=True)
        found.append(t.autograd.grad((out * out).sum(), x)[0])
    weft.testing.assert_close(found[0], weft.from_numpy(found[1].numpy().copy()))


def test_a_jacobian_in_the_graph_under_no_grad():
    """It was zeros: what made the inputs anew was not recorded."""
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    with weft.no_grad():
        rows = weft.autograd.functional.jacobian(lambda q: q * q, x, create_graph=True)
    assert rows.tolist() == [[2, 0], [0, 4]] and rows.requires_grad
    rows.sum().backward()
    assert x.grad.tolist() == [2, 2]
