"""Elements that a mask hides: reductions over the others, and tensors that carry their mask.

The functions take a dense tensor and `mask=`; a `MaskedTensor` (weft/masked/maskedtensor) is both
in one, and functions of weft skip what it hides.
"""

from weft.masked._ops import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)
from weft.masked.maskedtensor.core import MaskedTensor, is_masked_tensor
from weft.masked.maskedtensor.creation import as_masked_tensor, masked_tensor

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum",
    "is_masked_tensor", "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
