"""Where a program could be told from the function it was made of, and must not be.

The functions of TABLE give a value; a compiled call gives an equal one. What takes more than a
value to compare has a test of its own.
"""

import contextlib
import dataclasses
import enum
import functools
import gc
import io
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import typing
import weakref

import pytest
from failing_programs import calls_what_fails

import weft
from weft import nn

TABLE = []
needs_programs = pytest.mark.skipif(
    os.environ.get("WEFT_COMPILE") == "0", reason="nothing is compiled with WEFT_COMPILE=0"
)


def table(function):
    TABLE.append(function)
    return function


def line(trace):
    return [(e.name, e.lineno) for e in traceback.extract_tb(trace)][1:]


# ---- who is asked for frames


@table
def prints():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("a", 1, sep="-")
    return out.getvalue()


@table
def raises_with_everything():
    try:
        try:
            {}["a"]
        except KeyError as error:
            error.add_note("note")
            raise ValueError("b") from error
    except ValueError as error:
        return (
            repr(error.__context__), repr(error.__cause__), error.__suppress_context__,
            error.__cause__.__notes__, sys.exc_info()[0], sys.exc_info()[1] is error,
        )  # fmt: skip


@table
def context_of_an_error_in_a_handler():
    try:
        try:
            raise KeyError(1)
        except KeyError:
            raise ValueError(2)  # noqa: B904
    except ValueError as error:
        return repr(error.__context__), error.__cause__, error.__suppress_context__


@table
def no_exception_is_handled_after():
    try:
        raise KeyError
    except KeyError:
        inner = sys.exc_info()[0]
    return inner, sys.exc_info()


class Base:
    def name(self):
        return "base"

    @property
    def size(self):
        return 1

    @classmethod
    def make(cls):
        return cls.__name__


class Derived(Base):
    def name(self):
        return super().name() + "+" + __class__.__name__

    @property
    def size(self):
        return super().size + 1

    @classmethod
    def make(cls):
        return super().make() + "!"


@table
def classes():
    d = Derived()
    return d.name(), d.size, Derived.make(), d.make()


class Lazy:
    def __getattr__(self, name):
        if name.startswith("no"):
            raise AttributeError(name)
        return name.upper()


@table
def attributes_that_are_made():
    lazy = Lazy()
    return lazy.a, lazy.bc, getattr(lazy, "d".lower()), hasattr(lazy, "no"), getattr(lazy, "no", 3)


@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 2
    tags: list = dataclasses.field(default_factory=list)


class Pair(typing.NamedTuple):
    left: int
    right: int = 0


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@table
def small_classes():
    p = Point(1)
    p.tags.append(3)
    q = dataclasses.replace(p, x=5)
    pair = Pair(1)._replace(right=4)
    left, right = pair
    return p, q, p < q, dataclasses.astuple(q), pair, left, right, Color(2), Color["RED"].name


@functools.lru_cache(maxsize=2)
def cached(n):
    return n * 2


def doubled(f):
    @functools.wraps(f)
    def inner(*args):
        return f(*args) * 2

    return inner


@doubled
def plus(a, b):
    """Adds."""
    return a + b


@table
def functions_of_functools():
    cached.cache_clear()
    add = functools.partial(plus, 1)
    return cached(3), cached(3), cached.cache_info().hits, add(2), plus.__name__, plus.__doc__


class Noted:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __del__(self):
        self.log.append(self.name)


@table
def order_of_deaths():
    log = []

    def make(name):
        return Noted(name, log)

    make("dropped")
    log.append("after dropped")
    len([make("in a list")])
    log.append("after list")
    a = make("a")
    b = a
    del a
    log.append("after del a")
    b = make("b again")
    log.append("after b")
    for one in [make("x"), make("y")]:
        log.append(one.name)
    log.append("after loop")
    del one, b
    log.append("end")
    return log


class Thing:
    pass


@table
def weak_references():
    log = []
    thing = Thing()
    seen = weakref.ref(thing, lambda _: log.append("gone"))
    other = thing
    del thing
    log.append(seen() is other)
    del other
    log.append(seen())
    return log


@table
def iterators_are_closed():
    log = []

    def numbers():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    for n in numbers():
        log.append(n)
        break
    log.append("after break")
    for n in numbers():
        log.append(n)
    log.append("after end")
    try:
        for n in numbers():
            raise KeyError(n)
    except KeyError:
        log.append("handled")
    log.append("after raise")
    first, *_ = numbers()
    log.append(first)
    return log


class Numbers(Noted):
    def __iter__(self):
        return self

    def __next__(self):
        return 1


def returns_from_a_loop(log):
    for _ in Numbers("iterator gone", log):
        return log.append("returning")


@table
def iterators_end_with_returns():
    log = []
    returns_from_a_loop(log)
    return log


@table
def closures_see_writes():
    count = 0

    def bump():
        nonlocal count
        count += 1
        return count

    fs = [lambda: n for n in range(3)]
    return bump(), bump(), count, [f() for f in fs]


@pytest.mark.parametrize("function", TABLE, ids=lambda f: f.__name__)
def test_programs_cannot_be_told_from_functions(function):
    expected = function()
    compiled = weft.compile(function)
    for _ in range(3):
        assert compiled() == expected


@needs_programs
def test_the_table_is_compiled():
    left = {}
    for function in TABLE:
        compiled = weft.compile(function)
        compiled()
        if function.__name__ not in [f.name for f in compiled.explain().compiled]:
            left[function.__name__] = str(compiled.explain())
    assert left == {}


# ---- recursion


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


def deepest(f):
    least, most = 1, 5000
    while least < most:
        middle = (least + most + 1) // 2
        try:
            f(middle)
            least = middle
        except RecursionError as error:
            assert str(error).startswith("maximum recursion depth exceeded")
            most = middle - 1
    return least


def test_recursion_ends_where_it_does():
    weft.compile(deep)(3)
    assert abs(deepest(weft.compile(deep)) - deepest(deep)) <= 5
    assert weft.compile(deep)(100) == 100


def deep_in_modules(net, n):
    return net(net, n - 1) if n else 0


class Recursive(nn.Module):
    def forward(self, net, n):
        return deep_in_modules(net, n)


def test_recursion_through_modules_ends():
    compiled = weft.compile(Recursive())
    with pytest.raises(RecursionError):
        compiled(compiled._orig_mod, 10**6)
    assert compiled(compiled._orig_mod, 20) == 0


def test_deep_recursion_needs_no_stack_of_c():
    code = (
        "import sys; sys.path.insert(0, '.'); import weft, test_python\n"
        "sys.setrecursionlimit(100_000)\n"
        "print(weft.compile(test_python.deep)(50_000))\n"
    )
    tests = __file__.rpartition("/")[0]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tests)
    assert run.stdout == "50000\n", run.stderr[-2000:]


# ---- signals and threads


def spins(stop):
    n = 0
    while not stop:
        n += 1
    return n


def recurses():
    while True:
        deep(20)


@pytest.mark.parametrize("function, args", [(spins, ([],)), (recurses, ())])
def test_interrupts_end_loops_at_the_users_line(function, args):
    def interrupt():
        time.sleep(0.2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        weft.compile(function)(*args)
    thread.join()
    assert function.__name__ in [name for name, _ in line(caught.value.__traceback__)]


def test_other_threads_run_while_a_program_loops():
    stop = []

    def ends_it():
        time.sleep(0.05)
        stop.append(1)

    thread = threading.Thread(target=ends_it)
    thread.start()
    assert weft.compile(spins)(stop) > 0  # or it spins for ever
    thread.join()


# ---- leaks


def keeps_nothing(n):
    found = []
    try:
        for k in range(n):
            found.append((k, {"k": [k]}, f"{k}", lambda k=k: k))
            if k == 2:
                raise KeyError(k)
    except KeyError as error:
        found.append(str(error))
    (a, *b), c = (found[0], 1), found[1:]
    return len([x for x in b if x]) + len(c) + len({**{"a": a}})


LEAKS = [keeps_nothing, *TABLE]


def assert_nothing_grows(call):
    def objects():
        for _ in range(100):
            call()
        gc.collect()
        return sys.getallocatedblocks()

    for _ in range(3):
        objects()
    growth = [objects() for _ in range(4)]
    assert growth[-1] - growth[0] < 100, growth


@pytest.mark.parametrize("function", LEAKS, ids=lambda f: f.__name__)
def test_nothing_leaks(function):
    compiled = weft.compile(function)
    args = (5,) if function is keeps_nothing else ()

    assert_nothing_grows(lambda: compiled(*args))


def test_exceptions_do_not_leak():
    compiled = weft.compile(calls_what_fails)

    def fails():
        with contextlib.suppress(ZeroDivisionError):
            compiled(1)

    assert_nothing_grows(fails)


def holds(thing, fail):
    local = [thing]
    del thing
    if fail:
        raise ValueError(len(local))
    return 1


def test_arguments_die_with_their_last_reference():
    for fail in (False, True):
        compiled = weft.compile(holds)
        thing = Thing()
        gone = weakref.ref(thing)
        with contextlib.suppress(ValueError):
            compiled(thing, fail)
        del thing
        assert gone() is None
