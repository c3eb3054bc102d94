"""EfficientNet (Tan and Le 2019) and EfficientNetV2 (Tan and Le 2021)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import weft
from weft import Tensor, nn
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import _make_divisible, begin_conv, begin_norm, constant
from weft.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from weft.vision.ops.stochastic_depth import StochasticDepth

__all__ = [
    "EfficientNet", "EfficientNet_B0_Weights", "EfficientNet_B1_Weights",
    "EfficientNet_B2_Weights", "EfficientNet_B3_Weights", "EfficientNet_B4_Weights",
    "EfficientNet_B5_Weights", "EfficientNet_B6_Weights", "EfficientNet_B7_Weights",
    "EfficientNet_V2_L_Weights", "EfficientNet_V2_M_Weights", "EfficientNet_V2_S_Weights",
    "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4",
    "efficientnet_b5", "efficientnet_b6", "efficientnet_b7", "efficientnet_v2_l",
    "efficientnet_v2_m", "efficientnet_v2_s",
]  # fmt: skip

_Layer = Callable[..., nn.Module]


@dataclasses.dataclass
class _MBConvConfig:
    """A stage: blocks of which the first has the stride and all but it keep the channels."""

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    block: _Layer

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        """So many times as many channels, a multiple of 8."""
        return _make_divisible(channels * width_mult, 8, min_value)


class MBConvConfig(_MBConvConfig):
    """A stage of `MBConv`: a row of the paper's table, as wide and as deep as the factors say."""

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        width_mult: float = 1.0,
        depth_mult: float = 1.0,
        block: _Layer | None = None,
    ) -> None:
        before = self.adjust_channels(input_channels, width_mult)
        after = self.adjust_channels(out_channels, width_mult)
        layers = self.adjust_depth(num_layers, depth_mult)
        super().__init__(expand_ratio, kernel, stride, before, after, layers, block or MBConv)

    @staticmethod
    def adjust_depth(num_layers: int, depth_mult: float) -> int:
        """So many times as many blocks, rounded up."""
        return math.ceil(num_layers * depth_mult)


class FusedMBConvConfig(_MBConvConfig):
    """A stage of `FusedMBConv`."""

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        block: _Layer | None = None,
    ) -> None:
        shape = (expand_ratio, kernel, stride, input_channels, out_channels, num_layers)
        super().__init__(*shape, block or FusedMBConv)


class _Residual(nn.Module):
    """A block beside the identity where shapes allow, left out at random while training."""

    def __init__(self, cnf: _MBConvConfig, p: float, parts: list[nn.Module]) -> None:
        super().__init__()
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*parts)
        self.stochastic_depth = StochasticDepth(p, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        out = self.block(input)
        return self.stochastic_depth(out) + input if self.use_res_connect else out


def _check_stride(who: str, stride: int) -> None:
    if stride not in (1, 2):
        raise ValueError(f"[{who}] expected stride 1 or 2, got {stride}: illegal stride value")


class MBConv(_Residual):
    """A convolution by channel between two of 1x1, with channels weighed before the last."""

    def __init__(
        self,
        cnf: MBConvConfig,
        stochastic_depth_prob: float,
        norm_layer: _Layer,
        se_layer: _Layer = SqueezeExcitation,
    ) -> None:
        _check_stride("MBConv", cnf.stride)
        how: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": nn.SiLU}
        narrow = cnf.input_channels
        wide = cnf.adjust_channels(narrow, cnf.expand_ratio)
        parts: list[nn.Module] = []
        if wide != narrow:
            parts.append(Conv2dNormActivation(narrow, wide, 1, **how))
        parts.append(Conv2dNormActivation(wide, wide, cnf.kernel, cnf.stride, groups=wide, **how))
        parts.append(se_layer(wide, max(1, narrow // 4), activation=partial(nn.SiLU, inplace=True)))
        how["activation_layer"] = None
        parts.append(Conv2dNormActivation(wide, cnf.out_channels, 1, **how))
        super().__init__(cnf, stochastic_depth_prob, parts)


class FusedMBConv(_Residual):
    """One convolution in place of the first two, then one of 1x1 where there is expansion."""

    def __init__(
        self, cnf: FusedMBConvConfig, stochastic_depth_prob: float, norm_layer: _Layer
    ) -> None:
        _check_stride("FusedMBConv", cnf.stride)
        how: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": nn.SiLU}
        narrow, out = cnf.input_channels, cnf.out_channels
        wide = cnf.adjust_channels(narrow, cnf.expand_ratio)
        first = out if wide == narrow else wide
        parts: list[nn.Module] = [
            Conv2dNormActivation(narrow, first, cnf.kernel, cnf.stride, **how)
        ]  # fmt: skip
        if wide != narrow:
            how["activation_layer"] = None
            parts.append(Conv2dNormActivation(wide, out, 1, **how))
        super().__init__(cnf, stochastic_depth_prob, parts)


class EfficientNet(nn.Module):
    """Stages of blocks over images [N, 3, H, W], then one linear layer.

    Args:
        inverted_residual_setting: the stages.
        dropout: before the linear layer.
        stochastic_depth_prob: of the last block to be left out; less before it.
        num_classes: numbers that come out.
        last_channel: channels of the last convolution; four times as many as before it, if None.

    Raises: ValueError without stages, TypeError for what is none.

    >>> from weft.vision.models import EfficientNet
    >>> from weft.vision.models.efficientnet import MBConvConfig
    >>> with weft.device("meta"):
    ...     stages = [MBConvConfig(1, 3, 1, 8, 8, 1, 1.0, 1.0)]
    ...     model = EfficientNet(stages, 0.2, num_classes=10).eval()
    >>> model(weft.empty(1, 3, 64, 64, device="meta")).shape
    torch.Size([1, 10])
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[_MBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: _Layer | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        stages = inverted_residual_setting
        if not stages:
            raise ValueError(
                f"[EfficientNet] expected stages, got {stages!r}: "
                "The inverted_residual_setting should not be empty"
            )
        if not all(isinstance(stage, _MBConvConfig) for stage in stages):
            raise TypeError(
                f"[EfficientNet] expected a list of MBConvConfig, got {stages!r}: "
                "The inverted_residual_setting should be List[MBConvConfig]"
            )
        norm = norm_layer or nn.BatchNorm2d
        how: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.SiLU}
        parts: list[nn.Module] = [
            Conv2dNormActivation(3, stages[0].input_channels, stride=2, **how)
        ]  # fmt: skip
        total, done = sum(stage.num_layers for stage in stages), 0
        for stage in stages:
            blocks = []
            rest = dataclasses.replace(_plain(stage), input_channels=stage.out_channels, stride=1)
            for i in range(stage.num_layers):
                p = stochastic_depth_prob * float(done) / total
                blocks.append(stage.block(rest if i else stage, p, norm))
                done += 1
            parts.append(nn.Sequential(*blocks))
        before = stages[-1].out_channels
        last = 4 * before if last_channel is None else last_channel
        parts.append(Conv2dNormActivation(before, last, 1, **how))
        self.features = nn.Sequential(*parts)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout, inplace=True), nn.Linear(last, num_classes)
        )
        for m in self.modules():
            begin_conv(m)
            begin_norm(m)
            if isinstance(m, nn.Linear):
                bound = 1.0 / math.sqrt(m.out_features)
                nn.init.uniform_(m.weight, -bound, bound)
                constant(0.0, m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(weft.flatten(self.avgpool(self.features(x)), 1))


def _plain(stage: _MBConvConfig) -> _MBConvConfig:
    """The stage as it is, which `replace` can make others of."""
    return _MBConvConfig(*(getattr(stage, f.name) for f in dataclasses.fields(_MBConvConfig)))


#: Of each stage: expansion, kernel, stride, channels before and after, blocks.
_STAGES = (
    (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
)  # fmt: skip
#: The same of V2, whose first three stages are fused.
_SECOND = {
    "s": ((1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4),
          (4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15)),
    "m": ((1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5),
          (4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18),
          (6, 3, 1, 304, 512, 5)),
    "l": ((1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7),
          (4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25),
          (6, 3, 1, 384, 640, 7)),
}  # fmt: skip


def _weights(name: str, params: int, crop: int, resize: int, *files: str, **how: Any) -> Any:
    named = {f"V{k}": f"efficientnet_{name.lower()}{file}" for k, file in enumerate(files, 1)}
    least = 33 if name.startswith("V2") else 1
    return weights_enum(
        f"EfficientNet_{name}_Weights", __name__, params, least, resize,
        files=named, crop_size=crop, **how,
    )  # fmt: skip


def _builder(name: str, weights: Any, width: float, depth: float, dropout: float) -> Any:
    slow = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01) if name[1] in "567" else None

    def make(**how: Any) -> EfficientNet:
        stages = [MBConvConfig(*row, width, depth) for row in _STAGES]
        return EfficientNet(stages, **{"dropout": dropout, "norm_layer": slow, **how})

    return builder(f"efficientnet_{name}", weights, make, f"EfficientNet {name.upper()}")


def _second(size: str, weights: Any, dropout: float) -> Any:
    def make(**how: Any) -> EfficientNet:
        kinds = [FusedMBConvConfig] * 3 + [MBConvConfig] * 4
        stages: list[_MBConvConfig] = [kind(*row) for kind, row in zip(kinds, _SECOND[size])]
        norm = partial(nn.BatchNorm2d, eps=1e-03)
        own = {"dropout": dropout, "norm_layer": norm, "last_channel": 1280}
        return EfficientNet(stages, **{**own, **how})

    about = f"EfficientNetV2 {size.upper()}"
    return builder(f"efficientnet_v2_{size}", weights, make, about)


_CUBIC: dict[str, Any] = {"interpolation": "bicubic"}
EfficientNet_B0_Weights = _weights("B0", 5288548, 224, 256, "_rwightman-7f5810bc", **_CUBIC)
EfficientNet_B1_Weights = _weights(
    "B1", 7794184, 240, 256, "_rwightman-bac287d4", "-c27df63c",
    second={"resize_size": 255, "interpolation": "bilinear"}, **_CUBIC,
)  # fmt: skip
EfficientNet_B2_Weights = _weights("B2", 9109994, 288, 288, "_rwightman-c35c1473", **_CUBIC)
EfficientNet_B3_Weights = _weights("B3", 12233232, 300, 320, "_rwightman-b3899882", **_CUBIC)
EfficientNet_B4_Weights = _weights("B4", 19341616, 380, 384, "_rwightman-23ab8bcd", **_CUBIC)
EfficientNet_B5_Weights = _weights("B5", 30389784, 456, 456, "_lukemelas-1a07897c", **_CUBIC)
EfficientNet_B6_Weights = _weights("B6", 43040704, 528, 528, "_lukemelas-24a108a5", **_CUBIC)
EfficientNet_B7_Weights = _weights("B7", 66347960, 600, 600, "_lukemelas-c5b4e57e", **_CUBIC)
EfficientNet_V2_S_Weights = _weights("V2_S", 21458488, 384, 384, "-dd5fe13b")
EfficientNet_V2_M_Weights = _weights("V2_M", 54139356, 480, 480, "-dc08266a")
EfficientNet_V2_L_Weights = _weights(
    "V2_L", 118515272, 480, 480, "-59c71312", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), **_CUBIC
)

efficientnet_b0 = _builder("b0", EfficientNet_B0_Weights, 1.0, 1.0, 0.2)
efficientnet_b1 = _builder("b1", EfficientNet_B1_Weights, 1.0, 1.1, 0.2)
efficientnet_b2 = _builder("b2", EfficientNet_B2_Weights, 1.1, 1.2, 0.3)
efficientnet_b3 = _builder("b3", EfficientNet_B3_Weights, 1.2, 1.4, 0.3)
efficientnet_b4 = _builder("b4", EfficientNet_B4_Weights, 1.4, 1.8, 0.4)
efficientnet_b5 = _builder("b5", EfficientNet_B5_Weights, 1.6, 2.2, 0.4)
efficientnet_b6 = _builder("b6", EfficientNet_B6_Weights, 1.8, 2.6, 0.5)
efficientnet_b7 = _builder("b7", EfficientNet_B7_Weights, 2.0, 3.1, 0.5)
efficientnet_v2_s = _second("s", EfficientNet_V2_S_Weights, 0.2)
efficientnet_v2_m = _second("m", EfficientNet_V2_M_Weights, 0.3)
efficientnet_v2_l = _second("l", EfficientNet_V2_L_Weights, 0.4)
