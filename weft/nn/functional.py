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

from typing import Any

import weft
from weft import _C, Tensor
from weft.nn import functional_fractional, functional_image, functional_norm, functional_pool
from weft.nn.functional_attention import multi_head_attention_forward
from weft.nn.functional_dropout import (
    alpha_dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from weft.nn.functional_embedding import embedding_bag
from weft.nn.functional_fractional import *  # noqa: F403
from weft.nn.functional_image import *  # noqa: F403
from weft.nn.functional_loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from weft.nn.functional_margin import (
    cosine_embedding_loss,
    cosine_similarity,
    ctc_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    normalize,
    pairwise_distance,
    pdist,
    poisson_nll_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from weft.nn.functional_norm import *  # noqa: F403
from weft.nn.functional_pool import *  # noqa: F403
from weft.nn.warn import warn

__all__ = [
    # layers
    "linear",
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
    "normalize",
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
    """
    out_features, in1, in2 = weight.shape
    _expect(input1.shape[:-1] == input2.shape[:-1], "equal leading sizes", input1, input2)
    _expect(input1.shape[-1] == in1, f"an input1 of (*, {in1})", input1, weight)
    _expect(input2.shape[-1] == in2, f"an input2 of (*, {in2})", input2, weight)
    # One product for all features with the weight as it lies, then one with each input1.
    right = linear(input2, weight.reshape(out_features * in1, in2))
    right = right.view(*input2.shape[:-1], out_features, in1)
    result = right.matmul(input1.unsqueeze(-1)).squeeze(-1)
    return result if bias is None else result + bias


def _expect(condition: bool, expected: str, *got: Tensor) -> None:
    if not condition:
        shapes = " and ".join(str(tuple(tensor.shape)) for tensor in got)
        raise RuntimeError(f"[bilinear] expected {expected}, got shapes {shapes}")


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` that `input` names.

    Args:
        input: integers of any shape.
        weight: `(rows, features)`.
        padding_idx: a row that gets no gradient.
        max_norm: rows that are used and longer than this are first shortened, in place.
        norm_type: the order of that norm.
        scale_grad_by_freq: divide the gradient of a row by how often `input` names it.
        sparse: has to be false.

    Returns:
        A tensor of `(*input.shape, features)`.

    Raises:
        AssertionError: `padding_idx` is out of range.
        IndexError: a row that does not exist.
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.shape[0]
        assert -rows <= padding_idx < rows, "Padding_idx must be within num_embeddings"
        padding_idx %= rows
    if max_norm is not None:
        _shorten_rows(weight, input, max_norm, norm_type)
    return _C.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _shorten_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    with weft.no_grad():
        used = input.reshape(-1)  # a row that is named twice is written twice, with one value
        rows = weight[used]
        norms = _C.ops.linalg_vector_norm(rows, norm_type, 1, True)
        shorter = rows * (max_norm / (norms + 1e-7))
        weight[used] = weft.where(norms > max_norm, shorter, rows)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zero each element with probability `p` and scale the rest by 1 / (1 - p).

    Raises:
        ValueError: `p` is outside of 0 to 1.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not inplace:
        return _C.dropout(input, p, training)
    if not training or p == 0:
        return input
    return input.mul_(_C.ops._dropout_noise(input, p)) if p < 1 else input.mul_(0.0)


# --- activations --------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `max(0, x)`."""
    return _C.relu_(input) if inplace else _C.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `min(max(0, x), 6)`."""
    return _C.relu6_(input) if inplace else _C.relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return `max(0, x) + negative_slope * min(0, x)`."""
    run = _C.leaky_relu_ if inplace else _C.leaky_relu
    return run(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return `max(0, x) + min(0, alpha (exp(x) - 1))`."""
    return (_C.elu_ if inplace else _C.elu)(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return a scaled `elu` that keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    return _C.selu_(input) if inplace else _C.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return `max(0, x) + min(0, alpha (exp(x / alpha) - 1))` (Barron, 2017).

    Raises:
        RuntimeError: `alpha` is 0.
    """
    return (_C.celu_ if inplace else _C.celu)(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x sigmoid(x)`."""
    return _C.silu_(input) if inplace else _C.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x tanh(softplus(x))` (Misra, 2019)."""
    return _C.mish_(input) if inplace else _C.mish(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Return the input, cut off at `min_val` and `max_val`; the slope is 0 at both.

    Raises:
        ValueError: `min_val > max_val`.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (_C.hardtanh_ if inplace else _C.hardtanh)(input, min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `relu6(x + 3) / 6`."""
    return _C.hardsigmoid_(input) if inplace else _C.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x relu6(x + 3) / 6` (Howard et al., "Searching for MobileNetV3", 2019)."""
    return _C.hardswish_(input) if inplace else _C.hardswish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x where it is above `threshold`, and `value` elsewhere."""
    return (_C.threshold_ if inplace else _C.threshold)(input, threshold, value)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Return x where it is positive, elsewhere x times a slope (Xu et al., 2015).

    In training the slope of each element is drawn from `lower` to `upper`, else it is their mean.

    Raises:
        RuntimeError: `lower` is above `upper`.
    """
    if lower > upper:
        raise RuntimeError(f"[rrelu] expected lower <= upper, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    low = input.detach() <= 0
    count = int(low.sum())
    slopes = weft.empty(count, dtype=_C.float64).uniform_(lower, upper).to(input.dtype)
    noise = weft.ones_like(input).masked_scatter(low, slopes)
    return input.mul_(noise) if inplace else input * noise


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """`rrelu`, written over the input."""
    return rrelu(input, lower, upper, training, True)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Return a sample near a one-hot vector along `dim` (Jang et al., 2017).

    Args:
        logits: unnormalised logarithms of probabilities.
        tau: the temperature.
        hard: whether the sample is one-hot, with the gradient of the soft one.
        eps: not used, as in PyTorch.
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    noise = -weft.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.detach().argmax(dim, keepdim=True)
    return weft.zeros_like(logits).scatter(dim, index, 1.0) - soft.detach() + soft


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return `a * sigmoid(b)`, where a and b are the halves of the input along `dim`.

    Raises:
        RuntimeError: the size along `dim` is odd, or the input has no dimension.
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    size = input.shape[dim]
    if size % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.dim()} is size {size}"
        )
    half = size // 2
    return input.narrow(dim, 0, half) * _C.sigmoid(input.narrow(dim, half, half))


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return `exp(x) / sum(exp(x))` along `dim`, of the input converted to `dtype`."""
    return _C.softmax(input, _implicit("softmax", input) if dim is None else dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return `log(softmax(x))` along `dim`, of the input converted to `dtype`."""
    return _C.log_softmax(input, _implicit("log_softmax", input) if dim is None else dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return `softmax(-x)` along `dim`, of the input converted to `dtype`."""
    return _C.softmin(input, _implicit("softmin", input) if dim is None else dim, dtype)


def _implicit(who: str, input: Tensor) -> int:
    """Return the dimension that PyTorch takes where none is given."""
    warn(
        f"Implicit dimension choice for {who} has been deprecated. "
        "Change the call to include dim=X as an argument."
    )
    return 0 if input.dim() in (0, 1, 3) else 1
