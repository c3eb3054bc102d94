"""Models of images: torchvision's names, first weights and names of parameters.

>>> from weft.vision import models
>>> model = models.resnet18(num_classes=10).eval()
>>> model(weft.rand(1, 3, 64, 64)).shape
torch.Size([1, 10])
"""

from weft.vision.models import alexnet as _alexnet
from weft.vision.models import convnext as _convnext
from weft.vision.models import densenet as _densenet
from weft.vision.models import efficientnet as _efficientnet
from weft.vision.models import googlenet as _googlenet
from weft.vision.models import mnasnet as _mnasnet
from weft.vision.models import mobilenet as _mobilenet
from weft.vision.models import regnet as _regnet
from weft.vision.models import resnet as _resnet
from weft.vision.models import shufflenetv2 as _shufflenetv2
from weft.vision.models import squeezenet as _squeezenet
from weft.vision.models import swin_transformer as _swin_transformer
from weft.vision.models import vgg as _vgg
from weft.vision.models import vision_transformer as _vision_transformer
from weft.vision.models._api import (
    Weights,
    WeightsEnum,
    get_model,
    get_model_builder,
    get_model_weights,
    get_weight,
    list_models,
)  # fmt: skip
from weft.vision.models.alexnet import *  # noqa: F403
from weft.vision.models.convnext import *  # noqa: F403
from weft.vision.models.densenet import *  # noqa: F403
from weft.vision.models.efficientnet import *  # noqa: F403
from weft.vision.models.googlenet import *  # noqa: F403
from weft.vision.models.mnasnet import *  # noqa: F403
from weft.vision.models.mobilenet import *  # noqa: F403
from weft.vision.models.regnet import *  # noqa: F403
from weft.vision.models.resnet import *  # noqa: F403
from weft.vision.models.shufflenetv2 import *  # noqa: F403
from weft.vision.models.squeezenet import *  # noqa: F403
from weft.vision.models.swin_transformer import *  # noqa: F403
from weft.vision.models.vgg import *  # noqa: F403
from weft.vision.models.vision_transformer import *  # noqa: F403

__all__ = [
    "Weights", "WeightsEnum", "get_model", "get_model_builder", "get_model_weights", "get_weight",
    "list_models", *_alexnet.__all__, *_convnext.__all__, *_densenet.__all__,
    *_efficientnet.__all__, *_googlenet.__all__, *_mnasnet.__all__, *_mobilenet.__all__,
    *_regnet.__all__, *_resnet.__all__, *_shufflenetv2.__all__, *_squeezenet.__all__,
    *_swin_transformer.__all__, *_vgg.__all__, *_vision_transformer.__all__,
]  # fmt: skip
