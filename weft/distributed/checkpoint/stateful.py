"""What has a state and takes one: models, optimizers, and a program's own classes."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful", "states_of"]


@runtime_checkable
class Stateful(Protocol):
    """What `save` asks for its state, and `load` gives one: a value of the dict that they get.

    >>> from weft.distributed.checkpoint.stateful import Stateful
    >>> isinstance(weft.nn.Linear(2, 1), Stateful), isinstance({}, Stateful)
    (True, False)
    """

    def state_dict(self) -> dict[str, Any]:
        """The state: tensors and other values in nested dicts and lists."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a state."""
        ...


def states_of(state_dict: dict[str, Any]) -> dict[str, Any]:
    """The dict with the state of each `Stateful` in its place."""
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }
