"""Complex numbers: values and gradients (PyTorch's convention) beside PyTorch's."""

from typing import Any

import numpy as np
import pytest

import weft

FUNCTIONS = """z * w; z / w; z + w; z - w; z + 2 * w; z * 2; 2 / z; z + 1j; x * z; z / x; x - z; -z
z.exp(); z.log(); z.sqrt(); z.sin(); z.cos(); z.tan(); z.sinh(); z.cosh(); z.tanh(); z.sigmoid()
z.asin(); z.acos(); z.atan(); z.asinh(); z.acosh(); z.atanh(); z.rsqrt(); z.reciprocal(); z.square()
z.log1p(); z.expm1(); z.exp2(); z.log2(); z.log10(); z ** 2; z ** 3; z ** 0.5; z ** -1; z ** w
x.abs() ** z; z ** (1 + 2j); z.abs(); z.angle(); z.sgn(); z.conj(); z.real; z.imag; z.sum()
z.sum(0); z.mean(); z.mean(1, keepdim=True); z.prod(); z.prod(0); z.cumsum(1); z.cumprod(0)
z @ w.T; z.mv(w[0]); z[0].dot(w[1]); z.matmul(w.T); torch.bmm(z[None], w.T[None])
z.T @ x.to(z.dtype)
torch.nn.functional.linear(z, w); torch.addmm(z[:, :2], z, w.T[:, :2]); torch.complex(x, y); z.mH
torch.polar(x.abs() + 0.5, y); torch.view_as_real(z); torch.view_as_complex(torch.stack([x, y], -1))
torch.where(x > 0, z, w); torch.cat([z, w]); torch.stack([z, w]).flip(0); z[1]; z[:, 1:]; z.T
z.roll(1)
torch.outer(z[0], w[0]); torch.einsum('ij,kj->ik', z, w); z.expand(2, 3, 3).sum(0)
z.to(torch.complex64)
torch.add(z, w, alpha=2.5); torch.sub(z, w, alpha=1 + 1j); z.masked_fill(x > 0, 1j)
z.abs().square().sum()
""".replace("\n", ";").split(";")


def inputs(lib: Any, grad: bool = True) -> dict[str, Any]:
    rng = np.random.default_rng(3)

    def make(complex_: bool) -> Any:
        values = rng.uniform(-1.5, 1.5, (3, 3)) + (1j * rng.uniform(-1.5, 1.5, (3, 3))) * complex_
        values = values if complex_ else values.real
        return lib.tensor(values.tolist(), dtype=getattr(lib, str(values.dtype)))

    named = {"z": make(True), "w": make(True), "x": make(False), "y": make(False)}
    return {"torch": lib, **{k: v.requires_grad_(grad) for k, v in named.items()}}


@pytest.mark.parametrize("text", [t.strip() for t in FUNCTIONS if t.strip()])
def test_values_and_gradients(torch: Any, text: str) -> None:
    results = []
    for lib in (weft, torch):
        names = inputs(lib)
        out = eval(text, names)
        weight = lib.cos(lib.arange(out.numel(), dtype=lib.float64)).reshape(out.shape)
        parts = [out.real, out.imag] if out.is_complex() else [out]
        loss = sum((p * weight * (k + 1)).sum() for k, p in enumerate(parts))
        leaves = [names[k] for k in "zwxy"]
        found = lib.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        again = sum((g.abs().square()).sum() for g in found if g is not None)
        twice = lib.autograd.grad(again, leaves, allow_unused=True) if again.requires_grad else []
        results.append((out, [*found, *twice]))
    (a, ours), (b, theirs) = results
    assert str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape)
    tolerance = 1e-6 if str(b.dtype) in ("torch.complex64", "torch.float32") else 1e-9
    np.testing.assert_allclose(np.array(a.tolist()), np.array(b.tolist()), tolerance, tolerance)
    for p, q in zip(ours, theirs, strict=False):
        if p is None or q is None:
            zero = q if p is None else p
            assert zero is None or float(zero.detach().abs().max()) < 1e-12
            continue
        assert str(p.dtype) == str(q.dtype)
        np.testing.assert_allclose(np.array(p.tolist()), np.array(q.tolist()), 1e-6, tolerance)


def test_gradcheck() -> None:
    names = inputs(weft)
    z, w, x = names["z"], names["w"], names["x"]
    assert weft.autograd.gradcheck(lambda z, w, x: (z * w).exp() / (x + 2), (z, w, x))
    assert weft.autograd.gradcheck(lambda z: z.abs(), (z,))
    with pytest.raises(weft.autograd.gradcheck.__globals__["GradcheckError"]):
        weft.autograd.gradcheck(lambda z: z * z.detach(), (z,))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 40), (1, 3001), (1, 300_001), (4, 0)])
def test_sums_of_rows(shape: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(5)
    z = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape) + 3).astype(dtype)
    x = weft.tensor(z)
    near = {"rtol": 2e-6 if dtype == "complex64" else 1e-13}
    np.testing.assert_allclose(x.sum(1).numpy(), z.astype("complex128").sum(1), **near)
    if z.size:
        np.testing.assert_allclose(x.mean(1).numpy(), z.astype("complex128").mean(1), **near)
        np.testing.assert_allclose(x.sum().numpy(), z.astype("complex128").sum(), **near)
    pairs = weft.view_as_real(x)
    assert pairs.sum(1).tolist() == weft.view_as_real(x.sum(1)).tolist()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_conjugates_of_any_layout(dtype: str) -> None:
    rng = np.random.default_rng(6)
    z = (rng.standard_normal((9, 21)) + 1j * rng.standard_normal((9, 21))).astype(dtype)
    z[0, :3] = [complex(0.0, 0.0), complex(np.inf, -np.inf), complex(1, -0.0)]
    x = weft.tensor(z)
    for mine, theirs in ((x, z), (x.T, z.T), (x[:, ::2], z[:, ::2]), (x[:1].expand(3, 21), z[:1])):
        wanted = np.broadcast_to(theirs.conj(), tuple(mine.shape))
        assert mine.conj().numpy().tobytes() == np.ascontiguousarray(wanted).tobytes()
    assert x.clone().conj_physical_().numpy().tobytes() == z.conj().tobytes()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_directions_of_any_length(dtype: str) -> None:
    lengths = [1e-42, 1e-30, 1.0, 1e20, 3e38]  # PyTorch's is 0 where |z| of a float is infinite
    z = np.array([r * complex(3, -4) / 5 for r in lengths] * 5, dtype=dtype)
    near = {"rtol": 1e-3 if dtype == "complex64" else 1e-14}  # 1e-42 has three digits
    np.testing.assert_allclose(weft.tensor(z).sgn().numpy(), np.full(25, 0.6 - 0.8j), **near)
    assert weft.tensor(z * 0).sgn().tolist() == [0j] * 25
    inf = weft.tensor(np.array([complex(np.inf, 2), complex(1, -np.inf)], dtype=dtype)).sgn()
    assert inf.real.isnan().tolist() == [True, False]
    assert inf.imag.isnan().tolist() == [False, True]


def test_parts_share_memory() -> None:
    z = weft.tensor([1 + 2j, 3 - 4j])
    z.real[0] = 10
    z.imag[1] = 7
    weft.view_as_real(z)[0, 1] = -2
    assert z.tolist() == [10 - 2j, 3 + 7j]
    assert weft.view_as_complex(weft.view_as_real(z)).data_ptr() == z.data_ptr()
    assert not z.is_conj() and z.resolve_conj() is z and weft.is_complex(z)


@pytest.mark.parametrize(
    "text",
    ["z < z", "z.max()", "z.sort()", "z.floor()", "z // z", "z % z", "z.clamp(0, 1)",
     "int(z[0, 0])",
     "float(z[0, 0])", "x.imag", "torch.view_as_real(x)", "torch.view_as_complex(x)",
     "torch.complex(x, x.float())", "z.sign()", "z & z", "bool(z[0, 0])",
     "complex(z[0, 0]) == z[0, 0].item()"],
)  # fmt: skip
def test_what_complex_numbers_refuse(torch: Any, text: str) -> None:
    outcomes = []
    for lib in (weft, torch):
        try:
            outcomes.append(eval(text, inputs(lib, grad=False)))
        except Exception as error:  # noqa: BLE001
            outcomes.append(type(error))
    ours, theirs = outcomes
    assert issubclass(ours, theirs) if isinstance(theirs, type) else ours == theirs


def test_the_gradient_of_the_parts_of_nothing() -> None:
    """An empty gradient that was expanded has strides of 0, which view_as_complex refused."""
    x = weft.ones(0, 4).requires_grad_()
    weft.view_as_real(weft.complex(x, x) * 2).sum(-1).sum().backward()
    assert x.grad.shape == (0, 4)
