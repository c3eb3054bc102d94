"""Sizes of what is cut off of free ones, and decisions by chance, against eager."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import weft  # noqa: E402

ROWS = weft.export.Dim("rows")


def mean_of_last(x: Any) -> Any:
    return x[-3:].sum(0) / x[-3:].shape[0]


def means_of_chunks(x: Any) -> Any:
    out = weft.zeros(2)
    for i in range(0, x.shape[0], 3):
        chunk = x[i : i + 3]
        out = out + chunk.sum(0) / len(chunk)
    return out


def branch_on_the_size(x: Any) -> Any:
    y = x[:3]
    return y.sum(0) if y.shape[0] == 3 else x[0] * 0


def size_of_diagonal(x: Any) -> Any:
    return x.diagonal().shape[0] + x.diagonal(1).shape[0]


def cut_by_a_size(x: Any) -> Any:
    return weft.tensor([1.0, 2.0])[: x.shape[0]].shape[0]


def sizes_as_sizes(x: Any) -> Any:
    return x[:3] + weft.zeros(x[:3].shape)


def as_many_turns(x: Any) -> Any:
    total = weft.zeros(2)
    for i in range(x[:3].shape[0]):
        total = total + x[i]
    return total


def cut_of_what_is_made(x: Any) -> Any:
    eye = weft.eye(x.shape[0])[:, :2]
    return eye.sum() / eye.shape[1] + eye.flatten().shape[0]


def rows_one_by_one(x: Any) -> Any:
    """A cut at a loop's counter has one row always, so squeeze is of ONNX."""
    total = weft.zeros(2)
    for i in range(x.shape[0]):
        total = total + x[i : i + 1].squeeze(0)
    return total


def branches_cut_on_other_sides(x: Any) -> Any:
    y = x[:2] if x.sum() > 3 else x[:2].t().reshape(-1, x[:2].shape[0])
    return y * 2


CUTS = [
    mean_of_last, means_of_chunks, branch_on_the_size, size_of_diagonal, cut_by_a_size,
    sizes_as_sizes, as_many_turns, cut_of_what_is_made, rows_one_by_one,
    branches_cut_on_other_sides,
]  # fmt: skip


@pytest.mark.parametrize("f", CUTS, ids=lambda f: f.__name__)
def test_what_is_cut_off_of_a_free_size_may_be_less(f: Callable[[Any], Any]) -> None:
    """Its size was that of the example, which had enough: of 2 rows x[:3] had 3."""
    made = weft.onnx.export(f, (weft.ones(5, 2),), dynamic_shapes={"x": {0: ROWS}})
    for rows in (1, 2, 3, 4, 7):
        x = weft.arange(2.0 * rows).view(rows, 2)
        got, expected = weft.as_tensor(made(x)[0]), weft.as_tensor(f(x))
        assert got.tolist() == expected.tolist(), rows


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.bernoulli(0.9),
        lambda x: weft.bernoulli(x * 0.9),
        lambda x: weft.nn.functional.dropout1d(x[None, :, None], 0.1, True) != 0,
        lambda x: weft.nn.functional.alpha_dropout(x, 0.1, True) > 0,
    ],
)
def test_decisions_are_not_the_opposite(f: Callable[[Any], Any]) -> None:
    """ONNX Runtime has no kernel of Bernoulli's, and its definition gave 0 for 1."""
    made = weft.onnx.export(f, (weft.ones(4000),))
    for out in (made(weft.ones(4000))[0], f(weft.ones(4000))):
        assert 0.85 < out.float().mean() < 0.95
