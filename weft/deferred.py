"""Dynamic batching: code written for one example runs as batches, without padding.

In deferred execution a call is kept instead of run, and its result knows its shape and dtype only.
When a value is read (`item`, `if`, printing), all that was kept runs, calls of one kind together
(Neubig, Goldberg and Dyer 2017, "On-the-fly Operation Batching in Dynamic Computation Graphs").
`autobatch` runs the examples in fibers: one that reads a value waits in its own until all wait or
are done, and one flush serves them all.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from typing import Any

from weft import _C
from weft._modes import DEFER

__all__ = ["autobatch", "deferred", "explain"]


class _Example:
    """One example under way; `error` or `result` in the end."""

    __slots__ = ("args", "error", "failure", "first", "number", "result", "wants_turn")

    def __init__(self, args: tuple[Any, ...], number: int) -> None:
        self.args, self.number = args, number
        self.failure: BaseException | None = None  # of a call of its own that a flush ran
        self.wants_turn = False
        self.first = False  # all examples before it are done
        self.error: BaseException | None = None
        self.result: Any = None


def _run(
    fn: Callable[..., Any], examples: list[tuple[Any, ...]], kwargs: dict[str, Any]
) -> tuple[list[tuple[Any, BaseException | None]], bool]:
    """`fn(*example, **kwargs)` for every example, in fibers: results and exceptions.

    And whether any example read a value. A fiber takes the next example when it is done with its
    own, so a function that reads nothing needs one for all examples.
    """
    from weft import _fibers

    mode, dtype, context = _C._mode(), _C.get_default_dtype(), copy_context()
    all_of = [_Example(args, next(_numbers)) for args in examples]
    _owners.update((example.number, example) for example in all_of)
    todo: deque[_Example] = deque(all_of)
    waiting: list[_fibers.Fiber] = []
    resumed: deque[_fibers.Fiber] = deque()

    def work(fiber: _fibers.Fiber) -> None:
        nonlocal dtype
        while todo:
            fiber.example = example = todo.popleft()
            fiber.gr_context = context.copy()
            example.first = not waiting
            _C._set_mode(mode | DEFER)
            _C._set_owner(example.number)
            try:
                example.result = fn(*example.args, **kwargs)
            except Exception as error:
                example.error = error
            dtype = _C.get_default_dtype()

    def back() -> None:  # to the state of the caller
        _C._set_mode(mode)
        _C._set_owner(owner)

    owner, at_once = _C._set_owner(0), _C._set_at_once(False)
    nested, reads = _fibers.runs(), False
    try:
        while todo:
            fiber = _fibers.take(work)
            if fiber.goes_on():
                _fibers.give_back(fiber)
            else:
                waiting.append(fiber)
                _C.set_default_dtype(dtype)
        while waiting:
            reads = True
            back()
            if not _C._wait():
                _flush("values that are read")
            # The last one goes on as the plain loop would: it has read a value.
            _C._set_at_once(len(waiting) == 1 and not nested)
            resumed, waiting = deque(waiting), []
            while resumed:
                fiber = resumed.popleft()
                fiber.example.first = not waiting
                if (fiber.example.wants_turn and waiting) or not fiber.goes_on():
                    waiting.append(fiber)
                else:
                    _fibers.give_back(fiber)
    except BaseException:
        for fiber in (*waiting, *resumed):
            fiber.throw()  # an interrupt: the others end where they wait
        _owners.update(dict.fromkeys((example.number for example in all_of), _GONE))
        raise
    finally:
        _C._set_at_once(at_once)
        back()
    if mode & DEFER:  # what still waits belongs to whoever runs this
        heir = _owners.get(owner)
        for example in all_of:
            if heir is None:
                del _owners[example.number]
            else:
                _owners[example.number] = heir
    else:
        _flush("the end")
        mine = set(all_of)
        for number, owning in list(_owners.items()):  # those of inner batches too
            if owning in mine:
                del _owners[number]
        for example in all_of:
            if example.failure is not None:  # before whatever Python raised later
                example.error = example.failure
            elif example.error is None:
                example.error = _settle(example.result)
    return [(example.result, example.error) for example in all_of], reads


def _run_all(
    fn: Callable[..., Any], examples: list[tuple[Any, ...]], kwargs: dict[str, Any], step: int
) -> tuple[list[Any], bool]:
    """The results of all examples, `step` at once, and whether the last ones read a value.

    Raises the first exception by example.
    """
    done: list[tuple[Any, BaseException | None]] = []
    reads = False
    for start in range(0, len(examples), step):
        more, reads = _run(fn, examples[start : start + step], kwargs)
        done += more
    for index, (_, error) in enumerate(done):
        if error is not None:
            error.add_note(f"in example {index} of {len(examples)}")
            raise error
    return [result for result, _ in done], reads


_numbers = itertools.count(1)
_owners: dict[int, Any] = {}  # examples by number; none for calls made outside of examples
_GONE = object()  # in place of examples that were interrupted: nobody waits for their errors


def _flush(reason: str) -> None:
    """Computes all that waits; hands failures to the examples whose calls failed."""
    _C._flush(reason)
    for number, error in _C._failures():
        example = _owners.get(number)
        if example is None:
            raise error
        if example is not _GONE and example.failure is None:
            example.failure = error


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in a structure of tuples, lists and dicts."""
    if isinstance(value, _C.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _settle(result: Any) -> Exception | None:
    """Gives the tensors in a result their values; what a call of theirs raised."""
    try:
        for tensor in _tensors(result):
            _C._settle(tensor)
    except Exception as error:
        return error
    return None


def _stack(results: Sequence[Any]) -> Any:
    """A structure of stacked tensors from structures of tensors."""
    first = results[0]
    if isinstance(first, _C.Tensor):
        return _C.stack(list(results))
    if isinstance(first, dict):
        return {key: _stack([r[key] for r in results]) for key in first}
    if isinstance(first, (tuple, list)):
        parts = [_stack(column) for column in zip(*results, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    return list(results)


def autobatch(
    fn: Callable[..., Any] | None = None,
    *,
    max_batch: int | None = None,
    out_stack: bool = False,
) -> Any:
    """A function over lists of examples from a function of one example.

    The result maps `fn` over its positional arguments, sequences of one length; keyword arguments
    go to every call as they are. It returns what `[fn(*e) for e in zip(*lists)]` returns, with the
    same values, gradients and random numbers, but the calls of all examples run together where they
    are of one kind: same op, same weights, rows of one width. Reading a value suspends the example,
    so branches and loops on values batch too. The graph holds the batched calls: sum the losses
    and call `backward` once.

    An exception of one example leaves the others alone; when all are done, the first one by
    example is raised, with a note that says which. Random numbers are drawn in the order of the
    plain loop: an example that draws waits for those before it which still run.

    Args:
        fn: a function, method or module; without it, autobatch returns a decorator.
        max_batch: at most so many examples run at once; None for all.
        out_stack: return one structure with the tensors of all examples stacked along a new first
            dimension, instead of a list.

    `autobatch.enabled = False`, or WEFT_AUTOBATCH=0 in the environment, runs the plain loop.

    >>> double = weft.autobatch(lambda x: x * 2 if x.sum() > 0 else -x)
    >>> double([weft.ones(2), -weft.ones(3)])
    [tensor([2., 2.]), tensor([1., 1., 1.])]
    """
    if max_batch is not None and (isinstance(max_batch, bool) or not isinstance(max_batch, int)):
        raise TypeError(f"[autobatch] expected max_batch to be an int, got {max_batch!r}")
    if max_batch is not None and max_batch < 1:
        raise ValueError(f"[autobatch] expected max_batch of at least 1, got {max_batch}")
    if fn is None:
        return functools.partial(autobatch, max_batch=max_batch, out_stack=out_stack)
    if not callable(fn):
        raise TypeError(f"[autobatch] expected a function of one example, got {type(fn).__name__}")

    def batched(*lists: Sequence[Any], **kwargs: Any) -> Any:
        if not lists:
            raise TypeError("[autobatch] expected a list of examples, got no argument")
        columns = [list(column) for column in lists]
        if len({len(column) for column in columns}) > 1:
            raise ValueError(
                "[autobatch] expected lists of one length, got "
                + ", ".join(str(len(column)) for column in columns)
            )
        examples = list(zip(*columns, strict=True))
        nonlocal reads_alone
        lone = len(examples) == 1 and not _C._mode() & DEFER
        if not autobatch.enabled or not examples or (lone and reads_alone):  # type: ignore[attr-defined]
            results = [fn(*example, **kwargs) for example in examples]
            return _stack(results) if out_stack and results else results
        step = max_batch or len(examples)
        with deferred() if out_stack else nullcontext():
            results, reads = _run_all(fn, examples, kwargs, step)
            stacked = _stack(results) if out_stack else results
        if lone:
            reads_alone = reads
        error = _settle(stacked) if out_stack and not _C._mode() & DEFER else None
        if error is not None:
            raise error
        return stacked

    # One example that reads values has little to merge: the next one alone runs as it is.
    reads_alone = False
    batched._autobatched = True  # type: ignore[attr-defined]
    return functools.update_wrapper(batched, fn, updated=())


autobatch.enabled = os.environ.get("WEFT_AUTOBATCH", "1") != "0"  # type: ignore[attr-defined]


class deferred:
    """In this scope calls are kept until a value is read, or the scope ends, and run in batches.

    For a plain loop, without fibers: reading a value computes all that was kept. Does nothing where
    `autobatch.enabled` is False.

    >>> with weft.deferred():
    ...     rows = [weft.ones(n) * 2 for n in (1, 2)]
    >>> rows
    [tensor([2.]), tensor([2., 2.])]
    """

    __slots__ = ("_saved",)

    def __enter__(self) -> None:
        self._saved = _C._mode()
        if autobatch.enabled:  # type: ignore[attr-defined]
            _C._set_mode(self._saved | DEFER)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _C._set_mode(self._saved)
        if self._saved & DEFER:
            return
        if kind is None:
            _flush("the end")
        elif isinstance(error, Exception):
            _C._flush("the end")
            _C._failures()  # what failed tells whoever reads it


_TIMES = [("planning", "plan_s"), ("packing", "pack_s"), ("running", "run_s")]


class Report:
    """What deferred execution did: `flushes`, a list of dicts, and as text.

    A flush has `reason`, `causes` (lines that read a value, and how many examples did), `calls`,
    `plan_known`, `plan_s`, `pack_s`, `run_s` (seconds) and `batches`: of each `op`, `calls`
    merged, `rows`, operands taken as they lay (`aliased`) or gathered (`packed`, from `pieces`),
    `why` calls did not merge, and `lines` with their number of calls. `to_dict()` has all as JSON.
    """

    def __init__(self) -> None:
        self.flushes: list[dict[str, Any]] = []
        self.outputs: Any = None

    @property
    def calls(self) -> int:
        """Calls that were kept."""
        return sum(f["calls"] for f in self.flushes)

    @property
    def batches(self) -> int:
        """Calls that ran instead."""
        return sum(_kernels(b) for f in self.flushes for b in f["batches"])

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data that `json.dumps` takes.

        Keys `calls`, `batches` (numbers), `plan_s`, `pack_s`, `run_s` (sums) and `flushes`: each as
        in `self.flushes`, with lines of code (`causes`, and `lines` of a batch) as dicts of `file`,
        `line`, `function`, `source` and `calls`.

        >>> report = weft.explain(lambda x: x * 2, [weft.ones(3), weft.ones(2)])
        >>> [(b["op"], b["calls"]) for b in report.to_dict()["flushes"][0]["batches"]]
        [('mul', 2)]
        """
        sums = {key: sum(f[key] for f in self.flushes) for _, key in _TIMES}
        flushes = [
            {
                **flush,
                "causes": _sites(flush["causes"]),
                "batches": [{**b, "lines": _sites(b["lines"])} for b in flush["batches"]],
            }
            for flush in self.flushes
        ]
        return {"calls": self.calls, "batches": self.batches, **sums, "flushes": flushes}

    def __str__(self) -> str:
        lines = [
            f"{self.calls} calls ran as {self.batches}, in {_count(len(self.flushes), 'flush')}; "
            + ", ".join(
                f"{name} {1e3 * sum(f[key] for f in self.flushes):.2f} ms" for name, key in _TIMES
            )
        ]
        for number, flush in enumerate(self.flushes):
            known = " (plan known)" if flush["plan_known"] else ""
            calls = _count(flush["calls"], "call")
            lines.append(f"flush {number}: {calls}, because of {flush['reason']}{known}")
            lines += [f"    read at {line} ({n})" for line, n in flush["causes"]]
            lines += _table(flush["batches"])
        return "\n".join(lines)

    __repr__ = __str__


def _sites(lines: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Lines as data, from "model.py:12, in forward: `y = x * b`" with a number of calls."""
    out = []
    for text, calls in lines:
        place, _, source = text.partition(": `")
        where, _, function = place.rpartition(", in ")
        file, _, line = where.rpartition(":")
        known = line.isdigit()
        out.append({
            "file": file if known else "", "line": int(line) if known else 0,
            "function": function if known else "", "source": source[:-1], "calls": calls,
        })  # fmt: skip
    return out


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "es" if what.endswith("h") else "s")


def _kernels(batch: dict[str, Any]) -> int:
    return batch["calls"] if batch["why"] else 1


def _table(batches: list[dict[str, Any]]) -> list[str]:
    """One line for each op and line of code: calls, batches, how operands came."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for b in batches:
        site, more = b["lines"][0][0], len(b["lines"]) - 1
        if more:
            site += f" and {more} more"
        row = groups.setdefault((b["op"], b["why"], site), [0, 0, 0, 0])
        row[0] += b["calls"]
        row[1] += _kernels(b)
        row[2] += b["aliased"]
        row[3] += b["packed"]
    out = []
    for (op, why, site), (calls, ran, aliased, packed) in groups.items():
        note = f"; single: {why}" if why else ""
        out.append(
            f"  {op:<16} {calls:>6} as {ran:<5} operands {aliased} as they lay, {packed} packed  "
            f"{site}{note}"
        )
    return out


class explain(Report):
    """A report of what is batched: in a scope, or of one run of a function over examples.

    `with weft.explain() as report:` collects while the scope runs. `weft.explain(fn, *lists)` runs
    `autobatch(fn)(*lists)`; the results are in `report.outputs`. Print it.

    >>> report = weft.explain(lambda x: (x * 2).sum(), [weft.ones(3), weft.ones(2)])
    >>> report.calls, report.batches
    (4, 2)
    """

    def __init__(self, fn: Callable[..., Any] | None = None, *lists: Sequence[Any]) -> None:
        super().__init__()
        if fn is not None:
            with self:
                self.outputs = (fn if hasattr(fn, "_autobatched") else autobatch(fn))(*lists)

    def __enter__(self) -> explain:
        _C._report(True)
        return self

    def __exit__(self, *exc: object) -> None:
        self.flushes = _C._report(False)
