"""Training with unlike numbers of batches: `Join`, in which who has no more takes part in what the
others exchange until they have no more either."""

from __future__ import annotations

from typing import Any

from weft.base.joinable import Joinable, JoinConfig, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]


class Join:
    """The scope of a training loop in which processes may have unlike numbers of batches.

    With one process that is the last to join at the end of the scope, where `post_hook` is called.

    Args:
        joinables: what exchanges, all in one group.
        enable: False: nothing is called.
        throw_on_early_termination: RuntimeError in all processes as soon as one has no more.

    Raises:
        ValueError: no joinable, or joinables of several groups.

    >>> class Hook(JoinHook):
    ...     def post_hook(self, is_last_joiner):
    ...         print("last:", is_last_joiner)
    >>> class Trained(Joinable):
    ...     join_process_group = None
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
        self._joinables = joinables
        self._enable = enable
        self._throws = throw_on_early_termination
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        groups = [j.join_process_group for j in joinables]
        if any(group is not groups[0] for group in groups):
            raise ValueError("Using join context manager with multiple process groups")
        self._group = groups[0]

    def _is_alone(self) -> bool:
        from weft.distributed.world import get_world_size, is_initialized

        return not is_initialized() or get_world_size(self._group) == 1

    def __enter__(self) -> None:
        if self._enable:
            for i, joinable in enumerate(self._joinables):
                joinable._join_config = JoinConfig(self, i == 0)

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if not self._enable:
            return
        for joinable in self._joinables:
            joinable._join_config = JoinConfig()
        if kind is not None:
            return
        is_last = True
        while not self._is_alone() and _active(self._group, False):
            is_last = False
            if self._throws:
                _tell_the_end(self._group, True)
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tells that this process goes on, before the exchanges of a batch of the first joinable.

        Returns: how many processes go on; None outside of a scope, and for other joinables.

        Raises: RuntimeError where a process has ended and the scope asks for it.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        join = config.join
        assert join is not None
        if join._is_alone():
            return 1
        count = _active(join._group, True)
        if join._throws:
            from weft.distributed.world import get_world_size

            if count < get_world_size(join._group):
                _tell_the_end(join._group, False)
        return count


def _active(group: Any, am_i: bool) -> int:
    """How many processes still train."""
    import weft
    from weft.distributed.exchanges import all_reduce

    count = weft.tensor([int(am_i)])
    all_reduce(count, group=group)
    return int(count.item())


def _tell_the_end(group: Any, is_mine: bool) -> None:
    """RuntimeError in all processes, which all know by now that one has ended."""
    from weft.distributed.world import get_rank

    who = "exhausted its inputs" if is_mine else "got told that another process had no more"
    raise RuntimeError(
        f"[Join] expected as many batches in all processes, rank {get_rank(group)} {who} (Detected "
        "at least one rank that exhausted inputs. Throwing across all ranks.)"
    )
