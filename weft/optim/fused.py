"""What the optimizers that are a formula per element share: one call per group and step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import weft
from weft import _C, Tensor
from weft.optim.optimizer import Group, Optimizer, call_closure

State = dict[str, Any]


class FusedOptimizer(Optimizer):
    """An optimizer whose step is a formula for each element, and so one pass over the memory.

    A subclass names a rule of `src/ops/optim_rules.h`, the settings that it takes, and the state
    that it keeps, and defines `_plain`, the same formula op by op: what the fast step is tested
    against, and what can be recorded.
    """

    #: The rule, and the settings of a group whose numbers it takes.
    _rule: ClassVar[str]
    _settings: ClassVar[tuple[str, ...]]
    #: State of one element, and state like the parameter. In the order in which the rule sees them.
    _numbers: ClassVar[tuple[str, ...]] = ("step",)
    _buffers: ClassVar[tuple[str, ...]] = ()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None if closure is None else call_closure(closure)
        groups = self.param_groups
        if _C._sparse_known():
            groups = self._sparse_steps()
        for group in groups:
            names = self._state_names(group)
            if not _C._fused_step_(
                self._rule, self._settings, group, self.state, names, self._start
            ):
                self._plain_step(group)
        return loss

    def _sparse_steps(self) -> list[Group]:
        """Step the parameters whose gradients are sparse; the groups without them are returned."""
        split = []
        for group in self.param_groups:
            rows = [p for p in group["params"] if p.grad is not None and p.grad.is_sparse]
            if rows:
                self._expect_rows(group)
            split.append((group, rows))
        rest = []
        for group, rows in split:
            for param in rows:
                with weft.no_grad():
                    state = self.state[param] if self._has_state(group) else {}
                    if self._numbers and "step" not in state:
                        self._start(group, param, state)
                    grad: Any = param.grad
                    grad = (-grad if group["maximize"] else grad).coalesce()
                    self._step_rows(group, param, grad, state)
            of_rows = {id(p) for p in rows}
            dense = [p for p in group["params"] if id(p) not in of_rows]
            rest.append({**group, "params": dense} if rows else group)
        return rest

    def _has_state(self, group: Group) -> bool:
        return any(name is not None for name in self._state_names(group))

    def _expect_rows(self, group: Group) -> None:
        """Raise RuntimeError unless the group's settings let a gradient be sparse."""
        name = type(self).__name__
        raise RuntimeError(
            f"[{name}] expected dense gradients, got a sparse one ({name} does not support sparse "
            "gradients, please consider SparseAdam instead)"
        )

    def _step_rows(self, group: Group, param: Tensor, grad: Any, state: State) -> None:
        """Update a parameter by a coalesced sparse gradient."""
        raise NotImplementedError

    def _state_names(self, group: Group) -> tuple[str | None, ...]:
        """The names of a parameter's state, None in place of what the group leaves out."""
        return (*self._numbers, *self._buffers)

    def _start(self, group: Group, param: Tensor, state: State) -> None:
        """Make the state of a parameter, as far as it is missing: zeros."""
        for name in self._numbers:
            if state.get(name) is None:
                state[name] = weft.tensor(0.0)
        for left in self._state_names(group)[len(self._numbers) :]:
            if left is not None and state.get(left) is None:
                state[left] = weft.zeros_like(param, requires_grad=False)

    def _plain_step(self, group: Group) -> None:
        names = [name for name in self._state_names(group) if name is not None]
        if names:
            _C._refuse_recorded("step")
        with weft.set_grad_enabled(group["differentiable"]):
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param] if names else {}
                fresh = any(state.get(name) is None for name in names)
                if fresh:
                    self._start(group, param, state)
                if "step" in self._numbers:
                    state["step"] += 1
                grad = -param.grad if group["maximize"] else param.grad
                if param.is_complex():
                    self._plain_by_parts(group, param, grad, state, fresh)
                else:
                    self._plain(group, param, grad, state, fresh)

    def _plain_by_parts(
        self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool
    ) -> None:
        """Complex numbers are steps of their two parts."""
        real = weft.view_as_real
        parts = {
            name: real(value) if isinstance(value, Tensor) and value.is_complex() else value
            for name, value in state.items()
        }
        self._plain(group, real(param), real(grad), parts, fresh)
        for name in self._buffers:
            if parts.get(name) is not None:
                state[name] = weft.view_as_complex(parts[name])

    def _plain(self, group: Group, param: Tensor, grad: Tensor, state: State, fresh: bool) -> None:
        """Update a parameter and its state, whose step is counted; `fresh`: the state is new."""
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # States from before PyTorch kept counts in tensors have plain numbers.
        for entry in self.state.values():
            for name in self._numbers if isinstance(entry, dict) else ():
                if name in entry and not isinstance(entry[name], Tensor):
                    entry[name] = weft.tensor(float(entry[name]))


def filled_like(param: Tensor, value: float) -> Tensor:
    """`value` in every element; of complex numbers in both parts."""
    number = complex(value, value) if param.is_complex() else value
    return weft.full_like(param, number, requires_grad=False)


def decayed(group: Group, param: Tensor, grad: Tensor) -> Tensor:
    """Decay the parameter itself where that is decoupled, else its gradient, which is returned."""
    if not group["weight_decay"]:
        return grad
    if group.get("decoupled_weight_decay"):
        param.mul_(1 - group["lr"] * group["weight_decay"])
        return grad
    return grad + group["weight_decay"] * param


def refuse_capture(optimizer: Optimizer, capturable: bool) -> None:
    """Raise unless `capturable` is false: there is no device whose launches could be captured."""
    if capturable:
        raise RuntimeError(
            f"[{type(optimizer).__name__}] expected capturable=False, got True. Hint: there are no "
            "CUDA graphs on the CPU."
        )


def refuse_kinds(optimizer: Optimizer, param: Tensor) -> None:
    """Raise RuntimeError for a complex parameter or a sparse gradient."""
    name, grad = type(optimizer).__name__, param.grad
    if param.is_complex():
        raise RuntimeError(
            f"[{name}] expected real parameters, got {str(param.dtype).partition('.')[2]} "
            f"({name} does not support complex parameters)"
        )
    if grad is not None and grad.is_sparse:
        raise RuntimeError(
            f"[{name}] expected dense gradients, got a sparse one ({name} does not support sparse "
            "gradients)"
        )


def expect_betas(betas: tuple[Any, Any]) -> None:
    """Raise a ValueError unless there are two, both in [0, 1)."""
    if len(betas) != 2:
        raise ValueError(f"[optimizer] expected two betas, got {len(betas)}: {betas}")
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
