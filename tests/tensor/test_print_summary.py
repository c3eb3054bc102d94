"""`set_printoptions(summary=True)`: what a repr tells of a tensor's elements."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def off_again() -> Iterator[None]:
    yield
    weft.set_printoptions(summary=False)


def summary(t: weft.Tensor) -> str:
    """What the repr has besides the text without."""
    weft.set_printoptions(summary=True)
    text = " ".join(repr(t).split())
    found = re.search(r"(?:, (?:nan|inf|range|mean|std|abs|true)=(?:\[.*?\]|[^,)]+))+", text)
    weft.set_printoptions(summary=False)
    plain = " ".join(repr(t).split())
    assert (text.replace(found[0], "") if found else text) == plain
    return found[0][2:] if found else ""


CASES: list[tuple[Any, str]] = [
    ([1.0, 3.0], "range=[1, 3], mean=2, std=1.414"),
    ([1.0, NAN, 3.0, INF, -INF], "nan=1, inf=2, range=[1, 3], mean=2, std=1.414"),
    ([NAN, NAN], "nan=2"),
    ([5.0, INF], "inf=1, range=[5, 5], mean=5"),
    ([1, 2, 6], "range=[1, 6], mean=3, std=2.646"),
    ([True, False, True], "true=2/3"),
    ([3 + 4j, 0j], "abs=[0, 5], mean=2.5, std=3.536"),
    (2.5, ""),
    (NAN, ""),
    ([], ""),
    ([7.0], ""),
]


@pytest.mark.parametrize(("values", "expected"), CASES, ids=lambda v: str(v)[:30])
def test_says(values: Any, expected: str) -> None:
    assert summary(weft.tensor(values)) == expected


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int64", "uint8", "int16"]
)
@pytest.mark.parametrize("layout", ["dense", "transposed", "strided", "expanded"])
def test_agrees_with_numpy(dtype: str, layout: str) -> None:
    values = np.random.default_rng(0).integers(0, 100, (6, 8))
    t = weft.tensor(values.tolist(), dtype=getattr(weft, dtype))
    views = {"dense": t, "transposed": t.t(), "strided": t[::2, 1::3]}
    t = views.get(layout, t[:, :1].expand(6, 5))
    a = np.array(t.tolist(), dtype=float)
    expected = f"range=[{a.min():.6g}, {a.max():.6g}], mean={a.mean():.4g}, std={a.std(ddof=1):.4g}"
    assert summary(t) == expected


def test_a_spread_far_from_zero_is_right() -> None:
    t = weft.tensor([1e8, 1e8 + 16, 1e8 - 16], dtype=weft.float64)
    assert summary(t).endswith("std=16")


def test_on_and_off_between_other_suffixes() -> None:
    x = weft.ones(2, dtype=weft.float64, requires_grad=True)
    plain = repr(x * 2)
    weft.set_printoptions(summary=True)
    text = " ".join(repr(x * 2).split())
    assert "range=[2, 2], mean=2, std=0, dtype=torch.float64, grad_fn=<Mul" in text
    weft.set_printoptions(precision=3)
    assert "mean=2" in repr(x * 2)  # other options leave it
    weft.set_printoptions(profile="default", summary=False)
    assert repr(x * 2) == plain


def test_of_a_parameter_and_within_a_batch() -> None:
    weft.set_printoptions(summary=True)
    assert "mean=1" in repr(weft.nn.Parameter(weft.ones(3)))
    texts: list[str] = []

    def f(x: weft.Tensor) -> weft.Tensor:
        y = x * 2
        texts.append(repr(y))
        return y

    weft.autobatch(f)([weft.ones(2), weft.zeros(2)])
    assert ["mean=2" in texts[0], "mean=0" in texts[1]] == [True, True]


def test_reading_for_it_is_neither_recorded_nor_differentiated() -> None:
    weft.set_printoptions(summary=True)
    x = weft.ones(2, 3, requires_grad=True)
    with weft.record() as g:
        repr(x.t())
    assert [e.name for e in g.calls] in (["t"], ["transpose"])
