"""The vision transformer (Dosovitskiy et al. 2020)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import weft
from weft import Tensor, nn
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import constant
from weft.vision.ops.misc import MLP

__all__ = [
    "ViT_B_16_Weights", "ViT_B_32_Weights", "ViT_L_16_Weights", "ViT_L_32_Weights",
    "VisionTransformer", "vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32",
]  # fmt: skip

_Norm = Callable[..., nn.Module]
_NORM: _Norm = partial(nn.LayerNorm, eps=1e-6)


class MLPBlock(MLP):
    """Two linear layers, GELU between them."""

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, dropout=dropout)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.normal_(m.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for i in range(2):  # the names of files that are older than MLP
            for kind in ("weight", "bias"):
                older = f"{prefix}linear_{i + 1}.{kind}"
                if older in state_dict:
                    state_dict[f"{prefix}{3 * i}.{kind}"] = state_dict.pop(older)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class EncoderBlock(nn.Module):
    """Attention and two linear layers, each beside the identity and behind a norm."""

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: _Norm = _NORM,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(
            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Blocks over a sequence [N, L, E] with learned positions."""

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: _Norm = _NORM,
    ) -> None:
        super().__init__()
        places = weft.empty(1, seq_length, hidden_dim).normal_(std=0.02)
        self.pos_embedding = nn.Parameter(places)
        self.dropout = nn.Dropout(dropout)
        how = (num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        self.layers = nn.Sequential(
            OrderedDict((f"encoder_layer_{i}", EncoderBlock(*how)) for i in range(num_layers))
        )
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """A transformer over the patches of images [N, 3, image_size, image_size].

    Args:
        representation_size: the width of one more layer before the last, if any.

    >>> from weft.vision import models
    >>> with weft.device("meta"):
    ...     model = models.VisionTransformer(224, 32, 1, 2, 8, 16)
    >>> model(weft.empty(1, 3, 224, 224, device="meta")).shape
    torch.Size([1, 1000])
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: _Norm = _NORM,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise AssertionError(
                f"[VisionTransformer] expected an image_size of patches of {patch_size}, got "
                f"{image_size}: Input shape indivisible by patch size!"
            )
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        self.mlp_dim, self.num_classes = mlp_dim, num_classes
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.representation_size, self.norm_layer = representation_size, norm_layer
        self.conv_proj = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        self.class_token = nn.Parameter(weft.zeros(1, 1, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(
            self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout,
            attention_dropout, norm_layer,
        )  # fmt: skip
        self.heads = nn.Sequential(self._heads())
        self._initialize()

    def _heads(self) -> OrderedDict[str, nn.Module]:
        width = self.representation_size
        if width is None:
            return OrderedDict(head=nn.Linear(self.hidden_dim, self.num_classes))
        first = nn.Linear(self.hidden_dim, width)
        return OrderedDict(pre_logits=first, act=nn.Tanh(), head=nn.Linear(width, self.num_classes))

    def _initialize(self) -> None:
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (3 * self.patch_size**2)))
        constant(0.0, self.conv_proj.bias)
        if self.representation_size is not None:
            first = self.heads.pre_logits
            nn.init.trunc_normal_(first.weight, std=math.sqrt(1 / self.hidden_dim))
            constant(0.0, first.bias)
        constant(0.0, self.heads.head.weight, self.heads.head.bias)

    def _process_input(self, x: Tensor) -> Tensor:
        """The patches of images as [N, L, E]."""
        for name, size in (("height", x.shape[-2]), ("width", x.shape[-1])):
            if size != self.image_size:
                raise AssertionError(
                    f"[VisionTransformer] expected images of {self.image_size}, got {size}: "
                    f"Wrong image {name}! Expected {self.image_size} but got {size}!"
                )
        return self.conv_proj(x).flatten(2).permute(0, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self._process_input(x)
        x = weft.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


def _weights(name: str, params: int, file: str, resize: int = 256) -> Any:
    return weights_enum(f"{name}_Weights", __name__, params, 224, resize, files={"V1": file})


ViT_B_16_Weights = _weights("ViT_B_16", 86567656, "vit_b_16-c867db91")
ViT_B_32_Weights = _weights("ViT_B_32", 88224232, "vit_b_32-d86f8d99")
ViT_L_16_Weights = _weights("ViT_L_16", 304326632, "vit_l_16-852ce7e3", 242)
ViT_L_32_Weights = _weights("ViT_L_32", 306535400, "vit_l_32-c7638314")


def _builder(name: str, weights: Any, patch: int, layers: int, heads: int, width: int) -> Any:
    def make(image_size: int = 224, **how: Any) -> VisionTransformer:
        return VisionTransformer(image_size, patch, layers, heads, width, 4 * width, **how)

    about = f"The vision transformer of {layers} layers over patches of {patch} by {patch}"
    return builder(name, weights, make, about)


vit_b_16 = _builder("vit_b_16", ViT_B_16_Weights, 16, 12, 12, 768)
vit_b_32 = _builder("vit_b_32", ViT_B_32_Weights, 32, 12, 12, 768)
vit_l_16 = _builder("vit_l_16", ViT_L_16_Weights, 16, 24, 16, 1024)
vit_l_32 = _builder("vit_l_32", ViT_L_32_Weights, 32, 24, 16, 1024)
