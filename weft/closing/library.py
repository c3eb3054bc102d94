"""Functions of Python's library as programs have them: in what programs can say, and closed like
the user's own.

Each gives a list where Python's gives an iterator: all of it is computed at once, as generator
expressions are.
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import string
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import weft


def chain(*iterables: Iterable[Any]) -> list[Any]:
    """`itertools.chain`."""
    return from_iterable(iterables)


def from_iterable(iterables: Iterable[Iterable[Any]]) -> list[Any]:
    """`itertools.chain.from_iterable`."""
    return [item for iterable in iterables for item in iterable]


def product(*iterables: Iterable[Any], repeat: int = 1) -> list[Any]:
    """`itertools.product`."""
    rows: list[Any] = [()]
    for _ in range(repeat):
        for iterable in iterables:
            rows = [(*row, item) for row in rows for item in iterable]
    return rows


def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> list[Any]:
    """`itertools.zip_longest`."""
    rows = [list(iterable) for iterable in iterables]
    most = max([len(row) for row in rows], default=0)
    return [tuple([row[k] if k < len(row) else fillvalue for row in rows]) for k in range(most)]


def accumulate(
    iterable: Iterable[Any], func: Callable[..., Any] | None = None, *, initial: Any = None
) -> list[Any]:
    """`itertools.accumulate`."""
    total, out = initial, []
    if initial is not None:
        out.append(total)
    for item in iterable:
        if not out:
            total = item
        else:
            total = total + item if func is None else func(total, item)
        out.append(total)
    return out


def combinations(iterable: Iterable[Any], r: int) -> list[Any]:
    """`itertools.combinations`."""
    pool = list(iterable)
    rows: list[Any] = [((), 0)]
    for _ in range(r):
        rows = [((*row, pool[k]), k + 1) for row, start in rows for k in range(start, len(pool))]
    return [row for row, _ in rows]


def combinations_with_replacement(iterable: Iterable[Any], r: int) -> list[Any]:
    """`itertools.combinations_with_replacement`."""
    pool = list(iterable)
    rows: list[Any] = [((), 0)]
    for _ in range(r):
        rows = [((*row, pool[k]), k) for row, start in rows for k in range(start, len(pool))]
    return [row for row, _ in rows]


def permutations(iterable: Iterable[Any], r: int | None = None) -> list[Any]:
    """`itertools.permutations`."""
    pool = list(iterable)
    rows: list[Any] = [()]
    for _ in range(len(pool) if r is None else r):
        rows = [(*row, k) for row in rows for k in range(len(pool)) if k not in row]
    return [tuple([pool[k] for k in row]) for row in rows]


def islice(iterable: Iterable[Any], *bounds: int | None) -> list[Any]:
    """`itertools.islice`."""
    return list(iterable)[slice(*bounds)]


def repeat(object: Any, times: int) -> list[Any]:
    """`itertools.repeat`, a number of times."""
    return [object] * max(times, 0)


def pairwise(iterable: Iterable[Any]) -> list[Any]:
    """`itertools.pairwise`."""
    pool = list(iterable)
    return [(pool[k], pool[k + 1]) for k in range(len(pool) - 1)]


def starmap(function: Callable[..., Any], iterable: Iterable[Any]) -> list[Any]:
    """`itertools.starmap`."""
    return [function(*row) for row in iterable]


def filtered(function: Callable[..., Any] | None, iterable: Iterable[Any]) -> list[Any]:
    """`filter`."""
    return [item for item in iterable if (item if function is None else function(item))]


def filterfalse(function: Callable[..., Any] | None, iterable: Iterable[Any]) -> list[Any]:
    """`itertools.filterfalse`."""
    return [item for item in iterable if not (item if function is None else function(item))]


def takewhile(predicate: Callable[..., Any], iterable: Iterable[Any]) -> list[Any]:
    """`itertools.takewhile`."""
    out = []
    for item in iterable:
        if not predicate(item):
            break
        out.append(item)
    return out


def dropwhile(predicate: Callable[..., Any], iterable: Iterable[Any]) -> list[Any]:
    """`itertools.dropwhile`."""
    out: list[Any] = []
    for item in iterable:
        if out or not predicate(item):
            out.append(item)
    return out


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> list[Any]:
    """`itertools.compress`."""
    return [item for item, holds in zip(data, selectors) if holds]


def reduce(function: Callable[..., Any], iterable: Iterable[Any], *initial: Any) -> Any:
    """`functools.reduce`."""
    items = [*initial, *iterable]
    if not items:
        raise TypeError("reduce() of empty iterable with no initial value")
    total = items[0]
    for item in items[1:]:
        total = function(total, item)
    return total


def largest(values: Iterable[Any], key: Callable[..., Any], default: Any) -> Any:
    """`max` with a default value."""
    found = list(values)
    return max(found, key=key) if found else default


def least(values: Iterable[Any], key: Callable[..., Any], default: Any) -> Any:
    """`min` with a default value."""
    found = list(values)
    return min(found, key=key) if found else default


def total(values: Iterable[Any], start: Any) -> Any:
    """`sum`."""
    for value in values:
        start = start + value
    return start


def is_in(value: Any, items: Iterable[Any]) -> bool:
    """`value in items`, by `==` of objects that say themselves what it is."""
    for item in items:
        if item is value or item == value:
            return True
    return False


def equal(one: Any, other: Any) -> bool:
    """`==` of a list, tuple or dict with another value, likewise."""
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        for key in one:
            if key not in other or not is_in(one[key], (other[key],)):
                return False
        return True
    if not isinstance(other, (list, tuple)) or isinstance(one, list) != isinstance(other, list):
        return False
    if len(one) != len(other):
        return False
    for k in range(len(one)):
        if not is_in(other[k], (one[k],)):
            return False
    return True


def index_of(rows: Any, value: Any, start: int = 0, stop: int | None = None) -> int:
    """`rows.index(value)`, likewise."""
    count = len(rows)
    end = count if stop is None else stop
    first = max(start + count, 0) if start < 0 else start
    for k in range(first, min(end + count if end < 0 else end, count)):
        if rows[k] is value or rows[k] == value:
            return k
    if isinstance(rows, list):
        raise ValueError(f"{value!r} is not in list")
    raise ValueError("tuple.index(x): x not in tuple")


def count_of(rows: Any, value: Any) -> int:
    """`rows.count(value)`, likewise."""
    return sum([1 for item in rows if item is value or item == value])


def remove_from(rows: Any, value: Any) -> None:
    """`rows.remove(value)`, likewise."""
    if not isinstance(rows, list):
        raise AttributeError("'tuple' object has no attribute 'remove'")
    for k in range(len(rows)):
        if rows[k] is value or rows[k] == value:
            del rows[k]
            return
    raise ValueError("list.remove(x): x not in list")


def in_order(iterable: Iterable[Any], *, key: Any = None, reverse: bool = False) -> list[Any]:
    """`sorted`, by `<` of objects that say themselves what it is."""
    rows = [(value if key is None else key(value), value) for value in iterable]
    if reverse:
        rows = rows[::-1]
    out: list[Any] = []
    for row in rows:
        at = len(out)
        while at > 0 and row[0] < out[at - 1][0]:
            at = at - 1
        out.insert(at, row)
    found = [value for _, value in out]
    return found[::-1] if reverse else found


def least_of(iterable: Iterable[Any], *, key: Any = None) -> Any:
    """`min`, likewise."""
    values = list(iterable)
    if not values:
        raise ValueError("min() arg is an empty sequence")
    best = values[0]
    for value in values[1:]:
        if value < best if key is None else key(value) < key(best):
            best = value
    return best


def largest_of(iterable: Iterable[Any], *, key: Any = None) -> Any:
    """`max`, likewise."""
    values = list(iterable)
    if not values:
        raise ValueError("max() arg is an empty sequence")
    best = values[0]
    for value in values[1:]:
        if value > best if key is None else key(value) > key(best):
            best = value
    return best


def text_of(value: Any) -> str:
    """`repr`, as a function of its own: objects hold objects of their class."""
    return repr(value)


def repr_of_items(value: Any) -> str:
    """What a list, tuple, dict or set shows, of objects that say themselves what they are."""
    if isinstance(value, dict):
        return "{" + ", ".join([f"{k!r}: {v!r}" for k, v in value.items()]) + "}"
    shown = [repr(item) for item in value]
    if isinstance(value, list):
        return "[" + ", ".join(shown) + "]"
    if isinstance(value, set):
        return "{" + ", ".join(shown) + "}" if shown else "set()"
    if len(shown) == 1:
        return "(" + shown[0] + ",)"
    return "(" + ", ".join(shown) + ")"


def in_digits(x: Any, form: str) -> str:
    """`hex`, `bin` and `oct`, by the specification that gives the same."""
    return format(operator.index(x), form)


def hexadecimal(x: Any) -> str:
    """`hex`."""
    return in_digits(x, "#x")


def binary(x: Any) -> str:
    """`bin`."""
    return in_digits(x, "#b")


def octal(x: Any) -> str:
    """`oct`."""
    return in_digits(x, "#o")


class Deque:
    """`collections.deque`, as a list of its items."""

    def __init__(self, iterable: Iterable[Any] = (), maxlen: int | None = None) -> None:
        self.items: list[Any] = []
        self.maxlen = maxlen
        self.extend(iterable)

    def append(self, x: Any) -> None:
        self.items.append(x)
        if self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[0]

    def appendleft(self, x: Any) -> None:
        self.items.insert(0, x)
        if self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[-1]

    def extend(self, iterable: Iterable[Any]) -> None:
        for x in iterable:
            self.append(x)

    def extendleft(self, iterable: Iterable[Any]) -> None:
        for x in iterable:
            self.appendleft(x)

    def pop(self) -> Any:
        if not self.items:
            raise IndexError("pop from an empty deque")
        return self.items.pop()

    def popleft(self) -> Any:
        if not self.items:
            raise IndexError("pop from an empty deque")
        return self.items.pop(0)

    def clear(self) -> None:
        self.items.clear()

    def copy(self) -> Any:
        return Deque(self.items, self.maxlen)

    def count(self, x: Any) -> int:
        return self.items.count(x)

    def index(self, x: Any) -> int:
        return self.items.index(x)

    def insert(self, i: int, x: Any) -> None:
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            raise IndexError("deque already at its maximum size")
        self.items.insert(i, x)

    def remove(self, value: Any) -> None:
        self.items.remove(value)

    def reverse(self) -> None:
        self.items.reverse()

    def rotate(self, n: int = 1) -> None:
        if self.items:
            k = n % len(self.items)
            self.items = self.items[len(self.items) - k :] + self.items[: len(self.items) - k]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Any:
        return iter(self.items)

    def __getitem__(self, key: int) -> Any:
        return self.items[key]

    def __setitem__(self, key: int, value: Any) -> None:
        self.items[key] = value

    def __delitem__(self, key: int) -> None:
        del self.items[key]

    def __contains__(self, value: Any) -> bool:
        return value in self.items

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Deque) and self.items == other.items

    def __repr__(self) -> str:
        if self.maxlen is None:
            return f"deque({self.items!r})"
        return f"deque({self.items!r}, maxlen={self.maxlen})"


def deque(iterable: Iterable[Any] = (), maxlen: int | None = None) -> Any:
    """`collections.deque`."""
    return Deque(iterable, maxlen)


class Finfo(NamedTuple):
    """What `weft.finfo` has."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    tiny: float
    resolution: float
    dtype: str


class Iinfo(NamedTuple):
    """What `weft.iinfo` has."""

    bits: int
    max: int
    min: int
    dtype: str


def _limits(
    of: Callable[[Any], Any], fields: tuple[str, ...], names: str
) -> tuple[tuple[Any, tuple[Any, ...]], ...]:
    """Dtypes and their limits."""
    kinds = [getattr(weft, name) for name in names.split()]
    return tuple((kind, tuple(getattr(of(kind), field) for field in fields)) for kind in kinds)


_FLOATS = _limits(
    weft.finfo, Finfo._fields, "float32 float16 bfloat16 float64 complex64 complex128"
)
# those of uint64 are more than programs can count to
_INTEGERS = _limits(weft.iinfo, Iinfo._fields, "int64 int32 int16 int8 uint8 uint16 uint32")


def finfo(type: Any) -> Any:
    """`weft.finfo` of a dtype that a run knows."""
    for kind, limits in _FLOATS:
        if type == kind:
            return Finfo(*limits)
    raise TypeError(f"[finfo] expected a floating dtype, got {type}")


def iinfo(type: Any) -> Any:
    """`weft.iinfo` of a dtype that a run knows."""
    for kind, limits in _INTEGERS:
        if type == kind:
            return Iinfo(*limits)
    if type == weft.uint64:
        raise OverflowError("[iinfo] expected integers of 64 bits, got those of torch.uint64")
    raise TypeError(f"[iinfo] expected an integer dtype, got {type}")


def tensor(*args: Any) -> Any:
    """`weft.Tensor` of values, of sizes, or of nothing, in the dtype that is the default."""
    dtype = weft.get_default_dtype()
    if len(args) == 1 and isinstance(args[0], weft.Tensor):
        return args[0].detach()
    if len(args) == 1 and isinstance(args[0], (list, tuple)) and not isinstance(args[0], weft.Size):
        return weft.tensor(args[0], dtype=dtype)
    return weft.empty(*args, dtype=dtype) if args else weft.empty(0, dtype=dtype)


class Rest(NamedTuple):
    """An equation of einsum in which one letter stands for `...`.

    Attributes:
        equation: the equation with the letter.
        places: of each operand how many subscripts are before and behind it; None: it has none.
        at: its place in the result; None: it is summed.
    """

    equation: str
    places: tuple[tuple[int, int] | None, ...]
    at: int | None


@functools.cache
def rest_of(equation: str) -> Rest:
    """An equation with `...`."""
    text = equation.replace(" ", "")
    letter = next(c for c in string.ascii_letters if c not in text)
    inputs, arrow, result = text.partition("->")
    if not arrow:
        once = sorted(c for c in set(inputs) - {",", "."} if inputs.count(c) == 1)
        result = "..." + "".join(once)
    places = tuple(
        (len(before), len(behind)) if dots else None
        for before, dots, behind in (term.partition("...") for term in inputs.split(","))
    )
    flat = f"{inputs}->{result}".replace("...", letter)
    return Rest(flat, places, result.index("...") if "..." in result else None)


def _split(x: Any, place: tuple[int, int]) -> Any:
    """The sizes before `...`, of it, and behind."""
    end = x.dim() - place[1]
    if end < place[0]:
        raise RuntimeError(
            f"[einsum] expected an operand of at least {place[0] + place[1]} dimensions, got one "
            f"of {x.dim()}"
        )
    return tuple(x.shape[: place[0]]), tuple(x.shape[place[0] : end]), tuple(x.shape[end:])


def with_one_for_rest(x: Any, place: tuple[int, int] | None, shape: Any) -> Any:
    """An operand with one dimension for `...`, which has these sizes."""
    if place is None:
        return x
    before, own, behind = _split(x, place)
    x = x.reshape((*before, *[1] * (len(shape) - len(own)), *own, *behind))
    if len(shape) == 0:
        return x.unsqueeze(len(before))
    return x.expand((*before, *shape, *behind)).flatten(place[0], place[0] + len(shape) - 1)


def sizes_of_rest(places: tuple[tuple[int, int] | None, ...], *operands: Any) -> Any:
    """What the dims for which `...` stands in operands broadcast to."""
    shape: Any = ()
    for x, place in zip(operands, places):
        if place is not None:
            shape = tuple(weft.broadcast_shapes(shape, _split(x, place)[1]))
    return shape


def with_rest(out: Any, at: int, shape: Any) -> Any:
    """A result with the dims for which one stands."""
    return out.reshape((*out.shape[:at], *shape, *out.shape[at + 1 :]))


def channels_last(t: Any, dims: int) -> Any:
    """`memory_format=weft.channels_last`, of `dims` dims."""
    if t.dim() != dims:
        raise RuntimeError(
            f"[memory_format] expected a tensor of rank {dims} (required rank {dims} tensor to use "
            f"channels_last format), got rank {t.dim()}"
        )
    if dims == 4:
        return t.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    return t.permute(0, 2, 3, 4, 1).contiguous().permute(0, 4, 1, 2, 3)


#: What stands for `max` and `min` with a key and a default value.
EXTREMES: dict[str, Callable[..., Any]] = {"max": largest, "min": least}

#: What stands for methods of lists and tuples that go by `==`.
BY_EQUALITY: dict[str, Callable[..., Any]] = {
    "index": index_of, "count": count_of, "remove": remove_from,
}  # fmt: skip

#: What stands for those that compare, where objects say themselves what `<` is.
IN_ORDER: dict[str, Callable[..., Any]] = {
    "sorted": in_order, "max": largest_of, "min": least_of,
}  # fmt: skip

#: What stands for a function of Python's.
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    itertools.chain: chain, itertools.chain.from_iterable: from_iterable,
    itertools.product: product, itertools.zip_longest: zip_longest,
    itertools.accumulate: accumulate, itertools.combinations: combinations,
    itertools.combinations_with_replacement: combinations_with_replacement,
    itertools.permutations: permutations, itertools.islice: islice, itertools.repeat: repeat,
    itertools.pairwise: pairwise, itertools.starmap: starmap, filter: filtered,
    itertools.filterfalse: filterfalse, itertools.takewhile: takewhile,
    itertools.dropwhile: dropwhile, itertools.compress: compress, functools.reduce: reduce,
    weft.finfo: finfo, weft.iinfo: iinfo, collections.deque: deque, weft.Tensor: tensor,
    hex: hexadecimal, bin: binary, oct: octal,
}  # fmt: skip


def gives_iterator(function: Any) -> bool:
    """Whether Python's gives an iterator, where what stands for it gives a list."""
    return (
        getattr(function, "__module__", "") == "itertools"
        or function is filter
        or (function == itertools.chain.from_iterable)
    )


#: The classes that stand for those of Python's.
CLASSES: dict[Any, type] = {collections.deque: Deque}
#: Those of them that only arrange the items of what they are given.
ARRANGES = {
    itertools.chain, itertools.chain.from_iterable, itertools.product, itertools.zip_longest,
    itertools.combinations, itertools.combinations_with_replacement, itertools.permutations,
    itertools.islice, itertools.pairwise,
}  # fmt: skip
