"""Helpers around training: checkpoints of activations, data, DLPack, counts, logs."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from weft.utils import checkpoint, dlpack

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "flop_counter", "swap_tensors"]

#: Modules that load when they are first named: not every program has a use for them.
_LAZY = ("benchmark", "data", "flop_counter", "hooks", "model_zoo", "tensorboard")


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchanges two leaves: values, gradients, attributes, and classes.

    Raises:
        RuntimeError: one is a result of the graph, or they are of classes of unlike layout.

    >>> a, b = weft.ones(2), weft.zeros(3, requires_grad=True)
    >>> swap_tensors(a, b)
    >>> a, b
    (tensor([0., 0., 0.], requires_grad=True), tensor([1., 1.]))
    """
    for t in (t1, t2):
        if not t.is_leaf:
            raise RuntimeError(
                "[swap_tensors] expected leaves, got a result of the graph (Can't swap at::Tensor "
                "whose AccumulateGrad node or grad_fn is in use). Hint: detach it first"
            )
    if type(t1) is not type(t2):
        try:
            t1.__class__, t2.__class__ = type(t2), type(t1)
        except TypeError as error:
            raise RuntimeError(f"[swap_tensors] expected classes alike, got {error}") from None
    one, other = (t1.data, t1.grad, t1.requires_grad), (t2.data, t2.grad, t2.requires_grad)
    for t, (data, grad, wanted) in ((t1, other), (t2, one)):
        t.requires_grad_(False)
        t.grad = None
        t.data = data
        t.requires_grad_(wanted)
        t.grad = grad
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        import importlib

        return importlib.import_module(f"weft.utils.{name}")
    import sys

    from weft.base import lazy as _lazy

    raise _lazy.missing(sys.modules[__name__], name)
