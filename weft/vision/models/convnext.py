"""ConvNeXt (Liu et al. 2022): a residual network with the shapes of a transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import weft
from weft import Tensor, nn
from weft.nn import functional as nnf
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import constant
from weft.vision.ops.misc import Conv2dNormActivation, Permute
from weft.vision.ops.stochastic_depth import StochasticDepth

__all__ = [
    "ConvNeXt", "ConvNeXt_Base_Weights", "ConvNeXt_Large_Weights", "ConvNeXt_Small_Weights",
    "ConvNeXt_Tiny_Weights", "convnext_base", "convnext_large", "convnext_small", "convnext_tiny",
]  # fmt: skip

_Layer = Callable[..., nn.Module]


class LayerNorm2d(nn.LayerNorm):
    """Layer normalization of the channels of each pixel of [N, C, H, W]."""

    def forward(self, x: Tensor) -> Tensor:
        how = (self.normalized_shape, self.weight, self.bias, self.eps)
        return nnf.layer_norm(x.permute(0, 2, 3, 1), *how).permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """A convolution by channel and two linear layers, scaled, beside the identity."""

    def __init__(
        self,
        dim: int,
        layer_scale: float,
        stochastic_depth_prob: float,
        norm_layer: _Layer | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True),
            Permute([0, 2, 3, 1]),
            norm(dim),
            nn.Linear(dim, 4 * dim),
            nn.GELU(),
            nn.Linear(4 * dim, dim),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(weft.ones(dim, 1, 1) * layer_scale)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        return self.stochastic_depth(self.layer_scale * self.block(input)) + input


class CNBlockConfig:
    """A stage: its channels, those after it (None at the end) and how many blocks it has."""

    def __init__(self, input_channels: int, out_channels: int | None, num_layers: int) -> None:
        self.input_channels, self.out_channels = input_channels, out_channels
        self.num_layers = num_layers

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_channels={self.input_channels}, "
            f"out_channels={self.out_channels}, num_layers={self.num_layers})"
        )


class ConvNeXt(nn.Module):
    """Over images [N, 3, H, W]: stages of blocks, each with fewer pixels and more channels.

    Args:
        block_setting: the stages.
        stochastic_depth_prob: of the last block to be left out; less before it.
        layer_scale: first value of the scales.
        num_classes: numbers that come out.

    Raises: ValueError without stages, TypeError for what is none.

    >>> from weft.vision.models import ConvNeXt
    >>> from weft.vision.models.convnext import CNBlockConfig
    >>> with weft.device("meta"):
    ...     stages = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)]
    ...     model = ConvNeXt(stages, num_classes=10).eval()
    >>> model(weft.empty(1, 3, 64, 64, device="meta")).shape
    torch.Size([1, 10])
    """

    def __init__(
        self,
        block_setting: Sequence[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: _Layer | None = None,
        norm_layer: _Layer | None = None,
    ) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError(
                f"[ConvNeXt] expected stages, got {block_setting!r}: "
                "The block_setting should not be empty"
            )
        if not all(isinstance(stage, CNBlockConfig) for stage in block_setting):
            raise TypeError(
                f"[ConvNeXt] expected a list of CNBlockConfig, got {block_setting!r}: "
                "The block_setting should be List[CNBlockConfig]"
            )
        norm, made = norm_layer or partial(LayerNorm2d, eps=1e-6), block or CNBlock
        how: dict[str, Any] = {"norm_layer": norm, "activation_layer": None, "bias": True}
        first = block_setting[0].input_channels
        parts: list[nn.Module] = [Conv2dNormActivation(3, first, 4, 4, 0, **how)]
        total, done = sum(stage.num_layers for stage in block_setting), 0
        channels = first
        for stage in block_setting:
            channels, blocks = stage.input_channels, []
            for _ in range(stage.num_layers):
                p = stochastic_depth_prob * done / (total - 1.0)
                blocks.append(made(channels, layer_scale, p))
                done += 1
            parts.append(nn.Sequential(*blocks))
            if stage.out_channels is not None:
                down = nn.Conv2d(channels, stage.out_channels, kernel_size=2, stride=2)
                parts.append(nn.Sequential(norm(channels), down))
                channels = stage.out_channels
        self.features = nn.Sequential(*parts)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            norm(channels), nn.Flatten(1), nn.Linear(channels, num_classes)
        )
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, std=0.02)
                constant(0.0, m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))


def _weights(size: str, params: int, resize: int, file: str) -> Any:
    files = {"V1": f"convnext_{size.lower()}-{file}"}
    return weights_enum(f"ConvNeXt_{size}_Weights", __name__, params, 32, resize, files=files)


def _builder(size: str, weights: Any, first: int, third: int, p: float) -> Any:
    def make(**how: Any) -> ConvNeXt:
        widths, depths = [first, 2 * first, 4 * first, 8 * first], [3, 3, third, 3]
        stages = [CNBlockConfig(*s) for s in zip(widths, [*widths[1:], None], depths)]
        return ConvNeXt(stages, **{"stochastic_depth_prob": p, **how})

    return builder(f"convnext_{size}", weights, make, f"ConvNeXt, {size}")


ConvNeXt_Tiny_Weights = _weights("Tiny", 28589128, 236, "983f1562")
ConvNeXt_Small_Weights = _weights("Small", 50223688, 230, "0c510722")
ConvNeXt_Base_Weights = _weights("Base", 88591464, 232, "6075fbad")
ConvNeXt_Large_Weights = _weights("Large", 197767336, 232, "ea097f82")
convnext_tiny = _builder("tiny", ConvNeXt_Tiny_Weights, 96, 9, 0.1)
convnext_small = _builder("small", ConvNeXt_Small_Weights, 96, 27, 0.4)
convnext_base = _builder("base", ConvNeXt_Base_Weights, 128, 27, 0.5)
convnext_large = _builder("large", ConvNeXt_Large_Weights, 192, 27, 0.5)
