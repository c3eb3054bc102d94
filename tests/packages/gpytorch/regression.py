"""Gaussian processes: exact ones with several kernels, and a variational one."""

import gpytorch
import torch
from gpytorch import kernels as K  # noqa: N812

torch.manual_seed(0)
x = torch.linspace(0, 1, 30)
y = torch.sin(6 * x) + 0.1 * torch.randn(30)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernel

    def forward(self, x):
        mean, covar = self.mean_module(x), self.covar_module(x)
        return gpytorch.distributions.MultivariateNormal(mean, covar)


for kernel in (
    K.ScaleKernel(K.RBFKernel()), K.ScaleKernel(K.MaternKernel(nu=1.5)),
    K.ScaleKernel(K.PeriodicKernel()) + K.LinearKernel(), K.ScaleKernel(K.RQKernel()),
):  # fmt: skip
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(likelihood, kernel)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(5):
        optimizer.zero_grad()
        loss = -mll(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        seen = likelihood(model(torch.linspace(0, 1, 7)))
        low, high = seen.confidence_region()
    print(f"{loss.item():.3f} {seen.mean.sum().item():.2f} {(high - low).sum().item():.2f}")
print(model)


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = K.ScaleKernel(K.RBFKernel())

    def forward(self, x):
        mean, covar = self.mean_module(x), self.covar_module(x)
        return gpytorch.distributions.MultivariateNormal(mean, covar)


model, likelihood = Variational(x[::4].unsqueeze(1)), gpytorch.likelihoods.BernoulliLikelihood()
mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for _ in range(5):
    optimizer.zero_grad()
    loss = -mll(model(x.unsqueeze(1)), (y > 0).float())
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f}")
