"""What a class says of its attributes and of its calls holds in saved programs, or is refused."""

import attribute_programs as p
import pytest
from python_programs import saved

import weft
from weft.export import NotExportable


def shown(values):
    return [v.tolist() if isinstance(v, weft.Tensor) else v for v in values]


@pytest.mark.parametrize("kind", p.SAME, ids=lambda k: k.__name__)
def test_programs_do_what_classes_say_of_attributes_and_calls(kind):
    """Setters and a child's `__call__` were passed over; what they would do did not happen."""
    x = weft.tensor([1.0, -2.0])
    module, program = kind(), saved(kind())
    exported = weft.export.export(kind(), (x,)).module()
    for _ in range(3):
        wanted = shown(module(x))
        assert shown(program(x)) == wanted
        assert shown(exported(x)) == wanted


@pytest.mark.parametrize("kind", p.REFUSED, ids=lambda k: k.__name__)
def test_what_programs_cannot_do_of_it_is_refused_by_line(kind):
    with pytest.raises(NotExportable) as caught:
        saved(kind())
    assert p.REFUSED[kind] in str(caught.value)
    assert caught.value.file == p.__file__ and caught.value.line > 0


def test_saving_leaves_a_cached_property_as_it_is():
    """It was worked out for good, with what the Module had then."""
    module = p.Cached()
    saved(module)
    module.n = 5
    assert module.big == 15


def test_a_cached_property_that_has_been_read_is_its_value():
    module = p.CachedOfWritten()
    assert module.big == 10
    program = saved(module)
    assert shown(program(weft.ones(1))) == [[11.0], 1]
