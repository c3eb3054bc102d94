"""What Python has beside numbers and containers, for test_python.py: iterators, special methods,
dataclasses, deques, modes."""

import collections
import contextlib
import enum
import io
from dataclasses import dataclass, field
from typing import Any

import weft as torch
from weft import nn

CASES: list[tuple[Any, list[tuple[Any, ...]]]] = []


def case(*args_list):
    def deco(f):
        CASES.append((f, args_list))
        return f

    return deco


@case(([1.0, 2.0, 3.0], 2), ([1.0], 5), ([2.0, 4.0], 2))
def iterators(xs, n):
    it = iter(xs)
    first, second = next(it), next(it, None)
    rest = [x * 2 for x in it]
    try:
        next(it)
        ended = False
    except StopIteration:
        ended = True
    found = next((k for k, x in enumerate(xs) if x > n), -1)
    pairs = zip(xs, iter(range(n)))
    taken = [next(pairs), *pairs]
    same = iter(xs)
    return first, second, rest, ended, found, taken, list(zip(same, same))


@case((torch.ones(2), 3), (torch.zeros(2), 1))
def generators(x, n):
    scaled = (x * k for k in range(1, n + 1))
    first = next(scaled)
    others = list(scaled)
    again = list(scaled)
    return first, others, again, sum(v.sum() for v in others), any(v.sum() > 3 for v in others)


class Cache:
    def __init__(self, rows: list) -> None:
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        return self.rows[k]

    def __setitem__(self, k, value):
        self.rows[k] = value

    def __delitem__(self, k):
        del self.rows[k]

    def __iter__(self):
        return iter(self.rows)

    def __contains__(self, k):
        return k in range(len(self.rows))

    def __call__(self, x, *, scale=1.0):
        return x * scale + len(self)

    def __add__(self, other):
        return Cache(self.rows + other.rows)

    def __rmul__(self, n):
        return Cache(self.rows * n)

    def __neg__(self):
        return Cache(self.rows[::-1])

    def __eq__(self, other):
        return len(self) == len(other)

    def __lt__(self, other):
        return len(self) < len(other)

    def __bool__(self):
        return len(self.rows) > 1

    def __repr__(self):
        return f"Cache({len(self.rows)})"

    def pop(self):
        return self.rows.pop()


@case((torch.ones(2), 1), (torch.ones(2), 3))
def special_methods(x, n):
    cache, other = Cache([]), Cache([x])
    for k in range(n):
        cache.rows.append(x * k)
    both, twice = cache + other, 2 * cache
    cache[0] = x - 1
    del both[0]
    numbers = [1, 2, 3]
    return (
        len(cache), len(both), len(twice), cache[0], list(cache), [v.sum() for v in both],
        1 in cache, 2 not in cache, cache(x, scale=2.0), cache == other, cache < both,
        "some" if cache else "few", not cache, bool(other), str(cache), f"{cache} {other!r}",
        (-cache)[0], numbers.pop(0), cache.pop(), repr(cache),
    )  # fmt: skip


@dataclass
class State:
    h: Any
    steps: int = 0
    tags: list = field(default_factory=list)

    def then(self, x):
        return State(self.h + x, self.steps + 1, self.tags + ["then"])


@case((torch.ones(2), 2))
def dataclasses_show_and_compare(x, n):
    state = State(x)
    for _ in range(n):
        state = state.then(x)
    same = State(1, 2, [State(3)])
    return (
        state.h, state.tags, str(same), f"{State((1, 'a'))}", same == State(1, 2, [State(3)]),
        same == State(1, 2, [State(4)]), same != State(1), State(3) in [State(2), State(3)],
    )  # fmt: skip


@case((5,), (1,))
def deques(n):
    last, queue = collections.deque(maxlen=3), collections.deque([1, 2, 3])
    for k in range(n):
        last.append(k)
    last.appendleft(-1)
    queue.rotate(1)
    first, end = queue.popleft(), queue.pop()
    queue.extend([7, 8])
    queue.extendleft([5])
    queue[0] = 6
    try:
        collections.deque().pop()
        message = ""
    except IndexError as error:
        message = str(error)
    return (
        list(last), len(last), last[0], [v for v in queue], first, end, 8 in queue, bool(queue),
        str(last), message, queue == collections.deque(queue), isinstance(last, collections.deque),
    )  # fmt: skip


@case(({0: [1, 2], 1: [3], 2: [3], 3: []}, 0))
def breadth_first(edges, start):
    queue, seen, order = collections.deque([start]), {start}, []
    while queue:
        node = queue.popleft()
        order.append(node)
        for other in edges[node]:
            if other not in seen:
                seen.add(other)
                queue.append(other)
    return order


@case((torch.ones(2),), (-torch.ones(2),))
def dicts_of_tensors(x):
    """`values` is a method of sparse tensors, too."""
    found = {"a": x}
    if x.sum() > 0:
        found["b"] = x * 2
    return list(found.values()), [v.sum() for v in found.values()], torch.stack([*found.values()])


linear = nn.Linear(4, 4)


@case((torch.ones(2, 4),))
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = linear(x)
        with torch.autocast("cpu", enabled=False):
            z = linear(x)
        again = linear(x)
    return y, z, again, linear(x), y.softmax(-1).dtype == torch.bfloat16


@case((torch.ones(2, 4),))
@torch.autocast("cpu", dtype=torch.float16)
def autocast_around(x):
    return linear(x).dtype == torch.float16, x @ x.T


@case((torch.ones(2, 4),))
def grad_modes(x):
    x = x.clone().requires_grad_()
    with torch.set_grad_enabled(False):
        y = x * 2
        with torch.set_grad_enabled(True):
            z = x * 2
    with contextlib.nullcontext():
        return y.requires_grad, z.requires_grad, (x * 2).requires_grad


@case((torch.tensor([[1, 2], [0, 4]]),), (torch.tensor([[3, 3]]),))
def bags(x):
    table = torch.arange(10.0).reshape(5, 2)
    starts = torch.tensor([0, 1])
    bag = nn.functional.embedding_bag
    weights = torch.ones(x.shape)
    return (
        bag(x, table), bag(x, table, mode="max"), bag(x.flatten(), table, starts, mode="sum"),
        bag(x, table, mode="sum", per_sample_weights=weights), bag(x, table, padding_idx=3),
        torch.bincount(x.flatten(), minlength=3), torch.bincount(x[0], x[0].float()),
    )  # fmt: skip


@case((torch.arange(3), torch.ones(2)), (torch.ones(2, 2), torch.arange(2)))
def converted(x, like):
    # whether that is the meta device was asked of the thread's mode
    return x.to(like.dtype), x.to(like), x.to("cpu", like.dtype), torch.tril_indices(2, 3)


@case((torch.ones(2), [1.5, 2.0]), (torch.tensor([3]), 2))
def as_tensors(x, values):
    # whether x is an array of another library was asked of it
    return torch.as_tensor(x), torch.as_tensor(values), torch.as_tensor(values, dtype=torch.int64)


@case((torch.tensor([3, 1, 3, 2]),), (torch.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]]),))
def uniques(x):
    return (
        torch.unique(x), *torch.unique(x, return_inverse=True, return_counts=True),
        x.unique(dim=0), *torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    )  # fmt: skip


@case((torch.arange(12.0).reshape(2, 3, 2), torch.tensor([2, 3])), (torch.ones(2, 3, 2), [3, 1]))
def packed_unsorted(x, lengths):
    """A named tuple with a `__new__` of its own lost what that computes."""
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    padded, sizes = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    return padded, sizes, packed.unsorted_indices


@case(([1, 2],), ([3],), ([0, 3, 3],), ([],))
def sets_of_a_comprehension(values):
    """They were one set for all calls, and empty where they had no name."""
    found = {v for v in values}
    return (
        [v in found for v in range(4)], len({v % 2 for v in values}), sorted({v for v in values}),
        {v % 2 for v in values} == {0, 1}, 3 in {v for v in values},
    )  # fmt: skip


@case((torch.ones(2, 3),), (torch.ones(3, 3),))
def checks(x):
    torch._assert(x.shape[0] == 2, "two rows")
    torch._check(x.sum() > 0, lambda: "positive")
    torch._check_is_size(x.shape[1], max=5)
    return x + 1


def saved(function):
    """The program of a function, from its file."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(function), file)
    file.seek(0)
    return torch.jit.load(file)


@case(([1, 2], 3), ([], 0), ([5], -1))
def calls_as_statements_of_branches(xs, n):
    """Temporaries of the branches are dead where these meet; a bound method was looked up there."""
    q = collections.deque()
    if xs:
        q.append(len(xs))
    if n > 0:
        q.append(abs(n))
    elif n < 0:
        q.appendleft(len(xs) if xs else max(n, 0))
    try:
        if xs:
            q.append(len(xs) + n)
        while n > 1:
            if n % 2:
                q.append(min(n, 7))
            n -= 1
    except AttributeError:
        q.append("caught")
    return list(q)


@case((1.0,), (-2.0,))
def parts_of_tuples_that_are_written(x):
    """An item that is read is in the tuple still: the file had a register that nothing wrote."""
    x = torch.tensor([x])
    state = (x.clone(), 2)
    state[0].add_(1)
    named = (x, {})
    named[1]["k"] = 1
    listed = ([],)
    listed[0].append(x)
    return state, named, listed


@case(([],), ([1],))
def truth_of_deques(xs):
    """An assert took a deque for true, as it has a value."""
    q, seen = collections.deque(xs), []
    try:
        assert q, "empty"
        assert q
    except AssertionError as error:
        seen.append(str(error))
    seen.append((any([q, collections.deque()]), all([q, [1]]), [*filter(None, [q, 0])] != []))
    return seen, not q, bool(q), 1 if q else 2, q and 3 or 4


class Long:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


@case((2,), (1.5,))
def sets_of_constants_and_lengths(n):
    """A set of constants was a frozenset, and a length could be a float."""
    s = {"a", "b"} if n else {"c"}
    told = isinstance({1, 2}, set), isinstance(s, set), f"{ {1} }", str({1} | {1}), 2 in {1, 2}
    try:
        return told, len(Long(n))
    except TypeError as error:
        return told, str(error)


@case((["b", "A", "c"], 2), ([1, "a"], 0))
def methods_by_their_class(texts, n):
    """What is looked up in its class, and dict.fromkeys, needed Python."""
    counts = dict.fromkeys([n, 1, n], 0)
    counts |= dict.fromkeys("ab")
    rows = [n]
    list.append(rows, 1)
    return counts, rows, [str.strip(f" {t}") for t in "ab"], sorted(texts, key=str.lower)


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def plus_one(x):
    return x + 1


def doubled(x):
    return x * 2


@case((torch.ones(2),), (-torch.ones(2),))
def which_function_was_chosen(x):
    """`f is plus_one` was False of one that a branch chose; None beside a function was refused."""
    f = plus_one if x.sum() > 0 else doubled
    g = None
    if x.sum() > 0:
        g = plus_one
    told = f is plus_one, f is not doubled, f == plus_one, f != doubled, f in (doubled,), f is f
    if f is plus_one:
        x = f(x) + 100
    try:
        return told, f(x), g is None, x if g is None else g(x), bool(not g), g(x)
    except TypeError as error:
        return told, f(x), g is None, str(error)


@case((torch.ones(3), 1), (-torch.ones(3), 0))
def members_that_are_chosen(x, n):
    """Members of an Enum that a value chooses were refused, and those of an IntEnum as numbers."""
    side = Side.LEFT if x.sum() > 0 else Side.RIGHT
    level = Level.LOW if n else Level.HIGH
    if side is Side.LEFT:
        x = x * 3
    told = side == Side.LEFT, side != Side.RIGHT, side.value, side.name
    as_numbers = Level.LOW + n, n < Level.HIGH, x[Level.LOW], Level.HIGH * x, n - Level.LOW
    return x, told, as_numbers, level == Level.HIGH, level.value, level in (1, 5), level > n
