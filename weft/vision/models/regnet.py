"""RegNet (Radosavovic et al. 2020): networks whose widths lie on a line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import weft
from weft import Tensor, nn
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import _make_divisible, begin_linear, begin_norm
from weft.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation

__all__ = [
    "RegNet", "RegNet_X_1_6GF_Weights", "RegNet_X_3_2GF_Weights", "RegNet_X_400MF_Weights",
    "RegNet_X_800MF_Weights", "RegNet_X_8GF_Weights", "RegNet_Y_1_6GF_Weights",
    "RegNet_Y_3_2GF_Weights", "RegNet_Y_400MF_Weights", "RegNet_Y_800MF_Weights",
    "RegNet_Y_8GF_Weights", "regnet_x_1_6gf", "regnet_x_3_2gf", "regnet_x_400mf",
    "regnet_x_800mf", "regnet_x_8gf", "regnet_y_1_6gf", "regnet_y_3_2gf", "regnet_y_400mf",
    "regnet_y_800mf", "regnet_y_8gf",
]  # fmt: skip

_Layer = Callable[..., nn.Module]


class SimpleStemIN(Conv2dNormActivation):
    """The first convolution."""

    def __init__(
        self, width_in: int, width_out: int, norm_layer: _Layer, activation_layer: _Layer
    ) -> None:
        how: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": activation_layer}
        super().__init__(width_in, width_out, stride=2, **how)


class BottleneckTransform(nn.Sequential):
    """A grouped convolution between two of 1x1, with channels weighed before the last."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: _Layer,
        activation_layer: _Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None,
    ) -> None:
        super().__init__()
        how: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": activation_layer}
        width = round(width_out * bottleneck_multiplier)
        self.add_module("a", Conv2dNormActivation(width_in, width, 1, 1, **how))
        groups = width // group_width
        self.add_module("b", Conv2dNormActivation(width, width, 3, stride, groups=groups, **how))
        if se_ratio:
            narrow = round(se_ratio * width_in)
            self.add_module("se", SqueezeExcitation(width, narrow, activation_layer))
        how["activation_layer"] = None
        self.add_module("c", Conv2dNormActivation(width, width_out, 1, 1, **how))


class ResBottleneckBlock(nn.Module):
    """A bottleneck beside the identity, or a convolution of 1x1 where shapes differ."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: _Layer,
        activation_layer: _Layer,
        group_width: int = 1,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
    ) -> None:
        super().__init__()
        self.proj = None
        if width_in != width_out or stride != 1:
            how: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": None}
            self.proj = Conv2dNormActivation(width_in, width_out, 1, stride, **how)
        self.f = BottleneckTransform(
            width_in, width_out, stride, norm_layer, activation_layer, group_width,
            bottleneck_multiplier, se_ratio,
        )  # fmt: skip
        self.activation = activation_layer(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        beside = x if self.proj is None else self.proj(x)
        return self.activation(beside + self.f(x))


class AnyStage(nn.Sequential):
    """Blocks of one width, the first of which has the stride."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        depth: int,
        block_constructor: _Layer,
        norm_layer: _Layer,
        activation_layer: _Layer,
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None = None,
        stage_index: int = 0,
    ) -> None:
        super().__init__()
        rest = (norm_layer, activation_layer, group_width, bottleneck_multiplier, se_ratio)
        for i in range(depth):
            shape = (width_out, width_out, 1) if i else (width_in, width_out, stride)
            self.add_module(f"block{stage_index}-{i}", block_constructor(*shape, *rest))


class BlockParams:
    """What stages there are: each list has a number for each of them."""

    def __init__(
        self,
        depths: Sequence[int],
        widths: Sequence[int],
        group_widths: Sequence[int],
        bottleneck_multipliers: Sequence[float],
        strides: Sequence[int],
        se_ratio: float | None = None,
    ) -> None:
        self.depths, self.widths, self.group_widths = depths, widths, group_widths
        self.bottleneck_multipliers = bottleneck_multipliers
        self.strides, self.se_ratio = strides, se_ratio

    @classmethod
    def from_init_params(
        cls,
        depth: int,
        w_0: int,
        w_a: float,
        w_m: float,
        group_width: int,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
    ) -> BlockParams:
        """The stages of `depth` blocks whose widths follow w_0 + w_a * i, in powers of w_m.

        Widths are multiples of 8 and of the group's; blocks of one width are a stage.

        Raises: ValueError where widths would not grow.
        """
        if w_a < 0 or w_0 <= 0 or w_m <= 1 or w_0 % 8 != 0:
            raise ValueError(
                f"[RegNet] expected w_a >= 0, w_0 > 0 of eights and w_m > 1, got {w_a}, {w_0} and "
                f"{w_m}: Invalid RegNet settings"
            )
        line = weft.arange(depth, device="cpu") * w_a + w_0  # read, on whichever device layers are
        power = weft.round(weft.log(line / w_0) / math.log(w_m))
        rounded = (weft.round(w_0 * w_m**power / 8) * 8).int().tolist()
        widths, depths, groups = [], [], []
        for width in dict.fromkeys(rounded):
            within = int(width * bottleneck_multiplier)
            group = min(group_width, within)
            widths.append(int(_make_divisible(within, group) / bottleneck_multiplier))
            depths.append(rounded.count(width))
            groups.append(group)
        n = len(widths)
        return cls(depths, widths, groups, [bottleneck_multiplier] * n, [2] * n, se_ratio)


class RegNet(nn.Module):
    """Stages of bottlenecks over images [N, 3, H, W], then one linear layer.

    Args:
        block_params: the stages.
        num_classes: numbers that come out.
        stem_width: channels of the first convolution.
        stem_type, block_type: the classes of the first convolution and of the blocks.

    >>> from weft.vision.models import RegNet
    >>> from weft.vision.models.regnet import BlockParams
    >>> with weft.device("meta"):
    ...     model = RegNet(BlockParams.from_init_params(4, 24, 36.0, 2.5, 8), 10).eval()
    >>> model(weft.empty(1, 3, 64, 64, device="meta")).shape
    torch.Size([1, 10])
    """

    def __init__(
        self,
        block_params: BlockParams,
        num_classes: int = 1000,
        stem_width: int = 32,
        stem_type: _Layer | None = None,
        block_type: _Layer | None = None,
        norm_layer: _Layer | None = None,
        activation: _Layer | None = None,
    ) -> None:
        super().__init__()
        how = (norm_layer or nn.BatchNorm2d, activation or nn.ReLU)
        self.stem = (stem_type or SimpleStemIN)(3, stem_width, *how)
        self.trunk_output = nn.Sequential()
        width, made = stem_width, block_type or ResBottleneckBlock
        stages = zip(
            block_params.widths, block_params.strides, block_params.depths,
            block_params.group_widths, block_params.bottleneck_multipliers,
        )  # fmt: skip
        for k, (out, stride, depth, group, multiplier) in enumerate(stages, 1):
            rest: Any = (group, multiplier, block_params.se_ratio, k)
            stage = AnyStage(width, out, stride, depth, made, *how, *rest)
            self.trunk_output.add_module(f"block{k}", stage)
            width = out
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                fan = m.kernel_size[0] * m.kernel_size[1] * m.out_channels
                nn.init.normal_(m.weight, mean=0.0, std=math.sqrt(2.0 / fan))
            begin_norm(m)
            begin_linear(m)

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.trunk_output(self.stem(x)))
        return self.fc(x.flatten(start_dim=1))


def _weights(name: str, params: int, *files: str) -> Any:
    named = {f"V{k}": f"regnet_{name.lower()}-{file}" for k, file in enumerate(files, 1)}
    return weights_enum(f"RegNet_{name}_Weights", __name__, params, files=named)


def _builder(
    name: str, weights: Any, depth: int, w_0: int, w_a: float, w_m: float, group_width: int
) -> Any:
    ratio = 0.25 if name.startswith("y") else None

    def make(**how: Any) -> RegNet:
        norm = partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1)
        line = (depth, w_0, w_a, w_m, group_width)
        stages = BlockParams.from_init_params(*line, se_ratio=ratio)
        return RegNet(stages, **{"norm_layer": norm, **how})

    return builder(f"regnet_{name}", weights, make, f"RegNet {name[0].upper()} of {name[2:]}")


RegNet_Y_400MF_Weights = _weights("Y_400MF", 4344144, "c65dace8", "e6988f5f")
RegNet_Y_800MF_Weights = _weights("Y_800MF", 6432512, "1b27b58c", "58fc7688")
RegNet_Y_1_6GF_Weights = _weights("Y_1_6GF", 11202430, "b11a554e", "0d7bc02a")
RegNet_Y_3_2GF_Weights = _weights("Y_3_2GF", 19436338, "b5a9779c", "9180c971")
RegNet_Y_8GF_Weights = _weights("Y_8GF", 39381472, "d0d0e4a8", "dc2b1b54")
RegNet_X_400MF_Weights = _weights("X_400MF", 5495976, "adf1edd5", "62229a5f")
RegNet_X_800MF_Weights = _weights("X_800MF", 7259656, "ad17e45c", "94a99ebd")
RegNet_X_1_6GF_Weights = _weights("X_1_6GF", 9190136, "e3633e7f", "a12f2b72")
RegNet_X_3_2GF_Weights = _weights("X_3_2GF", 15296552, "f342aeae", "7071aa85")
RegNet_X_8GF_Weights = _weights("X_8GF", 39572648, "03ceed89", "2b70d774")
regnet_y_400mf = _builder("y_400mf", RegNet_Y_400MF_Weights, 16, 48, 27.89, 2.09, 8)
regnet_y_800mf = _builder("y_800mf", RegNet_Y_800MF_Weights, 14, 56, 38.84, 2.4, 16)
regnet_y_1_6gf = _builder("y_1_6gf", RegNet_Y_1_6GF_Weights, 27, 48, 20.71, 2.65, 24)
regnet_y_3_2gf = _builder("y_3_2gf", RegNet_Y_3_2GF_Weights, 21, 80, 42.63, 2.66, 24)
regnet_y_8gf = _builder("y_8gf", RegNet_Y_8GF_Weights, 17, 192, 76.82, 2.19, 56)
regnet_x_400mf = _builder("x_400mf", RegNet_X_400MF_Weights, 22, 24, 24.48, 2.54, 16)
regnet_x_800mf = _builder("x_800mf", RegNet_X_800MF_Weights, 16, 56, 35.73, 2.28, 16)
regnet_x_1_6gf = _builder("x_1_6gf", RegNet_X_1_6GF_Weights, 18, 80, 34.01, 2.25, 24)
regnet_x_3_2gf = _builder("x_3_2gf", RegNet_X_3_2GF_Weights, 25, 88, 26.31, 2.25, 48)
regnet_x_8gf = _builder("x_8gf", RegNet_X_8GF_Weights, 23, 80, 49.56, 2.88, 120)
