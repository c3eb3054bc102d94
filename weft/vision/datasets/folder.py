"""Datasets of a folder for each class."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from weft.base.pillow import pillow
from weft.vision.datasets.vision import VisionDataset

__all__ = [
    "DatasetFolder", "IMG_EXTENSIONS", "ImageFolder", "default_loader", "find_classes",
    "has_file_allowed_extension", "is_image_file", "make_dataset", "pil_loader",
]  # fmt: skip

_Path = str | os.PathLike[str]
#: What files of images are called.
IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Whether a file's name ends in one of these."""
    return filename.lower().endswith(extensions)


def is_image_file(filename: str) -> bool:
    """Whether a file's name is that of an image."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: _Path) -> tuple[list[str], dict[str, int]]:
    """The folders of a folder in order, and their numbers.

    Raises: FileNotFoundError where there is none.
    """
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(
            f"[find_classes] expected a folder for each class, got none: "
            f"Couldn't find any class folder in {directory}."
        )
    return classes, {name: i for i, name in enumerate(classes)}


def _check_all_found(numbers: dict[str, int], found: Any, extensions: Any) -> None:
    empty = sorted(set(numbers.values()) - {number for _, number in found})
    if empty:
        names = ", ".join(sorted(n for n, i in numbers.items() if i in empty))
        known = [extensions] if isinstance(extensions, str) else extensions or []
        raise FileNotFoundError(
            f"[make_dataset] expected files of each class, got none of {names}: Found no valid "
            f"file for the classes {names}. Supported extensions are: {', '.join(known)}"
        )


def make_dataset(
    directory: _Path,
    class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """Paths of the files of each class, and its number, in order.

    Args:
        extensions, is_valid_file: which files count; one of the two.
        allow_empty: whether a class may have none.

    Raises: ValueError for both or neither of them, FileNotFoundError for a class without files.
    """
    directory = os.path.expanduser(directory)
    numbers = find_classes(directory)[1] if class_to_idx is None else class_to_idx
    if not numbers:
        raise ValueError(
            "[make_dataset] expected at least one class, got none: "
            "'class_to_index' must have at least one entry to collect any samples."
        )
    if (extensions is None) == (is_valid_file is None):
        raise ValueError(
            "[make_dataset] expected extensions or is_valid_file: Both extensions and "
            "is_valid_file cannot be None or not None at the same time"
        )
    found: list[tuple[str, int]] = []
    for name in sorted(numbers):
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            for path in (os.path.join(folder, file) for file in sorted(files)):
                if is_valid_file is not None:
                    counts = is_valid_file(path)
                else:
                    counts = has_file_allowed_extension(path, extensions or ())
                found += [(path, numbers[name])] if counts else []
    if not allow_empty:
        _check_all_found(numbers, found, extensions)
    return found


def pil_loader(path: _Path) -> Any:
    """The image of a file, in colours."""
    with open(path, "rb") as file:
        return pillow().open(file).convert("RGB")


default_loader = pil_loader


class DatasetFolder(VisionDataset):
    """Files of any kind, in a folder for each class.

    Args:
        root: the folder of the classes' folders.
        loader: makes an example of a path.
        extensions, is_valid_file: which files count; one of the two.
        transform, target_transform: functions of the example and of the class.
        allow_empty: whether a class may have no file.

    Raises: FileNotFoundError where there are no classes or no files.

    >>> import os, tempfile
    >>> from weft.vision import datasets
    >>> root = tempfile.mkdtemp()
    >>> os.mkdir(os.path.join(root, "cat"))
    >>> with open(os.path.join(root, "cat", "a.txt"), "w") as file:
    ...     _ = file.write("meow")
    >>> data = datasets.DatasetFolder(root, lambda path: open(path).read(), (".txt",))
    >>> data[0], data.classes
    (('meow', 0), ['cat'])
    """

    def __init__(
        self,
        root: _Path,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(
            self.root, self.class_to_idx, extensions, is_valid_file, allow_empty
        )
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def make_dataset(
        directory: _Path,
        class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """The paths and classes; a subclass may have its own."""
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: _Path) -> tuple[list[str], dict[str, int]]:
        """The classes; a subclass may have its own."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Images in a folder for each class.

    >>> import os, tempfile
    >>> from weft.vision import datasets, io
    >>> root = tempfile.mkdtemp()
    >>> os.mkdir(os.path.join(root, "cat"))
    >>> image = weft.zeros(3, 2, 4, dtype=weft.uint8)
    >>> io.write_png(image, os.path.join(root, "cat", "a.png"))
    >>> image, label = datasets.ImageFolder(root)[0]
    >>> image.size, label
    ((4, 2), 0)
    """

    def __init__(
        self,
        root: _Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(
            root, loader, extensions, transform, target_transform, is_valid_file, allow_empty
        )
        self.imgs = self.samples
