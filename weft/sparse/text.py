"""How sparse tensors are printed."""

from __future__ import annotations

import re

import weft
from weft import Tensor
from weft.base.names import sparse_coo
from weft.sparse.tensor import SparseTensor, raw

__all__ = ["text_of"]

_WIDTH = 80


def _part(name: str, value: Tensor) -> str:
    """`name=tensor(...)` without the dtype, its further lines below its first element."""
    text = re.sub(r",\s*dtype=torch\.\w+\)$", ")", repr(value.detach()))
    if not value.numel() and "size=" not in text:
        text = text.replace("tensor([]", f"tensor([], size={tuple(value.shape)}", 1)
    return f"{name}={text}".replace("\n", "\n" + " " * (len(name) + 1))


def _suffixes(x: SparseTensor) -> list[str]:
    values = x._parts.values
    out = [f"size={tuple(raw(lambda: x.shape))}", f"nnz={values.shape[0]}"]
    if values.dtype not in (weft.get_default_dtype(), weft.int64, weft.bool, weft.complex64):
        out.append(f"dtype={values.dtype}")
    out.append(f"layout={x._parts.layout}")
    node = raw(lambda: x.grad_fn)
    if node is not None:
        out.append(f"grad_fn=<{node.name()}>")
    elif raw(lambda: x.requires_grad):
        out.append("requires_grad=True")
    return out


def text_of(x: SparseTensor) -> str:
    """PyTorch's text: indices and values as tensors, then what the whole is, in lines of 80."""
    parts, indent = x._parts, " " * len("tensor(")
    named = {"indices": parts.indices, "crow_indices": parts.crow, "col_indices": parts.col}
    lines = [_part(name, value) for name, value in named.items() if value is not None]
    text = ",\n".join([*lines, _part("values", parts.values)]).replace("\n", "\n" + indent)
    text = "tensor(" + text
    first = parts.layout is sparse_coo
    width = len(text) - text.rfind("\n") + 1
    for suffix in _suffixes(x):
        if first or width + len(suffix) + 2 > _WIDTH:
            text += ",\n" + indent + suffix
            width, first = len(indent) + len(suffix), False
        else:
            text += ", " + suffix
            width += len(suffix) + 2
    return text + ")"
