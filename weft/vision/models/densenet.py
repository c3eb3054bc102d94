"""DenseNet (Huang et al. 2016): each layer sees what all before it in its block have made."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor, nn
from weft.nn import functional as F  # noqa: N812
from weft.utils.checkpoint import checkpoint
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import begin_norm, constant

__all__ = [
    "DenseNet", "DenseNet121_Weights", "DenseNet161_Weights", "DenseNet169_Weights",
    "DenseNet201_Weights", "densenet121", "densenet161", "densenet169", "densenet201",
]  # fmt: skip


class _DenseLayer(nn.Module):
    """`growth_rate` new channels, by a convolution of one pixel and one of three."""

    def __init__(
        self,
        num_input_features: int,
        growth_rate: int,
        bn_size: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        between = bn_size * growth_rate
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, between, kernel_size=1, stride=1, bias=False)
        self.norm2 = nn.BatchNorm2d(between)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(between, growth_rate, 3, stride=1, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

    def bn_function(self, inputs: list[Tensor]) -> Tensor:
        """The narrow product of all that came before."""
        return self.conv1(self.relu1(self.norm1(weft.cat(inputs, 1))))

    def forward(self, input: Tensor | list[Tensor]) -> Tensor:
        inputs = [input] if isinstance(input, Tensor) else input
        if self.memory_efficient and any(x.requires_grad for x in inputs):
            narrow = checkpoint(lambda *x: self.bn_function([*x]), *inputs, use_reentrant=False)
        else:
            narrow = self.bn_function(inputs)
        new = self.conv2(self.relu2(self.norm2(narrow)))
        return F.dropout(new, self.drop_rate, self.training) if self.drop_rate > 0 else new


class _DenseBlock(nn.ModuleDict):
    """Layers whose results are put together, those that came in first."""

    def __init__(
        self,
        num_layers: int,
        num_input_features: int,
        bn_size: int,
        growth_rate: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        for k in range(num_layers):
            channels = num_input_features + k * growth_rate
            layer = _DenseLayer(channels, growth_rate, bn_size, drop_rate, memory_efficient)
            self.add_module(f"denselayer{k + 1}", layer)

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return weft.cat(features, 1)


class _Transition(nn.Sequential):
    """Between blocks: fewer channels, and a quarter of the pixels."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, 1, stride=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    """Blocks of densely connected layers, with transitions between them.

    Images [N, 3, H, W] give [N, num_classes].

    Args:
        growth_rate: channels that a layer adds.
        block_config: layers of each block.
        num_init_features: channels of the first convolution.
        bn_size: of a layer's narrow product, in units of `growth_rate`.
        drop_rate: of a layer's dropout.
        num_classes: numbers that come out.
        memory_efficient: compute narrow products again in backward.

    >>> from weft.vision import models
    >>> with weft.device("meta"):
    ...     model = models.DenseNet(4, (1, 1, 1, 1), 8)
    >>> model(weft.empty(1, 3, 224, 224, device="meta")).shape
    torch.Size([1, 1000])
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, int, int, int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential()
        first = nn.Conv2d(3, num_init_features, kernel_size=7, stride=2, padding=3, bias=False)
        self.features.add_module("conv0", first)
        self.features.add_module("norm0", nn.BatchNorm2d(num_init_features))
        self.features.add_module("relu0", nn.ReLU(inplace=True))
        self.features.add_module("pool0", nn.MaxPool2d(kernel_size=3, stride=2, padding=1))
        channels = num_init_features
        for k, layers in enumerate(block_config, 1):
            block = _DenseBlock(layers, channels, bn_size, growth_rate, drop_rate, memory_efficient)
            self.features.add_module(f"denseblock{k}", block)
            channels += layers * growth_rate
            if k < len(block_config):
                self.features.add_module(f"transition{k}", _Transition(channels, channels // 2))
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
            begin_norm(m)
            if isinstance(m, nn.Linear):
                constant(0.0, m.bias)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.features(x), inplace=True)
        return self.classifier(weft.flatten(F.adaptive_avg_pool2d(out, (1, 1)), 1))


def _weights(layers: int, params: int, file: str) -> Any:
    named = f"DenseNet{layers}_Weights"
    return weights_enum(named, __name__, params, 29, files={"V1": f"densenet{layers}-{file}"})


DenseNet121_Weights = _weights(121, 7978856, "a639ec97")
DenseNet161_Weights = _weights(161, 28681000, "8d451a50")
DenseNet169_Weights = _weights(169, 14149480, "b2777c0a")
DenseNet201_Weights = _weights(201, 20013928, "c1103571")


def _builder(layers: int, weights: Any, growth: int, blocks: Any, first: int) -> Any:
    def make(**how: Any) -> DenseNet:
        return DenseNet(growth, blocks, first, **how)

    return builder(f"densenet{layers}", weights, make, f"DenseNet of {layers} layers")


densenet121 = _builder(121, DenseNet121_Weights, 32, (6, 12, 24, 16), 64)
densenet161 = _builder(161, DenseNet161_Weights, 48, (6, 12, 36, 24), 96)
densenet169 = _builder(169, DenseNet169_Weights, 32, (6, 12, 32, 32), 64)
densenet201 = _builder(201, DenseNet201_Weights, 32, (6, 12, 48, 32), 64)
