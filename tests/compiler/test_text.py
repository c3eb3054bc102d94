"""Programs as text: there and back, and what is no program."""

import programs
import pytest

import weft
from weft import _C


@pytest.mark.parametrize(
    "function", [p.function for p in programs.PROGRAMS], ids=lambda f: f.__qualname__
)
def test_text_reads_back_as_what_it_was(function):
    assert _C._program_survives_text(function)


def halvings(x, limit=1):
    steps = 0
    while x > limit:
        x, steps = x / 2, steps + 1
    return steps


TEXT = """\
function params=1 own_cells=1 consts=2 attrs=1 f
registers x y "" ""
cells a
{
    %2 = compare ">" x%0 #0 @6 ; a remark
    if %2 @10 {
        %3 = method x%0 attr=0 number=-1 @12
        return %3
    } {
    }
    y%1 = for x%0 {
    } {
    }
    return #1
}
"""


def test_text_is_for_people():
    text = _C._program_text(halvings)
    first = halvings.__code__.co_firstlineno
    assert text.startswith("function params=2 own_cells=0 ") and "halvings\n" in text
    assert "registers x limit steps" in text
    assert f"line {first + 2}" in text and '= binary "/" x%0 #' in text and "=2" in text
    assert _C._parse_program(text) == "".join(
        line.partition(" ;")[0] + "\n" for line in text.splitlines()
    )
    assert _C._parse_program(TEXT) == TEXT.replace(" ; a remark", "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("function ", "fun ", "expected function params= own_cells= consts= attrs="),
        ("params=1", "params=x", "expected a number"),
        ("registers", "register", "expected registers"),
        ("cells a", "cell a", "expected cells"),
        ("return #1\n}", "return #1\n", "expected }"),
        ("return #1\n}", "return #1\n}\n}", "nothing after the body"),
        ("method", "methods", "expected a known verb"),
        ('">"', '">>"', "expected a known operator"),
        ("x%0 #0", "z%0 #0", "a register that is there, by its name"),
        ("x%0 #0", "x%9 #0", "a register that is there, by its name"),
        ("x%0 #0", "x #0", "expected a register or constant"),
        ("    } {\n    }\n    y", "    } }\n    y", "expected } or } {"),
    ],
)
def test_other_text_is_refused_with_its_line(old, new, message):
    assert old in TEXT
    with pytest.raises(ValueError, match="line [0-9]+:") as caught:
        _C._parse_program(TEXT.replace(old, new))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('registers x y "" ""', 'registers x y "" "" z', "temporaries after all named registers"),
        ("params=1", "params=3", "parameters among the named registers"),
        ("own_cells=1", "own_cells=2", "own cells among the cells"),
        ("#1\n}", "#2\n}", "a constant that is there"),
        ("return #1", "return %3", "a temporary that is written before"),
        ("return #1", "return %2", None),
        ("return #1", "return", "as many operands as the verb has"),
        ("return #1", "%2 = return #1", "as many results as the verb has"),
        ("return #1", "jump", "a verb of functions"),
        ("return #1", "break", "a loop around break and continue"),
        ("    } {\n    }\n    y", "    }\n    y", "as many regions as the verb has"),
        ("attr=0", "attr=1", "a name where the verb has one"),
        ("attr=0 ", "", "a name where the verb has one"),
        ("return #1", "return #1 attr=0", "a name where the verb has one"),
        ("return #1", "return #1 names=0", "names of arguments where the verb has them"),
        ("return #1", "x%0 = cell attr=0 sub=0\nreturn #1", None),
        ("return #1", "x%0 = cell attr=0 sub=1", "an operator or cell that is there"),
        ("return #1", "x%0 = dict #0", "keys and values in pairs"),
        ("return #1", "%2 = delete", "a variable to delete"),
        ("return #1", "x%0 = import", "what is imported"),
        ("return #1", "x%0 y%1 = unpack #0 number=1 number=1", "before and after the star"),
        ("return #1", "x%0 y%1 = unpack #0 number=1 number=0\nreturn #1", None),
        ("return #1", "return #1 number=1", "numbers where the verb has them"),
        ("number=-1 ", "", "where the method is looked up"),
        ("return #1", "try {\n} {\n}", "a result and a name for each handler"),
        ("return #1", "assert #0 {\n}", "one result for one region"),
    ],
)
def test_what_cannot_run_is_refused_with_the_instruction(old, new, message):
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    if message is None:
        _C._parse_program(text)
        return
    with pytest.raises(RuntimeError, match=r"\[program\] expected") as caught:
        _C._parse_program(text)
    assert message in str(caught.value)


def test_ways_that_meet():
    """A temporary is there where all ways that come have written it."""
    head = 'function params=1 own_cells=0 consts=1 attrs=0 f\nregisters x "" ""\ncells\n{\n'
    good = (
        "if x%0 {\n%1 = move #0\n} {\nreturn #0\n}\nreturn %1\n}\n",
        "if x%0 {\n%1 = move #0\n} {\n%1 = move #0\n}\nreturn %1\n}\n",
        "%1 = while {\n%1 = move #0\n%2 = move #0\n} {\nbreak\n} {\n}\nreturn %2\n}\n",
        "x%0 = for x%0 {\n%1 = move #0\nbreak\n} {\n%1 = move #0\n}\nreturn %1\n}\n",
        "%1 = try number=-1 {\n%2 = move #0\n} {\n} {\n} {\n%1 = match #0\n} {\nreturn #0\n}\n"
        "return %2\n}\n",
    )
    bad = (
        "if x%0 {\n%1 = move #0\n} {\n}\nreturn %1\n}\n",
        "%1 = while {\n%1 = move #0\n} {\n%2 = move #0\n} {\n}\nreturn %2\n}\n",
        "x%0 = for x%0 {\nbreak\n} {\n%1 = move #0\n}\nreturn %1\n}\n",
        "%1 = with x%0 {\n%2 = move #0\n}\nreturn %2\n}\n",
        "%1 = try number=-1 {\n%2 = move #0\n} {\n} {\n} {\n%1 = match #0\n} {\n}\nreturn %2\n}\n",
        "try {\n%2 = move #0\n} {\n} {\nreturn %2\n}\n}\n",
    )
    for text in good:
        _C._parse_program(head + text)
    for text in bad:
        with pytest.raises(RuntimeError, match="a temporary that is written before"):
            _C._parse_program(head + text)


def test_functions_without_a_program_have_no_text():
    with pytest.raises(TypeError, match="expected a function of Python, got builtin"):
        _C._program_text(len)
    with pytest.raises(ValueError, match="expected a function that compiles"):
        _C._program_text(weft.compiler.reset)
