"""Linear algebra and transforms on the meta device: the shapes and dtypes of those with values."""

import pytest

import weft

LINALG = """
svd(T(3, 5))|svd(T(2, 5, 3), full_matrices=False)|svdvals(T(2, 3, 5))|eigh(S(3))|eigvalsh(S(3))
eig(T(3, 3))|eigvals(T(3, 3))|qr(T(5, 3))|qr(T(3, 5), "complete")|qr(T(2, 3, 5), "r")
cholesky(S(3))|cholesky_ex(S(3))|inv(T(2, 3, 3))|inv_ex(T(3, 3))|solve(T(3, 3), T(3, 2))
solve(T(3, 3), T(3))|solve(T(2, 3, 3), T(3, 2))|solve(T(3, 3), T(2, 3), left=False)
det(T(2, 3, 3))|slogdet(T(2, 3, 3))|lu(T(3, 5))|lu_factor(T(5, 3))|lu_factor_ex(T(2, 3, 3))
ldl_factor(S(3))|pinv(T(2, 3, 5))|matrix_rank(T(2, 3, 5))|matrix_norm(T(3, 5), "nuc")
matrix_norm(T(3, 5), 2)|cond(T(3, 3))|matrix_exp(T(3, 3))|matrix_power(T(3, 3), -2)
tensorsolve(T(2, 3, 6), T(2, 3))|tensorinv(T(6, 2, 3), 1)
solve_triangular(T(3, 3), T(3, 2), upper=True)
solve_triangular(T(3, 3), T(2, 3), upper=True, left=False)
"""
OTHERS = """
t.fft.fft(T(3, 5))|t.fft.rfft(T(3, 5))|t.fft.irfft(C(3, 5))|t.fft.irfft(C(3, 5), n=7)
t.fft.fft2(T(3, 5))|t.fft.rfftn(T(3, 4, 5))|t.fft.irfftn(C(3, 4, 5))|t.fft.ifft(T(3, 5), n=8)
t.fft.hfft(C(3, 5))|t.fft.ihfft(T(3, 5))
t.stft(T(2, 100), 16, return_complex=True, window=T(16))
t.stft(T(100), 16, hop_length=4, center=False, onesided=False, return_complex=True, window=T(16))
t.cholesky_solve(T(3, 2), T(3, 3))|t.cholesky_inverse(T(3, 3))|t.logdet(S(3))|t.svd(T(5, 3))
t.triangular_solve(T(3, 2), T(3, 3))
"""
CALLS = [f"t.linalg.{call}" for call in LINALG.strip().replace("\n", "|").split("|")]
CALLS += OTHERS.strip().replace("\n", "|").split("|")


def results(call, device, complex_=False):
    dtype = weft.complex64 if complex_ else weft.float32
    weft.manual_seed(0)

    def made(*size, kind=dtype):
        return weft.randn(size, dtype=kind).to(device)

    def symmetric(n):
        return (weft.eye(n, dtype=dtype) * n).to(device)

    space = {"t": weft, "T": made, "S": symmetric, "C": lambda *s: made(*s, kind=weft.complex64)}
    out = eval(call, space)
    return list(out) if isinstance(out, tuple) else [out]


def layouts(tensors):
    return [(tuple(t.shape), t.dtype) for t in tensors]


@pytest.mark.parametrize("call", CALLS)
def test_layouts_are_those_of_values(call):
    for complex_ in (False, True) if "linalg" in call else (False,):
        meta = results(call, "meta", complex_)
        assert all(t.is_meta for t in meta)
        assert layouts(meta) == layouts(results(call, "cpu", complex_))


@pytest.mark.parametrize(
    "call", ["linalg.inv(x)", "linalg.svd(x)[1]", "linalg.eigh(x)[0]", "fft.rfft(x).abs()",
             "linalg.solve(x, x)", "linalg.det(x)"]
)  # fmt: skip
def test_backward_lays_gradients_out(call):
    x = weft.empty(3, 3, device="meta", requires_grad=True)
    eval(f"t.{call}", {"t": weft, "x": x}).sum().backward()
    assert x.grad is not None and x.grad.is_meta and x.grad.shape == (3, 3)


def test_as_strided_past_the_end(torch):
    """There is no memory that it could leave: PyTorch lays it out too."""
    for t in (torch, weft):
        x = t.empty(6, device="meta")
        y = x.as_strided((20, 3), (3, 1), 5)
        assert tuple(y.shape) == (20, 3) and y.stride() == (3, 1) and y.storage_offset() == 5
        with pytest.raises(RuntimeError):
            t.empty(6).as_strided((20, 3), (3, 1))
