"""Programs that go through iterators twice, and that ask values for what they may not have."""

from typing import NamedTuple


class Pair(NamedTuple):
    a: int
    b: float


def zip_of_known(x):
    z = zip([1, 2], [3, 4])
    return list(z), list(z)


def zip_of_run(x):
    y = x.tolist()
    z = zip(y, y)
    return [p for p in z], [p for p in z]


def zip_under_two_names(x):
    a = b = zip([1, 2], [3, 4])
    return list(a), list(b)


def zip_in_a_list(x):
    rows = [zip([1, 2], [3, 4])]
    return list(rows[0]), list(rows[0])


def zip_given_away(x):
    def taken(rows):
        return list(rows)

    z = zip([1, 2], [3, 4])
    return taken(z), taken(z), taken(zip([1], [2]))


def zip_that_next_asks(x):
    z = zip([1, 2], [3, 4])
    return next(z), next(z), next(z, None)


def zip_unpacked(x):
    z = zip([1, 2], [3, 4])
    a, b = z
    return a, b, list(z)


def enumerate_of_known(x):
    z = enumerate([5, 6, 7], 1)
    return (1, 5) in z, list(z)


def enumerate_left(x):
    z = enumerate([1, 2, 3])
    for i, _ in z:
        if x.sum() > i:
            break
    return list(z)


def map_of_known(x):
    z = map(str, [1, 2])
    return ",".join(z), ",".join(z)


def map_of_run(x):
    z = map(lambda v: v * 2, x.tolist())
    return next(z), sum(z), sum(z)


def reversed_known(x):
    z = reversed([1, 2])
    return list(z), list(z)


def reversed_tensor(x):
    z = reversed(x)
    return z, [v for v in z], [v for v in z]


def filtered(x):
    z, known = filter(lambda v: v > 1, x.tolist()), filter(None, [0, 1, 2])
    return list(z), list(z), list(known), list(known)


def made_by_a_function(x):
    def rows():
        return enumerate("ab")

    z = rows()
    return dict(z), dict(z)


def no_length(x):
    z = zip([1], [2])
    try:
        return len(z)
    except TypeError:
        return "none"


def changed_set(x):
    s = set([1.0])
    s &= set(x.tolist())
    s |= {4.0}
    s ^= {1.0}
    return sorted(s)


def changed_list(x):
    rows = sorted([3, 1])
    rows += [x.sum()]
    rows.append(5)
    words = "a b".split()
    words.append("c")
    return rows, words


def default_of_getattr(x):
    number, text = x.tolist()[0], str(int(x.sum()))
    values = [getattr(v, "ndim", -1) for v in [x, number, text, [1], None]]
    pair = Pair(int(x.sum()), 2.0)
    return values, getattr(number, "real", 3), getattr(text, "none", "d"), getattr(pair, "c", 1)


def has(x):
    out = []
    for v in [x, 1, "a", [1], (1,), {"a": 1}, None, 1.5]:
        out.append((hasattr(v, "items"), hasattr(v, "upper"), hasattr(v, "casefold")))
        out.append((hasattr(v, "shape"), hasattr(v, "stft"), hasattr(v, "unique")))
        out.append((hasattr(v, "append"), hasattr(v, "__len__"), hasattr(v, "is_integer")))
    return out, hasattr(x, "none"), hasattr(Pair(1, 2.0), "b")


def as_dict(x):
    pair = Pair(int(x.sum()), 2.0)
    return pair._asdict(), list(pair._asdict().items())


def length_of_none(x):
    try:
        return len(5)  # type: ignore[arg-type]
    except TypeError as error:
        return str(error)
