"""`opcheck`: whether what is registered for an operator is true, found out by calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import weft
from weft import Tensor
from weft._library.operators import Operator, operator_of
from weft._ops import bind, tensors_of
from weft.utils import _pytree

__all__ = ["FakeImplCtx", "OpCheckError", "fake_context", "opcheck"]

_CONTEXT: ContextVar[FakeImplCtx | None] = ContextVar("fake context", default=None)


class OpCheckError(Exception):
    """What `opcheck` raises: a registration is wrong."""


class FakeImplCtx:
    """What `get_ctx` gives a function without values."""

    def __init__(self, size: int) -> None:
        self._size = size

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """A size that depends on values, within bounds."""
        if min < 0:
            raise ValueError(
                f"[new_dynamic_size] expected min >= 0, got {min} (expected min to be greater than "
                "or equal to 0)"
            )
        size = min + self._size
        return size if max is None or size <= max else max

    create_unbacked_symint = new_dynamic_size


def fake_context() -> FakeImplCtx | None:
    """The context of the function without values that runs, or None."""
    return _CONTEXT.get()


@contextmanager
def _faking(size: int) -> Generator[None]:
    token = _CONTEXT.set(FakeImplCtx(size))
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def _cloned(value: Any) -> Any:
    def one(v: Any) -> Any:
        if not isinstance(v, Tensor):
            return copy.copy(v)
        made = v.detach().clone()
        return made.requires_grad_(v.requires_grad)

    return _pytree.tree_map(one, value)


class _Case:
    """An operator and the arguments to call it with."""

    def __init__(self, operator: Operator, args: Any, kwargs: Any, rtol: Any, atol: Any) -> None:
        self.operator, self.args, self.kwargs = operator, args, kwargs
        self.close = {} if rtol is None and atol is None else {"rtol": rtol, "atol": atol}

    def call(self) -> tuple[list[Any], Any]:
        """The values of the arguments after a call on copies of them, and the result."""
        args, kwargs = _cloned((self.args, self.kwargs))
        bound = bind(self.operator.schema, args, kwargs)
        return bound.values(), self.operator.call(bound)

    def test_schema(self) -> None:
        """Arguments are written if and only if the schema says so; results are what it says."""
        before = bind(self.operator.schema, *_cloned((self.args, self.kwargs))).values()
        after, result = self.call()
        for a, old, new in zip(self.operator.schema.arguments, before, after, strict=True):
            for o, n in zip(tensors_of((old,)), tensors_of((new,)), strict=True):
                if not a.is_write and not weft.equal(o.nan_to_num(), n.nan_to_num()):
                    raise OpCheckError(
                        f"Argument {a.name} is not defined as mutable but was mutated"
                    )
        infos = [r.alias_info for r in self.operator.schema.returns]
        made = result if isinstance(result, tuple) else (result,)
        given = {t.untyped_storage().data_ptr() for t in tensors_of(after) if t.numel()}
        for info, r in zip(infos, made, strict=False):
            for t in tensors_of((r,)):
                if info is None and t.numel() and t.untyped_storage().data_ptr() in given:
                    raise OpCheckError("a result is not defined to alias an argument but does")

    def test_autograd_registration(self) -> None:
        """Arguments that want gradients have a function that gives them."""
        o = self.operator
        given = tensors_of(bind(o.schema, self.args, self.kwargs).values())
        if not any(t.requires_grad for t in given):
            return
        kernels = {"Autograd", "AutogradCPU", "CompositeImplicitAutograd"} & set(o.kernels)
        if not (o.strict or o.backward or kernels):
            raise OpCheckError(
                f"{o.overload} has no gradient registered, and an argument requires one. Hint: "
                "register_autograd"
            )

    def test_faketensor(self) -> None:
        """The function without values gives the layouts of the operator, and reads no values."""
        o = self.operator
        if o.fake is None:
            if "CompositeImplicitAutograd" in o.kernels:
                return
            raise OpCheckError(
                f"{o.qualname}: there was no fake impl registered. Hint: register_fake"
            )
        _, result = self.call()
        one, other = self._fake(o.fake, 2), self._fake(o.fake, 3)
        real = _layouts(result)
        if len(real) != len(one):
            raise OpCheckError(f"{o.qualname}: {len(real)} results, {len(one)} of the fake impl")
        for r, f, g in zip(real, one, other, strict=True):
            if r[0] != f[0] or len(r[1]) != len(f[1]):
                raise OpCheckError(f"{o.qualname}: a result is {r}, and {f} by the fake impl")
            free = [a != b for a, b in zip(f[1], g[1], strict=True)]
            if any(a != b and not any_ for a, b, any_ in zip(r[1], f[1], free, strict=True)):
                raise OpCheckError(f"{o.qualname}: a result is {r}, and {f} by the fake impl")

    def _fake(self, fake: Callable[..., Any], size: int) -> list[Any]:
        args, kwargs = _cloned((self.args, self.kwargs))
        bound = self.operator.shortened(bind(self.operator.schema, args, kwargs))
        with _faking(size), weft.no_grad():
            result = fake(*bound.args, **bound.kwargs)
        return _layouts(self.operator.checked(result))

    def test_aot_dispatch_dynamic(self) -> None:
        """Compiled, results and gradients are what they are without; gradients are true."""
        if self.operator.schema.is_mutable:
            return
        tensors, call = self._as_function()
        compiled = weft.compile(call)
        plain, other = call(*tensors), compiled(*tensors)
        _assert_alike(plain, other, self.close)
        wanted = [t for t in tensors if t.requires_grad]
        if not wanted or not any(t.requires_grad for t in plain):
            return
        _assert_alike(_gradients(plain, wanted), _gradients(other, wanted), self.close)
        if all(t.dtype is weft.float64 for t in wanted):
            weft.autograd.gradcheck(call, tuple(tensors))

    def _as_function(self) -> tuple[list[Any], Callable[..., Any]]:
        """The tensors among the arguments, and the call as a function of them."""
        args, kwargs = _cloned((self.args, self.kwargs))
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        at = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

        def call(*tensors: Any) -> Any:
            values = list(leaves)
            for k, t in zip(at, tensors, strict=True):
                values[k] = t
            given, words = _pytree.tree_unflatten(values, spec)
            result = self.operator.overload(*given, **words)
            made = result if isinstance(result, tuple) else (result,)
            return tuple(tensors_of(made))

        return [leaves[k] for k in at], call


def _layouts(result: Any) -> list[Any]:
    made = result if isinstance(result, tuple) else (result,)
    return [(t.dtype, tuple(t.shape)) for t in tensors_of(made)]


def _gradients(results: Any, wanted: Sequence[Tensor]) -> Any:
    outputs = [r for r in results if r.requires_grad]
    ones = [weft.ones_like(r) for r in outputs]
    return weft.autograd.grad(outputs, wanted, ones, allow_unused=True)


def _assert_alike(one: Any, other: Any, close: dict[str, Any]) -> None:
    for a, b in zip(one, other, strict=True):
        if a is not None or b is not None:
            weft.testing.assert_close(a, b, equal_nan=True, **close)


_TESTS = (
    "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic",
)  # fmt: skip


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Tests what is registered for an operator by calls with these arguments.

    `test_schema`: it writes what its schema says, and results are its own. `test_faketensor`: the
    function of `register_fake` gives its layouts. `test_autograd_registration`: there is a gradient
    if one is wanted. `test_aot_dispatch_dynamic`: compiled, it gives the same; gradients of float64
    are those of finite differences.

    Returns:
        "SUCCESS" or the error, by test.

    Raises:
        OpCheckError: a test fails, unless `raise_exception` is False.
        ValueError: a test that there is not.

    >>> from weft import Tensor
    >>> @weft.library.custom_op("doc::half", mutates_args=())
    ... def half(x: Tensor) -> Tensor:
    ...     return x / 2
    >>> weft.library.opcheck(half, (weft.ones(2),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    if unknown := sorted(set(names) - set(_TESTS)):
        raise ValueError(
            f"[opcheck] expected tests among {', '.join(_TESTS)}, got {unknown} (invalid "
            "test_utils)"
        )
    case = _Case(operator_of(op, "opcheck"), args, kwargs or {}, rtol, atol)
    found: dict[str, Any] = {}
    for name in names:
        try:
            getattr(case, name)()
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            found[name] = error
        else:
            found[name] = "SUCCESS"
    return found
