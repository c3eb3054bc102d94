"""`stop_when`: breakpoints on what calls compute, and what happens at one."""

from __future__ import annotations

import bdb
import fnmatch
import math
import os
import pdb
import sys
import traceback
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from types import CodeType, EllipsisType, FrameType
from typing import Any, cast

import weft
from weft import _C, Tensor
from weft.base.checks import of_type
from weft.base.failures import NamesWithin, inner_path
from weft.base.frames import user_frame
from weft.base.shown import dtype_name
from weft.batching import current_example
from weft.see.events import Event
from weft.see.graphs import Graph, is_at
from weft.see.recording import Recording
from weft.see.tables import Site

__all__ = ["Stop", "StopError", "Stopped", "stop_when"]

KEPT = 100_000  # events that `Stopped.graph` may go back, and more within one call of a module
_WANTED = False, 0, KEPT


class StopError(RuntimeError):
    """A breakpoint was hit where there is no terminal for a debugger."""


class Stopped:
    """A call at which a breakpoint stopped: it has run, and its results have gone nowhere yet.

    Attributes:
        stop: the breakpoint.
        graph: what ran up to here, as far back as it is kept.
        event: the call, the last of the graph that has ended.
        inputs, outputs: its operands, None where none was given, and its results.
        frame: the user's innermost frame; of a batch and in backward, that which wanted the values.
    """

    def __init__(
        self, stop: Stop, event: Event, inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor], is_next: bool = False,
    ) -> None:  # fmt: skip
        self.stop, self.event = stop, event
        self.graph: Graph = event.graph
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.frame = user_frame()
        self._is_next = is_next  # it comes after a stop, whatever it is
        self._is_over = False

    @property
    def output(self) -> Tensor:
        """The first result."""
        return self.outputs[0]

    def change(self, value: Any, k: int = 0) -> None:
        """Writes `value`, a tensor or number, into result `k`. What backward saved of the result is
        changed along with it, and no error says so.

        Raises:
            RuntimeError: a value that does not broadcast to the result's shape; the program has
                gone on.
        """
        self._expect_stopped("change")
        with weft.no_grad():
            self.outputs[k].data.copy_(weft.as_tensor(value))

    def step(self) -> None:
        """Goes on to the next result of whatever call and stops there.

        Raises:
            RuntimeError: the program has gone on; the breakpoint has been removed.
        """
        if not self.stop._is_set:
            raise RuntimeError(
                "[step] expected a breakpoint that is set, got one that was removed. "
                "Hint: step before remove(), within its `with`"
            )
        self._expect_stopped("step")
        self.stop._steps = True
        self.stop._log.break_next(self.stop)

    def _expect_stopped(self, who: str) -> None:
        if self._is_over:
            raise RuntimeError(
                f"[{who}] expected a program that is stopped, got one that has gone on from "
                f"{self.event.name}. Hint: {who} in the action, or in the debugger"
            )

    def __str__(self) -> str:
        event = self.event
        shown = ", ".join(map(_shown, self.outputs))
        why = "the next op" if self._is_next else f"which has {self.stop}"
        rows = [f"{event.name} -> {shown}, {why}"]
        if event.inputs:
            rows.append("of " + ", ".join(map(_shown, self.inputs)))
        if event.site is not None:
            what = "made at" if event.backward else "at"
            rows.append(f"{what} {event.site}, in {event.site.function}: {event.site.source}")
        around = event.parent
        while around is not None and around.kind != "node":
            around = around.parent
        if around is not None:
            rows.append(f"in backward, {around.name}")
        if event.module:
            rows.append(f"in {event.module}")
        example = current_example()
        if example is not None:
            rows.append(f"in example {example} of a batch")
        return "\n  ".join(rows)


def _shown(t: Tensor | None) -> str:
    if t is None:
        return "None"
    return f"{dtype_name(t.dtype)}{list(t.shape)}"


class Stop:
    """A breakpoint that `stop_when` has set on this thread. As a context manager it is removed at
    the end; entered again, it is set again.

    Attributes:
        hits: how often it has stopped.
    """

    def __init__(
        self,
        conditions: dict[str, Any],
        when: Callable[[Tensor], object] | None,
        action: Callable[[Stopped], object] | None,
    ) -> None:
        self.hits = 0
        self._conditions, self._when, self._action = conditions, when, action
        self._is_set = self._steps = False
        self._set()

    def _set(self) -> None:
        conditions = self._conditions
        self._log = _C._Log.running() or _C._Log()
        sizes, rest = _sizes(conditions.get("shape"))
        asks = sum(1 << k for k, name in enumerate(("op", "line", "module")) if name in conditions)
        self._log.start(*_WANTED)
        self._log.break_at(
            self, conditions.get("nan", False), conditions.get("inf", False),
            conditions.get("norm_above", math.nan), sizes, rest,
            int(conditions.get("backward", -1)), asks,
        )  # fmt: skip
        self._is_set, self._steps = True, False

    def remove(self) -> None:
        """Stops no more. Of one that is removed already, nothing."""
        if self._is_set:
            self._is_set = False
            self._log.break_no_more(self)
            self._log.stop(*_WANTED)

    def __enter__(self) -> Stop:
        if not self._is_set:
            self._set()
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __str__(self) -> str:
        shown = [f"{k}={v!r}" for k, v in self._conditions.items() if k != "shape"]
        if shape := self._conditions.get("shape"):
            sizes = ", ".join("..." if s is ... else str(s) for s in shape)
            shown.append(f"shape=({sizes})")
        if self._when is not None:
            shown.append(f"when={getattr(self._when, '__name__', self._when)}")
        return ", ".join(shown)

    def __repr__(self) -> str:
        return f"<Stop {self}, {self.hits} hits{'' if self._is_set else ', removed'}>"

    # --- what the log asks --------------------------------------------------------------------

    def _is_op(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self._conditions["op"])

    def _is_line(self, site: tuple[CodeType, int] | None) -> bool:
        if site is None:
            return False
        code, line = site
        where = Site(code.co_filename, line, code.co_name)
        return is_at(where, self._conditions["line"])

    def _is_in(self, modules: list[Any]) -> bool:
        path = ""
        for outer, module in zip(modules, modules[1:]):
            path = inner_path(path, NamesWithin(outer).get(id(module)), module)
        return bool(modules) and fnmatch.fnmatchcase(path, self._conditions["module"])

    def _stopped(
        self, log: _C._Log, event: int, inputs: list[Tensor | None], outputs: list[Tensor]
    ) -> bool:
        steps, self._steps = self._steps, False
        if not steps and self._when is not None and not any(self._when(t) for t in outputs):
            return False
        self.hits += 1
        graph = Recording.until_now(log)
        stopped = Stopped(self, graph[event], inputs, outputs, steps)
        try:
            (self._action or debug)(stopped)
        finally:
            stopped._is_over = True
        return True


def _sizes(shape: Any) -> tuple[tuple[int, ...] | None, int]:
    """The sizes, -1 for any, without `...`, and where that stands; -1: nowhere."""
    if shape is None:
        return None, -1
    items = list(of_type("stop_when", "shape", shape, Sequence))
    rest = items.index(...) if ... in items else -1
    if rest >= 0:
        del items[rest]
    if not all(i is None or (type(i) is int and i >= 0) for i in items):
        raise TypeError(
            f"[stop_when] expected sizes, None and at most one `...` in shape, got {shape}"
        )
    return tuple(-1 if i is None else i for i in items), rest


def stop_when(
    *,
    nan: bool = False,
    inf: bool = False,
    norm_above: float | None = None,
    op: str | None = None,
    shape: Sequence[int | EllipsisType | None] | None = None,
    module: str | None = None,
    line: str | int | None = None,
    backward: bool | None = None,
    when: Callable[[Tensor], object] | None = None,
    action: Callable[[Stopped], object] | None = None,
) -> Stop:
    """A breakpoint: the debugger comes up in the user's frame after a call of which all is true.

    It holds on this thread, in forward and backward, until `remove()`, or to the end of `with`. In
    the debugger `inputs`, `output` and `stopped` (a `Stopped`) are at hand; `next_op` goes on to
    the next call, `stopped.change(value)` writes another result, `continue` goes on. It is pdb, or
    what `breakpoint()` calls if that is something else (PYTHONBREAKPOINT, sys.breakpointhook).
    Where standard input is no terminal, as in the workers of a DataLoader, it raises `StopError`.

    Under `autobatch` calls run in batches: it stops in the frame that wanted the values, after the
    batch, whose `event.line` is the line of the call.

    Args:
        nan: a result has nan, and no operand that a call has made has: the call that made it first.
        inf: a result has an infinite element, and no operand has, as a mask; with `nan`, either.
        norm_above: the root of the sum of the squares of a result's elements is above.
        op: its name, with `*` and `?` as in file names.
        shape: of a result; None stands for any size, `...` for any sizes.
        module: the path of the module that it is in, from the outermost one, with `*` and `?`.
        line: "model.py:42", "model.py" or 42; in backward, of the forward call.
        backward: whether it runs within backward.
        when: a function of each result, asked last.
        action: called with the `Stopped` in place of the debugger.

    Raises:
        ValueError: no condition.
        TypeError: an argument of another type.

    >>> found = []
    >>> with weft.stop_when(nan=True, action=found.append):
    ...     y = (weft.tensor([1.0, -1.0]).log() * 2).sum()
    >>> print(found[0].event.name, found[0].output, len(found))
    log tensor([0., nan]) 1
    """
    of_type("stop_when", "op", op, str, None)
    of_type("stop_when", "module", module, str, None)
    of_type("stop_when", "line", line, str, int, None)
    of_type("stop_when", "norm_above", norm_above, float, int, None)
    for name, flag in (("nan", nan), ("inf", inf), ("backward", backward)):
        of_type("stop_when", name, flag, bool, None)
    of_type("stop_when", "when", when, Callable, None)
    of_type("stop_when", "action", action, Callable, None)
    given = dict(
        nan=nan or None, inf=inf or None, norm_above=norm_above, op=op, shape=shape, module=module,
        line=None if line is None else str(line), backward=backward,
    )  # fmt: skip
    conditions = {name: value for name, value in given.items() if value is not None}
    if not conditions and when is None:
        raise ValueError("[stop_when] expected a condition, got none. Hint: stop_when(nan=True)")
    _sizes(shape)
    return Stop(conditions, when, action)


# --- the debugger ---------------------------------------------------------------------------------


def debug(stopped: Stopped) -> None:
    """Brings up the debugger; StopError where there is no terminal for it."""
    hook = os.environ.get("PYTHONBREAKPOINT", "")
    if hook == "0":
        return  # as breakpoint() has it
    if hook or sys.breakpointhook is not sys.__breakpointhook__:
        _by_hook(stopped, stopped.inputs, stopped.output)
    elif sys.stdin is not None and sys.stdin.isatty():
        Debugger(stopped).stop()
    else:
        raise StopError(
            f"[stop_when] expected a terminal for the debugger, got none. Stopped at {stopped}"
        )


def _by_hook(stopped: Stopped, inputs: list[Tensor | None], output: Tensor) -> None:
    """`up` leads to the user's frame; here are `stopped`, `inputs` and `output`."""
    print(f"stopped at {stopped}", file=sys.stderr)
    breakpoint()


class Debugger(pdb.Pdb):
    """pdb in a frame that is running, with the names of a `Stopped` among its own."""

    _goes_on = False

    def __init__(self, stopped: Stopped) -> None:
        self._stopped = stopped
        self._locals: MutableMapping[str, Any] = {}
        super().__init__()
        self.prompt = "(weft) "

    def stop(self) -> None:
        """Asks for commands, then goes on as they say."""
        frame: FrameType | None = self._stopped.frame
        self.message(f"stopped at {self._stopped}")
        self.reset()
        while frame is not None:
            frame.f_trace = self.trace_dispatch
            self.botframe = frame
            frame = frame.f_back
        self.set_step()
        self.interaction(self._stopped.frame, None)
        if self.quitting:
            sys.settrace(None)
            raise bdb.BdbQuit
        if not self._goes_on:
            sys.settrace(self.trace_dispatch)

    @property
    def curframe_locals(self) -> MutableMapping[str, Any]:
        """The frame's names, then those at hand: nothing is written among the user's."""
        stopped = self._stopped
        at_hand = {"stopped": stopped, "inputs": stopped.inputs, "output": stopped.output}
        return ChainMap(self._locals, at_hand)

    @curframe_locals.setter
    def curframe_locals(self, names: Mapping[str, Any]) -> None:
        # CPython 3.13's is no MutableMapping by its type; None of no frame
        self._locals = {} if names is None else cast("MutableMapping[str, Any]", names)

    def set_continue(self) -> None:
        self._goes_on = not self.breaks
        super().set_continue()

    def _error_exc(self) -> None:
        """With the words of the error: pdb shows the last line, which is a note."""
        self.error("\n".join(traceback.format_exception_only(sys.exc_info()[1])).strip())

    def do_next_op(self, arg: str) -> Any:
        """next_op
        Go on to the next result of whatever op, and stop there.
        """
        try:
            self._stopped.step()
        except RuntimeError as error:  # its breakpoint was removed
            self.error(str(error))
            return None
        return self.do_continue(arg)
