"""`torch.library.custom_op`: a Python function as an operator."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from weft._library.infer_schema import infer_schema
from weft._library.operators import Operator, define, operator_of
from weft._ops import OpOverload
from weft.base.device import device

__all__ = ["CustomOpDef", "custom_op", "key_of", "place_of"]

DeviceTypes = str | Sequence[str] | None

_KEYS = {"cpu": "CPU", "cuda": "CUDA", "mps": "MPS", "xpu": "XPU", "hpu": "HPU", "mtia": "MTIA",
         "xla": "XLA", "meta": "Meta", "privateuseone": "PrivateUse1"}  # fmt: skip


def key_of(kind: str) -> str:
    """The dispatch key of a kind of device. RuntimeError: there is no such kind."""
    if kind not in _KEYS:
        device(kind)  # says what kinds there are
    return _KEYS[kind]


def place_of(function: Callable[..., Any] | None) -> str:
    """The file and line where a function is written."""
    code = getattr(function, "__code__", None)
    return "an unknown place" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def keys_of(device_types: DeviceTypes, default: str) -> list[str]:
    """The dispatch keys of kinds of devices; `default` for None."""
    if device_types is None or device_types == "default":
        return [default]
    kinds = [device_types] if isinstance(device_types, str) else list(device_types)
    return [key_of(kind) for kind in kinds]


class CustomOpDef:
    """An operator made of a Python function; calling it calls the operator.

    What `custom_op` returns. `weft.ops.<namespace>.<name>` is the same operator.

    >>> @weft.library.custom_op("doc_def::half", mutates_args=())
    ... def half(x: weft.Tensor) -> weft.Tensor:
    ...     return x / 2
    >>> type(half).__name__, half(weft.ones(2))
    ('CustomOpDef', tensor([0.5000, 0.5000]))
    """

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable[..., Any]) -> None:
        self._namespace, self._name, self._schema, self._init_fn = namespace, name, schema, fn
        qualname = f"{namespace}::{name}"
        try:
            old: Operator | None = operator_of(qualname, "custom_op")
        except RuntimeError:
            old = None
        if old is not None and old.strict:
            old.remove()  # as a cell of a notebook that is run again
        self._operator = define(qualname + schema, place_of(fn), strict=True)
        self.__name__, self.__doc__ = name, fn.__doc__

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opoverload(self) -> OpOverload:
        return self._operator.overload

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_kernel(
        self, device_types: DeviceTypes, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Registers the implementation for kinds of devices; a decorator without `fn`.

        Those of devices other than "cpu" are kept and never called.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for key in keys_of(device_types, "CompositeExplicitAutograd"):
                self._operator.kernels[key] = function
            return function

        return register if fn is None else register(fn)

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Generator[None]:
        """In this scope, a kind of device's kernel is called or, if not, the operator's own."""
        key = key_of(device_type)
        before = set(self._operator.off)
        (self._operator.off.discard if enabled else self._operator.off.add)(key)
        try:
            yield
        finally:
            self._operator.off = before

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Registers a function that gives results of the right shapes and dtypes without values.

        Within it `torch.library.get_ctx().new_dynamic_size()` is a size that depends on values.
        """
        self._operator.fake = fn
        return fn

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Registers the gradient.

        Args:
            backward: `backward(ctx, *grads)` returns a gradient, or None, for each argument by
                position; for a list of tensors, a list.
            setup_context: `setup_context(ctx, inputs, output)` keeps on ctx what backward reads;
                `keyword_only_inputs` too where the operator has such arguments.

        Raises:
            RuntimeError: the operator writes its arguments.
        """
        if self._operator.schema.is_mutable:
            raise RuntimeError(
                f"[register_autograd] expected an operator that writes none of its arguments, got "
                f"{self} (Cannot register autograd formula for non-functional operator {self} with "
                f"schema {self._operator.schema}. Please create a functional operator and register "
                "an autograd formula for that.)"
            )
        self._operator.backward, self._operator.setup_context = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Registers `func(info, in_dims, *args)`, which answers for all examples of `vmap` at once
        and returns results and their dimensions. Without it, examples are called one by one."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._operator.vmap = function
            return function

        return register if func is None else register(func)

    def register_torch_dispatch(
        self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Refused: no class or mode is dispatched to below autograd here.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "[register_torch_dispatch] expected a rule for calls from Python, got one for "
            f"__torch_dispatch__ of {torch_dispatch_class!r}. Hint: __torch_function__ of a class "
            "or a TorchFunctionMode is asked about the operator"
        )

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Registers that autocast of a kind of device converts floating arguments to a dtype."""
        if not isinstance(device_type, str):
            raise ValueError(
                f"[register_autocast] expected the name of a kind of device, got {device_type!r} "
                "(Unknown device type)"
            )
        if device_type not in ("cpu", "cuda"):
            raise ValueError(f"[register_autocast] expected cpu or cuda, got {device_type}")
        self._operator.casts[device_type] = cast_inputs


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes an operator of a Python function; a decorator without `fn`.

    The function may do anything with its tensors: call NumPy, or a library. Its results are its
    own memory. Gradients flow by `register_autograd` alone.

    Args:
        name: `"namespace::name"`.
        fn: the implementation.
        mutates_args: the names of the arguments that it writes, or "unknown".
        device_types: the kinds of devices that it works on; None: on all.
        schema: the arguments and results, `"(Tensor x) -> Tensor"`; by default as annotated.
        tags: PyTorch's marks for compilers, which have no meaning here: none may be given.

    Raises:
        ValueError: the name has no namespace, or the annotations have no schema.

    >>> from weft import Tensor
    >>> @weft.library.custom_op("doc::sine", mutates_args=())
    ... def sine(x: Tensor) -> Tensor:
    ...     import numpy as np
    ...     return weft.from_numpy(np.sin(x.numpy()))
    >>> sine.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(),
    ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    >>> x = weft.zeros(2, requires_grad=True)
    >>> weft.ops.doc.sine(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """
    if tags:
        raise NotImplementedError(f"[custom_op] expected no tags, got {tags!r}")
    namespace, colons, op = name.partition("::")
    if not colons or not namespace or not op or "::" in op:
        raise ValueError(
            f"[custom_op] expected 'namespace::name', got {name!r} (expected op name to be of the "
            "form namespace::name)"
        )

    def made(function: Callable[..., Any]) -> CustomOpDef:
        if schema is None:
            text = infer_schema(function, mutates_args=mutates_args)
        else:
            text = schema
        op_def = CustomOpDef(namespace, op, text, function)
        _expect_written(op_def, mutates_args)
        op_def.register_kernel(device_types, function)
        return op_def

    return made if fn is None else made(fn)


def _expect_written(op: CustomOpDef, mutates_args: str | Iterable[str]) -> None:
    """ValueError: the schema writes others than `mutates_args` names."""
    written = {a.name for a in op._operator.schema.arguments if a.is_write}
    if isinstance(mutates_args, str) or written == set(mutates_args):
        return
    op._operator.remove()
    raise ValueError(
        f"[custom_op] expected a schema that writes {sorted(set(mutates_args))}, got one that "
        f"writes {sorted(written)} (Attempted to create a custom op with `mutates_args="
        f"{set(mutates_args)}` and `schema={op._schema}. The schema suggests that the op mutates "
        f"{written}, which is different from what was provided to us in `mutates_args`."
    )
