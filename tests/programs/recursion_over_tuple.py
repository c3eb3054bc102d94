"""A recursive function over a nested tuple: the graph is a tree."""

import torch

torch.manual_seed(1)
words = torch.randn(6, 4, requires_grad=True)
combine = torch.randn(4, 8, requires_grad=True)


def encode(tree, depth=0):
    if isinstance(tree, int):
        value = words[tree]
    else:
        children = [encode(child, depth + 1) for child in tree]
        value = children[0]
        for child in children[1:]:
            value = torch.tanh(combine @ torch.cat([value, child]))
    print("  " * depth, tree, value)
    return value


for tree in (4, (0, 1), ((0, 1), (2, (3, 4))), ((5,), (5, 5, 5))):
    words.grad = combine.grad = None
    encode(tree).sum().backward()
    print(words.grad)
    print(None if combine.grad is None else combine.grad.sum())
