"""Operators that a program defines: which of its functions answers a call.

Note [Operators of programs]
A call goes the way of a library-backed op (Note [Library-backed ops]): a trace has it as one node;
examples of `vmap` are answered by the rule that was registered, else one by one; a recording shows
it. Then, if an argument wants a gradient, the gradient that was registered is tied to the results
(weft/_library/autograd.py), and the kernel runs below it. Kernels are kept under PyTorch's names of
dispatch keys; those of other devices are kept and never called, as on a machine without the device.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from weft import _C, Tensor
from weft._ops import Bound, OpOverload, forget, packet_of, tensors_of
from weft.amp.autocast_mode import autocast
from weft.base.modes import AUTOCAST, BELOW_AUTOGRAD, MAP, TRACE, WATCH, no_grad
from weft.base.schemas import FunctionSchema, parse_schema

__all__ = ["KEYS", "Operator", "define", "operator_of"]

#: The dispatch keys whose kernels run on the CPU, the first that is there.
_CPU = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "")
_AUTOGRAD = ("AutogradCPU", "Autograd")
#: All that `impl` takes: these, and those of what this machine does not have.
KEYS = frozenset(
    (*_CPU, *_AUTOGRAD, "Meta", "CUDA", "MPS", "XPU", "HPU", "MTIA", "XLA", "PrivateUse1",
     "AutogradCUDA", "AutogradMPS", "AutogradXPU", "AutogradPrivateUse1", "BackendSelect")
)  # fmt: skip


class Operator:
    """What is registered for one overload.

    Attributes:
        kernels: by dispatch key.
        fake: gives results of the right layout; may read no values.
        backward, setup_context: the gradient.
        vmap: the rule for examples.
        strict: whether it was made by `custom_op`: its results are its own, and its gradient is
            registered or an error.
    """

    def __init__(self, schema: FunctionSchema, where: str, strict: bool) -> None:
        self.schema, self.where, self.strict = schema, where, strict
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.casts: dict[str, Any] = {}  #: by kind of device, the dtype that autocast has it in
        self.off: set[str] = set()  #: keys of kernels that are switched off
        namespace, _, name = schema.name.partition("::")
        self.overload: OpOverload = packet_of(namespace, name).add(schema, self.call)
        self.overload._operator = self  # type: ignore[attr-defined]

    @property
    def qualname(self) -> str:
        return self.overload._name

    def remove(self) -> None:
        """Takes the operator out of `weft.ops`."""
        o = self.overload
        forget(o.namespace, o._opname, o._overloadname)
        _OPERATORS.pop(self.qualname, None)

    def kernel(self) -> Callable[..., Any]:
        """The kernel of the CPU. NotImplementedError: there is none."""
        for key in _CPU:
            if key in self.kernels and key not in self.off:
                return self.kernels[key]
        name, known = self.schema.name, ", ".join(self.kernels) or "none"
        raise NotImplementedError(
            f"[{name}] expected a kernel for the CPU, got {known} (Could not run '{name}' with "
            "arguments from the 'CPU' backend). Hint: register_kernel(op, 'cpu', function)"
        )

    # ---- a call

    def call(self, bound: Bound) -> Any:
        mode = _C._mode()
        if mode & TRACE and (recording := _C._recording()) is not None:
            return recording.whole(self.overload, tuple(bound.args), bound.kwargs)
        if mode & MAP:
            from weft._library.mapping import mapped

            result = mapped(self, bound)
            if result is not None:
                return result[0]
        if mode & AUTOCAST and "cpu" in self.casts:
            with autocast("cpu", enabled=False):
                return self._watched(self._cast(bound))
        return self._watched(bound)

    def _watched(self, bound: Bound) -> Any:
        if _C._mode() & WATCH:
            return _C._within("call", self.qualname, self._differentiable, bound)
        return self._differentiable(bound)

    def _cast(self, bound: Bound) -> Bound:
        """The arguments with floats in the dtype that was registered for autocast."""
        dtype = self.casts["cpu"]

        def cast(value: Any) -> Any:
            if isinstance(value, list):
                return [cast(v) for v in value]
            narrow = isinstance(value, Tensor) and value.is_floating_point()
            return value.to(dtype) if narrow and value.dtype is not _C.float64 else value

        return Bound([cast(v) for v in bound.args], {k: cast(v) for k, v in bound.kwargs.items()})

    def _differentiable(self, bound: Bound) -> Any:
        if not BELOW_AUTOGRAD.get():
            own = next((self.kernels[k] for k in _AUTOGRAD if k in self.kernels), None)
            if own is not None:
                short = self.shortened(bound)
                return self.checked(own(*short.args, **short.kwargs))
            if self._is_tied() and _C.is_grad_enabled():
                if any(t.requires_grad for t in tensors_of(bound.values())):
                    from weft._library.autograd import tied

                    return tied(self, bound)
        with no_grad() if self._is_tied() or self.strict else nullcontext():
            return self.run(bound)

    def _is_tied(self) -> bool:
        """Whether gradients are those that are registered, not those of what a kernel calls."""
        return (self.backward is not None or self.strict) and not self.schema.is_mutable

    def shortened(self, bound: Bound) -> Bound:
        """Without the arguments that are as the schema's defaults: kernels have their own."""
        positional = [a for a in self.schema.arguments if not a.kwarg_only]
        args = list(bound.args)
        while args and _is_default(positional[len(args) - 1], args[-1]):
            args.pop()
        named = {a.name: a for a in self.schema.arguments}
        return Bound(args, {k: v for k, v in bound.kwargs.items() if not _is_default(named[k], v)})

    def run(self, bound: Bound) -> Any:
        """What the kernel makes of the arguments, and no gradient."""
        short = self.shortened(bound)
        kernel = self.fake if _is_meta(bound) and self.fake is not None else self.kernel()
        result = self.checked(kernel(*short.args, **short.kwargs))
        if self.strict:
            self._expect_own(bound, result)
            self._written(bound)
        return result

    def checked(self, result: Any) -> Any:
        """A result of the schema's types. RuntimeError: it is none."""
        kinds = self.schema.returns
        several = len(kinds) != 1
        made = (result,) if not several else (() if result is None else result)
        if not isinstance(made, (tuple, list)) or len(made) != len(kinds):
            got = len(made) if isinstance(made, (tuple, list)) else type(result).__name__
            raise RuntimeError(
                f"[{self.schema.name}] expected {len(kinds)} results, got {got}. Hint: its schema "
                f"is {self.schema}"
            )
        for value, kind in zip(made, kinds, strict=True):
            _expect(self.schema, value, kind.type)
        return (tuple(made) if kinds else None) if several else result

    def _expect_own(self, bound: Bound, result: Any) -> None:
        """RuntimeError: a result shares memory with an argument that the schema does not name."""
        results = result if isinstance(result, (tuple, list)) else (result,)
        seen = {_memory(t) for t in tensors_of(bound.values())}
        for value, kind in zip(_flat(results), _kinds(self.schema, results), strict=False):
            if not isinstance(value, Tensor) or not value.numel():
                continue
            if _memory(value) in seen and kind is None:
                raise RuntimeError(
                    f"[{self.schema.name}] expected results of its own, got memory of an argument "
                    f"({self.overload._opname}: The output of this custom operator (1) must not "
                    "also be an input to this custom operator and (2) may not alias any inputs to "
                    "this custom operator or other returns). Hint: return x.clone()"
                )
            seen.add(_memory(value))

    def _written(self, bound: Bound) -> None:
        """Raises the versions of what the schema says is written."""
        for a, value in zip(self.schema.arguments, bound.values(), strict=True):
            if a.is_write:
                for t in tensors_of((value,)):
                    _C._increment_version(t)


def _is_default(a: Any, value: Any) -> bool:
    return bool(
        a.has_default
        and type(value) is type(a.default_value)
        and not isinstance(value, Tensor)
        and value == a.default_value
    )


def _is_meta(bound: Bound) -> bool:
    return any(getattr(t, "is_meta", False) for t in tensors_of(bound.values()))


def _memory(t: Tensor) -> int:
    """The storage's number: meta tensors have storages too, without an address for programs."""
    return int(t._storage_info()[0])


def _flat(values: Any) -> list[Any]:
    return [v for value in values for v in (value if isinstance(value, list) else (value,))]


def _kinds(schema: FunctionSchema, results: Any) -> list[Any]:
    """The alias of each tensor that `_flat` gives."""
    out: list[Any] = []
    for r, value in zip(schema.returns, results, strict=False):
        out += [r.alias_info] * (len(value) if isinstance(value, list) else 1)
    return out


_RESULTS: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor,), "int": (int,), "SymInt": (int,), "float": (float, int), "bool": (bool,),
    "Scalar": (bool, int, float, complex), "str": (str,),
}  # fmt: skip


def _expect(schema: FunctionSchema, value: Any, kind: Any) -> None:
    if kind.word == "Optional":
        if value is not None:
            _expect(schema, value, kind.item)
    elif kind.word == "List":
        if not isinstance(value, (list, tuple)):
            raise _wrong(schema, value, kind)
        for v in value:
            _expect(schema, v, kind.item)
    elif not isinstance(value, _RESULTS.get(kind.word, (object,))):
        raise _wrong(schema, value, kind)


def _wrong(schema: FunctionSchema, value: Any, kind: Any) -> RuntimeError:
    got = type(value).__name__
    return RuntimeError(
        f"[{schema.name}] expected a result of type {kind}, got {got} (Unable to cast {got} to "
        f"{kind}). Hint: its schema is {schema}"
    )


_OPERATORS: dict[str, Operator] = {}


def define(text: str, where: str, strict: bool = False) -> Operator:
    """A new operator of its schema, `ns::name(...) -> ...`.

    Raises:
        RuntimeError: the schema is none, or there is one of the name.
    """
    schema = parse_schema(text)
    name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
    if name in _OPERATORS:
        raise RuntimeError(
            f"[{schema.name}] expected a new name, got one that is defined at "
            f"{_OPERATORS[name].where} (Tried to register an operator ({schema}) with the same "
            "name and overload name multiple times)"
        )
    made = _OPERATORS[name] = Operator(schema, where, strict)
    return made


def operator_of(name: Any, who: str) -> Operator:
    """The operator of a name, `ns::op.overload`, of an OpOverload, or of what `custom_op` gave.

    Raises:
        RuntimeError: no program has defined it.
        ValueError: it is no name of an operator.
    """
    if isinstance(name, Operator):
        return name
    held = getattr(name, "_operator", None)
    if isinstance(held, Operator):
        return held
    if isinstance(name, OpOverload):
        name = name._name
    if not isinstance(name, str) or "::" not in name:
        raise ValueError(
            f"[{who}] expected the name of an operator with its namespace, 'ns::name', or an "
            f"OpOverload, got {name!r} (namespace::name)"
        )
    found = _OPERATORS.get(name.removesuffix(".default"))
    if found is None:
        hint = (
            "weft's own operators cannot be changed"
            if name.startswith("aten::")
            else ("torch.library.define or custom_op makes one")
        )
        raise RuntimeError(
            f"[{who}] expected an operator that a program has defined, got {name!r} (operator "
            f"{name} does not exist). Hint: {hint}"
        )
    return found
