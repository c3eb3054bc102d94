"""Transforms of functions against torch.func: values, structures, nesting, errors."""

import pytest

import weft
from weft.base import mapping

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


def M(f):
    return f.tensor([[1.0, 2.0, 3.0], [-0.4, 0.5, 6.0]])


def bent(f):
    return lambda a: f.sin(a) * a.sum()


def written(a):
    b = a * 1
    b[0] = a[1] * a[2]
    b[1:].mul_(a[0])
    return b


def narrow(f, a):
    with f.autocast("cpu", dtype=f.bfloat16):
        return f.ones(2, 3) @ a


def net(f):
    made = f.nn.Sequential(f.nn.Linear(3, 4), f.nn.Tanh(), f.nn.Linear(4, 1))
    for p in made.parameters():
        p.data = f.arange(float(p.numel())).reshape(p.shape).cos()
    return made


def loss_of(f):
    made = net(f)
    return lambda p, a: f.func.functional_call(made, p, (a,)).sum() ** 2


def drawn(f, g, how):
    f.manual_seed(0)
    return f.vmap(g, randomness=how)(M(f))


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
    "nested": lambda f, v: f.vmap(f.vmap(lambda a, b: a * b.sum(), (0, None)))(M(f), M(f)),
    "inner": lambda f, v: f.vmap(lambda a: f.vmap(lambda b: b * a)(f.arange(3.0)))(M(f)),
    "jacrev in vmap": lambda f, v: f.vmap(f.func.jacrev(bent(f)))(M(f)),
    "jacfwd in vmap": lambda f, v: f.vmap(f.func.jacfwd(bent(f)))(M(f)),
    "hessian in vmap": lambda f, v: f.vmap(f.func.hessian(lambda a: bent(f)(a).prod()))(M(f) / 6),
    "vmap in jacrev": lambda f, v: f.func.jacrev(f.vmap(bent(f)))(M(f)),
    "vmap in hessian": lambda f, v: f.func.hessian(lambda a: f.vmap(bent(f))(a).prod())(M(f) / 6),
    "vmap of grad of vmap": lambda f, v: f.vmap(
        f.func.grad(lambda a: f.vmap(lambda r: f.sin(r) * a.sum())(a).sum())
    )(M(f)),
    "grad of vmap of grad": lambda f, v: f.func.grad(
        lambda a: f.vmap(f.func.grad(lambda r: f.sin(r).prod()))(a).pow(2).sum()
    )(M(f)),
    "vmap of jvp": lambda f, v: f.vmap(lambda a: f.func.jvp(bent(f), (a,), (a * 2,)))(M(f)),
    "vmap of vjp": lambda f, v: f.vmap(lambda a: f.func.vjp(bent(f), a)[1](a))(M(f)),
    "jacfwd of jacrev": lambda f, v: f.func.jacfwd(f.func.jacrev(lambda a: f.sin(a).prod(0)))(M(f)),
    "jacrev of jacfwd": lambda f, v: f.func.jacrev(f.func.jacfwd(lambda a: f.sin(a).prod(0)))(M(f)),
    "jacrev in chunks": lambda f, v: f.func.jacrev(bent(f), chunk_size=2)(v),
    "writes": lambda f, v: f.vmap(lambda a: a.clone().add_(1).mul_(a))(M(f)),
    "writes into the input": lambda f, v: (lambda x: (f.vmap(lambda a: a.add_(1) * 2)(x), x))(M(f)),
    "writes into views": lambda f, v: f.vmap(written)(M(f)),
    "gradients of such": lambda f, v: f.vmap(f.func.grad(lambda a: written(a).sum()))(M(f)),
    "writes into what is made": lambda f, v: f.vmap(lambda a: f.zeros_like(a).add_(a))(M(f)),
    "chunks": lambda f, v: f.vmap(lambda a: (a * 2, a.sum()), 1, (1, 0), chunk_size=2)(M(f)),
    "the same in all": lambda f, v: f.vmap(lambda a: (a, f.ones(2)))(M(f)),
    "gathers": lambda f, v: f.vmap(lambda a: (a[f.tensor([2, 0])], a[a.argmax()]))(M(f)),
    "autocast": lambda f, v: f.vmap(lambda a: narrow(f, a).float())(M(f)),
    "captured": lambda f, v: (
        lambda w: f.autograd.grad(f.vmap(lambda a: (w * a).sum() ** 2)(M(f)).sum(), w)
    )(f.ones(3, requires_grad=True)),
    "batched gradients": lambda f, v: (
        lambda x: f.autograd.grad(x.sin(), x, f.stack([x, x * 2]), is_grads_batched=True)
    )(M(f).requires_grad_()),
    "functional": lambda f, v: (
        f.autograd.functional.jacobian(lambda a: a.sin().cumsum(1), M(f), vectorize=True),
        f.autograd.functional.hessian(lambda a: a.sin().prod(), M(f), vectorize=True),
    ),
    "a module": lambda f, v: f.vmap(f.func.grad(loss_of(f)), (None, 0))(
        dict(net(f).named_parameters()), M(f)
    ),
    "different": lambda f, v: drawn(f, lambda a: a + f.rand(3) * f.rand(3), "different"),
    "same": lambda f, v: drawn(f, lambda a: a + f.rand(3) * f.randn(3), "same"),
    "dropout": lambda f, v: drawn(f, lambda a: f.nn.functional.dropout(a, 0.5), "different"),
    "the same dropout": lambda f, v: drawn(f, lambda a: f.nn.functional.dropout(a, 0.5), "same"),
    "like": lambda f, v: drawn(
        f, lambda a: f.randn_like(a) + f.bernoulli(a * 0 + 0.5), "different"
    ),
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


X = [[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0], [7.0, 8.0, -29.0]]


@pytest.mark.parametrize("at_once", [True, False])
def test_values_may_be_read(at_once, monkeypatch):
    """What reads a value runs once for each example, from the start of the first one on."""
    monkeypatch.setattr(mapping, "enabled", at_once)
    calls = []

    def branch(a):
        calls.append(None)
        b = a * 3
        return (b * a).sum() if b.sum() > 0 else (b + a).sum()

    x = weft.tensor(X)
    assert weft.vmap(branch)(x).tolist() == [42, 231, -56]
    assert len(calls) == 3
    assert weft.vmap(weft.func.grad(branch))(x).tolist() == [[6, 12, 18], [-24, 30, 36], [4, 4, 4]]
    of_weights = weft.func.grad(lambda w, a: branch(w * a))
    found = weft.vmap(of_weights, (None, 0))(weft.ones(3), x)
    assert found.tolist() == [[6, 24, 54], [96, 150, 216], [28, 32, -116]]
    second = weft.func.grad(weft.func.grad(lambda s: branch(s * weft.ones(3))))
    assert weft.vmap(second)(weft.tensor([1.0, -1.0])).tolist() == [18, 0]
    assert weft.vmap(lambda a: weft.tensor(a.numpy() * 2))(x).tolist() == (x * 2).tolist()


@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_around_changes_in_the_order_of_the_examples(at_once, monkeypatch):
    monkeypatch.setattr(mapping, "enabled", at_once)
    x, total, count = weft.tensor(X), weft.zeros(3), weft.zeros(())
    assert weft.vmap(lambda a: total.add_(a) * 1)(x).tolist() == x.cumsum(0).tolist()
    weft.vmap(lambda a: (count.add_(1), a)[1])(x)
    assert count.item() == 3
    net = weft.nn.BatchNorm1d(3)
    weft.vmap(lambda a: net(a * weft.ones(2, 1)))(x)
    assert net.num_batches_tracked.item() == 3

    def own_backward(a):
        a = a.detach().requires_grad_()
        (a**2).sum().backward()
        return a.grad

    assert weft.vmap(own_backward)(x).tolist() == (2 * x).tolist()


@pytest.mark.parametrize("at_once", [True, False])
def test_an_error_of_an_example_is_its_own(at_once, monkeypatch):
    monkeypatch.setattr(mapping, "enabled", at_once)
    x = weft.tensor(X)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        weft.vmap(lambda a: weft.ones(5)[a.abs().long()])(x)
    with pytest.raises(RuntimeError, match=r"tensor \[3\] and src \[4\]"):
        weft.vmap(lambda a: a @ weft.ones(4))(x)

    def caught(a):
        try:
            return weft.arange(6.0)[a[:1].abs().long()]
        except IndexError:
            return weft.zeros(1)

    assert weft.vmap(caught)(x).tolist() == [[1], [4], [0]]


def test_an_example_does_not_outlive_its_function():
    kept = []
    weft.vmap(lambda a: (kept.append(a * 2), a)[1])(weft.tensor(X))
    with pytest.raises(RuntimeError, match="return it from the function that vmap runs"):
        kept[0] + 1


def test_vmap_and_autobatch_nest():
    x = weft.tensor(X)
    pairs = weft.autobatch(lambda b: b * 2)
    out = weft.vmap(lambda a: weft.stack(pairs([a, a + 1])))(x)
    assert out.tolist() == weft.stack([x * 2, x * 2 + 2], 1).tolist()
    rows = weft.autobatch(lambda b: weft.vmap(lambda r: r * 2)(b.view(3, 1)))(list(x))
    assert weft.stack(rows)[:, :, 0].tolist() == (x * 2).tolist()

    def scope(a):
        with weft.deferred():
            return a * 2

    assert weft.vmap(scope)(x).tolist() == (x * 2).tolist()


def test_custom_functions_under_vmap():
    class Square(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    x = weft.tensor(X)
    assert (
        weft.vmap(weft.func.grad(lambda a: Square.apply(a).sum()))(x).tolist() == (2 * x).tolist()
    )
    assert weft.func.jacrev(Square.apply)(x[0]).tolist() == weft.diag(2 * x[0]).tolist()


def test_chunks_bound_the_examples_at_a_time():
    runs = []

    def seen(a):
        runs.append(None)
        return a * 2

    assert weft.vmap(seen, chunk_size=2)(weft.ones(5, 3)).shape == (5, 3)
    assert len(runs) == 3
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="chunk_size should be None or greater than 0"):
            weft.vmap(seen, chunk_size=wrong)


def test_derivatives_of_numbers() -> None:
    """A reshape to no dims at all was asked for without a shape."""
    x = weft.tensor(2.0)
    assert weft.func.hessian(lambda a: a**3)(x).item() == 12
    assert weft.func.jacrev(lambda a: a * a)(x).item() == 4
    assert weft.func.jacfwd(lambda a: a * a)(x).item() == 4


def test_anomaly_mode_looks_at_the_rows_of_a_jacobian() -> None:
    """It read values where a gradient stood for many rows (a crash)."""
    x = weft.tensor([0.25, 1.0], requires_grad=True)
    with weft.autograd.detect_anomaly():
        (rows,) = weft.autograd.grad(x.sqrt(), x, weft.eye(2), is_grads_batched=True)
        assert weft.equal(rows, weft.tensor([[1.0, 0.0], [0.0, 0.5]]))
        assert weft.equal(weft.func.jacrev(lambda a: a * a)(x), weft.diag(2 * x))
        with pytest.raises(RuntimeError, match="returned nan values"):
            weft.func.jacrev(lambda a: (a * 0).sqrt() * 0)(x)


def test_transforms_of_inference_tensors(torch):
    """`grad` asked what detach() shows of one, which is one, to require grad."""
    for t in (weft, torch):
        with t.inference_mode():
            x = t.ones(2)
        assert t.func.grad(lambda a: (a * a).sum())(x).tolist() == [2, 2]
        assert t.func.vjp(t.sin, x)[1](t.ones(2))[0].shape == (2,)


def test_linearize_runs_the_function_once():
    """Tangents of a structure, one after another and mapped over, as PyTorch's."""
    results = []
    for lib in (weft, torch):
        ran = []

        def f(d, y, lib=lib, ran=ran):
            ran.append(1)
            return {"a": lib.sin(d["x"]) * y, "b": y * 2}

        x, y = lib.tensor([0.5, 1.0, 2.0]), lib.tensor(2.0)
        output, along = lib.func.linearize(f, {"x": x}, y)
        first = along({"x": lib.ones(3)}, lib.tensor(0.0))
        second = lib.func.vmap(along)({"x": lib.eye(3)}, lib.ones(3))
        if lib is weft:
            assert len(ran) == 1
        assert not output["a"].requires_grad and not first["a"].requires_grad
        results.append([t.tolist() for d in (output, first, second) for t in d.values()])
        with pytest.raises(RuntimeError, match="to have the same argspec as the primals"):
            along(lib.ones(3))
        with pytest.raises(RuntimeError):
            along({"x": lib.ones(2)}, y)
    for got, expected in zip(*results, strict=True):
        weft.testing.assert_close(weft.tensor(got), weft.tensor(expected))
