"""`weft run --compare`: a program's runs with weft and with PyTorch, side by side.

Two processes run the program, in turns: PyTorch's goes to the next value that it tells, then
weft's. Their events (`wire`) must be the same ones, from the same lines of the program, and their
tensors the same but for rounding. The first that is not ends both.

Note [What weft takes over]
Rounding grows from step to step, and an optimizer may make much of little: Adam's first step is as
long for a gradient of 1e-9 as for one of 1. So weft goes on from PyTorch's values after each
`backward` (the gradients) and `step` (the parameters), as long as they are the same but for
rounding: every step is compared by itself. Where the generators have come to other states, the two
libraries draw otherwise there: weft takes PyTorch's result and state, and the report says so.
Where `sort`, `topk` or their like find values that are the same but for rounding, either may come
first: if both runs' indices name the same values, weft goes on with PyTorch's.
Clocks, which no two runs see alike, show weft what PyTorch saw.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import IO, Any, BinaryIO, NamedTuple

from weft.base import alias
from weft.running.apart import Layer
from weft.running.differences import Measure, Tolerance, same_line, same_order
from weft.running.rewriting import Site
from weft.running.wire import Event, Leaf, Reply, receive, send

__all__ = ["Comparison", "Difference", "Side"]

_BLOCK = 1 << 20
_NOWHERE = Site("", 0, 0, 0, 0, "")
_ENDS = ("exit", "raise", "gone")


class Difference(NamedTuple):
    """What differs first: where, in a word, and what each of the two did."""

    site: Site
    what: str
    torch: str
    weft: str
    more: tuple[str, ...] = ()


class Side:
    """One of the two processes."""

    def __init__(self, name: str, flags: Sequence[str], words: Sequence[str], seed: int,
                 folder: str) -> None:  # fmt: skip
        self.name = name
        self._errors: IO[bytes] | None = None if name == "weft" else tempfile.TemporaryFile()
        self._layer = Layer()
        told, tells = os.pipe()
        asked, asks = os.pipe()
        command = [sys.executable, *flags, "-m", "weft.running.observing", "torch", str(seed)]
        try:
            self._process = subprocess.Popen(
                [*command, str(tells), str(asked), folder, *words], env=_environment(name),
                pass_fds=(tells, asked), stdin=subprocess.DEVNULL, start_new_session=True,
                stdout=None if name == "weft" else subprocess.DEVNULL, stderr=self._errors,
                preexec_fn=self._layer.enter,
            )  # fmt: skip
        finally:
            os.close(tells)
            os.close(asked)
        self.events: BinaryIO = os.fdopen(told, "rb", _BLOCK)
        self._answers: BinaryIO = os.fdopen(asks, "wb")
        self._due: tuple[Reply, IO[bytes] | None] | None = None

    def next(self) -> Event:
        """What it does next; that it is gone, where it ended without a word."""
        try:
            event: Event = receive(self.events)
        except (EOFError, pickle.UnpicklingError):
            return Event("gone", _NOWHERE, self._process.wait(), self._last_words())
        return event

    def owe(self, reply: Reply, values: IO[bytes] | None = None) -> None:
        """It gets a reply when it is let go on; `values` are those of the reply's leaves."""
        self._due = reply, values

    def release(self) -> None:
        """Lets it go on."""
        if self._due is None:
            return
        (reply, values), self._due = self._due, None
        try:
            send(self._answers, reply)
            if values is not None:
                values.seek(0)
                while block := values.read(_BLOCK):
                    self._answers.write(block)
                values.close()
            self._answers.flush()
        except BrokenPipeError:
            pass  # it is gone: `next` says so

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def finish(self) -> None:
        """Waits for its end."""
        self.release()
        self._process.wait()

    def close(self) -> None:
        """Ends it, and what it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for stream in (self.events, self._answers, self._errors):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        self._layer.close()


def _environment(name: str) -> dict[str, str]:
    """That of a run: with weft as torch, or with PyTorch; functions run as they are written."""
    environment = dict(os.environ)
    environment.setdefault("PYTHONHASHSEED", "0")
    if name == "weft":
        alias.to_children(environment)
        environment["WEFT_COMPILE"] = "0"
    else:
        alias.not_to_children(environment)
        environment["TORCHDYNAMO_DISABLE"] = "1"
        environment.setdefault("OMP_WAIT_POLICY", "passive")  # the other one runs meanwhile
    return environment


class Comparison:
    """The two runs as they go.

    Attributes:
        taken: the lines where weft took PyTorch's numbers, because they drew otherwise.
        prints: printed lines that differ; they end nothing.
        count: how many tensors have been compared.
        ended: how both ended, in words.
    """

    def __init__(self, torch: Side, weft: Side, tolerance: dict[str, float]) -> None:
        self._torch, self._weft, self._tolerance = torch, weft, tolerance
        self.taken: dict[Site, int] = {}
        self.prints: list[Difference] = []
        self.count, self.ended = 0, ""
        self._branch: Event | None = None

    def run(self) -> Difference | None:
        """Goes through both; what differs first, None if nothing does."""
        while True:
            theirs = self._torch.next()
            self._weft.release()
            ours = self._weft.next()
            found = self._judge(theirs, ours)
            if found is not None or theirs.kind in _ENDS:
                return found
            self._torch.release()

    def _judge(self, theirs: Event, ours: Event) -> Difference | None:
        if theirs.kind != ours.kind or theirs.site[:3] != ours.site[:3]:
            return self._parted(theirs, ours)
        kind, site = theirs.kind, theirs.site
        if kind in ("value", "order", "state"):
            return self._tensors(theirs, ours)
        if kind == "clock":
            self._torch.owe(Reply())
            self._weft.owe(Reply(clock=theirs.what))
        elif kind == "print":
            print(ours.text, flush=True)
            if not same_line(theirs.text, ours.text):
                self.prints.append(Difference(site, "prints", theirs.text, ours.text))
        elif theirs.what != ours.what:
            what = {
                "branch": f"the runs part at this {site.name!r}", "caught": "the error caught",
                "exit": "the exit status",
            }.get(kind, "the error")  # fmt: skip
            return Difference(site, what, _said(theirs), _said(ours))
        if kind == "branch":
            self._branch = theirs
        elif kind in _ENDS:
            at = f" at line {site.line}" if site.line else ""
            self.ended = f"both end with {ours.what}{at}" if theirs.what else ""
        return None

    def _parted(self, theirs: Event, ours: Event) -> Difference:
        sites = [event.site for event in (theirs, ours) if event.site.line]
        first = min(sites, default=_NOWHERE, key=lambda site: (site.file != sites[0].file, site[1]))
        for event in (ours, theirs):
            if event.kind in ("raise", "caught") and event.site.line:
                first = event.site
        more: tuple[str, ...] = ()
        if self._branch is not None:
            at = f"{os.path.basename(self._branch.site.file)}:{self._branch.site.line}"
            more = (f"the last branch in common: {at}, {self._branch.what} in both",)
        return Difference(first, "the runs part", _said(theirs), _said(ours), more)

    # ---- tensors

    def _tensors(self, theirs: Event, ours: Event) -> Difference | None:
        site, is_state, is_order = theirs.site, theirs.kind == "state", theirs.kind == "order"
        a_names, b_names = ([leaf.name for leaf in event.leaves] for event in (theirs, ours))
        if not is_state and a_names != b_names:
            who = f"{site.name}: its tensors"
            return Difference(site, who, _listed(a_names), _listed(b_names))
        drawn = theirs.state != ours.state
        takes = drawn or is_state
        kept = tempfile.SpooledTemporaryFile(1 << 24) if takes or is_order else None
        scale = max((leaf.scale for leaf in theirs.leaves), default=0.0) if is_state else 0.0
        found, take, operand = [], [], None
        for a, k in _pairs(theirs.leaves, ours.leaves):
            b = None if k is None else ours.leaves[k]
            if a is not None and b is not None and (form := _other_form(site, a, b)) is not None:
                found.append(form)
                break  # the bytes that follow are not alike
            begin = kept.tell() if kept is not None else 0
            measure = self._read(a, b, scale, kept, is_order)
            tied = False
            if measure is not None and measure.beyond and not drawn:
                assert a is not None
                tied = operand is not None and same_order(operand, measure)
                if not tied:
                    found.append(_apart(site, a, measure))
            if is_order and operand is None:
                operand = measure
            if (takes or tied) and k is not None and measure and not measure.same_bits:
                take.append(k)
            elif kept is not None:
                kept.seek(begin)
                kept.truncate()
        if found:
            others = [f"{len(found) - 1} more differ there"] if len(found) > 1 else []
            return found[0]._replace(more=(*found[0].more, *others))
        if drawn:
            self.taken[site] = self.taken.get(site, 0) + 1
        self._torch.owe(Reply())
        self._weft.owe(Reply(tuple(take), theirs.state if drawn else b""), kept)
        return None

    def _read(
        self, a: Leaf | None, b: Leaf | None, scale: float, kept: Any, keeps: bool
    ) -> Measure | None:
        """The values of both; None where one has none, or has told them. PyTorch's are `kept` for
        weft, and the measure `keeps` both for `same_order`."""
        if a is None or b is None or not a.size or not b.size:
            _skip(self._torch.events, a.size if a is not None else 0)
            _skip(self._weft.events, b.size if b is not None else 0)
            return None
        self.count += 1
        tolerance = Tolerance.of(a.dtype)
        if tolerance.relative:
            tolerance = tolerance._replace(**self._tolerance)
        measure, left = Measure(a, tolerance, scale, keeps), a.size
        while left:
            block = min(left, _BLOCK)
            theirs, ours = self._torch.events.read(block), self._weft.events.read(block)
            measure.add(theirs, ours)
            if kept is not None:
                kept.write(theirs)
            left -= block
        return measure


def _pairs(
    theirs: Sequence[Leaf], ours: Sequence[Leaf]
) -> Iterator[tuple[Leaf | None, int | None]]:
    """The leaves by their names, in both orders: PyTorch's and the number of weft's."""
    left = Counter(leaf.name for leaf in ours)
    k = 0
    for leaf in theirs:
        if not left[leaf.name]:
            yield leaf, None
            continue
        while ours[k].name != leaf.name:
            left[ours[k].name] -= 1
            yield None, k
            k += 1
        left[leaf.name] -= 1
        yield leaf, k
        k += 1
    yield from ((None, j) for j in range(k, len(ours)))


def _listed(names: list[str]) -> str:
    return f"{len(names)}: {', '.join(name or 'itself' for name in names[:8])}"


def _other_form(site: Site, a: Leaf, b: Leaf) -> Difference | None:
    """What of two tensors differs besides their values."""
    for what in ("dtype", "shape", "requires_grad"):
        if getattr(a, what) != getattr(b, what):
            who = f"{_called(site, a.name)}: its {what}"
            return Difference(site, who, _form(a, what), _form(b, what))
    return None


def _skip(stream: BinaryIO, size: int) -> None:
    while size:
        size -= len(stream.read(min(size, _BLOCK)))


def _apart(site: Site, leaf: Leaf, measure: Measure) -> Difference:
    who, size = _called(site, leaf.name), list(leaf.shape)
    at = f" at {measure.index()}" if leaf.shape else ""
    both = [f"{leaf.dtype} {size}: {value!r}{at}" for value in measure.values]
    if measure.whole is not None:
        both = [f"{leaf.dtype} {size}: {values}" for values in measure.whole]
    more = (f"largest difference: {measure.largest:.3g}{at}; "
            f"{measure.beyond} of {measure.total} elements differ",)  # fmt: skip
    return Difference(site, who, both[0], both[1], more)


def _called(site: Site, name: str) -> str:
    if not name:
        return site.name
    return name if site.name in ("backward", "step") else f"{site.name}, {name}"


def _form(leaf: Leaf, what: str) -> str:
    value = getattr(leaf, what)
    return str(list(value)) if what == "shape" else str(value)


def _said(event: Event) -> str:
    at = f"line {event.site.line}" if event.site.line else "its libraries"
    if event.kind == "branch":
        return f"{event.what} at {at}"
    if event.kind in ("raise", "caught"):
        does = "raises" if event.kind == "raise" else "catches"
        return f"{does} {event.what} at {at}: {event.text}"
    if event.kind == "exit":
        return f"ends with {event.what}"
    if event.kind == "gone":
        by = signal.Signals(-event.what).name if event.what < 0 else f"status {event.what}"
        return f"is gone with {by}" + (f": {event.text}" if event.text else "")
    if event.kind == "print":
        return f"prints {event.text!r} at {at}"
    return f"goes on to {event.site.name} at {at}"
