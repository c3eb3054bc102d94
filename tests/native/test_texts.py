"""Methods of texts, sets and numbers without Python give Python's results, or are refused when a
program is saved; those that need to know letters beyond ASCII say so."""

import io

import pytest
import text_programs as programs

import weft

TEXTS = [
    "hello world", "  a b  ", "", "A-b_c", "x=1=2", "123", "-42", "abcabc", "l1\nl2\r\nl3\n",
    "aXbX", " ", "Ab", "b_1", "+7b", "bbbbbb",
]  # fmt: skip
NAMES = [
    name
    for name, found in vars(programs).items()
    if getattr(found, "__module__", "") == programs.__name__ and name != "formatted"
]
BEYOND = "héllo ñb=ü"


def saved(function):
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(function), file)
    file.seek(0)
    return weft.jit.load(file)


def outcome(call, *args):
    try:
        return repr(call(*args))
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("name", NAMES)
def test_methods_give_what_pythons_give(name):
    function = getattr(programs, name)
    program = saved(function)
    for text in TEXTS:
        assert outcome(program, text) == outcome(function, text), text


@pytest.mark.parametrize("name", NAMES)
def test_letters_beyond_ascii_are_pythons_or_an_error(name):
    """`"é".upper()` was "é"."""
    function = getattr(programs, name)
    got = outcome(saved(function), BEYOND)
    if got[0] == "ValueError" and "expected a text of ASCII" in got[1]:
        assert name in ("cases", "kinds", "more_kinds")
    else:
        assert got == outcome(function, BEYOND)


def test_spaces_beyond_ascii_are_an_error():
    with pytest.raises(ValueError, match="spaces of ASCII"):
        saved(programs.spaces)("a\xa0b")


SPECS = [
    "", "5", "<8", "^9", ">8", "*^9", "+", "-", " ", "05", "x", "X", "#x", "o", "b", "#b", ",",
    "_", "_x", "+d", "08.3f", ".2f", ".3e", ".4g", "%", ".1%", "s", ".2s", "10s", "E", "G",
    "=+8", ",.2f", "q", "5.", "é>7", "08", "020,", "0=21,", "+.3", ".0f", "#", "^+10.2f",
]  # fmt: skip
VALUES = [6, -7407402, 2469.13578, 1e-7, "ab", True, float("inf"), float("nan"), None, [1]]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_format_gives_what_pythons_gives(value):
    """Zeros that fill were not grouped, and texts took signs and commas."""
    program = saved(programs.formatted)
    for spec in SPECS:
        ours, theirs = outcome(program, spec, value), outcome(programs.formatted, spec, value)
        both_raise = type(ours) is type(theirs) is tuple and ours[0] == theirs[0]
        refused = "#" in spec and isinstance(value, float) and ours[0] == "ValueError"
        assert ours == theirs or both_raise or refused, (spec, ours, theirs)


def expand(x, s):
    return s.expandtabs()


def ratio(x, s):
    return x.sum().item().as_integer_ratio()


def into(x, s):
    return weft.add(x, x, out=weft.empty(3))


def into_of_a_method(x, s):
    return x.add(1, out=weft.zeros(3))


REFUSED = {expand: "expandtabs", ratio: "as_integer_ratio", into: "out=", into_of_a_method: "out="}


@pytest.mark.parametrize("function, what", REFUSED.items())
def test_what_no_program_has_is_refused_when_it_is_saved(function, what):
    """They were saved, and failed when they ran."""
    with pytest.raises(weft.export.NotExportable, match=what) as caught:
        saved(function)
    assert caught.value.line == function.__code__.co_firstlineno + 1


def test_out_that_is_none_is_taken():
    def double(x, out=None):
        return weft.mul(x, 2, out=out)

    assert saved(double)(weft.ones(2)).tolist() == [2, 2]


def test_tensors_by_their_class():
    def made(x, rows):
        return weft.Tensor(rows), weft.Tensor([1, 2]), weft.Tensor(2, 3).shape, weft.Tensor(x)

    x = weft.ones(2)
    for ours, theirs in zip(saved(made)(x, [1, 2.5]), made(x, [1, 2.5])):
        assert ours == theirs if isinstance(ours, tuple) else weft.equal(ours, theirs)
