"""What transforms ask of the inputs of a call, once those lie in one list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import Tensor
from weft.base.pillow import is_pil
from weft.vision import tv_tensors
from weft.vision.transforms import functional

__all__ = ["check_type", "has_all", "has_any", "is_pure_tensor", "query_chw", "query_size"]

_Kind = type | Callable[[Any], bool]


def is_pure_tensor(inpt: Any) -> bool:
    """Whether that is a tensor that does not say what it means.

    >>> from weft.vision import tv_tensors
    >>> from weft.vision.transforms import v2
    >>> v2.is_pure_tensor(weft.ones(3)), v2.is_pure_tensor(tv_tensors.Image(weft.ones(3, 4, 4)))
    (True, False)
    """
    return isinstance(inpt, Tensor) and not isinstance(inpt, tv_tensors.TVTensor)


def check_type(obj: Any, types_or_checks: Sequence[_Kind]) -> bool:
    """Whether that is of one of the types, or one of the functions says so.

    >>> from weft.vision.transforms import v2
    >>> v2.check_type(3, (str, int)), v2.check_type(3, (lambda x: x > 5,))
    (True, False)
    """
    return any(isinstance(obj, k) if isinstance(k, type) else k(obj) for k in types_or_checks)


def has_any(flat_inputs: list[Any], *types_or_checks: _Kind) -> bool:
    """Whether one of the inputs is of one of the types.

    >>> from weft.vision.transforms import v2
    >>> v2.has_any([3, "x"], str), v2.has_any([3], str)
    (True, False)
    """
    return any(check_type(inpt, types_or_checks) for inpt in flat_inputs)


def has_all(flat_inputs: list[Any], *types_or_checks: _Kind) -> bool:
    """Whether for each of the types there is an input.

    >>> from weft.vision.transforms import v2
    >>> v2.has_all([3, "x"], str, int), v2.has_all([3], str, int)
    (True, False)
    """
    return all(has_any(flat_inputs, kind) for kind in types_or_checks)


def query_chw(flat_inputs: list[Any]) -> tuple[int, int, int]:
    """Channels, height and width of the images, which all have the same.

    Raises: TypeError where there is no image, ValueError where they differ.

    >>> from weft.vision.transforms import v2
    >>> v2.query_chw([weft.zeros(8, 3, 20, 30), "name"])
    (3, 20, 30)
    """
    images = [x for x in flat_inputs if isinstance(x, Tensor) or is_pil(x)]
    found = {tuple(functional.get_dimensions(x)) for x in images}
    if not found:
        raise TypeError(
            f"[query_chw] expected an image, got {[type(x).__name__ for x in flat_inputs]}: "
            "No image or video was found in the sample"
        )
    if len(found) > 1:
        raise ValueError(
            f"[query_chw] expected images of one size, got {sorted(found)}: "
            f"Found multiple CxHxW dimensions in the sample: {sorted(found)}"
        )
    channels, height, width = found.pop()
    return channels, height, width


def query_size(flat_inputs: list[Any]) -> tuple[int, int]:
    """Height and width of the images, which all have the same.

    Raises: TypeError where there is no image, ValueError where they differ.

    >>> from weft.vision.transforms import v2
    >>> v2.query_size([weft.zeros(8, 3, 20, 30), "name"])
    (20, 30)
    """
    return query_chw(flat_inputs)[1:]
