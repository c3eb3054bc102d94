"""Inner functions and iterators whose variables are set again: see test_captures.py."""

import itertools

import weft


def in_a_comprehension(x):
    return [g(x) for g in [lambda q: q + j for j in range(3)]]


def set_behind(x):
    k = 1
    f = lambda v: v * k  # noqa: E731
    k = -1
    return f(x), sorted([3, 1, 2], key=f)


def set_in_a_branch(x):
    k = 1
    f = lambda v: v * k  # noqa: E731
    if x.sum() > 0:
        k = 2
        first = f(x)
    else:
        first = f(x)
        k = x.sum()
    return first, f(x)


def set_in_a_loop(x, n):
    k, out = 1, []
    f = lambda v: v * k  # noqa: E731
    for i in range(n):
        out.append(f(x))
        k = k + i
    while k < 9:
        k += 1
        out.append(f(x))
    return out, f(x)


def made_in_a_loop(x, n):
    out = []
    for k in range(n):
        f = lambda v: v * k  # noqa: B023, E731
        out.append(f(x))
        k = k + 10
        out.append(f(x))
    return out


def made_in_turns(x):
    fs = [lambda v: v * k for k in (1, 2)]
    gs = [lambda v: v - k for k in (3, 4)]
    return [f(x) for f in fs], [g(x) for g in gs]


def through_another(x):
    k = 1

    def inner(v):
        return v * k

    def outer(v):
        return inner(v) + k

    first = outer(x)
    k = x.sum()
    return first, outer(x)


def later_defined(x):
    def a(v):
        return b(v) + 1

    def b(v):
        return v * 2

    return a(x)


def calls_each_other(x):
    def a(n):
        return x if n == 0 else b(n - 1)

    def b(n):
        return x * 2 if n == 0 else a(n - 1)

    return a(3)


def calls_itself(x, n: int):
    k = 1

    def f(m):
        return x * k if m < 1 else f(m - 1) + k

    first = f(n)
    k = 2
    return first, f(n)


def a_generator(x):
    k = 1
    g = (v * k for v in [x, x + 1])
    k = 5
    return list(g)


def a_generator_at_once(x):
    k = 1
    total = sum(v * k for v in [x, x + 1])
    k = 5
    return total, max(v.sum() * k for v in [x, x + 1])


def a_generator_over(x):
    k = [x, x]
    g = (v + 1 for v in k)
    k = 5
    return list(g), k


def a_generator_in_a_loop(x, n):
    gs = []
    for k in range(n):
        gs.append(v * k for v in [x, x + 1])  # noqa: B023
    return [list(g) for g in gs]


def maps(x):
    ms = [map(lambda v: v * j, [x, x + 1]) for j in range(3)]  # noqa: B023
    return [list(m) for m in ms]


def maps_at_once(x):
    return [list(map(lambda v: v * j, [x, x + 1])) for j in range(3)]  # noqa: B023


def a_filter(x):
    k = 0
    f = filter(lambda v: v.sum() > k, [x, -x])
    k = -9
    return list(f)


def a_map_in_a_zip(x):
    k = 1
    z = zip(map(lambda v: v * k, [x]), [1])
    k = 2
    return list(z)


def a_generator_of_turns(x):
    gs = [(v * j for v in [x]) for j in range(2)]
    return [list(g) for g in gs]


def through_a_function(x):
    def lazy(f, xs):
        return map(f, xs)

    k = 1
    g = lazy(lambda v: v * k, [x])
    k = 5
    return list(g)


def accumulated(x):
    k = 1
    a = itertools.accumulate([x, x], lambda p, q: p + q * k)
    k = 4
    return list(a)


def behind_a_loop(x, n):
    scale, count = 1, 0
    while scale < n:
        scale *= 2
    for k in range(n):
        count += k

    def g(q):
        return q * scale + count

    ordered = sorted([1, 2, 3], key=lambda v: (v * count) % 3)
    return g(x), (lambda q: q * scale)(x), ordered, [q * scale for q in range(3)]


def behind_a_try(x, n):
    try:
        c = 6 // n
    except ZeroDivisionError:
        c = 1
    return (lambda q: q * c)(x)


def calls_itself_behind_a_loop(x, n):
    c = 0
    for k in range(n):
        c += k

    def g(m):
        return c if m < 1 else g(m - 1) + c

    return g(n), x


def perhaps_unbound(x, n):
    for k in range(n):
        scale = k + 1
    g = lambda q: q * scale  # noqa: E731
    try:
        return g(x)
    except NameError as error:
        return type(error).__name__, str(error)


X = [(weft.ones(2),), (-weft.ones(2),)]
N = [(weft.ones(2), 3), (-weft.ones(2), 0)]
SEEN = {
    in_a_comprehension: X, set_behind: X, set_in_a_branch: X, set_in_a_loop: N, made_in_a_loop: N,
    made_in_turns: X, through_another: X, later_defined: X, calls_itself: N,
    a_generator_at_once: X, a_generator_over: X, maps_at_once: X, behind_a_loop: N,
    behind_a_try: N, calls_itself_behind_a_loop: N, perhaps_unbound: N,
}  # fmt: skip
REFUSED = {
    calls_each_other: "b, inner functions that refer to each other",
    a_generator: "k, which is set again while an iterator reads it",
    a_generator_in_a_loop: "k, which is set again while an iterator reads it",
    maps: "j, which is set again while an iterator reads it",
    a_filter: "k, which is set again while an iterator reads it",
    through_a_function: "k, which is set again while an iterator reads it",
    accumulated: "k, which is set again while an iterator reads it",
    a_map_in_a_zip: "k, which is set again while an iterator reads it",
    a_generator_of_turns: "j, which is set again while an iterator reads it",
}
