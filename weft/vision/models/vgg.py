"""VGG (Simonyan & Zisserman 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor, nn
from weft.vision.models._api import builder, weights_enum
from weft.vision.models._utils import begin_linear, begin_norm, constant

__all__ = [
    "VGG", "VGG11_BN_Weights", "VGG11_Weights", "VGG13_BN_Weights", "VGG13_Weights",
    "VGG16_BN_Weights", "VGG16_Weights", "VGG19_BN_Weights", "VGG19_Weights", "vgg11", "vgg11_bn",
    "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip

#: Convolutions of each stage, by the paper's letters; the stages have 64 to 512 channels.
_STAGES = {"A": (1, 1, 2, 2, 2), "B": (2, 2, 2, 2, 2), "D": (2, 2, 3, 3, 3), "E": (2, 2, 4, 4, 4)}
#: The same as a list of channels and "M" for a pooling.
cfgs: dict[str, list[Any]] = {
    letter: [v for n, c in zip(counts, (64, 128, 256, 512, 512)) for v in [*[c] * n, "M"]]
    for letter, counts in _STAGES.items()
}


class VGG(nn.Module):
    """Convolutions, then three linear layers with dropout.

    Images [N, 3, H, W] give [N, num_classes].

    >>> from weft.vision import models
    >>> with weft.device("meta"):
    ...     model = models.VGG(weft.nn.Conv2d(3, 512, 1))
    >>> model(weft.empty(1, 3, 224, 224, device="meta")).shape
    torch.Size([1, 1000])
    """

    def __init__(
        self,
        features: nn.Module,
        num_classes: int = 1000,
        init_weights: bool = True,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(True), nn.Dropout(p=dropout),
            nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(p=dropout),
            nn.Linear(4096, num_classes),
        )  # fmt: skip
        for m in self.modules() if init_weights else ():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                constant(0.0, m.bias)
            begin_norm(m)
            begin_linear(m)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(weft.flatten(self.avgpool(self.features(x)), 1))


def make_layers(cfg: Sequence[Any], batch_norm: bool = False) -> nn.Sequential:
    """The convolutions of a list of channels and "M" for a pooling."""
    layers: list[nn.Module] = []
    channels = 3
    for v in cfg:
        if v == "M":
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        layers.append(nn.Conv2d(channels, v, kernel_size=3, padding=1))
        layers += [nn.BatchNorm2d(v)] if batch_norm else []
        layers.append(nn.ReLU(inplace=True))
        channels = v
    return nn.Sequential(*layers)


def _weights(name: str, params: int, file: str) -> Any:
    return weights_enum(f"{name}_Weights", __name__, params, 32, files={"V1": file})


VGG11_Weights = _weights("VGG11", 132863336, "vgg11-8a719046")
VGG11_BN_Weights = _weights("VGG11_BN", 132868840, "vgg11_bn-6002323d")
VGG13_Weights = _weights("VGG13", 133047848, "vgg13-19584684")
VGG13_BN_Weights = _weights("VGG13_BN", 133053736, "vgg13_bn-abd245e5")
VGG16_Weights = _weights("VGG16", 138357544, "vgg16-397923af")
VGG16_BN_Weights = _weights("VGG16_BN", 138365992, "vgg16_bn-6c64b313")
VGG19_Weights = _weights("VGG19", 143667240, "vgg19-dcbb9e9d")
VGG19_BN_Weights = _weights("VGG19_BN", 143678248, "vgg19_bn-c79401a0")


def _builder(name: str, weights: Any, letter: str) -> Any:
    def make(**how: Any) -> VGG:
        return VGG(make_layers(cfgs[letter], name.endswith("_bn")), **how)

    normed = " with batch normalization" if name.endswith("_bn") else ""
    return builder(name, weights, make, f"VGG of configuration {letter}{normed}")


vgg11 = _builder("vgg11", VGG11_Weights, "A")
vgg11_bn = _builder("vgg11_bn", VGG11_BN_Weights, "A")
vgg13 = _builder("vgg13", VGG13_Weights, "B")
vgg13_bn = _builder("vgg13_bn", VGG13_BN_Weights, "B")
vgg16 = _builder("vgg16", VGG16_Weights, "D")
vgg16_bn = _builder("vgg16_bn", VGG16_BN_Weights, "D")
vgg19 = _builder("vgg19", VGG19_Weights, "E")
vgg19_bn = _builder("vgg19_bn", VGG19_BN_Weights, "E")
