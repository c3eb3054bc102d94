"""Transforms of images, PIL's and tensors: torchvision's names, draws and results.

>>> from weft.vision import transforms
>>> to_input = transforms.Compose([
...     transforms.Resize(32),
...     transforms.CenterCrop(28),
...     transforms.Normalize([0.5], [0.5]),
... ])
>>> to_input(weft.rand(3, 48, 64)).shape
torch.Size([3, 28, 28])
"""

from weft.vision.transforms import autoaugment, functional, transforms
from weft.vision.transforms.autoaugment import *  # noqa: F403
from weft.vision.transforms.transforms import *  # noqa: F403

__all__ = [*transforms.__all__, *autoaugment.__all__, "functional"]
