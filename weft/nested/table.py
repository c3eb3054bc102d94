"""Which functions take nested tensors: a rule for each name.

A rule is called with the function and its arguments. A function of PyTorch's has one name as a
function and a method. What is in none of the tables, and not pointwise by its record, raises
PyTorch's NotImplementedError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# By full names: under `weft run` the package is known as torch.nested, which has none of these.
import weft.nested.asked as asked
import weft.nested.attention as attention
import weft.nested.padded as padded
import weft.nested.pointwise as pointwise
import weft.nested.products as products
import weft.nested.reductions as reductions
import weft.nested.shapes as shapes
from weft.nested.tensor import raw
from weft.overrides import last_name

__all__ = ["answer"]

#: What the values know by themselves.
_OWN = frozenset(
    """dtype requires_grad is_leaf grad_fn output_nr retain_grad retains_grad device is_cpu is_cuda
    is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_quantized is_sparse is_sparse_csr is_vulkan
    is_xla is_xpu is_floating_point is_complex is_signed get_device element_size itemsize nbytes
    is_inference is_conj is_neg is_distributed is_tensor is_same_size name names _backward_hooks
    __hash__ __dir__ _is_view item __bool__ __float__ __int__ __index__ __complex__ backward
    _version data_ptr storage_offset untyped_storage storage is_shared share_memory_ is_pinned
    _base is_storage result_type can_cast __setstate__ __reduce__ grad_dtype""".split()
)

#: Modules whose functions are calls of others, which are asked in their turn.
_COMPOSED = frozenset(
    """nn.utils.clip_grad nn.functional_attention nn.functional_loss nn.functional_similarity
    nn.utils.rnn nested.create nested.padded serialization""".split()
)

#: By name, the rule.
RULES: dict[str, Callable[..., Any]] = {
    name: rule
    for module in (pointwise, asked, shapes, reductions, products, padded, attention)
    for name, rule in module.TABLE.items()
}

#: Operators that have the name of what they do.
_OPERATORS = """add sub mul truediv floordiv mod pow and or xor lshift rshift div""".split()
_UNARY = """neg pos abs invert eq ne lt le gt ge""".split()


@functools.cache
def _pointwise() -> frozenset[str]:
    names = pointwise.pointwise_names()
    operators = {f"__{kind}{op}__" for op in _OPERATORS for kind in ("", "r", "i")}
    return names | {name + "_" for name in names} | operators | {f"__{op}__" for op in _UNARY}


@functools.cache
def _rule(func: Any) -> Callable[..., Any]:
    """What answers calls of the function."""
    name = last_name(func)
    if name in RULES:
        return RULES[name]
    bare = name.partition(".")[0]
    if name.endswith(".__set__") or bare in _OWN:
        return _by_values
    if getattr(func, "__module__", "").partition(".")[2] in _COMPOSED:
        return _composed
    return pointwise.elementwise if bare in _pointwise() else _refuse


def answer(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of `func` where an argument is nested.

    Raises:
        NotImplementedError: the function takes no nested tensors.
    """
    return _rule(func)(func, *args, **kwargs)


def _by_values(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return raw(lambda: func(*args, **kwargs))


def _composed(func: Any, *args: Any, **kwargs: Any) -> Any:
    return func.__wrapped__(*args, **kwargs)


def _refuse(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    name = last_name(func).partition(".")[0]
    raise NotImplementedError(
        f"[{name}] expected dense tensors, got a nested one (aten.{name}.default). Hint: unbind() "
        "gives the parts, values() their elements, to_padded_tensor(0.0) one dense tensor"
    )
