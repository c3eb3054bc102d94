"""Iterators of saved programs end as Python's, and values are asked as Python asks them.

What `zip`, `enumerate`, `map`, `reversed` and `filter` gave was a tuple or list that did not
end; `getattr` had no use for its default value, and `hasattr` knew the core's names alone.
A set that was worked out while a program was saved was one set for all of its runs.
"""

import io
import types

import iterator_programs as programs
import pytest

import weft

NAMES = [
    name
    for name, found in vars(programs).items()
    if isinstance(found, types.FunctionType) and found.__module__ == programs.__name__
]


def plain(value):
    if isinstance(value, weft.Tensor):
        return value.tolist()
    return type(value)(map(plain, value)) if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_program_gives_what_python_gives(name):
    function = getattr(programs, name)
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(function), file)
    file.seek(0)
    program = weft.jit.load(file)
    x = weft.tensor([1.0, 2.0, 3.0])
    for _ in range(3):
        assert plain(program(x)) == plain(function(x))


def test_a_set_of_a_module_is_not_changed():
    net = weft.nn.Module()
    net.names = {1}

    def f(x):
        names = net.names
        names |= {2}
        return x

    with pytest.raises(weft.export.NotExportable, match="a set that is there before"):
        weft.jit.save(weft.jit.script(f), io.BytesIO())
