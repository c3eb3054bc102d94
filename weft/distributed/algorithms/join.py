"""Training with unlike numbers of batches: `Join` among one process has nobody to wait for."""

from __future__ import annotations

from typing import Any

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a `Joinable` does while other processes still train: none does."""

    def main_hook(self) -> None:
        """Called again and again while others train."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once when all have ended."""


class Joinable:
    """What exchanges something in each batch."""

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


class Join:
    """The scope of a training loop in which processes may have unlike numbers of batches.

    With one process that is the last to join at the end of the scope, where `post_hook` is called.

    Args:
        joinables: what exchanges.
        enable: False: nothing is called.
        throw_on_early_termination: for other processes, of which there is none.

    Raises:
        ValueError: no joinable.

    >>> class Hook(JoinHook):
    ...     def post_hook(self, is_last_joiner):
    ...         print("last:", is_last_joiner)
    >>> class Trained(Joinable):
    ...     def join_hook(self, **kwargs):
    ...         return Hook()
    >>> with Join([Trained()]):
    ...     pass
    last: True
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError(
                "[Join] expected joinables, got none (The join context manager requires at least "
                "one joinable)"
            )
        self._enable = enable
        self._hooks = [j.join_hook(**kwargs) for j in joinables]

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if self._enable and kind is None:
            for hook in self._hooks:
                hook.post_hook(True)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """None: there is no other process to tell that this one goes on."""
