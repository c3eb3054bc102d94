"""Which functions take tensors on a mesh: a rule for each name (Note [Tensors on a mesh])."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import weft
import weft.nested.pointwise as pointwise
from weft import Tensor
from weft.base.modes import no_grad
from weft.base.subclasses import alias, raw
from weft.distributed.exchanges import all_reduce
from weft.distributed.reducing import ReduceOp
from weft.distributed.tensor.dtensor import DTensor, DTensorSpec, placed
from weft.distributed.tensor.placement_types import Shard
from weft.overrides import last_name

__all__ = ["answer"]

#: What the part knows by itself.
_OWN = frozenset(
    """dtype requires_grad is_leaf grad_fn output_nr retain_grad retains_grad device is_cpu is_cuda
    is_meta is_sparse is_sparse_csr is_quantized is_mps is_xpu is_floating_point is_complex
    is_signed get_device element_size itemsize is_inference is_tensor _backward_hooks __hash__
    __dir__ _version layout is_contiguous register_hook register_post_accumulate_grad_hook
    can_cast has_names is_shared storage_offset is_conj is_neg __setstate__""".split()
)

_SIZES: dict[str, Callable[[weft.Size], Any]] = {
    "shape.__get__": lambda shape: shape,
    "ndim.__get__": len,
    "dim": len,
    "ndimension": len,
    "numel": lambda shape: shape.numel(),
    "nelement": lambda shape: shape.numel(),
    "__len__": lambda shape: shape[0],
}

#: Modules whose functions are calls of others, which are asked in their turn.
_COMPOSED = frozenset(["nn.utils.clip_grad"])

#: Of each element by itself, or of none, though no record calls them pointwise.
_OF_EACH = frozenset(
    """detach detach_ clone zero_ fill_ copy_ requires_grad_ to type type_as double float half
    bfloat16 cpu contiguous zeros_like ones_like empty_like full_like data.__get__ float_power
    nan_to_num nan_to_num_ zeros_ ones_ constant_""".split()
)

#: Draws, which are those of the whole tensor, so that parts do not repeat each other.
_DRAWS = frozenset(
    """normal_ uniform_ bernoulli_ exponential_ random_ log_normal_ cauchy_ geometric_ rand_like
    randn_like randint_like trunc_normal_ kaiming_uniform_ kaiming_normal_ xavier_uniform_
    xavier_normal_ orthogonal_""".split()
)

_OPERATORS = frozenset(
    f"__{kind}{op}__"
    for op in "add sub mul truediv floordiv mod pow and or xor".split()
    for kind in ("", "r", "i")
) | frozenset(f"__{op}__" for op in "neg pos abs invert eq ne lt le gt ge".split())


@functools.cache
def _pointwise() -> frozenset[str]:
    names = pointwise.pointwise_names()
    return names | {f"{name}_" for name in names} | _OPERATORS | _OF_EACH


@functools.cache
def _rule(func: Any) -> Callable[..., Any]:
    """What answers calls of the function."""
    name = last_name(func)
    if name in RULES:
        return RULES[name]
    if name in _SIZES:
        return _size
    if name in _DRAWS:
        return _draw
    if name.endswith(".__set__") or name.partition(".")[0] in _OWN:
        return lambda func, *args, **kwargs: raw(lambda: func(*args, **kwargs))
    if getattr(func, "__module__", "").partition(".")[2] in _COMPOSED:
        return lambda func, *args, **kwargs: func.__wrapped__(*args, **kwargs)
    return _each if name in _pointwise() else _refuse


def answer(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of `func` where an argument lies on a mesh.

    Raises:
        NotImplementedError: the function takes no such tensors.
        RuntimeError: tensors of one process beside it, or on it otherwise.
    """
    return _rule(func)(func, *args, **kwargs)


def _refuse(func: Callable[..., Any], *args: Any, **kwargs: Any) -> NoReturn:
    name = last_name(func).partition(".")[0]
    raise NotImplementedError(
        f"[{name}] expected tensors of one process, got one that lies on several. Hint: "
        "full_tensor() is the whole, to_local() the part of this process"
    )


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _spec(func: Any, args: Any, kwargs: Any) -> DTensorSpec:
    """How the arguments lie, which is one way for all."""
    found = list(_tensors([*args, *kwargs.values()]))
    specs = {t._spec for t in found if isinstance(t, DTensor)}
    if len(specs) != 1:
        raise RuntimeError(f"[{last_name(func)}] expected tensors that lie alike, got {specs}")
    (spec,) = specs
    for t in found:
        if not isinstance(t, DTensor) and t.ndim:
            raise RuntimeError(
                f"[{last_name(func)}] expected all tensors on the mesh, got one of shape "
                f"{list(t.shape)} in one process (got mixed torch.Tensor and DTensor, need to "
                "convert all torch.Tensor to DTensor before calling distributed operators!). Hint: "
                "distribute_tensor(it, mesh, placements)"
            )
    return spec


def _size(func: Any, tensor: DTensor) -> Any:
    return _SIZES[last_name(func)](tensor._spec.shape)


def _size_of(func: Any, tensor: DTensor, dim: int | None = None) -> Any:
    shape = tensor._spec.shape
    return shape if dim is None else shape[dim]


def _as_placed(out: Any, spec: DTensorSpec) -> Any:
    """A result of parts as a part."""
    if isinstance(out, DTensor):
        return out
    if isinstance(out, Tensor) and tuple(out.shape) == spec.local_shape():
        return placed(out, spec)
    if isinstance(out, (list, tuple)):
        return type(out)(_as_placed(o, spec) for o in out)
    return out


def _each(func: Any, *args: Any, **kwargs: Any) -> Any:
    """By the parts, which lie alike."""
    spec = _spec(func, args, kwargs)
    return _as_placed(raw(lambda: func(*args, **kwargs)), spec)


def _draw(func: Any, tensor: DTensor, *args: Any, **kwargs: Any) -> Any:
    """As the whole tensor would be drawn in one process under the same seed."""
    spec = tensor._spec
    part = alias(tensor)
    drawn = func(part.new_empty(spec.shape), *args, **kwargs)
    with no_grad():
        mine = spec.part_of(drawn)
        if last_name(func).endswith("_"):
            part.copy_(mine)
            return tensor
        return placed(mine.clone(), spec)


def _expect_no_graph(func: Any, x: DTensor) -> None:
    """Raises where a gradient would be lost: exchanges here carry none."""
    if weft.is_grad_enabled() and raw(lambda: x.requires_grad):
        raise NotImplementedError(
            f"[{last_name(func)}] expected a tensor that requires no gradient, got one that does "
            "and lies on several processes. Hint: under no_grad(), or of the gathered parameters "
            "within the sharded module's forward"
        )


def _joined(value: Tensor, spec: DTensorSpec, op: ReduceOp = ReduceOp.SUM) -> Tensor:
    """One number of all parts."""
    if isinstance(spec.placements[0], Shard):
        all_reduce(value, op, spec.mesh.get_group())
    return value


def _norm(func: Any, x: DTensor, *args: Any, **kwargs: Any) -> Tensor:
    """The norm of all elements; of some dimensions only, none."""
    given = dict(zip(("ord", "dim", "keepdim"), args, strict=False), **kwargs)
    first, second = given.pop("p", None), given.pop("ord", None)
    asked = second if first is None else first
    order = 2.0 if asked in (None, "fro") else float("nan") if isinstance(asked, str) else asked
    if any(v not in (None, False) for v in given.values()) or not order > 0:
        _refuse(func)
    _expect_no_graph(func, x)
    with no_grad():
        mine = alias(x)
        part = weft.linalg.vector_norm(mine, order) if mine.numel() else mine.new_zeros(())
        if order == float("inf"):
            return _joined(part, x._spec, ReduceOp.MAX)
        return _joined(part**order, x._spec) ** (1 / order)


def _total(func: Any, x: DTensor, *args: Any, **kwargs: Any) -> Tensor:
    if args or kwargs:
        _refuse(func)
    _expect_no_graph(func, x)
    with no_grad():
        total = _joined(alias(x).sum(), x._spec)
        return total / x._spec.shape.numel() if last_name(func) == "mean" else total


def _extreme(func: Any, x: DTensor, *args: Any, **kwargs: Any) -> Tensor:
    if args or kwargs:
        _refuse(func)
    _expect_no_graph(func, x)
    is_max = last_name(func).endswith("max")
    part = alias(x).detach()
    if not part.numel():
        worst = -float("inf") if is_max else float("inf")
        part = part.new_full((1,), worst)
    return _joined(raw(lambda: func(part)), x._spec, ReduceOp.MAX if is_max else ReduceOp.MIN)


def _truth(func: Any, x: DTensor) -> Tensor:
    is_any = last_name(func) == "any"
    value = raw(lambda: func(alias(x))).to(weft.uint8)
    return _joined(value, x._spec, ReduceOp.MAX if is_any else ReduceOp.MIN).to(weft.bool)


def _alike(func: Any, x: Any, y: Any, *args: Any, **kwargs: Any) -> bool:
    spec = _spec(func, (x, y), {})
    value = weft.tensor(int(raw(lambda: func(alias(x), alias(y), *args, **kwargs))))
    return bool(_joined(value, spec, ReduceOp.MIN))


def _grad(func: Any, x: DTensor) -> Any:
    """The gradient of the part, placed as the tensor is."""
    grad = raw(lambda: func(x))
    return grad if grad is None or isinstance(grad, DTensor) else placed(grad, x._spec)


RULES: dict[str, Callable[..., Any]] = {
    "size": _size_of,
    "grad.__get__": _grad,
    "norm": _norm,
    "vector_norm": _norm,
    "linalg_vector_norm": _norm,
    "sum": _total,
    "mean": _total,
    "max": _extreme,
    "min": _extreme,
    "amax": _extreme,
    "amin": _extreme,
    "any": _truth,
    "all": _truth,
    "equal": _alike,
    "allclose": _alike,
}
