"""Samples to batches, by PyTorch's names: the functions for one kind of sample each."""

import re as _re

from weft.utils.data.collate import _array_scalars as collate_numpy_scalar_fn
from weft.utils.data.collate import _arrays as collate_numpy_array_fn
from weft.utils.data.collate import _as_they_are as collate_str_fn
from weft.utils.data.collate import _floats as collate_float_fn
from weft.utils.data.collate import _ints as collate_int_fn
from weft.utils.data.collate import _tensors as collate_tensor_fn
from weft.utils.data.collate import (
    collate,
    default_collate,
    default_collate_fn_map,
    default_convert,
)

__all__ = [
    "collate", "collate_float_fn", "collate_int_fn", "collate_numpy_array_fn",
    "collate_numpy_scalar_fn", "collate_str_fn", "collate_tensor_fn", "default_collate",
    "default_collate_err_msg_format", "default_collate_fn_map", "default_convert",
    "np_str_obj_array_pattern",
]  # fmt: skip

np_str_obj_array_pattern = _re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
