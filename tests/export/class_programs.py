"""Classes of the user's in programs, for test_python.py: inheritance, order, keys, and functions of
Python's library that compare or copy what they are given."""

import bisect
import copy
import heapq
import math
from collections import OrderedDict
from dataclasses import dataclass, field, replace

import weft as torch


class Named:
    def __init__(self, v):
        self.v = v

    def get(self):
        return self.v

    def another(self):
        return type(self)(self.v + 1)

    @classmethod
    def of(cls, v):
        return cls(v)


class Third(Named):
    def __init__(self, v):
        super().__init__(v * 3)
        self.w = 1

    @property
    def twice(self):
        return super().get() * 2


class Fourth(Third):
    def get(self):
        return super().get() + 1


@dataclass(order=True)
class Scored:
    score: float
    n: int = field(default=0, compare=False)


@dataclass
class Started:
    a: int

    def __post_init__(self):
        self.b = self.a + 1


@dataclass
class After(Started):
    c: int = 4

    def __post_init__(self):
        super().__post_init__()
        self.d = self.c + self.b


class Written(Started):
    def __init__(self, q):
        super().__init__(q * 2)
        self.q = q


class Less:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        return self.v < other.v


@dataclass(eq=False)
class Itself:
    a: float


@dataclass(frozen=True)
class Key:
    a: float
    b: int = field(compare=False, default=0)


def inherited(x):
    one, other = Third(x), Fourth.of(x)
    made = [type(o).__name__ for o in (one.another(), other.another(), Named(x).another())]
    return one.v, one.w, one.twice, other.get(), other.twice, made


def of_fields(x):
    return After(x).d, Written(x).b, Written(x).q, After(x, 2).d


def classes(x):
    o = Third(x) if x > 1 else Named(x)
    names = [type(v).__name__ for v in (o, x, [x], None, "s", (1,))]
    told = type(o) is Third, type(o) in (Named,), isinstance(o, Named), isinstance(o, Third)
    return names, told, o.__class__.__name__, {Named: "a", Third: "b"}[type(o)]


def ordered(x):
    one, other = Scored(1.0, 5), Scored(x)
    found = one < other, one <= other, one > other, one >= other
    rows = sorted([(x, other), (1.0, one), (1.0, Scored(0.5))])
    return found, [s.score for s in sorted([other, one])], [r[1].score for r in rows], max(rows)[0]


def unordered(x):
    return Scored(1.0) < x


def rows_of_objects(x):
    found = (1, Less(x)) < (1, Less(3)), [Less(x)] < [Less(1), 2], [1, 2] < [1, x]
    objects = [Less(x), Less(1.0), Less(2.0)]
    objects.sort()
    return found, [o.v for o in objects], (1, x) < (1,), [1] < x


def heaps(xs):
    heap = []
    for x in xs:
        heapq.heappush(heap, x)
    kept, made = list(heap), list(xs)
    heapq.heapify(made)
    out = [heapq.heappop(heap) for _ in range(len(heap))]
    found = heapq.heappushpop(made, 2), heapq.heapreplace(made, 7), made
    places = bisect.bisect(out, 2), bisect.bisect_left(out, 2)
    bisect.insort(out, 2)
    of_objects = [Less(x) for x in xs]
    heapq.heapify(of_objects)
    by_value = heapq.heappop(of_objects).v
    return kept, found, out, places, by_value, heapq.nlargest(2, xs), heapq.nsmallest(1, xs)


def copies(x):
    rows = [x, [2]]
    rows.append(rows[1])
    one, other = copy.copy(rows), copy.deepcopy(rows)
    rows[1].append(3)
    other[1].append(4)
    return one, other, rows, copy.deepcopy({"a": (x, [x])}), replace(Scored(x, 2), score=1.0).n


def keys(x):
    counts = len({Itself(x), Itself(x)}), len({Key(x, 1), Key(x, 2)})
    found = {Key(x, 1): 4}.get(Key(x, 2)), Itself(x) == Itself(x), Key(x, 1) == Key(x, 2)
    return counts, found, len({Scored(x)})


def numbers(text):
    return float(text), int(text), math.trunc(float(text) / 3)


def tensor_of_texts(x):
    return torch.tensor([x, "a"])


def forked(x):
    later = torch.jit.fork(numbers, x)
    return torch.jit.wait(later), len(OrderedDict(a=x, b=2))


CASES = [
    (inherited, [(2,), (1.5,), (torch.ones(2),)]),
    (of_fields, [(2,), (0,)]),
    (classes, [(2.0,), (1.0,)]),
    (ordered, [(2.0,), (1.0,), (0.5,)]),
    (unordered, [(2.0,), (None,)]),
    (rows_of_objects, [((2.0,)), (0.5,)]),
    (heaps, [([3, 1, 2],), ([5, 4, 3, 2, 1, 0],), ([1],)]),
    (copies, [(1.0,), (2,)]),
    (keys, [(1.0,), (2,)]),
    (numbers, [("1_000",), ("12",), ("_1",), ("1__0",), ("1_",)]),
    (tensor_of_texts, [("b",), (1.0,)]),
    (forked, [("1_0",)]),
]
