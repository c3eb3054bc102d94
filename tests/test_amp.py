"""Mixed precision against PyTorch: which dtype each op runs in, values, gradients, loss scaling."""

import warnings

import pytest

import weft

torch = pytest.importorskip("torch")

OPS = [
    "x @ x.T", "F.linear(x, w, b)", "F.linear(x.double(), w.double())", "f.bmm(x[None], x.T[None])",
    "f.addmm(b, x, w.T)", "f.baddbmm(b, x[None], w.T[None])",
    "f.einsum('ij,kj->ik', x, w)", "F.conv1d(x[None], x[None, :, :2])",
    "F.conv2d(x[None, None], x[None, None, :2, :2])", "F.prelu(x, b[:1])",
    "F.scaled_dot_product_attention(x[None], x[None], x[None])", "f.mv(x, x[0])",
    "F.softmax(x @ x.T, -1)", "f.exp(x @ x.T)", "(x @ x.T) + x[:, :1]", "f.cat([x @ x.T, x], 1)",
    "F.layer_norm(x @ w.T, (3,), b, b)", "F.layer_norm(x, (4,))",
    "F.group_norm((x @ w.T)[None], 2, f.ones(2), f.ones(2))",
    "F.batch_norm(x @ w.T, f.zeros(3), f.ones(3), b, b, True)",
    "F.mse_loss(x @ w.T, f.ones(2, 3))", "F.l1_loss(x @ w.T, f.ones(2, 3))",
    "F.smooth_l1_loss(x @ w.T, f.ones(2, 3))", "F.huber_loss(x @ w.T, f.ones(2, 3))",
    "F.cross_entropy(x @ w.T, f.tensor([0, 2]))", "F.nll_loss(x @ w.T, f.tensor([0, 2]))",
    "F.binary_cross_entropy_with_logits(x @ w.T, f.ones(2, 3))", "F.kl_div(x @ w.T, f.ones(2, 3))",
    "f.prod(x @ w.T, 1)", "(x @ w.T).sum()", "(x @ w.T).mean()", "f.zeros(2, 3).add_(x @ w.T)",
    "f.zeros(2, 2).copy_(x @ x.T)", "f.arange(3) @ f.arange(3)",
]  # fmt: skip


def operands(f):
    x = f.tensor([[0.5, -1.25, 2.0, 0.125], [1.0, 0.75, -0.5, 3.0]], requires_grad=True)
    w = f.tensor([[1.0, 2.0, 3.0, 4.0], [0.5, 0.5, -1.0, 1.0], [0.1, 0.2, 0.3, 0.4]])
    return {"f": f, "F": f.nn.functional, "x": x, "w": w.requires_grad_(), "b": f.ones(3)}


def run(f, code, dtype):
    names = operands(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with f.autocast("cpu", dtype=getattr(f, dtype)):
            out = eval(code, names)
    if out.requires_grad:
        out.float().sum().backward()
    grads = [None if t.grad is None else t.grad.float().tolist() for t in (names["x"], names["w"])]
    return str(out.dtype), out.float().detach().tolist(), grads


NARROW = """
f.linalg.cholesky(m); f.linalg.inv(m); f.inverse(m); f.linalg.solve(m, m); f.linalg.eigh(m)[0]
f.linalg.eigvalsh(m); f.linalg.eigvals(m).abs(); f.linalg.svdvals(m); f.linalg.qr(m)[1].abs()
f.cholesky_solve(m, m); f.fft.fft(m).real; f.fft.rfft(m).imag; f.fft.irfft(m)
f.fft.fft2(m).abs(); F.adaptive_max_pool3d(m[None, None, None], 1); m.prod(); f.polar(m, m).real
F.max_pool3d(m[None, None, None], 1); F.binary_cross_entropy(m.sigmoid(), m.sigmoid())
f.nn.GRUCell(3, 3)(m) * 0; f.nn.LSTMCell(3, 3)(m)[0] * 0; F.kl_div(m, m); m @ m
"""


@pytest.mark.parametrize(
    "code", [c.strip() for c in NARROW.replace("\n", ";").split(";") if c.strip()]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_operands_of_either_dtype_become_pytorchs(code, dtype):
    """Library-backed ops refused narrow operands; LSTMCell and GRUCell failed in every scope."""
    found = []
    for f in (weft, torch):
        rows = [[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]
        m = f.tensor(rows, dtype=getattr(f, dtype))
        with f.autocast("cpu"):
            out = eval(code, {"f": f, "F": f.nn.functional, "m": m})
        found.append((str(out.dtype), out.float().detach().tolist()))
    assert found[0][0] == found[1][0]
    ours, theirs = (weft.tensor(values) for _, values in found)
    weft.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("code", OPS)
def test_an_op_runs_in_pytorchs_dtype(code, dtype):
    ours, theirs = run(weft, code, dtype), run(torch, code, dtype)
    assert ours[0] == theirs[0]
    close = {"rtol": 0.02, "atol": 0.02}
    weft.testing.assert_close(weft.tensor(ours[1]), weft.tensor(theirs[1]), **close)
    for mine, other in zip(ours[2], theirs[2], strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            weft.testing.assert_close(weft.tensor(mine), weft.tensor(other), **close)


def test_scopes_nest_and_end():
    x = weft.ones(2, 2)
    with weft.autocast("cpu"):
        assert weft.is_autocast_enabled("cpu") and (x @ x).dtype is weft.bfloat16
        with weft.autocast("cpu", enabled=False):
            assert (x @ x).dtype is weft.float32
        with weft.autocast("cpu", dtype=weft.float16):
            assert (x @ x).dtype is weft.float16
        assert (x @ x).dtype is weft.bfloat16
        with weft.no_grad():
            assert (x @ x).dtype is weft.bfloat16
    assert not weft.is_autocast_enabled("cpu") and (x @ x).dtype is weft.float32

    @weft.autocast("cpu")
    def product():
        return x @ x

    assert product().dtype is weft.bfloat16
    with pytest.raises(ZeroDivisionError), weft.autocast("cpu"):
        1 / 0  # noqa: B018
    assert (x @ x).dtype is weft.float32


def test_a_weight_is_cast_once_in_a_scope_and_anew_after_a_write():
    w = weft.ones(2, 2, requires_grad=True)
    with weft.autocast("cpu"):
        a, b = w @ w, w @ w
        cast = a.grad_fn.next_functions[0][0]
        assert cast is b.grad_fn.next_functions[1][0]
        with weft.no_grad():
            w.mul_(2)
        assert (w @ w)[0, 0].item() == 8
    (a + b).sum().backward()
    assert w.grad.dtype is weft.float32 and w.grad.tolist() == [[8, 8], [8, 8]]


def test_under_autobatch_products_are_narrow_too():
    w = weft.ones(3, 2, requires_grad=True)

    def f(x):
        return (x @ w).float().tanh().sum()

    with weft.autocast("cpu"):
        out = weft.autobatch(f)([weft.ones(2, 3), weft.ones(4, 3)])
        plain = [f(weft.ones(2, 3)), f(weft.ones(4, 3))]
    weft.testing.assert_close(weft.stack(list(out)), weft.stack(plain))


def test_what_is_not_there_warns_and_does_nothing():
    x = weft.ones(2, 2)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scope = weft.autocast("cuda")
    with scope:
        assert (x @ x).dtype is weft.float32
    with pytest.warns(UserWarning, match="not supported"):
        scope = weft.autocast("cpu", dtype=weft.float64)
    with scope:
        assert (x @ x).dtype is weft.float32
    with pytest.raises(RuntimeError):
        weft.autocast("toaster")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not weft.cuda.amp.GradScaler().is_enabled()
    assert not weft.amp.GradScaler("cuda", enabled=False).is_enabled()


def scaled_steps(f):
    w = f.ones(2, requires_grad=True)
    optimizer = f.optim.SGD([w], 0.1)
    scaler = f.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    out = []
    for factor in (1.0, 2.0, float("inf"), 1.0, float("nan"), 3.0):
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.unscale_(optimizer)
        f.nn.utils.clip_grad_norm_([w], 10.0)
        scaler.step(optimizer)
        scaler.update()
        out.append((scaler.get_scale(), w.tolist(), scaler.state_dict()["_growth_tracker"]))
    return out


def test_a_scaler_leaves_out_what_is_not_finite():
    for ours, theirs in zip(scaled_steps(weft), scaled_steps(torch), strict=True):
        assert ours[0] == theirs[0] and ours[2] == theirs[2]
        assert ours[1] == pytest.approx(theirs[1])


@pytest.mark.parametrize("f", [weft, torch], ids=["weft", "torch"])
def test_methods_out_of_order_raise(f):
    w = f.ones(1, requires_grad=True)
    optimizer = f.optim.SGD([w], 0.1)
    scaler = f.amp.GradScaler("cpu")
    with pytest.raises(AssertionError):
        scaler.update()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError):
        scaler.step(optimizer)
    with pytest.raises(AssertionError):
        f.amp.GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(RuntimeError):
        scaler.load_state_dict({})


def test_custom_functions_choose_their_dtype():
    from weft.amp import custom_bwd, custom_fwd

    seen = []

    class Product(weft.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=weft.float32)
        def forward(ctx, a, b):
            seen.append((a.dtype, weft.is_autocast_enabled("cpu")))
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g @ b.T, a.T @ g

    a = weft.ones(2, 2, requires_grad=True)
    with weft.autocast("cpu"):
        out = Product.apply(a.bfloat16(), a)
    out.sum().backward()
    assert seen == [(weft.float32, False)] and out.dtype is weft.float32
