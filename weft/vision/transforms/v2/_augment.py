"""Batches of images mixed with their neighbours, and their labels with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import weft
from weft import Tensor
from weft.base.pillow import is_pil
from weft.distributions import Beta
from weft.nn.functional import one_hot
from weft.utils._pytree import tree_flatten, tree_unflatten
from weft.vision import tv_tensors
from weft.vision.transforms.v2._utils import is_pure_tensor, query_size
from weft.vision.transforms.v2.transform import Transform

__all__ = ["CutMix", "MixUp"]


def _labels_of(inputs: Any) -> Any:
    """The second input, or what is called labels, or something like it, in a dictionary."""
    given = inputs[1] if isinstance(inputs, (tuple, list)) else inputs
    if is_pure_tensor(given):
        return given
    if not isinstance(given, Mapping):
        raise ValueError(
            f"[labels_getter] expected a tensor or a dictionary, got {type(given).__name__}: When "
            "using the default labels_getter, the input passed to forward must be a dictionary or "
            "a two-tuple whose second item is a dictionary or a tensor"
        )
    alike = [key for key in given if "label" in key.lower()]
    same = [key for key in alike if key.lower() == "labels"]
    if not alike:
        raise ValueError(
            f"[labels_getter] expected a key of labels, got {sorted(given)}: Could not infer where "
            "the labels are in the sample. Hint: labels_getter=a function of the inputs"
        )
    return given[(same or alike)[0]]


def _neighbours(x: Tensor, own: float) -> Tensor:
    """Each example, `own` of it, with the rest of the one before."""
    return x.roll(1, 0).mul_(1.0 - own).add_(x.mul(own))


class _Mixed(Transform):
    """A transform of a batch of images and its labels, with a weight of a beta distribution."""

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        num_classes: int | None = None,
        labels_getter: str | Callable[[Any], Any] | None = "default",
    ) -> None:
        super().__init__()
        self.alpha, self.num_classes = float(alpha), num_classes
        self._dist = Beta(weft.tensor([self.alpha]), weft.tensor([self.alpha]))
        if labels_getter != "default" and labels_getter is not None and not callable(labels_getter):
            raise ValueError(
                f"[{type(self).__name__}] expected 'default' or a function, got {labels_getter!r}: "
                "labels_getter should either be 'default', a callable, or None, but got "
                f"{labels_getter}."
            )
        self._labels_getter = labels_getter

    def _labels(self, inputs: Any) -> Tensor:
        """The labels among the inputs, [N] or [N, classes]."""
        getter = self._labels_getter
        labels = getter(inputs) if callable(getter) else _labels_of(inputs) if getter else None
        who = type(self).__name__
        if not isinstance(labels, Tensor):
            raise ValueError(
                f"[{who}] expected labels as a tensor, got {type(labels).__name__}: "
                f"The labels must be a tensor, but got {type(labels)} instead."
            )
        if labels.ndim not in (1, 2):
            raise ValueError(
                f"[{who}] expected labels [N] or [N, classes], got shape {list(labels.shape)}: "
                "labels should be index based with shape (batch_size,) or probability based with "
                f"shape (batch_size, num_classes), but got a tensor of shape {labels.shape} instead"
            )
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError(
                f"[{who}] expected num_classes with labels [N], got None: "
                "num_classes must be passed if the labels are index-based (1D)"
            )
        if labels.ndim == 2 and self.num_classes not in (None, labels.shape[-1]):
            raise ValueError(
                f"[{who}] expected labels of {self.num_classes} classes, got {labels.shape[-1]}: "
                "When passing 2D labels, the number of elements in last dimension must match "
                f"num_classes: {labels.shape[-1]} != {self.num_classes}."
            )
        return labels

    def _check_images(self, images: Any, n: int) -> None:
        who = type(self).__name__
        if images.ndim != 4:
            raise ValueError(
                f"[{who}] expected images [N, C, H, W], got shape {list(images.shape)}: "
                f"Expected a batched input with 4 dims, but got {images.ndim} dimensions instead."
            )
        if len(images) != n:
            raise ValueError(
                f"[{who}] expected {n} images, as there are labels, got {len(images)}: The batch "
                "size of the image or video does not match the batch size of the labels: "
                f"{len(images)} != {n}."
            )

    def _mixed_labels(self, labels: Tensor, own: float) -> Tensor:
        if labels.ndim == 1:
            labels = one_hot(labels, self.num_classes or -1)
        return _neighbours(labels if labels.is_floating_point() else labels.float(), own)

    def forward(self, *inputs: Any) -> Any:
        given = inputs if len(inputs) > 1 else inputs[0]
        flat, spec = tree_flatten(given)
        if any(is_pil(x) for x in flat):
            raise ValueError(
                f"[{type(self).__name__}] expected tensors, got a PIL image: "
                f"{type(self).__name__}() does not support PIL images, bounding boxes, keypoints "
                "and masks. Hint: it mixes a batch, after the data loader"
            )
        labels = self._labels(given)
        place = next(i for i, x in enumerate(flat) if x is labels)
        images = [i for i in self._places(flat) if i != place]
        params = self.make_params([flat[i] for i in images])
        for i in images:
            self._check_images(flat[i], len(labels))
            flat[i] = tv_tensors.wrap(self.transform(flat[i], params), like=flat[i])
        flat[place] = self._mixed_labels(labels, params["lam"])
        return tree_unflatten(flat, spec)


class MixUp(_Mixed):
    """Each image and label of a batch averaged with those before it (Zhang et al. 2017).

    Labels [N] of int64, or [N, classes], come back as floats [N, classes].

    Args:
        alpha: of the beta distribution of an image's own weight; 1 is even.
        num_classes: for labels [N].
        labels_getter: a function of the inputs that gives the labels; by default they are the
            second input, or what a dictionary has under a name with "label".

    Raises: ValueError for labels that are none, and for images [N, C, H, W] of another N.

    >>> from weft.vision.transforms import v2
    >>> images, labels = v2.MixUp(num_classes=10)(weft.rand(4, 3, 8, 8), weft.arange(4))
    >>> images.shape, labels.shape
    (torch.Size([4, 3, 8, 8]), torch.Size([4, 10]))
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"lam": float(self._dist.sample(()))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return _neighbours(inpt, params["lam"])


class CutMix(_Mixed):
    """A rectangle of each image is that of the one before it (Yun et al. 2019).

    Labels are averaged by the areas. Arguments and errors are those of `MixUp`.

    >>> from weft.vision.transforms import v2
    >>> images, labels = v2.CutMix(num_classes=10)(weft.rand(4, 3, 8, 8), weft.arange(4))
    >>> images.shape, labels.shape
    (torch.Size([4, 3, 8, 8]), torch.Size([4, 10]))
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        own = float(self._dist.sample(()))
        height, width = query_size(flat_inputs)
        x, y = (int(weft.randint(n, (1,))) for n in (width, height))
        part = 0.5 * math.sqrt(1.0 - own)
        dx, dy = int(part * width), int(part * height)
        left, right = max(x - dx, 0), min(x + dx, width)
        top, bottom = max(y - dy, 0), min(y + dy, height)
        area = (right - left) * (bottom - top)
        return {"box": (left, top, right, bottom), "lam": 1.0 - area / (width * height)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        left, top, right, bottom = params["box"]
        out = inpt.clone()
        out[..., top:bottom, left:right] = inpt.roll(1, 0)[..., top:bottom, left:right]
        return out
