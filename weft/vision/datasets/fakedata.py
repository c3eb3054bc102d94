"""Images of noise, for trials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft.vision.datasets.vision import VisionDataset
from weft.vision.transforms.functional import to_pil_image

__all__ = ["FakeData"]


class FakeData(VisionDataset):
    """Images and classes that depend on nothing but their index.

    Args:
        size: how many.
        image_size: [C, H, W]
        random_offset: what is added to the index to seed an image.

    >>> from weft.vision import datasets
    >>> image, label = datasets.FakeData(10, (3, 4, 6), num_classes=5)[2]
    >>> image.size, 0 <= label < 5
    ((6, 4), True)
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size, self.num_classes = size, num_classes
        self.image_size, self.random_offset = image_size, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(
                f"[FakeData] expected an index below {len(self)}, got {index}: "
                "FakeData index out of range"
            )
        state = weft.get_rng_state()
        weft.manual_seed(index + self.random_offset)
        img = weft.randn(*self.image_size)
        target = weft.randint(0, self.num_classes, size=(1,))[0]
        weft.set_rng_state(state)
        image, label = self._transformed(to_pil_image(img), target)
        return image, int(label)

    def __len__(self) -> int:
        return self.size
