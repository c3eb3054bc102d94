"""MobileNet V2 (Sandler et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor, nn
from weft.nn import functional as nnf
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import _make_divisible, begin_conv, begin_linear, begin_norm
from weft.vision.ops.misc import Conv2dNormActivation

__all__ = ["InvertedResidual", "MobileNetV2", "MobileNet_V2_Weights", "mobilenet_v2"]

#: Of each stage: expansion, channels, blocks, stride.
_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip


class InvertedResidual(nn.Module):
    """A convolution by channel between two of 1x1, beside the identity where shapes allow.

    Images [N, inp, H, W] give [N, oup, H, W], by `stride` smaller.

    >>> from weft.vision import models
    >>> from weft.vision.models.mobilenetv2 import InvertedResidual
    >>> InvertedResidual(4, 4, 1, 2)(weft.ones(1, 4, 2, 2)).shape
    torch.Size([1, 4, 2, 2])
    """

    def __init__(
        self,
        inp: int,
        oup: int,
        stride: int,
        expand_ratio: int,
        norm_layer: Callable[..., nn.Module] = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(
                f"[InvertedResidual] expected stride 1 or 2, got {stride}: "
                f"stride should be 1 or 2 instead of {stride}"
            )
        self.stride, self.out_channels = stride, oup
        self.use_res_connect = stride == 1 and inp == oup
        hidden = round(inp * expand_ratio)
        how: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": nn.ReLU6}
        wide = [Conv2dNormActivation(inp, hidden, 1, **how)] if expand_ratio != 1 else []
        self.conv = nn.Sequential(
            *wide,
            Conv2dNormActivation(hidden, hidden, stride=stride, groups=hidden, **how),
            nn.Conv2d(hidden, oup, 1, bias=False),
            norm_layer(oup),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """Inverted residuals, then one linear layer.

    Images [N, 3, H, W] give [N, num_classes].

    Args:
        width_mult: how many channels there are, of the paper's.
        inverted_residual_setting: of each stage: expansion, channels, blocks, stride.
        round_nearest: what numbers of channels are multiples of.

    >>> from weft.vision import models
    >>> with weft.device("meta"):
    ...     model = models.MobileNetV2()
    >>> model(weft.empty(1, 3, 224, 224, device="meta")).shape
    torch.Size([1, 1000])
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: Sequence[Sequence[int]] | None = None,
        round_nearest: int = 8,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        stages = _STAGES if inverted_residual_setting is None else inverted_residual_setting
        if len(stages) == 0 or len(stages[0]) != 4:
            raise ValueError(
                f"[MobileNetV2] expected lists of 4 numbers, got {stages}: "
                "inverted_residual_setting should be non-empty or a 4-element list"
            )
        norm, made = norm_layer or nn.BatchNorm2d, block or InvertedResidual
        how: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.ReLU6}
        channels = _make_divisible(32 * width_mult, round_nearest)
        self.last_channel = _make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features: list[nn.Module] = [Conv2dNormActivation(3, channels, stride=2, **how)]
        for expansion, width, blocks, stride in stages:
            out = _make_divisible(width * width_mult, round_nearest)
            for i in range(blocks):
                step = stride if i == 0 else 1
                features.append(made(channels, out, step, expand_ratio=expansion, norm_layer=norm))
                channels = out
        features.append(Conv2dNormActivation(channels, self.last_channel, 1, **how))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes)
        )
        self._initialize()

    def _initialize(self) -> None:
        for m in self.modules():
            begin_conv(m)
            begin_norm(m)
            begin_linear(m)

    def forward(self, x: Tensor) -> Tensor:
        x = nnf.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(weft.flatten(x, 1))


_FILES = {"V1": "mobilenet_v2-b0353104", "V2": "mobilenet_v2-7ebf99e0"}
MobileNet_V2_Weights = weights_enum("MobileNet_V2_Weights", __name__, 3504872, files=_FILES)
mobilenet_v2 = builder("mobilenet_v2", MobileNet_V2_Weights, MobileNetV2, "MobileNet V2")
