"""Methods of texts, sets and numbers, format specifications: what programs are saved with them."""


def filled(s):
    return s.zfill(5), s.zfill(0), s.ljust(8), s.rjust(8, "é"), s.center(9, "*"), s.center(6)


def split(s):
    return s.split(), s.split(None, 1), s.split("=", 1), s.split(sep="b"), s.split(maxsplit=1)


def split_from_the_right(s):
    return s.rsplit(), s.rsplit(None, 1), s.rsplit("=", 1), s.rsplit("ab"), s.splitlines(True)


def parts(s):
    return s.partition("="), s.rpartition("="), s.splitlines(), s.removeprefix("a")[:3]


def ends(s):
    return s.removesuffix("c"), s.strip("a "), s.lstrip(), s.rstrip(None), s.startswith("b", 1)


def found(s):
    return s.find("b", 2), s.find("b", -3), s.find("", 99), s.find("", 3), s.rfind("b", 0, 4)


def counted(s):
    return s.count("b", 2), s.count(""), s.count("", 99), s.endswith(("c", "b"), 0, 5)


def replaced(s):
    return s.replace("", "-"), s.replace("", "-", 2), s.replace("b", "Z", 1), s.replace("b", "", 0)


def place(s):
    return s.index("b", 3), s.rindex("b")


def cases(s):
    return s.title(), s.capitalize(), s.swapcase(), s.casefold(), s.upper(), s.lower()


def kinds(s):
    return s.isalpha(), s.isalnum(), s.isdigit(), s.isspace(), s.isupper(), s.islower()


def more_kinds(s):
    return s.isdecimal(), s.isnumeric(), s.isascii(), s.isidentifier()


def spaces(s):
    return s.strip(), s.split()


def fields(s):
    return "{0[1]} {0} {1:>{2}} {n!r:*^9} {{}}".format(("p", s), s, 7, n=s)


def mixed_fields(s):
    return "{} {0}".format(s)  # noqa: F525


def lists(s):
    rows = list(s)
    return rows.index("b", 1), rows.index("b", -5, 99), ("a", s, "b").index(s, 1)


def sets(s):
    a, b = set(s), {"a", "b"}
    c, d, e = a.copy(), a.copy(), a.copy()
    c.intersection_update(b)
    d.difference_update(b, "c")
    e.symmetric_difference_update(b)
    both = sorted(c), sorted(d), sorted(e), sorted(a.symmetric_difference("ab"))
    return both, a.issubset(b), a.issuperset(b), b.issuperset(["a"]), a.isdisjoint(b)


def views(s):
    d = {c: k for k, c in enumerate(s)}
    return sorted(d.keys() & {"a", "b"}), sorted(d.keys() | {"z"}), sorted(d.items() - {("a", 0)})


def popped(s):
    one = {s}
    return one.pop(), one, one.pop()


def numbers(s):
    n, v = len(s), len(s) / 2
    return n.bit_length(), (-n).bit_count(), v.is_integer(), n.conjugate(), v.conjugate()


def formatted(spec, value):
    return f"{value:{spec}}", format(value, spec)
