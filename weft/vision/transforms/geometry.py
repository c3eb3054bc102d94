"""Transforms that draw a place, an angle or a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft
from weft import Tensor
from weft.vision.transforms import functional as TF
from weft.vision.transforms.arguments import as_mode, numbers
from weft.vision.transforms.base import Transform, p_of, pair, symmetric, uniform
from weft.vision.transforms.chance import check_bounds, drawn_part

__all__ = [
    "ElasticTransform", "RandomAffine", "RandomCrop", "RandomPerspective", "RandomResizedCrop",
    "RandomRotation",
]  # fmt: skip

_NEAREST, _BILINEAR = TF.InterpolationMode.NEAREST, TF.InterpolationMode.BILINEAR


def _integer(low: int, high: int) -> int:
    return int(weft.randint(low, high, size=(1,)).item())


def _fill(who: str, fill: Any) -> Any:
    if fill is None:
        return 0
    if not isinstance(fill, (int, float, Sequence)):
        raise TypeError(
            f"[{who}] expected a number or one for each channel, got {fill!r}: "
            "Fill should be either a sequence or a number."
        )
    return fill


def _two(who: str, name: str, given: Any) -> Any:
    """Two numbers, or None."""
    if given is not None and (not isinstance(given, Sequence) or len(given) != 2):
        kind = ValueError if isinstance(given, Sequence) else TypeError
        raise kind(
            f"[{who}] expected {name} of two numbers, got {given!r}: "
            f"{name} should be a sequence of length 2."
        )
    return given


def _corner(height: int, width: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """A part of that size: top, left, height, width."""
    h, w = size
    if height < h or width < w:
        raise ValueError(
            f"[RandomCrop] expected an image of at least {(h, w)}, got {(height, width)}: "
            f"Required crop size {(h, w)} is larger than input image size {(height, width)}. "
            "Hint: pad_if_needed=True"
        )
    if (height, width) == (h, w):
        return 0, 0, h, w
    return _integer(0, height - h + 1), _integer(0, width - w + 1), h, w


class RandomCrop(Transform):
    """A part of the image, of `size`, at a random place.

    Args:
        size: [H, W], or one number for both.
        padding, fill, padding_mode: a border before that, as of `Pad`.
        pad_if_needed: whether an image that is smaller gets a border.

    >>> from weft.vision import transforms as T
    >>> T.RandomCrop(2)(weft.ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    _shown = ("size", "padding")

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = pair("size", size)
        self.padding, self.pad_if_needed = padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a part."""
        _, height, width = TF.get_dimensions(img)
        return _corner(height, width, (output_size[0], output_size[1]))

    def _borders(self, height: int, width: int) -> list[list[int]]:
        """Left, top, right and bottom of each border that the image gets."""
        borders = []
        if self.padding is not None:
            borders.append((numbers("padding", self.padding, (1, 2, 4)) * 4)[:4])
            left, top, right, bottom = borders[0]
            height, width = height + top + bottom, width + left + right
        if self.pad_if_needed and width < self.size[1]:
            borders.append([self.size[1] - width, 0] * 2)
        if self.pad_if_needed and height < self.size[0]:
            borders.append([0, self.size[0] - height] * 2)
        return borders

    def draw(self, img: Any) -> Any:
        _, height, width = self.functional.get_dimensions(img)
        borders = self._borders(height, width)
        height += sum(top + bottom for _, top, _, bottom in borders)
        width += sum(left + right for left, _, right, _ in borders)
        return borders, _corner(height, width, self.size)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        borders, part = drawn
        for border in borders:
            img = self.functional.pad(img, border, self.fill, self.padding_mode)
        return self.functional.crop(img, *part)


class RandomResizedCrop(Transform):
    """A part of random area and ratio, resized (Szegedy et al. 2014).

    Args:
        size: [H, W] of the result, or one number for both.
        scale: bounds of the part's area, of the image's.
        ratio: bounds of width over height, drawn evenly in their logarithms.

    >>> from weft.vision import transforms as T
    >>> T.RandomResizedCrop(2)(weft.ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    def __init__(
        self,
        size: Any,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = _BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = pair("size", size)
        check_bounds(scale, ratio)
        self.interpolation = as_mode(interpolation)
        self.antialias, self.scale, self.ratio = antialias, scale, ratio

    @staticmethod
    def get_params(
        img: Any, scale: Sequence[float], ratio: Sequence[float]
    ) -> tuple[int, int, int, int]:
        """Top, left, height and width of a part; after ten that do not fit, the middle."""
        _, height, width = TF.get_dimensions(img)
        for _ in range(10):
            w, h = drawn_part(height * width, scale, ratio)
            if 0 < w <= width and 0 < h <= height:
                return _integer(0, height - h + 1), _integer(0, width - w + 1), h, w
        w, h = width, height
        if width / height < min(ratio):
            h = round(w / min(ratio))
        elif width / height > max(ratio):
            w = round(h * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def draw(self, img: Any) -> Any:
        return self.get_params(img, self.scale, self.ratio)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        top, left, height, width = drawn
        how = (self.size, self.interpolation, self.antialias)
        return self.functional.resized_crop(img, top, left, height, width, *how)

    def extra_repr(self) -> str:
        scale, ratio = (tuple(round(x, 4) for x in b) for b in (self.scale, self.ratio))
        how = f"interpolation={self.interpolation.value}, antialias={self.antialias}"
        return f"size={self.size}, scale={scale}, ratio={ratio}, {how}"


class RandomRotation(Transform):
    """The image turned by an angle of -degrees to degrees, or of two bounds.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    >>> from weft.vision import transforms as T
    >>> T.RandomRotation(10)(weft.ones(1, 4, 4)).shape
    torch.Size([1, 4, 4])
    """

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = _NEAREST,
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = symmetric("degrees", degrees)
        self.interpolation, self.expand = as_mode(interpolation), expand
        self.center = _two("RandomRotation", "center", center)
        self.fill = _fill("RandomRotation", fill)

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """An angle."""
        return uniform(degrees[0], degrees[1])

    def draw(self, img: Any) -> Any:
        return self.get_params(self.degrees)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.rotate(
            img, drawn, self.interpolation, self.expand, self.center, self.fill
        )

    def extra_repr(self) -> str:
        parts = [f"degrees={self.degrees}, interpolation={self.interpolation.value}"]
        parts.append(f"expand={self.expand}")
        parts += [f"center={self.center}"] if self.center is not None else []
        return ", ".join([*parts, f"fill={self.fill}"])


class RandomAffine(Transform):
    """The image turned, moved, scaled and sheared at random, its middle fixed.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    Args:
        degrees: bounds of the angle, or one number for both.
        translate: the parts of width and height that it moves by at most.
        scale: bounds of the scale.
        shear: bounds of the shear along x, in degrees, or along x and y.

    >>> from weft.vision import transforms as T
    >>> T.RandomAffine(10)(weft.ones(1, 4, 4)).shape
    torch.Size([1, 4, 4])
    """

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = _NEAREST,
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        super().__init__()
        self.degrees = symmetric("degrees", degrees)
        self.translate = _two("RandomAffine", "translate", translate)
        self.scale = _two("RandomAffine", "scale", scale)
        self.center = _two("RandomAffine", "center", center)
        if translate is not None and not all(0.0 <= t <= 1.0 for t in translate):
            raise ValueError(
                f"[RandomAffine] expected translate of 0 to 1, got {translate}: "
                "translation values should be between 0 and 1"
            )
        if scale is not None and min(scale) <= 0:
            raise ValueError(
                f"[RandomAffine] expected positive scale, got {scale}: "
                "scale values should be positive"
            )
        self.shear = None if shear is None else symmetric("shear", shear, (2, 4))
        self.interpolation = as_mode(interpolation)
        self.fill = _fill("RandomAffine", fill)

    @staticmethod
    def get_params(
        degrees: Sequence[float], translate: Any, scale_ranges: Any, shears: Any, img_size: Any
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Angle, pixels across and down, scale, and degrees of shear along x and y."""
        angle = uniform(degrees[0], degrees[1])
        x = y = 0
        if translate is not None:
            far = [float(t * size) for t, size in zip(translate, img_size)]
            x, y = (round(uniform(-d, d)) for d in far)
        scale = 1.0 if scale_ranges is None else uniform(scale_ranges[0], scale_ranges[1])
        across = 0.0 if shears is None else uniform(shears[0], shears[1])
        down = uniform(shears[2], shears[3]) if shears is not None and len(shears) == 4 else 0.0
        return angle, (x, y), scale, (across, down)

    def draw(self, img: Any) -> Any:
        size = self.functional.get_image_size(img)
        return self.get_params(self.degrees, self.translate, self.scale, self.shear, size)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        angle, moved, scale, shear = drawn
        how = (self.interpolation, self.fill, self.center)
        return self.functional.affine(img, angle, moved, scale, shear, *how)

    def extra_repr(self) -> str:
        parts = [f"degrees={self.degrees}"]
        for name in ("translate", "scale", "shear"):
            value = getattr(self, name)
            parts += [f"{name}={value}"] if value is not None else []
        how = self.interpolation
        parts += [f"interpolation={how.value}"] if how is not _NEAREST else []
        parts += [f"fill={self.fill}"] if self.fill != 0 else []
        parts += [f"center={self.center}"] if self.center is not None else []
        return ", ".join(parts)


class RandomPerspective(Transform):
    """The image seen from aside, with probability `p`: its corners moved inwards.

    An image is a PIL image or a tensor [..., C, H, W], whose shape stays.

    Args:
        distortion_scale: how far, of half of the image.

    >>> from weft.vision import transforms as T
    >>> T.RandomPerspective(p=1.0)(weft.ones(1, 4, 4)).shape
    torch.Size([1, 4, 4])
    """

    _shown = ("p",)

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = _BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.p, self.distortion_scale = p_of("RandomPerspective", p), distortion_scale
        self.interpolation = as_mode(interpolation)
        self.fill = _fill("RandomPerspective", fill)

    @staticmethod
    def get_params(
        width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The corners, from the top left clockwise as [x, y], and where they go."""
        far = {size: int(distortion_scale * (size // 2)) for size in (width, height)}

        def place(size: int, at_end: bool) -> int:
            return _integer(size - far[size] - 1, size) if at_end else _integer(0, far[size] + 1)

        ends = [(False, False), (True, False), (True, True), (False, True)]
        start = [[(width - 1) * right, (height - 1) * low] for right, low in ends]
        return start, [[place(width, right), place(height, low)] for right, low in ends]

    def draw(self, img: Any) -> Any:
        if not weft.rand(1) < self.p:
            return None
        width, height = self.functional.get_image_size(img)
        return self.get_params(width, height, self.distortion_scale)

    def apply_to(self, img: Any, drawn: Any) -> Any:
        if drawn is None:
            return img
        start, end = drawn
        return self.functional.perspective(img, start, end, self.interpolation, self.fill)


def _floats(name: str, given: Any) -> Sequence[float]:
    """A float for both directions, or one for each."""
    if not isinstance(given, (float, Sequence)):
        raise TypeError(
            f"[ElasticTransform] expected {name} as a float or two, got {given!r}: "
            f"{name} should be float or a sequence of floats. Got {type(given)}"
        )
    found: Sequence[float] = [given, given] if isinstance(given, float) else given
    if len(found) != 2:
        raise ValueError(
            f"[ElasticTransform] expected two of {name}, got {given!r}: "
            f"If {name} is a sequence its length should be 2. Got {len(found)}"
        )
    for x in found:
        if not isinstance(x, float):
            raise TypeError(
                f"[ElasticTransform] expected {name} of floats, got {given!r}: "
                f"{name} should be a sequence of floats. Got {type(x)}"
            )
    return found


class ElasticTransform(Transform):
    """The image as if seen through moving water (Simard et al. 2003).

    Each pixel comes from a place beside its own; how far beside is drawn for each, and blurred.

    Args:
        alpha: how far at most, before blurring, in half pixels: across and down.
        sigma: the widths of the blur across and down, of less than a twelfth of the image; 0 for
            none.
        interpolation: nearest or bilinear.
        fill: what lies outside of the image: a number or one for each channel.

    >>> from weft.vision import transforms as T
    >>> T.ElasticTransform(alpha=20.0, sigma=2.0)(weft.rand(3, 32, 48)).shape
    torch.Size([3, 32, 48])
    """

    def __init__(
        self,
        alpha: Any = 50.0,
        sigma: Any = 5.0,
        interpolation: Any = _BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.alpha, self.sigma = _floats("alpha", alpha), _floats("sigma", sigma)
        self.interpolation = as_mode(interpolation)
        if not isinstance(fill, (int, float, list, tuple)):
            raise TypeError(
                f"[ElasticTransform] expected fill of numbers, got {fill!r}: fill should be int or "
                f"float or a list or tuple of them. Got {type(fill)}"
            )
        self.fill = [float(v) for v in (fill if isinstance(fill, (list, tuple)) else [fill])]

    @staticmethod
    def get_params(alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> Tensor:
        """How far beside its own place each pixel is taken, [1, H, W, 2]."""
        height, width = size
        parts = []
        for far, bell, length in zip(alpha, sigma, (width, height)):
            d = weft.rand(1, 1, height, width) * 2 - 1
            if bell > 0.0:
                pixels = int(8 * bell + 1) | 1
                d = TF.gaussian_blur(d, [pixels, pixels], list(sigma))
            parts.append(d * far / length)
        return weft.cat(parts, 1).permute(0, 2, 3, 1)

    def draw(self, img: Any) -> Any:
        return self.get_params(self.alpha, self.sigma, self.functional.get_dimensions(img)[1:])

    def apply_to(self, img: Any, drawn: Any) -> Any:
        return self.functional.elastic_transform(img, drawn, self.interpolation, self.fill)

    def extra_repr(self) -> str:
        names = ("alpha", "sigma", "interpolation", "fill")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)
