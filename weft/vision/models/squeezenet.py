"""SqueezeNet (Iandola et al. 2016)."""

from __future__ import annotations

from functools import partial
from typing import Any

import weft
from weft import Tensor, nn
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import constant

__all__ = [
    "SqueezeNet", "SqueezeNet1_0_Weights", "SqueezeNet1_1_Weights", "squeezenet1_0",
    "squeezenet1_1",
]  # fmt: skip

#: The first convolution (channels, kernel), then fires by their narrow channels; 0 is a pool.
_VERSIONS = {
    "1_0": ((96, 7), (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
    "1_1": ((64, 3), (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64)),
}


class Fire(nn.Module):
    """Few channels, then many: half of them by 1x1, half by 3x3."""

    def __init__(
        self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int
    ) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        small = self.expand1x1_activation(self.expand1x1(x))
        return weft.cat([small, self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """Fires over images [N, 3, H, W], with pools between, and the mean of a last convolution.

    Args:
        version: "1_0" or "1_1", which pools earlier.
        num_classes: numbers that come out.
        dropout: before the last convolution.

    Raises: ValueError for another version.

    >>> from weft.vision.models import SqueezeNet
    >>> with weft.device("meta"):
    ...     model = SqueezeNet("1_1", 10).eval()
    >>> model(weft.empty(1, 3, 64, 64, device="meta")).shape
    torch.Size([1, 10])
    """

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in _VERSIONS:
            raise ValueError(
                f"[SqueezeNet] expected version 1_0 or 1_1, got {version!r}: "
                f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected"
            )
        self.num_classes = num_classes
        (channels, kernel), fires = _VERSIONS[version]
        parts: list[nn.Module] = [
            nn.Conv2d(3, channels, kernel_size=kernel, stride=2), nn.ReLU(inplace=True),
        ]  # fmt: skip
        for narrow in fires:
            if narrow == 0:
                parts.append(nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True))
            else:
                parts.append(Fire(channels, narrow, 4 * narrow, 4 * narrow))
                channels = 8 * narrow
        self.features = nn.Sequential(*parts)
        last = nn.Conv2d(512, num_classes, kernel_size=1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                if m is last:
                    nn.init.normal_(m.weight, mean=0.0, std=0.01)
                else:
                    nn.init.kaiming_uniform_(m.weight)
                constant(0.0, m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return weft.flatten(self.classifier(self.features(x)), 1)


def _weights(version: str, params: int, size: int, file: str) -> Any:
    name = f"SqueezeNet{version}_Weights"
    return weights_enum(name, __name__, params, size, files={"V1": f"squeezenet{version}-{file}"})


SqueezeNet1_0_Weights = _weights("1_0", 1248424, 21, "b66bff10")
SqueezeNet1_1_Weights = _weights("1_1", 1235496, 17, "b8a52dc0")
squeezenet1_0 = builder(
    "squeezenet1_0", SqueezeNet1_0_Weights, partial(SqueezeNet, "1_0"), "SqueezeNet"
)
squeezenet1_1 = builder(
    "squeezenet1_1", SqueezeNet1_1_Weights, partial(SqueezeNet, "1_1"), "SqueezeNet, early pools"
)
