"""MNASNet (Tan et al. 2018): a network that was searched for, the paper's B1."""

from __future__ import annotations

from functools import partial
from typing import Any

from weft import Tensor, nn
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import _make_divisible, begin_conv, begin_norm, constant

__all__ = [
    "MNASNet", "MNASNet0_5_Weights", "MNASNet0_75_Weights", "MNASNet1_0_Weights",
    "MNASNet1_3_Weights", "mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3",
]  # fmt: skip

#: Of running statistics: the paper's 0.9997 is the part that stays.
_MOMENTUM = 1 - 0.9997
#: Of each stage: kernel, stride, expansion, blocks.
_STAGES = ((3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1))


def _conv(inp: int, oup: int, kernel: int, momentum: float, **how: Any) -> list[nn.Module]:
    """A convolution that keeps the size but for its stride, and a norm."""
    conv = nn.Conv2d(inp, oup, kernel, padding=kernel // 2, bias=False, **how)
    return [conv, nn.BatchNorm2d(oup, momentum=momentum)]


class _InvertedResidual(nn.Module):
    """A convolution by channel between two of 1x1, beside the identity where shapes allow."""

    def __init__(
        self,
        in_ch: int,
        out_ch: int,
        kernel_size: int,
        stride: int,
        expansion_factor: int,
        bn_momentum: float = 0.1,
    ) -> None:
        super().__init__()
        for name, given, known in (
            ("stride", stride, (1, 2)), ("kernel_size", kernel_size, (3, 5)),
        ):  # fmt: skip
            if given not in known:
                raise ValueError(
                    f"[MNASNet] expected {name} {known[0]} or {known[1]}, got {given}: "
                    f"{name} should be {known[0]} or {known[1]} instead of {given}"
                )
        wide = in_ch * expansion_factor
        self.apply_residual = in_ch == out_ch and stride == 1
        self.layers = nn.Sequential(
            *_conv(in_ch, wide, 1, bn_momentum),
            nn.ReLU(inplace=True),
            *_conv(wide, wide, kernel_size, bn_momentum, stride=stride, groups=wide),
            nn.ReLU(inplace=True),
            *_conv(wide, out_ch, 1, bn_momentum),
        )

    def forward(self, input: Tensor) -> Tensor:
        out = self.layers(input)
        return out + input if self.apply_residual else out


class MNASNet(nn.Module):
    """Stages of inverted residuals over images [N, 3, H, W], then one linear layer.

    Args:
        alpha: how many channels there are, of the paper's.
        num_classes: numbers that come out.
        dropout: before the linear layer.

    Raises: ValueError where `alpha` is not positive.

    >>> from weft.vision.models import MNASNet
    >>> with weft.device("meta"):
    ...     model = MNASNet(0.5, 10).eval()
    >>> model(weft.empty(1, 3, 64, 64, device="meta")).shape
    torch.Size([1, 10])
    """

    _version = 2

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(
                f"[MNASNet] expected positive alpha, got {alpha}: "
                f"alpha should be greater than 0.0 instead of {alpha}"
            )
        self.alpha, self.num_classes = alpha, num_classes
        widths = (32, 16, 24, 40, 80, 96, 192, 320)
        first, channels, *rest = (_make_divisible(width * alpha, 8) for width in widths)
        parts: list[nn.Module] = [
            *_conv(3, first, 3, _MOMENTUM, stride=2),
            nn.ReLU(inplace=True),
            *_conv(first, first, 3, _MOMENTUM, stride=1, groups=first),
            nn.ReLU(inplace=True),
            *_conv(first, channels, 1, _MOMENTUM, stride=1),
        ]
        for width, (kernel, stride, expansion, blocks) in zip(rest, _STAGES):
            stage = [_InvertedResidual(channels, width, kernel, stride, expansion, _MOMENTUM)]
            for _ in range(blocks - 1):
                stage.append(_InvertedResidual(width, width, kernel, 1, expansion, _MOMENTUM))
            parts.append(nn.Sequential(*stage))
            channels = width
        parts += [*_conv(channels, 1280, 1, _MOMENTUM, stride=1), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*parts)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout, inplace=True), nn.Linear(1280, num_classes)
        )
        for m in self.modules():
            begin_conv(m)
            begin_norm(m)
            if isinstance(m, nn.Linear):
                nn.init.kaiming_uniform_(m.weight, mode="fan_out", nonlinearity="sigmoid")
                constant(0.0, m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.layers(x).mean([2, 3]))


def _weights(width: str, params: int, file: str, resize: int = 256) -> Any:
    name = f"MNASNet{width}_Weights"
    return weights_enum(name, __name__, params, resize=resize, files={"V1": f"mnasnet{file}"})


def _builder(width: str, weights: Any) -> Any:
    factor = width.replace("_", ".")
    make = partial(MNASNet, float(factor))
    return builder(f"mnasnet{width}", weights, make, f"MNASNet, {factor} times as wide")


MNASNet0_5_Weights = _weights("0_5", 2218512, "0.5_top1_67.823-3ffadce67e")
MNASNet0_75_Weights = _weights("0_75", 3170208, "0_75-7090bc5f", 232)
MNASNet1_0_Weights = _weights("1_0", 4383312, "1.0_top1_73.512-f206786ef8")
MNASNet1_3_Weights = _weights("1_3", 6282256, "1_3-a4c69d6f", 232)
mnasnet0_5 = _builder("0_5", MNASNet0_5_Weights)
mnasnet0_75 = _builder("0_75", MNASNet0_75_Weights)
mnasnet1_0 = _builder("1_0", MNASNet1_0_Weights)
mnasnet1_3 = _builder("1_3", MNASNet1_3_Weights)
