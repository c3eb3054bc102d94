"""Another branch, with a product, a quotient and a threshold; gradients add up."""

import torch


def f(x):
    if x.sum() > 10:
        return x * 3
    return x / 2


for values in ([4.0, 5.0, 6.0], [1.0, -2.0, 3.0], [2.0, 3.0, 5.0]):
    x = torch.tensor(values, requires_grad=True)
    y = f(x)
    print(x, y, y.grad_fn is None)
    y.backward(torch.ones_like(y))
    print(x.grad)
    f(x).sum().backward()
    print(x.grad, x.grad.requires_grad)
    print(f(f(x)))
