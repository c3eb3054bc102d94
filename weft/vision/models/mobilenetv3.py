"""MobileNet V3 (Howard et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import weft
from weft import Tensor, nn
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import _make_divisible, begin_conv, begin_linear, begin_norm
from weft.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation

__all__ = [
    "MobileNetV3", "MobileNet_V3_Large_Weights", "MobileNet_V3_Small_Weights",
    "mobilenet_v3_large", "mobilenet_v3_small",
]  # fmt: skip

#: Of each block: channels before, kernel, channels within, channels after, whether channels are
#: weighed, activation, stride: tables 1 and 2. The last three are the tail.
_LARGE = (
    (16, 3, 16, 16, False, "RE", 1), (16, 3, 64, 24, False, "RE", 2),
    (24, 3, 72, 24, False, "RE", 1), (24, 5, 72, 40, True, "RE", 2),
    (40, 5, 120, 40, True, "RE", 1), (40, 5, 120, 40, True, "RE", 1),
    (40, 3, 240, 80, False, "HS", 2), (80, 3, 200, 80, False, "HS", 1),
    (80, 3, 184, 80, False, "HS", 1), (80, 3, 184, 80, False, "HS", 1),
    (80, 3, 480, 112, True, "HS", 1), (112, 3, 672, 112, True, "HS", 1),
    (112, 5, 672, 160, True, "HS", 2), (160, 5, 960, 160, True, "HS", 1),
    (160, 5, 960, 160, True, "HS", 1),
)  # fmt: skip
_SMALL = (
    (16, 3, 16, 16, True, "RE", 2), (16, 3, 72, 24, False, "RE", 2),
    (24, 3, 88, 24, False, "RE", 1), (24, 5, 96, 40, True, "HS", 2),
    (40, 5, 240, 40, True, "HS", 1), (40, 5, 240, 40, True, "HS", 1),
    (40, 5, 120, 48, True, "HS", 1), (48, 5, 144, 48, True, "HS", 1),
    (48, 5, 288, 96, True, "HS", 2), (96, 5, 576, 96, True, "HS", 1),
    (96, 5, 576, 96, True, "HS", 1),
)  # fmt: skip


class InvertedResidualConfig:
    """A row of the paper's tables: the shape of a block, its channels times `width_mult`."""

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ) -> None:
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        self.use_se, self.use_hs = use_se, activation == "HS"

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """So many times as many channels, a multiple of 8."""
        return _make_divisible(channels * width_mult, 8)


#: Channels weighed by a sigmoid of straight lines.
_WEIGHED = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)


class InvertedResidual(nn.Module):
    """A convolution by channel between two of 1x1, with channels weighed before the last."""

    def __init__(
        self,
        cnf: InvertedResidualConfig,
        norm_layer: Callable[..., nn.Module],
        se_layer: Callable[..., nn.Module] = _WEIGHED,
    ) -> None:
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError(
                f"[InvertedResidual] expected stride 1 or 2, got {cnf.stride}: illegal stride value"
            )
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.out_channels, wide = cnf.out_channels, cnf.expanded_channels
        how: dict[str, Any] = {
            "norm_layer": norm_layer, "activation_layer": nn.Hardswish if cnf.use_hs else nn.ReLU,
        }  # fmt: skip
        parts: list[nn.Module] = []
        if wide != cnf.input_channels:
            parts.append(Conv2dNormActivation(cnf.input_channels, wide, 1, **how))
        stride = 1 if cnf.dilation > 1 else cnf.stride
        how |= {"dilation": cnf.dilation, "groups": wide}
        parts.append(Conv2dNormActivation(wide, wide, cnf.kernel, stride, **how))
        if cnf.use_se:
            parts.append(se_layer(wide, _make_divisible(wide // 4, 8)))
        last: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": None}
        parts.append(Conv2dNormActivation(wide, cnf.out_channels, 1, **last))
        self.block = nn.Sequential(*parts)

    def forward(self, input: Tensor) -> Tensor:
        return self.block(input) + input if self.use_res_connect else self.block(input)


class MobileNetV3(nn.Module):
    """Inverted residuals over images [N, 3, H, W], then two linear layers.

    Args:
        inverted_residual_setting: the blocks.
        last_channel: channels between the linear layers.
        num_classes: numbers that come out.

    Raises: ValueError without blocks, TypeError for what is none.

    >>> from weft.vision.models import MobileNetV3
    >>> from weft.vision.models.mobilenetv3 import InvertedResidualConfig
    >>> with weft.device("meta"):
    ...     model = MobileNetV3(
    ...         [InvertedResidualConfig(16, 3, 16, 16, False, "RE", 1, 1, 1.0)], 32, 10
    ...     ).eval()
    >>> model(weft.empty(1, 3, 64, 64, device="meta")).shape
    torch.Size([1, 10])
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        blocks = inverted_residual_setting
        if not blocks:
            raise ValueError(
                f"[MobileNetV3] expected blocks, got {blocks!r}: "
                "The inverted_residual_setting should not be empty"
            )
        if not all(isinstance(row, InvertedResidualConfig) for row in blocks):
            raise TypeError(
                f"[MobileNetV3] expected a list of InvertedResidualConfig, got {blocks!r}: "
                "The inverted_residual_setting should be List[InvertedResidualConfig]"
            )
        norm = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        how: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.Hardswish}
        made, last = block or InvertedResidual, blocks[-1].out_channels
        self.features = nn.Sequential(
            Conv2dNormActivation(3, blocks[0].input_channels, stride=2, **how),
            *(made(row, norm) for row in blocks),
            Conv2dNormActivation(last, 6 * last, 1, **how),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * last, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(p=dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        for m in self.modules():
            begin_conv(m)
            begin_norm(m)
            begin_linear(m)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(weft.flatten(self.avgpool(self.features(x)), 1))


def _builder(name: str, weights: Any, table: Any, last: int, about: str) -> Any:
    def make(
        width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False, **how: Any
    ) -> MobileNetV3:
        less = 2 if reduced_tail else 1
        rows = []
        for i, (before, kernel, wide, after, weighed, kind, stride) in enumerate(table):
            tail = i - len(table) + 3  # 0, 1 and 2 in the tail
            wide, before = (v // less if tail > 0 else v for v in (wide, before))
            after, dilation = (after // less, 1 + dilated) if tail >= 0 else (after, 1)
            row = (before, kernel, wide, after, weighed, kind, stride, dilation, width_mult)
            rows.append(InvertedResidualConfig(*row))
        channels = InvertedResidualConfig.adjust_channels(last // less, width_mult)
        return MobileNetV3(rows, channels, **how)

    return builder(name, weights, make, about)


MobileNet_V3_Large_Weights = weights_enum(
    "MobileNet_V3_Large_Weights", __name__, 5483032,
    files={"V1": "mobilenet_v3_large-8738ca79", "V2": "mobilenet_v3_large-5c1a4163"},
)  # fmt: skip
MobileNet_V3_Small_Weights = weights_enum(
    "MobileNet_V3_Small_Weights", __name__, 2542856, files={"V1": "mobilenet_v3_small-047dcff4"}
)
mobilenet_v3_large = _builder(
    "mobilenet_v3_large", MobileNet_V3_Large_Weights, _LARGE, 1280, "MobileNet V3, large"
)
mobilenet_v3_small = _builder(
    "mobilenet_v3_small", MobileNet_V3_Small_Weights, _SMALL, 1024, "MobileNet V3, small"
)
