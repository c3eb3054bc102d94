"""Iterators, special methods, dataclasses and modes in programs: what functions give."""

import collections
import dataclasses
import io
import itertools

import class_programs
import iterable_programs
import pytest
import value_programs
from python_programs import CASES, Cache, State, saved
from test_closing import RUNNERS, agrees, outcome

import weft

CASES = CASES + class_programs.CASES + value_programs.CASES + iterable_programs.CASES


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(("program", "calls"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_a_package_gives_what_its_function_gives(program, calls, runner):
    agrees(program, *calls, runner=runner)


@pytest.mark.parametrize(("program", "calls"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_a_file_gives_what_its_function_gives(program, calls):
    loaded = saved(program)
    for args in calls * 3:
        assert outcome(loaded, args) == outcome(program, args)


def test_results_that_are_dataclasses_show_their_fields():
    """They printed as objects."""
    program = saved(lambda x: (State(x, 2), Cache([x])))
    state, cache = program(weft.ones(1))
    assert repr(state) == "State(h=tensor([1.]), steps=2, tags=[])"
    assert state == type(state)(state.h, 2, []) and cache.rows[0] is not None


def test_a_method_of_a_class_is_no_method_of_lists_of_that_name():
    """`Cache.pop` takes no place: the program of a list's `pop(0)` was refused."""

    def program(x, rows: list):
        cache = Cache([x])
        return cache.pop(), rows.pop(0)

    assert saved(program)(weft.ones(1), [1, 2])[1] == 1


def test_an_iterator_that_has_ended_and_what_is_none():
    def first(xs):
        return next(iter(xs))

    def of(x):
        return next(x)

    with pytest.raises(StopIteration):
        saved(first)([])
    with pytest.raises(TypeError, match="'list' object is not an iterator"):
        saved(of)([1])


def test_modes_that_only_hold_from_a_call_on_are_refused():
    """Closing it turned the process's own mode off."""

    def program(x):
        weft.set_grad_enabled(False)
        return x * 2

    with pytest.raises(weft.export.NotExportable, match="set_grad_enabled.*outside of a with"):
        saved(program)
    assert weft.is_grad_enabled()


def test_autocast_casts_a_weight_once_and_trains():
    class Net(weft.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = weft.nn.Linear(4, 4)

        def forward(self, x):
            with weft.autocast("cpu", dtype=weft.bfloat16):
                return self.layer(self.layer(x)).float().sum()

    net, x = Net(), weft.randn(3, 4)
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(net), file)
    file.seek(0)
    program = weft.jit.load(file)
    for model in (net, program):
        model(x).backward()
    found, wanted = (dict(m.named_parameters())["layer.weight"].grad for m in (program, net))
    assert weft.equal(found, wanted)
    with weft.no_grad():  # a copy of a weight that was kept would be the old one
        for model in (net, program):
            dict(model.named_parameters())["layer.weight"].mul_(2)
    assert weft.equal(program(x), net(x))


def counted(x):
    count = 0

    def add():
        nonlocal count
        count += 1

    add()
    return count + x


@dataclasses.dataclass(frozen=True)
class HashedByMore:
    a: int
    b: int = dataclasses.field(default=1, compare=False, hash=True)


REFUSED = {
    "hash goes by fields that == leaves out": lambda x: HashedByMore(x),
    "OSError with a number.*a text alone": lambda x: str(OSError(x, "a")),
    "__mro__.*isinstance": lambda x: type(State(x)).__mro__,
    "__context__": lambda x: ValueError(x).__context__,
    "encode.. in 'latin-1'": lambda x: str(x).encode("latin-1"),
    "setdefault": lambda x: collections.defaultdict(list),
    r"counts.get\(k, 0\)": lambda x: collections.Counter([x]),
    "lists in a dict": lambda x: [list(rows) for _, rows in itertools.groupby([x])],
    "list of ints": lambda x: b"ab",
    "a class as a result": lambda x: type(State(x, 1)),
    "the value itself as a key": lambda x: hash(State(x, 1)),
    "tuple of its fields": lambda x: dataclasses.asdict(State(x, 1)),
    "set it again": lambda x: collections.OrderedDict(a=x).move_to_end("a"),
    "ask for dict": lambda x: isinstance(x, collections.OrderedDict),
    "nonlocal": counted,
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_needs_python_is_refused_with_what_to_write(told):
    with pytest.raises(weft.export.NotExportable, match=told):
        saved(REFUSED[told])


def test_an_object_of_the_callers_is_of_its_class():
    """Its class is one of its own there: `type(o) is Third` was False."""

    def program(o, other):
        kinds = {class_programs.Third: "b"}
        return type(o) is class_programs.Third, kinds.get(type(o)), {o: 1}[other]

    one = class_programs.Third(1)
    assert saved(program)(one, one) == (True, "b", 1)
    key, like = class_programs.Key(1, 2), class_programs.Key(1, 3)
    assert saved(program)(key, like) == (False, None, 1)
    with pytest.raises(TypeError, match="unhashable type: 'Scored'"):
        saved(program)(class_programs.Scored(1), 1)


def test_results_show_what_their_classes_show():
    """They had all fields, and the name of the class alone."""
    hidden, inner, bare = saved(
        lambda x: (value_programs.Hidden(x), value_programs.Outer.Inner(x), value_programs.Bare(x))
    )(1)
    assert repr((hidden, inner)) == "(Hidden(a=1), Outer.Inner(a=1))"
    assert repr(bare).startswith("<") and bare.a == 1
    back = saved(lambda o: str(o))
    told = value_programs.Hidden(2), value_programs.ShownAsAbove(2), value_programs.Outer.Inner(2)
    assert [back(o) for o in told] == [str(o) for o in told]


def test_keys_that_are_objects_come_back():
    found = saved(lambda x: {class_programs.Key(x): 1, class_programs.Itself(x): 2})(1)
    assert sorted(found.values()) == [1, 2] and len({type(key) for key in found}) == 2
