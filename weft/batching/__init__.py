"""Dynamic batching: code written for one example runs as batches, without padding.

In deferred execution a call is kept instead of run, and its result knows its shape and dtype only.
When a value is read (`item`, `if`, printing), all that was kept runs, calls of one kind together
(Neubig, Goldberg and Dyer 2017, "On-the-fly Operation Batching in Dynamic Computation Graphs").
`autobatch` runs the examples in fibers: one that reads a value waits in its own until all wait or
are done, and one flush serves them all. Compiled functions wait without one.

In reading order: `autobatched` is what users call; `examples` runs the examples of a batch in
`fibers`, in the order that a `schedule` says; a `habit` knows from runs before whether batching
pays, for functions that are `alike`; `stacked` joins results, `report` is what `explain` shows.
"""

from __future__ import annotations

from weft import _C

__all__ = ["current_example"]


def current_example(outer: int = 0) -> int | None:
    """The index of the example that runs, of those that `autobatch` was called with.

    Works batched, one by one and with `autobatch.enabled = False`; for conditional breakpoints and
    messages. None outside of every example.

    Args:
        outer: how many calls of `autobatch` around the innermost one to look at.

    >>> def f(x):
    ...     return x * weft.batching.current_example()
    >>> weft.autobatch(f)([weft.ones(1), weft.ones(2)])
    [tensor([0.]), tensor([1., 1.])]
    """
    index: int | None = _C._example_index(outer)
    return index
