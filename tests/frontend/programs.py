"""Functions in which order, scopes, exceptions or control flow matter, and what to call them with.

PROGRAMS is the table; whoever runs functions in another way than CPython compares `outcome` of its
way with that of CPython: the result, what was logged with `say`, the exception with its message,
its cause and context and, of the functions of this file, the lines of its traceback. The cases are
text, so that every call gets values of its own.
"""

# ruff: noqa  (what a linter dislikes is under test)
# fmt: off

import contextlib
import re
from typing import NamedTuple

LOG = []
PROGRAMS = []
answer = 42


class Program(NamedTuple):
    function: object
    cases: tuple


def program(*cases):
    """Adds a function to the table, called with each of `cases`."""

    def add(function):
        PROGRAMS.append(Program(function, cases or ("",)))
        return function

    return add


def say(*values):
    """Logs its arguments and gives the last one."""
    LOG.append(repr(values))
    return values[-1] if values else None


def fail(error=ValueError, *args):
    say("fail")
    raise error(*args)


class Loud:
    """Logs all that is done to it."""

    def __init__(self, name, **attributes):
        self.__dict__.update(attributes, name=name)

    def __repr__(self):
        return f"<{self.name}>"

    def __getattr__(self, name):
        if name.startswith("__") or name.startswith("no_"):
            raise AttributeError(f"{self.name} has no {name}")
        return say("get", self.name, name, Loud(f"{self.name}.{name}"))

    def __setattr__(self, name, value):
        say("set", self.name, name, value)

    def __delattr__(self, name):
        say("del", self.name, name)

    def __getitem__(self, key):
        return say("item", self.name, key, Loud(f"{self.name}[{key}]"))

    def __setitem__(self, key, value):
        say("set item", self.name, key, value)

    def __delitem__(self, key):
        say("del item", self.name, key)

    def __call__(self, *args, **kwargs):
        return say("call", self.name, args, kwargs, Loud(f"{self.name}()"))

    def __bool__(self):
        return say("bool", self.name, not self.name.startswith("no"))

    def __iter__(self):
        say("iter", self.name)
        return iter((1, 2))

    def __add__(self, other):
        return say("add", self.name, other, Loud(f"{self.name}+{other}"))

    def __radd__(self, other):
        return say("radd", self.name, other, Loud(f"{other}+{self.name}"))

    def __iadd__(self, other):
        return say("iadd", self.name, other, Loud(f"{self.name}+={other}"))

    def __lt__(self, other):
        return say("lt", self.name, other, Loud(f"{self.name}<{other}"))

    def __eq__(self, other):
        return say("eq", self.name, other, False)

    def __contains__(self, value):
        return say("contains", self.name, value, True)

    def __hash__(self):
        return hash(say("hash", self.name))

    def __neg__(self):
        return say("neg", self.name, self)

    def __format__(self, spec):
        return say("format", self.name, spec, f"{self.name}:{spec}")

    def __enter__(self):
        return say("enter", self.name, self.name)

    def __exit__(self, kind, error, trace):
        say("exit", self.name, kind, str(error))
        return self.name == "quiet"


# ---- operators and order of evaluation


@program("7, 3", "7.5, 2", "1, 0", "'a', 3")
def arithmetic(a, b):
    return a * b, a - b, a + b, a / b, a // b, a % b, a**b, -a, +a


@program("12, 5", "True, False", "1.0, 2")
def bits(a, b):
    c = a & b | a ^ b
    return c, a << b, a >> b, ~a, not a


@program("3, 3", "'a', 'b'", "1, 'a'", "[1], [1]")
def comparisons(a, b):
    return a == b, a != b, a is b, a is not b, a < b, a <= b, a > b, a >= b


@program("1, [1]", "2, {3}", "4, 4")
def membership(a, b):
    return a in b, a not in b, a in [1, 2, 3], a in {1, "a"}, a in (1, -2)


@program("")
def order_of_binary():
    return say(1) + say(2) * say(3) - (say(4) if say(0) else say(5))


@program("")
def order_of_assignment():
    a = {}
    a[say("key")] = say("value")
    Loud("x").y = say("then")
    (Loud("p").q, Loud("r")[say("k")], b) = say((1, 2, 3))
    c = Loud("s").t = say("chained")
    return a, b, c


@program("")
def order_of_augmented_assignment():
    a = [1, 2]
    a[say(0)] += say(5)
    x = Loud("x")
    x.y += say(1)
    x[say("k")] += say(2)
    x.y[say(1)].z += x.w
    x += say(3)
    x[1:2] += [1]
    return a, x


@program("Loud('x')", "None")
def order_of_calls(x):
    say(x.f(say(1), k=say(2), *say((3,)), **say({"j": 4})))
    say(x(say(1), *say([2]), say(3), a=say(4), **say({"b": 5}), c=say(6)))
    return x.g(say(1)).h(1, a=2)


@program("")
def order_of_displays():
    return (
        [say(1), *say((2, 3)), say(4)],
        (say(1), *say([2]), say(3)),
        {say(1): say(2), **say({3: 4}), say(5): say(6)},
        {say(1), *say((1, 2)), say(3)},
        {**{1: 2}, **{}},
        {},
    )


@program("1, 2, 3", "3, 2, 1", "1, 3, 2")
def chain(a, b, c):
    return say(a) < say(b) < say(c), say(a) < say(b) > say(c) != 5, a == b == c


@program("'a', 'b'", "'no', 'b'", "'a', 'no'", "'no', 'no_b'")
def loud_truth(a, b):
    a, b = Loud(a), Loud(b)
    say(a and b, a or b, not a)
    say(a and b or a, (a or b) and b, a and (b or a), not (a and b))
    if a and b:
        say("both")
    elif a or not b:
        say("one")
    if not (a and not b) or (a or b) and a:
        say("more")
    while a < b < a and b:
        break
    return [x for x in (a, b) if x and not a], (a if a and b else b)


@program("0", "1")
def loud_nesting(a):
    v, no = Loud("v"), Loud("no")
    if (v and no if a else no or v) or (no if v else a):
        say("yes")
    say(a and (v or 1) or 2, a and (no or 1) or no, (v and (no or (a and v))) or 3)
    return (a or (no and (v or 4))) and 5, not (a and (v or no)), ((a and v) or no) and v


@program("'a'", "'no'", "0")
def truth_that_fails(name):
    v = Loud(name)
    while v and (
        v
    ):
        break
    while v:
        return 1


@program("'a'", "'no'")
def loud_chain(a):
    a = Loud(a)
    if a < 1 < a:
        say("yes")
    x = a < a < 2
    return x, not a < 1


@program("0", "1", "None")
def conditional(a):
    b = say("yes") if a else say("no")
    return b, (1 if a is None else 2 if a else 3), a or say("or"), a and say("and")


@program("1", "0")
def walrus(a):
    x = 5
    b = x + (x := a) + x
    if (y := say(a)) and (z := y + 1):
        return b, x, y, z
    return [x, (x := 3), x], (b := 1) + (b := b + 1), f(x, x := 9, x)


@program("'a', (1, 'a')", "'b', 0")
def identity_of_constants(a, b):
    text, pair, parts = "a", (1, "a"), ["a", (1, "a")]
    return a is text, a is parts[0], b is pair, pair is parts[1], [a is c for c in ("a", pair)]


def f(*args, **kwargs):
    say("f", args, kwargs)
    return args


@program("1")
def operands_are_read_in_time(a):
    def change():
        nonlocal_list.append(1)
        return 2

    nonlocal_list = []
    b = a
    return a + (a := 5) + a, [b, (b := 2), b], nonlocal_list + [change()] + nonlocal_list


@program("[0, 1, 2, 3, 4, 5]", "'abcdef'", "3", "None")
def slices(a):
    return a[1:], a[:2], a[::2], a[1:4:2], a[:], a[-1], a[say(0) : say(2)]


@program("")
def slices_in_tuples():
    x = Loud("x")
    x[1:2, ..., None, ::3]
    x[(1, 2)]
    x[1, *[2, 3], 4:]
    x[0:1] = 5
    del x[1:], x.y, (x[say(2)], x.z)


@program("1, 'a'", "2.5, 'b'")
def strings(a, b):
    width = 10
    return (
        f"{a}{b!r:>{width}}{Loud('x'):spec}|{a!s}{b!a}{a=} {{}}",
        f"{b}",
        f"",
        f"{a:{width}.{3}f}",
        "xy",
        b"z",
        "%s %d" % (b, a),
    )


@program("3", "-3", "0", "'a'")
def early_returns(n):
    if n == 0:
        return
    if n > 0:
        return "positive"
    return "negative"


@program("")
def constants():
    return 1, 1.0, True, -0.0, 0.0, 1j, None, ..., (1, (2.0, "a")), -1, (1,) + (2,)


# ---- names


@program("True", "False")
def unbound_local(set_it):
    if set_it:
        x = 1
    say("before")
    return say(1) + x


@program("")
def unbound_first():
    try:
        return y + say("not reached")
    except UnboundLocalError as error:
        say(str(error))
    y = 1
    return y


@program("")
def undefined_global():
    return (
        say(1),
        not_defined,
    )


@program("")
def deleted():
    x = [1]
    y = x
    del x
    try:
        say(x)
    except UnboundLocalError as error:
        say(error)
    x = 2
    del x, y
    del y


@program("[1, 2]", "[]")
def loop_variable_after_the_loop(values):
    for v in values:
        pass
    return v


@program("")
def globals_and_builtins():
    return answer, len((1, 2)), max, ValueError("x").args, program.__name__


@program("")
def reads_a_declared_global():
    global answer
    return answer


# ---- assignment


@program("(1, 2)", "[1, 2, 3]", "(1,)", "5", "'ab'", "iter((1, 2))", "{1: 2, 3: 4}")
def unpacking(pair):
    a, b = pair
    (c, d), e = (a, b), pair
    a, b = b, a
    [x, y] = a, b
    return a, b, c, d, e, x, y


@program("(1, 2, 3, 4)", "(1, 2)", "(1,)", "5")
def starred_unpacking(values):
    a, *b, c = values
    *d, e = values
    g, *h = values
    return a, b, c, d, e, g, h


@program("")
def unpacking_order():
    i, a = 0, [9, 9, 9]
    i, a[i] = 1, 5
    a[i], i = say((7, 0))
    (x, y), x = (1, 2), 3
    x, x = 4, 5
    i, i = say((1, 2))
    for i, a[i] in ((0, "p"), (1, "q")):
        say(i, a)
    return i, a, x, y


@program("")
def annotated():
    x: int = 1
    y: not_evaluated
    Loud("z").w: not_evaluated = 3
    Loud("a").b[say(1)]: not_evaluated
    return x


@program("1", "'a'", "[1]", "None")
def augmented(x):
    y = x
    x += x
    x *= 2
    y = [y]
    y += (1,)
    return x, y


@program("5, 3")
def augmented_operators(a, b):
    a -= b
    a *= b
    a //= 2
    a %= 7
    a **= 2
    a <<= 1
    a >>= 1
    a |= 8
    a &= 29
    a ^= 1
    c = a
    c /= 2
    return a, c


# ---- loops


@program("5", "0", "3", "-1")
def loops(n):
    total = 0
    for k in range(n):
        if k == 1:
            continue
        if k == 4:
            break
        total += k
    else:
        say("exhausted")
    while n > 0:
        n -= 1
        if n == 2:
            say("break")
            break
        if n % 2:
            continue
        say(n)
    else:
        say("else")
    return total, n


@program("")
def nested_loops():
    found = []
    for a in range(3):
        for b in range(3):
            if b == a:
                continue
            if b == 2:
                break
            found.append((a, b))
        else:
            continue
        found.append("broken")
    return found


@program("5", "[1, 2]", "Loud('x')", "None")
def iterates(x):
    for k in say(x):
        say(k)
    for a, b in ((1, 2), (3, x)):
        say(a, b)
    for Loud("target").y in (1, 2):
        pass


@program("")
def while_true():
    k = 0
    while True:
        k += 1
        if k > 3:
            return k


class Breaks:
    def __iter__(self):
        return self

    def __next__(self):
        raise say(KeyError("next"))


@program("Breaks()", "[1, 'a', 2]")
def failing_iteration(x):
    total = 0
    for k in x:
        total += (
            1
            + k
        )
    return total


# ---- comprehensions


@program("3", "0", "'a'")
def comprehensions(n):
    k = "outer"
    a = [k * 2 for k in range(n)]
    b = {k % 2 for k in range(n) if k}
    c = {k: [j for j in range(k)] for k in range(n) if k > 0 if k < 9}
    d = [(x, y) for x in range(n) for y in range(x) if say(x + y)]
    return k, a, b, c, d


@program("[1, [2]]", "[1, 2]")
def comprehension_of_what_has_no_hash(xs):
    if len(xs) == 2 and xs[1] == 2:
        return {[x]: x for x in xs if x == 1}
    return {x for x in xs if (
        x != 7
    )}


@program("")
def comprehension_order():
    return {say(k): say(-k) for k in say([1, 2])}, [say(x) for x in say((1,)) for y in say((2, 3))]


@program("[1, 'a']", "[None]", "5", "[3, 4]")
def comprehension_fails(xs):
    return [
        x
        + 1
        for x in xs
    ]


@program("[[1], [2, 'a']]", "[[1], 2]", "[[1, 2]]")
def nested_comprehension_fails(xs):
    return [
        [
            1 + y
            for y in x
        ]
        for x in xs
    ]


@program("")
def comprehension_binds_outside():
    a = [last := k for k in range(3)]
    return a, last, [k for k, *_ in ((1, 2, 3), (4,))]


@program("")
def comprehension_captures():
    fs = [lambda: k for k in range(3)]
    gs = [(lambda k=k: k) for k in range(3)]
    hs = [[(lambda: (i, j)) for j in range(2)] for i in range(2)]
    again = [sum(x * y for y in (1, 2)) for x in range(3)]
    fs += [lambda: k + 10 for k in range(2)]
    return [f() for f in fs], [g() for g in gs], [h() for row in hs for h in row], again


@program("")
def comprehension_reads_cells():
    n = 2

    def inner():
        return [n * k for k in range(n)] + [m for m in [n] if m == n]

    first = inner()
    n = 3
    return first, inner()


@program("0", "1", "2")
def comprehension_reads_unbound(n):
    if n > 0:
        x = 1
    if n > 1:
        y = 2

    def inner():
        return y

    return [x for _ in range(2)], [y for _ in range(2)], inner()


@program("[3, 1, 2]", "[1, 'a']", "[]")
def generator_expressions(xs):
    bias = 1
    total = sum(x + bias for x in xs)
    return (
        total,
        sorted(-x for x in xs),
        ",".join(str(x) for x in xs if x),
        any((seen := x) > 1 for x in xs) and seen,
    )


@program("None")
def generator_of_what_cannot_iterate(x):
    return list(
        y
        for y in x
    )


@program("[1, 2, 3]", "[1, 2]", "[1, 2, 3, 4, 5]", "[1, 'a', 2]", "5", "[]")
def generator_for_several_targets(xs):
    bias = 1
    a, b, c = (
        say(x)
        + bias
        for x in xs
        if x != 4
    )
    return a, b, c, xs


@program("[1, 2, 3]", "[1]", "[]", "[1, 'a']")
def generators_behind_stars(xs):
    first, *rest = (say(x) + 0 for x in xs)
    return max(*(-x for x in xs), 0), [0, *(say(x) for x in xs)], {*(x for x in xs)}, first, rest


@program("[1, 2]", "[1, 'a']")
def generator_as_all_arguments(xs):
    return "{}{}".format(
        *(
            x + 1
            for x in xs
        )
    )


@program("[1, 2]", "[1, 'a']")
def generator_that_runs_after_keywords(xs):
    return "{}{}{z}".format(*(say(-x) for x in xs), z=say(3)), dict(*([x] for x in xs), z=missing)


@program("[1, 2, 3]", "[1]")
def generator_that_a_next_ends(xs):
    it = iter(xs)
    a, b, c = (say(next(it)) + k for k in range(3))
    return a, b, c


@program("[1, 2, 3]", "[1]")
def generator_whose_end_is_caught(xs):
    it = iter(xs)
    try:
        a, *b = (next(it) + k for k in range(3))
    except RuntimeError as error:
        return str(error), repr(error.__cause__), error.__context__ is error.__cause__
    return a, b


@program("3")
def generator_with_names_of_its_own(x):
    y = 5
    a, b = ([x * y for y in range(x)] for x in range(2))
    n = x
    c, *d = ((n, x) for x in range(y))

    def inner():
        return n

    return a, b, c, d, x, y, inner()


# ---- functions


@program("2", "'a'")
def closures(n):
    def add(x, y=say("default"), *, z=say("word")):
        return x, y, z, n

    n = say("changed")
    return add(1), add(1, 2), add(1, z=3), (lambda a, *b, c=4, **d: (a, b, c, d, n))(1, 2, e=5)


@program("")
def late_binding():
    fs = []
    for k in range(3):
        fs.append(lambda: k)
    return [f() for f in fs], [(lambda: j)() for j in range(2)]


@program("")
def unbound_cell():
    def inner():
        return later

    try:
        inner()
    except NameError as error:
        say(str(error))
    try:
        say(later)
    except UnboundLocalError as error:
        say(str(error))
    later = 1
    return inner()


@program("3")
def parameter_in_a_cell(n):
    def inner(k):
        return n + k

    n += 1
    return inner(1), n


@program("")
def counter():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    step()
    return step(), count


@program("5")
def recursion(n):
    def fact(k):
        return 1 if k < 2 else k * fact(k - 1)

    return fact(n), fib(n)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@program("")
def decorated():
    def twice(function):
        say("twice", function.__name__)
        return lambda *args: (function(*args), function(*args))

    def named(name):
        say("named", name)
        return lambda function: say("apply", name) and function

    @twice
    @named(say("x"))
    def inner(x=say("default")) -> say("annotation"):
        """What it says."""
        return say(x)

    return inner(1), inner()


@program("")
def annotations_are_kept():
    def inner(z: int, /, a: int, b: "str" = 1, *c: list, d: say("d") = 2, **e: dict) -> None:
        """Doc."""

    return inner.__annotations__, inner.__doc__, inner.__name__, inner.__qualname__


@program("1, 2, 3", "1", "1, 2, c=3, d=4")
def parameters(a, b=2, /, *args, c=5, **kwargs):
    args += (a,)
    return a, b, args, c, kwargs


@program("")
def two_lambdas_in_a_line():
    more = (lambda x=lambda y: 5, *, z=lambda y: 6: [x, z])(), [v for v in [w for w in (7, 8)]]
    more[0][:] = [function(1) for function in more[0]]
    return (lambda: 1)(), (lambda: 2)(), (lambda: more)(), (lambda x: x)(3), (lambda x: -x)(3)


@program("")
def inner_generator():
    def numbers(n):
        yield from range(n)
        yield say(base)

    base = 9
    return list(numbers(2))


@program("[1, 2]", "5", "{'a': 1}", "None")
def star_arguments(x):
    return f(*x), f(0, *x), f(**dict(a=1)), f(*x, *x, a=1, **{"b": 2}), f(*(), **{})


@program("{'a': 1}", "{'b': 1}", "5")
def duplicate_words(x):
    return f(**x, b=2, **{"c": 3}), f(
        b=1,
        **x,
    )


class Base:
    def __init__(self, x):
        self.x = x

    def method(self, y):
        return say("base", self.x, y)

    @classmethod
    def made(cls, x):
        return cls(x)

    def __repr__(self):
        return f"{type(self).__name__}({self.x})"


class Derived(Base):
    __secret = "s"

    def __init__(self, x, z):
        super().__init__(x)
        self.__z = z

    def method(self, y):
        self.__z += 1
        __local = self.__secret

        def inner(__w):
            return __w, self.__z, super(Derived, self).method(0), super().method

        try:
            inner(1)
        except (RuntimeError, TypeError) as error:
            say(type(error))
        return super().method(y), self.__z, __local, __class__.__name__, f(self=self, __k=1)

    @classmethod
    def made(cls, x):
        return super().made(x) if x else cls(x, x)

    @staticmethod
    def static(a, b=2):
        return a, b

    @property
    def double(self):
        return 2 * self.x


for _function, _cases in (
    (Derived.__init__, ("object.__new__(Derived), 1, 2",)),
    (Derived.method, ("Derived(1, 2), 3", "Base(1), 2", "Derived(1, 'a'), 2")),
    (Derived.__dict__["made"].__func__, ("Derived, 0", "Derived, 1")),
    (Derived.static, ("1", "1, 3")),
    (Derived.double.fget, ("Derived(1, 2)", "1")),
):
    program(*_cases)(_function)


# ---- exceptions


@program("0", "1", "2", "3", "4", "5")
def handlers(n):
    try:
        say("try")
        if n == 0:
            raise ValueError("zero")
        if n == 1:
            fail(KeyError, "one")
        if n == 2:
            fail(TypeError, "two")
        if n == 3:
            fail(OSError)
        if n == 4:
            return say("returned")
    except ValueError as error:
        say("value", error)
    except (KeyError, say(IndexError)) as error:
        raise RuntimeError("again") from error
    except TypeError:
        raise
    except:
        say("bare")
        raise LookupError("context") from None
    else:
        say("else")
    finally:
        say("finally")
    return n


@program("0", "1", "2", "3")
def finally_ends_it(n):
    for k in range(3):
        try:
            say(k)
            if n == 0:
                raise ValueError
            if n == 1:
                continue
            if n == 2:
                return say("try")
        finally:
            say("finally")
            if k == 1:
                break
            if n == 0:
                continue
            if n == 2:
                return "finally"
    return k


@program("0", "1", "2")
def nested_try(n):
    log = []
    try:
        try:
            if n:
                raise KeyError(n)
            log.append("fine")
        finally:
            log.append("inner")
            if n == 2:
                raise IndexError("in finally")
    except LookupError as error:
        log.append((type(error).__name__, error.__context__))
    else:
        log.append("else")
    return log


@program("")
def return_value_is_fixed():
    x = 1
    try:
        return x
    finally:
        x = 2
        say(x)


@program("")
def exception_name_is_unbound():
    error = "before"
    try:
        fail()
    except ValueError as error:
        say(error)
    return error


@program("0", "1", "2")
def exception_name_in_a_loop(n):
    for k in range(3):
        try:
            fail(KeyError if k == n else ValueError, k)
        except KeyError as e:
            break
        except ValueError as e:
            say(e)
            continue
    return k, e


@program("0", "1", "2", "3")
def raising(n):
    if n == 0:
        raise ValueError
    if n == 1:
        raise ValueError("x") from KeyError("y")
    if n == 2:
        raise "no exception"
    raise


@program("ValueError", "5", "(KeyError, 5)", "(ValueError, KeyError)")
def catching(kind):
    try:
        fail()
    except kind:
        return "caught"


@program("1", "0", "Loud('a')", "Loud('no')")
def assertions(x):
    assert x
    assert x or say("never"), say("message")
    assert not x, (
        f"message {x}"
    )


@program("'a'", "'quiet'")
def with_raises(name):
    with Loud(name) as x, Loud("inner"):
        say(x)
        raise ValueError(x)
    return say("after")


@program("")
def with_all_ways_out():
    for k in range(4):
        with Loud(f"m{k}") as Loud("target").name:
            if k == 0:
                continue
            if k == 1:
                pass
            if k == 2:
                break
    with Loud("r"):
        return say("returned")


@program("5", "contextlib.nullcontext(3)", "contextlib.suppress(ValueError)")
def with_what(manager):
    with manager as x:
        say(x)
        fail()
    return "suppressed"


class BadExit:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        fail(KeyError, args[0])


@program("0", "1")
def exit_fails(n):
    with BadExit():
        if n:
            raise ValueError


@program("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11")
def lines_of_errors(n):
    x = None
    if n == 0:
        return x.missing
    if n == 1:
        return (1 +
                x)
    if n == 2:
        return f(1,
                 x[0],
                 2)
    if n == 3:
        x.y = 1
    if n == 4:
        x[1] = 2
    if n == 5:
        del x.z
    if n == 6:
        a, b = x
    if n == 7:
        return [1,
                -x]
    if n == 8:
        x()
    if n == 9:
        return x < 1 or (
            x
        )
    if n == 10:
        return f"""
        {x:d}"""
    if n == 11:
        return (
            x
            .first
            .second()
        )


@program("None", "1, 2", "1, None")
def methods_that_are_not_there(x, y=0):
    return x.bit_length(), y.bit_length(
    )


@program("0", "1", "2", "3", "4", "5", "6", "7", "8")
def more_lines_of_errors(n):
    x = None
    if n == 0:
        return {[]: 1}
    if n == 1:
        return {1, x, []}
    if n == 2:
        import not_a_module
    if n == 3:
        from contextlib import not_a_name
    if n == 4:
        x += 1
    if n == 5:
        x.y += 1
    if n == 6:
        x[0] += 1
    if n == 7:
        with x:
            pass
    if n == 8:
        return x[
            1:
        ](2)


@program("")
def imports():
    import os.path
    import os.path as path
    from contextlib import ExitStack, suppress as quiet

    return os.path is path, quiet is contextlib.suppress, ExitStack.__name__


@program("1", "2", "'x'", "None", "answer", "9", "True")
def matches(value):
    match say(value):
        case 1 | "x":
            return "one"
        case None:
            return "none"
        case contextlib.nothing if False:
            pass
    return value


@program("1", "-2", "'x'", "None", "True", "7")
def matches_values(value):
    match value:
        case 1 | "x":
            result = "one"
        case -2:
            result = "minus two"
        case None | True:
            result = "none"
        case other:
            result = other, value
    return result


# ---- everything at once


@program("[3, 1, 2]", "[1, 'a']", "[]", "None")
def sorts(xs):
    def less(a, b):
        return a < b

    out = []
    for x in xs:
        k = len(out)
        while k and less(x, out[k - 1]):
            k -= 1
        out[k:k] = [x]
    return out


@program("('+', 1, ('*', 2, 3))", "('/', 1, 0)", "('?', 1, 2)", "4")
def walks_a_tree(tree):
    if not isinstance(tree, tuple):
        return tree
    op, *rest = tree
    a, b = [walks_a_tree(part) for part in rest]
    try:
        return {"+": lambda: a + b, "*": lambda: a * b, "/": lambda: a / b}[op]()
    except KeyError as error:
        raise ValueError(f"no operator {op!r}") from error


# ---- what running them showed


def codes(code, with_generators):
    """A code object and those of the functions that it makes."""
    inner = [
        c for c in code.co_consts
        if hasattr(c, "co_code") and (with_generators or not c.co_flags & 0x20)
    ]
    return {code, *(found for c in inner for found in codes(c, with_generators))}


#: Of these, generator expressions are part of the program.
COLLECTS = {
    "generator_for_several_targets", "generators_behind_stars", "generator_as_all_arguments",
    "generator_that_a_next_ends", "generator_whose_end_is_caught",
    "generator_with_names_of_its_own",
}
CODES = {
    found for p in PROGRAMS
    for found in codes(p.function.__code__, p.function.__name__ in COLLECTS)
}


def places(error):
    """(function, line) of the traceback's entries that are of programs."""
    found, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in CODES:
            found.append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
        trace = trace.tb_next
    return found


def nowhere(text):
    """A text without addresses."""
    return re.sub(" at 0x[0-9a-f]+", "", text)


def described(error, depth=3):
    """An exception, with its cause and context."""
    if error is None or not depth:
        return None
    parts = error.__cause__, error.__context__
    chain = [described(part, depth - 1) for part in parts]
    return type(error).__name__, nowhere(str(error)), error.__suppress_context__, *chain


def arguments(case):
    """The arguments that the text of a case gives, made anew."""
    return eval(f"(lambda *args, **kwargs: (args, kwargs))({case})", globals())


def outcome(function, case, places=places):
    """What a call showed: result, log, exception, lines of its traceback."""
    args, kwargs = arguments(case)
    LOG.clear()
    try:
        result, error, lines = function(*args, **kwargs), None, None
    except Exception as raised:
        result, error, lines = None, described(raised), places(raised)
    shown = [nowhere(repr(part)) for part in (result, (args, kwargs))]
    log = [nowhere(line) for line in LOG]
    return {"result": shown[0], "arguments": shown[1], "log": log, "error": error, "lines": lines}


def spot(code, offset):
    """(function, line, column …) of a bytecode instruction."""
    return code.co_name, *(list(code.co_positions())[offset // 2] if offset >= 0 else [None] * 4)


def spots(error):
    """Of the traceback's entries that are of programs, with columns."""
    found, trace = [], error.__traceback__
    while trace is not None:
        if (code := trace.tb_frame.f_code) in CODES:
            found.append(spot(code, trace.tb_lasti))
        trace = trace.tb_next
    return found


# An error in the second of two locals that are read one after the other: CPython 3.11 reads both in
# one step, and points at the first.
PAIRS = {"exception_name_in_a_loop"}
