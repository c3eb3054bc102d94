"""Models of every opset that is offered: whole models, branches and loops, and each record once."""

from typing import Any

import numpy as np
import pytest
from op_samples import Inputs
from record_runs import NOT_RUN, RECORDS, UNSET, entered, name_of

import weft
from weft import nn

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from weft.onnx import NotOnnx, export  # noqa: E402
from weft.onnx.builder import Builder  # noqa: E402
from weft.onnx.graph import ELEM, Model  # noqa: E402
from weft.onnx.model import model_of  # noqa: E402
from weft.onnx.opsets import OPSETS, _schema, _text, _types  # noqa: E402
from weft.onnx.records import has_form  # noqa: E402
from weft.onnx.walk import Walk  # noqa: E402

onnxruntime.set_default_logger_severity(4)
SEEN = (16, 17, 18, 19, 20, 21, 22, 23)
# What an opset has no operator for, of the samples of all records.
ALWAYS = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}  # output_padding of theirs
REFUSED = {
    16: {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_right_shift",
         "col2im", "_scatter_reduce", "pad", "_grid_sample"},
    18: {"pad", "_grid_sample"},
}  # fmt: skip
REFUSED[17] = REFUSED[16]


def session_of(made: Any) -> Any:
    """A session of a model that its opset allows: operators, attributes and types."""
    onnx.checker.check_model(made, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(made.SerializeToString(), options)


class Net(nn.Module):
    """Layers whose operators differ between opsets."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.norm, self.gelu = nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x):
        y = self.gelu(self.norm(self.wide(x)))
        y = self.cell(y) + nn.functional.gelu(y, approximate="tanh")
        return y.softmax(-1).amax(0), y.mean(1), y.var(0), y.prod(-1)


def turns(x, n):
    total, rows, k = weft.zeros(3), [], 0
    small = x.to(weft.int32)
    true = x[0] > 0
    while total.sum() < n:
        k = k + 1
        total = total + x.abs() * k
        small = small + 1
        true = true & (total[0] < 50)
        rows.append(total * 2)
    if total.sum() > 2 * n:
        y, flag = total.double(), true
    else:
        y, flag = -total.double(), ~true
    return y, flag, small, weft.stack(rows), k


def halves(x):
    while x.sum() < 8:
        x = x * 2
    if x[0] > x[1]:
        x = x + 1
    return x


@pytest.mark.parametrize("opset", SEEN)
def test_layers_of_every_opset(opset: int) -> None:
    model, x = Net().eval(), weft.randn(5, 4)
    made = export(model, (x,), opset_version=opset, dynamic_axes={"x": {0: "n"}}).model_proto
    assert made.opset_import[0].version == opset
    assert made.ir_version == {16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}[opset]
    session, again = session_of(made), weft.onnx.load(made)
    for given in (x, weft.randn(3, 4)):
        with weft.no_grad():
            expected = model(given)
            loaded = again(given)
        got = session.run(None, {"x": given.numpy()})
        for a, b, c in zip(got, expected, loaded, strict=True):
            np.testing.assert_allclose(a, b.numpy(), 1e-4, 1e-5)
            np.testing.assert_allclose(c.numpy(), b.numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("opset", SEEN)
def test_branches_and_loops_of_every_opset(opset: int) -> None:
    args = (weft.tensor([0.5, 1.5, -1.0]), weft.tensor(20.0))
    made = export(turns, args, opset_version=opset).model_proto
    kinds = {node.op_type for node in made.graph.node}
    assert {"If", "Loop"} <= kinds
    session, again = session_of(made), weft.onnx.load(made)
    for first in ([0.5, 1.5, -1.0], [3.0, 0.1, 0.2], [-1.0, -9.0, 4.0]):
        given = (weft.tensor(first), args[1])
        expected = turns(*given)
        got = session.run(None, {"x": given[0].numpy(), "n": given[1].numpy()})
        for a, b, c in zip(got, expected, again(*given), strict=True):
            np.testing.assert_allclose(a, np.asarray(b), 1e-5)
            np.testing.assert_allclose(np.asarray(c), np.asarray(b), 1e-5)


@pytest.mark.parametrize("opset", SEEN)
@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16, weft.float64, weft.int64])
def test_branches_and_loops_carry_every_dtype(opset: int, dtype: Any) -> None:
    x = weft.tensor([1, 2]).to(dtype)
    made = export(halves, (x,), opset_version=opset).model_proto
    onnx.checker.check_model(made, full_check=True)
    assert weft.onnx.load(made)(x).tolist() == halves(x).tolist()
    (loop,) = (n for n in made.graph.node if n.op_type == "Loop")
    body = loop.attribute[0].g
    assert body.output[1].type.tensor_type.elem_type == ELEM[dtype]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", ["If", "Loop", "Scan", "Identity", "Cast", "Shape", "Constant"])
def test_control_flow_takes_every_dtype(name: str, opset: int) -> None:
    schema = _schema(name, opset)
    sides = schema.outputs if name in ("If", "Constant") else schema.inputs
    texts = {_text(dtype) for dtype in ELEM if dtype not in (weft.complex64, weft.complex128)}
    assert texts - set(sides[-1].types) <= (set() if name != "Constant" else texts)
    if name == "Identity":
        assert texts <= _types(schema, 0)


@pytest.mark.parametrize("opset", [1, 9, 15, 24, 99])
def test_other_opsets_are_refused_with_the_range(opset: int) -> None:
    with pytest.raises(ValueError, match=f"an opset of 16 to 23, got {opset}. Hint: "):
        export(nn.ReLU(), weft.ones(2), opset_version=opset)


def test_what_an_opset_has_not_is_refused_with_the_first_that_has() -> None:
    def masked(x):
        return x & 3

    with pytest.raises(NotOnnx, match="BitwiseAnd, which opset 17 does not have") as caught:
        export(masked, weft.tensor([5, 6]), opset_version=17)
    assert caught.value.hint == "opset_version=18 has it"
    assert "bitwise" not in str(export(masked, weft.tensor([5, 6]), opset_version=18).graph.name)


@pytest.mark.parametrize("opset", [16, 17, 18, 20, 22])  # 21 and 23: test_onnx_records.py
def test_each_record_is_written_for_every_opset(opset: int) -> None:
    """Of each record a sample that has a form, all in one model."""
    model = Model(opset)
    g = Builder(model)
    walk = Walk({"functions": [], "objects": [], "entries": {}}, {}, model)
    made: list[Any] = []
    outs: list[Any] = []
    refused = set()
    for name, record in RECORDS.items():
        if not has_form(record) or record["random"] or record["public_name"] in UNSET:
            continue
        called = name_of(record)

        def f(*args: Any, called: str = called, **words: Any) -> Any:
            args = tuple(entered(a, model, made, False) for a in args)
            words = {k: entered(v, model, made, False) for k, v in words.items()}
            return walk.call_op(called, list(args), words)

        for sample in record["samples"]:
            if (name, sample) in NOT_RUN:
                continue
            try:
                outs += Inputs(weft, "float32", sample).run(f, sample)
            except NotOnnx:
                refused.add(name)
    shown = [(v, list(t.shape)) for v, t in made]
    session = session_of(model_of(g, shown, outs, None, opset))
    fed = {v.name: t.detach().numpy() for v, t in made}
    got = session.run(None, {i.name: fed[i.name] for i in session.get_inputs()})
    for a, out in zip(got, outs, strict=True):
        expected = out.examples[0].detach().numpy()
        assert (a.dtype, a.shape) == (expected.dtype, expected.shape)
    assert refused == REFUSED.get(opset, set()) | ALWAYS
