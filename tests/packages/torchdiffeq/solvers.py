"""Differential equations by several solvers, their gradients, and an event."""

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y**3)


field, start = Field(), torch.tensor([[2.0, 0.0], [1.0, 1.0]], requires_grad=True)
times = torch.linspace(0, 1, 5)
for method in ("dopri5", "dopri8", "bosh3", "rk4", "midpoint", "euler"):
    for solve in (odeint, odeint_adjoint):
        y = solve(field, start, times, method=method)
        (grad,) = torch.autograd.grad(y.square().sum(), start)
        print(method, solve.__name__, f"{y.sum().item():.3f} {grad.sum().item():.2f}")


class Fall(nn.Module):
    def forward(self, t, state):
        return state[1], torch.full_like(state[1], -9.8)


begin, t0 = (torch.tensor([10.0]), torch.tensor([0.0])), torch.tensor(0.0)
when, (height, _) = odeint_event(
    Fall(), begin, t0, event_fn=lambda t, s: s[0][0], odeint_interface=odeint
)
print(f"{when.item():.3f} {abs(height[-1].item()):.3f}")
