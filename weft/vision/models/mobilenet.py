"""MobileNets under the name of their family."""

from weft.vision.models import mobilenetv2, mobilenetv3
from weft.vision.models.mobilenetv2 import *  # noqa: F403
from weft.vision.models.mobilenetv3 import *  # noqa: F403

__all__ = [*mobilenetv2.__all__, *mobilenetv3.__all__]
__all__.remove("InvertedResidual")
