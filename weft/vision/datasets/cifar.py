"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), read from the archives that are published."""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Callable
from typing import Any, BinaryIO

from weft.base.pillow import pillow
from weft.vision.datasets.utils import check_integrity, missing
from weft.vision.datasets.vision import VisionDataset

__all__ = ["CIFAR10", "CIFAR100"]


class _Arrays(pickle.Unpickler):
    """Reads pickles of NumPy's arrays and of nothing else that would be called."""

    _KNOWN = {
        ("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
    }  # fmt: skip

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._KNOWN:
            raise pickle.UnpicklingError(
                f"[CIFAR10] expected arrays in a file, got {module}.{name}, which is not called"
            )
        import numpy

        where = module.replace("numpy.core", "numpy._core") if hasattr(numpy, "_core") else module
        return getattr(importlib.import_module(where), name)


class CIFAR10(VisionDataset):
    """Pictures of 32 by 32 in ten classes, as PIL images.

    Args:
        root: the folder that has `cifar-10-batches-py`, the archive unpacked. Sums are checked.
        train: 50000 images, or the other 10000.
        transform, target_transform: functions of the image and of the class.
        download: whether the files are wanted: nothing is downloaded, the error says where they
            must lie.

    Raises: RuntimeError where the files are not there, or are others.
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    train_list = [
        ["data_batch_1", "c99cafc152244af753f735de768cd75f"],
        ["data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"],
        ["data_batch_3", "54ebc095f3ab1f0389bbae665268c751"],
        ["data_batch_4", "634d18415352ddfa80567beed471001a"],
        ["data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"],
    ]
    test_list = [["test_batch", "40351d587109b95175f43aff81a1287e"]]
    meta = {
        "filename": "batches.meta", "key": "label_names",
        "md5": "5ff9c542aee3614f3951f8cda6e48888",
    }  # fmt: skip

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        import numpy as np

        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        files = self.train_list if train else self.test_list
        sums = {**{name: md5 for name, md5 in files}, self.meta["filename"]: self.meta["md5"]}
        folder = os.path.join(self.root, self.base_folder)
        if not all(check_integrity(os.path.join(folder, n), md5) for n, md5 in sums.items()):
            raise missing(type(self).__name__, folder, sums, self.url)
        parts = [self._load(name) for name, _ in files]
        self.data = np.vstack([part["data"] for part in parts]).reshape(-1, 3, 32, 32)
        self.data = self.data.transpose(0, 2, 3, 1)
        key = "labels" if "labels" in parts[0] else "fine_labels"
        self.targets = [int(label) for part in parts for label in part[key]]
        self.classes = list(self._load(self.meta["filename"])[self.meta["key"]])
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def _load(self, name: str) -> Any:
        file: BinaryIO
        with open(os.path.join(self.root, self.base_folder, name), "rb") as file:
            return _Arrays(file, encoding="latin1").load()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(pillow().fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """The same in a hundred classes."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    train_list = [["train", "16019d7e3df5f24257cddd939b257f8d"]]
    test_list = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]
    meta = {
        "filename": "meta", "key": "fine_label_names", "md5": "7973b15100ade9c7d40fb424638fde48",
    }  # fmt: skip
