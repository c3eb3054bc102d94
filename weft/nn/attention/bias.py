"""Causal masks that are told by their sizes: `scaled_dot_product_attention` takes one as its mask.

>>> x = weft.ones(1, 1, 3, 2)
>>> weft.nn.functional.scaled_dot_product_attention(x, x, x, causal_lower_right(3, 3)).shape
torch.Size([1, 1, 3, 2])
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import weft
from weft import Tensor
from weft.base.warn import warn
from weft.nn import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corner of the mask the diagonal goes through, where it is no square.

    >>> CausalVariant.LOWER_RIGHT.name
    'LOWER_RIGHT'
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A mask of queries and keys, True on and below a diagonal.

    It has no elements of its own: attention of the upper left kind runs as with `is_causal=True`.

    Args:
        variant: where the diagonal goes.
        seq_len_q, seq_len_kv: how many queries and keys there are.

    Raises:
        AssertionError: a variant that is none.

    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> CausalBias:
        return Tensor._make_subclass(cls, weft.empty(0))

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(
                f"[CausalBias] expected a CausalVariant, got {type(variant).__name__} (variant "
                f"must be a CausalVariant, got {type(variant).__name__})"
            )
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > "
                "seq_len_kv!"
            )

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as a tensor of bools, `(seq_len_q, seq_len_kv)`."""
        shift = self.seq_len_kv - self.seq_len_q
        diagonal = shift if self.variant is CausalVariant.LOWER_RIGHT else 0
        whole = weft.ones(self.seq_len_q, self.seq_len_kv, dtype=weft.bool, device=device)
        return weft.tril(whole, diagonal=diagonal)

    @staticmethod
    def _dispatch(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: CausalBias, dropout_p: float = 0.0,
        is_causal: bool = False, **more: Any,
    ) -> Tensor:  # fmt: skip
        if is_causal:
            raise ValueError(
                "[scaled_dot_product_attention] expected is_causal=False with a CausalBias, got "
                "True (CausalBias should not be used with causal=True)"
            )
        square = attn_mask.seq_len_q == attn_mask.seq_len_kv
        causal = square or attn_mask.variant is CausalVariant.UPPER_LEFT
        mask = None if causal else attn_mask._materialize(query.device)
        return F.scaled_dot_product_attention(query, key, value, mask, dropout_p, causal, **more)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Attention looks at the sizes; other calls see a tensor without elements."""
        if func is F.scaled_dot_product_attention:
            return cls._dispatch(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})

    def __repr__(self) -> str:
        return repr(self._materialize())


def _made(name: str, variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(
            f"[{name}] expected two sizes, got {len(size)} ({name} only supports 2D tensors)"
        )
    return CausalBias(variant, *size)


def causal_upper_left(*size: int) -> CausalBias:
    """A mask whose diagonal begins at the first query and key: what `is_causal=True` means.

    Args:
        size: how many queries, how many keys.

    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _made("causal_upper_left", CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """A mask whose diagonal ends at the last query and key, as for keys that a cache holds.

    Args:
        size: how many queries, how many keys.

    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return _made("causal_lower_right", CausalVariant.LOWER_RIGHT, size)
