"""`NestedTensor`: tensors of unlike length, one after the other in one tensor.

Note [Nested tensors]
A nested tensor of shape `(batch, j, ...)` is one tensor of shape `(sum of all j, ...)`, its values,
with offsets that tell where parts begin. It is an object of a class of Tensor whose memory, dtype
and place in the graph are those of the values: to the core, its graph, batches and optimizers it is
a dense tensor, and its gradient has the values' shape. What Python asks, shape included,
`__torch_function__` answers from a table of rules (weft/nested/table.py): by the values themselves
where rows do not meet (pointwise, over dense dimensions), and where the rows of a part meet by
parts of one call (`over_parts` in weft/nested/parts.py, Note [Each] in src/ops/each.h). So nothing
is padded, and an op is one node of the graph.

A call in which no class is asked (`raw`, weft/base/subclasses.py) takes a nested tensor for its
values. A result that is new becomes nested itself (`Tensor._moved_to`): that costs no node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import weft
from weft import _C, Tensor
from weft.base.subclasses import alias, raw
from weft.nested.sizes import NestedInt, size_of

__all__ = ["Jagged", "NestedTensor", "alias", "like", "nested", "raw"]


class Jagged:
    """How the rows of values are cut into parts.

    Args:
        offsets: int64 `[parts + 1]`: where parts begin, and where the last one ends.
        lengths: int64 `[parts]`, if parts end before the next one begins.
        least, most: the lengths of the shortest and the longest part, where they are known.
    """

    def __init__(
        self,
        offsets: Tensor,
        lengths: Tensor | None = None,
        least: int | None = None,
        most: int | None = None,
    ) -> None:
        self.offsets, self.lengths, self.least, self.most = offsets, lengths, least, most
        self.size: NestedInt = size_of(offsets if lengths is None else lengths)
        self.parts: int = offsets.shape[0] - 1

    @cached_property
    def counts(self) -> list[int]:
        """The rows of each part."""
        if self.lengths is not None:
            return list(self.lengths.tolist())
        return [b - a for a, b in zip(self._bounds, self._bounds[1:], strict=False)]

    @cached_property
    def _bounds(self) -> list[int]:
        return list(self.offsets.tolist())

    @property
    def starts(self) -> list[int]:
        """The first row of each part."""
        return self._bounds[: self.parts]

    def is_whole(self, rows: int) -> bool:
        """Whether parts follow each other from the first to the last of so many rows."""
        return self.lengths is None and self._bounds[0] == 0 and self._bounds[-1] == rows

    @cached_property
    def part_of_row(self) -> Tensor:
        """int64, for each row of a part, in order: which part."""
        return weft.arange(self.parts).repeat_interleave(weft.tensor(self.counts, dtype=_C.int64))

    @cached_property
    def place_in_part(self) -> Tensor:
        """int64, for each row of a part, in order: which of that part."""
        counts = weft.tensor(self.counts, dtype=_C.int64)
        first = counts.cumsum(0) - counts
        return weft.arange(self.part_of_row.shape[0]) - first[self.part_of_row]

    @cached_property
    def rows(self) -> Tensor:
        """int64, for each row of a part, in order: where it lies in the values."""
        return weft.tensor(self.starts, dtype=_C.int64)[self.part_of_row] + self.place_in_part

    def longest(self) -> int:
        """The length of the longest part; known from now on."""
        if self.most is None:
            self.most = max(self.counts, default=0)
        return self.most

    def shortest(self) -> int:
        """The length of the shortest part; known from now on."""
        if self.least is None:
            self.least = min(self.counts, default=0)
        return self.least

    @cached_property
    def without_holes(self) -> Jagged:
        """The same parts, each beginning where the one before it ends."""
        counts = weft.tensor([0, *self.counts], dtype=_C.int64)
        return Jagged(counts.cumsum(0), None, self.least, self.most)


class NestedTensor(Tensor):
    """Tensors that differ in the size of one dimension; functions of `weft.nested` make them.

    >>> import weft
    >>> x = weft.nested.nested_tensor([[1.0], [2.0, 3.0]], layout=weft.jagged)
    >>> x.shape[0], x.layout, (x * 2).values()
    (2, torch.jagged, tensor([2., 4., 6.]))
    """

    _jagged: Jagged
    _ragged_idx = 1
    _lends_memory = False
    _is_strided = False  # as PyTorch's nested tensors without offsets show themselves

    def __new__(
        cls,
        values: Tensor,
        offsets: Tensor,
        *,
        lengths: Tensor | None = None,
        requires_grad: bool = False,
        _ragged_idx: int = 1,
        _metadata_cache: dict[str, Tensor] | None = None,
    ) -> NestedTensor:
        # as PyTorch keeps them: a number is the first size of an empty tensor
        known = {key: t.shape[0] for key, t in (_metadata_cache or {}).items()}
        jagged = Jagged(offsets, lengths, known.get("min_seqlen"), known.get("max_seqlen"))
        made = nested(alias(values), jagged, _ragged_idx)
        if requires_grad:
            raw(lambda: made.requires_grad_())
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from weft.nested.table import answer

        return answer(func, args, kwargs or {})

    def offsets(self) -> Tensor:
        """int64 `[batch + 1]`: where each part begins in the values, and where the last one ends.

        >>> import weft
        >>> x = weft.nested.nested_tensor([[1], [2, 3]], layout=weft.jagged)
        >>> x.offsets(), x.lengths()
        (tensor([0, 1, 3]), None)
        """
        if self._is_strided:
            raise AttributeError("'Tensor' object has no attribute 'offsets'")
        return self._jagged.offsets

    def lengths(self) -> Tensor | None:
        """int64 `[batch]`: the lengths of parts that end before the next one; None without such."""
        return self._jagged.lengths

    @property
    def _values(self) -> Tensor:  # type: ignore[override]
        return alias(self)

    @property
    def _offsets(self) -> Tensor:
        return self._jagged.offsets

    @property
    def _lengths(self) -> Tensor | None:
        return self._jagged.lengths

    def _get_max_seqlen(self) -> int:
        return self._jagged.longest()

    def _get_min_seqlen(self) -> int:
        return self._jagged.shortest()

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)
    _maybe_max_seqlen = property(lambda self: self._jagged.most)
    _maybe_min_seqlen = property(lambda self: self._jagged.least)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from weft.nested.text import text_of

        return text_of(self)

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from weft.nested.files import reduced

        return reduced(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> NestedTensor:
        if id(self) in memo:
            known: NestedTensor = memo[id(self)]
            return known
        if raw(lambda: self.grad_fn) is not None:
            raise RuntimeError(
                "[deepcopy] expected a leaf (only Tensors created explicitly by the user (graph "
                "leaves) support the deepcopy protocol at the moment), got one that was computed. "
                "Hint: detach() or clone() it"
            )
        out = memo[id(self)] = like(self, raw(lambda: self.detach().clone()))
        raw(lambda: out.requires_grad_(self.requires_grad))
        return out

    def __copy__(self) -> NestedTensor:
        out = like(self, raw(lambda: self.detach()))
        raw(lambda: out.requires_grad_(self.requires_grad))
        return out


def nested(values: Tensor, jagged: Jagged, ragged: int, is_strided: bool = False) -> NestedTensor:
    """Values that nobody else has, cut into parts along their dim `ragged - 1`."""
    made: NestedTensor = values._moved_to(NestedTensor)
    made._jagged = jagged
    if ragged != 1:
        made._ragged_idx = ragged
    if is_strided:
        made._is_strided = True
    return made


def like(x: NestedTensor, values: Tensor, ragged: int | None = None) -> NestedTensor:
    """New values, cut into parts as `x` is, along their dim `ragged - 1`; what is nested stays."""
    if isinstance(values, NestedTensor):
        return values
    return nested(values, x._jagged, x._ragged_idx if ragged is None else ragged, x._is_strided)
