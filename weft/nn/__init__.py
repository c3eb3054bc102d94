"""Layers, losses and what they are made of: `weft.nn`.

>>> import weft
>>> from weft import nn
>>> net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2))
>>> net(weft.zeros(1, 8)).shape
torch.Size([1, 2])
"""

from weft.nn import functional, init, utils
from weft.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from weft.nn.attention import MultiheadAttention
from weft.nn.containers import ModuleDict, ModuleList, Sequential
from weft.nn.dropout import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
)
from weft.nn.embedding import Embedding
from weft.nn.embedding_bag import EmbeddingBag
from weft.nn.flatten import Flatten, Unflatten
from weft.nn.linear import Bilinear, Identity, Linear
from weft.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from weft.nn.loss_margin import (
    CosineEmbeddingLoss,
    CosineSimilarity,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    PairwiseDistance,
    PoissonNLLLoss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from weft.nn.module import Module
from weft.nn.module_hooks import (
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from weft.nn.normalization import LayerNorm
from weft.nn.parameter import Buffer, Parameter
from weft.nn.parameter_containers import ParameterDict, ParameterList
from weft.nn.rnn import GRU, LSTM, RNN, RNNBase
from weft.nn.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from weft.nn.rrelu import RReLU
from weft.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    # the base
    "Module",
    "Parameter",
    "Buffer",
    # containers
    "Sequential",
    "ModuleList",
    "ModuleDict",
    "ParameterList",
    "ParameterDict",
    # linear layers
    "Identity",
    "Linear",
    "Bilinear",
    # tables, shapes, dropout, normalization
    "Embedding",
    "Flatten",
    "Unflatten",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "AlphaDropout",
    "FeatureAlphaDropout",
    "EmbeddingBag",
    "LayerNorm",
    # recurrent cells
    "RNNCellBase",
    "RNNCell",
    "MultiheadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "RNNBase",
    "RNN",
    "GRU",
    "LSTM",
    "GRUCell",
    "LSTMCell",
    # activations
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "PReLU",
    "ELU",
    "SELU",
    "CELU",
    "GELU",
    "SiLU",
    "Mish",
    "Sigmoid",
    "LogSigmoid",
    "Tanh",
    "Softplus",
    "Softsign",
    "Softmax",
    "Softmax2d",
    "RReLU",
    "LogSoftmax",
    "Softmin",
    "GLU",
    "Hardtanh",
    "Hardsigmoid",
    "Hardswish",
    "Threshold",
    "Tanhshrink",
    "Softshrink",
    "Hardshrink",
    # losses
    "CrossEntropyLoss",
    "NLLLoss",
    "MSELoss",
    "L1Loss",
    "SmoothL1Loss",
    "HuberLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "KLDivLoss",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CTCLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "PairwiseDistance",
    "PoissonNLLLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    # hooks of all modules
    "register_module_forward_pre_hook",
    "register_module_forward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_parameter_registration_hook",
    "register_module_buffer_registration_hook",
    "register_module_module_registration_hook",
    # modules of functions
    "functional",
    "init",
    "utils",
]
