"""ResNet (He et al. 2015), ResNeXt (Xie et al. 2016), Wide ResNet (Zagoruyko & Komodakis 2016)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import weft
from weft import Tensor, nn
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import begin_norm, constant

__all__ = [
    "BasicBlock", "Bottleneck", "ResNet", "ResNeXt50_32X4D_Weights", "ResNet101_Weights",
    "ResNet152_Weights", "ResNet18_Weights", "ResNet34_Weights", "ResNet50_Weights",
    "Wide_ResNet50_2_Weights", "resnet101", "resnet152", "resnet18", "resnet34", "resnet50",
    "resnext50_32x4d", "wide_resnet50_2",
]  # fmt: skip


def conv3x3(
    in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1
) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size."""
    return nn.Conv2d(
        in_planes, out_planes, 3, stride, dilation, dilation=dilation, groups=groups, bias=False
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A 1x1 convolution."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside the identity.

    Images [N, inplanes, H, W] give [N, planes, H, W], by `stride` smaller.

    >>> from weft.vision import models
    >>> from weft.vision.models.resnet import BasicBlock
    >>> BasicBlock(4, 4)(weft.ones(1, 4, 2, 2)).shape
    torch.Size([1, 4, 2, 2])
    """

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        if (groups, base_width) != (1, 64):
            raise ValueError(
                f"[BasicBlock] expected groups 1 and base_width 64, got {groups} and {base_width}: "
                "BasicBlock only supports groups=1 and base_width=64"
            )
        if dilation > 1:
            raise NotImplementedError(
                f"[BasicBlock] expected dilation 1, got {dilation}: "
                "Dilation > 1 not supported in BasicBlock"
            )
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, beside the identity; the 3x3 one has the stride.

    Images [N, inplanes, H, W] give [N, 4 planes, H, W], by `stride` smaller.

    >>> from weft.vision import models
    >>> from weft.vision.models.resnet import Bottleneck
    >>> Bottleneck(8, 2)(weft.ones(1, 8, 2, 2)).shape
    torch.Size([1, 8, 2, 2])
    """

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm_layer(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm_layer(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """A residual network over images [N, 3, H, W].

    Args:
        block: `BasicBlock` or `Bottleneck`.
        layers: the blocks of each of the four stages.
        zero_init_residual: whether each block is the identity at first.
        replace_stride_with_dilation: of the last three stages, which dilate in place of a stride.

    >>> from weft.vision import models
    >>> from weft.vision.models.resnet import BasicBlock
    >>> with weft.device("meta"):
    ...     model = models.ResNet(BasicBlock, [1, 1, 1, 1])
    >>> model(weft.empty(1, 3, 224, 224, device="meta")).shape
    torch.Size([1, 1000])
    """

    def __init__(
        self,
        block: Any,
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        dilate = list(replace_stride_with_dilation or [False] * 3)
        if len(dilate) != 3:
            raise ValueError(
                f"[ResNet] expected three bools, got {replace_stride_with_dilation}: "
                "replace_stride_with_dilation should be None or a 3-element tuple"
            )
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation = 64, 1
        self.groups, self.base_width = groups, width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, 7, 2, 3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._initialize(zero_init_residual)

    def _initialize(self, zero_init_residual: bool) -> None:
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            begin_norm(m)
        for m in self.modules() if zero_init_residual else ():
            if isinstance(m, (BasicBlock, Bottleneck)):
                last = m.bn3 if isinstance(m, Bottleneck) else m.bn2
                constant(0.0, last.weight)

    def _make_layer(
        self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> nn.Sequential:
        first, downsample = self.dilation, None
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        out = planes * block.expansion
        if stride != 1 or self.inplanes != out:
            skip = conv1x1(self.inplanes, out, stride)
            downsample = nn.Sequential(skip, self._norm_layer(out))
        shape = (self.groups, self.base_width)
        parts = [block(self.inplanes, planes, stride, downsample, *shape, first, self._norm_layer)]
        self.inplanes = out
        for _ in range(1, blocks):
            parts.append(block(out, planes, 1, None, *shape, self.dilation, self._norm_layer))
        return nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(weft.flatten(self.avgpool(x), 1))


def _weights(name: str, params: int, **files: str) -> Any:
    return weights_enum(f"{name}_Weights", __name__, params, files=files)


ResNet18_Weights = _weights("ResNet18", 11689512, V1="resnet18-f37072fd")
ResNet34_Weights = _weights("ResNet34", 21797672, V1="resnet34-b627a593")
ResNet50_Weights = _weights(
    "ResNet50", 25557032, V1="resnet50-0676ba61", V2="resnet50-11ad3fa6"
)  # fmt: skip
ResNet101_Weights = _weights(
    "ResNet101", 44549160, V1="resnet101-63fe2227", V2="resnet101-cd907fc2"
)  # fmt: skip
ResNet152_Weights = _weights(
    "ResNet152", 60192808, V1="resnet152-394f9c45", V2="resnet152-f82ba261"
)  # fmt: skip
ResNeXt50_32X4D_Weights = _weights(
    "ResNeXt50_32X4D", 25028904, V1="resnext50_32x4d-7cdf4587", V2="resnext50_32x4d-1a0047aa"
)
Wide_ResNet50_2_Weights = _weights(
    "Wide_ResNet50_2", 68883240, V1="wide_resnet50_2-95faca4d", V2="wide_resnet50_2-9ba9bcbe"
)


def _builder(name: str, weights: Any, block: Any, layers: list[int], about: str, **how: Any) -> Any:
    return builder(name, weights, partial(ResNet, block, layers, **how), about)


resnet18 = _builder("resnet18", ResNet18_Weights, BasicBlock, [2, 2, 2, 2], "ResNet-18")
resnet34 = _builder("resnet34", ResNet34_Weights, BasicBlock, [3, 4, 6, 3], "ResNet-34")
resnet50 = _builder("resnet50", ResNet50_Weights, Bottleneck, [3, 4, 6, 3], "ResNet-50")
resnet101 = _builder("resnet101", ResNet101_Weights, Bottleneck, [3, 4, 23, 3], "ResNet-101")
resnet152 = _builder("resnet152", ResNet152_Weights, Bottleneck, [3, 8, 36, 3], "ResNet-152")
resnext50_32x4d = _builder(
    "resnext50_32x4d", ResNeXt50_32X4D_Weights, Bottleneck, [3, 4, 6, 3],
    "ResNeXt-50 of 32 groups of 4", groups=32, width_per_group=4,
)  # fmt: skip
wide_resnet50_2 = _builder(
    "wide_resnet50_2", Wide_ResNet50_2_Weights, Bottleneck, [3, 4, 6, 3],
    "ResNet-50 twice as wide", width_per_group=128,
)  # fmt: skip
