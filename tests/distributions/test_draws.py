"""Samples have the distribution that they are said to have: by SciPy's, and by moments."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import weft

N = 20000
#: What is drawn in ways of weft's own or of many steps -> SciPy's distribution.
ONE = {
    "D.VonMises(0.5, 2.0)": "vonmises(2.0, loc=0.5)",
    "D.Gumbel(0.5, 2.0)": "gumbel_r(0.5, 2.0)", "D.Pareto(2.0, 3.0)": "pareto(3.0, scale=2.0)",
    "D.Weibull(2.0, 3.0)": "weibull_min(3.0, scale=2.0)", "D.HalfCauchy(2.0)": "halfcauchy(0, 2)",
    "D.HalfNormal(2.0)": "halfnorm(0, 2)", "D.FisherSnedecor(3.0, 5.0)": "f(3, 5)",
    "D.InverseGamma(3.0, 2.0)": "invgamma(3, scale=2)", "D.StudentT(4.0)": "t(4)",
    "D.GeneralizedPareto(1.0, 2.0, 0.3)": "genpareto(0.3, 1, 2)",
    "D.GeneralizedPareto(1.0, 2.0, -0.3)": "genpareto(-0.3, 1, 2)",
    "D.Beta(0.7, 2.0)": "beta(0.7, 2.0)", "D.Chi2(3.0)": "chi2(3)",
    "D.LogNormal(0.5, 0.7)": "lognorm(0.7, scale=np.exp(0.5))",
    "D.Cauchy(0.5, 2.0)": "cauchy(0.5, 2.0)", "D.Laplace(0.5, 2.0)": "laplace(0.5, 2.0)",
}  # fmt: skip
COUNTS = {
    "D.Binomial(3, 0.3)": "binom(3, 0.3)", "D.Binomial(16, 0.5)": "binom(16, 0.5)",
    "D.Binomial(17, 0.9)": "binom(17, 0.9)", "D.Binomial(1000, 0.01)": "binom(1000, 0.01)",
    "D.Binomial(1000000, 0.3)": "binom(1000000, 0.3)", "D.Geometric(0.3)": "geom(0.3, -1)",
    "D.Binomial(40, logits=-0.5)": "binom(40, 1 / (1 + np.exp(0.5)))",
    "D.NegativeBinomial(2.5, 0.4)": "nbinom(2.5, 0.6)", "D.Poisson(3.0)": "poisson(3.0)",
}  # fmt: skip


def made(code):
    stats = pytest.importorskip("scipy.stats")
    if "," in code:  # of float64
        code = code.replace("(", "(t.tensor(", 1).replace(",", ").double(),", 1)
    weft.manual_seed(1)
    return eval(code, {"t": weft, "D": weft.distributions}), stats  # noqa: S307


@pytest.mark.parametrize("code", ONE)
def test_numbers(code):
    """Kolmogorov and Smirnov's test; and the density, `cdf` and `icdf` are SciPy's."""
    d, stats = made(code)
    other = eval(f"stats.{ONE[code]}", {"stats": stats, "np": np})  # noqa: S307
    x = d.sample((N,)).double().numpy()
    assert stats.kstest(x, other.cdf).pvalue > 1e-3
    few = weft.from_numpy(x[:50])
    np.testing.assert_allclose(d.log_prob(few).numpy(), other.logpdf(x[:50]), 1e-4, 1e-5)
    for name, at, expected in (("cdf", few, other.cdf), ("icdf", weft.rand(9), other.ppf)):
        try:
            found = getattr(d, name)(at)
        except NotImplementedError:
            continue
        np.testing.assert_allclose(found.numpy(), expected(at.double().numpy()), 2e-3, 1e-4)


@pytest.mark.parametrize("code", COUNTS)
def test_counts(code):
    """A chi-squared test over values that are expected five times and more; and probabilities."""
    d, stats = made(code)
    other = eval(f"stats.{COUNTS[code]}", {"stats": stats, "np": np})  # noqa: S307
    x = d.sample((N,)).double().numpy()
    edges = np.unique(other.ppf(np.linspace(0.0005, 0.9995, 40)))
    inside = np.diff(np.concatenate([[0.0], other.cdf(edges), [1.0]]))
    seen = np.bincount(np.searchsorted(edges, x), minlength=len(inside))
    keep = inside * N >= 5
    scaled = inside[keep] / inside[keep].sum() * seen[keep].sum()
    assert stats.chisquare(seen[keep], scaled).pvalue > 1e-3
    assert abs(x.mean() - other.mean()) < 5 * other.std() / N**0.5
    few = np.unique(x)[:20]
    got = d.log_prob(weft.from_numpy(few)).double().numpy()
    np.testing.assert_allclose(got, other.logpmf(few), 1e-4, 1e-4)


def test_binomial_bounds():
    D = weft.distributions
    count = weft.tensor([0.0, 5.0, 50.0, 1e7])
    for p, expected in ((0.0, 0 * count), (1.0, count)):
        x = D.Binomial(count, weft.full((4,), p)).sample((100,))
        assert weft.equal(x, expected.expand(100, 4))
    drawn = D.Binomial(9, weft.tensor(float("nan")), validate_args=False).sample()
    assert bool(drawn.isnan())


MOMENTS = {
    "D.Multinomial(5, a)": "probability", "D.LKJCholesky(3, 2.0)": "correlation",
    "D.Wishart(a[0] * 0 + 5.0, S)": "matrix", "D.LowRankMultivariateNormal(a, S[:, :2], a)": "",
    "D.RelaxedBernoulli(t.tensor(0.1).double(), a / 4)": "near",
    "D.RelaxedOneHotCategorical(t.tensor(0.05).double(), a)": "near",
    "D.LogisticNormal(a, a)": "simplex", "D.ContinuousBernoulli(a / 4)": "",
    "D.Kumaraswamy(a, a + 0.5)": "", "D.OneHotCategoricalStraightThrough(a)": "",
}  # fmt: skip


@pytest.mark.parametrize("code", MOMENTS)
def test_moments(code):
    """Means and variances of samples, which lie in the support."""
    a = weft.tensor([[0.5, 1.5, 2.0], [0.75, 3.0, 0.25]], dtype=weft.float64)
    m = weft.tensor([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 1.5]], dtype=weft.float64)
    d = eval(code, {"t": weft, "D": weft.distributions, "a": a, "S": m})  # noqa: S307
    weft.manual_seed(2)
    x = d.sample((N,))
    assert bool(d.support.check(x).all())
    mean, variance = x.mean(0), x.var(0)
    if MOMENTS[code] == "near":  # of a low temperature: nearly the discrete distribution
        weft.testing.assert_close(mean, d.probs, rtol=0.05, atol=0.03)
    elif MOMENTS[code] == "correlation":  # a beta variable between -1 and 1 for each pair
        corner = (x @ x.mT)[:, 1, 0]
        assert abs(float(corner.mean())) < 0.02
        assert float(corner.var()) == pytest.approx(1 / (2 * 2.5 + 1), rel=0.05)
    elif MOMENTS[code] == "simplex":
        odds = d.transforms[0].inv(x).mean(0)
        weft.testing.assert_close(odds, d.loc, rtol=0.05, atol=0.05)
    else:
        error = 6 * (d.variance / N).sqrt() + 1e-9
        assert bool(((mean - d.mean).abs() < error).all())
        weft.testing.assert_close(variance, d.variance, rtol=0.1, atol=0.02)


SLOPES = [
    "D.InverseGamma(a * 0.5 + 4, a)", "D.FisherSnedecor(a + 4, a + 12)", "D.Kumaraswamy(a, a + 1)",
    "D.Weibull(a, a + 1)", "D.Gumbel(a, a)", "D.ContinuousBernoulli(a * 0.22)",
    "D.Pareto(a, a + 4)", "D.GeneralizedPareto(a, a, a / 8)", "D.Wishart(a[0] + 5, S)",
    "D.LogNormal(a, a / 4)",
]  # fmt: skip


@pytest.mark.parametrize("code", SLOPES)
def test_slopes_of_samples_have_the_right_mean(code):
    """The gradient of the samples' mean is that of `mean`, by the parameters."""
    a = weft.tensor([[0.5, 1.5, 2.0], [0.75, 3.0, 0.3]], dtype=weft.float64, requires_grad=True)
    m = weft.eye(3, dtype=weft.float64).requires_grad_()
    d = eval(code, {"D": weft.distributions, "a": a, "S": m})  # noqa: S307
    weft.manual_seed(3)
    got = weft.autograd.grad(d.rsample((N,)).mean(0).sum(), a, retain_graph=True)[0]
    expected = weft.autograd.grad(d.mean.sum(), a)[0]
    weft.testing.assert_close(got, expected, rtol=0.05, atol=0.05)


#: Whose draws are PyTorch's under the same seed, after PyTorch's own algorithms.
ALIKE = [
    "D.Binomial(12, t.tensor([0.3, 0.9, 0.0, 1.0])).sample((50,))",
    "D.Binomial(t.tensor([40.0, 1e6]), t.tensor(0.4)).sample((200,))",
    "D.Binomial(t.tensor([40.0, 1e6]).double(), t.tensor(0.7).double()).sample((200,))",
    "D.Multinomial(9, t.tensor([1.0, 2.0, 3.0])).sample((5,))",
    "t.binomial(t.full((30,), 100.0), t.linspace(0, 1, 30))",
    "D.Wishart(t.tensor(5.0), t.eye(3)).sample((4,))",
    "D.Wishart(t.tensor([5.0, 7.0]), t.eye(2).expand(2, 2, 2)).rsample((3,))",
]


@pytest.mark.parametrize("code", ALIKE)
@pytest.mark.filterwarnings("ignore:Singular sample detected")
def test_draws_are_pytorchs(code):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (weft, torch):
        lib.manual_seed(3)
        found.append(eval(code, {"t": lib, "D": lib.distributions}).numpy())
        found.append(lib.rand(1).numpy())  # so many numbers are taken
    np.testing.assert_allclose(found[0], found[2], 1e-5, 1e-5)
    assert found[1] == found[3]


def test_binomial_refuses_what_pytorch_refuses():
    torch = pytest.importorskip("torch")
    for lib in (weft, torch):
        with pytest.raises(ValueError, match="floating-point dtypes for count"):
            lib.binomial(lib.tensor([1]), lib.tensor([0.5]))
        with pytest.raises(RuntimeError, match="Found dtype"):
            lib.binomial(lib.tensor([1.0]), lib.tensor([0.5]).double())


@pytest.mark.filterwarnings("ignore:Low df values")
def test_wishart_draws_singular_ones_anew_and_says_so_of_them_alone():
    sound = weft.distributions.Wishart(weft.tensor(5.0), weft.eye(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bool(sound.support.check(sound.sample((200,))).all())
    nearly = weft.distributions.Wishart(weft.tensor(2.01), weft.diag(weft.tensor([1.0, 1e-6, 1.0])))
    weft.manual_seed(0)
    with pytest.warns(UserWarning, match="Singular sample"):
        nearly.rsample((200,), 3)
