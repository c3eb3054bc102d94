"""Datasets of images in files; nothing is downloaded.

>>> from weft.vision import datasets
>>> datasets.MNIST("nowhere", download=True)
Traceback (most recent call last):
RuntimeError: [MNIST] expected train-images-idx3-ubyte, ... in nowhere/MNIST/raw, ...
"""

from weft.vision.datasets.cifar import CIFAR10, CIFAR100
from weft.vision.datasets.fakedata import FakeData
from weft.vision.datasets.folder import DatasetFolder, ImageFolder
from weft.vision.datasets.mnist import EMNIST, KMNIST, MNIST, FashionMNIST
from weft.vision.datasets.vision import VisionDataset

__all__ = [
    "CIFAR10", "CIFAR100", "DatasetFolder", "EMNIST", "FakeData", "FashionMNIST", "ImageFolder",
    "KMNIST", "MNIST", "VisionDataset",
]  # fmt: skip
