"""What v2 adds to a transform: inputs of any structure, of which the images are transformed alike.

Images are PIL images and `tv_tensors.Image`; where there is none, the first tensor is one.
Everything else goes through untouched, boxes and masks too, for which there are no types here.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.base.forms import doc_after
from weft.base.pillow import is_pil
from weft.nn import Module
from weft.utils._pytree import tree_flatten, tree_unflatten
from weft.vision import tv_tensors
from weft.vision.transforms import fixed
from weft.vision.transforms.v2 import functional

__all__ = ["Compose", "OfImages", "RandomApply", "RandomChoice", "RandomOrder", "Transform"]


class Transform(Module):
    """A transform of what a call is given: `make_params` once, then `transform` for each image.

    >>> from weft.vision.transforms import v2
    >>> class Darker(v2.Transform):
    ...     def make_params(self, flat_inputs):
    ...         return {"factor": 0.5}
    ...     def transform(self, inpt, params):
    ...         return inpt * params["factor"]
    >>> Darker()({"image": weft.ones(1, 1, 2), "label": 3})
    {'image': tensor([[[0.5000, 0.5000]]]), 'label': 3}
    """

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raises where the inputs are none for this transform."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """What is drawn, for the inputs that will be transformed."""
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input, transformed."""
        raise NotImplementedError

    def _places(self, flat: list[Any]) -> list[int]:
        """Which of the inputs are transformed."""
        images = [i for i, x in enumerate(flat) if isinstance(x, tv_tensors.Image) or is_pil(x)]
        return images or [i for i, x in enumerate(flat) if isinstance(x, Tensor)][:1]

    def forward(self, *inputs: Any) -> Any:
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        self.check_inputs(flat)
        places = self._places(flat)
        params = self.make_params([flat[i] for i in places])
        for i in places:
            flat[i] = tv_tensors.wrap(self.transform(flat[i], params), like=flat[i])
        return tree_unflatten(flat, spec)


class OfImages(Transform):
    """A transform of v1, drawn for the first image and applied to all.

    Its docstring is followed by that of the transform.
    """

    functional = functional

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        of_v1 = next((c for c in cls.__bases__ if not issubclass(c, Transform)), None)
        cls.__doc__ = doc_after(cls.__doc__ or "", of_v1)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        own: Any = self
        return {"drawn": own.draw(flat_inputs[0])} if flat_inputs else {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        own: Any = self
        return own.apply_to(inpt, params["drawn"])


def _each(transforms: Any, inputs: tuple[Any, ...]) -> Any:
    """One transform after the other, of one thing or of several."""
    for t in transforms:
        out = t(*inputs)
        inputs = out if len(inputs) > 1 else (out,)
    return inputs if len(inputs) > 1 else inputs[0]


class Compose(fixed.Several):
    """One transform after the other.

    >>> from weft.vision.transforms import v2
    >>> v2.Compose([v2.CenterCrop(2), v2.Pad(1)])(weft.ones(1, 4, 4)).shape
    torch.Size([1, 4, 4])
    """

    def forward(self, *inputs: Any) -> Any:
        return _each(self.transforms, inputs)


class RandomApply(fixed.RandomApply):
    """All of the transforms, with probability `p`, or none.

    >>> from weft.vision.transforms import v2
    >>> v2.RandomApply([v2.CenterCrop(2)], p=1.0)(weft.ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    def forward(self, *inputs: Any) -> Any:
        return _each(() if weft.rand(1) >= self.p else self.transforms, inputs)


class RandomChoice(fixed.Several):
    """One of the transforms, with probabilities `p`.

    >>> from weft.vision.transforms import v2
    >>> v2.RandomChoice([v2.CenterCrop(2)])(weft.ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    def __init__(self, transforms: Any, p: Any = None) -> None:
        super().__init__(transforms)
        p = [1.0] * len(transforms) if p is None else p
        if len(p) != len(transforms):
            raise ValueError(
                f"[RandomChoice] expected {len(transforms)} probabilities, got {len(p)}: "
                f"Length of p doesn't match the number of transforms: {len(p)} != {len(transforms)}"
            )
        self.p = [x / sum(p) for x in p]

    def forward(self, *inputs: Any) -> Any:
        chosen = int(weft.multinomial(weft.tensor(self.p), 1))
        return self.transforms[chosen](*inputs)


class RandomOrder(fixed.Several):
    """All of the transforms in a random order.

    >>> from weft.vision.transforms import v2
    >>> v2.RandomOrder([v2.CenterCrop(2)])(weft.ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    def forward(self, *inputs: Any) -> Any:
        order = weft.randperm(len(self.transforms)).tolist()
        return _each([self.transforms[i] for i in order], inputs)
