"""Dynamic batching: code written for one example runs as batches, without padding.

In deferred execution a call is kept instead of run, and its result knows its shape and dtype only.
When a value is read (`item`, `if`, printing), all that was kept runs, calls of one kind together
(Neubig, Goldberg and Dyer 2017, "On-the-fly Operation Batching in Dynamic Computation Graphs").
`autobatch` runs the examples in fibers: one that reads a value waits in its own until all wait or
are done, and one flush serves them all.

In reading order: `autobatched` is what users call; `examples` runs the examples of a batch in
`fibers`, in the order that a `schedule` says; a `habit` knows from runs before whether batching
pays, for functions that are `alike`; `stacked` joins results, `report` is what `explain` shows.
"""
