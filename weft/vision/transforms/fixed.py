"""Transforms that do the same to every image, and those that run others."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.nn import Module
from weft.vision.transforms import functional as TF
from weft.vision.transforms.arguments import as_mode, numbers
from weft.vision.transforms.base import Transform, pair

__all__ = [
    "CenterCrop", "Compose", "ConvertImageDtype", "FiveCrop", "Grayscale", "Lambda",
    "LinearTransformation", "Normalize", "PILToTensor", "Pad", "RandomApply", "RandomChoice",
    "RandomOrder", "Resize", "TenCrop", "ToPILImage", "ToTensor",
]  # fmt: skip

_BILINEAR = TF.InterpolationMode.BILINEAR


class Several(Module):
    """What runs other transforms, or any functions of an image."""

    def __init__(self, transforms: Any) -> None:
        super().__init__()
        if not isinstance(transforms, Sequence | Module):
            raise TypeError(
                f"[{type(self).__name__}] expected a sequence of transforms, got "
                f"{type(transforms).__name__}: Argument transforms should be a sequence"
            )
        self.transforms: Any = transforms

    def _head(self) -> str:
        return ""

    def __repr__(self) -> str:
        lines = "".join(f"\n    {t}" for t in self.transforms)
        return f"{type(self).__name__}({self._head()}{lines}\n)"


class Compose(Several):
    """One transform after the other.

    >>> from weft.vision import transforms as T
    >>> T.Compose([T.CenterCrop(4), T.Grayscale()])(weft.rand(3, 6, 8)).shape
    torch.Size([1, 4, 4])
    """

    def forward(self, img: Any) -> Any:
        for t in self.transforms:
            img = t(img)
        return img


class RandomApply(Several):
    """All of the transforms, with probability `p`, or none.

    >>> from weft.vision import transforms as T
    >>> T.RandomApply([T.CenterCrop(2)], p=1.0)(weft.ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__(transforms)
        self.p = p

    def _head(self) -> str:
        return f"\n    p={self.p}"

    def forward(self, img: Any) -> Any:
        if self.p < weft.rand(1):
            return img
        for t in self.transforms:
            img = t(img)
        return img


class RandomOrder(Several):
    """All of the transforms in an order of Python's `random`.

    >>> from weft.vision import transforms as T
    >>> T.RandomOrder([T.CenterCrop(2), T.Pad(1)])(weft.ones(1, 4, 4)).shape[0]
    1
    """

    def forward(self, img: Any) -> Any:
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img


class RandomChoice(Several):
    """One of the transforms, by Python's `random`, with weights `p`.

    >>> from weft.vision import transforms as T
    >>> T.RandomChoice([T.CenterCrop(2)])(weft.ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    def __init__(self, transforms: Any, p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError(
                f"[RandomChoice] expected a sequence of weights, got {p!r}: "
                "Argument p should be a sequence"
            )
        self.p = p

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"

    def forward(self, *args: Any) -> Any:
        return random.choices(self.transforms, weights=self.p)[0](*args)


class ToTensor(Transform):
    """A PIL image or an array [H, W, C] of bytes as a tensor [C, H, W] of 0 to 1.

    >>> from weft.vision import transforms as T
    >>> from PIL import Image
    >>> T.ToTensor()(Image.new("RGB", (2, 3))).shape
    torch.Size([3, 3, 2])
    """

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.to_tensor(img)


class PILToTensor(Transform):
    """A PIL image as a tensor [C, H, W] of its own values.

    >>> from weft.vision import transforms as T
    >>> from PIL import Image
    >>> T.PILToTensor()(Image.new("RGB", (2, 3))).shape
    torch.Size([3, 3, 2])
    """

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.pil_to_tensor(img)


class ToPILImage(Transform):
    """A tensor [C, H, W] or an array [H, W, C] as a PIL image.

    >>> from weft.vision import transforms as T
    >>> T.ToPILImage()(weft.ones(3, 2, 4)).size
    (4, 2)
    """

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.to_pil_image(img, self.mode)

    def extra_repr(self) -> str:
        return "" if self.mode is None else f"mode={self.mode}"


class ConvertImageDtype(Transform):
    """A tensor in another dtype, white as white.

    The shape stays.

    >>> from weft.vision import transforms as T
    >>> T.ConvertImageDtype(weft.float32)(weft.full((1, 1, 1), 255, dtype=weft.uint8))
    tensor([[[1.]]])
    """

    def __init__(self, dtype: weft.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.convert_image_dtype(img, self.dtype)


class Normalize(Transform):
    """(image - mean) / std, by channel.

    >>> from weft.vision import transforms as T
    >>> T.Normalize([0.5], [0.25])(weft.ones(1, 1, 2))
    tensor([[[2., 2.]]])
    """

    _shown = ("mean", "std")

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.normalize(img, self.mean, self.std, self.inplace)


class Resize(Transform):
    """The image in another size: [H, W], or what the shorter edge becomes.

    >>> from weft.vision import transforms as T
    >>> T.Resize((2, 2))(weft.ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    _shown = ("size", "interpolation", "max_size", "antialias")

    def __init__(
        self,
        size: Any,
        interpolation: Any = _BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        numbers("size", size, (1, 2))
        self.size, self.max_size, self.antialias = size, max_size, antialias
        self.interpolation = as_mode(interpolation)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.resize(
            img, self.size, self.interpolation, self.max_size, self.antialias
        )


class CenterCrop(Transform):
    """The middle of the image.

    A PIL image or a tensor [..., C, H, W], whose result is [..., C, h, w] for a size (h, w).

    >>> from weft.vision import transforms as T
    >>> T.CenterCrop(2)(weft.arange(16).view(1, 4, 4))
    tensor([[[ 5,  6],
             [ 9, 10]]])
    """

    _shown: tuple[str, ...] = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = pair("size", size)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.center_crop(img, self.size)


class FiveCrop(CenterCrop):
    """The four corners and the middle, as a tuple.

    A PIL image or a tensor [..., C, H, W], whose result is [..., C, h, w] for a size (h, w).

    >>> from weft.vision import transforms as T
    >>> len(T.FiveCrop(2)(weft.ones(1, 4, 4)))
    5
    """

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.five_crop(img, self.size)


class TenCrop(CenterCrop):
    """The four corners and the middle, of the image and of the mirrored one.

    A PIL image or a tensor [..., C, H, W], whose result is [..., C, h, w] for a size (h, w).

    >>> from weft.vision import transforms as T
    >>> len(T.TenCrop(2)(weft.ones(1, 4, 4)))
    10
    """

    _shown: tuple[str, ...] = ("size", "vertical_flip")

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.ten_crop(img, self.size, self.vertical_flip)


class Pad(Transform):
    """The image with a border.

    A PIL image or a tensor [..., C, H, W].

    >>> from weft.vision import transforms as T
    >>> T.Pad(1)(weft.ones(1, 2, 2)).shape
    torch.Size([1, 4, 4])
    """

    _shown = ("padding", "fill", "padding_mode")

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        numbers("padding", padding, (1, 2, 4))
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError(
                f"[Pad] expected constant, edge, reflect or symmetric, got {padding_mode!r}: "
                "Padding mode should be either constant, edge, reflect or symmetric"
            )
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.pad(img, self.padding, self.fill, self.padding_mode)


class Lambda(Transform):
    """Any function of an image.

    >>> from weft.vision import transforms as T
    >>> T.Lambda(lambda image: image / 2)(weft.ones(1, 1, 1))
    tensor([[[0.5000]]])
    """

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        super().__init__()
        if not callable(lambd):
            raise TypeError(
                f"[Lambda] expected a function, got {lambd!r}: Argument lambd should be callable, "
                f"got {type(lambd).__name__!r}"
            )
        self.lambd = lambd

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.lambd(img)


class Grayscale(Transform):
    """The image in grey.

    A PIL image or a tensor [..., 3, H, W], of which [..., num_output_channels, H, W] are left.

    >>> from weft.vision import transforms as T
    >>> T.Grayscale()(weft.ones(3, 2, 2)).shape
    torch.Size([1, 2, 2])
    """

    _shown = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.rgb_to_grayscale(img, self.num_output_channels)


class LinearTransformation(Transform):
    """(image as a row - mean) times a matrix: whitening, for one.

    Tensors [..., C, H, W], the matrix [D, D] and the mean [D] with D = C H W.

    >>> from weft.vision import transforms as T
    >>> T.LinearTransformation(weft.eye(2), weft.zeros(2))(weft.ones(1, 1, 2))
    tensor([[[1., 1.]]])
    """

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        n = len(mean_vector)
        if transformation_matrix.shape != (n, n):
            raise ValueError(
                f"[LinearTransformation] expected a matrix [{n}, {n}], got shape "
                f"{list(transformation_matrix.shape)}: transformation_matrix should be square and "
                "mean_vector should have the same length"
            )
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def apply_to(self, img: Any, drawn: Any) -> Any:
        n = len(self.mean_vector)
        if img.shape[-3:].numel() != n:
            raise ValueError(
                f"[LinearTransformation] expected images of {n} values, got {list(img.shape)}: "
                "Input tensor and transformation matrix have incompatible shape."
            )
        flat = img.reshape(-1, n) - self.mean_vector
        return (flat @ self.transformation_matrix.to(flat.dtype)).view(img.shape)

    def extra_repr(self) -> str:
        matrix, mean = self.transformation_matrix.tolist(), self.mean_vector.tolist()
        return f"transformation_matrix={matrix}, mean_vector={mean}"
