"""The functions behind the layers, `weft.nn.functional` or `F`.

The arithmetic is in the extension. A function whose op takes PyTorch's arguments as they are is
that op; the others here sort out the rest: `inplace`, a dimension that is not given, older names
of arguments. Pointwise functions take any shape and return it.

>>> import weft
>>> import weft.nn.functional as F
>>> F.relu6(weft.tensor([-1.0, 3.0, 9.0])).tolist()
[0.0, 3.0, 6.0]
"""

from __future__ import annotations

from weft import _C, Tensor
from weft.base import checks as _checks
from weft.composites.grouped import grouped_mm
from weft.nn import functional_fractional, functional_image, functional_norm, functional_pool
from weft.nn.functional_activation import (
    celu,
    elu,
    glu,
    gumbel_softmax,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    mish,
    relu,
    relu6,
    rrelu,
    rrelu_,
    selu,
    silu,
    softmax,
    softmin,
    threshold,
)
from weft.nn.functional_attention import _canonical_mask as _canonical_mask
from weft.nn.functional_attention import _in_projection as _in_projection
from weft.nn.functional_attention import _in_projection_packed as _in_projection_packed
from weft.nn.functional_attention import _none_or_dtype as _none_or_dtype
from weft.nn.functional_attention import multi_head_attention_forward
from weft.nn.functional_ctc import ctc_loss
from weft.nn.functional_distance import cosine_similarity, pairwise_distance, pdist
from weft.nn.functional_dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from weft.nn.functional_embedding import embedding, embedding_bag
from weft.nn.functional_fractional import *  # noqa: F403
from weft.nn.functional_image import *  # noqa: F403
from weft.nn.functional_loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from weft.nn.functional_loss_linear import linear_cross_entropy
from weft.nn.functional_loss_margin import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from weft.nn.functional_norm import *  # noqa: F403
from weft.nn.functional_pool import *  # noqa: F403

__all__ = [
    # layers
    "linear",
    "grouped_mm",
    "bilinear",
    "embedding",
    "one_hot",
    "layer_norm",
    "scaled_dot_product_attention",
    "multi_head_attention_forward",
    "dropout",
    "alpha_dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "embedding_bag",
    # activations
    "relu",
    "relu_",
    "relu6",
    "leaky_relu",
    "leaky_relu_",
    "prelu",
    "elu",
    "elu_",
    "selu",
    "selu_",
    "celu",
    "celu_",
    "gelu",
    "silu",
    "mish",
    "sigmoid",
    "logsigmoid",
    "tanh",
    "softplus",
    "softsign",
    "softmax",
    "log_softmax",
    "softmin",
    "glu",
    "hardtanh",
    "hardtanh_",
    "hardsigmoid",
    "hardswish",
    "threshold",
    "threshold_",
    "tanhshrink",
    "softshrink",
    "hardshrink",
    "rrelu",
    "rrelu_",
    "gumbel_softmax",
    # losses
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "linear_cross_entropy",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "pairwise_distance",
    "pdist",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]
__all__ += [
    # convolution, and layers of channels and pixels
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
]  # fmt: skip
__all__ += functional_pool.__all__ + functional_image.__all__
__all__ += functional_norm.__all__ + functional_fractional.__all__


linear = _C.linear
conv1d = _C.conv1d
conv2d = _C.conv2d
conv3d = _C.conv3d
conv_transpose1d = _C.conv_transpose1d
conv_transpose2d = _C.conv_transpose2d
conv_transpose3d = _C.conv_transpose3d
pixel_shuffle = _C.pixel_shuffle
pixel_unshuffle = _C.pixel_unshuffle
channel_shuffle = _C.channel_shuffle
layer_norm = _C.layer_norm
one_hot = _C.ops.one_hot
scaled_dot_product_attention = _C.ops.scaled_dot_product_attention
gelu = _C.gelu
sigmoid = _C.sigmoid
logsigmoid = _C.logsigmoid
tanh = _C.tanh
softplus = _C.softplus
softsign = _C.softsign
prelu = _C.prelu
tanhshrink = _C.tanhshrink
softshrink = _C.softshrink
hardshrink = _C.hardshrink
relu_ = _C.relu_
leaky_relu_ = _C.leaky_relu_
elu_ = _C.elu_
selu_ = _C.selu_
celu_ = _C.celu_
hardtanh_ = _C.hardtanh_
threshold_ = _C.threshold_

# --- layers -------------------------------------------------------------------------------------


def _expect_features(which: int, got: int, expected: int) -> None:
    if got != expected:
        raise RuntimeError(
            f"[bilinear] expected features that the weight has, got {got} (bilinear(): "
            f"input{which} size does not match weight size: got {got} but expected {expected})"
        )


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `y[..., k] = input1[..., i] weight[k, i, j] input2[..., j] + bias[k]`.

    Args:
        input1: `(*, in1)`.
        input2: `(*, in2)`, with the same leading sizes.
        weight: `(out, in1, in2)`.
        bias: `(out)`.

    Returns:
        A tensor of `(*, out)`.

    Raises:
        RuntimeError: the shapes do not agree.

    >>> weft.nn.functional.bilinear(weft.ones(1, 2), weft.ones(1, 3), weft.ones(1, 2, 3))
    tensor([[6.]])
    """
    _expect(weight.dim() == 3, "a weight of three dimensions", weight)
    _expect(input1.dim() > 0 and input2.dim() > 0, "inputs of dimensions", input1, input2)
    out_features, in1, in2 = weight.shape
    _expect(input1.shape[:-1] == input2.shape[:-1], "equal leading sizes", input1, input2)
    _expect_features(1, input1.shape[-1], in1)
    _expect_features(2, input2.shape[-1], in2)
    # One product for all features with the weight as it lies, then one with each input1.
    right = linear(input2, weight.reshape(out_features * in1, in2))
    right = right.view(*input2.shape[:-1], out_features, in1)
    result = right.matmul(input1.unsqueeze(-1)).squeeze(-1)
    if bias is not None:
        _expect(bias.shape == (out_features,), f"a bias of ({out_features},)", bias, weight)
    return result if bias is None else result + bias


def _expect(condition: bool, expected: str, *got: Tensor) -> None:
    if not condition:
        shapes = " and ".join(str(tuple(tensor.shape)) for tensor in got)
        raise RuntimeError(f"[bilinear] expected {expected}, got shapes {shapes}")


_checks.install(__name__)
