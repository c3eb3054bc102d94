"""MNIST (LeCun et al. 1998) and the datasets in its form, read from files in IDX's format."""

from __future__ import annotations

import gzip
import os
import string
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft.base.warn import warn
from weft.vision.datasets.utils import check_integrity, missing, verify_str_arg
from weft.vision.datasets.vision import VisionDataset
from weft.vision.transforms.functional import to_pil_image

__all__ = ["EMNIST", "FashionMNIST", "KMNIST", "MNIST"]

#: IDX's codes of types, as NumPy's, big-endian.
_TYPES = {8: "u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str) -> Tensor:
    """The tensor of a file in IDX's format, packed by gzip or not.

    Raises: ValueError for another format.
    """
    import numpy as np

    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        data = file.read()
    rank = data[3] if len(data) > 3 else 0
    start = 4 + 4 * rank
    if data[:2] != b"\0\0" or data[2] not in _TYPES or len(data) < start:
        raise ValueError(f"[read_idx] expected a file in IDX's format, got another: {path}")
    sizes = np.frombuffer(data, ">i4", rank, 4).tolist()
    kind = np.dtype(_TYPES[data[2]])
    if len(data) != start + kind.itemsize * int(np.prod(sizes)):
        raise ValueError(f"[read_idx] expected values of {sizes}, got {len(data)} bytes: {path}")
    values = np.frombuffer(data, kind, offset=start).reshape(sizes)
    return weft.from_numpy(values.astype(kind.newbyteorder("=")))


class MNIST(VisionDataset):
    """Digits of 28 by 28: PIL images in grey, and 0 to 9.

    Args:
        root: the folder in which `MNIST/raw` has the four files, packed by gzip as they are
            published (their sums are checked) or unpacked.
        train: 60000 images, or the other 10000.
        transform, target_transform: functions of the image and of the class.
        download: whether the files are wanted: nothing is downloaded, the error says where they
            must lie.

    Raises: RuntimeError where the files are not there.
    """

    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ]
    classes = [
        f"{i} - {name}"
        for i, name in enumerate("zero one two three four five six seven eight nine".split())
    ]

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        images, labels = (self._found(name) for name in self._files())
        if images is None or labels is None:
            raise missing(type(self).__name__, self.raw_folder, self._files(), self.mirrors[0])
        self.data = read_idx(images)
        self.targets = read_idx(labels).long()

    def _files(self) -> tuple[str, str]:
        """The names of images and labels."""
        part = "train" if self.train else "t10k"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"

    def _found(self, name: str) -> str | None:
        """Where a file is, unpacked or packed with the right sum."""
        path = os.path.join(self.raw_folder, name)
        if check_integrity(path):
            return path
        sum_ = dict(self.resources).get(f"{name}.gz")
        return f"{path}.gz" if check_integrity(f"{path}.gz", sum_) else None

    @property
    def train_data(self) -> Tensor:
        """`data`, by its name of old."""
        return self._renamed("train_data", "data")

    @property
    def test_data(self) -> Tensor:
        """`data`, by its name of old."""
        return self._renamed("test_data", "data")

    @property
    def train_labels(self) -> Tensor:
        """`targets`, by its name of old."""
        return self._renamed("train_labels", "targets")

    @property
    def test_labels(self) -> Tensor:
        """`targets`, by its name of old."""
        return self._renamed("test_labels", "targets")

    def _renamed(self, old: str, new: str) -> Tensor:
        """What an old name stands for, with PyTorch's warning."""
        warn(f"{old} has been renamed {new}")
        found: Tensor = getattr(self, new)
        return found

    @property
    def raw_folder(self) -> str:
        """Where the files are."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class."""
        return {name: i for i, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(to_pil_image(self.data[index], "L"), int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """Clothes in the form of MNIST (Xiao et al. 2017)."""

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ]
    classes = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
        "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """Cursive Japanese in the form of MNIST (Clanuwat et al. 2018)."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    ]
    classes = "o ki su tsu na ha ma ya re wo".split()


_ALL = sorted(string.digits + string.ascii_letters)
_MERGED = sorted(set(_ALL) - set("cijklmopsuvwxyz"))


class EMNIST(MNIST):
    """Letters and digits in the form of MNIST (Cohen et al. 2017).

    Args:
        split: "byclass", "bymerge", "balanced", "letters", "digits" or "mnist".
        kwargs: as of `MNIST`.
    """

    mirrors = ["https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"]
    resources = []
    classes_split_dict = {
        "byclass": _ALL, "bymerge": _MERGED, "balanced": _MERGED,
        "letters": ["N/A", *string.ascii_lowercase], "digits": list(string.digits),
        "mnist": list(string.digits),
    }  # fmt: skip
    splits = tuple(classes_split_dict)

    def __init__(self, root: str | os.PathLike[str], split: str, **kwargs: Any) -> None:
        self.split = verify_str_arg(split, "split", self.splits)
        self.classes = self.classes_split_dict[split]
        super().__init__(root, **kwargs)

    def _files(self) -> tuple[str, str]:
        part = f"emnist-{self.split}-{'train' if self.train else 'test'}"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
