"""Loops whose length is a tensor's value."""

import torch


def double_until(x, limit):
    steps = 0
    while x.norm() < limit:
        x = x * 2
        steps += 1
    return x, steps


for start in ([0.5, -0.25], [3.0, 4.0], [100.0, 0.0]):
    x = torch.tensor(start, requires_grad=True)
    y, steps = double_until(x, 20)
    print(steps, y)
    y.sum().backward()
    print(x.grad)

# The count itself is a tensor.
count = torch.tensor([2, 4]).sum()
x = torch.tensor(1.1, requires_grad=True)
y = x
for i in range(count):
    y = y * x
    print(i, y)
y.backward()
print(x.grad, int(count), float(x.detach()), bool(count > 5))

# Newton's iteration stops when it has converged.
a = torch.tensor([2.0, 9.0, 10.0], dtype=torch.float64, requires_grad=True)
root = torch.ones_like(a)
while (root * root - a).abs().max() > 1e-9:
    root = (root + a / root) / 2
print(root)
root.sum().backward()
print(a.grad)
