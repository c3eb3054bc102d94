# ruff: noqa: F507
"""Objects that are gone through, `%` of texts, `|=` of dicts and builtins with wrong arguments in
programs, for test_python.py."""

import collections
import functools
import itertools
from typing import NamedTuple

import weft as torch


class Two:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter([self.n, 2])


class Pairs(Two):
    def __iter__(self):
        return iter([("a", self.n), ("b", 2)])


class Words(Two):
    def __iter__(self):
        return iter(["x", str(self.n)])

    def __contains__(self, one):
        return one == 77


class Seen:
    def __init__(self):
        self.seen = []

    def update(self, one):
        self.seen.append(type(one).__name__)

    def extend(self, one):
        self.seen.append(one.n)


def told(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


def kind_told(call):
    """What `told` gives without its words, which Python changed: 3.12 of `max` of none,
    3.13 of a slice that is to be what has no items."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def given(*args, **words):
    return args, words


def stars(n):
    """They said that the object is not iterable, as all of these."""
    first = [*Two(n)], (*Two(n), 1), {*Two(n)}, [0, *Two(n), *Two(3)], max(*Two(n)), min(*Two(n), 3)
    return first, given(*Two(n)), given(1, *Two(n), k=3), (lambda *q: q)(*Two(n))


def members(n):
    return 2 in Two(n), 5 not in Two(n), 77 in Words(n), "x" in Words(n)


def methods(n):
    seen, rows, among, words = Seen(), [0], {1}, {}
    seen.update(Two(n))
    seen.extend(Two(n))
    rows.extend(Two(n))
    among.update(Two(n))
    words.update(Pairs(n))
    of = {1, 2}.union(Two(n)), {2}.issubset(Two(n)), among.isdisjoint(Two(9)), ",".join(Words(n))
    return seen.seen, rows, among, words, of


def in_place(n):
    rows, among, words = [1, 2, 3], collections.deque([1]), {}
    rows += Two(n)
    rows += (7,)
    rows[1:2] = Two(n)
    rows[:1] = (8, 9)
    among += Two(n)
    words |= Pairs(n)
    words |= [(3, 4)]
    words |= {7: 8}.items()
    words |= {9: 9}
    return rows, list(among), words


def maps(n):
    by = sorted(Two(n), key=lambda v: -v), max(Two(n), key=lambda v: -v)
    return (
        by,
        list(map(str, Two(n))),
        list(map(lambda p, q: p + q, Two(n), [1, 2])),
        list(filter(None, Two(n))),
        [*zip(Two(n), Two(4))],
        dict(Pairs(n)),
        list(collections.deque(Two(n))),
        list(itertools.chain(Two(n), [1])),
        functools.reduce(lambda p, q: p + q, Two(n)),
    )


def dicts_that_are_not(n):
    def merged(what):
        out = {}
        out |= what
        return out

    def times():
        out = {n: n}
        out *= (1, 2)
        return out

    return (
        told(lambda: merged([n])),
        told(lambda: merged(n)),
        told(lambda: merged([(1, 2, n)])),
        told(lambda: dict([n])),
        told(times),
    )


def percents(x):
    """`%` of a text and a tensor was a TypeError, but in a tuple."""
    text = "v %s"
    text %= x
    rows = [x, 1]
    return (
        "a %s" % x,
        "a %.2f" % x,
        "%d items" % x,
        "no" % x,
        text,
        "%s %s" % (x, 1),
        "ab" % rows,
        "ab" % {1: rows},
        "%s" % rows,
        told(lambda: "ab" % len(rows)),
        told(lambda: "%s %s" % x),
        told(lambda: "%(k)s" % rows),
        told(lambda: "ab" % {len(rows)}),
        ("a %s" % x).upper(),
        x % 2,
    )


def percents_of_many(x):
    """They named another error."""
    return told(lambda: "%d" % x), told(lambda: "%.1f" % (x,)), told(lambda: f"{'%s' % x}")


def rounds(x):
    """It gave a tensor."""
    return told(lambda: round(x)), told(lambda: round(x, 1))


def repeats(x):
    """A list times a tensor was no operator's; `+` named the wrong ones."""
    rows = [1, 2]
    rows *= x
    return rows, told(lambda: rows + x), told(lambda: "ab" * x), told(lambda: x * (1, len(rows)))


def quotients(n):
    return (
        told(lambda: divmod(n, int)),
        told(lambda: divmod(n, "a")),
        told(lambda: divmod("a", n)),
        told(lambda: divmod(1j, n)),
        told(lambda: divmod(n)),
        told(lambda: divmod(n, 2, 3)),
        divmod(True, 2),
    )


def rows_of_keys(n):
    """A list with a list in it stands for a tuple, as PyTorch has it: it was one index."""
    x = torch.arange(9.0).reshape(3, 3)
    y = torch.arange(3.0)
    return (
        x[[[0, 1], [1, n]]],
        x[[[1, 2], [1]]],
        y[[None]],
        y[[[]]],
        y[[n, 0]],
        told(lambda: y[[[1], [1, 2]]]),
        told(lambda: y[[n, [1, 2]]]),
        told(lambda: y[[n + 0.5]]),
    )


def without_room(n):
    """It was a RuntimeError of an op's."""
    return told(lambda: [n] * 10**16), told(lambda: (n,) * 2**47), told(lambda: "a" * 2**46)


def kinds_that_are_none(n):
    """A TypeError left `save`, without the line."""
    return (
        told(lambda: isinstance(True, "12")),
        told(lambda: isinstance(n, 5)),
        told(lambda: isinstance(n, [int])),
        told(lambda: isinstance(n, list[int])),
        isinstance(n, (int, float)),
    )


def wrong_counts(n):
    """An IndexError left `save`."""
    return (
        told(lambda: len()),
        told(lambda: len(n, n)),
        told(lambda: isinstance(n)),
        told(lambda: next()),
        told(lambda: iter()),
        told(lambda: abs()),
        told(lambda: hasattr(n)),
        told(lambda: map(str)),
        told(lambda: sorted()),
        told(lambda: "a".upper(n)),
        told(lambda: [n].append()),
        told(lambda: sorted(n, n)),
        told(lambda: sorted([n], key=None, foo=1)),
        told(lambda: sum()),
        told(lambda: sum([n], 1, 2)),
        told(lambda: sum(n)),
        told(lambda: enumerate()),
        told(lambda: max(n, n, default=1)),
        told(lambda: int("1", 2, 3)),
        told(lambda: tuple([1], 2)),
        told(lambda: str(1, 2, 3, 4)),
        told(lambda: bool(1, 2)),
    )


def tensors_without_items(x):
    """An error of an op's told of the tensor, where Python tells of what it was to be."""
    rows = [1, 2]

    def assign():
        rows[:1] = x

    return (
        told(lambda: "".join(x)),
        told(lambda: dict([x])),
        kind_told(assign),
        told(lambda: sorted(x)),
        told(lambda: [*x]),
    )


class Up:
    """An iterator of its own; without an end, where `n` is none."""

    def __init__(self, n):
        self.i, self.n = 0, n

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        if self.n is not None and self.i > self.n:
            raise StopIteration
        return self.i


class Rising:
    """Another iterator each time, which has no `__iter__`."""

    class From:
        def __init__(self, rows):
            self.rows = [*rows]

        def __next__(self):
            return self.rows.pop(0) if self.rows else ends()

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return Rising.From(range(self.n))


def ends():
    raise StopIteration


def turns_of_iterators(n):
    """A TypeError: 'Up' object is not iterable."""
    up, out, k = Up(n), [], None
    for k in up:  # noqa: B007
        for j in up:
            if j > 1:
                break
        out.append(j)
    else:
        out.append("end")
    for i in Rising(n + 2):
        if i > 1:
            break
        try:
            out.append(10 // i)
        except ZeroDivisionError:
            continue
    else:
        out.append("no end")
    return out, k, i, up.i, [v * 2 for v in Up(n) if v != 2], {v: 1 for v in Rising(n)}


def all_of_iterators(n):
    rows = [*Up(n), 7]
    rows += Up(n)
    rows.extend(Rising(n))
    return (
        rows,
        list(Up(n)), tuple(Rising(n)), sum(Up(n)), sorted(Up(n), key=lambda v: -v), set(Up(n)),
        list(enumerate(Up(n))), list(map(str, Rising(n))), "-".join(str(v) for v in Up(n)),
        given(*Up(n)), dict(zip(Up(n), "abc")), kind_told(lambda: max(Up(n))),
    )  # fmt: skip


def asked_for_some(n):
    """Of what has no end."""
    up = Up(None)
    a, *b = Up(n + 1)
    c, d = Up(2)
    return (
        a, b, c, d, next(up), next(up, None), n + 5 in up, any(v > n + 5 for v in Up(n + 9)),
        any(up), all(Rising(n)), list(zip([1, 2, 3], Up(None))), list(zip(Up(n), [1])), up.i,
        told(lambda: [x for x, y in [Up(None)]]), next(Up(0), n), next(iter(Rising(3))),
        list(zip(Up(n), Rising(n), strict=True)),
    )  # fmt: skip


class NoIterator:
    def __init__(self, made):
        self.made = made

    def __iter__(self):
        return self.made


class Less:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        return self.v < other.v

    def __gt__(self, other):
        return self.v > other.v


def keys_with_effects(n):
    """`sorted` went on through the list that its key changed; `min` asked the key of the best
    again."""
    rows, asked = [2, 0, n], []
    made = sorted(rows, key=lambda _: rows.pop())

    def key(v):
        asked.append(v)
        return Less(v % 3)

    return made, rows, min([4, 2, 3, n], key=key), max((1, n, 5), key=key), asked


class Row(NamedTuple):
    a: int
    b: int


class Defaulted(NamedTuple):
    a: int
    b: int = 7


def stars_of_results(x, *more):
    """Refused: what writes `out=` looked at the class of the results."""
    q = torch.linalg.householder_product(*torch.geqrf(x))
    y = torch.ormqr(*torch.geqrf(x), x)
    p = torch.lu_unpack(*torch.linalg.lu_factor(x))
    return q, y, tuple(p), torch.tensordot(*torch.linalg.qr(x)), torch.tensordot(x, *more)


def another_of(row, values):
    return type(row)(*values)


def stars_of_classes(n):
    row = another_of(Row(n, 2), [3, n])
    none, some = told(lambda: another_of(row, [n])), told(lambda: Defaulted(*[n] * n).b)
    return row.a, row.b, another_of([], [(n,)]), none, some


def are_no_iterators(n):
    """A list was gone through."""
    none = [NoIterator(made) for made in ([n], n, None, "a")]
    return (
        [told(lambda: [v for v in one]) for one in none],
        [told(lambda: iter(one)) for one in none],
        [told(lambda: list(one)) for one in none],
        told(lambda: [v for v in Rising.From([n])]),
        told(lambda: next(Rising(n))),
    )


N = [(0,), (1,), (2,)]
X = torch.tensor([[1.0, 2.0, 0.5], [0.0, 3.0, 1.0], [4.0, -1.0, 2.0]])
CASES = [
    (turns_of_iterators, N),
    (all_of_iterators, N),
    (asked_for_some, N),
    (are_no_iterators, N),
    (stars_of_results, [(X, X), (X, X, 1)]),
    (stars_of_classes, N),
    (keys_with_effects, N),
    (stars, N),
    (members, N),
    (methods, N),
    (in_place, N),
    (maps, N),
    (dicts_that_are_not, N),
    (percents, [(torch.tensor(1.5),), (torch.tensor(2),)]),
    (percents_of_many, [(torch.ones(2),), (torch.ones(2, 1),)]),
    (rounds, [(torch.tensor(1.5),), (torch.ones(2),)]),
    (repeats, [(torch.tensor(2),), (torch.tensor(True),)]),
    (quotients, N[1:]),
    (rows_of_keys, N),
    (without_room, N),
    (kinds_that_are_none, N),
    (wrong_counts, N),
    (tensors_without_items, [(torch.tensor(1.5),)]),
]
