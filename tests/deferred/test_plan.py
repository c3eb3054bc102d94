"""The planner is a pure function of kinds and who needs whom; no kernel runs here."""

import random

from weft import _C


def plan(calls: list[tuple[int, list[int]]]) -> list[list[int]]:
    """Batches of calls given as (kind, earlier calls that it needs)."""
    return _C._plan(calls)


def test_one_kind_is_one_batch() -> None:
    assert plan([(0, []), (0, []), (0, [])]) == [[0, 1, 2]]


def test_nothing() -> None:
    assert plan([]) == []


def test_chains_of_unlike_length_end_together() -> None:
    """The loss (kind 1) of short chains waits for that of long ones."""
    calls: list[tuple[int, list[int]]] = []
    losses = []
    for length in (1, 3, 2):
        last: list[int] = []
        for _ in range(length):
            calls.append((0, last))
            last = [len(calls) - 1]
        calls.append((1, last))
        losses.append(len(calls) - 1)
    assert [len(b) for b in plan(calls)] == [3, 2, 1, 3]
    assert plan(calls)[-1] == losses


def test_random_programs() -> None:
    """Every call once, after what it needs, and only calls of one kind together."""
    rng = random.Random(1)
    for _ in range(200):
        calls = [
            (rng.randrange(4), sorted(rng.sample(range(k), min(k, rng.randrange(3)))))
            for k in range(rng.randrange(60))
        ]
        batches = plan(calls)
        done: set[int] = set()
        for batch in batches:
            assert len({calls[c][0] for c in batch}) == 1
            assert all(need in done for c in batch for need in calls[c][1])
            done |= set(batch)
        assert sorted(c for b in batches for c in b) == list(range(len(calls)))
