"""Options for binding processes to a processor's cores: `torch.numa.binding`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["AffinityMode", "NumaOptions"]


class AffinityMode(str, Enum):  # noqa: UP042  # as PyTorch's prints
    """The cores that a process may be bound to."""

    NODE = "node"
    SOCKET = "socket"
    EXCLUSIVE = "exclusive"
    CORE_COMPLEX = "core-complex"


@dataclass(frozen=True)
class NumaOptions:
    """How a launcher binds the processes that it starts; weft starts none that way."""

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False
