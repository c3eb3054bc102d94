"""Divergences: every pair of PyTorch's registry, the rules of dispatch, and what they are."""

from __future__ import annotations

import math
import warnings

import pytest

import weft

# Two of each class: with positive a, any b, a covariance S, and v from 0.03 to 0.9.
P = {
    "Bernoulli": "D.Bernoulli(logits=b)", "Beta": "D.Beta(a, a + 1)",
    "Binomial": "D.Binomial(4, logits=b)", "Categorical": "D.Categorical(a)",
    "Cauchy": "D.Cauchy(b, a)", "ContinuousBernoulli": "D.ContinuousBernoulli(logits=b)",
    "Dirichlet": "D.Dirichlet(a)", "Exponential": "D.Exponential(a)", "Gamma": "D.Gamma(a, a + 1)",
    "Geometric": "D.Geometric(logits=b)", "Gumbel": "D.Gumbel(b, a)",
    "HalfNormal": "D.HalfNormal(a)",
    "Independent": "D.Independent(D.Normal(b, a), 1)", "Laplace": "D.Laplace(b, a)",
    "LowRankMultivariateNormal": "D.LowRankMultivariateNormal(b, S.expand(2, 3, 3)[..., :2], a)",
    "MultivariateNormal": "D.MultivariateNormal(b, S)", "Normal": "D.Normal(b, a)",
    "OneHotCategorical": "D.OneHotCategorical(a)", "Pareto": "D.Pareto(a, a + 0.6)",
    "Poisson": "D.Poisson(a)", "Uniform": "D.Uniform(v, v + 0.05)",
    "ExponentialFamily": "D.Poisson(a)",
    "TransformedDistribution": "D.LogNormal(b, a)",
}  # fmt: skip
Q = {
    "Bernoulli": "D.Bernoulli(t.sigmoid(a))", "Beta": "D.Beta(a + 2, a)",
    "Binomial": "D.Binomial(4, logits=a)", "Categorical": "D.Categorical(logits=b)",
    "Cauchy": "D.Cauchy(a, a + 1)", "ContinuousBernoulli": "D.ContinuousBernoulli(logits=b - 1)",
    "Dirichlet": "D.Dirichlet(a + 1)", "Exponential": "D.Exponential(a + 1)",
    "Gamma": "D.Gamma(a + 2, a)", "Geometric": "D.Geometric(t.sigmoid(a))",
    "Gumbel": "D.Gumbel(b / 2, a + 1)", "HalfNormal": "D.HalfNormal(a + 1)",
    "Independent": "D.Independent(D.Normal(a, a), 1)", "Laplace": "D.Laplace(a, a + 1)",
    "LowRankMultivariateNormal":
        "D.LowRankMultivariateNormal(a, S.expand(2, 3, 3)[..., :1], a + 1)",
    "MultivariateNormal": "D.MultivariateNormal(a, precision_matrix=S * 2)",
    "Normal": "D.Normal(a, a + 1)", "OneHotCategorical": "D.OneHotCategorical(logits=b)",
    "Pareto": "D.Pareto(a / 20, a + 2)", "Poisson": "D.Poisson(a + 1)",
    "Uniform": "D.Uniform(b - 4, b + 5)", "ExponentialFamily": "D.Poisson(a + 1)",
    "TransformedDistribution": "D.LogNormal(a, a + 1)",
}  # fmt: skip
#: Further pairs: bounds that are crossed, and what PyTorch's registry only has by a base.
MORE = [
    ("D.Bernoulli(t.tensor([0.0, 1.0]))", "D.Bernoulli(t.tensor([1.0, 1.0]))"),
    ("D.Categorical(t.tensor([0.0, 1.0]))", "D.Categorical(t.tensor([1.0, 0.0]))"),
    ("D.MultivariateNormal(b[0], S)", "D.MultivariateNormal(a, S * 2)"),
    ("D.Uniform(b, b + a)", "D.Uniform(b - 1, b + 2)"), ("D.Uniform(v - 1, v)", "D.Gamma(a, a)"),
    ("D.Uniform(v, v + 2)", "D.Beta(a, a)"), ("D.Uniform(v, v + 0.1)", "D.Pareto(v + 0.01, a)"),
    ("D.Uniform(v - 1, v)", "D.Exponential(a)"), ("D.Beta(a, a)", "D.Uniform(v, v + 2)"),
    ("D.Pareto(a, a)", "D.Pareto(a + v - 0.5, a)"), ("D.Chi2(a)", "D.Chi2(a + 1)"),
    ("D.Chi2(a)", "D.Exponential(a)"), ("D.Binomial(4, logits=b)", "D.Binomial(3, logits=a)"),
    ("D.Pareto(a, a)", "D.Normal(b, a)"),
    ("D.Uniform(v, v + 2)", "D.ContinuousBernoulli(logits=b)"),
    ("D.ContinuousBernoulli(logits=b)", "D.Uniform(v, v + 2)"),
]  # fmt: skip
REFUSED = [
    ("D.Normal(b, a)", "D.Poisson(a)"), ("D.Binomial(3, logits=b)", "D.Binomial(4, logits=a)"),
    ("D.MultivariateNormal(b, S)", "D.MultivariateNormal(b[:, :2], S[:2, :2])"),
    ("D.LogNormal(b, a)", "D.HalfCauchy(a)"), ("D.Gamma(a, a)", "D.Poisson(a)"),
    ("D.Independent(D.Normal(b, a), 1)", "D.Independent(D.Normal(b, a), 2)"),
    ("D.VonMises(b, a)", "D.VonMises(b, a)"), ("D.Weibull(a, a)", "D.Weibull(a + 1, a)"),
]  # fmt: skip


def parts(t, grad=False):
    a = t.tensor([[0.5, 1.5, 2.0], [0.75, 3.0, 0.25]], dtype=t.float64)
    b = t.tensor([[-0.5, 0.25, 1.0], [2.0, -1.5, 0.1]], dtype=t.float64)
    v = t.tensor([[0.2, 0.25, 0.35], [0.5, 0.7, 0.9]], dtype=t.float64)
    m = t.tensor([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 1.5]], dtype=t.float64)
    leaves = [x.requires_grad_(grad) for x in (a, b, v, m)]
    return {"t": t, "D": t.distributions, "a": a, "b": b, "v": v, "S": m}, leaves


def divergence(t, pair):
    """Values, and gradients by all parameters."""
    names, leaves = parts(t, grad=True)
    p, q = (eval(text, names) for text in pair)  # noqa: S307
    out = t.distributions.kl_divergence(p, q)
    found = [out]
    if out.requires_grad:
        finite = t.where(t.isfinite(out), out, 0.0)
        found += t.autograd.grad(finite.sum(), leaves, allow_unused=True)
    return [None if x is None else x.detach().numpy().copy() for x in found]


def registered(torch):
    pairs = torch.distributions.kl._KL_REGISTRY
    return [(P[p.__name__], Q[q.__name__]) for p, q in pairs
            if not (p.__name__ == "ExponentialFamily" and p is not q)]  # fmt: skip


def test_every_pair_of_the_registry(torch):
    """Values and gradients; where both are finite, and where PyTorch's is not."""
    ours = {(p.__name__, q.__name__) for p, q in weft.distributions.kl._KL_REGISTRY}
    theirs = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    assert ours == theirs
    for pair in registered(torch):
        for k, (a, b) in enumerate(zip(divergence(weft, pair), divergence(torch, pair))):
            check(a, b, (pair, k))


def check(a, b, who):
    if a is None or b is None:
        other = b if a is None else a
        assert other is None or not abs(other).sum() > 0, who
    else:
        assert a.shape == b.shape and str(a.dtype) == str(b.dtype), who
        if str(who[1]) == "0":
            weft.testing.assert_close(
                weft.from_numpy(a), weft.from_numpy(b), rtol=1e-8, atol=1e-8, msg=str(who)
            )
        else:  # a gradient: PyTorch has nan where it put an infinity over a number
            known = ~(abs(b) == math.inf) & (b == b) & (a == a)
            assert a[known] == pytest.approx(b[known], 1e-7, 1e-8), who


@pytest.mark.parametrize("pair", MORE, ids=[f"{p} | {q}" for p, q in MORE])
def test_divergences(torch, pair):
    ours, theirs = divergence(weft, pair)[0], divergence(torch, pair)[0]
    if "Continuous" in pair[0] + pair[1]:  # PyTorch takes a bound that is met for one crossed
        assert ours[theirs < math.inf] == pytest.approx(theirs[theirs < math.inf])
        assert (theirs[ours == math.inf] == math.inf).all()
    else:
        check(ours, theirs, (pair, 0))


@pytest.mark.parametrize("pair", REFUSED, ids=[f"{p} | {q}" for p, q in REFUSED])
def test_what_has_no_divergence(torch, pair):
    kinds = []
    for t in (torch, weft):
        with pytest.raises((NotImplementedError, ValueError)) as caught:
            divergence(t, pair)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


@pytest.mark.parametrize("name", ["Bernoulli", "Exponential", "Gamma", "Normal", "Poisson", "Beta",
                                  "Dirichlet", "ContinuousBernoulli"])  # fmt: skip
def test_families_by_their_normalizers(torch, name):
    """The entropy and the divergence that the base derives are those of the formulas."""
    found = []
    for t in (weft, torch):
        p, q = (eval(text[name], parts(t)[0]) for text in (P, Q))  # noqa: S307
        base = t.distributions.ExponentialFamily
        rule = t.distributions.kl._KL_REGISTRY[base, base]
        out = [rule(p, q)]
        if name not in ("Poisson", "Beta", "Dirichlet"):  # their carriers' means are not known
            out.append(base.entropy(p))
        found.append([x.detach().numpy().copy() for x in out])
    for a, b in zip(*found):
        check(a, b, (name, 0))
    p, q = (eval(text[name], parts(weft)[0]) for text in (P, Q))  # noqa: S307
    exact = weft.distributions.kl_divergence(p, q).detach().numpy()
    if name != "ContinuousBernoulli":  # its limits are of probs there, of logits here
        assert found[0][0] == pytest.approx(exact, 1e-8)


def test_a_family_of_matrices():
    """By the mean over samples: PyTorch sums the parameter without a matrix over the batch."""
    names, _ = parts(weft)
    p, q = (eval(f"D.Wishart({text})", names)  # noqa: S307
            for text in ("a[:, 1] + 4, S", "t.tensor(7.0).double(), S * 1.5"))  # fmt: skip
    weft.manual_seed(0)
    x = p.sample((20000,))
    far = (p.log_prob(x) - q.log_prob(x)).mean(0)
    assert far.tolist() == pytest.approx(weft.distributions.kl_divergence(p, q).tolist(), 0.05)
    base = weft.distributions.ExponentialFamily.entropy(p)
    assert base.tolist() == pytest.approx(p.entropy().tolist())


def test_dispatch():
    D = weft.distributions

    class Mixin:  # Pyro's base of distributions is one
        pass

    class A(D.Normal, Mixin):
        pass

    class B(A):
        pass

    before = dict(D.kl._KL_REGISTRY)
    try:
        one = D.register_kl(A, D.Normal)(lambda p, q: "A, Normal")
        assert D.kl_divergence(B(0.0, 1.0), B(0.0, 1.0)) == one(None, None)
        D.register_kl(D.Normal, B)(lambda p, q: "Normal, B")
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(B, B\). Please "
                          r"register_kl\(A, B\)"):  # fmt: skip
            assert D.kl_divergence(B(0.0, 1.0), B(0.0, 1.0)) == "A, Normal"
        D.register_kl(D.VonMises, Mixin)(lambda p, q: "VonMises, Mixin")
        assert D.kl_divergence(D.VonMises(0.0, 1.0), B(0.0, 1.0)) == "VonMises, Mixin"
        D.register_kl(A, B)(lambda p, q: "A, B")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert D.kl_divergence(B(0.0, 1.0), B(0.0, 1.0)) == "A, B"
        assert float(D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0))) == 0
    finally:
        D.kl._KL_REGISTRY.clear()
        D.kl._KL_REGISTRY.update(before)
        D.kl._KL_MEMOIZE.clear()
    with pytest.raises(TypeError, match="Distribution subclass"):
        D.register_kl(5, D.Normal)
