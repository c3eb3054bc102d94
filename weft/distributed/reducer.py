"""Gradients averaged over processes while backward goes on.

Note [Reduction]
Parameters that require gradients lie in buckets, from the last registered to the first, since
backward reaches them in about this order. A pass of backward that goes through a tensor that
`DistributedDataParallel` returned is one reduction. When all parameters of a bucket have their
gradient, and the buckets before it are on their way, its exchange starts: all processes start them
in one order, whatever order their graphs had. What the pass did not reach is looked at when it has
ended: a parameter contributes the `.grad` that it has, or zeros; one that no process' pass reached,
nor passes without an exchange before it, keeps what it has, as with one process, which one more
exchange of a flag for each parameter tells. Nobody walks over the graph for it, and graphs may
differ from process to process.

The last bucket is ready when backward ends, so that nothing hides its exchange: by default a bucket
is an eighth of all, between the size from which an exchange costs more than its start and the 25 MB
of PyTorch (which has the first of 1 MB besides; of two buckets the last is most of a small model).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.modes import no_grad
from weft.distributed.exchanges import all_reduce
from weft.distributed.reducing import ReduceOp
from weft.distributed.sparse_gradients import SparseGradients
from weft.distributed.work import Work
from weft.distributed.world import ProcessGroup
from weft.futures import Future

__all__ = ["GradBucket", "Reducer"]

_LEAST, _MOST = 1 << 19, 25 << 20  # bytes of a bucket

CommHook = Callable[[Any, "GradBucket"], Future[Any]]


class GradBucket:
    """Gradients that are exchanged at once: what a communication hook is given.

    The buffer is a vector of all elements of the gradients.

    >>> w = weft.nn.Parameter(weft.ones(2))
    >>> w.grad = weft.ones(2)
    >>> weft.distributed.GradBucket(0, [w], is_last=True).buffer()
    tensor([0., 0.])
    """

    def __init__(self, index: int, params: Sequence[Tensor], is_last: bool) -> None:
        self._index = index
        self._params = list(params)
        self._is_last = is_last
        kind = self._params[0].dtype
        self._buffer = weft.zeros(sum(p.numel() for p in self._params), dtype=kind)
        self.views = self._cut(self._buffer)
        self.missing: set[int] = set()
        self.reached: set[int] = set()  # since the last exchange
        self.later: Future[Any] | Work | None = None

    def _cut(self, buffer: Tensor) -> list[Tensor]:
        pieces = buffer.split([p.numel() for p in self._params])
        return [piece.view(p.shape) for piece, p in zip(pieces, self._params)]

    def take_reached(self) -> list[bool]:
        """Which parameters have gradients to exchange. Others keep theirs, out of the buffer."""
        out = []
        for place, (param, view) in enumerate(zip(self._params, self.views)):
            grad = param.grad
            out.append(place in self.reached and grad is not None)
            if grad is not None and not out[-1] and grad.data_ptr() == view.data_ptr():
                param.grad = grad.clone()
        self.reached = set()
        return out

    def index(self) -> int:
        """Its place in the order of exchanges."""
        return self._index

    def buffer(self) -> Tensor:
        """All its gradients in one dimension, one behind the other."""
        return self._buffer

    def gradients(self) -> list[Tensor]:
        """The gradients as parts of the buffer, in the shapes of the parameters."""
        return self._cut(self._buffer)

    def parameters(self) -> list[Tensor]:
        """Their parameters."""
        return list(self._params)

    def is_last(self) -> bool:
        """Whether it is the last to be exchanged."""
        return self._is_last

    def with_buffer(self, buffer: Tensor) -> GradBucket:
        """The same bucket over another buffer, of any dtype."""
        other = object.__new__(GradBucket)
        other.__dict__.update(self.__dict__, _buffer=buffer, views=self._cut(buffer))
        return other

    def set_buffer(self, buffer: Tensor) -> None:
        """Has the hook exchange another tensor of the same size."""
        if buffer.shape != self._buffer.shape:
            raise RuntimeError(
                f"[set_buffer] expected {list(self._buffer.shape)}, got {list(buffer.shape)}"
            )
        with no_grad():
            self._buffer.copy_(buffer)


def _buckets(params: Sequence[Tensor], cap: int) -> list[GradBucket]:
    """The parameters from the last to the first, cut where the dtype or the size in bytes asks."""
    groups: list[list[Tensor]] = []
    size = 0
    for p in reversed(params):
        if not groups or size >= cap or p.dtype != groups[-1][0].dtype:
            groups.append([])
            size = 0
        groups[-1].append(p)
        size += p.numel() * p.itemsize
    return [GradBucket(i, group, i + 1 == len(groups)) for i, group in enumerate(groups)]


class Reducer:
    """Averages the gradients of parameters over a group (Note [Reduction]).

    Args:
        params: those that require gradients.
        group: the processes.
        cap: the size of a bucket in bytes; None for what Note [Reduction] says.
        as_view: let gradients be parts of the buckets, which saves their memory.
        at_end: start no exchange before the pass has ended, for passes within passes.
        sparse: the ids of parameters whose gradients are sparse, which no bucket has.
    """

    def __init__(
        self, params: Sequence[Tensor], group: ProcessGroup, cap: int | None,
        as_view: bool = False, at_end: bool = False, sparse: Collection[int] = (),
    ) -> None:  # fmt: skip
        self._group = group
        self._as_view = as_view
        self._at_end = at_end
        self._hook: tuple[CommHook, Any] | None = None
        self.divisor: int = group.size()
        dense = [p for p in params if id(p) not in sparse]
        if cap is None:
            cap = min(max(sum(p.nbytes for p in dense) // 8, _LEAST), _MOST)
        self.cap = cap
        self.buckets = _buckets(dense, cap)
        self.sparse = SparseGradients([p for p in params if id(p) in sparse], group)
        self._running = False
        self._is_certain = False
        self._next = 0
        self._handles = [
            p.register_post_accumulate_grad_hook(self._reached_by(bucket, k))
            for bucket in self.buckets
            for k, p in enumerate(bucket._params)
        ]
        for k, p in enumerate(self.sparse.params):
            self._handles.append(p.register_post_accumulate_grad_hook(self._reached_sparse(k)))

    def set_hook(self, state: Any, hook: CommHook) -> None:
        """Has `hook(state, bucket)` exchange each bucket. It divides, too."""
        self._hook = (hook, state)

    def begin(self, *_: Any) -> None:
        """The pass that is under way is a reduction from now on."""
        if self._running:
            return
        _C._queue_callback(self._end)
        self._running = True
        self._is_certain = _C._pass_is_full()  # that of autograd.grad reaches no leaf
        self._next = 0
        for bucket in self.buckets:
            bucket.missing = set(range(len(bucket._params)))
            bucket.later = None

    def recover(self) -> None:
        """Forgets a pass that ended by an exception; what it has started is waited for."""
        if not self._running:
            return
        self._running = False
        for bucket in self.buckets[: self._next]:
            if bucket.later is not None:
                bucket.later.wait()

    def _reached_by(self, bucket: GradBucket, place: int) -> Callable[[Tensor], None]:
        def reached(param: Tensor) -> None:
            bucket.reached.add(place)
            if not self._running:
                return
            if bucket.later is not None:
                raise RuntimeError(
                    "[DistributedDataParallel] expected each parameter to be reached once by a "
                    f"backward pass, got one of shape {list(param.shape)} again after its "
                    "gradient was exchanged (Expected to mark a variable ready only once). Hint: "
                    "static_graph=True, or checkpoint(..., use_reentrant=False)"
                )
            self._is_certain = True
            bucket.missing.discard(place)
            if not bucket.missing and not self._at_end:
                self._start_what_is_ready()

        return reached

    def _reached_sparse(self, place: int) -> Callable[[Tensor], None]:
        def reached(param: Tensor) -> None:
            self.sparse.reached.add(place)
            self._is_certain = True

        return reached

    def _start_what_is_ready(self) -> None:
        while self._next < len(self.buckets) and not self.buckets[self._next].missing:
            self._start(self.buckets[self._next])
            self._next += 1

    def _start(self, bucket: GradBucket) -> None:
        """Fills a bucket and has it exchanged."""
        with no_grad():
            for param, view in zip(bucket._params, bucket.views):
                grad = param.grad
                if grad is None:
                    view.zero_()
                elif grad.is_sparse:
                    raise RuntimeError(
                        "[DistributedDataParallel] expected dense gradients, got a sparse one of "
                        f"shape {list(grad.shape)}. Hint: those of Embedding and EmbeddingBag may "
                        "be sparse"
                    )
                elif grad.data_ptr() != view.data_ptr():
                    view.copy_(grad)
            if self._hook is None:
                if self.divisor != 1:
                    bucket._buffer.div_(self.divisor)
                bucket.later = all_reduce(bucket._buffer, group=self._group, async_op=True)
            else:
                hook, state = self._hook
                bucket.later = hook(state, bucket)
                if not hasattr(bucket.later, "wait"):
                    raise RuntimeError(
                        "[register_comm_hook] expected the hook to return a Future, got "
                        f"{type(bucket.later).__name__}"
                    )

    def _end(self) -> None:
        """After the pass: the rest is exchanged, and all is brought to the gradients."""
        if not self._running or not self._is_certain:
            self._running = False
            return
        has = weft.tensor([has for b in self.buckets for has in b.take_reached()], dtype=weft.uint8)
        while self._next < len(self.buckets):
            self._start(self.buckets[self._next])
            self._next += 1
        self._bring_all(has)
        self.sparse.exchange(self.divisor)
        self._running = False

    def _bring_all(self, has: Tensor) -> None:
        """Tells all which parameters have gradients, and brings those that some process has."""
        all_reduce(has, ReduceOp.MAX, self._group)
        anyone = iter(has.tolist())
        for bucket in self.buckets:
            self._bring(bucket, [bool(next(anyone)) for _ in bucket._params])

    def _bring(self, bucket: GradBucket, wanted: Sequence[bool]) -> None:
        """Waits for a bucket, and writes the gradients that some process has."""
        assert bucket.later is not None
        if isinstance(bucket.later, Work):
            bucket.later.wait()
        else:
            made = bucket.later.wait()
            made = made[0] if isinstance(made, (list, tuple)) else made
            if made.data_ptr() != bucket._buffer.data_ptr():
                with no_grad():
                    bucket._buffer.copy_(made)
        with no_grad():
            for param, view, some in zip(bucket._params, bucket.views, wanted):
                if not some:
                    continue
                if self._as_view:
                    param.grad = view
                elif param.grad is None:
                    param.grad = view.clone()
                else:
                    param.grad.copy_(view)

    def shadow(self) -> None:
        """Takes part in a reduction of others with zeros, and gets its gradients, for optimizers
        that step in all processes: of one without further batches."""
        with no_grad():
            for bucket in self.buckets:
                bucket._buffer.zero_()
                if self._hook is None:
                    bucket.later = all_reduce(bucket._buffer, group=self._group, async_op=True)
                else:
                    bucket.later = self._hook[0](self._hook[1], bucket)
        count = sum(len(bucket._params) for bucket in self.buckets)
        self._bring_all(weft.zeros(count, dtype=weft.uint8))
        self.sparse.exchange(self.divisor, is_shadow=True)
