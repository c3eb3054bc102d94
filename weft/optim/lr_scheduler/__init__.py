"""Learning rates that follow a schedule: call `step()` once per epoch, after the optimizer's.

>>> import weft
>>> opt = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=1.0)
>>> schedule = weft.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
>>> for _ in range(4):
...     opt.step()
...     schedule.step()
>>> schedule.get_last_lr()
[0.25]
"""

from weft.optim.lr_scheduler.base import (
    EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING,
)
from weft.optim.lr_scheduler.base import LRScheduler, _LRScheduler
from weft.optim.lr_scheduler.base import _enable_get_lr_call as _enable_get_lr_call
from weft.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from weft.optim.lr_scheduler.curves import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from weft.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from weft.optim.lr_scheduler.functions import LambdaLR, MultiplicativeLR
from weft.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
