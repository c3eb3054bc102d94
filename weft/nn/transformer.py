"""Transformers (Vaswani et al. 2017): layers, stacks of them, and the whole.

Sequences are `(L, N, E)`, `(N, L, E)` with `batch_first`, or `(L, E)`. Masks hide where they are
True or are added to the scores; `is_causal` says that a mask is the causal one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.nn import functional as F
from weft.nn import init
from weft.nn.attention import MultiheadAttention
from weft.nn.containers import ModuleList
from weft.nn.dropout import Dropout
from weft.nn.functional_attention import additive_mask
from weft.nn.linear import Linear
from weft.nn.module import Module
from weft.nn.normalization import LayerNorm

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


def _get_clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _get_activation_fn(name: str | Callable[[Tensor], Tensor]) -> Any:
    """The function of that name; a function is itself."""
    if not isinstance(name, str):
        return name
    if name not in ("relu", "gelu"):
        raise RuntimeError(
            f"[Transformer] expected activation should be relu/gelu, or a function, not {name}"
        )
    return getattr(F, name)


def _causal_mask(size: int, dtype: Any = None, device: Any = None) -> Tensor:
    return weft.triu(weft.full((size, size), float("-inf"), dtype=dtype, device=device), 1)


def _is_causal(mask: Tensor | None, hint: bool | None, size: int) -> bool:
    """The hint, or whether `mask` is the causal one."""
    if hint is not None:
        return hint
    if mask is None or tuple(mask.shape[-2:]) != (size, size) or mask.dim() != 2:
        return False
    causal = _causal_mask(size, mask.dtype if mask.is_floating_point() else None, mask.device)
    additive = additive_mask(mask, "mask", causal.dtype)
    return additive is not None and weft.equal(additive, causal)


class _Layer(Module):
    """What encoder and decoder layers share: the feed-forward block and the order of norms."""

    norm_first: bool

    def _feed_forward_parts(
        self, d_model: int, hidden: int, dropout: float, bias: bool, options: dict[str, Any]
    ) -> None:
        self.linear1 = Linear(d_model, hidden, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(hidden, d_model, bias=bias, **options)

    def _residual(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _wide(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Self-attention and its dropout. The blocks have PyTorch's names: subclasses override
        them, for the weights of attention."""
        out, _ = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
            is_causal=is_causal,
        )  # fmt: skip
        return self.dropout1(out)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward block, each with a residual and a LayerNorm.

    Args:
        d_model, nhead: size of the model and number of heads.
        dim_feedforward: size within the feed-forward block.
        dropout: after each block, inside the second, and of the attention weights.
        activation: "relu", "gelu" or a function.
        layer_norm_eps, bias: of the parts.
        batch_first, norm_first: the layout; norms before the blocks instead of after.

    >>> import weft
    >>> layer = weft.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> layer(weft.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options
        )
        self._feed_forward_parts(d_model, dim_feedforward, dropout, bias, options)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)

        x = self._residual(src, self.norm1, attend)
        return self._residual(x, self.norm2, self._ff_block)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._wide(x))

    def _may_skip_padding(self) -> bool:
        """Whether PyTorch's encoder computes nothing for padding with such layers."""
        attention = self.self_attn
        return (
            not (self.training or self.norm_first)
            and attention.batch_first
            and attention._qkv_same_embed_dim
            and attention.in_proj_bias is not None
            and attention.num_heads % 2 == 0
            and self.activation in (F.relu, F.gelu)
            and self.norm1.eps == self.norm2.eps
        )


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward block.

    The arguments are those of TransformerEncoderLayer.

    Target (T, N, d_model) and memory (S, N, d_model), or batches first with `batch_first`; the
    result has the target's shape.

    >>> layer = weft.nn.TransformerDecoderLayer(4, 2, 8)
    >>> layer(weft.ones(3, 1, 4), weft.ones(5, 1, 4)).shape
    torch.Size([3, 1, 4])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}

        def attention() -> MultiheadAttention:
            return MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options
            )

        self.self_attn = attention()
        self.multihead_attn = attention()
        self._feed_forward_parts(d_model, dim_feedforward, dropout, bias, options)
        self.norm_first = norm_first
        for i in (1, 2, 3):
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
            setattr(self, f"norm{i}", norm)
        for i in (1, 2, 3):
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def remember(x: Tensor) -> Tensor:
            return self._mha_block(
                x, memory, memory_mask, memory_key_padding_mask, memory_is_causal
            )

        x = self._residual(tgt, self.norm1, attend)
        x = self._residual(x, self.norm2, remember)
        return self._residual(x, self.norm3, self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        out, _ = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
            need_weights=False, is_causal=is_causal,
        )  # fmt: skip
        return self.dropout2(out)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._wide(x))


class TransformerEncoder(Module):
    """`num_layers` copies of a layer, then a norm if given.

    In evaluation, where no gradient is wanted, nothing is computed for what `src_key_padding_mask`
    hides at the end of sequences, and zeros stand there before the norm, as in PyTorch.
    `enable_nested_tensor=False` has it computed; `mask_check=False` takes it for granted that it
    is the ends that are hidden.

    Source (S, N, d_model), or batches first as the layer says; the result has its shape.

    >>> layer = weft.nn.TransformerEncoderLayer(4, 2, 8)
    >>> weft.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)(weft.ones(3, 1, 4)).shape
    torch.Size([3, 1, 4])
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        batch_first = self.num_layers > 0 and self.layers[0].self_attn.batch_first
        length = src.shape[1 if src.dim() == 3 and batch_first else 0]
        causal = _is_causal(mask, is_causal, length)
        x, padding = src, src_key_padding_mask
        kept = None if mask is not None else self._kept(src, padding)
        skips = _may_nest() and kept is not None
        if skips and kept is not None:
            x, padding = _without_padding(src, kept), None
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if skips:
            x = x.to_padded_tensor(0.0, src.shape)
        elif kept is not None:
            x = x.masked_fill((weft.arange(length) >= kept.unsqueeze(1)).unsqueeze(2), 0.0)
        return x if self.norm is None else self.norm(x)

    def _kept(self, src: Tensor, padding: Tensor | None) -> Tensor | None:
        """int64 `[N]`: how many elements of each sequence are no padding; None if all are computed.

        The conditions are those of PyTorch.
        """
        if padding is None or src.is_nested or src.dim() != 3 or not self.enable_nested_tensor:
            return None
        first = self.layers[0] if self.num_layers else None
        if not isinstance(first, TransformerEncoderLayer) or not first._may_skip_padding():
            return None
        wanted = src.requires_grad or any(p.requires_grad for p in first.parameters())
        if weft.is_autocast_enabled() or (weft.is_grad_enabled() and wanted):
            return None
        shown = padding == 0  # of a bool one and of one that is added
        counts = shown.sum(1)
        at = weft.arange(src.shape[1])
        if self.mask_check and not weft.equal(shown, at < counts.unsqueeze(1)):
            if _may_nest():
                return None
            counts = weft.full_like(counts, src.shape[1])  # one kind of result, whatever the mask
        return counts


def _may_nest() -> bool:
    """Whether there are nested tensors: programs without Python compute what is hidden, too."""
    return True


def _without_padding(x: Tensor, counts: Tensor) -> Tensor:
    """The first elements of each sequence, nested."""
    rows = x[weft.arange(x.shape[1]) < counts.unsqueeze(1)]
    offsets = weft.nn.functional.pad(counts.cumsum(0), (1, 0))
    return weft.nested.nested_tensor_from_jagged(rows, offsets)


class TransformerDecoder(Module):
    """`num_layers` copies of a layer, then a norm if given.

    Target (T, N, d_model) and memory (S, N, d_model), or batches first as the layer says; the
    result has the target's shape.

    >>> layer = weft.nn.TransformerDecoderLayer(4, 2, 8)
    >>> weft.nn.TransformerDecoder(layer, 2)(weft.ones(3, 1, 4), weft.ones(5, 1, 4)).shape
    torch.Size([3, 1, 4])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch_first = self.num_layers > 0 and self.layers[0].self_attn.batch_first
        length = tgt.shape[1 if tgt.dim() == 3 and batch_first else 0]
        causal = _is_causal(tgt_mask, tgt_is_causal, length)
        x = tgt
        for layer in self.layers:
            x = layer(
                x, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder, and a decoder that attends to what it gives.

    All weights of two dims start Glorot-uniform. `custom_encoder` and `custom_decoder` take the
    place of the parts. RuntimeError if the two sequences disagree in batch or size.

    >>> import weft
    >>> model = weft.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(weft.zeros(3, 5, 8), weft.zeros(3, 4, 8)).shape
    torch.Size([3, 4, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        parts = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)

        self.encoder = custom_encoder
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*parts)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*parts)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask `(sz, sz)`: minus infinity above the diagonal, zero elsewhere."""
        return _causal_mask(sz, dtype, device)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(
                "[Transformer] expected one batch (the batch number of src and tgt must be "
                f"equal), got {src.shape[batch]} and {tgt.shape[batch]}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                "[Transformer] expected the feature number of src and tgt must be equal to "
                f"d_model, {self.d_model}, got {src.shape[-1]} and {tgt.shape[-1]}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip
