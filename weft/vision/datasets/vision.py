"""What all datasets of images are: a root, transforms, and how they print."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from weft.utils.data import Dataset

__all__ = ["StandardTransform", "VisionDataset"]

_Function = Callable[..., Any]


class StandardTransform:
    """A transform of the image and one of the target, as one of both."""

    def __init__(
        self, transform: _Function | None = None, target_transform: _Function | None = None
    ) -> None:
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        named = {"Transform: ": self.transform, "Target transform: ": self.target_transform}
        for head, one in named.items():
            if one is not None:
                lines += (head + repr(one).replace("\n", "\n" + " " * len(head))).splitlines()
        return "\n".join(lines)


class VisionDataset(Dataset[Any]):
    """A dataset of images: `__getitem__` and `__len__` are its own.

    Args:
        root: where its files are; `~` is the home of the user.
        transforms: a function of image and target, in place of the other two.
        transform: a function of the image.
        target_transform: a function of the target.

    Raises: ValueError for both kinds of transforms.

    >>> from weft.vision import datasets
    >>> class Squares(datasets.VisionDataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, i):
    ...         return weft.full((1, 2, 2), i), i
    >>> Squares()[2][1]
    2
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        transforms: _Function | None = None,
        transform: _Function | None = None,
        target_transform: _Function | None = None,
    ) -> None:
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        apart = transform is not None or target_transform is not None
        if transforms is not None and apart:
            raise ValueError(
                "[VisionDataset] expected transforms, or transform and target_transform, got both: "
                "Only transforms or transform/target_transform can be passed as argument"
            )
        self.transform, self.target_transform = transform, target_transform
        self.transforms = StandardTransform(transform, target_transform) if apart else transforms

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def _transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        if self.transforms is None:
            return image, target
        out: tuple[Any, Any] = self.transforms(image, target)
        return out

    def extra_repr(self) -> str:
        """More lines of what it prints."""
        return ""

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        body += [f"Root location: {self.root}"] if self.root is not None else []
        body += self.extra_repr().splitlines()
        body += [repr(self.transforms)] if self.transforms is not None else []
        return "\n".join([f"Dataset {type(self).__name__}", *("    " + line for line in body)])
