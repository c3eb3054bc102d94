"""What asks objects that say themselves what they are equal to, less than, true or added to, in
what programs can say: `==`, `<`, what sorts, searches and adds by them, heaps.

`library` has the functions of Python's library that go by none.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Iterable
from typing import Any


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
    # a list of them is there before the key is asked, as it is in Python
    rows = [(value if key is None else key(value), value) for value in list(iterable)]
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


def sort(rows: Any, *, key: Any = None, reverse: bool = False) -> None:
    """`rows.sort()`, likewise."""
    if not isinstance(rows, list):
        raise AttributeError(f"{type(rows).__name__!r} object has no attribute 'sort'")
    rows[:] = sorted(rows, key=key, reverse=reverse)


def least_of(iterable: Iterable[Any], *, key: Any = None) -> Any:
    """`min`, likewise."""
    best: list[Any] = []
    for value in iterable:
        by = value if key is None else key(value)
        if not best or by < best[0]:
            best = [by, value]
    if not best:
        raise ValueError("min() arg is an empty sequence")
    return best[1]


def largest_of(iterable: Iterable[Any], *, key: Any = None) -> Any:
    """`max`, likewise."""
    best: list[Any] = []
    for value in iterable:
        by = value if key is None else key(value)
        if not best or by > best[0]:
            best = [by, value]
    if not best:
        raise ValueError("max() arg is an empty sequence")
    return best[1]


def largest_or(values: Iterable[Any], *, key: Any = None, default: Any) -> Any:
    """`max` with a default value."""
    found = list(values)
    return max(found, key=key) if found else default


def least_or(values: Iterable[Any], *, key: Any = None, default: Any) -> Any:
    """`min` with a default value."""
    found = list(values)
    return min(found, key=key) if found else default


def total(values: Iterable[Any], start: Any) -> Any:
    """`sum`."""
    for value in values:
        start = start + value
    return start


def any_of(values: Iterable[Any]) -> bool:
    """`any`, by what objects say is true."""
    for value in values:
        if value:
            return True
    return False


def all_of(values: Iterable[Any]) -> bool:
    """`all`, likewise."""
    for value in values:
        if not value:
            return False
    return True


def first_unlike(one: Any, other: Any, sign: str) -> int:
    """The first place in which two lists or tuples differ; -1: the shorter one has none.

    Raises:
        TypeError: they are not of one kind.
    """
    if isinstance(one, list) != isinstance(other, list) or not isinstance(other, (list, tuple)):
        names = f"{type(one).__name__!r} and {type(other).__name__!r}"
        raise TypeError(f"{sign!r} not supported between instances of {names}")
    for k in range(min(len(one), len(other))):
        if not is_in(other[k], (one[k],)):
            return k
    return -1


def rows_less(one: Any, other: Any) -> Any:
    """`<` of lists or tuples."""
    k = first_unlike(one, other, "<")
    return len(one) < len(other) if k < 0 else one[k] < other[k]


def rows_less_equal(one: Any, other: Any) -> Any:
    """`<=`, likewise."""
    k = first_unlike(one, other, "<=")
    return len(one) <= len(other) if k < 0 else one[k] <= other[k]


def rows_greater(one: Any, other: Any) -> Any:
    """`>`, likewise."""
    k = first_unlike(one, other, ">")
    return len(one) > len(other) if k < 0 else one[k] > other[k]


def rows_greater_equal(one: Any, other: Any) -> Any:
    """`>=`, likewise."""
    k = first_unlike(one, other, ">=")
    return len(one) >= len(other) if k < 0 else one[k] >= other[k]


def rise(heap: list[Any], k: int, top: int) -> None:
    """Moves item number `k` of a heap up to its place, below `top`."""
    item = heap[k]
    while k > top:
        above = heap[(k - 1) // 2]
        if not item < above:
            break
        heap[k] = above
        k = (k - 1) // 2
    heap[k] = item


def sink(heap: list[Any], k: int) -> None:
    """Moves it down to its place: first to the end, then up, as Python's does."""
    item, top, count = heap[k], k, len(heap)
    child = 2 * k + 1
    while child < count:
        if child + 1 < count and not heap[child] < heap[child + 1]:
            child = child + 1
        heap[k] = heap[child]
        k = child
        child = 2 * k + 1
    heap[k] = item
    rise(heap, k, top)


def heap_push(heap: list[Any], item: Any, /) -> None:
    """`heapq.heappush`."""
    heap.append(item)
    rise(heap, len(heap) - 1, 0)


def heap_pop(heap: list[Any], /) -> Any:
    """`heapq.heappop`."""
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    return heap_replace(heap, last)


def heap_replace(heap: list[Any], item: Any, /) -> Any:
    """`heapq.heapreplace`."""
    if not heap:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    sink(heap, 0)
    return first


def heap_push_pop(heap: list[Any], item: Any, /) -> Any:
    """`heapq.heappushpop`."""
    return heap_replace(heap, item) if heap and heap[0] < item else item


def heap_of(heap: list[Any], /) -> None:
    """`heapq.heapify`."""
    for k in range(len(heap) // 2):
        sink(heap, len(heap) // 2 - 1 - k)


def smallest(n: int, iterable: Iterable[Any], key: Any = None) -> list[Any]:
    """`heapq.nsmallest`."""
    return sorted(iterable, key=key)[: max(n, 0)]


def greatest(n: int, iterable: Iterable[Any], key: Any = None) -> list[Any]:
    """`heapq.nlargest`."""
    return sorted(iterable, key=key, reverse=True)[: max(n, 0)]


def place_right(a: Any, x: Any, lo: int = 0, hi: int | None = None) -> int:
    """`bisect.bisect_right`."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        k = (lo + end) // 2
        if x < a[k]:
            end = k
        else:
            lo = k + 1
    return lo


def place_left(a: Any, x: Any, lo: int = 0, hi: int | None = None) -> int:
    """`bisect.bisect_left`."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        k = (lo + end) // 2
        if a[k] < x:
            lo = k + 1
        else:
            end = k
    return lo


def put_right(a: list[Any], x: Any, lo: int = 0, hi: int | None = None) -> None:
    """`bisect.insort_right`."""
    a.insert(place_right(a, x, lo, hi), x)


def put_left(a: list[Any], x: Any, lo: int = 0, hi: int | None = None) -> None:
    """`bisect.insort_left`."""
    a.insert(place_left(a, x, lo, hi), x)


def less(one: Any, other: Any) -> Any:
    """`<`, as a function of its own."""
    return one < other


def less_equal(one: Any, other: Any) -> Any:
    """`<=`, likewise."""
    return one <= other


def greater(one: Any, other: Any) -> Any:
    """`>`, likewise."""
    return one > other


def greater_equal(one: Any, other: Any) -> Any:
    """`>=`, likewise."""
    return one >= other


#: What stands for methods of lists and tuples that go by `==`.
BY_EQUALITY: dict[str, Callable[..., Any]] = {
    "index": index_of, "count": count_of, "remove": remove_from,
}  # fmt: skip

#: What stands for those that compare, where objects say themselves what `<` is.
IN_ORDER: dict[str, Callable[..., Any]] = {
    "sorted": in_order, "max": largest_of, "min": least_of,
}  # fmt: skip

#: Of `max` and `min` with a default value.
EXTREMES: dict[str, Callable[..., Any]] = {"max": largest_or, "min": least_or}

#: What stands for those that go by truth, where objects say themselves what is true.
BY_TRUTH: dict[str, Callable[..., Any]] = {"any": any_of, "all": all_of}

#: What stands for comparisons, and for those of lists and tuples.
COMPARES: dict[str, Callable[..., Any]] = {
    "<": less, "<=": less_equal, ">": greater, ">=": greater_equal,
}  # fmt: skip
COMPARES_ROWS: dict[str, Callable[..., Any]] = {
    "<": rows_less, "<=": rows_less_equal, ">": rows_greater, ">=": rows_greater_equal,
}  # fmt: skip

#: What stands for functions of Python's.
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    heapq.heappush: heap_push, heapq.heappop: heap_pop, heapq.heapreplace: heap_replace,
    heapq.heappushpop: heap_push_pop, heapq.heapify: heap_of, heapq.nsmallest: smallest,
    heapq.nlargest: greatest, bisect.bisect_right: place_right, bisect.bisect_left: place_left,
    bisect.insort_right: put_right, bisect.insort_left: put_left,
}  # fmt: skip
