"""Transforms that happen with a probability, and those that draw a colour or a part."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.vision.transforms.base import Transform, p_of, pair, uniform

__all__ = [
    "ColorJitter", "GaussianBlur", "RandomAdjustSharpness", "RandomAutocontrast", "RandomEqualize",
    "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomPosterize",
    "RandomSolarize", "RandomVerticalFlip",
]  # fmt: skip


class Chance(Transform):
    """What happens with probability `p`: `change`."""

    _shown = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p_of(type(self).__name__, p)

    def change(self, img: Any) -> Any:
        """The image, changed."""
        raise NotImplementedError

    def draw(self, img: Any) -> Any:
        return bool(weft.rand(1) < self.p)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.change(img) if drawn else img


class RandomHorizontalFlip(Chance):
    """The image mirrored left to right, with probability `p`.

    >>> from weft.vision import transforms as T
    >>> T.RandomHorizontalFlip(p=1)(weft.arange(3.).view(1, 1, 3))
    tensor([[[2., 1., 0.]]])
    """

    def change(self, img: Any) -> Any:
        return self.functional.hflip(img)


class RandomVerticalFlip(Chance):
    """The image mirrored top to bottom, with probability `p`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.RandomVerticalFlip(p=1.0)(weft.tensor([[[1], [2]]]))
    tensor([[[2],
             [1]]])
    """

    def change(self, img: Any) -> Any:
        return self.functional.vflip(img)


class RandomGrayscale(Chance):
    """The image in grey, of as many channels, with probability `p`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.RandomGrayscale(p=1.0)(weft.ones(3, 2, 2)).shape
    torch.Size([3, 2, 2])
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def change(self, img: Any) -> Any:
        return self.functional.rgb_to_grayscale(img, self.functional.get_image_num_channels(img))


class RandomInvert(Chance):
    """White less the image, with probability `p`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.RandomInvert(p=1.0)(weft.tensor([[[0.25, 1.0]]]))
    tensor([[[0.7500, 0.0000]]])
    """

    def change(self, img: Any) -> Any:
        return self.functional.invert(img)


class RandomAutocontrast(Chance):
    """Each channel stretched from black to white, with probability `p`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.RandomAutocontrast(p=1.0)(weft.tensor([[[0.25, 0.75]]]))
    tensor([[[0., 1.]]])
    """

    def change(self, img: Any) -> Any:
        return self.functional.autocontrast(img)


class RandomEqualize(Chance):
    """Each channel with its histogram made flat, with probability `p`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.RandomEqualize()(weft.ones(1, 2, 2, dtype=weft.uint8)).shape
    torch.Size([1, 2, 2])
    """

    def change(self, img: Any) -> Any:
        return self.functional.equalize(img)


class RandomPosterize(Chance):
    """`bits` bits of each value, with probability `p`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.RandomPosterize(2, p=1.0)(weft.full((1, 1, 1), 255, dtype=weft.uint8))
    tensor([[[192]]], dtype=torch.uint8)
    """

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def change(self, img: Any) -> Any:
        return self.functional.posterize(img, self.bits)

    def extra_repr(self) -> str:
        return f"bits={self.bits},p={self.p}"


class RandomSolarize(Chance):
    """Values of at least `threshold` inverted, with probability `p`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.RandomSolarize(0.5, p=1.0)(weft.tensor([[[0.25, 1.0]]]))
    tensor([[[0.2500, 0.0000]]])
    """

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def change(self, img: Any) -> Any:
        return self.functional.solarize(img, self.threshold)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold},p={self.p}"


class RandomAdjustSharpness(Chance):
    """The image sharper (factors above 1) or softer, with probability `p`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.RandomAdjustSharpness(2)(weft.ones(1, 3, 3)).shape
    torch.Size([1, 3, 3])
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, img: Any) -> Any:
        return self.functional.adjust_sharpness(img, self.sharpness_factor)

    def extra_repr(self) -> str:
        return f"sharpness_factor={self.sharpness_factor},p={self.p}"


def _factors(name: str, given: Any) -> tuple[float, float] | None:
    """The bounds of a factor, or of a turn of the hue; None where it changes nothing."""
    same, bounds = (0.0, (-0.5, 0.5)) if name == "hue" else (1.0, (0.0, math.inf))
    if isinstance(given, (int, float)):
        if given < 0:
            raise ValueError(
                f"[ColorJitter] expected {name} of at least 0, got {given}: "
                f"If {name} is a single number, it must be non negative."
            )
        low = same - given if name == "hue" else max(same - given, 0.0)
        found = (low, same + given)
    elif isinstance(given, (tuple, list)) and len(given) == 2:
        found = (float(given[0]), float(given[1]))
    else:
        raise TypeError(
            f"[ColorJitter] expected {name} of one or two numbers, got {given!r}: "
            f"{name} should be a single number or a list/tuple with length 2."
        )
    if not bounds[0] <= found[0] <= found[1] <= bounds[1]:
        raise ValueError(
            f"[ColorJitter] expected {name} of {bounds[0]} to {bounds[1]}, got {list(found)}: "
            f"{name} values should be between {bounds}, but got {list(found)}."
        )
    return None if found == (same, same) else found


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed by random factors in a random order.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    Args:
        brightness, contrast, saturation: a number x for factors of 1 - x to 1 + x, or bounds.
        hue: a number x up to 0.5 for turns of -x to x, or bounds.

    >>> from weft.vision import transforms as T
    >>> T.ColorJitter(brightness=0.5)(weft.ones(3, 2, 2)).shape
    torch.Size([3, 2, 2])
    """

    _shown = ("brightness", "contrast", "saturation", "hue")

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0
    ) -> None:
        super().__init__()
        self.brightness = _factors("brightness", brightness)
        self.contrast = _factors("contrast", contrast)
        self.saturation = _factors("saturation", saturation)
        self.hue = _factors("hue", hue)

    @staticmethod
    def get_params(
        brightness: Any, contrast: Any, saturation: Any, hue: Any
    ) -> tuple[Tensor, float | None, float | None, float | None, float | None]:
        """The order of the four, and their factors."""
        order = weft.randperm(4)
        bounds = (brightness, contrast, saturation, hue)
        b, c, s, h = (None if given is None else uniform(*given) for given in bounds)
        return order, b, c, s, h

    def draw(self, img: Any) -> Any:
        return self.get_params(self.brightness, self.contrast, self.saturation, self.hue)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        order, *factors = drawn
        for i in order.tolist():
            if factors[i] is not None:
                img = getattr(self.functional, f"adjust_{self._shown[i]}")(img, factors[i])
        return img


class GaussianBlur(Transform):
    """The image blurred by a bell of a random width of `sigma`.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.GaussianBlur(3)(weft.ones(1, 3, 3)).shape
    torch.Size([1, 3, 3])
    """

    _shown = ("kernel_size", "sigma")

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = pair("kernel_size", kernel_size)
        if any(k <= 0 or k % 2 == 0 for k in self.kernel_size):
            raise ValueError(
                f"[GaussianBlur] expected odd positive sizes, got {self.kernel_size}: "
                "Kernel size value should be an odd and positive number."
            )
        self.sigma = pair("sigma", sigma)
        if not 0.0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(
                f"[GaussianBlur] expected 0 < min <= max, got {self.sigma}: "
                "sigma values should be positive and of the form (min, max)."
            )

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """A width of the bell."""
        return uniform(sigma_min, sigma_max)

    def draw(self, img: Any) -> Any:
        return self.get_params(*self.sigma)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.gaussian_blur(img, self.kernel_size, [drawn, drawn])


class RandomErasing(Transform):
    """A rectangle of the tensor erased, with probability `p` (Zhong et al. 2017).

    A tensor [..., C, H, W], whose shape stays.

    Args:
        scale: bounds of its part of the area.
        ratio: bounds of height over width.
        value: what stands there: a number, one for each channel, or "random" for normal numbers.

    >>> from weft.vision import transforms as T
    >>> T.RandomErasing(p=1.0)(weft.ones(3, 8, 8)).shape
    torch.Size([3, 8, 8])
    """

    _shown = ("p", "scale", "ratio", "value", "inplace")

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(value, (int, float, str, tuple, list)):
            raise TypeError(
                f"[RandomErasing] expected a number, numbers or 'random', got {value!r}: "
                "Argument value should be either a number or str or a sequence"
            )
        if isinstance(value, str) and value != "random":
            raise ValueError(
                f"[RandomErasing] expected 'random', got {value!r}: "
                "If value is str, it should be 'random'"
            )
        check_bounds(scale, ratio)
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError(
                f"[RandomErasing] expected scale of 0 to 1, got {scale}: "
                "Scale should be between 0 and 1"
            )
        self.p = p_of("RandomErasing", p)
        self.scale, self.ratio, self.value, self.inplace = scale, ratio, value, inplace

    @staticmethod
    def get_params(
        img: Tensor, scale: Sequence[float], ratio: Sequence[float], value: Any = None
    ) -> tuple[int, int, int, int, Tensor]:
        """Top, left, height, width and what stands there; the image itself where none fits."""
        channels, height, width = img.shape[-3:]
        for _ in range(10):
            h, w = drawn_part(height * width, scale, ratio)
            if not (h < height and w < width):
                continue
            if value is None:
                v = weft.empty([channels, h, w], dtype=weft.float32).normal_()
            else:
                v = weft.tensor(value)[:, None, None]
            i = int(weft.randint(0, height - h + 1, size=(1,)).item())
            j = int(weft.randint(0, width - w + 1, size=(1,)).item())
            return i, j, h, w, v
        return 0, 0, height, width, img

    def draw(self, img: Any) -> Any:
        if not isinstance(img, Tensor):
            raise TypeError(
                f"[RandomErasing] expected a tensor, got {type(img).__name__}: img should be "
                f"Tensor Image. Got {type(img)}. Hint: ToTensor() before it"
            )
        if not weft.rand(1) < self.p:
            return None
        value = None
        if not isinstance(self.value, str):
            given = [self.value] if isinstance(self.value, (int, float)) else self.value
            value = [float(v) for v in given]
            if len(value) not in (1, img.shape[-3]):
                raise ValueError(
                    f"[RandomErasing] expected one value or {img.shape[-3]}, got {len(value)}: If "
                    "value is a sequence, it should have either a single value or "
                    f"{img.shape[-3]} (number of input channels)"
                )
        return self.get_params(img, self.scale, self.ratio, value)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        if drawn is None:
            return img
        top, left, height, width, value = drawn
        return self.functional.erase(img, top, left, height, width, value, self.inplace)


def check_bounds(scale: Any, ratio: Any) -> None:
    """Of an area and of a ratio, low before high."""
    for name, bounds in (("Scale", scale), ("Ratio", ratio)):
        if not isinstance(bounds, Sequence):
            raise TypeError(
                f"[{name.lower()}] expected two numbers, got {bounds!r}: "
                f"{name} should be a sequence"
            )
    if scale[0] > scale[1] or ratio[0] > ratio[1]:
        warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=4)


def drawn_part(area: int, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int]:
    """Two edges of a rectangle, the second of which is the shorter where the ratio is above 1."""
    low, high = weft.log(weft.tensor(ratio)).tolist()
    part = area * uniform(*scale)
    aspect = weft.exp(weft.empty(1).uniform_(low, high)).item()
    return round(math.sqrt(part * aspect)), round(math.sqrt(part / aspect))
