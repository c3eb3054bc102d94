"""Files whose tensors have no data: what `serialization.skip_data` says, in this context."""

from __future__ import annotations

from contextvars import ContextVar

#: Whether `save` writes zeros in place of the storages' bytes, and `load` reads none.
SKIPPED: ContextVar[bool] = ContextVar("data is skipped", default=False)
