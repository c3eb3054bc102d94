"""Datasets, transforms, models and operations on images, with torchvision's names and meanings.

Under `weft run` it is `torchvision`, whose compiled part needs PyTorch's own. Images are PIL's (the
extra `weft[vision]` installs Pillow) or tensors [..., C, H, W].
"""

from weft.base.alias import TORCHVISION
from weft.base.core_names import _get_tracing_state as _is_tracing  # noqa: F401  DETR asks for it
from weft.vision import datasets, io, models, ops, transforms, tv_tensors, utils

__all__ = [
    "datasets", "disable_beta_transforms_warning", "get_image_backend", "io", "models", "ops",
    "set_image_backend", "transforms", "tv_tensors", "utils",
]  # fmt: skip

__version__ = TORCHVISION


def disable_beta_transforms_warning() -> None:
    """Nothing is warned of: `transforms.v2` is no beta any more.

    >>> from weft import vision
    >>> vision.disable_beta_transforms_warning()
    """


def get_image_backend() -> str:
    """What files of images are read with: Pillow.

    >>> from weft import vision
    >>> vision.get_image_backend()
    'PIL'
    """
    return "PIL"


def set_image_backend(backend: str) -> None:
    """Says what files of images are read with.

    Raises: ValueError for anything but "PIL".

    >>> from weft import vision
    >>> vision.set_image_backend("PIL")
    """
    if backend != "PIL":
        raise ValueError(
            f"[set_image_backend] expected 'PIL', got {backend!r}: "
            f"Invalid backend '{backend}'. Options are 'PIL' and 'accimage'"
        )
