"""Tensors print what PyTorch prints, character for character."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

# A recipe builds a tensor from either module; what the two return must print alike.
Recipe = Callable[[ModuleType], Any]

NAN, INF = float("nan"), float("inf")
DTYPES = ["float32", "float64", "int64", "bool"]


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Sets the options in both modules, and puts the defaults back."""
    try:
        for module in (weft, torch):
            module.set_printoptions(**options)
        yield
    finally:
        for module in (weft, torch):
            module.set_printoptions(profile="default")


def assert_same_text(recipe: Recipe, **options: Any) -> None:
    with printoptions(**options):
        ours, theirs = recipe(weft), recipe(torch)
        assert repr(ours) == repr(theirs)
        assert str(ours) == str(theirs)


# --- Values ----------------------------------------------------------------------------------

FLOATS: dict[str, Any] = {
    "zero": 0.0,
    "minus_zero": -0.0,
    "one": 1.0,
    "third": 1 / 3,
    "minus_third": -1 / 3,
    "million": 1e6,
    "whole_1e8": 1e8,
    "whole_above_1e8": 1.1e8,
    "fraction_above_1e8": 123456789.5,
    "1e-4": 1e-4,
    "below_1e-4": 9.9e-5,
    "largest": 3.4e38,
    "subnormal": 1e-40,
    "nan_0d": NAN,
    "minus_inf_0d": -INF,
    "whole": [1.0, 2.0, 3.0],
    "whole_of_unlike_width": [1.0, -20.0, 300.0],
    "zeros": [0.0, -0.0, 0.0],
    "zeros_do_not_widen": [0.0, 0.25],
    "fractions": [0.5, 1.25, -2.125],
    "ratio_1000": [1.0, 1000.0],
    "ratio_above_1000": [1.0, 1001.0],
    "fraction_ratio_above_1000": [0.5, 501.0],
    "whole_large_spread": [1.0, 1e7],
    "huge_and_small": [1e-7, 1.0, 1e20],
    "all_small": [1e-5, 2e-5],
    "ties_to_even": [0.03125, 0.09375, 0.15625, 2.5, -0.03125],
    "nan_alone": [NAN],
    "inf_alone": [INF, -INF],
    "nan_and_whole": [NAN, 1.0, -20.0],
    "nan_and_fraction": [NAN, 0.5],
    "inf_wider_than_whole": [-INF, 1.0],
    "inf_and_fraction": [INF, -INF, 0.5, 1000.25],
    "inf_and_scientific": [INF, NAN, 1e-9, 1.0],
    "nan_and_zero": [NAN, 0.0],
    "matrix": [[1.0, 2.5], [-3.25, 4.0]],
    "column": [[1.0], [2.0], [3.5]],
    "block": [[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]],
    "empty": [],
    "empty_rows": [[], []],
}

INTEGERS: dict[str, Any] = {
    "zero": 0,
    "minus_one": -1,
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "row": [1, -20, 300],
    "matrix": [[1, 2], [-3, 4000]],
    "empty": [],
    "empty_block": [[[]], [[]]],
}

BOOLS: dict[str, Any] = {
    "true": True,
    "false": False,
    "row": [True, False, True],
    "only_true": [True, True],
    "matrix": [[True, False], [False, False]],
    "empty": [],
}

VALUES = [
    pytest.param(data, dtype, id=f"{dtype}-{name}")
    for table, dtypes in ((FLOATS, DTYPES[:2]), (INTEGERS, ["int64"]), (BOOLS, ["bool"]))
    for dtype in dtypes
    for name, data in table.items()
]


@pytest.mark.parametrize(("data", "dtype"), VALUES)
@pytest.mark.parametrize("sci_mode", [None, True, False])
def test_values(data: Any, dtype: str, sci_mode: bool | None) -> None:
    assert_same_text(lambda m: m.tensor(data, dtype=getattr(m, dtype)), sci_mode=sci_mode)


# --- Layout ----------------------------------------------------------------------------------


def ramp(m: ModuleType, *shape: int, dtype: str = "float32", step: float = 0.5) -> Any:
    count = int(np.prod(shape))
    return m.from_numpy((np.arange(count) * step - 7).astype(dtype).reshape(shape))


LAYOUTS: dict[str, Recipe] = {
    "size_0": lambda m: m.zeros(0),
    "size_0_int": lambda m: m.zeros(0, dtype=m.int64),
    "size_0_bool": lambda m: m.zeros(0, dtype=m.bool),
    "size_0_float64": lambda m: m.zeros(0, dtype=m.float64),
    "size_0x3": lambda m: m.zeros(0, 3),
    "size_3x0x2_int": lambda m: m.zeros(3, 0, 2, dtype=m.int64),
    "one_line_just_fits": lambda m: ramp(m, 9),
    "one_line_wraps": lambda m: ramp(m, 11),
    "long": lambda m: ramp(m, 137),
    "exactly_1000": lambda m: ramp(m, 1000, step=1),
    "beyond_1000": lambda m: ramp(m, 1001, step=1),
    "beyond_1000_by_rows": lambda m: ramp(m, 40, 40),
    "beyond_1000_few_rows": lambda m: ramp(m, 2, 700),
    "beyond_1000_six_rows": lambda m: ramp(m, 6, 200),
    "beyond_1000_seven_rows": lambda m: ramp(m, 7, 200),
    "beyond_1000_few_columns": lambda m: ramp(m, 700, 2),
    "beyond_1000_block": lambda m: ramp(m, 9, 3, 50, dtype="int64", step=1),
    "beyond_1000_bool": lambda m: ramp(m, 1001, dtype="bool"),
    "unseen_middle_has_no_say": lambda m: m.cat([m.ones(600), m.ones(9) * 1e9, m.ones(600)]),
    "deep": lambda m: ramp(m, 2, 1, 2, 1, 2, 1, 2),
    "very_deep": lambda m: ramp(m, *[1] * 40, 3),
    "wide_int": lambda m: m.tensor([[2**62, -(2**62)]] * 3),
    "transposed": lambda m: ramp(m, 3, 4).t(),
    "transposed_beyond_1000": lambda m: ramp(m, 30, 50).t(),
    "every_other": lambda m: ramp(m, 6, 9)[::2, 1::3],
    "expanded": lambda m: ramp(m, 1, 4).expand(5, 4),
    "permuted": lambda m: ramp(m, 2, 3, 4).permute(2, 0, 1),
    "row_of_matrix": lambda m: ramp(m, 4, 5)[2],
    "element_of_matrix": lambda m: ramp(m, 4, 5)[2, 3],
    "diagonal_by_stride": lambda m: ramp(m, 25)[::6],
    "permuted_int": lambda m: ramp(m, 2, 3, 4, dtype="int64").permute(1, 2, 0),
    "float64": lambda m: ramp(m, 3, 3, dtype="float64"),
}

OPTIONS: list[dict[str, Any]] = [
    {},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "default", "precision": 2},
    {"profile": "full", "linewidth": 120},
    {"precision": 0},
    {"precision": 10},
    {"precision": 8, "sci_mode": True},
    {"threshold": 5},
    {"threshold": 0, "edgeitems": 1},
    {"threshold": 5, "edgeitems": 0},
    {"threshold": 20, "edgeitems": 4, "linewidth": 30},
    {"linewidth": 1},
    {"linewidth": 200, "sci_mode": False},
    {"edgeitems": 0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, options: dict[str, Any]) -> None:
    assert_same_text(LAYOUTS[layout], **options)


def test_sci_mode_is_forgotten_by_the_next_call() -> None:
    def recipe(m: ModuleType) -> Any:
        m.set_printoptions(sci_mode=True)
        m.set_printoptions(precision=3)
        return m.tensor([1.5, 2.5])

    assert_same_text(recipe)


def test_options_add_up() -> None:
    def recipe(m: ModuleType) -> Any:
        m.set_printoptions(threshold=4)
        m.set_printoptions(edgeitems=1)
        return m.arange(10)

    assert_same_text(recipe)


# --- Suffixes --------------------------------------------------------------------------------


def leaf(m: ModuleType, *shape: int, dtype: str = "float32") -> Any:
    return ramp(m, *shape, dtype=dtype).requires_grad_()


SUFFIXES: dict[str, Recipe] = {
    "requires_grad": lambda m: leaf(m, 3),
    "requires_grad_float64": lambda m: leaf(m, 3, dtype="float64"),
    "requires_grad_empty": lambda m: leaf(m, 0, 3, dtype="float64"),
    "grad_fn": lambda m: leaf(m, 3) * 2,
    "grad_fn_0d": lambda m: leaf(m, 3).sum(),
    "grad_fn_float64": lambda m: leaf(m, 3, dtype="float64") * 2,
    "grad_fn_matrix": lambda m: leaf(m, 3, 4) * 2,
    "grad_fn_of_view": lambda m: leaf(m, 3, 4).t(),
    "detached": lambda m: (leaf(m, 3) * 2).detach(),
    "parameter": lambda m: m.nn.Parameter(ramp(m, 2, 3)),
    "parameter_float64": lambda m: m.nn.Parameter(ramp(m, 3, dtype="float64")),
    "parameter_frozen": lambda m: m.nn.Parameter(ramp(m, 3), requires_grad=False),
    "parameter_0d": lambda m: m.nn.Parameter(m.tensor(1.5)),
    "parameter_empty": lambda m: m.nn.Parameter(m.zeros(0, 2)),
    **{
        # The row of n elements ends at every column near the edge of the line.
        f"row_of_{n}": lambda m, n=n: leaf(m, n, dtype="float64") * 2
        for n in range(2, 12)
    },
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_suffixes(suffix: str, options: dict[str, Any]) -> None:
    assert_same_text(SUFFIXES[suffix], **options)


@pytest.mark.parametrize("linewidth", range(30, 96))
def test_suffixes_move_to_new_lines_at_the_same_width(linewidth: int) -> None:
    assert_same_text(lambda m: leaf(m, 6, dtype="float64") * 2, linewidth=linewidth)


def test_default_dtype_needs_no_suffix() -> None:
    def texts(m: ModuleType) -> list[str]:
        m.set_default_dtype(m.float64)
        try:
            return [
                repr(m.zeros(2)),
                repr(m.zeros(0)),
                repr(m.zeros(2, dtype=m.float32)),
                repr(m.zeros(0, dtype=m.float32)),
            ]
        finally:
            m.set_default_dtype(m.float32)

    assert texts(weft) == texts(torch)


# --- f-strings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "spec"),
    [
        (2.5, ""),
        (2.5, ".3f"),
        (2.5, ">10.2e"),
        (3, ""),
        (3, "05d"),
        (True, ""),
        ([1.0, 2.0], ""),
    ],
)
def test_format(data: Any, spec: str) -> None:
    assert format(weft.tensor(data), spec) == format(torch.tensor(data), spec)


def test_format_of_a_tensor_with_grad() -> None:
    def text(m: ModuleType) -> str:
        return f"{(m.tensor(1.5, requires_grad=True) * 2):.2f}"

    assert text(weft) == text(torch)


def test_format_spec_needs_one_element() -> None:
    for m in (weft, torch):
        with pytest.raises(TypeError):
            format(m.tensor([1.0]), ".2f")


# --- Random ----------------------------------------------------------------------------------


def random_floats(rng: np.random.Generator, count: int) -> np.ndarray:
    """Values of one flavour, so that every way of writing them comes up often."""
    normal = rng.standard_normal(count)
    flavour = rng.integers(9)
    if flavour == 0:
        values = normal
    elif flavour == 1:
        values = np.round(normal * 10.0 ** rng.integers(0, 12))
    elif flavour == 2:
        values = normal * 10.0 ** rng.integers(-12, 12)
    elif flavour == 3:
        values = normal * 10.0 ** rng.integers(-6, 6, count)
    elif flavour == 4:
        values = normal * 10.0 ** rng.integers(-37, 37, count)
    elif flavour == 5:
        values = rng.integers(-200, 200, count) / 32  # many ties at four digits
    elif flavour == 6:
        values = rng.integers(-1, 2, count).astype(float)
    elif flavour == 7:
        values = 1 + rng.random(count) * 999.2  # about the ratio of 1000
    else:
        values = rng.choice([1e-4, 1e8, 99999999.5, 9999.99995, 0.99995, 1e-5], count)
    for special in (0.0, -0.0, NAN, INF, -INF):
        if rng.random() < 0.15:
            values[rng.random(count) < rng.random()] = special
    return values


def random_array(rng: np.random.Generator) -> np.ndarray:
    dtype = rng.choice(DTYPES, p=[0.45, 0.3, 0.15, 0.1])
    shape = rng.integers(
        1, rng.choice([3, 6, 12]), rng.choice(6, p=[0.1, 0.3, 0.3, 0.15, 0.1, 0.05])
    )
    if rng.random() < 0.1:
        shape = rng.integers(20, 60, 2)
    if shape.size and rng.random() < 0.05:
        shape[rng.integers(shape.size)] = 0
    count = int(np.prod(shape))
    if dtype == "bool":
        values = rng.random(count) < 0.5
    elif dtype == "int64":
        values = np.round(rng.standard_normal(count) * 10.0 ** rng.integers(0, 18)).astype(dtype)
    else:
        with np.errstate(over="ignore"):
            values = random_floats(rng, count).astype(dtype)
    return values.reshape(tuple(shape))


def random_view(rng: np.random.Generator, rank: int) -> Callable[[Any], Any]:
    if rank == 0 or rng.random() < 0.6:
        return lambda t: t
    order = rng.permutation(rank).tolist()
    step = int(rng.integers(1, 4))
    return [
        lambda t: t.permute(order),
        lambda t: t[..., ::step],
        lambda t: t[::step].transpose(0, -1),
        lambda t: t.unsqueeze(0).expand(step, *t.shape),
    ][rng.integers(4)]


def random_options(rng: np.random.Generator) -> dict[str, Any]:
    candidates = {
        "precision": int(rng.integers(0, 13)),
        "threshold": int(rng.choice([0, 3, 10, 30, 100, 500])),
        "edgeitems": int(rng.integers(0, 6)),
        "linewidth": int(rng.integers(5, 160)),
        "sci_mode": bool(rng.integers(2)),
        "profile": str(rng.choice(["default", "short"])),
    }
    return {name: value for name, value in candidates.items() if rng.random() < 0.25}


def random_case(seed: int) -> tuple[Recipe, dict[str, Any]]:
    """A tensor of random dtype, shape, values, view and suffix, with random print options."""
    rng = np.random.default_rng(seed)
    array = random_array(rng)
    view = random_view(rng, array.ndim)
    grad = rng.choice(["none", "leaf", "node"], p=[0.6, 0.2, 0.2])

    def recipe(m: ModuleType) -> Any:
        tensor = view(m.from_numpy(array.copy()))
        if array.dtype.kind != "f" or grad == "none":
            return tensor
        tensor.requires_grad_()
        return tensor * 1 if grad == "node" else tensor

    return recipe, random_options(rng)


@pytest.mark.parametrize("seed", range(300))
def test_random(seed: int) -> None:
    recipe, options = random_case(seed)
    assert_same_text(recipe, **options)
