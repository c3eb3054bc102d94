"""Models with a free batch, of a batch of none: ONNX Runtime and `weft.onnx.load`."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from test_onnx_models import agrees  # noqa: E402

import weft  # noqa: E402
from weft import nn  # noqa: E402
from weft.onnx import export, load  # noqa: E402

F = nn.functional
N, NT = {0: "n"}, {0: "n", 1: "t"}
CASES: list[tuple[str, Callable[..., Any], dict[int, str]]] = [
    ("flatten", lambda x: x.flatten(1), NT),
    ("flatten the middle", lambda x: x[..., None].flatten(1, 2), NT),
    ("flatten the rows", lambda x: x.flatten(0, 1), NT),
    ("GroupNorm", nn.GroupNorm(2, 4).eval(), N),
    ("GroupNorm of free lengths", nn.GroupNorm(2, 4).eval(), {0: "n", 2: "t"}),
    ("LSTM", nn.LSTM(6, 5, batch_first=True), NT),
    ("GRU", nn.GRU(6, 5, batch_first=True), NT),
    ("RNN both ways", nn.RNN(6, 5, 2, bidirectional=True, batch_first=True), N),
    ("encoder", nn.TransformerEncoderLayer(6, 2, 8, batch_first=True).eval(), NT),
    ("interpolate", lambda x: F.interpolate(x[:, None], size=(5, 4)), N),
]


@pytest.mark.parametrize("opset", [21, 23])
@pytest.mark.parametrize(("name", "f", "free"), CASES, ids=[c[0] for c in CASES])
def test_a_batch_of_none(name: str, f: Any, free: dict[int, str], opset: int) -> None:
    """Reshape to (0, -1) has no size for the -1; LSTM and Attention of ONNX Runtime want rows, and
    `load` divided by the size."""
    made = export(f, (weft.randn(3, 4, 6),), opset_version=opset, input_names=["x"],
                  dynamic_axes={"x": free})  # fmt: skip
    back = load(made)
    for x in (weft.randn(3, 4, 6), weft.zeros(0, 4, 6), weft.randn(1, 4, 6)):
        if "RNN" in name or name in ("LSTM", "GRU"):
            with weft.no_grad():
                y = f(x)
            state = y[1] if isinstance(y[1], tuple) else (y[1],)
            agrees(lambda x, y=y, s=state: (y[0], *s), made.model_proto, [(x,)])
            assert back(x)[0].shape == y[0].shape
        else:
            agrees(f, made.model_proto, [(x,)])
            assert weft.allclose(back(x), f(x), atol=1e-5)


def test_a_list_with_a_first_item_after_no_turn() -> None:
    """`load` joined the first with rows of other sizes, which nothing tells."""

    def f(x: weft.Tensor) -> weft.Tensor:
        outs = [x[:1] * 0]
        for i in range(1, x.shape[0]):
            outs.append(x[i : i + 1] + 1)
        return weft.cat(outs)

    made = export(f, (weft.ones(3, 4),), dynamic_axes={"x": {0: "n"}})
    for n in (1, 2, 5):
        assert load(made)(weft.ones(n, 4)).tolist() == f(weft.ones(n, 4)).tolist()
