"""Loss scaling for float16, whose small gradients would vanish. PyTorch's semantics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import weft
from weft._C import Tensor
from weft.base.warn import warn

__all__ = ["GradScaler", "OptState"]


class OptState:
    """Where an optimizer stands between two updates of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Multiplies losses, divides gradients, and leaves out steps whose gradients are not finite.

    The scale falls by `backoff_factor` after such a step and grows by `growth_factor` after
    `growth_interval` good ones (Micikevicius et al. 2018, Mixed Precision Training).

    Args:
        device: "cpu"; for "cuda" the scaler warns and is disabled.
        enabled: False makes `scale` and `unscale_` do nothing and `step` a plain step.

    Raises: AssertionError for factors on the wrong side of 1; RuntimeError for methods out of
    order, and for gradients in float16.

    >>> w = weft.ones(1, requires_grad=True)
    >>> optimizer = weft.optim.SGD([w], lr=0.5)
    >>> scaler = weft.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale((w * 3).sum()).backward()
    >>> w.grad
    tensor([24.])
    >>> scaler.step(optimizer); scaler.update(); w.detach()
    tensor([-0.5000])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if device != "cpu" and enabled:
            warn(
                f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available."
                "  Disabling."
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1:
            raise AssertionError(
                f"[GradScaler] expected growth_factor > 1, got {growth_factor} (The growth factor "
                "must be > 1.0.)"
            )
        if backoff_factor >= 1:
            raise AssertionError(
                f"[GradScaler] expected backoff_factor < 1, got {backoff_factor} (The backoff "
                "factor must be < 1.0.)"
            )
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._stages: dict[int, int] = {}
        self._not_finite: dict[int, bool] = {}

    def _scale_tensor(self) -> Tensor:
        if self._scale is None:
            self._scale = weft.full((), self._init_scale, dtype=weft.float32)
        return self._scale

    def scale(self, outputs: Tensor | Iterable[Tensor]) -> Any:
        """A tensor, or those of a structure, times the scale.

        Shapes stay.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.scale(weft.ones(2))
        tensor([4., 4.])
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale_tensor()
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(o) for o in outputs)
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ValueError(
            "[GradScaler.scale] expected a tensor or an iterable of tensors, got "
            f"{type(outputs).__name__} (outputs must be a Tensor or an iterable of Tensors)"
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divides the optimizer's gradients by the scale, once before each update.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> scaler.scale(w.sum()).backward()
        >>> scaler.unscale_(optimizer)
        >>> w.grad
        tensor([1.])
        """
        if not self._enabled:
            return
        self._expect_scale("unscale_")
        stage = self._stages.get(id(optimizer), OptState.READY)
        if stage == OptState.UNSCALED:
            raise RuntimeError(
                "[unscale_] expected one call before update(), got a second one (unscale_() has "
                "already been called on this optimizer since the last update().)"
            )
        if stage == OptState.STEPPED:
            raise RuntimeError(
                "[unscale_] expected a call before step(), got one after it (unscale_() is being "
                "called after step().)"
            )
        self._not_finite[id(optimizer)] = self._divide(optimizer)
        self._stages[id(optimizer)] = OptState.UNSCALED

    def _expect_scale(self, who: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"[{who}] expected a loss scaled before, got none (Attempted {who} but _scale is "
                "None.  This may indicate your script did not use scaler.scale(loss or outputs) "
                "earlier in the iteration.)"
            )
        return self._scale

    def _divide(self, optimizer: Any) -> bool:
        """Divides gradients by the scale; whether one is not finite."""
        inverse = self._expect_scale("unscale_").double().reciprocal().float()
        grads = [
            p.grad for group in optimizer.param_groups for p in group["params"]
            if p.grad is not None
        ]  # fmt: skip
        for grad in grads:
            if grad.dtype == weft.float16:
                raise ValueError(
                    "[unscale_] expected gradients of float32, got float16 (Attempting to unscale "
                    "FP16 gradients.)"
                )
        if not grads:
            raise AssertionError(
                "[unscale_] expected gradients, got none (No inf checks were recorded for this "
                "optimizer.)"
            )
        found = False
        with weft.no_grad():
            for grad in grads:
                found = found or not bool(weft.isfinite(grad).all())
                grad.mul_(inverse)
        return found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)` on unscaled gradients, left out if one is not finite.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> w = weft.nn.Parameter(weft.ones(1))
        >>> optimizer = weft.optim.SGD([w], lr=0.5)
        >>> scaler.scale(w.sum()).backward()
        >>> scaler.step(optimizer)
        >>> w.data
        tensor([0.5000])
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError(
                "[GradScaler.step] expected no closure, got one (Closure use is not currently "
                "supported if GradScaler is enabled.)"
            )
        self._expect_scale("step")
        if self._stages.get(id(optimizer)) == OptState.STEPPED:
            raise RuntimeError(
                "[GradScaler.step] expected one call before update(), got a second one (step() has "
                "already been called since the last update().)"
            )
        if self._stages.get(id(optimizer), OptState.READY) == OptState.READY:
            self.unscale_(optimizer)
        result = None
        if not self._not_finite[id(optimizer)]:
            result = optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Fits the scale to what the last steps met, or sets it.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> _ = scaler.scale(weft.ones(1))
        >>> scaler.update(8.0)
        >>> scaler.get_scale()
        8.0
        """
        if not self._enabled:
            return
        scale = self._expect_scale("update")
        if new_scale is not None:
            scale.fill_(float(new_scale))
        else:
            if not self._not_finite:
                raise AssertionError(
                    "[GradScaler.update] expected a step before, got none (No inf checks were "
                    "recorded prior to update.)"
                )
            if any(self._not_finite.values()):
                scale.mul_(self._backoff_factor)
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    grown = scale * self._growth_factor
                    if bool(weft.isfinite(grown)):
                        scale.copy_(grown)
                    self._growth_tracker = 0
        self._stages.clear()
        self._not_finite.clear()

    def get_scale(self) -> float:
        """The scale; 1.0 when disabled.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.get_scale()
        4.0
        """
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale)

    def get_growth_factor(self) -> float:
        """What the scale grows by.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.get_growth_factor()
        2.0
        """
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the scale grows by.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.set_growth_factor(3.0)
        >>> scaler.get_growth_factor()
        3.0
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale falls by.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.get_backoff_factor()
        0.5
        """
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the scale falls by.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.set_backoff_factor(0.25)
        >>> scaler.get_backoff_factor()
        0.25
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps make the scale grow.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.get_growth_interval()
        2000
        """
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets how many good steps make the scale grow.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.set_growth_interval(10)
        >>> scaler.get_growth_interval()
        10
        """
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether this scales.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.is_enabled()
        True
        """
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and its settings; empty when disabled.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.state_dict()["scale"]
        4.0
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over a `state_dict()`. RuntimeError if it is empty.

        >>> scaler = weft.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.load_state_dict({**scaler.state_dict(), "scale": 2.0})
        >>> scaler.get_scale()
        2.0
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "[GradScaler.load_state_dict] expected a state, got an empty one (The source state "
                "dict is empty, possibly because it was saved from a disabled instance of "
                "GradScaler.)"
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
