"""Tools for the parameters of a module: clipping gradients, one vector of all parameters."""

from weft.nn.utils import rnn
from weft.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from weft.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = [
    "rnn",
    # gradients
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "clip_grads_with_norm_",
    "clip_grad_norm",
    # one vector
    "parameters_to_vector",
    "vector_to_parameters",
]
