"""What the tests of `weft.nn` share: a comparison with PyTorch, and modules without chance.

`agree` runs the same snippet with weft and with PyTorch; a snippet takes the library as `t`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import weft


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "requires_grad") and hasattr(value, "detach")


def _is_module(value: Any) -> bool:
    return hasattr(value, "named_parameters") and hasattr(value, "forward")


def _words(text: str) -> str:
    """The text in PyTorch's names, whatever file of ours a class lives in."""
    text = re.sub(r"\b(weft|torch)\.nn\.(modules\.)?[a-z_]+\.(\w)", r"torch.nn.\3", text)
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace("weft", "torch")


def _expect_same(ours: Any, theirs: Any, where: str, rtol: float, atol: float) -> None:
    if _is_tensor(theirs):
        assert _is_tensor(ours), where
        assert tuple(ours.shape) == tuple(theirs.shape), where
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], where
        assert ours.requires_grad == theirs.requires_grad, where
        ours, theirs = ours.detach().numpy(), theirs.detach().numpy()
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=where)
    elif _is_module(theirs):
        assert _words(repr(ours)) == _words(repr(theirs)), where
    elif isinstance(theirs, Mapping):
        assert list(ours) == list(theirs), where
        for key in theirs:
            _expect_same(ours[key], theirs[key], f"{where}[{key!r}]", rtol, atol)
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), (where, ours, theirs)
        for i, (a, b) in enumerate(zip(ours, theirs)):
            _expect_same(a, b, f"{where}[{i}]", rtol, atol)
    elif isinstance(theirs, str):
        assert _words(ours) == _words(theirs), where
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=rtol, abs=atol), where
    elif isinstance(theirs, int | bool | None):
        assert ours == theirs, where
    else:
        assert _words(repr(ours)) == _words(repr(theirs)), where


def _run(snippet: Callable[[Any], Any], lib: Any) -> tuple[Any, Exception | None]:
    lib.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return snippet(lib), None
        except Exception as error:
            return None, error


@pytest.fixture
def agree(torch: Any) -> Callable[..., None]:
    """`agree(snippet, messages=True, rtol, atol)`: `snippet(weft)` and `snippet(torch)` agree.

    Tensors in value, shape, dtype and `requires_grad`; modules in how they print; errors in type
    and, with `messages`, in their text.
    """

    def check(
        snippet: Callable[[Any], Any],
        messages: bool = True,
        rtol: float = 1e-5,
        atol: float = 1e-6,
    ) -> None:
        ours, our_error = _run(snippet, weft)
        theirs, their_error = _run(snippet, torch)
        if their_error is not None:
            assert our_error is not None, f"no {type(their_error).__name__}: {their_error}"
            assert isinstance(our_error, type(their_error)), repr(our_error)
            if messages:
                assert _words(str(our_error)) == _words(str(their_error))
            return
        if our_error is not None:
            raise our_error
        _expect_same(ours, theirs, "result", rtol, atol)

    return check


def _numbers(t: Any, *shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = None) -> Any:
    n = int(np.prod(shape))
    order = (np.arange(n) * 7919) % max(n, 1)  # a permutation: 7919 is prime
    values = low + (high - low) * order / max(n - 1, 1)
    return t.tensor(values.reshape(shape), dtype=dtype or t.float32)


@pytest.fixture
def numbers() -> Callable[..., Any]:
    """`numbers(t, *shape, low, high, dtype)`: numbers in [low, high], the same ones each time."""
    return _numbers


def _fixed(module: Any, t: Any) -> Any:
    with t.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(_numbers(t, *p.shape, low=-0.8, high=0.9) + i / 20)
    return module


@pytest.fixture
def fixed() -> Callable[..., Any]:
    """`fixed(module, t)`: the module with parameters that do not depend on chance."""
    return _fixed


def _small(t: Any) -> Any:
    m = t.nn.Linear(2, 3)
    m.register_buffer("scale", t.ones(3))
    m.register_buffer("cache", t.zeros(1), persistent=False)
    m.register_buffer("none", None)
    m.child = t.nn.Sequential(t.nn.Linear(3, 3), t.nn.ReLU())
    m.again = m.child
    m.tied = t.nn.Parameter(t.zeros(1))
    m.child.tied = m.tied
    m.missing = None
    m.add_module("reserved", None)
    return _fixed(m, t)


@pytest.fixture
def small() -> Callable[..., Any]:
    """`small(t)`: parameters, buffers, a shared child, a shared parameter, a missing child."""
    return _small


def _weights(x: Any) -> Any:
    """A constant of x's shape and dtype, made by x's library."""
    values = 0.1 + 0.9 * ((np.arange(x.numel()) * 7919) % max(x.numel(), 1)) / max(x.numel() - 1, 1)
    return x.detach().new_tensor(values.tolist()).reshape(x.shape)


@pytest.fixture
def run() -> Callable[..., Any]:
    """`run(module, *inputs)`: output and all gradients, of a loss that weighs all elements."""

    def go(module: Any, *inputs: Any) -> Any:
        inputs = tuple(x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs)
        out = module(*inputs)
        outs = out if isinstance(out, tuple) else (out,)
        loss = sum((o * _weights(o)).sum() for o in outs)
        if loss.requires_grad:
            loss.backward()
        grads = [x.grad for x in inputs if x.is_floating_point()]
        return out, grads, [p.grad for p in module.parameters()], repr(module)

    return go
