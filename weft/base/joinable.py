"""What takes part in `weft.distributed.algorithms.join.Join`."""

from __future__ import annotations

from typing import Any

__all__ = ["JoinConfig", "JoinHook", "Joinable"]


class JoinHook:
    """What a `Joinable` does in a process that has no more batches."""

    def main_hook(self) -> None:
        """Called again and again while others train: exchanges what one batch exchanges there."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once when all have ended."""


class JoinConfig:
    """In which `Join` a joinable is."""

    def __init__(self, join: Any = None, is_first: bool = False) -> None:
        self.join = join
        self.is_first_joinable = is_first
        self.enable = join is not None

    @property
    def throw_on_early_termination(self) -> bool:
        return bool(self.join is not None and self.join._throws)


class Joinable:
    """What exchanges something in each batch."""

    _join_config = JoinConfig()

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook of a scope. Must be overridden."""
        raise NotImplementedError

    @property
    def join_device(self) -> Any:
        """The device of its exchanges. Must be overridden."""
        raise NotImplementedError

    @property
    def join_process_group(self) -> Any:
        """The group of its exchanges. Must be overridden."""
        raise NotImplementedError
