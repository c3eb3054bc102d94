"""PyTorch's tensors without values: names to ask `isinstance` of."""

from __future__ import annotations

from typing import Any

from weft.base.absent import raising_class

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]

_TEXT = (
    "expected a tensor with values, got one without. Hint: programs are traced with values here, "
    "and the shapes of a module can be had on small inputs"
)
FakeTensor = raising_class(
    "FakeTensor", __name__, NotImplementedError, f"[FakeTensor] {_TEXT}",
    "A tensor without values: there is none.",
)  # fmt: skip
FakeTensorMode = raising_class(
    "FakeTensorMode", __name__, NotImplementedError, f"[FakeTensorMode] {_TEXT}",
    "A scope of tensors without values. NotImplementedError: there is none.",
)  # fmt: skip


def is_fake(x: Any) -> bool:
    """False: every tensor has values."""
    return False
