"""Attention with several heads."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.nn import init
from weft.nn.functional_attention import apart, multi_head_attention_forward
from weft.nn.linear import Linear
from weft.nn.module import Module
from weft.nn.parameter import Parameter
from weft.nn.sdpa import SDPBackend, sdpa_kernel

__all__ = ["MultiheadAttention", "SDPBackend", "sdpa_kernel"]


class NonDynamicallyQuantizableLinear(Linear):
    """Linear under the name that PyTorch prints here."""


class MultiheadAttention(Module):
    """Attends with several heads over projections of query, key and value (Vaswani et al. 2017).

    Args:
        embed_dim: size of query and output, a multiple of num_heads.
        num_heads: heads of size embed_dim / num_heads.
        dropout: of the attention weights, while training.
        bias: whether the projections have biases.
        add_bias_kv: whether a learned key and value are added.
        add_zero_attn: whether a key and value of zeros are added.
        kdim, vdim: sizes of key and value; embed_dim by default.
        batch_first: `(N, L, E)` instead of `(L, N, E)`.

    Raises ValueError for sizes that are not positive, AssertionError if they do not divide.

    >>> import weft
    >>> attention = weft.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = weft.zeros(3, 5, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "[MultiheadAttention] expected embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError(
                "[MultiheadAttention] expected embed_dim must be divisible by num_heads, got "
                f"{embed_dim} and {num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        sizes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None, "k_proj_weight": None, "v_proj_weight": None,
            "in_proj_weight": None,
        }  # fmt: skip
        if self._qkv_same_embed_dim:
            sizes["in_proj_weight"] = (3 * embed_dim, embed_dim)
        else:
            for name, width in zip("qkv", (embed_dim, self.kdim, self.vdim)):
                sizes[f"{name}_proj_weight"] = (embed_dim, width)
        sizes["in_proj_bias"] = (3 * embed_dim,) if bias else None
        options = {"device": device, "dtype": dtype}

        def register(name: str, size: tuple[int, ...] | None) -> None:
            value = None if size is None else Parameter(weft.empty(size, **options))
            self.register_parameter(name, value)

        # PyTorch's order, which a state_dict and a seed show: the same widths first have no q, k, v
        names = ["in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"]
        for name in names if self._qkv_same_embed_dim else [*names[1:], names[0]]:
            register(name, sizes[name])
        register("in_proj_bias", sizes["in_proj_bias"])
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **options)
        for name in ("bias_k", "bias_v"):
            register(name, (1, 1, embed_dim) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        weights = ["in_proj_weight"]
        if not self._qkv_same_embed_dim:
            weights = ["q_proj_weight", "k_proj_weight", "v_proj_weight"]
        for name in weights:
            init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)  # type: ignore[arg-type]
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                init.xavier_normal_(getattr(self, name))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The output, shaped as query, and the weights if wanted; see multi_head_attention_forward.

        `is_causal` says that attn_mask is the causal one, which then need not be read. Nested
        tensors `(N, L, E)` take no other masks (weft/nested/layers.py).
        """
        if query.is_nested:
            from weft.nested.layers import multi_head

            return multi_head(
                self, query, key, value, key_padding_mask, need_weights, attn_mask,
                average_attn_weights, is_causal,
            )  # fmt: skip
        swap = self.batch_first and query.dim() == 3
        if swap:
            query, key, value = apart(query, key, value, lambda t: t.transpose(0, 1))
        out, weights = multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )  # fmt: skip
        return out.transpose(0, 1) if swap else out, weights
