"""ShuffleNet V2 (Ma et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor, nn
from weft.nn.functional import channel_shuffle
from weft.vision.models._api import builder, weights_enum

__all__ = [
    "ShuffleNetV2", "ShuffleNet_V2_X0_5_Weights", "ShuffleNet_V2_X1_0_Weights",
    "ShuffleNet_V2_X1_5_Weights", "ShuffleNet_V2_X2_0_Weights", "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0",
]  # fmt: skip


def _pointwise(inp: int, oup: int) -> list[nn.Module]:
    """A convolution of 1x1 with a norm and an activation."""
    conv = nn.Conv2d(inp, oup, kernel_size=1, stride=1, padding=0, bias=False)
    return [conv, nn.BatchNorm2d(oup), nn.ReLU(inplace=True)]


class InvertedResidual(nn.Module):
    """Half of the channels as they are, half through convolutions, and both shuffled.

    With a stride, all channels go both ways.
    """

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        half = oup // 2
        if not 1 <= stride <= 3:
            raise ValueError(
                f"[InvertedResidual] expected stride 1 to 3, got {stride}: illegal stride value"
            )
        if stride == 1 and inp != 2 * half:
            raise ValueError(
                f"[InvertedResidual] expected as many channels before as after, got {inp} and "
                f"{oup}: Invalid combination of stride {stride}, inp {inp} and oup {oup} values. "
                "If stride == 1 then inp should be equal to oup // 2 << 1."
            )
        self.stride = stride
        beside: list[nn.Module] = []
        if stride > 1:
            beside = [*self._by_channel(inp, stride), *_pointwise(inp, half)]
        self.branch1 = nn.Sequential(*beside)
        self.branch2 = nn.Sequential(
            *_pointwise(inp if stride > 1 else half, half),
            *self._by_channel(half, stride),
            *_pointwise(half, half),
        )

    @staticmethod
    def depthwise_conv(
        i: int, o: int, kernel_size: int, stride: int = 1, padding: int = 0, bias: bool = False
    ) -> nn.Conv2d:
        """A convolution of each channel by itself."""
        return nn.Conv2d(i, o, kernel_size, stride, padding, bias=bias, groups=i)

    def _by_channel(self, channels: int, stride: int) -> list[nn.Module]:
        conv = self.depthwise_conv(channels, channels, kernel_size=3, stride=stride, padding=1)
        return [conv, nn.BatchNorm2d(channels)]

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            kept, x = x.chunk(2, dim=1)
        else:
            kept = self.branch1(x)
        return channel_shuffle(weft.cat((kept, self.branch2(x)), dim=1), 2)


class ShuffleNetV2(nn.Module):
    """Three stages of blocks, then one linear layer.

    Args:
        stages_repeats: blocks of each stage.
        stages_out_channels: channels of the first convolution, the stages and the last one.
        num_classes: numbers that come out.

    Raises: ValueError for lists of other lengths.

    >>> from weft.vision.models import ShuffleNetV2
    >>> with weft.device("meta"):
    ...     model = ShuffleNetV2([1, 1, 1], [8, 16, 32, 64, 128], 10).eval()
    >>> model(weft.empty(1, 3, 64, 64, device="meta")).shape
    torch.Size([1, 10])
    """

    def __init__(
        self,
        stages_repeats: Sequence[int],
        stages_out_channels: Sequence[int],
        num_classes: int = 1000,
        inverted_residual: Callable[..., nn.Module] = InvertedResidual,
    ) -> None:
        super().__init__()
        for name, given, n in (
            ("stages_repeats", stages_repeats, 3),
            ("stages_out_channels", stages_out_channels, 5),
        ):
            if len(given) != n:
                raise ValueError(
                    f"[ShuffleNetV2] expected {n} numbers, got {given}: "
                    f"expected {name} as list of {n} positive ints"
                )
        self._stage_out_channels = stages_out_channels
        first, *widths, last = stages_out_channels
        self.conv1 = nn.Sequential(
            nn.Conv2d(3, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU(inplace=True)
        )
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        channels = first
        for k, (blocks, width) in enumerate(zip(stages_repeats, widths), 2):
            parts = [inverted_residual(channels, width, 2)]
            parts += [inverted_residual(width, width, 1) for _ in range(blocks - 1)]
            self.add_module(f"stage{k}", nn.Sequential(*parts))
            channels = width
        self.conv5 = nn.Sequential(*_pointwise(channels, last))
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage4(self.stage3(self.stage2(self.maxpool(self.conv1(x)))))
        return self.fc(self.conv5(x).mean([2, 3]))


def _weights(width: str, params: int, file: str, resize: int = 256) -> Any:
    name = f"ShuffleNet_V2_X{width}_Weights"
    return weights_enum(name, __name__, params, resize=resize, files={"V1": f"shufflenetv2_{file}"})


def _builder(width: str, weights: Any, channels: list[int]) -> Any:
    def make(**how: Any) -> ShuffleNetV2:
        return ShuffleNetV2([4, 8, 4], channels, **how)

    about = f"ShuffleNet V2, {width.replace('_', '.')} times as wide"
    return builder(f"shufflenet_v2_x{width}", weights, make, about)


ShuffleNet_V2_X0_5_Weights = _weights("0_5", 1366792, "x0.5-f707e7126e")
ShuffleNet_V2_X1_0_Weights = _weights("1_0", 2278604, "x1-5666bf0f80")
ShuffleNet_V2_X1_5_Weights = _weights("1_5", 3503624, "x1_5-3c479a10", 232)
ShuffleNet_V2_X2_0_Weights = _weights("2_0", 7393996, "x2_0-8be3c8ee", 232)
shufflenet_v2_x0_5 = _builder("0_5", ShuffleNet_V2_X0_5_Weights, [24, 48, 96, 192, 1024])
shufflenet_v2_x1_0 = _builder("1_0", ShuffleNet_V2_X1_0_Weights, [24, 116, 232, 464, 1024])
shufflenet_v2_x1_5 = _builder("1_5", ShuffleNet_V2_X1_5_Weights, [24, 176, 352, 704, 1024])
shufflenet_v2_x2_0 = _builder("2_0", ShuffleNet_V2_X2_0_Weights, [24, 244, 488, 976, 2048])
