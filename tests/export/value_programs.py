"""Values of Python's in programs, for test_python.py: frozensets, sizes, views, deques, texts, what
dataclasses show, compare and hash, and what `isinstance` says of all of them."""

import abc
import collections
import collections.abc
import heapq
import numbers
import typing
from dataclasses import dataclass, field
from typing import Any

import weft as torch

FROZEN = frozenset({1, 2})
SIZE = torch.ones(2, 3).shape


@dataclass
class Hidden:
    a: Any
    b: int = field(default=3, repr=False)


@dataclass
class Below(Hidden):
    c: int = 5


@dataclass(repr=False)
class ShownAsAbove(Hidden):
    c: int = 5


@dataclass(eq=False)
class EqualAsAbove(Hidden):
    c: int = 5


class Outer:
    @dataclass
    class Inner:
        a: int


@dataclass(frozen=True)
class Hashed:
    a: int
    b: int = field(default=1, hash=False)


@dataclass(repr=False)
class Bare:
    a: int


class Shown:
    def __init__(self, v):
        self.v = v

    def __repr__(self):
        return f"Shown({self.v})"


class Backwards:
    def __init__(self, rows):
        self.rows = rows

    def __reversed__(self):
        return iter(["from behind", *self.rows])


class Rows:
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        return self.rows[k]


def frozensets(n):
    one, other = frozenset([n, 2]), {n, 3}
    told = isinstance(one, frozenset), isinstance(one, set), isinstance(other, frozenset)
    kinds = [type(v).__name__ for v in (one, other, one | other, other | one, one - other)]
    found = {one: "a"}[frozenset((2, n))], one == {n, 2}, {n, 2} == one, one < {n, 2, 9}
    return told, kinds, found, one, other, repr(frozenset()), [*frozenset([n])], FROZEN | {n}


def frozensets_do_not_change(n):
    one = other = frozenset([n])
    one |= {3}
    return other, one, len(one.union([4])), one.add(4)


def frozensets_that_come_in(s, t):
    return s, t, isinstance(s, frozenset), isinstance(t, frozenset), s | t, t | s, s == t


def sizes(x):
    both = x.shape + x.shape
    shapes = both, x.shape + (1,), (1, *x.shape), x.shape[1:], torch.Size([x.shape[0], 4]), SIZE
    told = [(str(s), type(s).__name__, isinstance(s, torch.Size), s == tuple(s)) for s in shapes]
    return told, type(x.shape) is torch.Size, type(x.shape) is tuple, isinstance(SIZE, tuple)


def results_of_ops(x):
    return type(torch.max(x, 0)).__name__, type(torch.max(x, 0)[0]).__name__


def kinds(x):
    """Each class that `isinstance` may be asked for, of each value."""
    names = int | float, typing.List, collections.abc.Sequence, collections.abc.Set  # noqa: UP006
    names += numbers.Number, collections.abc.Hashable, collections.abc.Iterator, bytes, None | str
    names += collections.abc.Collection, ((int, (str,)), dict), collections.abc.MutableMapping
    names += collections.abc.KeysView, frozenset, object, torch.Size, Exception, torch.Tensor
    d = {1: x}
    values = [x, [x], (x,), d, {1}, frozenset([1]), "s", 1, 1.5, True, None, d.keys(), d.items()]
    values += [ValueError("a"), iter([x]), Hidden(1), f"{x.sum():.0f}".encode(), range(3), 1j]
    values += [x.shape, torch.ones(1).shape]
    out = []
    for value in values:
        out.append(isinstance(value, names[0]))
        out.append(isinstance(value, names[1]))
        out.append(isinstance(value, names[2]))
        out.append(isinstance(value, names[3]))
        out.append(isinstance(value, names[4]))
        out.append(isinstance(value, names[5]))
        out.append(isinstance(value, names[6]))
        out.append(isinstance(value, names[7]))
        out.append(isinstance(value, (names[8], names[9])))
        out.append(isinstance(value, names[10]))
        out.append(isinstance(value, names[11]))
        out.append(isinstance(value, names[12]))
        out.append(isinstance(value, names[13]))
        out.append(isinstance(value, names[14]))
        out.append(isinstance(value, names[15]))
        out.append(isinstance(value, names[16]))
        out.append(isinstance(value, names[17]))
    return out


def shown(n):
    both = Hidden(n), Below(n), ShownAsAbove(n), Outer.Inner(n), Hashed(n)
    texts = [str(o) for o in both], [repr(o) for o in both], [f"{o}" for o in both]
    return texts, f"{both[0]!r}", str([*both]), "%s" % (both[0],), f"{both[0]}"


def shown_with_objects(n):
    return str(Hidden(Shown(n))), repr([Below(Shown(n))]), f"{ShownAsAbove([Shown(n)])}"


def shown_as_objects(n):
    return repr(Bare(n))[:1], "a=" in str(Bare(n)), "a=" in f"{[Bare(n)]}", Bare(n) == Bare(n)


def compared_and_hashed(n):
    a, b = EqualAsAbove(n, c=1), EqualAsAbove(n, c=2)
    return a == b, Below(n, c=1) == Below(n, c=2), len({Hashed(n), Hashed(n, 2)}), a != b


def qualified_names(n):
    return type(Outer.Inner(n)).__name__, type(Outer.Inner(n)).__qualname__, str([Outer.Inner(n)])


def powers(a, b, mod):
    return pow(a, b, mod), pow(a, b, mod=mod)


def heaps_without_keys(xs):
    return heapq.nsmallest(2, xs), heapq.nlargest(2, xs), sorted(xs, key=None), max(xs, key=None)


def deques(n):
    q, last = collections.deque([n, 1]), collections.deque([n, 1, 2], 3)
    q += [2, 3]
    q.extend(q)
    last += q
    both = last + collections.deque([n])
    found = [*reversed(q)], both.maxlen, list(both), list(last * 2), list(2 * q)
    try:
        q + [1]
    except TypeError as error:
        return found, str(error), isinstance(q, collections.abc.MutableSequence)
    return None


KEPT = collections.deque([1, 2, 3, 4])


def deques_that_were_there(n):
    """It was refused as a value, in a function of weft's own."""
    last = collections.deque(KEPT, 2)
    last.append(n)
    return list(last), type(last).__name__, n in KEPT, last == collections.deque([4, n])


def backwards(n):
    rows = [v for v in reversed(Rows([n, 1]))], list(reversed(Backwards([n])))
    return rows, list(reversed([n, 1])), next(reversed(Rows([n, 2])))


def iterators_are_no_lists(xs):
    """They were the lists that stand for them."""
    told = 1 if (x for x in xs) else 2, not (x for x in xs), bool(map(abs, xs))
    same = (x for x in xs) == xs, isinstance((x for x in xs), list), isinstance(map(abs, xs), tuple)
    shown = str(x for x in xs)[:1], f"{map(abs, xs)}"[:1], type(x for x in xs).__name__ == "list"
    raised = []
    try:
        len(x for x in xs)
    except TypeError:
        raised.append("len")
    try:
        map(abs, xs)[0]
    except TypeError:
        raised.append("[0]")
    try:
        filter(None, xs) + [1]
    except TypeError:
        raised.append("+")
    try:
        (x for x in xs).append(1)
    except AttributeError:
        raised.append("append")
    return told, same, shown, raised, [*(x for x in xs)], max(x for x in xs), 2 in map(abs, xs)


def percent(v, key):
    texts = "%c|%5c|%-3c|" % (v, v, v), "%(a)s %(b)05.1f%%" % {"a": v, "b": 2}, "%a" % "\u00e4"
    return texts, "%(k)s %(k)r" % {key: v}


def popped_of_none(d):
    return d.pop([], "default"), d.pop([])


def characters(v):
    return "%c" % v


def encoded(s):
    return s.encode("utf8"), s.encode("U8"), s.encode(encoding="UTF-8", errors="replace")


def views(d, n):
    keys, items = d.keys(), d.items()
    found = items >= {(n, 1)}, keys >= {n}, keys <= {n, 2, 3}, items > {(n, 1)}, {n} < keys
    same = keys == {*d}, {*d} == keys, items == items, {1: [n]}.items() == {1: [n]}.items()
    names = [type(v).__name__ for v in (keys, d.values(), items)]
    return found, same, keys & {n}, keys - {n}, keys.isdisjoint([n]), items != {(1, 2)}, names


def views_and_lists(d, n):
    return d.keys() < [n]


def causes(n):
    try:
        try:
            raise ValueError(n)
        except ValueError as e:
            raise TypeError("b") from e
    except TypeError as t:
        return t.__cause__.args, type(t.__cause__).__name__, ValueError(n).__cause__
    return None


def bytes_are_no_tuples(s):
    return s.encode() == (97,), s.encode() == s.encode(), isinstance(s.encode(), tuple)


def an_item_by(x, k):
    return x[k]


def rounded(a, k):
    return round(a, k)


def divided(a, b):
    return divmod(a, b)


def joined(s, xs):
    return s.join(xs)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    def doubled(self):
        return self.area() * 2


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * self.side


class Registered:
    side = 3


Shape.register(Registered)


def abstract_classes(n):
    s = Square(n)
    return s.doubled(), isinstance(s, Shape), isinstance(Registered(), Shape), type(s).__name__


def made_of_an_abstract_class(n):
    return Shape()


CASES = [
    (rounded, [(15, -1), (25, -1), (-25, -1), (2**63 - 19, -1), (5 * 10**17, -18), (7, -25)]),
    (divided, [(7.0, 2), (-7, 2.0), (1.0, 0.0), (1, 0.0), (1, 0)]),
    (joined, [("-", ["a", "b"]), ("-", "ab"), ("-", 3), ("-", [1])]),
    (abstract_classes, [(2,)]),
    (made_of_an_abstract_class, [(2,)]),
    (an_item_by, [(torch.ones(2), 1), (torch.ones(2), "a"), (torch.ones(2), (0, "a"))]),
    (frozensets, [(1,), (2,)]),
    (frozensets_do_not_change, [(1,)]),
    (frozensets_that_come_in, [({1, 2}, frozenset([1, 2])), (frozenset("a"), {"b"})]),
    (sizes, [(torch.ones(2, 3),), (torch.ones(4),)]),
    (results_of_ops, [(torch.ones(2, 3),)]),
    (kinds, [(torch.ones(2),)]),
    (shown, [(1,), (2.5,)]),
    (shown_with_objects, [(1,)]),
    (shown_as_objects, [(1,)]),
    (compared_and_hashed, [(1,)]),
    (qualified_names, [(1,)]),
    (powers, [(2, 5, 7), (3, -1, 7), (-3, 3, -7), (2, 0, 1), (2, 3, 0), (2, -1, 4), (2.0, 1, 2)]),
    (powers, [(2**62, 2**62, 2**63 - 1), (3, -2, -7), (0, -1, 5), (7, 2, None)]),
    (heaps_without_keys, [([3, 1, 2],), ([1],)]),
    (deques, [(1,), (5,)]),
    (deques_that_were_there, [(2,), (7,)]),
    (backwards, [(1,)]),
    (iterators_are_no_lists, [([1, 2],)]),
    (percent, [(65, "k"), (66, "a(b)c"), ("x", ""), ([1], "k"), (1.5, "k")]),
    (popped_of_none, [({},), ({1: 2},)]),
    (characters, [(0x20AC,), (-1,), ("ab",), (2**40,), (True,)]),
    (encoded, [("a\u00e4",), ("",)]),
    (views, [({1: 1, 2: 3}, 1), ({2: 1}, 1), ({}, 4)]),
    (views_and_lists, [({1: 1}, 1)]),
    (causes, [(1,)]),
    (bytes_are_no_tuples, [("a",)]),
]
