"""Operations on boxes and regions of images, and layers of their models."""

from weft.vision.ops import boxes as _boxes
from weft.vision.ops import misc as _misc
from weft.vision.ops.boxes import *  # noqa: F403
from weft.vision.ops.focal_loss import sigmoid_focal_loss
from weft.vision.ops.misc import *  # noqa: F403
from weft.vision.ops.roi_align import RoIAlign, roi_align
from weft.vision.ops.stochastic_depth import StochasticDepth, stochastic_depth

__all__ = [
    *_boxes.__all__, *_misc.__all__, "RoIAlign", "StochasticDepth", "roi_align",
    "sigmoid_focal_loss", "stochastic_depth",
]  # fmt: skip
