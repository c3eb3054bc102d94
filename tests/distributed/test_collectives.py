"""Collectives among several processes, each checked in all ranks (collectives.py)."""

import collectives
import pytest
from launched import needs_mpi, outcomes

CHECKS = [name for name in vars(collectives) if name.startswith("check_")]


@pytest.fixture(scope="module", params=[2, 3])
def found(request):
    return outcomes("collectives", request.param)


@needs_mpi
@pytest.mark.parametrize("check", CHECKS)
def test_in_all_ranks(found, check):
    assert found[check] is None, found[check]
