"""Operators of masked tensors, below autograd: `MaskedTensor.__torch_dispatch__`.

An operator that makes each element of those at its place runs on the data, and masks have to match;
one that moves elements runs on data and mask. Others have a rule here, or none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft import _C, Tensor
from weft.masked.maskedtensor.core import MaskedTensor, is_masked_tensor, made
from weft.masked.maskedtensor.places import cells, layout_of, like, same_places
from weft.masked.maskedtensor.reductions import OVER_DIMS, parts, reduced
from weft.utils._pytree import tree_map

__all__ = ["run"]

Words = dict[str, Any]

#: What moves elements beside the views, by ATen's names; the gradients of such add up.
_MOVES = """_reshape_alias _unsafe_view cat flip index index_select gather repeat roll stack
    constant_pad_nd""".split()
_ADDING = "as_strided diagonal gather index select slice unfold".split()
#: Pointwise ones and views that say something else of memory than of elements.
_OTHERS = """_diagonal_copy _to_copy as_strided fill masked_fill view_as_complex
    view_as_real where""".split()


@functools.cache
def _pointwise() -> frozenset[str]:
    names = {r["public_name"] for r in _C._records() if r["pointwise"]}
    return frozenset(names - set(_OTHERS))


@functools.cache
def _moving() -> frozenset[str]:
    views = {r["public_name"] for r in _C._records() if r["view"]}
    return frozenset((views - set(_OTHERS)) | set(_MOVES))


def run(func: Any, args: tuple[Any, ...], kwargs: Words) -> Any:
    """What an operator gives of masked tensors; NotImplemented of one that has no rule."""
    name = func.overloadpacket.__name__
    if any(a.is_sparse for a in _masked_ones(args, kwargs)):
        return _of_cells(func, name, args, kwargs)
    rule = _TABLE.get(name)
    if rule is not None:
        return rule(func, *args, **kwargs)
    if name in _pointwise():
        return _elementwise(func, args, kwargs)
    if name.endswith("_") and name[:-1] in _pointwise():
        return _in_place(func, args, kwargs)
    if name in _moving() and func.__name__ != "view.dtype":
        return _moved(func, args, kwargs)
    if name.removesuffix("_backward") in _ADDING and name.endswith("_backward"):
        return _added(func, args, kwargs)
    return NotImplemented


def _of_cells(func: Any, name: str, args: tuple[Any, ...], kwargs: Words) -> Any:
    """An operator of sparse masked tensors: a pointwise one, on their values."""
    beside = [a for a in args if isinstance(a, Tensor) and not is_masked_tensor(a) and a.dim()]
    if beside:
        raise RuntimeError(
            f"[{name}] expected numbers and masked tensors of the same layout beside a sparse one, "
            "got a tensor (expand is unsupported for Sparse tensors). Hint: to_dense()"
        )
    if name.endswith("_") and name[:-1] in _pointwise():
        return _in_place(func, args, kwargs)
    if name in _COPIES or name in _pointwise():
        return _elementwise(func, args, kwargs)
    return NotImplemented


def _data(value: Any) -> Any:
    return value._masked_data if is_masked_tensor(value) else value


def _cells(value: Any) -> Any:
    return cells(_data(value)) if isinstance(value, Tensor) else value


def _mask(value: Any) -> Any:
    return value._masked_mask if is_masked_tensor(value) else value


def _masked_ones(args: tuple[Any, ...], kwargs: Words) -> list[MaskedTensor]:
    return [a for a in (*args, *kwargs.values()) if is_masked_tensor(a)]


def _match(a: Tensor, b: Tensor) -> bool:
    if a is b:
        return True
    kinds = layout_of(a), layout_of(b)
    if kinds[0] is not kinds[1]:
        raise ValueError(
            f"[MaskedTensor] expected masked tensors of one layout, got {kinds[0]} and {kinds[1]} "
            f"(`a` and `b` must have the same layout. Got {kinds[0]} and {kinds[1]})"
        )
    if not same_places(a, b):
        return False
    a, b = cells(a), cells(b)
    return a.dim() == b.dim() and bool((a == b).all())


def _common_mask(func: Any, args: tuple[Any, ...], kwargs: Words) -> Tensor:
    """The mask of all operands; they have to be the same."""
    first, *others = _masked_ones(args, kwargs)
    for other in others:
        if not _match(first._masked_mask, other._masked_mask):
            raise ValueError(
                f"[{func.overloadpacket.__name__}] expected operands with the same mask, got "
                f"others of shapes {tuple(first.shape)} and {tuple(other.shape)} (Input masks must "
                "match.). Hint: weft.where takes one or the other, to_tensor() gives dense ones"
            )
    return first._masked_mask


def _elementwise(func: Any, args: tuple[Any, ...], kwargs: Words) -> Any:
    mask = _common_mask(func, args, kwargs)
    out = func(*tree_map(_cells, args), **tree_map(_cells, kwargs))
    return made(like(mask, out), like(mask, cells(mask).expand(out.shape)))


def _in_place(func: Any, args: tuple[Any, ...], kwargs: Words) -> Any:
    if not is_masked_tensor(args[0]):
        return NotImplemented
    _common_mask(func, args, kwargs)
    func(*tree_map(_cells, args), **tree_map(_cells, kwargs))
    return args[0]


def _moved(func: Any, args: tuple[Any, ...], kwargs: Words) -> Any:
    joined = args[0] if isinstance(args[0], (list, tuple)) else (args[0],)
    beside = tree_map(is_masked_tensor, (args[1:], kwargs))
    if not all(map(is_masked_tensor, joined)) or True in _leaves(beside):
        raise TypeError(
            f"[{func.overloadpacket.__name__}] expected masked tensors, and dense ones as indices, "
            "got others (mask must have dtype bool.). Hint: masked_tensor(x, ones_like(x).bool()) "
            "hides nothing"
        )
    data = func(*tree_map(_data, args), **kwargs)
    mask = func(*tree_map(_mask, args), **kwargs)
    if isinstance(data, Tensor):
        return made(data, mask)
    return type(data)(made(d, m) for d, m in zip(data, mask, strict=True))


def _leaves(tree: Any) -> list[Any]:
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


def _added(func: Any, args: tuple[Any, ...], kwargs: Words) -> Any:
    """The gradient of what moves elements: what no gradient came to is hidden."""
    data = func(*tree_map(_data, args), **tree_map(_data, kwargs))
    counts = func(
        *tree_map(lambda a: _mask(a).long() if is_masked_tensor(a) else a, args),
        **tree_map(_mask, kwargs),
    )
    return made(data, counts != 0)


# ---- others


def _masked_fill(func: Any, self: Any, mask: Any, value: Any) -> Any:
    """Of a dense mask: its own stays."""
    if is_masked_tensor(mask) or is_masked_tensor(value):
        return NotImplemented
    return _elementwise(func, (self, mask, value), {})


def _where(func: Any, condition: Any, self: Any, other: Any) -> Any:
    if is_masked_tensor(condition):
        return NotImplemented
    (a, shown_a), (b, shown_b) = parts(self), parts(other)
    return made(weft.where(condition, a, b), weft.where(condition, shown_a, shown_b))


def _own_copy(func: Any, self: MaskedTensor, **given: Any) -> Any:
    return made(func(self._masked_data, **given), self._masked_mask.clone())


def _same_memory(func: Any, self: MaskedTensor, **given: Any) -> Any:
    return made(func(self._masked_data, **given), self._masked_mask)


def _softmax(func: Any, self: MaskedTensor, dim: int, half_to_float: bool = False) -> Any:
    filled = self._masked_data.masked_fill(~self._masked_mask, float("-inf"))
    return made(func(filled, dim, half_to_float), self._masked_mask)


def _softmax_backward(hidden: float) -> Callable[..., Any]:
    def rule(func: Any, grad: Any, output: Any, *given: Any) -> Any:
        mask = _common_mask(func, (grad, output), {})
        filled = _data(grad).masked_fill(~mask, 0), _data(output).masked_fill(~mask, hidden)
        return made(func(*filled, *given), mask)

    return rule


def _element(func: Any, self: MaskedTensor) -> Any:
    if not bool(self._masked_mask):
        raise ValueError(
            "[item] expected an element that the mask shows, got one that it hides "
            "(__torch_dispatch__, aten._local_scalar_dense: expected a mask tensor). Hint: "
            "to_tensor() gives it a value"
        )
    return self._masked_data.item()


def _copy(func: Any, self: Any, source: Any, *given: Any) -> Any:
    if not is_masked_tensor(self):
        return NotImplemented
    if is_masked_tensor(source) and not _match(self._masked_mask, source._masked_mask):
        raise ValueError(
            "[copy_] expected a source with the same mask, got another (args[0] mask and args[1] "
            "mask must match but do not)"
        )
    func(self._masked_data, _data(source), *given)
    return self


def _reduction(name: str) -> Callable[..., Any]:
    def rule(func: Any, self: Any, *args: Any, **given: Any) -> Any:
        return reduced(name, self, *args, **given)

    return rule


def _same_size(func: Any, self: Tensor, other: Tensor) -> bool:
    return self.shape == other.shape


_COPIES = ("clone", "_to_copy", "ones_like", "zeros_like", "detach")
_TABLE: dict[str, Callable[..., Any]] = {
    **{name: _reduction(name) for name in OVER_DIMS},
    "masked_fill": _masked_fill,
    "where": _where,
    **dict.fromkeys(("contiguous", *_COPIES), _own_copy),
    "detach": _same_memory,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "_softmax_backward_data": _softmax_backward(0.0),
    "_log_softmax_backward_data": _softmax_backward(float("-inf")),
    "_local_scalar_dense": _element,
    "copy_": _copy,
    "is_same_size": _same_size,
}
