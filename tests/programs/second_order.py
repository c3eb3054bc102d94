"""Derivatives of derivatives: create_graph, Hessians, a gradient penalty, a learnt step."""

import torch

x = torch.tensor(2.0, requires_grad=True)
y = x**4
for order in range(1, 5):
    (y,) = torch.autograd.grad(y, x, create_graph=True)
    print(order, y.item())


def rosenbrock(p):
    a, b = p
    return (1 - a) ** 2 + 100 * (b - a * a) ** 2


p = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
(gradient,) = torch.autograd.grad(rosenbrock(p), p, create_graph=True)
print(gradient.detach())
rows = [torch.autograd.grad(g, p, retain_graph=True)[0] for g in gradient]
print(torch.stack(rows))
for _ in range(3):
    (gradient,) = torch.autograd.grad(rosenbrock(p), p, create_graph=True)
    hessian = torch.stack([torch.autograd.grad(g, p, retain_graph=True)[0] for g in gradient])
    (a, b), (_, d) = hessian
    inverse = torch.stack([torch.stack([d, -b]), torch.stack([-b, a])]) / (a * d - b * b)
    p = (p - inverse @ gradient).detach().requires_grad_()
    print(p)

# A penalty on the norm of a gradient.
torch.manual_seed(11)
w = torch.randn(3, 2, requires_grad=True)
inputs = torch.randn(4, 3, requires_grad=True)
out = torch.tanh(inputs @ w).sum()
(g,) = torch.autograd.grad(out, inputs, create_graph=True)
penalty = ((g.norm(dim=1) - 1) ** 2).mean()
print(f"{penalty.item():.4f}")
penalty.backward()
print(w.grad)

# Learning the learning rate through three inner steps.
rate = torch.tensor(0.1, requires_grad=True)
theta = torch.tensor([1.0, 2.0], requires_grad=True)
value = theta
for _ in range(3):
    (g,) = torch.autograd.grad((value**2).sum() / 2, value, create_graph=True)
    value = value - rate * g
(value**2).sum().backward()
print(value)
print(rate.grad, theta.grad)
unused = torch.zeros(1, requires_grad=True)
print(torch.autograd.grad((theta * 2).sum(), [theta, unused], allow_unused=True))
