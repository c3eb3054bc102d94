"""The parameters of modules that `fully_shard` has cut: gathered for a call, freed after it.

Note [Gathered parameters]
A call of a sharded module gathers its parameters by a function of the graph (`_Gather`), shows the
results in place of the parts, and takes them away after it. The backward of that function averages
the gradients and leaves each process its part, so a part gets its gradient as any parameter does:
added up, seen by hooks, for as many calls as there were. The graph keeps no gathered tensor: what
ops save of one (`saved_tensors_hooks`) is kept as a place in it, and gathered again when backward
asks. Where backward comes to a result of the module it shows the gathered tensors once more, for
checkpoints, which run parts of the forward again; they are freed when the gradients are reduced,
at the latest when the pass ends. All processes call sharded modules, and backward through them, in
the same order; of a module's parameters each may have used others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import weft
from weft import _C, Tensor
from weft.autograd import Function
from weft.autograd.graph import saved_tensors_hooks
from weft.base.modes import enable_grad, no_grad
from weft.base.subclasses import alias, raw
from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.exchanges import all_gather_into_tensor, all_reduce, reduce_scatter_tensor
from weft.distributed.fsdp.api import MixedPrecisionPolicy
from weft.distributed.reducing import ReduceOp
from weft.distributed.tensor.dtensor import DTensorParameter, padded_rows
from weft.distributed.work import Work

__all__ = ["ParameterGroup", "Place"]


class Place(NamedTuple):
    """Where a module has a parameter: its table, and the name there."""

    table: dict[str, Any]
    name: str


class _Saved(NamedTuple):
    """What the graph keeps of a gathered parameter: which, and how it was seen."""

    which: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class _Gather(Function):
    """The gathered parameters as results of the parts."""

    @staticmethod
    def forward(ctx: Any, group: ParameterGroup, *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        ctx.set_materialize_grads(False)
        outs = tuple(whole.detach() for whole in group.gather())
        fixed = [o for o, p in zip(outs, parts, strict=True) if not p.requires_grad]
        ctx.mark_non_differentiable(*fixed)
        return outs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        return (None, *ctx.group.reduce(grads))


class ParameterGroup:
    """Parameters that are gathered and freed together.

    Args:
        places: for each parameter, where modules have it.
        mesh: the processes, in one dimension.
        policy: the dtypes.
        frees_after_forward: whether backward gathers again; None: by default.
    """

    def __init__(
        self, places: Sequence[Sequence[Place]], mesh: DeviceMesh, policy: MixedPrecisionPolicy,
        frees_after_forward: bool | None,
    ) -> None:  # fmt: skip
        self.places = [list(of_one) for of_one in places]
        self.mesh, self.policy = mesh, policy
        self.is_default = frees_after_forward is None  # what is outermost does not
        self.frees_after_forward = bool(frees_after_forward)
        self.frees_after_backward = True
        self.reduces = True
        self.divisor: float | None = None
        self._whole: list[Tensor] = []
        self._by_memory: dict[int, int] = {}
        self._versions: list[int] = []
        self._works: list[Work] = []  # under way; those of groups of one process are done at once
        self._shown: list[list[Any]] = []
        self._stays_shown = False  # the first of them is `unshard`'s
        self._shown_before: int | None = None  # backward has come here: how many were shown then
        self._unreduced: list[Tensor | None] = [None] * len(places)

    def parts(self) -> list[DTensorParameter]:
        """The parameters as they are between calls: the parts of this process."""
        return list(self._shown[0] if self._shown else self._current())

    def _current(self) -> list[Any]:
        """What the modules have now."""
        return [of_one[0].table[of_one[0].name] for of_one in self.places]

    # ---- gathering

    def start(self) -> None:
        """Begins to gather, if what is there is not up to date."""
        parts = self.parts()
        versions = raw(lambda: [p._version for p in parts])
        if self._whole and versions == self._versions:
            return
        self.free()
        self._versions = versions
        size = self.mesh.size()
        with no_grad():
            for part in parts:
                rows = part._spec.rows()
                mine = alias(part).detach().to(self.policy.param_dtype or part.dtype)
                mine = padded_rows(mine, rows)
                room = mine.new_empty((size * rows, *mine.shape[1:]))
                work = all_gather_into_tensor(room, mine, self.mesh.get_group(), async_op=True)
                if work is not None:
                    self._works.append(work)
                self._whole.append(room[: part._spec.shape[0]])

    def gather(self) -> list[Tensor]:
        """The whole parameters, outside of the graph."""
        self.start()
        self._wait()
        self._by_memory = {
            w.untyped_storage().data_ptr(): i for i, w in enumerate(self._whole) if w.numel()
        }
        return self._whole

    def free(self) -> None:
        """Lets the whole parameters go."""
        self._wait()
        self._whole, self._by_memory, self._versions = [], {}, []

    def _wait(self) -> None:
        """Until all that was started to be gathered is there."""
        for work in self._works:
            work.wait()
        self._works = []

    # ---- what modules show

    def unshard(self) -> None:
        """Shows the whole parameters, until a call or backward that frees them, or `reshard`."""
        if not self._shown:
            with no_grad():
                self.show()
            self._stays_shown = True

    def reshard(self) -> None:
        """Frees the whole parameters, unless a call or backward has them in use."""
        if self._stays_shown and len(self._shown) == 1:
            self.hide()
            self._stays_shown = False
        if not self._shown:
            self.free()

    def show(self) -> None:
        """Puts the whole parameters in the modules, as results of the parts where grads are on."""
        before, parts = self._current(), self.parts()
        wanted = weft.is_grad_enabled() and any(p.requires_grad for p in parts)
        whole = raw(lambda: _Gather.apply(self, *parts)) if wanted else self.gather()
        self._shown.append(before)
        self._put(whole)

    def hide(self) -> None:
        """Puts back what was there before the last `show`."""
        if self._shown:
            self._put(self._shown.pop())

    def _put(self, tensors: Sequence[Any]) -> None:
        for of_one, tensor in zip(self.places, tensors, strict=True):
            for table, name in of_one:
                table[name] = tensor

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """A scope in which the modules have the whole parameters."""
        self.show()
        _C._stay(1)  # another example of a batch would meet these
        try:
            with saved_tensors_hooks(self._pack, self._unpack):
                yield
        finally:
            _C._stay(-1)
            self.hide()
            if self.frees_after_forward:
                self.reshard()

    # ---- backward

    def _pack(self, tensor: Tensor) -> Any:
        memory = tensor.untyped_storage().data_ptr() if type(tensor) is Tensor else 0
        index = self._by_memory.get(memory)
        if index is None:
            return tensor
        return _Saved(index, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())

    def _unpack(self, kept: Any) -> Tensor:
        if not isinstance(kept, _Saved):
            return kept  # type: ignore[no-any-return]
        self._until_the_end_of_the_pass()
        return self.gather()[kept.which].as_strided(kept.size, kept.stride, kept.offset)

    def reached(self, _grad: Tensor) -> None:
        """A hook of the modules' results: backward has come to them."""
        if self._shown_before is not None:
            return
        self._until_the_end_of_the_pass()
        with enable_grad():
            self.show()

    def _until_the_end_of_the_pass(self) -> None:
        if self._shown_before is None:
            self._shown_before = len(self._shown)
            _C._queue_callback(self._end_pass)

    def _end_pass(self) -> None:
        """What backward has shown is hidden, and freed."""
        if self._shown_before is None:
            return
        while len(self._shown) > self._shown_before:
            self.hide()
        self._shown_before = None
        if self.frees_after_backward:
            self.reshard()

    def reduce(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The average over the processes of each gradient, of which each gets its part."""
        with no_grad():
            self._unreduced = [_sum(a, b) for a, b in zip(self._unreduced, grads, strict=True)]
            if not self.reduces:
                return [None] * len(grads)
            mine, self._unreduced = self._unreduced, [None] * len(grads)
            has = weft.tensor([g is not None for g in mine], dtype=weft.uint8, device="cpu")
            all_reduce(has, ReduceOp.MAX, self.mesh.get_group())
            parts = self.parts()
            begun = [
                self._reduced(grad, part) if some else None
                for grad, part, some in zip(mine, parts, has.tolist(), strict=True)
            ]
            out: list[Tensor | None] = []
            for part, started in zip(parts, begun, strict=True):
                if started is None:
                    out.append(None)
                    continue
                own, work = started
                if work is not None:
                    work.wait()
                if self.divisor is not None:
                    own.div_(self.divisor)
                out.append(own[: part._spec.local_shape()[0]].to(part.dtype))
            self._end_pass()
        return out

    def _reduced(self, grad: Tensor | None, part: DTensorParameter) -> tuple[Tensor, Work | None]:
        size, shape = self.mesh.size(), part._spec.shape
        rows = part._spec.rows()
        kind = self.policy.reduce_dtype or self.policy.param_dtype or part.dtype
        whole = weft.zeros(shape, dtype=kind, device="cpu") if grad is None else grad.to(kind)
        own = whole.new_empty((rows, *shape[1:]))
        op = ReduceOp.AVG if self.divisor is None else ReduceOp.SUM
        work = reduce_scatter_tensor(
            own, padded_rows(whole, size * rows), op, self.mesh.get_group(), async_op=True
        )
        return own, work


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return a if b is None else b
    return a + b
