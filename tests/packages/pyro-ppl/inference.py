"""Variational inference with guides of several kinds, enumeration, and sampling by NUTS."""

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal, AutoMultivariateNormal
from pyro.nn import PyroModule, PyroSample

pyro.set_rng_seed(0)
x = torch.randn(40, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3 + 0.1 * torch.randn(40)


class Regression(PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = PyroModule[torch.nn.Linear](3, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))
        self.linear.bias = PyroSample(dist.Normal(0.0, 10.0).expand([1]).to_event(1))

    def forward(self, x, y=None):
        sigma = pyro.sample("sigma", dist.Uniform(0.0, 10.0))
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", len(x)):
            pyro.sample("obs", dist.Normal(mean, sigma), obs=y)
        return mean


for guided in (AutoDiagonalNormal, AutoMultivariateNormal, AutoDelta):
    pyro.clear_param_store()
    pyro.set_rng_seed(1)
    model = Regression()
    guide = guided(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.03}), Trace_ELBO())
    print(guided.__name__, [f"{svi.step(x, y):.1f}" for _ in range(4)])
samples = Predictive(model, guide=guide, num_samples=5, return_sites=("linear.weight", "obs"))(x)
print({name: tuple(value.shape) for name, value in sorted(samples.items())})


@config_enumerate
def mixture(data):
    weights = pyro.sample("weights", dist.Dirichlet(0.5 * torch.ones(2)))
    with pyro.plate("components", 2):
        locs = pyro.sample("locs", dist.Normal(0.0, 10.0))
    with pyro.plate("data", len(data)):
        which = pyro.sample("which", dist.Categorical(weights))
        pyro.sample("obs", dist.Normal(locs[which], 1.0), obs=data)


pyro.clear_param_store()
pyro.set_rng_seed(2)
data = torch.tensor([0.0, 1.0, 10.0, 11.0, 12.0])
guide = AutoDelta(poutine.block(mixture, expose=["weights", "locs"]))
elbo = TraceEnum_ELBO(max_plate_nesting=1)
svi = SVI(mixture, guide, pyro.optim.Adam({"lr": 0.1}), elbo)
print([f"{svi.step(data):.2f}" for _ in range(5)])
trace = poutine.trace(mixture).get_trace(data)
print(trace.format_shapes())


def schools(sigma):
    mu = pyro.sample("mu", dist.Normal(0.0, 5.0))
    with pyro.plate("schools", 3):
        theta = pyro.sample("theta", dist.Normal(mu, 2.0))
        pyro.sample("obs", dist.Normal(theta, sigma), obs=torch.tensor([28.0, 8.0, -3.0]))


pyro.set_rng_seed(3)
mcmc = MCMC(NUTS(schools, max_tree_depth=3), num_samples=6, warmup_steps=4, disable_progbar=True)
mcmc.run(torch.tensor([15.0, 10.0, 16.0]))
print({name: tuple(value.shape) for name, value in sorted(mcmc.get_samples().items())})
for made in (
    dist.ZeroInflatedPoisson(torch.tensor(3.0), gate=torch.tensor(0.2)), dist.VonMises(0.0, 1.0),
    dist.GammaPoisson(torch.tensor(2.0), torch.tensor(1.0)), dist.LKJCholesky(3, 1.0),
):  # fmt: skip
    pyro.set_rng_seed(4)
    value = made.sample()
    print(type(made).__name__, f"{value.sum().item():.3f} {made.log_prob(value).item():.3f}")
