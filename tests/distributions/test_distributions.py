"""Distributions beside PyTorch's: samples of a seed, properties, log-probabilities, gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft

# name: how it is made, with tensors a (positive) and b (any) of shape (2, 3); values to test
MADE = {
    "Normal": "D.Normal(b, a)",
    "Normal of numbers": "D.Normal(0.5, 2.0)",
    "LogNormal": "D.LogNormal(b, a)",
    "HalfNormal": "D.HalfNormal(a)",
    "Uniform": "D.Uniform(b, b + a)",
    "Exponential": "D.Exponential(a)",
    "Laplace": "D.Laplace(b, a)",
    "Cauchy": "D.Cauchy(b, a)",
    "Gumbel": "D.Gumbel(b, a)",
    "Bernoulli": "D.Bernoulli(t.sigmoid(b))",
    "Bernoulli of logits": "D.Bernoulli(logits=b)",
    "Geometric": "D.Geometric(t.sigmoid(b))",
    "Geometric of logits": "D.Geometric(logits=b)",
    "Poisson": "D.Poisson(a)",
    "Categorical": "D.Categorical(a)",
    "Categorical of logits": "D.Categorical(logits=b)",
    "Categorical alone": "D.Categorical(a[0])",
    "OneHotCategorical": "D.OneHotCategorical(a)",
    "OneHotCategorical straight": "D.OneHotCategoricalStraightThrough(logits=b)",
    "MultivariateNormal": "D.MultivariateNormal(b, covariance_matrix=S)",
    "MultivariateNormal of precision": "D.MultivariateNormal(b, precision_matrix=S)",
    "MultivariateNormal of factor": "D.MultivariateNormal(b[0], scale_tril=t.linalg.cholesky(S))",
    "Gamma": "D.Gamma(a, a + 1)",
    "Chi2": "D.Chi2(a)",
    "Dirichlet": "D.Dirichlet(a)",
    "Dirichlet alone": "D.Dirichlet(a[0] + 1)",
    "Beta": "D.Beta(a, a + 1)",
    "StudentT": "D.StudentT(a + 0.8, b, a)",
    "Squashed": "D.TransformedDistribution(D.Normal(b, a), [D.TanhTransform(cache_size=1)])",
    "Logistic": "D.TransformedDistribution(D.Uniform(t.zeros(3).double(), 1.0), "
    "[D.SigmoidTransform().inv, D.AffineTransform(b, -2.0)])",
    "Flow of vectors": "D.TransformedDistribution(D.MultivariateNormal(b, S), "
    "[D.AffineTransform(b, a, event_dim=1), D.ExpTransform()])",
    "Simplex": "D.TransformedDistribution(D.Normal(b, a), D.StickBreakingTransform())",
    "Reshaped": "D.TransformedDistribution(D.Normal(b, a), D.ReshapeTransform((3,), (3, 1)))",
    "Mixture": "D.MixtureSameFamily(D.Categorical(logits=b), D.Normal(b, a))",
    "Mixture of vectors": "D.MixtureSameFamily(D.Categorical(a[:, 0]), "
    "D.Independent(D.Normal(b, a), 1))",
    "Independent": "D.Independent(D.Normal(b, a), 1)",
    "Independent of all": "D.Independent(D.Bernoulli(logits=b), 2)",
}
SINGLE = ["mean", "mode", "variance", "stddev", "batch_shape", "event_shape", "has_rsample",
          "has_enumerate_support"]  # fmt: skip


def parts(t, grad=False):
    a = t.tensor([[0.5, 1.5, 2.0], [0.75, 3.0, 0.25]], dtype=t.float64)
    b = t.tensor([[-0.5, 0.25, 1.0], [2.0, -1.5, 0.1]], dtype=t.float64)
    m = t.tensor([[1.0, 0.5, 0.2], [0.5, 2.0, -0.3], [0.2, -0.3, 1.5]], dtype=t.float64)
    leaves = [x.requires_grad_(grad) for x in (a, b, m)]
    return {"t": t, "D": t.distributions, "a": a, "b": b, "S": m}, leaves


def make(t, name, **options):
    names, leaves = parts(t, **options)
    return eval(MADE[name], names), leaves  # noqa: S307


def attempt(f):
    try:
        return f()
    except (NotImplementedError, AttributeError, TypeError) as error:
        return type(error)


def same(a, b, rtol=1e-9):
    if hasattr(b, "numpy"):
        assert str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape)
        weft.testing.assert_close(
            a.detach(), weft.from_numpy(b.detach().numpy().copy()), rtol=rtol, atol=rtol,
            equal_nan=True,
        )  # fmt: skip
    elif isinstance(b, type):
        assert a is b or issubclass(a, b)
    else:
        assert repr(a) == repr(b)


@pytest.mark.parametrize("name", MADE)
def test_samples_and_properties(torch, name):
    def seen(t):
        d = make(t, name)[0]
        t.manual_seed(5)
        out = [d.sample(), d.sample((4,)), d.sample(t.Size([2, 2])), repr(d)]
        out += [attempt(lambda s=s: getattr(d, s)) for s in SINGLE]
        out += [attempt(d.entropy), attempt(d.perplexity), attempt(d.enumerate_support)]
        out.append(attempt(lambda: d.enumerate_support(expand=False)))
        wide = d.expand((3, *d.batch_shape))
        out += [wide.batch_shape, wide.sample(), wide.log_prob(wide.sample())]
        out += [attempt(lambda n=n: getattr(d, n)) for n in ("probs", "logits", "param_shape")]
        out.append(attempt(lambda: d.support.check(d.sample((2,)))))
        return out

    for k, (a, b) in enumerate(zip(seen(weft), seen(torch), strict=True)):
        if isinstance(b, type):
            assert isinstance(a, type), (k, a, b)
        else:
            same(a, b)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", MADE)
def test_gradients(torch, name, order):
    def seen(t):
        d, leaves = make(t, name, grad=True)
        t.manual_seed(5)
        value = d.sample((2,))
        outs = [d.log_prob(value)]
        drawn = [lambda: d.cdf(value), lambda: d.rsample((3,))]  # see below for those of gamma
        if name.split()[0] in ("Gamma", "Chi2", "Beta", "Dirichlet", "StudentT"):
            drawn = []
        for f in (*drawn, lambda: d.icdf(t.full((), 0.3, dtype=t.float64)), d.entropy,
                  lambda: d.mean):  # fmt: skip
            found = attempt(f)
            if not isinstance(found, type):
                outs.append(found)
        for k in range(order):
            total = sum((o * (i + 1) * 0.3).sum() for i, o in enumerate(outs)
                        if o is not None and o.requires_grad)  # fmt: skip
            if not hasattr(total, "backward"):
                return [None] * 3
            outs = list(t.autograd.grad(total, leaves, create_graph=k + 1 < order,
                                        allow_unused=True))  # fmt: skip
        return outs

    for a, b in zip(seen(weft), seen(torch), strict=True):
        if a is None or b is None:
            other = b if a is None else a
            assert other is None or float(other.detach().abs().sum()) == 0
        else:
            same(a, b, 1e-8)


def test_slopes_of_gamma_numbers():
    """Beside differences of SciPy's quantiles: PyTorch's own are right to 6e-4."""
    special = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(0)
    a, p = np.exp(rng.uniform(-3, 9, 2000)), rng.uniform(1e-6, 1 - 1e-6, 2000)
    x, step = special.gammaincinv(a, p), 1e-4 * a
    known = x > 1e-200
    expected = special.gammaincinv(a + step, p) - special.gammaincinv(a - step, p)
    expected = (expected / (2 * step))[known]
    slope = weft._C.ops._standard_gamma_grad
    got = slope(weft.from_numpy(a[known]), weft.from_numpy(x[known])).numpy()
    assert known.sum() > 1900
    np.testing.assert_allclose(got, expected, 1e-4)
    far = slope(*(weft.tensor([v], dtype=weft.float64) for v in (5.0, 41.783543556)))
    assert abs(far.item() - 2.483888155) < 1e-6  # a tail of 1e-13
    assert abs(slope(weft.tensor([1e6]), weft.tensor([1e6])).item() - 1) < 1e-5


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet"])
def test_gradients_of_samples_have_the_right_mean(name):
    """That of the samples' mean, by the parameters."""
    d, leaves = make(weft, name, grad=True)
    weft.manual_seed(0)
    weights = weft.tensor([[1.0, -2.0, 3.0], [0.5, 2.0, -1.0]], dtype=weft.float64)
    got = weft.autograd.grad((d.rsample((20000,)) * weights).sum() / 20000, leaves[0])[0]
    expected = weft.autograd.grad((d.mean * weights).sum(), leaves[0])[0]
    assert float((got - expected).abs().max()) < 0.02
    with pytest.raises(NotImplementedError, match="derivative"):
        first = weft.autograd.grad(d.rsample().sum() ** 2, leaves[0], create_graph=True)[0]
        first.sum().backward()


PAIRS = [
    ("D.Normal(b, a)", "D.Normal(a, a + 1)"), ("D.LogNormal(b, a)", "D.LogNormal(a, a + 1)"),
    ("D.HalfNormal(a)", "D.HalfNormal(a + 1)"), ("D.Uniform(b, b + a)", "D.Uniform(b - 1, b + 2)"),
    ("D.Exponential(a)", "D.Exponential(a + 1)"), ("D.Laplace(b, a)", "D.Laplace(a, a + 1)"),
    ("D.Gumbel(b, a)", "D.Gumbel(a, a + 1)"), ("D.Poisson(a)", "D.Poisson(a + 1)"),
    ("D.Gamma(a, a + 1)", "D.Gamma(a + 2, a)"), ("D.Beta(a, a + 1)", "D.Beta(a + 2, a)"),
    ("D.Dirichlet(a)", "D.Dirichlet(a + 1)"), ("D.Chi2(a)", "D.Chi2(a + 1)"),
    ("D.Bernoulli(logits=b)", "D.Bernoulli(t.sigmoid(a))"),
    ("D.Bernoulli(t.tensor([0.0, 1.0]))", "D.Bernoulli(t.tensor([1.0, 1.0]))"),
    ("D.Geometric(t.sigmoid(b))", "D.Geometric(t.sigmoid(a))"),
    ("D.Categorical(a)", "D.Categorical(logits=b)"),
    ("D.Categorical(t.tensor([0.0, 1.0]))", "D.Categorical(t.tensor([1.0, 0.0]))"),
    ("D.OneHotCategorical(a)", "D.OneHotCategorical(logits=b)"),
    ("D.MultivariateNormal(b, S)", "D.MultivariateNormal(a, S * 2)"),
    ("D.MultivariateNormal(b[0], S)", "D.MultivariateNormal(a, precision_matrix=S * 2)"),
    ("D.Independent(D.Normal(b, a), 1)", "D.Independent(D.Normal(a, a), 1)"),
    ("D.Normal(b, a)", "D.Gumbel(b, a)"),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=[f"{p} | {q}" for p, q in PAIRS])
def test_divergences(torch, pair):
    def seen(t):
        names, leaves = parts(t, grad=True)
        p, q = (eval(text, names) for text in pair)  # noqa: S307
        if "Gumbel" in pair[1] and "Normal" in pair[0]:
            return attempt(lambda: t.distributions.kl_divergence(p, t.distributions.Poisson(1.0)))
        out = t.distributions.kl_divergence(p, q)
        if not out.requires_grad:
            return [out]
        return [out, *t.autograd.grad(out.sum(), leaves, allow_unused=True)]

    ours, theirs = seen(weft), seen(torch)
    if isinstance(theirs, type):
        assert ours is theirs
        return
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            same(a, b)


ERRORS = """
D.Normal(b, -a); D.Normal(b, b); D.Normal('x', 1); D.Bernoulli(b); D.Bernoulli(); D.Bernoulli(a, b)
D.Categorical(); D.Categorical(t.tensor(1.0)); D.Uniform(b, b); D.Poisson(-a)
D.Categorical(a).log_prob(t.tensor([3, 0])); D.Normal(b, a).log_prob(t.ones(4))
D.Bernoulli(logits=b).log_prob(t.tensor(0.5)); D.Normal(b, a).log_prob(1.0)
D.MultivariateNormal(b, -S); D.MultivariateNormal(b); D.MultivariateNormal(b[0, 0], S)
D.MultivariateNormal(b, S, S); D.MultivariateNormal(b, scale_tril=S); D.Exponential(b)
D.MultivariateNormal(b, S).log_prob(t.ones(2)); D.Independent(D.Normal(b, a), 3)
D.Uniform(b, b + a).log_prob(b - 1); D.OneHotCategorical(a).log_prob(t.ones(2, 3))
D.Normal(b, a).enumerate_support(); D.Poisson(a).rsample(); D.Poisson(a).entropy()
D.kl_divergence(D.Normal(b, a), D.Poisson(a)); D.Geometric(a * 0)
"""


@pytest.mark.parametrize(
    "text", [c.strip() for c in ERRORS.replace("\n", ";").split(";") if c.strip()]
)
def test_errors(torch, text):
    kinds = []
    for t in (torch, weft):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            eval(text, parts(t)[0])  # noqa: S307
        kinds.append(caught.value)
    assert type(kinds[1]) is type(kinds[0]), kinds
    if type(kinds[0]) is ValueError:
        assert str(kinds[1])[:40] == str(kinds[0])[:40] or str(kinds[1])[0] == "[", kinds


def test_validation_may_be_off():
    d = weft.distributions.Normal(0.0, -1.0, validate_args=False)
    assert math.isnan(d.log_prob(weft.tensor(0.0)).item())
    try:
        weft.distributions.Distribution.set_default_validate_args(False)
        weft.distributions.Bernoulli(weft.tensor(2.0))
    finally:
        weft.distributions.Distribution.set_default_validate_args(True)


def test_a_policy_learns():
    """REINFORCE on a bandit: the classes' logits go to the one that pays."""
    weft.manual_seed(0)
    logits = weft.zeros(4, requires_grad=True)
    optimizer = weft.optim.Adam([logits], 0.1)
    for _ in range(60):
        policy = weft.distributions.Categorical(logits=logits)
        action = policy.sample((16,))
        reward = (action == 2).float()
        loss = -(policy.log_prob(action) * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert int(logits.argmax()) == 2 and float(policy.probs[2].detach()) > 0.8


TRANSFORMS = {
    "D.ExpTransform()": "b", "D.SigmoidTransform()": "b", "D.TanhTransform()": "b",
    "D.SoftplusTransform()": "b", "D.PowerTransform(t.tensor(1.5).double())": "a",
    "D.AffineTransform(1.0, -2.0)": "b", "D.AffineTransform(b, a, event_dim=1)": "b",
    "D.StickBreakingTransform()": "b", "D.ReshapeTransform((3,), (1, 3))": "b",
    "D.ExpTransform().inv": "a", "D.IndependentTransform(D.ExpTransform(), 1)": "b",
    "D.ComposeTransform([D.AffineTransform(0.5, 2.0), D.ExpTransform()])": "b",
    "D.ComposeTransform([D.ExpTransform(), D.StickBreakingTransform()])": "b",
}  # fmt: skip


@pytest.mark.parametrize("code", TRANSFORMS)
def test_a_transform_is_pytorchs(code):
    """Values, inverses, log-determinants, shapes, what it prints; and the inverse inverts."""
    torch = pytest.importorskip("torch")
    results = []
    for t in (weft, torch):
        names, _ = parts(t)
        transform, x = eval(code, names), names[TRANSFORMS[code]]  # noqa: S307
        y = transform(x)
        weftlike = [y, transform.inv(y), transform.log_abs_det_jacobian(x, y)]
        results.append((
            [[list(v.shape), pytest.approx(v.reshape(-1).tolist())] for v in weftlike],
            tuple(transform.forward_shape(x.shape)), tuple(transform.inverse_shape(y.shape)),
            repr(transform), transform.bijective, transform.codomain.event_dim,
        ))  # fmt: skip
        np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-6, atol=1e-9)
    ours, theirs = results
    assert [[s, v.expected] for s, v in ours[0]] == theirs[0] and ours[1:] == theirs[1:]


def test_a_cached_transform_gives_back_its_input():
    t = weft.distributions.TanhTransform(cache_size=1)
    x = weft.tensor([20.0])
    assert t.inv(t(x)) is x
    with pytest.raises(ValueError):
        weft.distributions.TanhTransform(cache_size=2)
    with pytest.raises(ValueError):
        weft.distributions.TransformedDistribution(weft.distributions.Normal(0.0, 1.0), [5])
    with pytest.raises(ValueError):
        weft.distributions.MixtureSameFamily(
            weft.distributions.Categorical(weft.ones(3)), weft.distributions.Normal(0.0, 1.0)
        )
