"""Ways out of branches, one behind the other: what is behind them is written once."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from alias_programs import function_in  # noqa: E402
from test_onnx_models import agrees  # noqa: E402

import weft  # noqa: E402
from weft.onnx import NotOnnx, export  # noqa: E402

T = weft.tensor
GIVEN = [(T([a, b]),) for a in (-3.0, 0.0, 2.0, 9.0) for b in (-3.0, 1.0, 4.0, 9.0)]

RETURNS = """\
    if x[0] > {k}:
        if x[1] > {k}: return x + {k}
        x = x * 2
    else:
        x = x + 1
"""
OTHER_KINDS = """\
    if x[0] > {k}:
        if x[1] > {k}: return x
        y, z, n = (x, None), [x + 1, x], {k}
        x = y[0] * 2
    else:
        y, z, n = (x * 3, None), [x, x], {k}
        x = x + 1
    x = x + y[0] * 0.5 + z[0] * n
"""
WRITES = """\
    if x[0] > {k}:
        x += 1
        if x[1] > {k}: return x, y
        y[1:] *= 0.5
    else:
        x -= 0.25
"""
TURNS = """\
        if x[0] > i:
            if x[1] > {k} + i: WAY
            x = x * 0.5
        else:
            x = x + 1
"""


def function(folder: Path, count: int, block: str, before: str = "pass", result: str = "x") -> Any:
    blocks = "".join(block.format(k=k) for k in range(count))
    text = f"def f(x):\n    {before}\n{blocks}    return {result}\n"
    return function_in(folder / f"row_{count}.py", text)


CASES = [
    (RETURNS, "pass", "x"), (OTHER_KINDS, "pass", "x"),
    (WRITES, "x = x * 1; y = x[1:] + 2", "x, y"),
    *((TURNS.replace("WAY", way), "y = x\n    for i in range(3):", "x + y")
      for way in ("break", "continue", "return x * 7")),
]  # fmt: skip


@pytest.mark.parametrize(("block", "before", "result"), CASES)
def test_a_way_out_makes_the_model_longer_by_as_much_as_the_one_before(
    block: str, before: str, result: str, tmp_path: Path
) -> None:
    """What is behind a branch of which both ways go on, and one may leave, was written for each:
    ten of them were a thousand copies."""
    sizes = []
    for count in (4, 6, 8):
        f = function(tmp_path, count, block, before, result)
        made = export(f, (T([1.0, 2]),))
        agrees(lambda x, f=f: f(x.clone()), made.model_proto, GIVEN)
        sizes.append(made.model_proto.ByteSize())
    assert sizes[2] - sizes[1] < 2 * (sizes[1] - sizes[0])


def test_what_is_too_deep_for_a_file_is_refused_by_line(tmp_path: Path) -> None:
    """It was an error of protobuf's."""
    with pytest.raises(NotOnnx, match=r"row_40.py:\d+: branches and loops more than 30 deep"):
        export(function(tmp_path, 40, RETURNS), (T([1.0, 2]),))


def test_variables_that_cannot_be_joined_are_written_for_each_way(tmp_path: Path) -> None:
    """y has one dimension on one way and none on the other."""
    block = RETURNS.replace("x + {k}", "x, y.sum()")
    block = block.replace("x * 2", "x * 2; y = x").replace("x + 1\n", "x + 1; y = x.sum()\n")
    f = function(tmp_path, 4, block, "y = x", "x, y.sum()")
    agrees(f, export(f, (T([1.0, 2]),)).model_proto, GIVEN)
    f = function(tmp_path, 12, block, "y = x", "x, y.sum()")
    with pytest.raises(NotOnnx, match="more than 8 branches in a row"):
        export(f, (T([1.0, 2]),))
