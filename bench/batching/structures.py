"""Random structures of unlike size, the same for every library."""

import numpy as np


def generator(seed):
    return np.random.default_rng(seed)


def values(lib, rng, *shape):
    """Normal numbers of the library's default dtype."""
    return lib.tensor(rng.standard_normal(shape).tolist())


def whole(rng, low, high):
    """A Python int from `low` to `high`, both possible."""
    return int(rng.integers(low, high + 1))


def binary_tree(rng, leaves, leaf):
    """Nested pairs over calls of `leaf`, split at a uniformly random place at every node."""
    if leaves == 1:
        return leaf()
    left = whole(rng, 1, leaves - 1)
    return binary_tree(rng, left, leaf), binary_tree(rng, leaves - left, leaf)


def depths(roots, children):
    """The nodes of a forest by depth, roots first; a node's children are neighbours, in order."""
    levels = [list(roots)]
    while below := [child for node in levels[-1] for child in children(node)]:
        levels.append(below)
    return levels


def tree_loss(model, example):
    """The loss of a pair of a tree and a label; `model.state(tree)` gives h and c of its root."""
    tree, label = example
    return model.lib.nn.functional.cross_entropy(model.out(model.state(tree)[0]), label)
