"""`fully_shard` among several processes, each checked in all ranks (sharded.py)."""

import pytest
import sharded
from launched import needs_mpi, outcomes

CHECKS = [name for name in vars(sharded) if name.startswith("check_")]


@pytest.fixture(scope="module", params=[2, 4])
def found(request):
    return outcomes("sharded", request.param)


@needs_mpi
@pytest.mark.parametrize("check", CHECKS)
def test_in_all_ranks(found, check):
    assert found[check] is None, found[check]
