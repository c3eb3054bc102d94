"""DistributedDataParallel over several processes, checked in all ranks (data_parallel.py)."""

import data_parallel
import pytest
from launched import needs_mpi, outcomes

CHECKS = [name for name in vars(data_parallel) if name.startswith("check_")]


@pytest.fixture(scope="module", params=[2, 3])
def found(request):
    return outcomes("data_parallel", request.param)


@needs_mpi
@pytest.mark.parametrize("check", CHECKS)
def test_in_all_ranks(found, check):
    assert found[check] is None, found[check]
