"""Closures, generators, comprehensions, dictionaries: plain Python around tensors."""

from functools import partial, reduce

import torch


def polynomial(*coefficients):
    def value(x):
        return sum(c * x**k for k, c in enumerate(coefficients))

    return value


def running_means(stream):
    total, count = 0, 0
    for item in stream:
        total, count = total + item, count + 1
        yield total / count


def samples(x, n):
    for k in range(1, n + 1):
        yield x * k if k % 2 else x - k


x = torch.tensor([1.0, 2.0], requires_grad=True)
p = polynomial(1.0, -2.0, 0.5)
print(p(x))
p(x).sum().backward()
print(x.grad)

x.grad = None
means = list(running_means(samples(x, 5)))
for mean in means:
    print(mean)
torch.stack(means).sum().backward()
print(x.grad)

# A counter in a closure: how often the loop runs depends on an item.
calls = []


def shrink(y, factor):
    calls.append(y.item())
    return y * factor


y = torch.tensor(10.0, requires_grad=True)
z = y
while z.item() > 1:
    z = shrink(z, 0.5)
print(calls, z)
z.backward()
print(y.grad)

scale = partial(torch.mul, torch.tensor(3.0))
chain = reduce(lambda value, f: f(value), [scale, torch.neg, torch.exp], torch.tensor([0.1, 0.2]))
print(chain)
table = {name: getattr(torch, name)(torch.tensor([0.25, 0.5])) for name in ("sin", "cos", "sqrt")}
print(table)
print([t for t in torch.arange(3)], max(torch.tensor([3.0, 7.0, 5.0])), sum(torch.ones(4)))
a, b = torch.tensor([1.5, 2.5])
print(a, b, sorted([torch.tensor(2), torch.tensor(1)]), len(torch.zeros(5, 2)))
