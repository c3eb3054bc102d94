"""Distributions beside PyTorch's: samples of a seed, properties, log-probabilities, gradients."""

from __future__ import annotations

import importlib
import math
import pickle
import pkgutil
import warnings

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
    "Binomial": "D.Binomial(5, t.sigmoid(b))",
    "Binomial of logits": "D.Binomial(t.tensor([3.0, 4.0, 50.0]), logits=b)",
    "ContinuousBernoulli": "D.ContinuousBernoulli(t.sigmoid(b))",
    "ContinuousBernoulli of logits": "D.ContinuousBernoulli(logits=b)",
    "ContinuousBernoulli of halves": "D.ContinuousBernoulli(a * 0 + 0.5003)",
    "FisherSnedecor": "D.FisherSnedecor(a * 2, a * 4)",
    "GeneralizedPareto": "D.GeneralizedPareto(b.float(), a.float(), b.float() / 3)",
    "GeneralizedPareto of 0": "D.GeneralizedPareto(b.float(), a.float(), 0.0)",
    "HalfCauchy": "D.HalfCauchy(a)",
    "InverseGamma": "D.InverseGamma(a * 3, a + 1)",
    "Kumaraswamy": "D.Kumaraswamy(a, a + 0.5)",
    "LKJCholesky": "D.LKJCholesky(3, a[0] + 0.5)",
    "LKJCholesky alone": "D.LKJCholesky(2, 1.5)",
    "LogisticNormal": "D.LogisticNormal(b, a)",
    "LogisticNormal of numbers": "D.LogisticNormal(0.5, 1.0)",
    "LowRankMultivariateNormal": "D.LowRankMultivariateNormal(b, S[:, :2], a)",
    "Multinomial": "D.Multinomial(5, a)",
    "Multinomial of logits": "D.Multinomial(3, logits=b[0])",
    "NegativeBinomial": "D.NegativeBinomial(a * 4, t.sigmoid(b))",
    "NegativeBinomial of logits": "D.NegativeBinomial(3, logits=b)",
    "Pareto": "D.Pareto(a, a + 1.2)",
    "RelaxedBernoulli": "D.RelaxedBernoulli(t.tensor(0.7).double(), t.sigmoid(b))",
    "RelaxedBernoulli of logits": "D.RelaxedBernoulli(a[0], logits=b)",
    "RelaxedOneHotCategorical": "D.RelaxedOneHotCategorical(t.tensor(0.7).double(), a)",
    "VonMises": "D.VonMises(b, a * 4)",
    "Weibull": "D.Weibull(a, a + 1.1)",
    "Wishart": "D.Wishart(a[:, 1] + 3, S)",
    "Wishart of factor": "D.Wishart(t.tensor(4.5).double(), scale_tril=t.linalg.cholesky(S))",
    "Wishart of precision": "D.Wishart(4, precision_matrix=S)",
    "Copula": "D.TransformedDistribution(D.MultivariateNormal(b, S), "
    "[D.CumulativeDistributionTransform(D.Normal(t.zeros(3).double(), a[0]))])",
    "Independent": "D.Independent(D.Normal(b, a), 1)",
    "Independent of all": "D.Independent(D.Bernoulli(logits=b), 2)",
}
#: How near the results are where they are not the same function of float64 numbers: PyTorch has
#: float32 numbers or a series of 7 digits; or the parameters are of float32 here.
NEAR = {"GeneralizedPareto": 1e-5, "LKJCholesky": 1e-5, "LogisticNormal": 1e-5, "Multinomial": 1e-6,
        "VonMises": 1e-5}  # fmt: skip
#: Of which PyTorch draws other numbers: test_draws.py has their distribution. (Its Wishart takes
#: all samples for singular, and draws them again.)
OTHER_DRAWS = {"Binomial", "Wishart"}
#: Of whose samples PyTorch has other gradients, see below.
OTHER_SLOPES = {"Gamma", "Chi2", "Beta", "Dirichlet", "StudentT", "FisherSnedecor", "InverseGamma",
                "Wishart"}  # fmt: skip
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


def family(name):
    return name.split()[0]


def drawn_once(torch, name):
    """PyTorch's sample, as an array, so that both look at the same value."""
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(torch, name)[0].sample((2,)).detach().numpy().copy()


@pytest.mark.parametrize("name", MADE)
def test_samples_and_properties(torch, name):
    value = drawn_once(torch, name)

    def seen(t):
        d, x = make(t, name)[0], t.from_numpy(value)
        wide = d.expand((3, *d.batch_shape))
        out = [repr(d), repr(wide), wide.batch_shape, wide.event_shape]
        out += [d.log_prob(x), wide.log_prob(x[:, None]), d.support.check(x), repr(d.support)]
        out += [attempt(lambda s=s: getattr(d, s)) for s in SINGLE]
        out += [attempt(d.entropy), attempt(d.perplexity), attempt(d.enumerate_support)]
        out += [attempt(lambda: d.enumerate_support(expand=False)), attempt(wide.entropy)]
        out += [attempt(lambda n=n: getattr(wide, n)) for n in SINGLE]
        out += [attempt(lambda n=n: getattr(d, n)) for n in ("probs", "logits")]
        if family(name) not in OTHER_DRAWS:
            t.manual_seed(5)
            out += [d.sample(), d.sample((4,)), d.sample(t.Size([2, 2])), wide.sample()]
        return out

    for k, (a, b) in enumerate(zip(seen(weft), seen(torch), strict=True)):
        if isinstance(b, type):  # an expanded Multinomial of PyTorch lacks an attribute
            assert isinstance(a, type) or (b, family(name)) == (AttributeError, "Multinomial"), k
        else:
            same(a, b, NEAR.get(family(name), 1e-9))


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", MADE)
def test_gradients(torch, name, order):
    value = drawn_once(torch, name)

    def seen(t):
        d, leaves = make(t, name, grad=True)
        x = t.from_numpy(value)
        t.manual_seed(5)
        outs = [d.log_prob(x)]
        drawn = [lambda: d.cdf(x), lambda: d.rsample((3,))]
        if family(name) in OTHER_SLOPES | OTHER_DRAWS:
            drawn = []
        third = t.full((), 0.3, dtype=outs[0].dtype)
        for f in (*drawn, lambda: d.icdf(third), d.entropy, lambda: d.mean):
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

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = seen(weft), seen(torch)
    for a, b in zip(ours, theirs, strict=True):
        if a is None or b is None:
            other = b if a is None else a
            assert other is None or float(other.detach().abs().sum()) == 0
        else:
            same(a, b, 10 * NEAR.get(family(name), 1e-9))


@pytest.mark.parametrize("name", ["Gamma", "InverseGamma"])
def test_probabilities_by_gamma_numbers(torch, name):
    """Which PyTorch has no gradients of by the concentration."""
    x = [0.1, 0.5, 3.0]
    ours, theirs = (make(t, name)[0].cdf(t.tensor(x).double()) for t in (weft, torch))
    same(ours, theirs)


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


def test_slopes_of_dirichlet_numbers():
    """Beside differences of SciPy's quantiles: PyTorch's own are right to 3e-3."""
    special = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.uniform(-2, 6, (2, 2000)))
    p = rng.uniform(1e-6, 1 - 1e-6, 2000)
    x, step = special.betaincinv(a, b, p), 1e-4 * a
    expected = special.betaincinv(a + step, b, p) - special.betaincinv(a - step, b, p)
    expected = expected / (2 * step) / (1 - x)
    known = (x > 1e-200) & (x < 1 - 1e-8)
    got = weft._dirichlet_grad(*(weft.from_numpy(v[known]) for v in (x, a, a + b))).numpy()
    assert known.sum() > 1700
    np.testing.assert_allclose(got, expected[known], 1e-4)
    half, many = weft.tensor([0.5]), weft.tensor([2e8])
    assert abs(weft._dirichlet_grad(half, many, 2 * many).item() * 4e8 - 1) < 1e-5


@pytest.mark.parametrize("name", ["Beta", "Dirichlet", "Dirichlet alone"])
def test_gradients_of_dirichlet_samples_are_pytorchs(torch, name):
    """To the 3e-3 of PyTorch's: they held another quantile, and single ones were others."""
    grads = []
    for t in (weft, torch):
        d, leaves = make(t, name, grad=True)
        t.manual_seed(0)
        total = (d.rsample((5,)) ** 2).sum()
        grads.append(t.autograd.grad(total, leaves[0])[0].numpy())
    np.testing.assert_allclose(*grads, 3e-3, 1e-5)


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
D.kl_divergence(D.Normal(b, a), D.Poisson(a)); D.Geometric(a * 0); D.Cauchy(b, b); D.Chi2(b)
D.Binomial(3); D.Binomial(-1, a / 4); D.Binomial(3, a); D.ContinuousBernoulli(); D.Gamma(b, a)
D.Binomial(2, a / 4).log_prob(a * 0 + 3); D.Binomial(a.floor(), a / 4).entropy()
D.Binomial(a.floor(), a / 4).enumerate_support(); D.ContinuousBernoulli(a, validate_args=True)
D.ContinuousBernoulli(logits=b).log_prob(a * 2); D.FisherSnedecor(b, a); D.HalfCauchy(b)
D.GeneralizedPareto(b, b, a); D.HalfNormal(b); D.InverseGamma(b, a); D.Kumaraswamy(b, a)
D.LKJCholesky(1); D.LKJCholesky(3, b); D.LKJCholesky(3, a[0]).log_prob(S); D.LogNormal(b, b)
D.LowRankMultivariateNormal(b[0, 0], S, a); D.LowRankMultivariateNormal(b, b[0], a)
D.LowRankMultivariateNormal(b, S[:2], a); D.LowRankMultivariateNormal(b, S, a[:, :2])
D.Multinomial(a, a); D.Multinomial(2)
D.LowRankMultivariateNormal(b, S.expand(4, 3, 3), a)
D.Multinomial(2, a).log_prob(a * 0 + 1); D.NegativeBinomial(2); D.NegativeBinomial(-a, a / 4)
D.NegativeBinomial(2, a); D.OneHotCategorical(); D.Pareto(b, a)
D.Pareto(a, a).log_prob(a / 2); D.Weibull(b, a); D.RelaxedBernoulli(a); D.Dirichlet(a[0, 0])
D.RelaxedOneHotCategorical(a[0], a).log_prob(a); D.VonMises(b, b); D.Dirichlet(b); D.Beta(b, a)
D.Wishart(1.5, S); D.Wishart(4, S, S); D.Wishart(4); D.Wishart(4, S[0]); D.Wishart(4, -S)
D.StudentT(b); D.Gumbel(b, b); D.Laplace(b, b); D.Uniform(b, b - 1); D.Distribution().mean
D.TransformedDistribution(D.Normal(b, a), 5); D.TransformedDistribution(D.Normal(b, a), [5])
D.TransformedDistribution(D.Normal(0., 1.), D.StickBreakingTransform())
D.MixtureSameFamily(D.Normal(b, a), D.Normal(b, a)); D.MixtureSameFamily(D.Categorical(a), 5)
D.MixtureSameFamily(D.Categorical(a), D.Normal(b[:, :2], a[:, :2]))
D.MixtureSameFamily(D.Categorical(a), D.Normal(b.expand(3, 2, 3)[:, :1].expand(3, 3, 3), 1.))
D.Distribution.set_default_validate_args(5); D.Normal(b, a).rsample((-1,))
D.Distribution((), validate_args=False).expand((2,))
D.Distribution((), validate_args=False).support
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
        assert str(kinds[1])[:18] == str(kinds[0])[:18] or str(kinds[1])[0] == "[", kinds


def test_a_mixture_of_fewer_weights_than_components_have_batches():
    """PyTorch has its density but no samples."""
    names, _ = parts(weft)
    d = eval("D.MixtureSameFamily(D.Categorical(a[0]), D.Normal(b, a))", names)  # noqa: S307
    assert d.sample((5,)).shape == (5, 2) and d.log_prob(names["b"][:, 0]).shape == (2,)


@pytest.mark.parametrize("name", MADE)
def test_pickles_and_copies(name):
    """What is loaded has the same density and parameters; a subclass expands to its own kind."""
    d = make(weft, name)[0]
    x = d.sample((2,))
    again = pickle.loads(pickle.dumps(d))
    weft.testing.assert_close(again.log_prob(x), d.log_prob(x))
    assert repr(again) == repr(d)
    kind = type("Mine", (type(d),), {})
    mine = kind.__new__(kind)
    mine.__dict__.update(d.__dict__)
    assert type(mine.expand((2, *d.batch_shape))) is kind
    other = type("Other", (type(d),), {"__init__": lambda self: None})
    mine.__class__ = other
    with pytest.raises(NotImplementedError, match="must also define a custom .expand"):
        mine.expand((2, *d.batch_shape))


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


#: Private names that programs import: Pyro, GPyTorch.
IMPORTED = {
    "utils": ["_standard_normal", "_sum_rightmost", "euler_constant"],
    "transforms": ["_InverseTransform"], "constraints": ["_CorrCholesky", "_Dependent"],
    "multivariate_normal": ["_batch_mahalanobis", "_batch_mv", "_precision_to_scale_tril"],
    "relaxed_bernoulli": ["LogitRelaxedBernoulli"],
    "relaxed_categorical": ["ExpRelaxedCategorical"],
}  # fmt: skip


def test_modules_and_their_names(torch):
    """Each module of PyTorch's has a namesake with its names, and its classes their attributes."""
    for info in pkgutil.iter_modules(torch.distributions.__path__):
        theirs = importlib.import_module(f"torch.distributions.{info.name}")
        ours = importlib.import_module(f"weft.distributions.{info.name}")
        for name in [*theirs.__all__, *IMPORTED.get(info.name, ())]:
            mine, other = getattr(ours, name), getattr(theirs, name)
            if isinstance(other, type):
                public = {n for n in dir(other) if not n.startswith("_")}
                assert public <= set(dir(mine)), (name, public - set(dir(mine)))
    assert set(torch.distributions.__all__) <= set(weft.distributions.__all__)
    assert weft.distributions.Independent[weft.distributions.Normal]


@pytest.mark.parametrize("name", ["Poisson", "Exponential", "HalfNormal"])
def test_numbers_expand_to_no_batch(torch, name):
    """`Poisson(tensor(3.)).expand(())` called expand without a size, which raised."""
    for lib in (weft, torch):
        made = getattr(lib.distributions, name)(lib.tensor(3.0)).expand(())
        assert tuple(made.batch_shape) == () and tuple(made.sample().shape) == ()
