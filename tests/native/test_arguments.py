"""Calls one after the other: what a context keeps of an argument serves the next, or does not."""

import ctypes

import pytest
from libweft import Context, DLTensor, Failed, Program, back
from test_libweft import BAD_TENSORS, broken, leaves, same, saved

import weft
from weft import nn

R = weft.randn


def same_again(x):
    return x + 0


def counted(x):
    x.add_(1)
    return x.clone()


def viewed(x):
    return x[1:], x


def swapped(x):
    x.data = weft.zeros(1)
    return x + 1


def recorded(x):
    with weft.enable_grad():
        x.requires_grad_()
        return x * x, x.requires_grad


def both(x, y):
    return x is y, x + y


FUNCTIONS = [same_again, counted, viewed, swapped, recorded, both]
ARGUMENTS = {
    "as before": R(3, 4),
    "other numbers": R(3, 4),
    "another size": R(4, 3),
    "turned": R(4, 3).t(),
    "columns": R(3, 8)[:, ::2],
    "repeated": R(1, 4).expand(3, 4),
    "one row": R(1, 4),
    "one row of strides that say nothing": R(4, 1).t(),
    "a vector": R(12),
    "a number": weft.tensor(2.5),
    "another number": weft.tensor(-1.5),
    "nothing": weft.zeros(0, 4),
    "float64": R(3, 4).double(),
    "int64": weft.arange(12).reshape(3, 4),
    "bool": R(3, 4) > 0,
    "none at all": None,
    "text": "abc",
    "a list": [R(3, 4)],
}


@pytest.fixture(scope="module")
def program(lib, tmp_path_factory):
    path = tmp_path_factory.mktemp("arguments") / "programs.weft"
    return Program(lib, saved(path, {f.__name__: f for f in FUNCTIONS}))


@pytest.fixture
def context(program):
    return Context(program)


def copied(x):
    """The same, in memory of its own that is laid out alike."""
    if isinstance(x, list):
        return [copied(item) for item in x]
    return x if not isinstance(x, weft.Tensor) else weft.from_numpy(x.numpy().copy(order="K"))


def given(run):
    """What a call gives, or that it fails."""
    try:
        return run()
    except (Failed, TypeError, RuntimeError, IndexError, AttributeError):
        return "fails"


@pytest.mark.parametrize("first", ARGUMENTS)
@pytest.mark.parametrize("second", ARGUMENTS)
def test_an_argument_after_another(context, first, second):
    for name in (first, first, second, first, second):
        x = ARGUMENTS[name]
        wanted = given(lambda x=x: same_again(copied(x)))
        assert same(given(lambda x=x: context.run("same_again", copied(x))), wanted)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f is not both])
def test_an_argument_that_was_changed(context, function):
    """Whatever the call before did with its argument."""
    for x in (R(1, 4), R(1, 4), R(4, 1), R(1, 4), R(4), R(1, 4)):
        wanted = given(lambda x=x: function(copied(x)))
        assert same(given(lambda x=x: context.run(function.__name__, copied(x))), wanted)
        assert same(context.run("same_again", x), x)


def test_writes_reach_the_memory_of_this_call(context):
    a, b = R(4), R(4)
    first, second = a + 1, b + 1
    assert same(context.run("counted", a), first) and same(a, first)
    assert same(context.run("counted", b), second) and same(b, second)
    assert same(a, first)


def test_a_tensor_twice_is_two(context):
    x = R(4)
    for _ in range(3):
        assert same(context.run("both", x, x), (False, x + x))
        assert same(context.run("both", x, y=x), (False, x + x))


def test_fewer_and_more_arguments(context):
    x, y = R(4), R(2)
    assert same(context.run("both", x, x), (False, x + x))
    assert same(context.run("same_again", y), y)
    with pytest.raises(Failed):
        context.run("both", x)
    assert same(context.run("both", y, y), (False, y + y))


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_a_bad_tensor_after_good_ones(context, name):
    good = R(2, 3)
    for _ in range(2):
        assert same(context.run("same_again", good), good)
        with pytest.raises(Failed):
            context.run("same_again", broken(**BAD_TENSORS[name]))
    assert same(context.run("same_again", good), good)


def test_an_offset_and_no_strides(context):
    numbers = R(8)
    for offset in (0, 4, 16, 4):
        d = broken(sizes=(4,))
        d.data, d.byte_offset = numbers.data_ptr(), offset
        assert same(context.run("same_again", d), numbers[offset // 4 : offset // 4 + 4])
    d.byte_offset = 2  # no multiple of what an element has
    assert context.run("same_again", d).shape == (4,)


def test_a_number_without_a_shape(context):
    for value in (1.5, 2.5):
        t = weft.tensor(value)
        d = DLTensor(t.data_ptr(), 1, 0, 0, 2, 32, 1, None, None, 0)
        assert same(context.run("same_again", d), t)


class Keeps(nn.Module):
    """A program that hands out what it keeps."""

    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        self.kept = [x * 2, {"a": (x + 1,)}]
        return self.kept

    def again(self):
        return self.kept


def test_what_a_program_keeps_in_lists_is_not_lent(lib, tmp_path):
    """Whoever wrote into such a result wrote into the program's state."""
    module = Keeps()
    entries = {"forward": module.forward, "again": module.again}
    context = Context(Program(lib, saved(tmp_path / "keeps.weft", entries, module)))
    for k in range(4):
        x = weft.ones(2) * k
        wanted = [x * 2, {"a": (x + 1,)}]
        for entry, args in ((None, (x,)), ("again", ())):
            result = context.run_raw(entry, *args)
            assert same(back(result), wanted)
            for value in leaves(result):
                ctypes.memset(value.held.tensor.data.contents.data, 0, 8)
            context.lib.weft_value_clear(result)
        assert same(context.run("again"), wanted)
