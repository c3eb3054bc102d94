"""Branches of which ways may leave the block around them, and what stands behind them.

Note [Early ways out]
`if a: (if b: return x); y = 1` leaves a rest of the block that two ways reach. It is walked for
each of them: what a way knows is known there. But n such branches in a row are 2**n rests, so that
after a few the ways are joined before the rest, as those of any branch are: what may have left is
an `End` "left", with a truth of the run, and the rest is the other way of a branch over that. What
a way that has returned for sure holds in its variables, nobody reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.onnx.control import branch
from weft.onnx.errors import NotOnnx, TooDeep
from weft.onnx.loops import start
from weft.onnx.program import Instr
from weft.onnx.values import End, Held

if TYPE_CHECKING:
    from weft.onnx.walk import Walk

_FEW = 2  # how often a rest is doubled before ways are joined,
_MOST = 8  # and where they cannot be


def leave(walk: Walk, truth: Held, i: Instr, rest: Sequence[Instr]) -> End | None:
    """Walks a branch over a value, a way of which may leave the block, and the rest of that."""
    if not rest or not all(map(_reaches_its_end, i.regions)):
        return _doubled(walk, truth, i, rest, 0)
    if walk.rests < _FEW or not walk.joins_rests:
        return _doubled(walk, truth, i, rest)
    undo = start(walk)
    try:
        return _joined(walk, truth, i, rest)
    except TooDeep:
        raise
    except NotOnnx as error:
        undo()
        walk.joins_rests = False
        if walk.rests >= _MOST:
            raise error from None
    finally:
        walk.journals.pop()
    return _doubled(walk, truth, i, rest)


def _doubled(walk: Walk, truth: Held, i: Instr, rest: Sequence[Instr], more: int = 1) -> End | None:
    if more and walk.rests >= _MOST:
        raise NotOnnx(
            f"more than {_MOST} branches in a row that may return, break or continue, with "
            "variables that a graph cannot join",
            "give the variables one kind and one number of dimensions on all ways",
        )
    first, second = ([*region, *rest] for region in i.regions)
    walk.rests += more
    try:
        return branch(walk, truth, first, second)
    finally:
        walk.rests -= more


def _joined(walk: Walk, truth: Held, i: Instr, rest: Sequence[Instr]) -> End | None:
    outer, walk.partial = walk.partial, True
    try:
        end = branch(walk, truth, *i.regions)
    finally:
        walk.partial = outer
    if end is None:
        return walk.body(rest)
    if end.kind != "left":
        return end
    done, what = end.value
    return branch(walk, done, [Instr("leave", place=i.place, known=what)], rest)


def _reaches_its_end(block: Sequence[Instr]) -> bool:
    """Whether what stands behind a block may be reached."""
    return not any(
        i.verb in ("return", "break", "continue", "raise")
        or i.verb == "if" and not any(map(_reaches_its_end, i.regions))
        for i in block
    )  # fmt: skip
