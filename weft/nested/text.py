"""How nested tensors are printed."""

from __future__ import annotations

from weft.nested.asked import sizes_of
from weft.nested.parts import parts
from weft.nested.tensor import NestedTensor, raw

__all__ = ["text_of"]


def text_of(x: NestedTensor) -> str:
    """PyTorch's text: sizes and offsets, or all parts of one of layout strided."""
    node, wants = raw(lambda: x.grad_fn), raw(lambda: x.requires_grad)
    if x._is_strided:
        ones = [t.detach().requires_grad_(wants) for t in parts(x)]
        lines = ",\n".join(map(repr, ones)).replace("\n", "\n  ")
        made = f", grad_fn=<{node.name()}>" if node else ", requires_grad=True" if wants else ""
        return f"nested_tensor([\n  {lines}\n]{made})"
    made = f", grad_fn={node}" if node else ", requires_grad=True" if wants else ""
    shown = f"size={sizes_of(x)}, offsets={x._jagged.offsets}{made}"
    return f"NestedTensor({shown}, contiguous={x.is_contiguous()})"
