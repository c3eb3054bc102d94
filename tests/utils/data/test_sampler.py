"""Samplers give PyTorch's order for the same seed."""

import pytest

import weft
from weft.utils import data

SAMPLERS = {
    "sequential": lambda d, m: d.SequentialSampler(range(7)),
    "random": lambda d, m: d.RandomSampler(range(50)),
    "random twice": lambda d, m: d.RandomSampler(range(5), num_samples=13),
    "few": lambda d, m: d.RandomSampler(range(50), num_samples=3),
    "replacement": lambda d, m: d.RandomSampler(range(9), replacement=True, num_samples=100),
    "own generator": lambda d, m: d.RandomSampler(
        range(50), generator=m.Generator().manual_seed(9)
    ),
    "subset": lambda d, m: d.SubsetRandomSampler([3, 1, 4, 1, 5, 9]),
    "batches": lambda d, m: d.BatchSampler(d.RandomSampler(range(10)), 3, False),
    "whole batches": lambda d, m: d.BatchSampler(d.SequentialSampler(range(10)), 3, True),
    "batches of nothing": lambda d, m: d.BatchSampler([], 3, False),
    "distributed": lambda d, m: d.DistributedSampler(range(11), 3, 1),
    "distributed in order": lambda d, m: d.DistributedSampler(range(11), 3, 2, shuffle=False),
    "distributed short": lambda d, m: d.DistributedSampler(range(11), 4, 3, drop_last=True),
    "distributed even": lambda d, m: d.DistributedSampler(range(12), 4, 3, drop_last=True),
    "more processes than data": lambda d, m: d.DistributedSampler(range(2), 7, 6, seed=3),
    "weighted": lambda d, m: d.WeightedRandomSampler([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 20),
    "weighted once": lambda d, m: d.WeightedRandomSampler(
        [0.9, 0.4, 0.05, 0.2, 0.3, 0.1], 5, replacement=False
    ),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_orders(torch, name):
    import torch.utils.data as theirs

    orders = []
    for m, d in ((weft, data), (torch, theirs)):
        m.manual_seed(7)
        sampler = SAMPLERS[name](d, m)
        orders.append((list(sampler), list(sampler), len(sampler), m.rand(1).item()))
    assert orders[0] == orders[1]


def test_epochs_of_the_distributed_sampler(torch):
    from torch.utils.data import DistributedSampler

    for epoch in range(3):
        orders = []
        for cls in (data.DistributedSampler, DistributedSampler):
            sampler = cls(range(20), num_replicas=2, rank=0, seed=5)
            sampler.set_epoch(epoch)
            orders.append(list(sampler))
        assert orders[0] == orders[1]


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (TypeError, lambda: data.RandomSampler([1], replacement=1)),
        (ValueError, lambda: data.RandomSampler([])),
        (ValueError, lambda: data.RandomSampler([1], num_samples=0)),
        (ValueError, lambda: data.BatchSampler([1], 0, False)),
        (ValueError, lambda: data.BatchSampler([1], True, False)),
        (ValueError, lambda: data.BatchSampler([1], 1, 0)),
        (ValueError, lambda: data.WeightedRandomSampler([1.0], 0)),
        (ValueError, lambda: data.WeightedRandomSampler([1.0], 1, 1)),
        (ValueError, lambda: data.WeightedRandomSampler([[1.0]], 1)),
        (ValueError, lambda: data.DistributedSampler([1], 2, 2)),
        (NotImplementedError, lambda: iter(data.Sampler())),
    ],
)
def test_what_samplers_refuse(error, make):
    with pytest.raises(error):
        make()
