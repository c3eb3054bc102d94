"""Batches of as much work for each process."""

import random
import sys
from pathlib import Path

import pytest

import weft
from weft.distributed import BalancedBatchSampler

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import balance  # noqa: E402


def costs(count=1000, seed=0):
    """Sizes of trees: many small ones, few large ones."""
    rng = random.Random(seed)
    return [1 + int(rng.lognormvariate(2.5, 1.0)) for _ in range(count)]


def of_all(ranks, epoch=0, **how):
    out = []
    for rank in range(ranks):
        sampler = BalancedBatchSampler(
            range(len(how["cost"])), num_replicas=ranks, rank=rank, **how
        )
        sampler.set_epoch(epoch)
        out.append(list(sampler))
    return out


def waiting(ranks, batches, cost):
    """What the slowest process does at each step over the mean, of all steps."""
    work = [[sum(cost[i] for i in step) for step in batches[rank]] for rank in range(ranks)]
    return sum(map(max, zip(*work))) * ranks / sum(map(sum, zip(*work)))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_work_is_shared_evenly(ranks):
    cost = costs()
    balanced = of_all(ranks, cost=cost, batch_size=16)
    plain = of_all(ranks, cost=[1] * len(cost), batch_size=16)
    assert waiting(ranks, balanced, cost) < 1.02 < 1.15 < waiting(ranks, plain, cost)


@pytest.mark.parametrize("ranks", [4, 8])
def test_trees_of_listops_are_shared_evenly(ranks):
    """Their deep ones are a few: of the digits of docs/distributed.md."""
    counted = [balance.nodes(tree) for tree in balance.drawn(4000)]
    assert balance.nodes((("[MAX", 2), ("[MIN", "]"))) == 3
    balanced = balance.slowest_over_mean(counted, ranks, counted)
    plain = balance.slowest_over_mean([1] * len(counted), ranks, counted)
    assert balanced < 1.01 < 1.1 < plain


@pytest.mark.parametrize(("count", "drop"), [(1000, False), (1000, True), (7, False), (64, True)])
def test_each_example_is_given_once_and_each_rank_has_as_many(count, drop):
    batches = of_all(4, cost=costs(count), batch_size=8, drop_last=drop)
    for step in zip(*batches):
        assert len({len(share) for share in step}) == 1
    given = [i for rank in batches for share in rank for i in share]
    whole = count // 32 * 32 if drop else -(-count // 4) * 4
    assert len(given) == whole and len(set(given)) == min(whole, count)
    sampler = BalancedBatchSampler(range(count), None, 8, 4, 0, drop_last=drop)
    assert len(sampler) == len(batches[0])


def test_a_step_has_the_examples_that_it_would_have_without_balance():
    cost = costs(256)
    for step, plain in zip(*(
        zip(*of_all(4, epoch=3, cost=c, batch_size=16)) for c in (cost, [1] * 256)
    )):  # fmt: skip
        assert sorted(sum(step, [])) == sorted(sum(plain, []))


def test_order_by_seed_and_epoch():
    how = {"cost": costs(100), "batch_size": 5}
    assert of_all(2, **how) == of_all(2, **how)
    assert of_all(2, **how) != of_all(2, epoch=1, **how)
    assert of_all(2, **how) != of_all(2, seed=1, **how)
    assert of_all(2, shuffle=False, **how) == of_all(2, epoch=1, shuffle=False, **how)


def test_costs_of_a_function_and_a_loader():
    data = [weft.ones(n) for n in (1, 5, 2, 2, 4, 6)]
    seen = []
    for rank in (0, 1):
        sampler = BalancedBatchSampler(data, len, 3, 2, rank, shuffle=False)
        loader = weft.utils.data.DataLoader(data, batch_sampler=sampler, collate_fn=list)
        seen += [sum(len(x) for x in batch) for batch in loader]
    assert seen == [10, 10]


WRONG = [
    ({"num_replicas": 2, "rank": 2}, "a rank below 2, got 2"),
    ({"batch_size": 0}, "batch_size to be a whole number above 0"),
    ({"cost": [1, 2]}, "expected 3 costs, one for each example, got 2"),
    ({"cost": [1, 2, 0]}, "got 0 of example 2"),
    ({"cost": [1, 2, float("nan")]}, "costs above 0"),
    ({"batch_size": True}, "whole number above 0, got True"),
    ({"batch_size": 2.5}, "whole number above 0, got 2.5"),
    ({"cost": [1, float("inf"), 2]}, "above 0 and finite, got inf of example 1"),
    ({"cost": [1, float("nan"), 2]}, "above 0 and finite, got nan of example 1"),
]


@pytest.mark.parametrize(("how", "text"), WRONG)
def test_wrong_arguments(how, text):
    with pytest.raises(ValueError, match=text):
        BalancedBatchSampler("abc", **{"num_replicas": 1, "rank": 0, **how})
    with pytest.raises(TypeError, match="expected costs to be numbers, got 'a' of example 0"):
        BalancedBatchSampler("abc", cost=str, num_replicas=1, rank=0)
