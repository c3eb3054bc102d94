"""What is behind `torch.library`: operators that programs define, and those of `torch.ops.aten`."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """What this path named in earlier pickles lies in `weft._library_ops` now."""
    from weft import _library_ops

    if name in ("Gradients", "library_op", "records"):
        return getattr(_library_ops, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
