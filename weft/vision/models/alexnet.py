"""AlexNet, in the form with one column (Krizhevsky 2014)."""

from __future__ import annotations

import weft
from weft import Tensor, nn
from weft.vision.models._api import builder, weights_enum

__all__ = ["AlexNet", "AlexNet_Weights", "alexnet"]


class AlexNet(nn.Module):
    """Five convolutions, then three linear layers with dropout.

    Images [N, 3, H, W] give [N, num_classes].

    >>> from weft.vision import models
    >>> with weft.device("meta"):
    ...     model = models.AlexNet()
    >>> model(weft.empty(1, 3, 224, 224, device="meta")).shape
    torch.Size([1, 1000])
    """

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2), nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2), nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1), nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )  # fmt: skip
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(inplace=True),
            nn.Dropout(p=dropout), nn.Linear(4096, 4096), nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(weft.flatten(self.avgpool(self.features(x)), 1))


_FILES = {"V1": "alexnet-owt-7be5be79"}
AlexNet_Weights = weights_enum("AlexNet_Weights", __name__, 61100840, 63, files=_FILES)
alexnet = builder("alexnet", AlexNet_Weights, AlexNet, "AlexNet")
