"""Objects of the user's classes in programs: each function agrees with Python, or is refused by its
line when it is saved. They were saved and raised in each run, or gave something else."""

import collections
import functools
from dataclasses import FrozenInstanceError, dataclass, field
from typing import NamedTuple

import pytest
from python_programs import saved
from test_closing import outcome

import weft


@dataclass(frozen=True)
class Frozen:
    a: int


@dataclass
class Counted:
    total = 3
    a: int = 1


class Number:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v

    def __str__(self):
        return f"<{self.v}>"

    def __format__(self, spec):
        return "F" + spec

    def __iadd__(self, other):
        self.v += other
        return self

    def __add__(self, other):
        return self.v + other

    def __radd__(self, other):
        return other + self.v

    def __abs__(self):
        return abs(self.v)

    def __float__(self):
        return float(self.v)

    def __index__(self):
        return self.v

    def __floordiv__(self, other):
        return 77

    def __and__(self, other):
        return 79


class Lazy:
    def __init__(self):
        self.calls = 0

    def __getattr__(self, name):
        if name == "dynamic":
            return 5
        raise AttributeError(name)

    @functools.cached_property
    def big(self):
        self.calls += 1
        return 7


class Shared:
    total = 0
    limit = 3

    def bump(self):
        self.total += 10
        return self.total


@dataclass
class Holder:
    held: object
    n: int = 1


class Halved(Shared):
    @property
    def half(self):
        return self.limit / 2


class Ordered:
    def __init__(self, a):
        self.a = a

    def __lt__(self, other):
        return self.a < other.a

    def __eq__(self, other):
        return self.a == other.a

    def __iter__(self):
        return iter((self.a, 2))

    def __repr__(self):
        return f"V({self.a})"


class Even:
    """Equal to all that is as odd or even."""

    def __init__(self, a):
        self.a = a

    def __eq__(self, other):
        return isinstance(other, Even) and self.a % 2 == other.a % 2


@dataclass
class Around:
    held: object
    n: int = field(default=0, compare=False)


@dataclass(eq=False)
class Alone:
    a: int


@dataclass
class Area:
    side: int
    size: int = 0

    def __post_init__(self):
        self.size = self.side**2


class Point(NamedTuple):
    x: int
    y: int = 2


def frozen_set(a):
    f = Frozen(a)
    try:
        f.a = 5
    except AttributeError as e:
        return str(e), f.a
    return "set", f.a


def slots(a):
    x = Number(a)
    try:
        x.b = 1
    except AttributeError:
        return "refused", x.v
    return "set", x.v


def texts(a):
    x = Number(a)
    return "%s" % x, "%s-%d" % (x, a), f"{x}", "{:>5}|{0}".replace("{0}", "").format(x)


def f_strings(a):
    x = Number(a)
    return f"{x}", f"{x:>5}", f"{x!s}", str(x), format(x, "3"), f"{a:>4}", f"{a}", "%d" % a


def keys(a):
    return {Frozen(a): 1}[Frozen(a)], len({Frozen(1), Frozen(a), Frozen(a)})


def added_to(a):
    x = y = Number(a)
    x += 1
    n = a
    n += 2
    text = str(a)
    text += "x"
    return x.v, y.v, n, text


def reflected(a):
    return a + Number(1), Number(1) + a, 2 + Number(a), sum([Number(1), Number(a)]), sum([a, 2])


def converted(a):
    x = Number(a)
    return abs(x), float(x), [5, 6, 7][x], int(x), abs(-a), float(a), x // 2, x & 1


def dynamic(a):
    x = Lazy()
    return x.dynamic, x.big, x.big, x.calls


def no_such(a):
    try:
        return Lazy().other
    except AttributeError as e:
        return str(e)


def of_class(a):
    x, y = Shared(), Counted(a)
    y.total += 1
    return x.limit, x.bump(), x.bump(), Shared().total, y.total, repr(y)


def shown(a):
    v = Ordered(a)
    rows = [v, v]
    return repr([Ordered(a)]), str({"k": v}), repr(rows), f"{rows}", f"{(v,)}", str(v), repr(a)


def held(a):
    return repr(Holder(Ordered(a), a)), f"{[Holder(Ordered(a))]}"


def without_setter(a):
    x = Halved()
    try:
        x.half = a
    except AttributeError:
        return "refused", x.half
    return "set", x.half


def in_order(a):
    rows = [Ordered(3), Ordered(a), Ordered(2)]
    up, down = sorted(rows), sorted(rows, reverse=True)
    least, most = min(rows), max(Ordered(3), Ordered(a))
    return [v.a for v in up], [v.a for v in down], least.a, most.a, sorted([3, a]), max(a, 2)


def characters(a):
    """They were refused, and `divmod` of a tensor ran."""
    made, x = [], weft.ones(a)
    for f in (lambda: divmod(x, 2), lambda: ord("ab"), lambda: chr(-a), lambda: hex(0.5)):
        try:
            made.append(f())
        except (TypeError, ValueError) as e:
            made.append(str(e))
    numbers = [hex(-a), bin(a), oct(a * 100), hex(a > 1), chr(a + 97), chr(0x20AC * a)]
    return numbers, [ord(c) for c in "a\u00e9\u20ac\U0001f600" * a], made


def frozen_again(a):
    try:
        Frozen(a).a = 1
    except FrozenInstanceError as e:
        return str(e)


def after_init(a):
    """It was refused."""
    x = Area(a)
    return x.size, x.side, x == Area(a), repr(x)


def unlike(a):
    return Ordered(a) != Ordered(1), Ordered(a) == Ordered(1), a != 1


def contained(a):
    rows = [Ordered(1), Ordered(3)]
    return Ordered(a) in rows, Ordered(a) not in rows, Ordered(a) in (Ordered(2),), a in [1, 3]


def unpacked(a):
    p, q = Ordered(a)
    r, *s = Ordered(a)
    return p, q, r, s, list(Ordered(a)), sum(Ordered(a)), [(i, k) for i, k in enumerate(Ordered(a))]


def fields(a):
    return Point(a)._fields, Point(a).x


def equal_rows(a):
    """All but the first was False, or not found: `==` of rows went by what objects have."""
    rows = [Even(1), Even(a)]
    return (
        Even(a) == Even(a + 2), [Even(a)] == [Even(a + 2)], (1, Even(a)) != (1, Even(a + 2)),
        {1: Even(a)} == {1: Even(a + 2)}, {1: Even(a)} == {2: Even(a)}, [[Even(a)]] == [(Even(a),)],
        [rows] == [[Even(3), Even(a + 2)]], rows == [Even(1)], rows == a, [Even(a)] in [[Even(0)]],
        (a, Even(a)) in ((2, Even(0)),), {} == rows, rows != rows,
    )  # fmt: skip


def found_rows(a):
    rows, row = [Even(a), Even(a + 1), Even(a)], (Even(a), 5)
    try:
        missing = rows.index(Even(a), 1, 2)
    except ValueError as error:
        missing = len(str(error)) > 0
    found = rows.index(Even(a + 3)), rows.count(Even(a + 2)), rows.index(Even(a), 1)
    rows.remove(Even(a + 5))
    plain = str(a).count("1"), [a].index(a)
    return found, len(rows), row.index(5), row.count(Even(0)), missing, plain


def found_beside_deques(a):
    queue = collections.deque([Even(a)])
    rows = [Even(a)]
    return Even(a + 2) in queue, Even(a + 2) in rows, queue == collections.deque([Even(a + 2)])


def equal_fields(a):
    """`n` was compared, and objects that are each its own were equal."""
    one = Alone(a)
    return (
        Around(Even(a)) == Around(Even(a + 2)), Around(a, 1) == Around(a, 2), one == one,
        Around(a) != Around(a), one == Alone(a), one in [Alone(a)], [one] == [one],
        Around(one) == Around(one),
        Counted(a) == Counted(a), Counted(a) == Around(a), Around(Around(Even(1))) == Around(a),
    )  # fmt: skip


def named_results(a):
    """An op's named result was shown as a plain tuple where a class shows itself."""
    found = weft.ones(2, a).max(0)
    return str(found), f"{found}", repr((Ordered(a), 1))


PROGRAMS = [
    named_results, characters, frozen_again, after_init, equal_rows, found_rows,
    found_beside_deques, equal_fields, frozen_set, slots, texts, f_strings,
    keys, added_to, reflected, converted, dynamic, no_such,
    of_class, shown, held, without_setter, in_order, unlike, contained, unpacked, fields,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_objects_do_what_their_classes_say(program):
    loaded = saved(program)
    for a in (2, 1, 2):
        assert outcome(loaded, (a,)) == outcome(program, (a,))


def test_a_frozen_field_that_is_set_raises_as_python():
    """It was an AttributeError alone."""

    def program(a):
        Frozen(a).a = 1

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        saved(program)(1)


def test_the_default_dtype_is_that_of_the_run():
    """It was that of saving; in composites, as `special`'s, too."""

    def program(n):
        return weft.get_default_dtype() == weft.float64, weft.special.entr(weft.arange(n)).dtype

    loaded = saved(program)
    for kind in (weft.float64, weft.float32, weft.float64):
        weft.set_default_dtype(kind)
        try:
            for _ in range(3):
                assert loaded(2) == program(2) == (kind == weft.float64, kind)
        finally:
            weft.set_default_dtype(weft.float32)


def test_numbers_of_complex_tensors():
    def program(x):
        return complex(x[0]), f"{x[0]:.2f}", complex(x[0], 1)

    x = weft.tensor([1 - 2j])
    assert saved(program)(x) == program(x)


def test_grad_fn_is_refused():
    def program(x):
        return (x * 2).grad_fn is None

    with pytest.raises(weft.export.NotExportable, match="grad_fn"):
        saved(program)


class Hashed:
    def __hash__(self):
        return 1


class Guarded:
    def __setattr__(self, name, value):
        raise AttributeError(name)


@dataclass(frozen=True)
class Unlike:
    a: int

    def __eq__(self, other):
        return True


@pytest.mark.parametrize("kind", [Hashed, Guarded, functools.partial(Unlike, 1)])
def test_special_methods_that_no_program_asks_for_are_refused(kind):
    def program(x):
        made = kind()
        return x, isinstance(made, int)

    sentence = r"test_records.py:\d+: an object of .*(, which has| with) __"
    with pytest.raises(weft.export.NotExportable, match=sentence):
        saved(program)


class Spot(NamedTuple):
    x: weft.Tensor
    n: int = 3


@dataclass
class Scaled:
    by: float

    def of(self, spot):
        return spot.x * self.by


class Moves(weft.nn.Module):
    def forward(self, spot, scaled):
        return spot._replace(n=spot.n + 1), spot._fields, spot._asdict(), scaled.of(spot)


def test_classes_of_arguments_are_known_by_annotation_or_by_the_example():
    """`_fields` of a named tuple whose class only a run knows raised AttributeError there; an
    export did not know the classes of its example."""

    def fields(spot):
        return spot._fields

    def moved(spot):
        return spot._replace(n=1)

    def annotated(spot: Spot):
        return spot._fields, spot._replace(n=1)

    for program in (fields, moved):
        with pytest.raises(weft.export.NotExportable, match="Hint: annotate the parameter"):
            saved(program)
    spot = Spot(weft.ones(2), 1)
    assert saved(annotated)(spot)[0] == ("x", "n")
    run = weft.export.export(Moves(), (spot, Scaled(2.0))).module()
    made, names, shown, scaled = run(spot, Scaled(2.0))
    assert (made.n, names, list(shown)) == (2, ("x", "n"), ["x", "n"])
    assert weft.equal(scaled, weft.full((2,), 2.0))
