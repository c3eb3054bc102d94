"""Special functions: accuracy beside SciPy, gradients and errors beside PyTorch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import weft

sp = pytest.importorskip("scipy.special")
RNG = np.random.default_rng(3)
SPREAD = np.concatenate([
    RNG.uniform(0, 3, 4000), RNG.uniform(0, 60, 4000), 10.0 ** RNG.uniform(-9, 9, 2000),
])  # fmt: skip
WHOLE = np.concatenate([RNG.normal(size=4000) * 8, RNG.uniform(-26, 26, 4000), [0.0]])
NEGATIVE = -RNG.uniform(0, 20, 4000)
POLES = np.array([0.0, -0.0, -1.0, -2.0, np.inf, np.nan])
f = weft.special

# name, weft's, SciPy's, where, bound of float64 in units of eps * max(|value|, 1)
ACCURACY = [
    ("lgamma", weft.lgamma, sp.gammaln, SPREAD, 8),
    ("lgamma below 0", weft.lgamma, sp.gammaln, NEGATIVE, 16),
    ("digamma", weft.digamma, sp.digamma, SPREAD, 16),
    ("trigamma", lambda x: f.polygamma(1, x), lambda x: sp.polygamma(1, x), SPREAD, 16),
    ("tetragamma", lambda x: f.polygamma(2, x), lambda x: sp.polygamma(2, x), SPREAD, 32),
    ("zeta", lambda x: f.zeta(2.5, x), lambda x: sp.zeta(2.5, x), SPREAD, 32),
    ("zeta of 2", lambda x: f.zeta(x, 2.0), lambda x: sp.zeta(x, 2.0), SPREAD[:8000] + 1, 32),
    ("erfcx", f.erfcx, sp.erfcx, np.abs(WHOLE), 16),
    ("ndtr", f.ndtr, sp.ndtr, WHOLE, 8),
    ("log_ndtr", f.log_ndtr, sp.log_ndtr, WHOLE, 16),
    ("entr", f.entr, sp.entr, np.abs(WHOLE), 8),
    ("erfinv", weft.erfinv, sp.erfinv, RNG.uniform(-1, 1, 4000), 8),
    ("ndtri", f.ndtri, sp.ndtri, RNG.uniform(0, 1, 400), 8),
    ("i0e", f.i0e, sp.i0e, WHOLE[:400], 4),
    ("gammainc", lambda x: f.gammainc(x, x), lambda x: sp.gammainc(x, x), SPREAD[:400], 4),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", ACCURACY, ids=[a[0] for a in ACCURACY])
def test_accuracy(case, dtype):
    _, ours, theirs, where, bound = case
    x = where.astype(dtype)
    with np.errstate(all="ignore"):
        want = theirs(x.astype(np.float64))
        rounded = want.astype(dtype)
    got = ours(weft.from_numpy(x)).numpy()
    assert got.dtype == dtype
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    eps = np.finfo(dtype).eps * (bound if dtype is np.float64 else 2)
    error = np.abs(got[finite] - want[finite]) / np.maximum(np.abs(want[finite]), 1)
    assert error.max() <= eps, (x[finite][error.argmax()], error.max() / eps)


def test_poles_and_ends(torch):
    for dtype in (np.float32, np.float64):
        for name in ("lgamma", "digamma"):
            got = getattr(weft, name)(weft.from_numpy(POLES.astype(dtype)))
            want = getattr(torch, name)(torch.from_numpy(POLES.astype(dtype)))
            np.testing.assert_array_equal(got.numpy(), want.numpy())
    assert weft.lgamma(weft.tensor([1.0, 2.0])).tolist() == [0, 0]
    assert weft.polygamma(1, weft.tensor([-1.0, 0.0])).tolist() == [np.inf, np.inf]


CALLS = """
t.lgamma(P(4)); t.lgamma(P(4, lo=-1.9, hi=-1.1)); t.digamma(P(4)); t.polygamma(1, P(3))
t.polygamma(3, P(3)); t.polygamma(0, P(3)); t.polygamma(1, P(3, lo=-1.9, hi=-1.1))
P(3).polygamma(2); t.mvlgamma(P(3, 2, lo=2, hi=5), 3); P(3, lo=2).mvlgamma(1)
t.special.multigammaln(P(3, lo=3, hi=5), 5)
t.igamma(P(3).detach(), P(3)); t.igammac(P(2, 1).detach(), P(3)); t.i0(M(4)); t.special.i0e(M(4))
t.special.i1(M(4)); t.special.i1e(M(4)); t.special.i1(M(2) * 0); t.special.i0e(M(2) * 0)
t.special.ndtri(P(4, lo=0.1, hi=0.9)); t.special.ndtr(M(4)); t.special.log_ndtr(M(4) * 5)
t.special.erfcx(M(4)); t.special.entr(P(4)); t.special.xlog1py(M(3), P(3)); t.special.zeta(3.0, P(3))
t.special.xlog1py(M(3), 0.5); t.special.xlog1py(0.5, P(3)); t.xlogy(M(3), P(3)); t.special.psi(P(2))
t.special.logit(P(3, lo=0.2, hi=0.8)); t.special.gammaln(P(2)); t.special.expit(M(3))
t.special.softmax(M(2, 3), 1); t.special.log_softmax(M(2, 3), 0); t.special.logsumexp(M(2, 3), 1)
t.special.erfinv(M(3) * 0.1); t.special.sinc(M(3)); t.special.exp2(M(3)); t.special.round(M(3) * 5)
"""  # noqa: E501
CASES = [c.strip() for c in CALLS.replace("\n", ";").split(";") if c.strip()]


@pytest.mark.parametrize("text", CASES)
def test_values_are_those_of_torch(beside, text):
    beside.values(text, 1e-9, 1e-11)  # PyTorch's trigamma is right to 5e-10


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("text", CASES)
def test_gradients_are_those_of_torch(beside, text, order):
    if order == 2 and "* 0)" in text:
        pytest.skip("PyTorch's second derivative at 0 is that of the constant chosen there")
    beside.gradients(text, order)


FORMS = """
P(3).lgamma_(); P(3).digamma_(); P(3).polygamma_(1); P(3, lo=2).mvlgamma_(2); M(3).i0_()
P(3).igamma_(P(3)); P(3).igammac_(P(3)); t.i0_(M(2)); t.i0(M(3).float()); t.i0(t.arange(3))
t.lgamma(t.arange(4)); t.polygamma(1, t.tensor([1, 2])); t.mvlgamma(t.tensor([3, 4]), 2)
t.special.i0e(M(3), out=t.empty(3, dtype=t.float64)); t.igamma(P(2), P(2), out=M(2))
t.polygamma(1, P(2), out=M(2)); t.special.hermite_polynomial_h(M(3), 4)
t.special.chebyshev_polynomial_t(M(3), -1); t.special.legendre_polynomial_p(M(2, 1), t.arange(3))
t.special.laguerre_polynomial_l(M(3), t.tensor(3.7)); t.special.zeta(2, t.tensor([1, 2]))
t.special.shifted_chebyshev_polynomial_u(M(3) * 0.1, 3); t.special.entr(t.tensor([0, 1, -1]))
t.special.bessel_y0(P(3)); t.special.spherical_bessel_j0(M(3)); t.special.airy_ai(P(3))
"""


@pytest.mark.parametrize(
    "text", [c.strip() for c in FORMS.replace("\n", ";").split(";") if c.strip()]
)
def test_forms_are_those_of_torch(beside, text):
    beside.values(text, 3e-6, 1e-6)


ERRORS = """
t.polygamma(-1, P(2)); t.mvlgamma(P(2), 0); t.special.i0e(C(2)); t.lgamma(C(2)); t.special.i0('x')
t.special.erfcx(C(2)); t.special.i0(M(2), out=t.empty(2, dtype=t.int64))
t.igamma(P(2).requires_grad_(), P(2)).sum().backward()
"""


@pytest.mark.parametrize(
    "text", [c.strip() for c in ERRORS.replace("\n", ";").split(";") if c.strip()]
)
def test_errors_are_of_torchs_kind(beside, text):
    beside.error(text)


def test_without_scipy_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['scipy'] = None\n"
        "import weft\n"
        "print(weft.special.erfcx(weft.zeros(1)).item(), weft.lgamma(weft.ones(1)).item())\n"
        "weft.special.i0e(weft.ones(1))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["1.0", "0.0"]
    assert "ImportError: [special.i0e] expected SciPy" in run.stderr
    assert "weft[scipy]" in run.stderr
