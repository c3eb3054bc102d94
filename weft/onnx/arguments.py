"""The arguments of `weft.onnx.export`: names of the model's inputs, and which sizes are free."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import weft
from weft import Tensor
from weft.base.subclasses import expect_dense
from weft.onnx.errors import NotOnnx
from weft.onnx.exported import program_in


class Free:
    """The arguments, names of the inputs, and which dimensions are free."""

    def __init__(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        names: Sequence[str] | None,
        axes: Any,
        shapes: Any,
    ) -> None:
        self.args, self.kwargs = args, kwargs
        self.leaves: list[tuple[str, Tensor]] = []
        self.plain: dict[str, Any] = {}  # what is no tensor
        self.owner: dict[str, str] = {}  # of each leaf, the parameter that it is a part of
        self.bound = bound = _parameters(model, args, kwargs)
        for name, v in bound:
            self.parameter = name
            self.collect(name, v)
        self.paths = [name for name, _ in self.leaves]
        if names is not None:
            if len(names) > len(self.leaves):
                raise ValueError(
                    f"[onnx.export] expected {len(self.leaves)} input_names, got {len(names)}"
                )
            if twice := [name for k, name in enumerate(names) if name in names[:k]]:
                raise ValueError(
                    f"[onnx.export] expected input_names that differ, got {twice[0]!r} twice"
                )
            self.leaves = [
                (n, t)
                for n, (_, t) in zip(
                    [*names, *(n for n, _ in self.leaves[len(names) :])], self.leaves
                )
            ]
        self.names = [n for n, _ in self.leaves]
        self.axes: dict[tuple[int, int], Any] = {}
        for name, dims in (axes or {}).items():
            if name in self.names:
                self.mark(self.names.index(name), dims)
            elif not isinstance(name, str):
                raise ValueError(
                    f"[onnx.export] expected names of inputs in dynamic_axes, got {name!r}"
                )
        if shapes is not None:
            self.from_shapes(bound, _item_by_item(model, args, shapes))

    def collect(self, name: str, v: Any) -> None:
        """The tensors in an argument."""
        if not isinstance(v, (list, tuple, dict)):
            self.owner[name] = self.parameter
        if isinstance(v, Tensor):
            expect_dense(v, "onnx.export", name)
            self.leaves.append((name, v))
        elif isinstance(v, (list, tuple)):
            for k, item in enumerate(v):
                self.collect(f"{name}_{k}", item)
        elif isinstance(v, dict):
            for k, item in v.items():
                self.collect(f"{name}_{k}", item)
        elif hasattr(v, "__array__"):
            raise TypeError(
                f"[onnx.export] expected tensors among the arguments, got {type(v).__name__} as "
                f"{name!r}. Hint: weft.from_numpy makes a tensor of an array"
            )
        else:
            self.plain[name] = v

    def explained(self, error: NotOnnx) -> NotOnnx:
        """What a program cannot do, with the argument that may be why: a dict."""
        dicts = [n for n, v in self.bound if isinstance(v, dict)]
        if not dicts or error.hint:
            return error
        hint = f"the argument {dicts[0]!r} is a dict: arguments by name are given as kwargs"
        return type(error)(error.reason, hint, error.place)

    def name_sizes(self) -> None:
        """Gives each size that is free without a name one of its own: s0, s1, ..."""
        taken = {symbol_of(s) for s in self.axes.values() if not _is_unnamed(s)}
        names = (n for k in itertools.count() if (n := f"s{k}") not in taken)
        for at, symbol in self.axes.items():
            if _is_unnamed(symbol):
                self.axes[at] = weft.export.Dim(next(names), min=symbol.min, max=symbol.max)

    def mark(self, leaf: int, dims: Any) -> None:
        """Frees dimensions of an input."""
        name, tensor = self.leaves[leaf]
        pairs = dims.items() if isinstance(dims, Mapping) else ((d, None) for d in dims)
        for d, symbol in pairs:
            if not -tensor.dim() <= d < tensor.dim():
                raise ValueError(
                    f"[onnx.export] expected a dimension of {name!r}, which has {tensor.dim()}, "
                    f"got {d}"
                )
            if isinstance(symbol, int) or isinstance(dims, Mapping) and symbol is None:
                continue
            if _is_unnamed(symbol) and str(symbol) == "Dim.STATIC":
                continue
            d %= tensor.dim()
            self.axes[leaf, d] = symbol if symbol is not None else f"{name}_{d}"

    def from_shapes(self, bound: list[tuple[str, Any]], shapes: Any) -> None:
        """Frees dimensions as dynamic_shapes says."""
        if isinstance(shapes, Mapping):
            known = {n for n, _ in bound} | set(self.names)
            if unknown := sorted(set(shapes) - known):
                raise ValueError(
                    "[onnx.export] expected names of parameters in dynamic_shapes, "
                    f"got {unknown[0]!r}"
                )
            for n in self.names:
                if n in shapes and n not in dict(bound):
                    self.mark_spec(self.names.index(n), shapes[n])
        specs = [shapes.get(n) for n, _ in bound] if isinstance(shapes, Mapping) else list(shapes)
        at = 0

        def visit(v: Any, spec: Any) -> None:
            nonlocal at
            if isinstance(v, Tensor):
                self.mark_spec(at, spec)
                at += 1
            elif isinstance(v, (list, tuple)):
                for k, item in enumerate(v):
                    visit(item, spec[k] if spec is not None else None)
            elif isinstance(v, dict):
                for k, item in v.items():
                    visit(item, spec.get(k) if spec is not None else None)

        for (_, v), spec in zip(bound, specs):
            visit(v, spec)

    def mark_spec(self, leaf: int, spec: Any) -> None:
        """One tensor's: a mapping, or an entry for each dimension."""
        if spec is None:
            return
        if isinstance(spec, Mapping):
            self.mark(leaf, spec)
        else:
            self.mark(leaf, {d: s for d, s in enumerate(spec) if s is not None})

    def sizes(self, second_of: Callable[[int], int]) -> dict[Any, tuple[int, int]]:
        """Two sizes for the examples of each free one."""
        out = {}
        for (leaf, d), symbol in self.axes.items():
            key = symbol_of(symbol)
            n = self.leaves[leaf][1].shape[d]
            low, high = getattr(symbol, "min", None), getattr(symbol, "max", None)
            first = max(n, 2)
            second = second_of(first)
            if isinstance(high, int):
                second = min(second, high)
            if isinstance(low, int):
                second = max(second, low)
            if second in (0, first):
                second = first - 1 if first == high else first + 1
            out[key] = (first, max(second, 1))
        return out


def _is_unnamed(symbol: Any) -> bool:
    """Whether it is `Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`, with bounds or without."""
    return isinstance(symbol, type(weft.export.Dim.AUTO))


def symbol_of(symbol: Any) -> str:
    return str(getattr(symbol, "__name__", symbol))


def _parameters(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    try:
        bound = inspect.signature(forward_of(model)).bind(*args, **kwargs)
    except ValueError:
        return [*((f"input_{k}", v) for k, v in enumerate(args)), *kwargs.items()]
    except TypeError as error:
        raise TypeError(
            f"[onnx.export] expected example arguments of the model, got others: {error}"
        ) from None
    out: list[tuple[str, Any]] = []
    for name, v in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            out += [(f"{name}_{k}", item) for k, item in enumerate(v)]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            out += list(v.items())
        else:
            out.append((name, v))
    return out


def _item_by_item(model: Any, args: Sequence[Any], shapes: Any) -> Any:
    """dynamic_shapes of each tensor that `*args` takes, where they are given as PyTorch has them:
    in a tuple for all of these."""
    try:
        parameters = list(inspect.signature(forward_of(model)).parameters.values())
    except ValueError:
        return shapes
    at = next((k for k, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), None)
    if at is None:
        return shapes
    name = parameters[at].name
    if isinstance(shapes, Mapping):
        specs = shapes.get(name)
        if not isinstance(specs, (tuple, list)):
            return shapes
        rest = {k: v for k, v in shapes.items() if k != name}
        return rest | {f"{name}_{k}": spec for k, spec in enumerate(specs)}
    nested = len(shapes) > at and isinstance(shapes[at], (tuple, list))
    if nested and all(isinstance(s, (Mapping, tuple, list)) or s is None for s in shapes[at]):
        return [*shapes[:at], *shapes[at], *shapes[at + 1 :]]
    return shapes


def _defaults(model: Any) -> dict[str, Any]:
    """The default values of a model's parameters."""
    try:
        parameters = inspect.signature(forward_of(model)).parameters
    except ValueError:
        return {}
    empty = inspect.Parameter.empty
    return {n: p.default for n, p in parameters.items() if p.default is not empty}


def tensors_of(
    model: Any, exported: Free, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Tensor]:
    """The tensors among arguments, in the order of the model's inputs.

    Raises:
        ValueError: the rest of the arguments is not that of the export.
    """
    given = Free(model, args, kwargs, None, None, None)
    defaults = _defaults(model)
    for name, wanted in exported.plain.items():
        parameter = exported.owner[name]
        if name not in given.plain and parameter in given.owner.values():
            raise ValueError(
                f"[onnx] expected {name} = {wanted!r} as it was exported, got none in {parameter}"
            )
    for name, got in given.plain.items():  # what is not given is what was exported
        wanted = exported.plain.get(name, defaults.get(name))
        if type(wanted) is not type(got) or wanted != got:
            raise ValueError(
                f"[onnx] expected {name} = {wanted!r} as it was exported, got {got!r}. Hint: what "
                "is no tensor is part of a model: export another"
            )
    if given.paths != exported.paths:
        raise ValueError(
            f"[onnx] expected tensors at {', '.join(exported.paths)}, got them at "
            f"{', '.join(given.paths)}"
        )
    return [tensor for _, tensor in given.leaves]


def ends_in_kwargs(model: Any, args: tuple[Any, ...]) -> bool:
    """Whether the last of these is a dict of arguments by name, as PyTorch takes one: the model
    has no parameter for it."""
    if not args or not isinstance(args[-1], dict):
        return False
    try:
        names = list(inspect.signature(forward_of(model)).parameters)
    except (TypeError, ValueError):
        return False
    return len(names) < len(args)


def forward_of(model: Any) -> Any:
    from weft.closing.program import call_of

    model = program_in(model) or model
    if not isinstance(model, weft.nn.Module):
        return model
    return call_of(model.__dict__["_original"] if "_runs" in model.__dict__ else model)
