"""`torch.library`: operators that programs define, in Python (Note [Operators of programs]).

>>> from weft import Tensor
>>> lib = weft.library.Library("doc2", "DEF")
>>> lib.define("double(Tensor x) -> Tensor")
'double'
>>> lib.impl("double", lambda x: x * 2, "CompositeImplicitAutograd")
>>> weft.ops.doc2.double(weft.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from weft._library.checks import FakeImplCtx, fake_context, opcheck
from weft._library.custom_ops import CustomOpDef, custom_op, keys_of
from weft._library.infer_schema import infer_schema
from weft._library.operators import KEYS, Operator, operator_of
from weft._library.operators import define as _define
from weft._ops import OpOverload

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "get_ctx", "impl", "impl_abstract",
    "infer_schema", "opcheck", "register_autocast", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

_DEFINED: dict[str, str] = {}  # namespaces with a Library of kind DEF, and where that was made
_RESERVED = ("prim",)


def _place(depth: int) -> str:
    frame = sys._getframe(depth)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Library:
    """Defines operators of a namespace, and gives operators their implementations.

    Args:
        ns: the namespace.
        kind: "DEF" for the one that defines the namespace, "FRAGMENT" for further ones, "IMPL" for
            implementations alone.
        dispatch_key: that of `impl` where it is given none.

    Raises:
        ValueError: another kind, or a namespace that is reserved.
        RuntimeError: a second "DEF" of a namespace.

    >>> lib = weft.library.Library("doc_library", "DEF")
    >>> lib.define("half(Tensor x) -> Tensor")
    'half'
    >>> lib.impl("half", lambda x: x / 2, "CompositeImplicitAutograd")
    >>> weft.ops.doc_library.half(weft.ones(2))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(
                f"[Library] expected 'DEF', 'FRAGMENT' or 'IMPL', got {kind!r} (Unsupported kind: "
                f"{kind})"
            )
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(
                f"[Library] expected a namespace of the program's, got {ns!r} ({ns} is a reserved "
                "namespace. Please try creating a library with another name.)"
            )
        _expect_key(dispatch_key, "Library")
        if kind == "DEF" and (ns == "aten" or ns in _DEFINED):
            raise RuntimeError(
                f"[Library] expected one Library of kind 'DEF' for {ns}, got a second; the first "
                f"is at {_DEFINED.get(ns, 'weft')} (Only a single TORCH_LIBRARY can be used to "
                f"register the namespace {ns}). Hint: kind 'FRAGMENT'"
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._made: list[Operator] = []
        if kind == "DEF":
            _DEFINED[ns] = _place(2)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Defines an operator; its name, with the overload's.

        Raises:
            RuntimeError: no schema, or one of that name is defined.
        """
        if self.kind == "IMPL":
            raise RuntimeError(
                "[define] expected a Library of kind 'DEF' or 'FRAGMENT', got 'IMPL' (def(): "
                "definitions are not allowed)"
            )
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(
                "[define] expected '', 'FROM_SCHEMA' or 'CONSERVATIVE', got "
                f"{alias_analysis!r} (Invalid alias_analysis type {alias_analysis})"
            )
        _expect_no_tags(tags, "define")
        made = _define(f"{self.ns}::{schema}", _place(2))
        self._made.append(made)
        return made.qualname.partition("::")[2]

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Gives an operator its implementation under a dispatch key.

        Raises:
            TypeError: fn is not callable.
            RuntimeError: no such operator, no such key, or one that has an implementation.
        """
        if not callable(fn):
            raise TypeError(
                f"[impl] expected a function, got {type(fn).__name__} (Input function is required "
                f"to be a callable but found type {type(fn)})"
            )
        if with_keyset:
            raise NotImplementedError("[impl] expected with_keyset=False: there are no key sets")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        _expect_key(key, "impl")
        operator = self._operator(op_name, "impl")
        known = operator.fake if key == "Meta" else operator.kernels.get(key)
        if known is not None and not allow_override:
            raise RuntimeError(
                f"[impl] expected one implementation of {operator.qualname} for {key}, got a "
                "second (This is not allowed since there's already a kernel registered from "
                f"python overriding {operator.qualname}'s behavior for {key} dispatch key). Hint: "
                "allow_override=True"
            )
        if key == "Meta":
            operator.fake = fn
        else:
            operator.kernels[key] = fn

    def _operator(self, name: str | OpOverload, who: str) -> Operator:
        if isinstance(name, str) and "::" not in name:
            name = f"{self.ns}::{name}"
        operator = operator_of(name, who)
        if operator.overload.namespace != self.ns:
            raise RuntimeError(
                f"[{who}] expected an operator of {self.ns}, got {operator.qualname}"
            )
        return operator

    def _register_fake(
        self, op_name: str, fn: Callable[..., Any], _stacklevel: int = 1, **how: Any
    ) -> None:
        """`register_fake` of one of its operators."""
        self._operator(op_name, "register_fake").fake = fn

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", **how: Any) -> None:
        """Refused: operators are called one by one.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "[fallback] expected a function for one operator, got one for all of a dispatch key. "
            "Hint: a TorchFunctionMode is asked about every call"
        )

    def _destroy(self) -> None:
        """Takes the operators that it has defined out of `weft.ops`."""
        for operator in self._made:
            operator.remove()
        self._made.clear()
        if self.kind == "DEF":
            _DEFINED.pop(self.ns, None)


def _expect_key(key: str, who: str) -> None:
    if key not in KEYS:
        raise RuntimeError(
            f"[{who}] expected a dispatch key among {', '.join(sorted(filter(None, KEYS)))}, got "
            f"{key!r} (could not parse dispatch key: {key})"
        )


def _expect_no_tags(tags: Any, who: str) -> None:
    """Marks for compilers that read them: none may be given that would be ignored."""
    marks = [tags] if not isinstance(tags, (tuple, list)) else tags
    if any(marks):
        raise NotImplementedError(f"[{who}] expected no tags, got {tags!r}")


def define(qualname: str, schema: Any, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Defines an operator, to be given implementations.

    Args:
        qualname: `"namespace::name"`.
        schema: `"(Tensor x) -> Tensor"`.
        lib: owns the operator; without one it stays for as long as the program.

    Raises:
        ValueError: no such name, or no schema.
        RuntimeError: it is defined.

    >>> weft.library.define("doc::triple", "(Tensor x) -> Tensor")
    >>> @weft.library.impl("doc::triple", "cpu")
    ... def triple(x):
    ...     return x * 3
    >>> weft.ops.doc.triple(weft.ones(1))
    tensor([3.])
    """
    if isinstance(qualname, Library):  # the older order: (lib, schema), a decorator

        def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(qualname.define(schema), f)
            return f

        return wrap
    if not isinstance(qualname, str):
        raise ValueError(
            f"[define] expected 'namespace::name', got {type(qualname).__name__} (define(qualname, "
            "schema): expected qualname to be instance of str)"
        )
    if "::" not in qualname:
        raise ValueError(
            f"[define] expected 'namespace::name', got {qualname!r} (Expected `qualname` to be of "
            "the form 'namespace::name')"
        )
    if not re.fullmatch(r"\(.*\) -> .*", schema, re.DOTALL):
        raise ValueError(
            f"[define] expected '(Tensor x) -> Tensor', got {schema!r} (expected schema to look "
            'like e.g. "(Tensor x) -> Tensor")'
        )
    _expect_no_tags(tags, "define")
    made = _define(qualname + schema, _place(2))
    if lib is not None:
        lib._made.append(made)
    return None


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Gives an operator its implementation for kinds of devices; a decorator without `func`.

    Args:
        qualname: `"namespace::name"`, or an OpOverload.
        types: "cpu", a list of such, or "default": for all.

    >>> weft.library.define("doc_impl::half", "(Tensor x) -> Tensor")
    >>> @weft.library.impl("doc_impl::half", "cpu")
    ... def half(x):
    ...     return x / 2
    >>> weft.ops.doc_impl.half(weft.ones(2))
    tensor([0.5000, 0.5000])
    """
    if isinstance(qualname, Library):  # the older order: (lib, name, key), a decorator

        def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
            qualname.impl(types, f, func or "")
            return f

        return wrap
    keys = keys_of(types, "CompositeImplicitAutograd")
    operator = operator_of(qualname, "impl")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for key in keys:
            operator.kernels[key] = function
        return function

    return register if func is None else register(func)


def register_kernel(
    op: Any, device_types: Any, func: Any = None, /, *, lib: Library | None = None
) -> Any:
    """Registers the implementation of an operator for kinds of devices, or all: None.

    >>> @weft.library.custom_op("doc_kernel::half", mutates_args=(), device_types="cuda")
    ... def half(x: weft.Tensor) -> weft.Tensor:
    ...     return x / 2
    >>> @weft.library.register_kernel("doc_kernel::half", "cpu")
    ... def half_here(x):
    ...     return x * 0.5
    >>> half(weft.ones(2))
    tensor([0.5000, 0.5000])
    """
    operator = operator_of(op, "register_kernel")
    keys = keys_of(device_types, "CompositeExplicitAutograd")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for key in keys:
            operator.kernels[key] = function
        return function

    return register if func is None else register(func)


def register_fake(
    op: Any, func: Any = None, /, *, lib: Library | None = None, _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:  # fmt: skip
    """Registers a function that gives results of the right layout without values.

    >>> @weft.library.custom_op("doc_fake::half", mutates_args=())
    ... def half(x: weft.Tensor) -> weft.Tensor:
    ...     return x / 2
    >>> @weft.library.register_fake("doc_fake::half")
    ... def layout(x):
    ...     return weft.empty_like(x)
    >>> half(weft.ones(2, device="meta")).shape
    torch.Size([2])
    """
    operator = operator_of(op, "register_fake")
    if operator.fake is not None and not allow_override:
        raise RuntimeError(
            f"[register_fake] expected one function for {operator.qualname}, got a second"
        )

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        operator.fake = function
        return function

    return register if func is None else register(func)


def impl_abstract(
    qualname: Any, func: Any = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """`register_fake` by its older name.

    >>> @weft.library.custom_op("doc_abstract::half", mutates_args=())
    ... def half(x: weft.Tensor) -> weft.Tensor:
    ...     return x / 2
    >>> @weft.library.impl_abstract("doc_abstract::half")
    ... def layout(x):
    ...     return weft.empty_like(x)
    >>> half(weft.ones(2, device="meta")).shape
    torch.Size([2])
    """
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None,
    lib: Library | None = None,
) -> None:  # fmt: skip
    """Registers the gradient of an operator: `CustomOpDef.register_autograd`.

    Raises:
        RuntimeError: the operator writes its arguments.

    >>> @weft.library.custom_op("doc_autograd::half", mutates_args=())
    ... def half(x: weft.Tensor) -> weft.Tensor:
    ...     return x / 2
    >>> weft.library.register_autograd("doc_autograd::half", lambda ctx, grad: grad / 2)
    >>> x = weft.ones(2, requires_grad=True)
    >>> half(x).sum().backward()
    >>> x.grad
    tensor([0.5000, 0.5000])
    """
    operator = operator_of(op, "register_autograd")
    if operator.schema.is_mutable:
        raise RuntimeError(
            f"[register_autograd] expected an operator that writes none of its arguments, got "
            f"{operator.schema} (Cannot register autograd formula for non-functional operator "
            f"{operator.overload} with schema {operator.schema}. Please create a functional "
            "operator and register an autograd formula for that.)"
        )
    operator.backward, operator.setup_context = backward, setup_context


def register_vmap(op: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Registers the rule for all examples of `vmap` at once: `CustomOpDef.register_vmap`.

    >>> @weft.library.custom_op("doc_vmap::half", mutates_args=())
    ... def half(x: weft.Tensor) -> weft.Tensor:
    ...     return x / 2
    >>> @weft.library.register_vmap("doc_vmap::half")
    ... def half_of_all(info, in_dims, x):
    ...     return x / 2, in_dims[0]
    >>> weft.vmap(half)(weft.ones(3))
    tensor([0.5000, 0.5000, 0.5000])
    """
    operator = operator_of(op, "register_vmap")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        operator.vmap = function
        return function

    return register if func is None else register(func)


def register_autocast(
    op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None
) -> None:
    """Registers the dtype that autocast has the floating arguments of an operator in.

    >>> @weft.library.custom_op("doc_autocast::half", mutates_args=())
    ... def half(x: weft.Tensor) -> weft.Tensor:
    ...     return x / 2
    >>> weft.library.register_autocast("doc_autocast::half", "cpu", weft.bfloat16)
    >>> with weft.autocast("cpu"):
    ...     half(weft.ones(2)).dtype
    torch.bfloat16
    """
    if device_type not in ("cpu", "cuda"):
        raise ValueError(
            f"[register_autocast] expected cpu or cuda, got {device_type!r} (Unknown device type)"
        )
    operator_of(op, "register_autocast").casts[device_type] = cast_inputs


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Library | None = None
) -> Any:
    """Refused, as by `CustomOpDef.register_torch_dispatch`.

    Raises:
        NotImplementedError: always.

    >>> weft.library.register_torch_dispatch("aten::add", weft.Tensor)
    Traceback (most recent call last):
    NotImplementedError: ...
    """
    return CustomOpDef.register_torch_dispatch(op, torch_dispatch_class)


def get_ctx() -> FakeImplCtx | None:
    """What a function that was registered by `register_fake` asks for sizes that depend on values;
    None outside of such a function.

    >>> weft.library.get_ctx() is None
    True
    """
    return fake_context()


def triton_op(name: str, fn: Any = None, /, *, mutates_args: Any = (), schema: Any = None) -> Any:
    """Refused: Triton's kernels are for GPUs.

    Raises:
        RuntimeError: always.

    >>> weft.library.triton_op("doc_triton::half")
    Traceback (most recent call last):
    RuntimeError: ...
    """
    raise RuntimeError(
        f"[triton_op] expected a machine with a GPU and Triton, got {name!r} on a CPU. Hint: "
        "custom_op makes an operator of any Python function"
    )


def wrap_triton(triton_kernel: Any, /) -> Any:
    """Refused: Triton's kernels are for GPUs.

    Raises:
        RuntimeError: always.

    >>> weft.library.wrap_triton(len)
    Traceback (most recent call last):
    RuntimeError: ...
    """
    raise RuntimeError(
        f"[wrap_triton] expected a machine with a GPU and Triton, got {triton_kernel!r} on a CPU"
    )
