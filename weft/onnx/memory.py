"""Which tensors and lists of a program may be the same memory.

Note [May alias]
A graph has values, not memory. What surely is one tensor is one `Held`, or a view of it. What an If
or a Loop gives is another `Held`, whose memory may be that of what either way, or the start or the
turn before, left; so may be that of what copies or not as a run has its strides. `Aliases` knows
these pairs; no pair goes once it is there. A write to one of a pair loses the other: who reads it
is refused, by the lines of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import weft
from weft.onnx.errors import NotOnnx
from weft.onnx.values import Callee, Examples, Grown, Held, Instance, Repeated, Seq, layout

Sides = tuple[Any, ...]  #: what one value may be: of each way; None: nothing


def root(thing: Any) -> Any:
    """Whose memory a thing is: of a view its base."""
    while isinstance(thing, Held) and thing.view is not None:
        thing = thing.view.base
    return thing


def owns_memory(v: Any) -> bool:
    """Whether a value can be written in place."""
    return isinstance(v, (list, dict, Instance)) or isinstance(v, Held) and not v.is_number


class Aliases:
    """The pairs of things that may be the same memory (Note [May alias])."""

    def __init__(self) -> None:
        self.others: dict[int, dict[int, Any]] = {}
        self.kept: list[Any] = []  # so that no identity is used again

    def add(self, a: Any, b: Any) -> None:
        """Says that two may be the same."""
        a, b = root(a), root(b)
        if a is not b and owns_memory(a) and owns_memory(b):
            self.kept += [a, b]
            self.others.setdefault(id(a), {})[id(b)] = b
            self.others.setdefault(id(b), {})[id(a)] = a

    def near(self, thing: Any) -> list[Any]:
        """What else may be its memory."""
        return list(self.others.get(id(root(thing)), {}).values())

    def family(self, thing: Any) -> list[Any]:
        """It, and what else may be its memory; nothing of what has none."""
        return [root(thing), *self.near(thing)] if owns_memory(thing) else []

    def may(self, a: Any, b: Any) -> bool:
        """Whether two may be the same memory, or surely are."""
        a, b = root(a), root(b)
        return owns_memory(a) and owns_memory(b) and (a is b or id(b) in self.others.get(id(a), {}))

    def join(self, made: Sequence[tuple[Any, Sides]]) -> None:
        """Values that each may be one of several: two of them are the same where they are so on
        one side."""
        found = [(out, one) for out, sides in made for s in sides for one in self.family(s)]
        for k, (out, sides) in enumerate(made):
            for other, theirs in made[:k]:
                if any(self.may(a, b) for a, b in zip(sides, theirs)):
                    found.append((out, other))
        for out, one in found:
            self.add(out, one)


Key = tuple[str, int]


class Shared:
    """What the values that a loop carries may share memory with, at the head of any turn."""

    def __init__(self, aliases: Aliases) -> None:
        self.aliases = aliases
        self.outside: dict[Key, dict[int, Any]] = {}
        self.pairs: set[tuple[Key, Key]] = set()

    def size(self) -> int:
        """How much is known, which only grows."""
        return len(self.pairs) + sum(map(len, self.outside.values()))

    def grow(self, found: Mapping[Key, Sequence[Any]], outside: set[int] | None = None) -> bool:
        """Adds what is known of values before the first turn, or at the end of one: `outside`, what
        was there before it. Whether that was new."""
        before = self.size()
        for key, values in found.items():
            mine = self.outside.setdefault(key, {})
            for one in (x for v in values for x in self.aliases.family(v)):
                if outside is None or id(one) in outside:
                    mine[id(one)] = one
            for other, theirs in found.items():
                if other < key and any(self.aliases.may(a, b) for a in values for b in theirs):
                    self.pairs.add((other, key))
        return self.size() > before

    def become(self, made: Mapping[Key, Held]) -> None:
        """Says it of the values at the head of a turn, or behind the loop."""
        for key, one in made.items():
            for other in self.outside.get(key, {}).values():
                self.aliases.add(one, other)
        for a, b in self.pairs:
            if a in made and b in made:
                self.aliases.add(made[a], made[b])


def parts(values: Iterable[Any]) -> Iterable[Any]:
    """All that is in some values, all the way down."""
    left, found = list(values), set[int]()
    while left:
        v = left.pop()
        if id(v) in found:
            continue
        found.add(id(v))
        yield v
        if isinstance(v, (list, tuple)):
            left += v
        elif isinstance(v, dict):
            left += v.values()
        elif isinstance(v, Instance):
            left += v.fields.values()
        elif isinstance(v, Grown):
            left.append(v.rows)
        elif isinstance(v, Seq):
            left += v.given
        elif isinstance(v, Repeated):
            left.append(v.item)
        elif isinstance(v, Callee) and v.kind == "method":
            left.append(v.name[0])
        elif isinstance(v, Held) and v.view is not None:
            left.append(v.view.base)


def is_dense(t: weft.Tensor, free: Sequence[int | None]) -> bool:
    """Whether a tensor lies in its memory without gaps, row by row, in all sizes of what is free.

    `is_contiguous` passes over dimensions of size 1 and tensors without elements; where such a size
    is free (None), a run has more.
    """
    step = 1
    for size, stride, n in zip(t.shape[::-1], t.stride()[::-1], free[::-1]):
        if stride != step and (size != 1 or n is None):
            return False
        step *= max(size, 1)
    return True


def is_laid_out(t: weft.Tensor, free: Sequence[int | None]) -> bool:
    """Whether an example's strides tell those of all runs: no free size of it is 0 or 1."""
    return all(size > 1 for size, n in zip(t.shape, free) if n is None)


def is_overlapping(v: Held) -> bool:
    """Whether several elements of a view are one memory, as of `unfold(0, 2, 1)`; of one whose
    examples are too small to tell, what it is a view of decides."""
    if any(map(_overlaps, v.examples)):
        return True
    told = all(is_laid_out(e, v.value.sizes or ()) for e in v.examples)
    return not told and v.view is not None and is_overlapping(v.view.base)


def _overlaps(t: weft.Tensor) -> bool:
    last = 0  # the farthest element along the dimensions with smaller strides
    for stride, size in sorted(zip(t.stride(), t.shape)):
        if size > 1 and stride <= last:
            return True
        last += stride * max(size - 1, 0)
    return False


def same_strides(a: Examples, b: Examples) -> bool:
    """Whether two tensors lie in their memory alike, so that what is a view of the one is one of
    the other."""
    return all(
        is_dense(x, layout(a)) and is_dense(y, layout(b))
        or x.shape == y.shape and x.stride() == y.stride()
        for x, y in zip(a, b)
    )  # fmt: skip


def is_unsure(base: Held, is_view: bool) -> bool:
    """Whether the strides of a run say if the result of an op, which is a view of the examples
    of `base` or not, is one (`Form.may_view`)."""
    sizes = base.value.sizes or ()
    if base.loose or not is_view and None in sizes:
        return True
    return any(not is_dense(e, sizes) and not is_laid_out(e, sizes) for e in base.examples)


def kin(
    may_view: bool, base: Any, results: Sequence[Any], given: Sequence[Any]
) -> tuple[bool, list[Held]]:
    """Whether what an op gives (of each example) is a view of `base`, its first argument, in all
    runs; else the tensors of which it may be one in some."""
    shared = [sharing(r, k, given) for k, r in enumerate(results)]
    views = [base in found for found in shared]
    unsure = views[0] != views[1]
    if may_view and isinstance(base, Held):
        unsure |= is_unsure(base, views[0])
    if views[0] and not unsure:
        return True, []
    return False, [*shared[0], *shared[1], *([base] if unsure else [])]


def sharing(result: weft.Tensor, k: int, given: Sequence[Any]) -> list[Held]:
    """The tensors whose memory a result is a part of, of the k-th examples: also where that has no
    element, as `y[5:]` of three."""
    if not isinstance(result, weft.Tensor):
        return []
    where = storage_of(result)
    return [
        v for v in parts(given)
        if isinstance(v, Held) and not v.is_number and storage_of(v.examples[k]) == where
    ]  # fmt: skip


def is_itself(base: Held, first: weft.Tensor, second: weft.Tensor) -> bool:
    """Whether an op gives the tensor that it is given, as `to` does in the same dtype."""
    return first is base.examples[0] and second is base.examples[1]


def storage_of(t: weft.Tensor) -> int:
    """Which memory a tensor is a part of: memory of no bytes has a place of its own too."""
    return t._storage_info()[0]


def rewritten(old: Examples, new: Examples) -> Examples:
    """Examples of a tensor that is written: the numbers of the new, in the memory's strides."""
    made = []
    for a, b in zip(old, new):
        b = b.to(a.dtype)
        if a.shape == b.shape and a.stride() != b.stride():
            b = a.clone().copy_(b)
        made.append(b)
    return made[0], made[1]


def lose(
    aliases: Aliases, thing: Any, line: str, reachable: Callable[[], set[int]]
) -> Iterable[tuple[Held, NotOnnx]]:
    """The tensors that a write to `thing` may write too, and what their readers are told.

    Raises:
        NotOnnx: one of them is a list, which is read in too many ways.
    """
    for other in aliases.near(thing):
        if isinstance(other, Held):
            why = f"a tensor that may be the one that is written in place at {line}"
            hint = "write z = z + 1 there, not z += 1, or clone() one of them before"
            yield other, NotOnnx(why, hint)
        elif id(other) in reachable():
            kind = type(other).__name__ if isinstance(other, (list, dict)) else "record"
            raise NotOnnx(
                f"a write to a {kind} that may be another one, which can still be read",
                "copy it before",
            )
