"""What processes do together, each check in all ranks: every `check_*` of the modules beside."""

import functools

import collectives
import data_parallel
import pytest
import sharded
from launched import needs_mpi, outcomes

#: Each module, and with how many ranks.
LAUNCHES = ((collectives, (2, 3)), (data_parallel, (2, 3)), (sharded, (2, 4)))
CASES = [
    (module.__name__, ranks, name)
    for module, counts in LAUNCHES
    for ranks in counts
    for name in vars(module)
    if name.startswith("check_")
]

#: One launch for all checks of a module.
found = functools.cache(outcomes)


@needs_mpi
@pytest.mark.parametrize(("module", "ranks", "check"), CASES)
def test_in_all_ranks(module, ranks, check):
    error = found(module, ranks)[check]
    assert error is None, error
