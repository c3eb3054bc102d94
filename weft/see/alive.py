"""What is alive, by the line that made it, and what holds it; the warning about graphs that grow.

Nothing of this costs anything while nobody asks: `live` walks from the tensors that Python holds
(Note [Alive] in src/python/alive.cpp), and the warning looks at few passes of backward (Note
[Growth] in src/python/alive.h).
"""

from __future__ import annotations

import contextvars
import gc
import inspect
import os
import re
import sys
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft import _C, Tensor
from weft.base.frames import is_weft, user_level
from weft.base.shown import size

if TYPE_CHECKING:
    from weft.autograd.graph import Node

__all__ = ["Alive", "live", "why_alive"]

DEEPEST = 8  # Python objects between a name and a tensor that are followed
CHAINS = 6  # ways of holding that `why_alive` tells


# --- the tensors that Python holds ----------------------------------------------------------------


def _frames() -> Iterator[FrameType]:
    """Those that run, of all threads, and those that generators, coroutines and tracebacks keep."""
    # but not our own, of which the dicts of locals would be among what they hold
    seen = set()
    for frame in [*sys._current_frames().values(), *_kept_frames()]:
        at: FrameType | None = frame
        while at is not None and id(at) not in seen:
            seen.add(id(at))
            if at.f_code.co_filename != __file__:
                yield at
            at = at.f_back


def _kept_frames() -> Iterator[FrameType]:
    for thing in gc.get_objects():
        if type(thing) is types.GeneratorType:  # isinstance asks the object
            frame = thing.gi_frame
        elif type(thing) is types.CoroutineType:
            frame = thing.cr_frame
        elif type(thing) is types.TracebackType:  # of an exception that somebody keeps
            frame = thing.tb_frame
        else:
            continue
        if frame is not None:
            yield frame


def _tensors() -> list[Tensor]:
    """The tensors that Python holds, each once."""
    objects: list[Any] = gc.get_objects()
    objects += [_C._locals(frame) for frame in _frames()]
    found = _C._tensors_in(objects)
    del objects
    return list({id(t): t for t in found}.values())


# --- what is alive --------------------------------------------------------------------------------


class Line(NamedTuple):
    """What is alive of that which a line made, or of a kind that no line is known of."""

    line: str
    name: str
    tensors: int
    nodes: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.line} {self.name}".strip()


class Alive:
    """Tensors, nodes and bytes that are alive, by the line that made them.

    `print` shows the lines with most bytes; `later - earlier` is what has come and gone.

    Attributes:
        tensors, nodes, bytes: in all.
        unseen: bytes of the allocator's that no tensor was found for.
        lines: a `Line` for each line and op, most bytes first: of nodes and the tensors that they
            made; and of tensors that no node has made: "leaves that require grad", "gradients",
            "tensors outside the graph".
    """

    def __init__(self, lines: list[Line], unseen: int) -> None:
        self.lines = sorted(lines, key=lambda r: (-abs(r.bytes), -abs(r.nodes), str(r)))
        self.unseen = unseen
        self.tensors = sum(r.tensors for r in lines)
        self.nodes = sum(r.nodes for r in lines)
        self.bytes = sum(r.bytes for r in lines)

    def __sub__(self, earlier: Alive) -> Alive:
        counts: dict[tuple[str, str], Counter[str]] = {}
        for of, sign in ((self, 1), (earlier, -1)):
            for row in of.lines:
                count = counts.setdefault((row.line, row.name), Counter())
                for what in ("tensors", "nodes", "bytes"):
                    count[what] += sign * getattr(row, what)
        lines = [
            Line(line, name, count["tensors"], count["nodes"], count["bytes"])
            for (line, name), count in counts.items()
            if any(count.values())
        ]
        return Alive(lines, self.unseen - earlier.unseen)

    def __str__(self) -> str:
        head = f"{self.tensors} tensors and {self.nodes} nodes, {size(self.bytes)}"
        if self.unseen:
            head += f", {size(self.unseen)} besides that no tensor was found for"
        rows = [
            f"  {size(r.bytes):>9}  {r.tensors:>6} tensors  {r.nodes:>6} nodes  {r}"
            for r in self.lines[:20]
        ]
        left = len(self.lines) - 20
        return "\n".join([head, *rows, *([f"  and {left} lines more"] if left > 0 else [])])

    def __repr__(self) -> str:
        return f"<Alive: {self.tensors} tensors, {self.nodes} nodes, {size(self.bytes)}>"


def live() -> Alive:
    """The tensors and the nodes of the graph that are alive now, and their bytes, by line.

    It costs nothing before it is called; then it looks through all objects that Python's collector
    tracks, and the graph behind the tensors among them. A node knows its line, and a tensor that of
    its node; of others only the kind is known. What it cannot see: calls of a batch that have not
    run, what hooks packed for backward, tensors within objects that the collector does not track.
    The bytes of those are in `unseen`, as is what the allocator lent to foreign arrays.

    >>> before = weft.live()
    >>> kept = [(weft.ones(1000, requires_grad=True) * 2).exp() for _ in range(3)]
    >>> grown = weft.live() - before
    >>> [(row.name, row.nodes) for row in grown.lines if row.name == "ExpBackward0"]
    [('ExpBackward0', 3)]
    """
    roots = _tensors()
    rows, _ = _C._alive(roots)
    lines: Counter[tuple[str, str]] = Counter()
    sums: dict[tuple[str, str], list[int]] = {}
    for (name, code, line), *counts in rows:
        key = _at(code, line), name
        lines[key] += 1
        sums[key] = [a + b for a, b in zip(sums.get(key, [0, 0, 0]), counts)]
    found = [
        Line(line, name or "leaves' nodes", tensors, nodes, size)
        for (line, name), (nodes, tensors, size) in sums.items()
    ]
    seen = sum(row.bytes for row in found)
    return Alive(found, max(_C._memory_stats()["current"] - seen, 0))


def _at(code: CodeType | None, line: int) -> str:
    return f"{os.path.basename(code.co_filename)}:{line}" if code is not None else ""


# --- what holds it --------------------------------------------------------------------------------


def why_alive(target: Tensor | Node) -> str:
    """What holds a tensor, or a node of the graph (`t.grad_fn`): a chain for each of its holders.

    A chain begins at what is held and ends at a name: a local of a function that runs or whose
    frame an exception keeps, a global of a module, a ContextVar, what a closure holds. Through the
    graph it says which nodes lie between. The shortest are shown, of six holders at most; what
    holds it by itself in C, beside the graph, is not seen.

    A tensor of any shape.

    Raises:
        TypeError: neither a tensor nor a node.

    >>> def train():
    ...     total = 0
    ...     for _ in range(3):
    ...         h = (weft.ones(2, requires_grad=True) * 2).exp()
    ...         total = total + h.sum()
    ...     print(weft.why_alive(h))
    >>> train()  # doctest: +ELLIPSIS
    exp -> [2] is alive: held by
      h (local of train(), ...)
      saved by ExpBackward0 (...) ← SumBackward0 (...) ← AddBackward0 (...) ← total (local of ...)
    """
    if not isinstance(target, (Tensor, _C.Node)):
        raise TypeError(f"[why_alive] expected a tensor or a node, got {type(target).__name__}")
    namer = _Namer(target)
    chains: list[str] = []
    if isinstance(target, Tensor):
        chains += namer.names(target)
    for way, link in _C._holders(_tensors(), target, CHAINS):
        chains.append(_told(way, link, namer))
    title = _title(target)
    if not chains:
        return f"{title} is alive: nothing that Python or the graph knows holds it"
    return "\n".join([f"{title} is alive: held by", *(f"  {c}" for c in dict.fromkeys(chains))])


def _title(target: Tensor | Node) -> str:
    if isinstance(target, Tensor):
        node = target.grad_fn
        name = f"{node.name().removesuffix('Backward0').lower()} -> " if node is not None else ""
        return f"{name}{list(target.shape)}"
    return str(target.name())


def _told(way: list[tuple[str, Any, Tensor | None]], link: str, namer: _Namer) -> str:
    """`way` leads from a root to what holds the target; it is told the other way round."""
    steps: list[str] = []
    for k in range(len(way) - 1, -1, -1):
        _, entry, tensor = way[k]
        how = link if k == len(way) - 1 else way[k + 1][0]
        if entry is not None:
            name, code, line = entry
            at = _at(code, line)
            words = f"{name} ({at})" if at else name
            steps.append(f"saved by {words}" if how == "saved" else words)
        elif tensor is not None and k == 0:
            names = namer.names(tensor, nearest=True)
            steps.append(_of(how) + (names[0] if names else "a tensor that has no name"))
        else:
            steps.append(f"{_of(how)}a tensor")
    return " ← ".join(_rolled(steps))


def _of(how: str) -> str:
    return {"grad": "gradient of ", "base": "base of "}.get(how, "")


def _rolled(steps: list[str]) -> list[str]:
    """Runs of equal steps, or of equal pairs and more, as one with how often they come."""
    out: list[str] = []
    at = 0
    while at < len(steps):
        best = (1, 1)
        for length in range(1, 9):
            count = 1
            piece = steps[at : at + length]
            while steps[at + count * length : at + (count + 1) * length] == piece:
                count += 1
            if count > 1 and length * count > best[0] * best[1]:
                best = length, count
        length, count = best
        piece = steps[at : at + length]
        text = " ← ".join(piece)
        if count > 1:
            text = f"({text}) ×{count}" if length > 1 else f"{text} ×{count}"
        out.append(text)
        at += length * count
    return out


_PLACES = re.compile(r"\._(?:parameters|buffers|modules)\['([^']+)'\]")


class _Namer:
    """The names by which Python holds tensors: those of locals, globals and closures, and the way
    from there, as in `history[3]` or `self.last`."""

    def __init__(self, target: Any) -> None:
        self._own = {id(vars(self)), id(target)}
        self._locals: dict[int, list[tuple[str, FrameType]]] = {}
        self._variables: dict[int, str] = {}
        for frame in _frames():
            if is_weft(frame):
                continue
            if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
                continue  # a module's
            for name, value in _C._locals(frame).items():
                self._locals.setdefault(id(value), []).append((name, frame))
        for variable, value in contextvars.copy_context().items():
            self._variables[id(value)] = variable.name
        self._modules = {
            id(vars(module)): name
            for name, module in list(sys.modules.items())
            if isinstance(module, types.ModuleType)
        }

    def names(self, tensor: Tensor, *, nearest: bool = False) -> list[str]:
        """A name for each object that holds the tensor and leads to one, the nearest first; of
        those that are nearest alone with `nearest`."""
        found: list[str] = []
        seen = {id(tensor)}
        things: list[Any] = [tensor]
        rests = [""]  # of the expression
        for _ in range(DEEPEST):
            at = {id(thing): k for k, thing in enumerate(things)}
            for thing, rest in zip(things, rests):
                found += self._names_of(thing, rest)
            above: list[Any] = []
            rests_above: list[str] = []
            for holder in gc.get_referrers(*things):
                if holder is things or id(holder) in self._own or isinstance(holder, FrameType):
                    continue
                module = self._module_of(holder)
                if module is None and id(holder) in seen:
                    continue
                for k in {at[id(r)] for r in gc.get_referents(holder) if id(r) in at}:
                    if module is not None:
                        found += self._names_in(holder, module, things[k], rests[k])
                        continue
                    told = self._step(things[k], holder, rests[k])
                    if told is not None and id(holder) not in seen:
                        seen.add(id(holder))
                        above.append(holder)
                        rests_above.append(told)
            holder = thing = None
            if not above or (nearest and found):
                break
            things, rests = above, rests_above
        return [_PLACES.sub(r".\1", name) for name in dict.fromkeys(found)]

    def _names_of(self, thing: Any, rest: str) -> Iterator[str]:
        if (variable := self._variables.get(id(thing))) is not None:
            yield f"{variable}{rest} (a ContextVar)"
        for name, frame in self._locals.get(id(thing), ()):
            code = frame.f_code
            where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
            yield f"{name}{rest} (local of {code.co_name}(), {where})"

    def _module_of(self, holder: Any) -> str | None:
        """Whose namespace it is: a module's, or one that exec ran in."""
        if not isinstance(holder, dict):
            return None
        if "__builtins__" in holder and "__name__" in holder:
            return self._modules.get(id(holder), str(holder["__name__"]))
        return self._modules.get(id(holder))

    def _names_in(self, scope: dict[str, Any], module: str, thing: Any, rest: str) -> list[str]:
        named = [name for name, value in scope.items() if value is thing]
        return [f"{name}{rest} (global of {module})" for name in named]

    def _step(self, thing: Any, holder: Any, rest: str) -> str | None:
        """The rest of an expression, from a holder on; None: it is of no interest."""
        if isinstance(holder, dict):
            for key, value in holder.items():
                if value is thing:
                    return f"[{key!r}]{rest}"
            return None
        if isinstance(holder, tuple) and isinstance(thing, types.CellType):
            return rest
        if isinstance(holder, (list, tuple)):
            for k, value in enumerate(holder):
                if value is thing:
                    return f"[{k}]{rest}"
            return None
        if isinstance(holder, (set, frozenset)):
            return f" (in a {type(holder).__name__}){rest}"
        if isinstance(holder, types.CellType):
            return f" (in a closure){rest}"
        if isinstance(thing, dict) and getattr(holder, "__dict__", None) is thing:
            key, _, after = rest[1:].partition("]")
            return f".{key.strip(chr(39))}{after}"
        for key, value in getattr(holder, "__dict__", {}).items():
            if value is thing:
                return f".{key}{rest}"
        return rest


# --- the warning ----------------------------------------------------------------------------------

FEW = 4  # of the passes that are looked at, so many may have left nothing


def _look_for_growth(ends: list[int]) -> None:
    """Warns, once, if nodes of nearly each of the last passes of backward are alive. `ends`: how
    many nodes had been made when each of them ended."""
    if _warned or not _grows(_tensors(), ends):
        return
    gc.collect()  # what cycles hold is no leak
    roots = _tensors()
    if not _grows(roots, ends):
        return
    _warned.append(True)
    _, numbers = _C._alive(roots)
    old = np.frombuffer(numbers, np.uint64)
    first = int(old[(old >= ends[0]) & (old < ends[-1])].min())
    held = _C._holders(roots, first, 1)
    told = ""
    if held:
        (way, link) = held[0]
        *_, name = _told(way, link, _Namer(None)).split(" ← ")
        told = f", held by {name}"
    del roots, held
    warnings.warn(
        "[backward] expected the graphs of earlier passes to be freed, got nodes of each of the "
        f"last {len(ends)} that are alive{told}. Hint: add up loss.item() or loss.detach(), and "
        "detach() what goes from step to step; print(weft.live()) tells the lines that made "
        "them, weft.why_alive(t) what holds one",
        stacklevel=user_level(),
    )


_warned: list[bool] = []


def _grows(roots: list[Tensor], ends: list[int]) -> bool:
    _, numbers = _C._alive(roots)
    of = np.searchsorted(np.array(ends, np.uint64), np.frombuffer(numbers, np.uint64), "right")
    passes = np.bincount(of, minlength=len(ends) + 1)[1 : len(ends)]  # those between two ends
    return int(np.count_nonzero(passes)) >= len(passes) - FEW
