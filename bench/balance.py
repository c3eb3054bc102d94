"""What the slowest rank does over the mean, with and without BalancedBatchSampler: ListOps.

Usage: python bench/balance.py [--trees 40000]

Counted, not timed: inner nodes of trees, each a call of the gates, drawn as examples/listops.py
does. Each step waits for the rank with the most, so maxima and means are summed over the steps.
"""

import argparse
import random
import sys
from pathlib import Path

from weft.distributed import BalancedBatchSampler

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import listops

BATCH = 32


def nodes(tree):
    """The inner nodes of a tree."""
    count = 0
    while isinstance(tree, tuple):  # the left is the long side
        tree, right = tree
        count += 1 + nodes(right)
    return count


def drawn(count, depth=3, seed=0):
    rng = random.Random(seed)
    return [listops.expression(rng, depth)[0] for _ in range(count)]


def slowest_over_mean(costs, ranks, counted):
    """The sum over steps of what the rank with the most has, over that of the means."""
    sampler = BalancedBatchSampler(range(len(costs)), costs, BATCH, ranks, 0, drop_last=True)
    work = [[sum(counted[i] for i in share) for share in step] for step in sampler.shares()]
    return sum(map(max, work)) * ranks / sum(map(sum, work))


def table(trees=40000):
    ones = [1] * trees
    print(f"{f'{BATCH} trees a rank':24}{'ranks':>6}{'without':>10}{'with':>8}")
    for depth in (3, 5):
        counted = [nodes(tree) for tree in drawn(trees, depth)]
        for ranks in (2, 4, 8, 64, 1024):
            if ranks * BATCH > trees:
                continue
            without, balanced = (slowest_over_mean(c, ranks, counted) for c in (ones, counted))
            print(f"{f'ListOps, depth {depth}':24}{ranks:>6}{without:>10.3f}{balanced:>8.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trees", type=int, default=40000)
    table(parser.parse_args().trees)
