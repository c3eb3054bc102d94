"""`record`: a scope whose events become a graph; `graph`, `last_graph`: after the fact."""

from __future__ import annotations

from types import TracebackType

from weft import _C, Tensor
from weft.see.graphs import Graph
from weft.see.tables import Tables

SAMPLE = 256  # elements of each result that statistics are of
WHOLE = 1 << 62  # events after which a log may begin anew: never


class Recording(Graph):
    """A graph that grows while its log does. Its tables are taken when somebody asks."""

    def __init__(self, log: _C._Log, begins: int) -> None:
        super().__init__()
        self._log: _C._Log | None = log  # as long as more may be taken from it
        self._begins = begins
        self._known: Tables | None = None

    @classmethod
    def until_now(cls, log: _C._Log) -> Recording:
        """What a log has so far; of what follows it knows nothing."""
        graph = cls(log, 0)
        graph._take()
        return graph

    @property
    def _tables(self) -> Tables:
        known, log = self._known, self._log
        if known is None or (log is not None and log.count != known.log_count):
            assert log is not None
            known = self._known = Tables(log, self._begins)
            self._forget()
            if log.finished:
                self._log = None
        return known

    @property
    def _count(self) -> int:
        """How many events there are, without a look at them."""
        return len(self) if self._log is None else self._log.count - self._begins

    def _take(self) -> None:
        self._known, self._log = self._tables, None

    def _end(self) -> None:
        """No more comes."""
        if self._log is not None and not self._log.finished:
            self._take()  # the scope around goes on


class record:
    """In this scope what runs on this thread is recorded, forward and backward.

    Ops, those inside of others too, calls of modules, passes of backward with their nodes, custom
    functions and optimizers' steps, each with its line, shapes, dtypes and time. Of values it keeps
    nothing but what `statistics` says. Under `autobatch` the batches show, as calls of the line
    that the first call of each has.

    Args:
        stacks: whether to keep the lines that called what ran, some 1 us a call.
        times: whether to take the time at each begin and end, some ns a call.
        statistics: whether to look at the floating results of calls: mean, std, min, max, nan and
            inf of at most 256 elements of each, in runs of 16 at equal distances.

    >>> layer = weft.nn.Linear(3, 2)
    >>> with weft.record() as g:
    ...     loss = layer(weft.ones(4, 3)).sum()
    ...     loss.backward()
    >>> [(e.name, e.shape) for e in g.calls if not e.backward]
    [('ones', (4, 3)), ('linear', (4, 2)), ('sum', ())]
    >>> g.find("linear")[0].inputs[1].name
    'weight'
    """

    def __init__(
        self, *, times: bool = True, statistics: bool = False, stacks: bool = False
    ) -> None:
        self._statistics = bool(statistics)
        self._wanted = bool(times), SAMPLE if statistics else 0, WHOLE, bool(stacks)
        self._open: list[tuple[_C._Log, Recording]] = []  # it may be entered again while it is open

    def __enter__(self) -> Recording:
        log = _C._Log.running() or _C._Log()
        log.start(*self._wanted)
        graph = Recording(log, log.count)
        graph.statistics = self._statistics
        self._open.append((log, graph))
        return graph

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._open:
            raise RuntimeError("[record] expected a scope that was entered, got one that is not")
        log, graph = self._open.pop()
        log.stop(*self._wanted)
        graph._end()


def last_graph() -> Graph | None:
    """What led to the last call of an op that failed, which is its last event; None: none has.

    Within a recording that is the recording, as long as somebody has it. Otherwise it is the
    autograd graph behind the failed call's operands, the nearest 1000 calls, with what `graph`
    knows of them, and no values.

    >>> w = weft.ones(3, requires_grad=True)
    >>> try:
    ...     (w * 2) @ weft.ones(4)
    ... except RuntimeError:
    ...     print(weft.last_graph().text(times=False, lines=False))
    2 calls
      mul -> [3]
      matmul FAILED
    """
    log = _C._last_failed()
    if log is None:
        return None
    return Recording.until_now(log)


def graph(*tensors: Tensor) -> Graph:
    """The autograd graph behind tensors, after the fact: the calls that made them.

    A call knows its op, its line, its results' shapes and dtypes, and where its inputs come from:
    no times, modules or statistics, and no calls outside of the graph. `record` has all of these.

    Raises:
        TypeError: something that is no tensor, or none.

    >>> w = weft.ones(3, requires_grad=True)
    >>> print(weft.graph((w * 2).sum()).text(times=False, lines=False))
    2 calls
      mul -> [3]
      sum -> []
    """
    if not tensors or not all(isinstance(t, Tensor) for t in tensors):
        got = ", ".join(type(t).__name__ for t in tensors) or "none"
        raise TypeError(f"[graph] expected tensors, got {got}")
    log = _C._Log()
    log.add_nodes(list(tensors))
    return Recording.until_now(log)
