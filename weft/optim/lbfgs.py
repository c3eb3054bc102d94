"""L-BFGS: a quasi-Newton method that remembers its last steps in place of the Hessian."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import weft
from weft import _C, Tensor
from weft.optim.optimizer import Optimizer, call_closure, expect_modes, expect_range


class LBFGS(Optimizer):
    """L-BFGS (Nocedal, "Updating Quasi-Newton Matrices with Limited Storage", 1980).

    One `step` makes up to `max_iter` steps and calls the closure once or more for each of them. The
    state is that of one vector of all parameters, and lies at the first one.

    Args:
        params: one group of real parameters.
        lr: the length of a step in units of the direction, or where the line search starts.
        max_iter: steps in a call of `step`.
        max_eval: calls of the closure in a call of `step`; by default `max_iter * 1.25`.
        tolerance_grad: stop where no element of the gradient is greater.
        tolerance_change: stop where neither a parameter nor the loss changes more.
        history_size: how many steps are remembered.
        line_search_fn: None, or `"strong_wolfe"` (Nocedal and Wright, "Numerical Optimization",
            algorithms 3.5 and 3.6).

    Raises:
        ValueError: a setting out of its range, or more than one group.
        RuntimeError: another line search.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.tensor([3.0, -2.0]))
    >>> opt = weft.optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = ((p - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> opt.step(closure).item()
    13.0
    >>> [round(v, 4) for v in p.tolist()]
    [1.0, 1.0]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        expect_modes(lr, None, None, False)
        expect_range("learning rate", lr, 0.0)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Search for the minimum along a few directions.

        Args:
            closure: computes the loss and the gradients; called several times.

        Returns: the loss at the start.
        """
        if closure is None:
            raise TypeError(
                "[LBFGS.step] expected a closure that computes the loss, got None (step() missing "
                "1 required positional argument: 'closure')"
            )
        _C._refuse_recorded("step")
        search = self.param_groups[0]["line_search_fn"]
        if search not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        with weft.no_grad():
            return self._descend(closure)

    def _descend(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr, max_iter = float(group["lr"]), group["max_iter"]
        tolerance = group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = call_closure(closure)
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        grad = self._flat_grad()
        if self._is_flat(grad):
            return first_loss
        for iteration in range(1, max_iter + 1):
            state["n_iter"] += 1
            direction = self._direction(state, grad)
            state["prev_flat_grad"] = grad.clone()
            state["prev_loss"] = before = loss
            # the first direction is the bare gradient, whose length says nothing
            first: Any = 1.0 / grad.abs().sum()
            size = lr if state["n_iter"] > 1 else min(1.0, first) * lr
            state["t"] = size
            slope = grad.dot(direction)
            if slope > -tolerance:
                break
            calls, done = 0, False
            if group["line_search_fn"] is not None:
                start = _Point(0, loss, grad, slope)
                line = _Line(self, closure, direction, start, tolerance)
                found = line.search(size, group["max_eval"] - evaluations)
                calls, loss, grad = line.calls, found.loss, found.grad
                state["t"] = size = found.at
                self._move(size, direction)
                done = self._is_flat(grad)
            else:
                self._move(size, direction)
                if iteration != max_iter:  # who comes next evaluates where this one has stopped
                    loss, calls = float(call_closure(closure)), 1
                    grad = self._flat_grad()
                    done = self._is_flat(grad)
            evaluations += calls
            state["func_evals"] += calls
            if (
                done
                or iteration == max_iter
                or evaluations >= group["max_eval"]
                or (direction * size).abs().max() <= tolerance
                or abs(loss - before) < tolerance
            ):
                break
        return first_loss

    def _direction(self, state: dict[str, Any], grad: Tensor) -> Tensor:
        """Minus the inverse Hessian times the gradient, by the two loops over the history."""
        if state["n_iter"] == 1:
            state.update(d=grad.neg(), t=None, old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return state["d"]
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change = grad - state["prev_flat_grad"]
        step = state["d"] * state["t"]
        curvature = change.dot(step)
        if curvature > 1e-10:
            if len(changes) == self.param_groups[0]["history_size"]:
                for memory in (changes, steps, inverses):
                    memory.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        shares = state.setdefault("al", [None] * self.param_groups[0]["history_size"])
        d = grad.neg()
        for i in reversed(range(len(changes))):
            shares[i] = steps[i].dot(d) * inverses[i]
            d -= changes[i] * shares[i]
        d = d * state["H_diag"]
        for i in range(len(changes)):
            d += steps[i] * (shares[i] - changes[i].dot(d) * inverses[i])
        state["d"] = d
        return d

    def _flat_grad(self) -> Tensor:
        parts = [
            weft.zeros_like(p).reshape(-1) if p.grad is None else p.grad.to_dense().reshape(-1)
            for p in self._params
        ]
        return weft.cat(parts, 0).detach()

    def _is_flat(self, grad: Tensor) -> bool:
        return bool(grad.abs().max() <= self.param_groups[0]["tolerance_grad"])

    def _move(self, size: Any, direction: Tensor) -> None:
        """Add `size` times the direction, a vector of all parameters, to the parameters."""
        start = 0
        for param in self._params:
            part = direction[start : start + param.numel()]
            param.add_(part.reshape(param.shape) * size)
            start += param.numel()


class _Point(NamedTuple):
    """A place on the line: how far, the loss, the gradient, its product with the direction."""

    at: Any
    loss: Any
    grad: Tensor
    slope: Any


class _Line:
    """The search for a step that meets the strong Wolfe conditions."""

    _decrease = 1e-4
    _curvature = 0.9

    def __init__(
        self,
        optimizer: LBFGS,
        closure: Callable[[], Any],
        direction: Tensor,
        start: _Point,
        tolerance: float,
    ) -> None:
        self.optimizer, self.closure, self.direction = optimizer, closure, direction
        self.start, self.tolerance = start, tolerance
        self.origin = [p.clone() for p in optimizer._params]
        self.calls = 0

    def search(self, at: Any, limit: int) -> _Point:
        """The best point found with `limit` evaluations after the first."""
        before, now = self.start, self._evaluate(at)
        while self.calls - 1 < limit:
            late = self.calls > 2 and now.loss >= before.loss
            if self._is_above(now) or late:
                return self._zoom(before, now, limit)
            if self._is_flat(now):
                return now
            if now.slope >= 0:
                return self._zoom(before, now, limit)
            low, high = now.at + 0.01 * (now.at - before.at), now.at * 10
            before, now = now, self._evaluate(_minimum(before, now, low, high))
        return min(self.start, now, key=lambda point: point.loss)

    def _zoom(self, a: _Point, b: _Point, limit: int) -> _Point:
        """Narrow a bracket that holds a good point; its better end is the result."""
        ends = [a, b]
        low = 0 if a.loss <= b.loss else 1
        width = self.direction.abs().max()
        stuck = done = False
        while not done and self.calls - 1 < limit:
            if abs(ends[1].at - ends[0].at) * width < self.tolerance:
                break
            least, most = sorted((ends[0].at, ends[1].at), key=float)
            at = _minimum(ends[0], ends[1], least, most)
            margin = 0.1 * (most - least)
            if min(most - at, at - least) < margin:
                # twice in a row next to an end, or at it: go inside by a tenth
                if stuck or at >= most or at <= least:
                    at = most - margin if abs(at - most) < abs(at - least) else least + margin
                    stuck = False
                else:
                    stuck = True
            else:
                stuck = False
            point = self._evaluate(at)
            if self._is_above(point) or point.loss >= ends[low].loss:
                ends[1 - low] = point
                low = 0 if ends[0].loss <= ends[1].loss else 1
                continue
            done = self._is_flat(point)
            if not done and point.slope * (ends[1 - low].at - ends[low].at) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = point
        return ends[low]

    def _evaluate(self, at: Any) -> _Point:
        optimizer = self.optimizer
        optimizer._move(at, self.direction)
        loss = float(call_closure(self.closure))
        grad = optimizer._flat_grad().clone()
        for param, value in zip(optimizer._params, self.origin):
            param.copy_(value)
        self.calls += 1
        return _Point(at, loss, grad, grad.dot(self.direction))

    def _is_above(self, point: _Point) -> bool:
        start = self.start
        return bool(point.loss > start.loss + self._decrease * point.at * start.slope)

    def _is_flat(self, point: _Point) -> bool:
        return bool(abs(point.slope) <= -self._curvature * self.start.slope)


def _minimum(a: _Point, b: _Point, low: Any, high: Any) -> Any:
    """The minimum in [low, high] of the cubic through two points and their slopes."""
    if a.at > b.at:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.at - b.at)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = square.sqrt() if isinstance(square, Tensor) else square**0.5
    found = b.at - (b.at - a.at) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(found, low), high)
