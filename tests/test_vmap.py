"""vmap for all examples at once against its plain loop: every op of the table, by its samples."""

import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_samples import CASES, RECORDS, Inputs, flat, ours

import weft
from weft import _C
from weft.base import mapping

SIZE = 3


class Example(Inputs):
    """The tensors of one example of several."""

    def __init__(self, sample: str, number: int) -> None:
        super().__init__(weft, "float64", sample)
        self.rng = np.random.default_rng(zlib.crc32(f"{sample} {number}".encode()))


class Given(Inputs):
    """Tensors handed out instead of made."""

    def __init__(self, sample: str, tensors: tuple[Any, ...]) -> None:
        super().__init__(weft, "float64", sample)
        self.tensors = iter(tensors)

    def T(self, *sizes: int, lo: float = -2, hi: float = 2) -> Any:
        return next(self.tensors)

    I = B = T  # noqa: E741


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Of each level that ends, whether it went alone."""
    ends: list[bool] = []
    end = _C._map_end

    def noted(level: Any) -> bool:
        ends.append(end(level))
        return ends[-1]

    monkeypatch.setattr(_C, "_map_end", noted)
    yield ends


def both_ways(f: Callable[[], Any]) -> tuple[Any, Any]:
    """What `f` gives at once and by the loop; an exception counts as its type."""
    out: list[Any] = []
    for on in (True, False):
        mapping.enabled = on
        weft.manual_seed(3)
        try:
            out.append(flat(f()))
        except Exception as error:
            out.append(error)
        finally:
            mapping.enabled = True
    return out[0], out[1]


def assert_same(a: Any, b: Any) -> None:
    if isinstance(b, Exception):
        assert type(a) is type(b), (a, b)
        return
    if isinstance(a, Exception):
        raise a
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype and x.requires_grad == y.requires_grad
        np.testing.assert_allclose(
            np.array(x.detach().tolist()), np.array(y.detach().tolist()), 1e-9, 1e-9
        )


class Mapping:
    """A sample as a function of one example, and batches of its tensors, each mapped or not."""

    def __init__(self, name: str, sample: str, seed: int) -> None:
        rng = random.Random(f"{name} {sample} {seed}")
        self.f, self.sample = ours(RECORDS[name]), sample
        examples = [Example(sample, b) for b in range(SIZE)]
        try:
            for e in examples:
                e.run(self.f, sample)
        except Exception:
            pytest.skip("other values do not fit")
        self.dims: list[Any] = []
        self.values = []
        for column in zip(*(e.made for e in examples), strict=True):
            mapped = rng.random() < 0.7 or not any(d is not None for d in self.dims)
            self.dims.append(rng.randint(0, column[0].dim()) if mapped else None)
            self.values.append(weft.stack(column, self.dims[-1]) if mapped else column[0])
        self.floats = tuple(i for i, v in enumerate(self.values) if v.is_floating_point())

    def one(self, *tensors: Any) -> Any:
        given = Given(self.sample, tensors)
        names = {"f": self.f, "T": given.T, "I": given.I, "B": given.B, "weft": weft}
        return tuple(flat(eval(self.sample, names)))

    def scalar(self, *tensors: Any) -> Any:
        total = weft.zeros((), dtype=weft.float64)
        for k, t in enumerate(self.one(*tensors)):
            if t is not None and t.is_floating_point():
                weight = weft.arange(1, t.numel() + 1, dtype=weft.float64).reshape(t.shape).cos()
                total = total + (t.double() * (weight + k)).sum()
        return total

    def vmap(self, f: Any = None) -> Any:
        return weft.vmap(f or self.one, tuple(self.dims), randomness="different")


WITH_TENSORS = [
    (n, s) for n, s in CASES
    if ("T(" in s or "I(" in s or "B(" in s) and n != "empty_like"
]  # fmt: skip
DIFFERENTIABLE = [
    (n, s) for n, s in WITH_TENSORS
    if (RECORDS[n]["differentiable"] or RECORDS[n]["composite"]) and "T(" in s
]  # fmt: skip
# What no call does for all examples at once: results of unlike shapes, views past the sizes, and
# kernels that see the memory of other examples.
ALONE = {
    "_first", "_one_of_several", "_pack", "_region", "_take", "argwhere", "as_strided",
    "masked_select", "multinomial", "nonzero", "one_hot", "repeat_interleave",
    "repeat_interleave.tensor", "view", "view.dtype",
    "view_as_complex",
}  # fmt: skip
# Gradients that are views as complex numbers, or past the sizes.
ALONE_BACKWARD = ALONE | {"_fft_r2c", "complex", "polar"}


@pytest.mark.parametrize(("name", "sample"), WITH_TENSORS)
def test_vmap_is_the_loop(name: str, sample: str, alone: list[bool]) -> None:
    m = Mapping(name, sample, 0)
    one_by_one, loop = both_ways(lambda: m.vmap()(*m.values))
    if not RECORDS[name]["random"]:  # which are drawn in another order: see tests/test_func.py
        assert_same(one_by_one, loop)
    assert not any(alone) or name in ALONE or isinstance(loop, Exception)


@pytest.mark.parametrize(("name", "sample"), DIFFERENTIABLE)
def test_gradients_of_examples_are_the_loops(name: str, sample: str, alone: list[bool]) -> None:
    m = Mapping(name, sample, 2)
    grad = weft.func.grad(m.scalar, m.floats)
    at_once, loop = both_ways(lambda: m.vmap(grad)(*m.values))
    if not RECORDS[name]["random"]:
        assert_same(at_once, loop)
    assert not any(alone) or name in ALONE or isinstance(loop, Exception)


@pytest.mark.parametrize(("name", "sample"), DIFFERENTIABLE)
def test_jacobians_are_the_loops(name: str, sample: str, alone: list[bool]) -> None:
    m = Mapping(name, sample, 3)
    values = [v if d is None else v.select(d, 0) for v, d in zip(m.values, m.dims, strict=True)]
    for f in (weft.func.jacrev(m.one, m.floats), weft.func.jacfwd(m.scalar, m.floats)):
        at_once, loop = both_ways(lambda f=f: f(*values))
        assert_same(at_once, loop)
        assert not any(alone) or name in ALONE_BACKWARD or isinstance(loop, Exception)


@pytest.mark.parametrize(("name", "sample"), DIFFERENTIABLE)
def test_the_graph_of_results_is_the_loops(name: str, sample: str) -> None:
    if RECORDS[name]["random"]:
        pytest.skip("other numbers")
    m = Mapping(name, sample, 4)

    def second() -> Any:
        leaves = [v.clone().requires_grad_() if v.is_floating_point() else v for v in m.values]
        wanted = [leaves[i] for i in m.floats]
        total = m.vmap(m.scalar)(*leaves).pow(2).sum()
        if not total.requires_grad:
            return []
        first = weft.autograd.grad(total, wanted, create_graph=True, materialize_grads=True)
        again = sum((g * g).sum() for g in first)
        if not again.requires_grad:
            return first
        return [*first, *weft.autograd.grad(again, wanted, materialize_grads=True)]

    assert_same(*both_ways(second))
