"""Causal masks by their sizes, in attention."""

import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import (
    CausalBias,
    CausalVariant,
    causal_lower_right,
    causal_upper_left,
)

torch.manual_seed(0)
for rows, columns in ((3, 3), (2, 5), (5, 2)):
    q = torch.randn(1, 2, rows, 4, requires_grad=True)
    k, v = torch.randn(1, 2, columns, 4), torch.randn(1, 2, columns, 4)
    for make in (causal_upper_left, causal_lower_right):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bias = make(rows, columns)
        print(bias, bias.variant, bias.seq_len_q, len(caught), type(bias).__name__)
        if (rows, columns, make) == (5, 2, causal_lower_right):
            continue
        out = F.scaled_dot_product_attention(q, k, v, bias)
        same = F.scaled_dot_product_attention(q, k, v, bias._materialize())
        print(torch.allclose(out, same), out.shape, out.requires_grad, type(out).__name__)
        scaled = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.5)
        print(round(scaled.sum().item(), 4))
print(isinstance(bias, CausalBias), list(CausalVariant))
for wrong in (
    lambda: causal_upper_left(3), lambda: CausalBias(1, 2, 3),
    lambda: F.scaled_dot_product_attention(q, k, v, causal_upper_left(5, 2), is_causal=True),
):  # fmt: skip
    try:
        wrong()
    except Exception as error:
        print(type(error).__name__)
