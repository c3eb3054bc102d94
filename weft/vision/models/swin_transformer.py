"""Swin Transformer (Liu et al. 2021): attention within windows that move between blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import weft
from weft import Tensor, nn
from weft.nn import functional as nnf
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import constant
from weft.vision.ops.misc import MLP, Permute
from weft.vision.ops.stochastic_depth import StochasticDepth

__all__ = [
    "SwinTransformer", "Swin_B_Weights", "Swin_S_Weights", "Swin_T_Weights", "swin_b", "swin_s",
    "swin_t",
]  # fmt: skip

_Layer = Callable[..., nn.Module]


class PatchMerging(nn.Module):
    """Four neighbours of [..., H, W, C] as one of [..., H / 2, W / 2, 2 C], edges rounded up."""

    def __init__(self, dim: int, norm_layer: _Layer = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-3:-1]
        x = nnf.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        parts = [x[..., i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
        return self.reduction(self.norm(weft.cat(parts, -1)))


def _windows(x: Tensor, window: Sequence[int]) -> Tensor:
    """[N, H, W, C] as [N, windows, pixels of one, C]."""
    n, height, width, channels = x.shape
    down, across = window
    x = x.reshape(n, height // down, down, width // across, across, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(n, -1, down * across, channels)


def _image(x: Tensor, window: Sequence[int], height: int, width: int) -> Tensor:
    """What `_windows` made windows of."""
    n, channels = len(x), x.shape[-1]
    down, across = window
    x = x.reshape(n, height // down, width // across, down, across, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(n, height, width, channels)


def _apart(size: Sequence[int], window: Sequence[int], shift: Sequence[int]) -> Tensor:
    """-100 for pixels of one window that were no neighbours before the image moved, else 0.

    [windows, pixels, pixels]; the image that moved has the [H, W] `size`.
    """
    regions = []
    for n, w, s in zip(size, window, shift):
        at = weft.arange(n)
        regions.append((at >= n - w).long() + (at >= n - s).long() if s else weft.zeros_like(at))
    region = 3 * regions[0].unsqueeze(1) + regions[1]
    own = _windows(region.view(1, *size, 1), window).view(-1, window[0] * window[1])
    return (own.unsqueeze(1) != own.unsqueeze(2)).float() * -100.0


class ShiftedWindowAttention(nn.Module):
    """Attention among the pixels of each window of [N, H, W, C], which begin at a shift.

    Args:
        window_size, shift_size: height and width.
        num_heads: parts of the channels that attend on their own.

    Raises: ValueError for sizes that are no two numbers.
    """

    def __init__(
        self,
        dim: int,
        window_size: Sequence[int],
        shift_size: Sequence[int],
        num_heads: int,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError(
                f"[ShiftedWindowAttention] expected two numbers each, got {window_size} and "
                f"{shift_size}: window_size and shift_size must be of length 2"
            )
        self.window_size, self.shift_size = window_size, shift_size
        self.num_heads, self.dropout = num_heads, dropout
        self.attention_dropout = attention_dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        down, across = window_size
        places = (2 * down - 1) * (2 * across - 1)
        self.relative_position_bias_table = nn.Parameter(weft.zeros(places, num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)
        y = weft.arange(down).repeat_interleave(across)
        x = weft.arange(across).repeat(down)
        far = (y[:, None] - y + down - 1) * (2 * across - 1) + (x[:, None] - x + across - 1)
        self.register_buffer("relative_position_index", far.flatten())

    def get_relative_position_bias(self) -> Tensor:
        """What attention gets by how far two pixels are apart, [1, heads, pixels, pixels]."""
        n = self.window_size[0] * self.window_size[1]
        bias = self.relative_position_bias_table[self.relative_position_index]
        return bias.view(n, n, -1).permute(2, 0, 1).unsqueeze(0)

    def _attend(self, x: Tensor, apart: Tensor | None) -> Tensor:
        """Attention of [N, windows, pixels, C], each window by itself."""
        n, windows, pixels, channels = x.shape
        parts = self.qkv(x).reshape(n * windows, pixels, 3, self.num_heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        scores = scores + self.get_relative_position_bias()
        if apart is not None:
            shape = scores.shape
            scores = scores.view(n, windows, *shape[1:]) + apart.to(scores.dtype).unsqueeze(1)
            scores = scores.view(shape)
        weights = nnf.dropout(scores.softmax(-1), self.attention_dropout, self.training)
        out = (weights @ v).transpose(1, 2).reshape(n, windows, pixels, channels)
        return nnf.dropout(self.proj(out), self.dropout, self.training)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:3]
        window = self.window_size
        x = nnf.pad(x, (0, 0, 0, -width % window[1], 0, -height % window[0]))
        size = x.shape[1:3]
        shift = [0 if w >= n else s for n, w, s in zip(size, window, self.shift_size)]
        apart = _apart(size, window, shift).to(x.device) if any(shift) else None
        if apart is not None:
            x = x.roll((-shift[0], -shift[1]), (1, 2))
        x = _image(self._attend(_windows(x, window), apart), window, *size)
        if apart is not None:
            x = x.roll((shift[0], shift[1]), (1, 2))
        return x[:, :height, :width, :].contiguous()


class SwinTransformerBlock(nn.Module):
    """Attention and two linear layers, each after a norm and beside the identity.

    Args:
        mlp_ratio: channels between the linear layers, in those of the block.
        stochastic_depth_prob: of either to be left out while training.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: Sequence[int],
        shift_size: Sequence[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: _Layer = nn.LayerNorm,
        attn_layer: _Layer = ShiftedWindowAttention,
    ) -> None:
        super().__init__()
        how = {"attention_dropout": attention_dropout, "dropout": dropout}
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(dim, window_size, shift_size, num_heads, **how)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        widths = [int(dim * mlp_ratio), dim]
        self.mlp = MLP(dim, widths, activation_layer=nn.GELU, inplace=None, dropout=dropout)
        for m in self.mlp.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.normal_(m.bias, std=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformer(nn.Module):
    """Over images [N, 3, H, W]: stages, each with a quarter of the pixels, then one linear layer.

    Args:
        patch_size: height and width of what is a pixel of the first stage.
        embed_dim: channels of the first stage; twice as many of each next.
        depths, num_heads: blocks and heads of each stage.
        window_size: height and width.
        stochastic_depth_prob: of the last block to be left out; less before it.
        num_classes: numbers that come out.

    >>> from weft.vision.models import SwinTransformer
    >>> with weft.device("meta"):
    ...     model = SwinTransformer([4, 4], 24, [1, 1], [2, 2], [4, 4], num_classes=10).eval()
    >>> model(weft.empty(1, 3, 64, 64, device="meta")).shape
    torch.Size([1, 10])
    """

    def __init__(
        self,
        patch_size: Sequence[int],
        embed_dim: int,
        depths: Sequence[int],
        num_heads: Sequence[int],
        window_size: Sequence[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 1000,
        norm_layer: _Layer | None = None,
        block: _Layer | None = None,
        downsample_layer: _Layer = PatchMerging,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        norm, made = norm_layer or partial(nn.LayerNorm, eps=1e-5), block or SwinTransformerBlock
        how: dict[str, Any] = {
            "window_size": window_size, "mlp_ratio": mlp_ratio, "dropout": dropout,
            "attention_dropout": attention_dropout, "norm_layer": norm,
        }  # fmt: skip
        patch = (patch_size[0], patch_size[1])
        first = nn.Conv2d(3, embed_dim, kernel_size=patch, stride=patch)
        permuted = Permute([0, 2, 3, 1])
        parts: list[nn.Module] = [nn.Sequential(first, permuted, norm(embed_dim))]
        channels, done = embed_dim, 0
        for k, (depth, heads) in enumerate(zip(depths, num_heads)):
            if k > 0:
                parts.append(downsample_layer(channels, norm))
                channels *= 2
            blocks = []
            for i in range(depth):
                p = stochastic_depth_prob * float(done) / (sum(depths) - 1)
                shift = [w // 2 if i % 2 else 0 for w in window_size]
                own = {"shift_size": shift, "stochastic_depth_prob": p, **how}
                blocks.append(made(channels, heads, **own))
                done += 1
            parts.append(nn.Sequential(*blocks))
        self.features = nn.Sequential(*parts)
        self.norm = norm(channels)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(channels, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.trunc_normal_(m.weight, std=0.02)
                constant(0.0, m.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))


def _weights(size: str, params: int, resize: int, file: str) -> Any:
    return weights_enum(
        f"Swin_{size}_Weights", __name__, params, 224, resize,
        files={"V1": f"swin_{size.lower()}-{file}"}, interpolation="bicubic",
    )  # fmt: skip


def _builder(size: str, weights: Any, channels: int, third: int, heads: int, p: float) -> Any:
    def make(**how: Any) -> SwinTransformer:
        shape: dict[str, Any] = {
            "patch_size": [4, 4], "embed_dim": channels, "depths": [2, 2, third, 2],
            "num_heads": [heads, 2 * heads, 4 * heads, 8 * heads], "window_size": [7, 7],
            "stochastic_depth_prob": p,
        }  # fmt: skip
        return SwinTransformer(**shape, **how)

    return builder(f"swin_{size}", weights, make, f"Swin Transformer {size.upper()}")


Swin_T_Weights = _weights("T", 28288354, 232, "704ceda3")
Swin_S_Weights = _weights("S", 49606258, 246, "5e29d889")
Swin_B_Weights = _weights("B", 87768224, 238, "68c6b09e")
swin_t = _builder("t", Swin_T_Weights, 96, 6, 3, 0.2)
swin_s = _builder("s", Swin_S_Weights, 96, 18, 3, 0.3)
swin_b = _builder("b", Swin_B_Weights, 128, 18, 4, 0.5)
