"""How sparse tensors are printed."""

from __future__ import annotations

import weft
from weft import _C, Tensor
from weft.base.names import sparse_coo
from weft.sparse.tensor import COMPRESSED, SparseTensor, raw

__all__ = ["text_of"]

_WIDTH = 80


def _part(name: str, value: Tensor, indent: int) -> str:
    """`name=tensor(...)` without the dtype, in lines that begin after `indent` characters."""
    head = f"{name}=tensor("
    text = _C._contents(value.detach(), indent + len(head))
    if not value.numel():
        text += f", size={tuple(value.shape)}"
    return f"{head}{text})"


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
    known = COMPRESSED.get(parts.layout)
    named: dict[str, Tensor | None] = {"indices": parts.indices}
    if known is not None:
        named = {known.compressed: parts.compressed, known.plain: parts.plain}
    named["values"] = parts.values
    lines = [_part(name, t, len(indent)) for name, t in named.items() if t is not None]
    text = "tensor(" + f",\n{indent}".join(lines)
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
