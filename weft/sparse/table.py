"""Which functions take sparse tensors: a name for each implementation over indices and values.

A function of PyTorch's has one name as a function, a method and an operator; `NAMES` has others.
What is in none of the tables raises PyTorch's NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.overrides import last_name
from weft.sparse import arithmetic, layouts, products, reductions
from weft.sparse.tensor import raw

__all__ = ["IMPLEMENTED", "answer", "backend", "refuse"]

#: What a shell knows by itself.
SHELL = frozenset(
    """dtype ndim size dim ndimension numel nelement nbytes requires_grad requires_grad_ is_leaf
    grad grad_fn output_nr register_hook register_post_accumulate_grad_hook retain_grad retains_grad
    device is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_nested is_quantized
    is_vulkan is_xla is_xpu is_floating_point is_complex is_signed get_device element_size itemsize
    is_inference is_conj is_neg is_distributed is_tensor __len__ name names shape _backward_hooks
    __hash__ __dir__ _is_view""".split()
)

#: Modules whose functions are calls of others, which are asked in their turn.
COMPOSED = frozenset(
    """nn.utils.clip_grad autograd._backward nn.functional_embedding sparse.named sparse.create
    sparse.products sparse.reductions serialization""".split()
)

#: By name, what is done.
IMPLEMENTED: dict[str, Callable[..., Any]] = {
    name: function
    for module in (layouts, arithmetic, products, reductions)
    for name, function in module.TABLE.items()
}

#: Other names of what has one.
NAMES = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub",
    "__rsub__": "__rsub__", "__isub__": "sub_", "__mul__": "mul", "__rmul__": "mul",
    "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_", "__div__": "div",
    "__matmul__": "matmul", "__rmatmul__": "__rmatmul__", "__pow__": "pow", "__neg__": "neg",
    "__pos__": "positive", "__abs__": "abs", "multiply": "mul", "multiply_": "mul_",
    "subtract": "sub", "subtract_": "sub_", "divide": "div", "divide_": "div_",
    "true_divide": "div", "true_divide_": "div_", "absolute": "abs", "negative": "neg",
    "spmm": "mm", "dsmm": "mm", "hsmm": "hspmm", "saddmm": "addmm", "concat": "cat",
    "concatenate": "cat",
}  # fmt: skip


def answer(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of `func` where an argument is sparse.

    Raises:
        NotImplementedError: the function takes no sparse tensors.
    """
    name = last_name(func)
    bare = name.partition(".")[0]
    if bare in SHELL:
        return raw(lambda: func(*args, **kwargs))
    if name.endswith((".__set__", ".__delete__")):
        return refuse(name)
    if getattr(func, "__module__", "").partition(".")[2] in COMPOSED:
        return func.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]
    known = IMPLEMENTED.get(NAMES.get(bare, bare))
    return refuse(bare) if known is None else known(*args, **kwargs)


def backend(name: str) -> str:
    """PyTorch's sentence about an operator that does not take sparse tensors."""
    return f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend."


def refuse(name: str) -> Any:
    """Raise that a function takes no sparse tensors."""
    raise NotImplementedError(
        f"[{name}] expected dense tensors, got a sparse one ({backend(name)}). Hint: to_dense() "
        "gives all elements"
    )
