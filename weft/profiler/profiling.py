"""`profile`: a recording by a schedule, summed up; `record_function`: a span of the user's."""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from types import TracebackType
from typing import Any, TypeVar

from weft import _C
from weft.base.checks import of_type
from weft.profiler.averages import GROUPS, Columns, EventList, FunctionEventAvg, averages, events_of
from weft.profiler.schedules import ProfilerAction
from weft.see.graphs import Graph
from weft.see.recording import record

_F = TypeVar("_F", bound=Callable[..., Any])


class ProfilerActivity(Enum):
    """What a profile may look at; here the CPU is.

    >>> weft.profiler.ProfilerActivity.CPU.name
    'CPU'
    """

    CPU = 0
    CUDA = 2
    XPU = 1


def supported_activities() -> set[ProfilerActivity]:
    """What a profile here can look at: the CPU.

    >>> weft.profiler.supported_activities()
    {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """True: `profile` has the interface that PyTorch has by its library of that name.

    >>> weft.profiler.kineto_available()
    True
    """
    return True


class record_function(_C._Named):
    """A span with a name, round what runs in its scope; a decorator makes one of each call.

    It shows in profiles and recordings, and costs next to nothing where there are none.

    Raises:
        TypeError: a name that is no text.
        RuntimeError: entered again while it is open.

    >>> with weft.profiler.profile() as prof:
    ...     with weft.profiler.record_function("twice"):
    ...         y = weft.ones(3) * 2
    >>> [(e.key, e.count) for e in prof.key_averages()]
    [('twice', 1), ('aten::ones', 1), ('aten::mul', 1)]
    """

    __slots__ = ()

    def __call__(self, function: _F) -> _F:
        kind, name = type(self), self.name

        @functools.wraps(function)
        def within(*args: Any, **keywords: Any) -> Any:
            with kind(name):
                return function(*args, **keywords)

        return within  # type: ignore[return-value]


class profile:
    """A scope whose ops, nodes, steps and spans are timed, on the thread that enters it.

    With a schedule, `step()` is called after each step of the program; a cycle is kept until the
    next one begins, so that memory stays within that of one cycle.

    Args:
        activities: of `ProfilerActivity`; there is the CPU only, others warn.
        schedule: from the number of a step to an action; by default all is recorded.
        on_trace_ready: called with the profile at the end of a cycle, or of the scope.
        record_shapes: whether events know the shapes of their operands.
        profile_memory: whether tables show bytes: what the allocator gave, less what came back.
        with_stack: whether events know all lines that called them, not only their own.
        with_flops: whether tables show floating-point operations, from the records of ops.
        with_modules: whether calls of modules are events too.
        acc_events: whether sums are over all cycles, which keeps them all.
        experimental_config: None.

    Raises:
        ValueError: an `experimental_config`.

    >>> model = weft.nn.Linear(4, 2)
    >>> with weft.profiler.profile(record_shapes=True) as prof:
    ...     for _ in range(3):
    ...         model(weft.ones(8, 4)).sum().backward()
    >>> sums = prof.key_averages(group_by_input_shape=True)
    >>> [(e.count, e.input_shapes) for e in sums if e.key == "aten::linear"]
    [(3, [[8, 4], [2, 4], [2]])]
    >>> print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=3))
    ---...
    """

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, experimental_config: Any = None, acc_events: bool = False,
    ) -> None:  # fmt: skip
        if experimental_config is not None:
            raise ValueError(
                f"[profile] expected experimental_config=None, got {experimental_config!r}"
            )
        for other in set(activities or ()) - supported_activities():
            name = getattr(other, "name", other)
            warnings.warn(f"{name} is not available, disabling {name} profiling", stacklevel=2)
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.acc_events = acc_events
        self.step_num = 0
        self.current_action = self._action()
        self._metadata: dict[str, Any] = {}
        self._scope: record | None = None
        self._step: record_function | None = None
        self._kept: list[Columns] = []
        self._graph: Graph | None = None

    def _action(self) -> ProfilerAction:
        return self.schedule(self.step_num) if self.schedule else ProfilerAction.RECORD

    # --- the scope ------------------------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begins, as the scope does."""
        self._begin()

    def stop(self) -> None:
        """Ends, as the scope does."""
        was_open = self._scope is not None
        self._close_step()
        self._end()
        if was_open and self.on_trace_ready:
            self.on_trace_ready(self)

    def step(self) -> None:
        """The next step of the program begins."""
        self._close_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        records = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if before == ProfilerAction.RECORD_AND_SAVE:
            self._end()
            if self.on_trace_ready:
                self.on_trace_ready(self)
        elif before == ProfilerAction.RECORD and self.current_action not in records:
            warnings.warn(
                "Incorrect schedule: RECORD followed by " + self.current_action.name, stacklevel=2
            )
            self._end()
        self._begin()

    def _begin(self) -> None:
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            if self._scope is None:
                if not self.acc_events:
                    self._kept = []
                self._scope = record(stacks=self.with_stack)
                self._graph = self._scope.__enter__()
            if self.schedule:
                self._step = record_function(f"ProfilerStep#{self.step_num}")
                self._step.__enter__()

    def _close_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _end(self) -> None:
        if self._scope is None:
            return
        assert self._graph is not None
        self._scope.__exit__(None, None, None)
        self._scope = None
        self._kept.append(Columns(self._graph, self.with_modules))

    # --- what it has ----------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The recording of the last cycle.

        Raises:
            RuntimeError: nothing has been recorded.
        """
        return self._columns()[-1].graph

    def _columns(self) -> list[Columns]:
        if self._scope is not None:
            assert self._graph is not None
            return [*self._kept, Columns(self._graph, self.with_modules)]
        if not self._kept:
            raise RuntimeError(
                "[profile] expected a profile that has recorded, got none (Profiler didn't finish "
                "running). Hint: call step() after each step of the schedule"
            )
        return self._kept

    def events(self) -> EventList:
        """Each event by itself, in the order of their begins."""
        shown = [
            event
            for columns in self._columns()
            for event in events_of(columns, self.record_shapes, self.with_stack, self.with_flops)
        ]
        return self._list(shown)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False, *, group_by: str = "op",
    ) -> EventList:  # fmt: skip
        """Sums over the events of each name.

        Args:
            group_by_input_shape: apart for each kind of shapes, with `record_shapes=True`.
            group_by_stack_n: apart for each of so many lines of the stack, the innermost ones.
            group_by_overload_name: apart for each overload, which is each name.
            group_by: instead of "op" the path of the "module", the "line", or the "batch": what ran
                together under `autobatch`. What is inside of an event of the same group counts
                once.

        Raises:
            ValueError: another `group_by`.
        """
        if group_by not in GROUPS:
            raise ValueError(f"[key_averages] expected group_by of {GROUPS}, got {group_by!r}")
        shapes = group_by_input_shape and self.record_shapes
        sums: dict[Any, FunctionEventAvg] = {}
        for columns in self._columns():
            for e in averages(columns, group_by, shapes, group_by_stack_n, self.with_flops):
                key = e.key, str(e.input_shapes), tuple(e.stack)
                if key in sums:
                    sums[key].add(e)
                else:
                    sums[key] = e
        return self._list(sums.values())

    def _list(self, of: Iterable[Any]) -> EventList:
        columns = self._columns()
        kernels = sum(float(c.own_time[c.kernels].sum()) for c in columns)
        whole = sum(float(c.own_time.sum()) for c in columns)
        return EventList(
            of, profile_memory=self.profile_memory, with_flops=self.with_flops,
            overhead=(kernels, whole - kernels),
        )  # fmt: skip

    # --- files ----------------------------------------------------------------------------------

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace that Perfetto (ui.perfetto.dev) and chrome://tracing read.

        It is compressed if the path ends in ".gz": a million events take some 10 MB. Else it has
        48 MB at most: of more than some 300 000 events there are names and times alone, of more
        than these bytes take the shortest are left out, and `otherData` says how many.
        """
        from weft.profiler.trace import write_trace

        write_trace(
            path, self._columns(), self.record_shapes, self.with_stack, dict(self._metadata)
        )

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write a line for each stack, its lines from the outermost on and its time in
        microseconds: what flame graphs are made of. It needs `with_stack=True`.

        Raises:
            ValueError: another metric than "self_cpu_time_total", or no stacks.
        """
        if metric != "self_cpu_time_total":
            raise ValueError(f"metric should be one of: self_cpu_time_total, got {metric}")
        if not self.with_stack:
            raise ValueError("[export_stacks] expected a profile with with_stack=True, got False")
        total: dict[tuple[str, ...], float] = {}
        for columns in self._columns():
            for name, lines, own in zip(
                columns.keys, columns.stacks(), columns.own_time.tolist(), strict=True
            ):
                stack = *reversed(lines), name
                total[stack] = total.get(stack, 0.0) + own
        with open(path, "w", encoding="utf-8") as file:
            for stack, own in total.items():
                if int(own) > 0:
                    file.write(";".join(s.replace(";", ",") for s in stack) + f" {int(own)}\n")

    def add_metadata(self, key: str, value: str) -> None:
        """A text that the trace bears, beside its events.

        Raises:
            TypeError: a key that is no text.
            ValueError: a key that the format of the trace has itself.
        """
        self._metadata[_free_key("add_metadata", key)] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """A value, as JSON text, that the trace bears.

        Raises:
            TypeError: a key or value that is no text.
            ValueError: no JSON; a key that the format of the trace has itself.
        """
        of_type("add_metadata_json", "value", value, str)
        try:
            found = json.loads(value)
        except ValueError as error:
            raise ValueError(f"[add_metadata_json] expected JSON, got {value!r}: {error}") from None
        self._metadata[_free_key("add_metadata_json", key)] = found


def _free_key(who: str, key: Any) -> str:
    from weft.profiler.trace import TAKEN

    of_type(who, "key", key, str)
    if key in TAKEN:
        raise ValueError(f"[{who}] expected a key that a trace has not itself, got {key!r}")
    return str(key)
