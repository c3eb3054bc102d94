"""How a function over NumPy arrays becomes an elementwise one of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import weft
from weft import Tensor
from weft._library_ops import Gradients, library_op
from weft.base.forms import doc_of, write_out


def scipy_special(who: str) -> Any:
    """The module scipy.special; an ImportError says how to get it."""
    try:
        from scipy import special
    except ImportError:
        raise ImportError(
            f"[{who}] expected SciPy, got none installed. Hint: pip install 'weft[scipy]'"
        ) from None
    return special


def _operands(who: str, values: Sequence[Any]) -> list[Tensor]:
    """Tensors of one floating dtype and one shape; numbers yield to tensors."""
    if not any(isinstance(v, Tensor) for v in values):
        raise TypeError(f"[{who}] expected a tensor, got {type(values[0]).__name__}")
    kind = values[0].dtype if len(values) == 1 else weft.result_type(*values)
    if kind.is_complex:
        raise NotImplementedError(
            f'[{who}] expected real numbers, got {kind} ("{who}" not implemented for complex)'
        )
    if not kind.is_floating_point:
        kind = weft.get_default_dtype()
    place = next((v.device for v in values if isinstance(v, Tensor)), None)
    made = [
        v.to(kind) if isinstance(v, Tensor) else weft.tensor(v, dtype=kind, device=place)
        for v in values
    ]
    return made if len(made) == 1 else list(weft.broadcast_tensors(*made))


def pointwise(
    name: str,
    gradient: Callable[[Gradients], Any] | None = None,
    samples: Sequence[str] = (),
    node: str | None = None,
    saves: Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The elementwise op `name` of tensors and numbers: promotion, broadcasting and `out=`."""

    def decorate(forward: Callable[..., Any]) -> Callable[..., Any]:
        first, _, rest = doc_of(forward).partition("\n\n")
        forward.__doc__ = f"{first}\n\nElementwise: operands broadcast.\n\n{rest}"
        names = forward.__code__.co_varnames[: forward.__code__.co_argcount]
        operands = ", ".join("Tensor " + n for n in names)
        who = name.replace("special_", "special.")
        op = library_op(
            f"{name}({operands}) -> Tensor", gradient=gradient, saves=saves, samples=samples,
            node=node,
        )(forward)  # fmt: skip

        def call(*values: Any, out: Tensor | None = None) -> Tensor:
            tensors = _operands(who, values)
            kind = tensors[0].dtype
            if kind not in (weft.float32, weft.float64):
                tensors = [t.float() for t in tensors]
            result = op(*tensors).to(kind)
            return result if out is None else write_out(who, out, result)

        @wraps(forward)
        def unary(input: Any, *, out: Tensor | None = None) -> Tensor:
            return call(input, out=out)

        @wraps(forward)
        def binary(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
            return call(input, other, out=out)

        @wraps(forward)
        def of_degree(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
            return call(input, n, out=out)

        named = unary if len(names) == 1 else of_degree if names[1] == "n" else binary
        op.record["call"] = named  # type: ignore[attr-defined]
        return named

    return decorate
