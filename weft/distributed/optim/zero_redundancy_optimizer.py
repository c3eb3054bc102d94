"""An optimizer whose state lies in shares on the processes (Rajbhandari et al. 2020, "ZeRO")."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import weft
from weft._C import Tensor
from weft.base.joinable import Joinable, JoinHook
from weft.distributed.objects import gather_object
from weft.distributed.same import broadcast_all
from weft.distributed.world import ProcessGroup, _known, get_group_rank

__all__ = ["ZeroRedundancyOptimizer"]


class _ZeroJoinHook(JoinHook):
    """Steps with those that still train: it has parameters that they wait for."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self._zero = zero

    def main_hook(self) -> None:
        """A step."""
        self._zero.step()


class ZeroRedundancyOptimizer(weft.optim.Optimizer, Joinable):
    """Each process has the state of its share of the parameters, steps them and sends them to all.

    The gradients have to be the same in all processes, as `DistributedDataParallel` makes them.

    Args:
        params: as of any optimizer; the same in all processes.
        optimizer_class: of which each process makes one for its share.
        process_group: the processes; by default all.
        parameters_as_bucket_view: taken, and not looked at: parameters keep their own memory.
        overlap_with_ddp: False: a step comes after backward.
        defaults: the settings for `optimizer_class`.

    Raises:
        NotImplementedError: `overlap_with_ddp`.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> from weft.distributed.optim import ZeroRedundancyOptimizer
    >>> p = weft.nn.Parameter(weft.ones(2))
    >>> zero = ZeroRedundancyOptimizer([p], weft.optim.SGD, lr=0.5)
    >>> p.sum().backward()
    >>> zero.step()
    >>> p.tolist()
    [0.5, 0.5]
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: Callable[..., weft.optim.Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "[ZeroRedundancyOptimizer] expected overlap_with_ddp=False, got "
                f"{overlap_with_ddp!r}"
            )
        self.process_group: ProcessGroup = _known(process_group)
        self._make = optimizer_class
        self._given = defaults
        self._owner: dict[int, int] = {}
        self._loads = [0] * self.process_group.size()
        self._whole: dict[str, Any] | None = None
        self.optim: weft.optim.Optimizer | None = None
        super().__init__(params, {})
        self._make_own()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group; its parameters, the largest first, go to who has least."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for name, value in self._given.items():
            group.setdefault(name, value)
        for param in sorted(group["params"], key=lambda p: -p.numel()):
            owner = self._loads.index(min(self._loads))
            self._owner[id(param)] = owner
            self._loads[owner] += param.numel()
        if self.optim is not None:
            self._make_own(self.optim)

    def _is_own(self, param: Tensor) -> bool:
        return self._owner[id(param)] == self.process_group.rank()

    def _make_own(self, earlier: weft.optim.Optimizer | None = None) -> None:
        """The optimizer of this process' share, with a group for each, which may be empty."""
        own = [
            {**{k: v for k, v in group.items() if k not in ("params", "param_names")},
             "params": [p for p in group["params"] if self._is_own(p)]}
            for group in self.param_groups
        ]  # fmt: skip
        self.optim = self._make(own, **self._given)
        if earlier is not None:
            self.optim.state.update(earlier.state)
        for mine, group in zip(self.optim.param_groups, self.param_groups):
            group.update({k: v for k, v in mine.items() if k not in ("params", *group)})
        self.state = self.optim.state

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Steps the share of this process, and brings all parameters to all."""
        assert self.optim is not None
        for mine, group in zip(self.optim.param_groups, self.param_groups):
            mine.update({k: v for k, v in group.items() if k not in ("params", "param_names")})
        result = self.optim.step(closure)
        for owner in range(self.process_group.size()):
            theirs = [
                p for g in self.param_groups for p in g["params"] if self._owner[id(p)] == owner
            ]
            if theirs:
                broadcast_all(theirs, self.process_group, owner)
        return result

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the state of all processes to one, whose `state_dict` has it; all call it."""
        assert self.optim is not None
        root = get_group_rank(self.process_group, to)
        size = self.process_group.size()
        numbers = self._numbers()
        mine = {numbers[id(p)]: state for p, state in self.optim.state.items()}
        outs: list[Any] | None = [None] * size if self.process_group.rank() == root else None
        gather_object(mine, outs, group=self.process_group, group_dst=root)
        self._whole = None
        if outs is not None:
            self._whole = {number: state for out in outs for number, state in out.items()}

    def _numbers(self) -> dict[int, int]:
        params = [p for group in self.param_groups for p in group["params"]]
        return {id(p): i for i, p in enumerate(params)}

    def state_dict(self) -> dict[str, Any]:
        """The whole state, as the optimizer of one process would have it.

        Raises: RuntimeError before `consolidate_state_dict`, and in processes that it was not for.
        """
        if self._whole is None:
            raise RuntimeError(
                "[ZeroRedundancyOptimizer] expected consolidate_state_dict() before, for this "
                f"rank, got none (Optimizer state has not been consolidated on this rank. Please "
                f"call `consolidate_state_dict(to={self.process_group.rank()})` on all ranks "
                "beforehand if you meant to save the global state.)"
            )
        numbers = self._numbers()
        groups = [
            {**group, "params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": dict(sorted(self._whole.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned, here or in an optimizer of one process; each
        process keeps its share."""
        assert self.optim is not None
        whole = copy.deepcopy(state_dict)
        numbers = self._numbers()
        own = [
            {**group, "params": [numbers[id(p)] for p in mine["params"]]}
            for group, mine in zip(whole["param_groups"], self.optim.param_groups, strict=True)
        ]
        kept = {n for group in own for n in group["params"]}
        state = {n: s for n, s in whole["state"].items() if n in kept}
        for group in own:
            group.pop("param_names", None)
        self.optim.load_state_dict({"state": state, "param_groups": own})
        self.state = self.optim.state
        for group, saved in zip(self.param_groups, whole["param_groups"]):
            group.update({k: v for k, v in saved.items() if k not in ("params", "param_names")})

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What `Join` calls when this process has no more batches."""
        return _ZeroJoinHook(self)

    @property
    def join_device(self) -> Any:
        """The CPU."""
        return weft.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group
