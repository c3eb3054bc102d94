"""The layers under the paths of PyTorch's files: `weft.nn.modules.conv.Conv2d` and so on.

>>> from weft.nn.modules.utils import _pair
>>> _pair(3)
(3, 3)
"""

from __future__ import annotations

import sys
import types
from typing import Any

import weft
from weft.nn import (
    adaptive_softmax,
    attention,
    batchnorm,
    common_types,
    conv,
    dropout,
    lazy,
    loss,
    module,
    module_hooks,
    module_state,
    padding,
    pooling,
    transformer,
)
from weft.nn.modules import utils
from weft.nn.utils.rnn import PackedSequence

_FILES = {
    "activation": """Threshold ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish
        Hardswish ELU CELU SELU GLU GELU Hardshrink LeakyReLU LogSigmoid Softplus Softshrink
        MultiheadAttention PReLU Softsign Tanhshrink Softmin Softmax Softmax2d LogSoftmax""",
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "batchnorm": """BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LazyBatchNorm1d
        LazyBatchNorm2d LazyBatchNorm3d""",
    "channelshuffle": "ChannelShuffle",
    "container": "Sequential ModuleList ModuleDict ParameterList ParameterDict",
    "conv": """Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d
        LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d""",
    "distance": "PairwiseDistance CosineSimilarity",
    "dropout": "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
    "flatten": "Flatten Unflatten",
    "fold": "Fold Unfold",
    "instancenorm": """InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d
        LazyInstanceNorm2d LazyInstanceNorm3d""",
    "lazy": "",
    "linear": "Identity Linear Bilinear LazyLinear",
    "loss": """L1Loss NLLLoss PoissonNLLLoss GaussianNLLLoss KLDivLoss MSELoss BCELoss
        BCEWithLogitsLoss HingeEmbeddingLoss MultiLabelMarginLoss SmoothL1Loss HuberLoss
        SoftMarginLoss CrossEntropyLoss MultiLabelSoftMarginLoss CosineEmbeddingLoss
        MarginRankingLoss MultiMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss
        CTCLoss NLLLoss2d LinearCrossEntropyLoss""",
    "module": """Module register_module_buffer_registration_hook
        register_module_module_registration_hook register_module_parameter_registration_hook
        register_module_forward_pre_hook register_module_forward_hook
        register_module_full_backward_pre_hook register_module_full_backward_hook""",
    "normalization": "LocalResponseNorm LayerNorm GroupNorm RMSNorm",
    "padding": """CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d
        ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d
        ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d""",
    "pixelshuffle": "PixelShuffle PixelUnshuffle",
    "pooling": """MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d AvgPool1d
        AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d
        AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AdaptiveAvgPool1d
        AdaptiveAvgPool2d AdaptiveAvgPool3d""",
    "rnn": "RNNBase RNN LSTM GRU RNNCellBase RNNCell LSTMCell GRUCell",
    "sparse": "Embedding EmbeddingBag",
    "transformer": """Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer
        TransformerDecoderLayer""",
    "upsampling": "Upsample UpsamplingNearest2d UpsamplingBilinear2d",
}


def _permuted(tensor: weft.Tensor, permutation: weft.Tensor, dim: int = 1) -> weft.Tensor:
    """The rows of a state in the order of a packed sequence."""
    return tensor.index_select(dim, permutation)


_PRIVATE: dict[str, dict[str, Any]] = {
    "adaptive": {"_ASMoutput": adaptive_softmax._ASMoutput},
    "batchnorm": {"_NormBase": batchnorm._NormBase, "_BatchNorm": batchnorm._BatchNorm},
    "conv": {
        "_ConvNd": conv._ConvNd,
        "_ConvTransposeMixin": conv._ConvTransposeNd,
        "_ConvTransposeNd": conv._ConvTransposeNd,
        "_size_2_t": common_types._size_2_t,
    },
    "dropout": {"_DropoutNd": dropout._Dropout},
    "instancenorm": {"_InstanceNorm": batchnorm._InstanceNorm},
    "lazy": {"LazyModuleMixin": lazy.LazyModuleMixin},
    "loss": {"_Loss": loss._Loss, "_WeightedLoss": loss._WeightedLoss},
    "linear": {"NonDynamicallyQuantizableLinear": attention.NonDynamicallyQuantizableLinear},
    "module": {
        "_IncompatibleKeys": module_state._IncompatibleKeys,
        "_EXTRA_STATE_KEY_SUFFIX": module_state._EXTRA_STATE,
        "_addindent": module._addindent,
        **{name: of for name, of in vars(module_hooks).items() if name.startswith("_global_")},
    },
    "normalization": {"_shape_t": int | list[int] | weft.Size},
    "padding": {
        "_ConstantPadNd": padding._ConstantPad,
        "_ReflectionPadNd": padding._ReflectionPad,
        "_ReplicationPadNd": padding._ReplicationPad,
    },
    "pooling": {name: layer for name, layer in vars(pooling).items() if name.endswith("Nd")},
    "rnn": {"PackedSequence": PackedSequence, "apply_permutation": _permuted},
    "transformer": {
        "_generate_square_subsequent_mask": transformer._causal_mask,
        "_get_activation_fn": transformer._get_activation_fn,
        "_get_clones": transformer._get_clones,
    },
}

__all__: list[str] = []


def _fill(layers: dict[str, Any]) -> None:
    """Makes the modules, of the names of `weft.nn`, which calls this at its end."""
    for file, listed in _FILES.items():
        made = types.ModuleType(f"weft.nn.modules.{file}", f"PyTorch's file `modules/{file}.py`.")
        names = {name: layers[name] for name in listed.split()}
        vars(made).update(names)
        vars(made).update(_PRIVATE.get(file, {}))
        globals().update(names)
        __all__.extend(names)
        sys.modules[made.__name__] = globals()[file] = made
