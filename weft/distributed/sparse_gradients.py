"""Sparse gradients of several processes: their rows together, averaged.

What a rank's rows are is known when its pass has ended; each sends its own, as many as it has, and
all add up the same list of them. A parameter that has a dense gradient in some process, one that a
layer shares with an embedding, gets a dense one in all.
"""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft._C import Tensor
from weft.base.modes import no_grad
from weft.distributed.exchanges import all_gather_into_tensor, all_reduce
from weft.distributed.reducing import ReduceOp
from weft.distributed.world import ProcessGroup

__all__ = ["SparseGradients"]


class SparseGradients:
    """The parameters whose gradients are sparse, of any shapes, over a group."""

    def __init__(self, params: Sequence[Tensor], group: ProcessGroup) -> None:
        self.params = list(params)
        self._group = group
        self.reached: set[int] = set()  # since the last exchange

    def exchange(self, divisor: int, is_shadow: bool = False) -> None:
        """Brings the averages to `.grad` of those that some process' pass has reached.

        Args:
            divisor: of the sums.
            is_shadow: this process contributes zeros.
        """
        if not self.params:
            return
        grads = [None if is_shadow else p.grad for p in self.params]
        has = [k in self.reached and g is not None for k, g in enumerate(grads)]
        dense = [g is not None and not g.is_sparse for g in grads]
        self.reached = set()
        told = weft.tensor([has, dense], dtype=weft.uint8)
        all_reduce(told, ReduceOp.MAX, self._group)
        with no_grad():
            for param, grad, some, is_dense in zip(self.params, grads, *told.tolist()):
                if some:
                    join = self._dense if is_dense else self._rows
                    param.grad = join(param, grad, divisor)

    def _dense(self, param: Tensor, grad: Tensor | None, divisor: int) -> Tensor:
        whole = weft.zeros(param.shape, dtype=param.dtype)
        if grad is not None:
            whole += grad.to_dense() if grad.is_sparse else grad
        all_reduce(whole, group=self._group)
        return whole / divisor

    def _rows(self, param: Tensor, grad: Tensor | None, divisor: int) -> Tensor:
        size = self._group.size()
        if grad is None:
            places = weft.zeros((1, 0), dtype=weft.int64)
            rows = weft.zeros((0, *param.shape[1:]), dtype=param.dtype)
        else:
            grad = grad.coalesce()
            places, rows = grad.indices(), grad.values()
        counts = weft.zeros(size, dtype=weft.int64)
        all_gather_into_tensor(counts, weft.tensor([rows.shape[0]]), self._group)
        each = [int(count) for count in counts.tolist()]
        depth, most = places.shape[0], max(each)
        all_places = self._of_all(places.t().contiguous(), most)
        all_rows = self._of_all(rows, most)
        places = weft.cat([all_places[k, :n] for k, n in enumerate(each)]).view(-1, depth).t()
        rows = weft.cat([all_rows[k, :n] for k, n in enumerate(each)])
        joined: Tensor = weft.sparse_coo_tensor(
            places, rows / divisor, tuple(param.shape), check_invariants=True
        )
        out: Tensor = joined.coalesce()
        return out

    def _of_all(self, mine: Tensor, most: int) -> Tensor:
        """[processes, most, *] of [n, *] each."""
        padded = weft.zeros((most, *mine.shape[1:]), dtype=mine.dtype)
        padded[: mine.shape[0]] = mine
        out = weft.empty((self._group.size(), *padded.shape), dtype=mine.dtype)
        all_gather_into_tensor(out, padded, self._group)
        return out
