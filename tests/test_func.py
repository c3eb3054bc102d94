"""Transforms of functions against torch.func: values, structures, nesting, errors."""

import pytest

import weft

torch = pytest.importorskip("torch")


def plain(tree):
    """A result as nested Python values that compare."""
    if isinstance(tree, (weft.Tensor, torch.Tensor)):
        return [list(tree.shape), pytest.approx(tree.detach().reshape(-1).tolist(), abs=1e-5)]
    if isinstance(tree, dict):
        return {k: plain(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [plain(v) for v in tree]
    return tree


def flat(tree):
    if isinstance(tree, (weft.Tensor, torch.Tensor)):
        return [list(tree.shape), tree.detach().reshape(-1).tolist()]
    if isinstance(tree, dict):
        return {k: flat(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [flat(v) for v in tree]
    return tree


def cube(x):
    return (x**3).sum()


CALLS = {
    "grad": lambda f, v: f.func.grad(cube)(v),
    "second": lambda f, v: f.func.grad(f.func.grad(lambda a: a.sin()))(v[0]),
    "third": lambda f, v: f.func.grad(f.func.grad(f.func.grad(lambda a: a**4)))(v[1]),
    "argnums": lambda f, v: f.func.grad(lambda a, b: (a * b).sum(), argnums=(0, -1))(v, v + 1),
    "aux": lambda f, v: f.func.grad(lambda a: (cube(a), {"k": a * 2}), has_aux=True)(v),
    "dict": lambda f, v: f.func.grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": v, "b": (v,)}),
    "value": lambda f, v: f.func.grad_and_value(cube)(v),
    "unused": lambda f, v: f.func.grad(lambda a, b: b.sum())(v, v),
    "in place": lambda f, v: (f.func.grad(lambda a: a.clone().mul_(a).sum())(v), v),
    "jacrev": lambda f, v: f.func.jacrev(lambda a: a.sin() * a.sum())(v),
    "jacfwd": lambda f, v: f.func.jacfwd(lambda a: a.sin() * a.sum())(v),
    "jacobians": lambda f, v: f.func.jacrev(lambda a, b: (a * b, {"s": a.sum()}), (0, 1))(v, v),
    "hessian": lambda f, v: f.func.hessian(lambda a: cube(a) * a[0])(v),
    "jac of jac": lambda f, v: f.func.jacrev(f.func.jacrev(lambda a: a**2))(v),
    "vjp": lambda f, v: (lambda o, b: (o, b((v, v[0]))))(
        *f.func.vjp(lambda a, b: (a * b, a.sum() * b[0]), v, v)
    ),
    "jvp": lambda f, v: f.func.jvp(lambda a, b: a.sin() * b, (v, v), (v, v * 2)),
    "jvp of grad": lambda f, v: f.func.jvp(f.func.grad(cube), (v,), (v,)),
    "vmap": lambda f, v: f.func.vmap(f.dot)(v.expand(4, 3), v.repeat(4, 1)),
    "vmap dims": lambda f, v: f.vmap(lambda a, b: a @ b, in_dims=(0, None))(f.ones(2, 4, 3), v),
    "vmap out": lambda f, v: f.vmap(lambda a: (a, {"two": a * 2}), in_dims=1, out_dims=1)(
        f.ones(2, 3)
    ),
    "vmap of vmap": lambda f, v: f.vmap(f.vmap(lambda a, b: a * b, (None, 0)), (0, None))(v, v),
    "per sample": lambda f, v: f.vmap(f.func.grad(lambda w, x: (w * x).sum() ** 2), (None, 0))(
        v, f.stack([v, v * 2])
    ),
    "grad of vmap": lambda f, v: f.func.grad(lambda a: f.vmap(cube)(a).sum())(v.expand(2, 3)),
    "structure": lambda f, v: f.vmap(lambda d, s: d["x"] * s, ({"x": 0}, 0))({"x": v}, v),
    "no batch": lambda f, v: f.vmap(lambda a: a * 2)(f.ones(0, 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_transform_gives_torchs_result(name):
    call = CALLS[name]
    ours = call(weft, weft.tensor([0.5, -1.0, 2.0]))
    assert flat(ours) == plain(call(torch, torch.tensor([0.5, -1.0, 2.0])))


@pytest.mark.parametrize("f", [weft, torch], ids=["weft", "torch"])
def test_results_join_the_graph_around_where_they_depend_on_it(f):
    x = f.tensor([1.0, 2.0])
    assert not f.func.grad(cube)(x).requires_grad
    w = x.clone().requires_grad_()
    g = f.func.grad(cube)(w)
    assert g.requires_grad and w.grad is None
    assert f.autograd.grad(g.sum(), w)[0].tolist() == [6, 12]
    closed = f.func.grad(lambda a: (a * w).sum() ** 2)(x)
    assert f.autograd.grad(closed.sum(), w)[0].tolist() == [16, 22]
    assert not f.func.grad(lambda a: (a * w.detach()).sum())(x).requires_grad
    with f.no_grad():
        assert f.func.grad(cube)(w).tolist() == [3, 12]
        assert not f.func.grad(cube)(w).requires_grad
    out, back = f.func.vjp(lambda a: a * w, x)
    assert out.requires_grad and back(x)[0].requires_grad


@pytest.mark.parametrize("f", [weft, torch], ids=["weft", "torch"])
@pytest.mark.parametrize("error, call", [
    (RuntimeError, "f.func.grad(lambda a: a)(x)"),
    (RuntimeError, "f.func.grad(lambda a: (a, a))(x)"),
    (RuntimeError, "f.func.grad(lambda a: 1.0)(x)"),
    (RuntimeError, "f.func.grad(lambda a: a.sum(), argnums=1)(x)"),
    (RuntimeError, "f.func.grad(lambda a: a.sum(), has_aux=True)(x)"),
    (RuntimeError, "f.func.jvp(f.sin, x, x)"),
    (RuntimeError, "f.func.vjp(f.sin, x)[1]((x, x))"),
    (ValueError, "f.vmap(lambda a: 1)(x)"),
    (ValueError, "f.vmap(lambda a, b: a)(x, f.ones(2))"),
    (ValueError, "f.vmap(lambda a: a, in_dims=1)(x)"),
    (ValueError, "f.vmap(lambda a: a, in_dims=None)(x)"),
    (ValueError, "f.vmap(lambda a: a, in_dims=(0, 0))(x)"),
    (RuntimeError, "f.vmap(lambda a: f.rand(2))(x)"),
    (RuntimeError, "f.vmap(lambda a: a, randomness='maybe')(x)"),
])  # fmt: skip
def test_wrong_calls_raise_as_torchs(f, error, call):
    with pytest.raises(error):
        eval(call, {"f": f, "x": f.tensor([1.0, 2.0, 3.0])})


def test_random_numbers_under_vmap():
    weft.manual_seed(0)
    x = weft.zeros(3)
    same = weft.vmap(lambda a: a + weft.rand(()), randomness="same")(x)
    unlike = weft.vmap(lambda a: a + weft.rand(()), randomness="different")(x)
    assert len(set(same.tolist())) == 1 and len(set(unlike.tolist())) == 3


def test_an_ensemble_runs_on_stacked_weights():
    nets = [weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.BatchNorm1d(2)).eval() for _ in "abc"]
    params, buffers = weft.func.stack_module_state(nets)
    x = weft.randn(4, 3)
    out = weft.vmap(lambda p, b: weft.func.functional_call(nets[0], (p, b), (x,)), in_dims=(0, 0))(
        params, buffers
    )
    weft.testing.assert_close(out, weft.stack([net(x) for net in nets]))
    assert params["0.weight"].requires_grad and params["0.weight"].is_leaf
