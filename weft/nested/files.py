"""Nested tensors in pickles, in the form that PyTorch's have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft.nested.tensor import Jagged, NestedTensor, alias, nested, raw

__all__ = ["_rebuild_njt", "reduced"]


def _rebuild_njt(parts: dict[str, Any]) -> NestedTensor:
    """The inverse of `reduced`: of values, offsets and what is known of them."""
    known = {
        k: t if t is None or isinstance(t, int) else t.shape[0]
        for k, t in (parts.get("_metadata_cache") or {}).items()
    }
    jagged = Jagged(
        parts["offsets"], parts.get("lengths"), known.get("min_seqlen"), known.get("max_seqlen")
    )
    out = nested(
        alias(parts["values"].detach()),
        jagged,
        parts.get("_ragged_idx", 1),
        parts.get("_is_strided", False),
    )
    raw(lambda: out.requires_grad_(bool(parts.get("requires_grad"))))
    return out


def reduced(x: NestedTensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What rebuilds it: a function, and values, offsets and what is known of them."""
    jagged = x._jagged
    known = {"min_seqlen": jagged.least, "max_seqlen": jagged.most}
    parts: dict[str, Any] = {
        "values": alias(x).detach(),
        "offsets": jagged.offsets,
        "lengths": jagged.lengths,
        "_ragged_idx": x._ragged_idx,
        "_metadata_cache": {name: weft.zeros(n, 0) for name, n in known.items() if n is not None},
        "requires_grad": raw(lambda: x.requires_grad),
    }
    if x._is_strided:
        parts["_is_strided"] = True
    return _rebuild_njt, (parts,)
