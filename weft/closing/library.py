"""Functions of Python's library as programs have them: in what programs can say, and closed like
the user's own.

Each gives a list where Python's gives an iterator: all of it is computed at once, as generator
expressions are.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import math
import operator
import string
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import weft
from weft.closing import ordering
from weft.closing.deques import Deque, deque


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


def of_kind(x: Any, kind: Any, name: str) -> Any:
    """What a method that is looked up in its class, as `str.lower`, is called with."""
    if isinstance(x, kind):
        return x
    raise TypeError(
        f"descriptor {name!r} for {kind.__name__!r} objects doesn't apply to a "
        f"{type(x).__name__!r} object"
    )


def fromkeys(iterable: Iterable[Any], value: Any = None) -> dict[Any, Any]:
    """`dict.fromkeys`."""
    return {key: value for key in iterable}


def dist(p: Iterable[Any], q: Iterable[Any]) -> float:
    """`math.dist`."""
    first, second = list(p), list(q)
    if len(first) != len(second):
        raise ValueError("both points must have the same number of dimensions")
    return math.hypot(*[first[k] - second[k] for k in range(len(first))])


def truncated(x: Any) -> int:
    """`math.trunc`."""
    if isinstance(x, (int, float)):
        return int(x)
    raise TypeError(f"type {type(x).__name__} doesn't define __trunc__ method")


def copied(x: Any) -> Any:
    """`copy.copy` of what is no object of a class."""
    if isinstance(x, list):
        return list(x)
    if isinstance(x, dict):
        return dict(x)
    if isinstance(x, set):
        return set(x)
    return deeply(x, []) if isinstance(x, weft.Tensor) else not_copied(x, "copy")


def deeply_copied(x: Any) -> Any:
    """`copy.deepcopy`, likewise: what is one list stays one."""
    return deeply(x, [])


def deeply(x: Any, made: list[Any]) -> Any:
    """A copy; `made` has those of the lists and dicts around it."""
    for old, new in made:
        if old is x:
            return new
    out: Any
    if isinstance(x, list):
        out = []
        made.append((x, out))
        for item in x:
            out.append(deeply(item, made))
        return out
    if isinstance(x, dict):
        out = {}
        made.append((x, out))
        for key, value in x.items():
            out[key] = deeply(value, made)
        return out
    if isinstance(x, set):
        return set(x)
    if type(x) is tuple:
        return tuple([deeply(item, made) for item in x])
    if isinstance(x, weft.Tensor):
        out = x.detach().clone()
        made.append((x, out))
        return out.requires_grad_() if x.requires_grad else out
    return not_copied(x, "deepcopy")


def not_copied(x: Any, name: str) -> Any:
    """What cannot change, as it is."""
    if x is None or isinstance(x, (int, float, complex, str, tuple, frozenset, range, weft.dtype)):
        return x
    raise TypeError(
        f"[{name}] expected lists, dicts, sets, tuples, tensors or numbers in a saved program, got "
        f"{type(x).__name__}. Hint: write a method that makes another one"
    )


_NO_ITERATORS = int, float, str, list, tuple, dict, set, frozenset, range, weft.Tensor


def items_of(iterator: Any, most: int | None) -> list[Any]:
    """What an iterator of the user's gives, `most` at most."""
    out: list[Any] = []
    try:
        while most is None or len(out) < most:
            out.append(next(iterator))
    except StopIteration:
        pass
    return out


def expect_iterator(made: Any) -> Any:
    """What an `__iter__` of the user's gives; a TypeError where that is no iterator."""
    if made is None or isinstance(made, _NO_ITERATORS):
        raise TypeError(f"iter() returned non-iterator of type {type(made).__name__!r}")
    return made


def next_or(iterator: Any, default: Any) -> Any:
    """`next` with a default value."""
    try:
        return next(iterator)
    except StopIteration:
        return default


def zipped(*iterables: Iterable[Any]) -> list[Any]:
    """`zip` of iterators of the user's, of which one may have no end."""
    iterators = [iter(one) for one in iterables]
    out = []
    try:
        while iterators:
            out.append(tuple([next(one) for one in iterators]))
    except StopIteration:
        pass
    return out


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
    if isinstance(value, frozenset):
        return "frozenset({" + ", ".join(shown) + "})" if shown else "frozenset()"
    if isinstance(value, weft.Size):
        return "torch.Size([" + ", ".join(shown) + "])"
    if len(shown) == 1:
        return "(" + shown[0] + ",)"
    return "(" + ", ".join(shown) + ")"


def from_behind(rows: Any) -> list[Any]:
    """`reversed` of an object that has a length and items."""
    return [rows[k] for k in range(len(rows) - 1, -1, -1)]


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
    hex: hexadecimal, bin: binary, oct: octal, math.trunc: truncated,
    math.dist: dist, dict.fromkeys: fromkeys,
    copy.copy: copied, copy.deepcopy: deeply_copied, **ordering.FUNCTIONS,
}  # fmt: skip

_FIELDS = "make the dict or tuple of its fields"
#: What to write in the place of classes and functions that no program has.
HINTS: dict[Any, str] = {
    collections.deque: "keep a list in the Module, and make the deque in the function",
    collections.defaultdict: "use a dict and setdefault()",
    collections.Counter: "count in a dict: counts[k] = counts.get(k, 0) + 1",
    collections.ChainMap: "join the dicts: {**a, **b}",
    itertools.groupby: "append the items to lists in a dict",
    itertools.count: "count in a loop, or use range()",
    itertools.cycle: "take items[k % len(items)]",
    dataclasses.asdict: _FIELDS, dataclasses.astuple: _FIELDS,
    hash: "use the value itself as a key", id: "compare with is", bytes: "use a list of ints",
    bytearray: "use a list of ints",
}  # fmt: skip
#: The same of methods.
HINTS_OF_METHODS: dict[str, str] = {
    "move_to_end": "pop the key and set it again", "wait": "weft.jit.wait(future)",
    "most_common": "sort the items of the dict by their counts",
}  # fmt: skip
#: Where no class is known that has a method.
ANNOTATE = "annotate the parameter that an object comes in by with its class: def f(x: Point)"
#: The same of attributes.
HINTS_OF_ATTRIBUTES: dict[str, str] = {
    "__mro__": "ask isinstance()", "__bases__": "ask isinstance()",
    "__context__": "raise it from the other: __cause__", "__dict__": "name the attributes",
    "__traceback__": "leave it to the caller", "_fields": ANNOTATE,
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
