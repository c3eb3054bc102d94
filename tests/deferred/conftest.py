"""Each test finds functions of which nothing is known yet."""

import pytest

from weft.batching import habit as habits_of


@pytest.fixture(autouse=True)
def no_habits() -> None:
    """An object of a class that an earlier test used would take the place of its dead one."""
    habits_of._known.clear()
