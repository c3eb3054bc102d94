"""Stochastic differential equations by several schemes, forward and with the adjoint."""

import torch
import torchsde
from torch import nn

torch.manual_seed(0)


class Equation(nn.Module):
    noise_type = "diagonal"

    def __init__(self, sde_type):
        super().__init__()
        self.sde_type = sde_type
        self.drift, self.scale = nn.Linear(3, 3), nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.scale(y).sigmoid()


start, times = torch.full((4, 3), 0.1), torch.linspace(0, 1, 5)
for sde_type, methods in (("ito", ("euler", "milstein", "srk")),
                          ("stratonovich", ("midpoint", "heun", "reversible_heun"))):  # fmt: skip
    equation = Equation(sde_type)
    for method in methods:
        noise = torchsde.BrownianInterval(
            0.0, 1.0, (4, 3), entropy=7, levy_area_approximation="space-time"
        )
        y = torchsde.sdeint(equation, start, times, bm=noise, method=method, dt=0.1)
        equation.zero_grad()
        y.sum().backward()
        grad = equation.drift.weight.grad.norm()
        print(method, f"{y.sum().item():.3f} {grad.item():.3f}")
equation = Equation("stratonovich")
noise = torchsde.BrownianInterval(0.0, 1.0, (4, 3), entropy=7)
y = torchsde.sdeint_adjoint(equation, start, times, bm=noise, method="midpoint", dt=0.1)
y.sum().backward()
print(f"{y.sum().item():.3f} {equation.drift.weight.grad.norm().item():.3f}")
