"""The graph's functions: backward, grad, custom functions, checks. PyTorch's semantics."""

from weft.autograd import forward_ad, functional, graph, profiler
from weft.autograd._backward import backward, grad
from weft.autograd.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from weft.autograd.function import Function, FunctionCtx, once_differentiable
from weft.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from weft.autograd.variable import Variable
from weft.base.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function", "FunctionCtx", "GradcheckError", "Variable", "backward", "detect_anomaly",
    "enable_grad", "forward_ad", "functional", "grad", "gradcheck", "gradgradcheck", "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "no_grad", "once_differentiable",
    "profiler", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
