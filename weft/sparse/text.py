"""How sparse tensors are printed."""

from __future__ import annotations

from weft import Tensor
from weft.base.names import sparse_csr
from weft.sparse.tensor import SparseTensor, raw

__all__ = ["text_of"]


def _part(name: str, value: Tensor) -> str:
    """`name=tensor(...)`, its further lines below its first element."""
    text = repr(value.detach())
    if not value.numel() and "size=" not in text:
        text = text.replace("tensor([]", f"tensor([], size={tuple(value.shape)}", 1)
    return f"{name}={text}".replace("\n", "\n" + " " * (len(name) + 1))


def text_of(x: SparseTensor) -> str:
    """PyTorch's text: indices and values as tensors, then what the whole is."""
    parts = x._parts
    if parts.layout is sparse_csr:
        assert parts.crow is not None and parts.col is not None
        named = [("crow_indices", parts.crow), ("col_indices", parts.col)]
    else:
        assert parts.indices is not None
        named = [("indices", parts.indices)]
    lines = [_part(name, value) for name, value in (*named, ("values", parts.values))]
    shape = tuple(raw(lambda: x.shape))
    rest = f"size={shape}, nnz={parts.values.shape[0]}, layout={parts.layout}"
    node = raw(lambda: x.grad_fn)
    if node is not None:
        rest += f", grad_fn=<{node.name()}>"
    elif raw(lambda: x.requires_grad):
        rest += ", requires_grad=True"
    joined = ",\n".join(lines)
    after = ", " if parts.layout is sparse_csr else ",\n"
    text = f"tensor({joined}{after}{rest})"
    return text.replace("\n", "\n" + " " * len("tensor("))
