"""What inner functions and iterators of saved programs see: a variable as it is at the call."""

import capture_programs as p
import pytest
from python_programs import saved
from test_closing import RUNNERS, agrees

from weft.export import NotExportable


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("program", p.SEEN, ids=lambda f: f.__name__)
def test_inner_functions_see_what_their_variables_hold_at_the_call(program, runner):
    """They saw what these held where the function was made; behind a loop that set them again, the
    program was refused, as if they were not set yet."""
    agrees(program, *p.SEEN[program], runner=runner)


@pytest.mark.parametrize("program", p.REFUSED, ids=lambda f: f.__name__)
def test_what_would_read_a_variable_later_is_refused_by_line(program):
    """Programs have what an iterator gives from where it is made: other numbers, silently."""
    with pytest.raises(NotExportable) as caught:
        saved(program)
    assert p.REFUSED[program] in str(caught.value)
    first = program.__code__.co_firstlineno
    assert caught.value.file == p.__file__ and first < caught.value.line < first + 9
