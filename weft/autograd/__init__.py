"""The graph's functions: backward, grad, custom functions, checks. PyTorch's semantics."""

from weft._modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from weft.autograd._backward import backward, grad
from weft.autograd.function import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "backward", "enable_grad", "grad", "inference_mode", "no_grad", "once_differentiable", "set_grad_enabled"]
