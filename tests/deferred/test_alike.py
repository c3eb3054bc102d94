"""Which functions share a habit: alike in code and in what they are over."""

import functools
import gc
from typing import Any

import numpy as np
import pytest
from small import Small, deferred_here

import weft
from weft import nn
from weft.batching import habit as habits_of
from weft.batching.habit import SETTINGS, habit_of


def test_methods_of_one_object_have_habits_of_their_own() -> None:
    class Model:
        def __init__(self) -> None:
            self.kept: list[bool] = []

        def small(self, x: Any) -> Any:
            return x + 1

        def other(self, x: Any) -> Any:
            self.kept.append(deferred_here())
            return x + 2

    model = Model()
    weft.autobatch(model.small)([weft.ones(2)])
    weft.autobatch(model.other)([weft.ones(2)])
    weft.autobatch(model.other)([weft.ones(2)])
    assert model.kept == [True, False]


def test_functions_made_anew_are_known_by_code_and_values() -> None:
    class Log:
        def __init__(self) -> None:
            self.seen: list[tuple[str, bool]] = []

    def made(name: str, log: Log) -> Any:
        return lambda x: (log.seen.append((name, deferred_here())), x + 1.0)[1]

    log = Log()
    for name in ("a", "a", "b", "b", "a"):
        weft.autobatch(made(name, log))([weft.ones(2)])
    assert log.seen == [("a", True), ("a", False), ("b", True), ("b", False), ("a", False)]
    pair: list[Any] = [Small(), Small()]
    for small in (pair[0], pair[0], pair[1]):
        weft.autobatch(functools.partial(lambda x, run: run(x), run=small))([weft.ones(2)])
    assert [small.kept for small in pair] == [[True, False], [True]]


def test_numbers_and_tensors_that_change_in_every_step_make_no_other_function() -> None:
    """An annealed temperature in the closure: nothing was ever learned."""

    def made(number: Any, *, other: Any = None) -> Any:
        def inner(x: Any) -> Any:
            return x * number

        return lambda x, scale=number: inner(x) * scale if other is None else other

    habit = habit_of(made(0.5))
    assert habit_of(made(0.7)) is habit
    assert habit_of(made(3)) is not habit
    assert habit_of(made(weft.ones(2))) is habit_of(made(weft.zeros(3)))
    assert habit_of(made(0.5, other="a")) is not habit_of(made(0.5, other="b"))
    small = Small()
    assert habit_of(made(small)) is habit_of(made(small)) is not habit_of(made(Small()))


class State:
    """What a step makes anew: an environment, a cache."""

    def __call__(self, x: Any) -> Any:
        return x

    def go(self, x: Any) -> Any:
        return x


class Holds(State):
    def __init__(self, model: nn.Module) -> None:
        self.step, self.model = 0, model


def over_two(one: Any, two: Any) -> Any:
    return lambda x: (x, one, two)


def over_one(value: Any) -> Any:
    return lambda x: (x, value)


def with_default(value: Any) -> Any:
    def fn(x: Any, other: Any = value) -> Any:
        return x, other

    return fn


def with_keyword(value: Any) -> Any:
    def fn(x: Any, *, other: Any = value) -> Any:
        return x, other

    return fn


def of_local_class(step: int) -> Any:
    class Local:
        pass

    return over_one((Local, Local())[step % 2])


def over_a_batch(step: int) -> Any:
    return over_one(weft.autobatch(lambda x: x * step))


WORDS = ["a", "bb", "ccc"]
LINEAR = nn.Linear(2, 2)
ANEW: dict[str, Any] = {
    "object": lambda step: over_one(State()),
    "callable": lambda step: State(),
    "method": lambda step: State().go,
    "partial": lambda step: functools.partial(lambda s, x: x, State()),
    "partial by keyword": lambda step: functools.partial(lambda x, s: x, s=State()),
    "default": lambda step: with_default(State()),
    "default of a keyword": lambda step: with_keyword(State()),
    "method in a closure": lambda step: over_one(State().go),
    "list": lambda step: over_one([0] * (step + 1)),
    "list of words": lambda step: over_one(WORDS[step:]),
    "long list": lambda step: over_one([0] * 10**6),
    "dict": lambda step: over_one({str(k): weft.ones(1) for k in range(step + 1)}),
    "dict of objects": lambda step: over_one({"a": [State() for _ in range(step + 1)]}),
    "set": lambda step: over_one(set(range(step + 1))),
    "array": lambda step: over_one(np.zeros(step)),
    "NumPy's number": lambda step: over_one(np.float32(step)),
    "bytes": lambda step: over_one(b"x" * step),
    "over one module": lambda step: over_one(Holds(LINEAR)),
    "method over one module": lambda step: Holds(LINEAR).go,
    "batched function": over_a_batch,
    "batched method": lambda step: over_one(weft.autobatch(State().go)),
    "cached function": lambda step: functools.cache(lambda x: x),
    "bound builtin": lambda step: over_one([step].append),
    "class": lambda step: of_local_class(0),
    "object of a local class": lambda step: of_local_class(1),
}


@pytest.mark.parametrize("case", ANEW)
def test_what_a_step_makes_anew_takes_the_place_of_its_predecessor(case: str) -> None:
    """A batch that loses was tried in every step: the closure held an object made in the step."""
    first = habit_of(ANEW[case](0))
    assert all(habit_of(ANEW[case](step)) is first for step in range(1, 3))


OTHERS: dict[str, tuple[Any, Any]] = {
    "modules": (nn.Linear(2, 2), nn.Linear(2, 2)),
    "methods of modules": (nn.Linear(2, 2).forward, nn.Linear(2, 2).forward),
    "methods": (State().go, State().__call__),
    "over modules": (over_one(nn.Linear(2, 2)), over_one(nn.Linear(2, 2))),
    "over modules by keyword": (with_keyword(nn.Linear(2, 2)), with_keyword(nn.Linear(2, 2))),
    "over lists of modules": (over_one([nn.ReLU()]), over_one([nn.ReLU()])),
    "over objects alive": (over_one(State()), over_one(State())),
    "objects alive": (State(), State()),
    "over words": (over_one("a"), over_one("b")),
    "over kinds": (over_one([1]), over_one([weft.ones(1)])),
    "over builtins": (over_one(len), over_one(abs)),
    "over operators": (over_one(weft.relu), over_one(weft.tanh)),
    "operators": (weft.Tensor.exp, weft.Tensor.log),
    "over functions": (over_one(lambda: 1), over_one(lambda: 2)),
    "batched": (over_one(weft.autobatch(lambda x: 1)), over_one(weft.autobatch(lambda x: 2))),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_makes_another_function(case: str) -> None:
    one, two = OTHERS[case]
    habit = habit_of(one)
    assert habit_of(two) is not habit and habit_of(one) is habit


def test_objects_made_anew_over_other_modules_are_apart() -> None:
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    habits = [habit_of(Holds(model)) for model in (one, two, one, two)]
    assert habits[0] is habits[2] is not habits[1] is habits[3]


def test_long_lived_objects_are_apart_also_beside_one_made_anew() -> None:
    one, two = State(), State()
    habits = [habit_of(over_two(cache, Small())) for cache in (one, two, one, two)]
    assert habits[0] is habits[2] is not habits[1] is habits[3]


def test_of_many_objects_alive_the_later_ones_share_a_habit() -> None:
    kept = [State() for _ in range(10)]
    for _ in range(2):
        habits = [habit_of(over_one(state)) for state in kept]
        assert len(set(habits)) == len(set(habits[:4])) == 4
        assert set(habits[3:]) == {habits[3]}


def test_that_order_does_not_matter_is_not_passed_on() -> None:
    habit = habit_of(over_one(state := State()))
    habit.note_order(0, False)
    habit.note_order(1, True)
    assert habit_of(over_one(state)).in_order == {0: 0, 1: SETTINGS.in_order}
    del state
    assert habit_of(over_one(State())) is habit and habit.in_order == {1: SETTINGS.in_order}


def test_an_object_that_begins_to_write_is_seen_by_the_next_examples() -> None:
    """It has the habit of one before it that wrote nothing."""
    layer = nn.Linear(64, 64)

    class Step:
        def __init__(self, writes: bool) -> None:
            self.writes, self.kept, self.shared = writes, [], weft.zeros(())

        def __call__(self, k: int) -> float:
            self.kept.append(deferred_here())
            x = weft.ones(64) * k
            for _ in range(8):
                x = layer(x).tanh()
            assert x.sum().item() < 100
            found = (self.shared + k).item()
            if self.writes:
                self.shared += 1
            return found

    for writes in (False, True):
        step = Step(writes)
        habit_of(step).sizes.clear()  # were it so that batching pays
        found = weft.autobatch(step)(list(range(32)))
        assert found == [k * (1 + writes) for k in range(32)]
        assert step.kept[2] != writes


def test_a_module_at_the_address_of_a_dead_one_inherits_nothing() -> None:
    module = nn.Identity()
    habit, address = habit_of(over_one(module)), id(module)
    del module
    gc.collect()
    heirs = [nn.Identity() for _ in range(1000)]
    heir = next((module for module in heirs if id(module) == address), None)
    assert heir is None or habit_of(over_one(heir)) is not habit


def test_objects_whose_attributes_raise_have_habits_too() -> None:
    class Bad:
        def __getattribute__(self, name: str) -> Any:
            raise OSError(name)

        def __call__(self, x: Any) -> Any:
            return x

        def __eq__(self, other: object) -> bool:
            raise OSError

    class Meta(type):
        __hash__ = None  # type: ignore[assignment]

    class Unhashable(metaclass=Meta):
        pass

    for value in (Bad(), Unhashable(), [Unhashable()], [Bad()]):
        assert weft.autobatch(functools.partial(lambda v, x: x + 1, value))([1]) == [2]
    assert habit_of(Bad()) is not None


def test_what_the_habits_know_is_bounded_and_keeps_nothing_alive() -> None:
    import weakref

    state, model = State(), nn.Identity()
    refs = [weakref.ref(state), weakref.ref(model)]
    habit_of(over_two(state, model))
    habit_of(model)
    habit_of(state.go)
    del state, model
    gc.collect()
    assert [one() for one in refs] == [None, None]
    for k in range(SETTINGS.functions + 10):
        habit_of(over_one(str(k)))
    assert len(habits_of._known) == SETTINGS.functions
