"""Functions of functions: gradients, Jacobians, maps over batches, modules called with weights."""

from weft.func.derivatives import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from weft.func.maps import vmap
from weft.func.modules import (
    functional_call,
    replace_all_batch_norm_modules_,
    stack_module_state,
)

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
