"""Functions for the tests of packages, in their subset: names of weft are globals."""

import math
from typing import NamedTuple

from closing import State

import weft

relu, cat, matmul, tanh, zeros, ones, stack = (
    weft.relu,
    weft.cat,
    weft.matmul,
    weft.tanh,
    weft.zeros,
    weft.ones,
    weft.stack,
)
arange, softmax, max_of = weft.arange, weft.softmax, weft.max
tensor, float64, int64 = weft.tensor, weft.float64, weft.int64
quiet, loud = weft.no_grad(), weft.enable_grad()
sqrt, log, floor = math.sqrt, math.log, math.floor
W = tensor([[1.0, -2.0], [0.5, 3.0]])
WEIGHT = tensor([[0.25, -1.0], [2.0, 0.5]], requires_grad=True)


class Pair(NamedTuple):
    left: object
    right: object


STATE = State(count=0, seen=None)
SHARED = State(seen=[])


def numbers(a, b):
    return a + b, a - b, a * b, a / b, a // b, a % b, a**2, -a, +a, a < b, a == b, divmod(a, b)


def bits(a, b):
    return a & b, a | b, a ^ b, a << 3, a >> 1, ~a, True & False, True | 2


def mixed(a):
    return (
        a + 1.5,
        a * 2j,
        1 / a,
        2**-1,
        (-8) ** 0.5,
        round(2.5),
        round(3.14159, 2),
        abs(-a),
        int(7.9),
    )


def more_numbers():
    return (
        round(-2.5),
        round(2675, -2),
        -7 // 2,
        -7 % 3,
        7 % -3,
        7.5 // -2,
        -7.5 % 2,
        5 % -2.5,
        0.1 + 0.2,
        1e16,
        1e-5,
        1.0,
        123456789.125,
        float("inf"),
        float("1e3"),
        int(" -42 "),
        int("ff", 16),
        2**62,
        -(2**62) * 2,
        10**18,
        bool([]),
        bool(0.0),
        max(3, 1, 2),
        min([4, 2, 8]),
        sum([1, 2.5]),
        sum(range(5), 10),
        pow(2, 5),
    )


def texts(s):
    return (
        s + "b",
        s * 2,
        s[0],
        s[-1],
        s[1:],
        s[::-1],
        len(s),
        "é" in s,
        s[1:].count("l"),
        "aBc".upper(),
        s.split("l"),
        "-".join(["x", s]),
        s.replace("l", "L"),
        s.startswith("h"),
        s.strip("h"),
        f"{s!r:>10}|{s:<8}|{s:^9}|",
        "%s and %d, %5.2f" % (s, 3, 2.5),
        "{} {:.1f} {n:>4}".format(s, 2.25, n=3),  # noqa: UP032
        s < "i",
        s == "hello",
    )


def formats(x, n):
    return (
        f"{x}",
        f"{x:.3f}",
        f"{x:10.2e}|",
        f"{x:g}",
        f"{x:%}",
        f"{n:05d}",
        f"{n:+}",
        f"{n:,}",
        f"{n:x} {n:#b} {n:o}",
        f"{n:<6}|{n:^7}|{n:>6}",
        f"{x:08.3f}",
        f"{-x:*^12.1f}",
        f"{n:.2f}",
        f"{True} {None} {True:d}",
        f"{x:.4}",
        f"{1e20:.3}",
        f"{n!r} {'a'!s} {'é'!a}",
        f"{100.0:.3}",
        f"{99.5:.4} {0.00012:.3} {0.00001:.2} {5.0:.1}",
        f"{x:n}",
        f"{1234567.891:,.2f}",
        f"{n:_}",
    )


def shown(x):
    return (
        str([1, 2.0, "a", None, True, (1,), {}, {"k": [1]}, x]),
        repr("it's"),
        str(1e100),
        str((1, 2)),
        repr({1, 2}),
    )


def lists(n):
    a = [3, 1, 2]
    a.append(n)
    a.extend((7, 8))
    a.insert(1, 9)
    b = a.pop()
    c = a.pop(0)
    a.reverse()
    d = sorted(a, reverse=True)
    a.sort()
    a[0] = 100
    a[1:3] = [5, 5, 5]
    del a[-1]
    e = a[::2]
    a += [1]
    f = [*a, *e, 0]
    return (
        a,
        b,
        c,
        d,
        e,
        f,
        a.index(5),
        a.count(5),
        100 in a,
        [1, 2] * 2,
        a == [100, 5, 5, 5, 1],
        [1, 2] < [1, 3],
    )


def dicts(key):
    d = {"a": 1, key: 2, 3: "c"}
    d["z"] = 26
    e = dict(d, q=5)
    out = [
        d.get("a"),
        d.get("nope"),
        d.get("nope", 4),
        "a" in d,
        list(d),
        list(d.values()),
        list(d.items()),
    ]
    out.append(d.pop("a"))
    d.setdefault("l", []).append(1)
    d.update({"m": 1})
    del d[3]
    for k, v in e.items():
        out.append((k, v))
    return d, e, out, {**d, "n": 0}, len(d), d == dict(d), {k: 1 for k in "xyz"}, {1: 2} | {3: 4}


def tuples(t):
    a, (b, c), *rest = t
    first, *_, last = [1, 2, 3, 4]
    return a, b, c, rest, first, last, t[0], t[-1:], len(t), (1, 2) + (3,), (0,) * 3


def loops(n):
    out = []
    for i, (a, b) in enumerate(zip(range(n), "abcdef"), 1):
        if i == 2:
            continue
        if i > 4:
            break
        out.append((i, a, b))
    else:
        out.append("else")
    while n > 0:
        n -= 2
        if n == 3:
            break
    else:
        out.append("while else")
    for x in reversed([1, 2, 3]):
        out.append(x)
    for k in {"p": 1, "q": 2}:
        out.append(k)
    return out, [j * 2 for j in range(5) if j % 2], any([0, 1]), all([1, 0]), n


def zips(a, b, strict):
    return list(zip(a, b, strict=strict)), list(zip(a, a, b, strict=strict)), list(zip())


def sets(x):
    s = {x, 2, 3}
    s.add(x)
    s.discard(99)
    t = {2, 5}
    return (
        sorted(s | t),
        s & t,
        s - t,
        sorted(s ^ t),
        x in s,
        len(s),
        s == {3, 2, x},
        t <= {1, 2, 5},
        sorted(set("aba")),
    )


def bytes_of(s):
    b = s.encode()
    return b, b[0], b[1:3], len(b), list(b), repr(b), tensor(list(b))


class Node:
    def __init__(self, value, child=None):
        self.value, self.child = value, child


def objects(node):
    node.seen = True
    total = 0
    while node is not None:
        total += node.value
        node.value = 0
        last, node = node, node.child
    return total, last


def recursive(n):
    return n if n < 2 else recursive(n - 1) + recursive(n - 2)


def tree(t, w):
    if isinstance(t, tuple):
        return tanh(matmul(w, tree(t[0], w) + tree(t[1], w)))
    return t


def arguments(a, b=2, *rest, c, d=4, **words):
    return a, b, rest, c, d, words


def calls():
    return (
        arguments(1, c=3),
        arguments(1, 2, 3, 4, c=5, e=6),
        arguments(*[1, 2], **{"c": 3}),
        Pair(1, 2),
        Pair(right=1, left=2),
    )


def named(p):
    left, right = p
    return p.left, p[1], left + right, isinstance(p, Pair), p == Pair(left, right), Pair(p, 2)


def tries(k):
    log = []
    try:
        try:
            if k == 0:
                [][0]
            elif k == 1:
                {}["x"]  # noqa: B018
            elif k == 2:
                1 // 0  # noqa: B018
            elif k == 3:
                raise ValueError("bad", k)
            elif k == 4:
                return log
            log.append("fine")
        except (IndexError, KeyError) as e:
            log.append((type(e).__name__, str(e), e.args))
        except ZeroDivisionError:
            log.append("zero")
            raise
        else:
            log.append("else")
        finally:
            log.append("finally")
    except ArithmeticError as e:
        log.append(str(e))
    return log


def tensors(x):
    y = relu(x * 2 - 1) + 0.5
    y = y.sum(dim=1, keepdim=True).expand(2, 2)
    z = x.view(-1)[1:3] + x[0, None, 1] + x[..., 0]
    v, i = max_of(x, dim=1)
    return (
        y,
        z,
        v,
        i,
        x.T,
        x.shape,
        x.size(0),
        x.dim(),
        x.dtype,
        x.mean().item(),
        x.tolist(),
        x.reshape(4),
        x.reshape(2, 1, 2),
    )


def operators(x, n):
    return (
        x + n,
        n - x,
        n / x,
        x**2,
        2**x,
        x @ x,
        -x,
        x > 0,
        x == n,
        x // 2,
        x % 3,
        (x > 0) & (x < 2),
        ~(x > 0),
        x * True,
        cat([x, x], 1),
        stack((x, x)),
        softmax(x, -1),
        abs(x),
        x.clamp(min=0),
        1.5 * x,
        x - 1j,
    )


def makes(n):
    return (
        zeros(2, n),
        ones((n, 1), dtype=float64),
        arange(n),
        arange(1, n, 0.5),
        tensor([[1, 2], [3, n]]),
        tensor(2.5),
        zeros(n).fill_(3),
        tensor([1.0, 2.0], dtype=int64),
        tensor([]),
        zeros(n, dtype=float),
        zeros(n, dtype=int),
        zeros(n, dtype=bool),
    )


def nested(n):
    inner = []
    for _ in range(n):
        inner = {n: ([inner],)}
    return len(inner)


def compares_and_shows(x):
    y, z = (x * 2).sum(), (x + x).sum()
    return [[y]] == [[z]], f"{[(y,)]}"


def shared_list(x):
    seen = SHARED.seen
    seen.append((x * 2).sum())
    n = len(seen)
    return n, seen == [y + 0 for y in seen], f"{seen}"


def writes(x):
    x = x.clone()
    x[0] = 5.0
    x[:, 1] += 1
    x.mul_(2)
    x += 1
    x[x > 8] = 0.0
    return x, x[tensor([1, 0])], x[[0, 0], [1, 1]]


def learned(x):
    with quiet:
        y = x @ WEIGHT
    return ((x @ WEIGHT) * y).sum(), y.requires_grad


def rows(x):
    total = 0.0
    for row in x:
        for v in row:
            if v > 0:
                total = total + v
    return total, len(x), [float(v) for v in x[0]]


def counted(x):
    STATE.count = STATE.count + 1
    STATE.seen = x
    return STATE.count, STATE.seen + 1


def math_of(x):
    return sqrt(x), log(x), floor(x), floor(-x), log(x, 2)


def printed(x):
    print("x", x, 1.5, sep="-", end="!\n")
    print()
    print([x, None])


def asserted(x):
    assert x > 0, f"not {x}"
    return x


# ---- what fails


def fails_strict(a, b):
    return list(zip(a, b, strict=True))


def fails_index(x):
    z = [1, 2]
    return z[x]


def fails_inside(x):
    y = x + 1
    return fails_index(y)


def fails_key(k):
    return {"a": 1}[k]


def fails_type(x):
    return x + "a"


def fails_compare(x):
    return x < "a"


def fails_call(x):
    return x(1)


def fails_attr(x):
    return x.nothing


def fails_method(x):
    y = 1
    return x.nothing(y)


def fails_unpack(x):
    a, b = x
    return a


def fails_unbound(x):
    if x > 100:
        y = 1
    return y


def fails_shape(x):
    return x @ tanh(x.view(1, -1))


def fails_argument(x):
    return relu(x, 2, 3)


def fails_truth(x):
    if x:
        return 1
    return 2


def fails_raise(x):
    raise ValueError("no", x)


def fails_from(x):
    try:
        return 1 // x
    except ZeroDivisionError as e:
        raise RuntimeError("outer") from e


def fails_deep(x):
    return fails_deep(x + 1)


def fails_missing():
    return arguments(1)


def fails_many():
    return recursive(1, 2)


def fails_overflow(x):
    return int(sqrt(float("inf")) if x else 0)


def fails_iter(x):
    for _ in x:
        pass


def fails_comprehension(x):
    return [1 // v for v in x]
