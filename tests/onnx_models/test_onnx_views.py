"""Views of free sizes: a write through one reaches its base, whatever of it the example has."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from drawn_programs import runs_that_agree  # noqa: E402
from test_onnx_models import agrees  # noqa: E402
from view_programs import program  # noqa: E402

import weft  # noqa: E402
from weft.onnx import NotOnnx, export  # noqa: E402

FREE = {"dynamic_shapes": {"x": {0: "n"}}}
SIZES = (1, 2, 3, 4, 5, 8, 9, 0)
INPUTS = [(weft.arange(3.0 * n).reshape(n, 3) - 1) * 0.5 for n in SIZES]


def eager(f: Any, x: weft.Tensor) -> list[np.ndarray[Any, Any]] | None:
    try:
        return [t.numpy().copy() for t in f(x.clone())]
    except (RuntimeError, IndexError, ValueError):  # of what was drawn
        return None


@pytest.mark.parametrize("part", range(4))
def test_drawn_programs_are_refused_or_give_what_eager_gives(part: int, tmp_path: Path) -> None:
    ran = runs_that_agree(
        program, range(part, 240, 4), eager, INPUTS[2 * part], INPUTS, tmp_path
    )
    assert ran > 30


def added_to(x):
    y = x.clone()
    v = y[1:-4]
    v += 100
    return y


def where_it_is_large(x):
    y = x.clone()
    v = y[4:]
    v[v > 1] = 9
    return y


def filled(x):
    y = x.clone()
    y[5:].fill_(7)
    return y


def view_of_a_view(x):
    y = x.clone()
    v = y[2:][3:]
    v[1:] *= -1
    return y, v


def with_an_item(x):
    y = x.clone()
    y[6:][:1] = 3
    return y


def read_behind_a_write(x):
    y = x.clone()
    tail = y[5:]
    y += 100
    return tail


def of_nothing(x):
    """Both are memory of no bytes in the example."""
    y = x[5:].clone()
    v = y[1:]
    v += 1
    return y


def of_a_list_that_grew(x):
    rows = []
    for i in range(x.shape[0]):
        rows.append(x[i] * 2)
    y = weft.stack(rows)
    y[2:].mul_(100)
    v = y[3:]
    v += 1
    return y


def on_one_way(x):
    y = x.clone()
    v = y[4:]
    if x.sum() > 3:
        v += 5
    return y


def in_each_turn(x):
    y = x.clone()
    for i in range(x.shape[0]):
        v = y[i + 4 :]
        v += i
    return y


WRITTEN = [added_to, where_it_is_large, filled, view_of_a_view, with_an_item, read_behind_a_write,
           of_nothing, of_a_list_that_grew, on_one_way, in_each_turn]  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 5, 9])
@pytest.mark.parametrize("f", WRITTEN, ids=lambda f: f.__name__)
def test_a_view_without_elements_in_the_example_is_one(f: Callable[..., Any], n: int) -> None:
    """What is a view was read off the memory of the example, which an empty tensor has none of:
    the base kept what it had, of all sizes, without a word."""
    made = export(f, (weft.arange(1.0, n + 1),), **FREE)
    agrees(f, made.model_proto, [(weft.arange(1.0, m + 1),) for m in (1, 3, 5, 6, 9, 12)])


def copied_where_it_has_columns(x):
    y = x * 2
    v = y.t()[:, 4:].contiguous()
    v += 100
    return y, v


def flat_where_it_has_columns(x):
    y = x * 2
    v = y.t()[:, 4:].reshape(-1)
    v += 100
    return y, v


def square_or_not(x):
    """Of three columns it is a view that lies as they do, of others a copy: so is what follows."""
    y = x * 2
    v = y.t().reshape(-1, 3)
    v.reshape(-1)[1:].fill_(5)
    return v


@pytest.mark.parametrize("n", [4, 5, 9])
@pytest.mark.parametrize(
    "f", [copied_where_it_has_columns, flat_where_it_has_columns, square_or_not]
)
def test_columns_that_the_example_has_none_or_one_of_tell_no_strides(f: Any, n: int) -> None:
    """None and one lie in a row, more do not: `contiguous` of them was taken for no copy, and what
    may be a view that lies otherwise for a tensor that lies in a row."""
    with pytest.raises(NotOnnx, match="may be the one that is written in place"):
        export(f, (weft.ones(n, 3),), **FREE)


def test_a_write_to_elements_that_are_one_memory_is_refused() -> None:
    """Each element was written once, with the value of the last."""

    def f(x: weft.Tensor) -> weft.Tensor:
        y = x * 1
        y.unfold(0, 2, 1)[2:].mul_(2)
        return y

    for n in (2, 4, 8):
        with pytest.raises(NotOnnx, match="several elements are one memory"):
            export(f, (weft.ones(n),), **FREE)
