"""The branch taken depends on the values of the input."""

import torch


def f(x):
    return x * 2 if x.sum() > 0 else x - 2


for values in ([1.0, -1.0, 2.0], [-3.0, -2.0, -1.0]):
    x = torch.tensor(values, requires_grad=True)
    print("x:", x)
    y = f(x)
    print("y:", y)
    y.backward(torch.ones_like(y))
    print("gradient of ones:", x.grad)

    x = torch.tensor(values, requires_grad=True)
    total = f(x).sum()
    print("sum:", total)
    total.backward()
    print("gradient of the sum:", x.grad)
