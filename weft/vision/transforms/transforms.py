"""Every transform of one image: those that are fixed, those that happen by chance, and crops."""

from weft.vision.transforms import chance, fixed, geometry
from weft.vision.transforms.chance import *  # noqa: F403
from weft.vision.transforms.fixed import *  # noqa: F403
from weft.vision.transforms.functional import InterpolationMode
from weft.vision.transforms.geometry import *  # noqa: F403

__all__ = ["InterpolationMode", *fixed.__all__, *chance.__all__, *geometry.__all__]
