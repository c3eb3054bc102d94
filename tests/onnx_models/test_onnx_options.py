"""The keywords of `torch.onnx.export`, and what its `ONNXProgram` does."""

import inspect
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft import nn  # noqa: E402
from weft.onnx import OnnxExporterError, ONNXProgram, export  # noqa: E402

X = weft.tensor([[-1.0, 2.0], [3.0, 0.5]])


def test_all_keywords_of_pytorch_are_there() -> None:
    """Twelve raised a TypeError."""
    theirs, ours = (inspect.signature(f).parameters for f in (torch.onnx.export, export))
    assert set(theirs) <= set(ours)
    export(nn.Linear(2, 2), (X,), None, **{
        n: p.default for n, p in theirs.items() if n not in ("model", "args", "f", "training",
        "operator_export_type") and p.default is not p.empty})  # fmt: skip
    for name in ("save", "apply_weights", "compute_values", "optimize", "call_reference", "release",
                 "initialize_inference_session", "exported_program", "model_proto"):  # fmt: skip
        assert hasattr(export(nn.ReLU(), (X,)), name), name


@pytest.mark.parametrize(
    ("name", "value"),
    [("report", True), ("profile", True), ("dump_exported_program", True),
     ("custom_translation_table", {1: 2}), ("operator_export_type", "ONNX_ATEN"),
     ("export_modules_as_functions", True), ("autograd_inlining", False)],
)  # fmt: skip
def test_what_is_not_offered_says_so(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"expected {name}=.*, got .*Hint: ..."):
        export(nn.ReLU(), (X,), **{name: value})


def test_verify_runs_the_model() -> None:
    export(nn.Linear(2, 3), (X,), verify=True)
    export(lambda x, k: (x * k, x.shape[0]), (X, 3), verify=True, dynamic_axes={"x": [0]})
    export(weft.export.export(nn.Linear(2, 3), (X,)), verify=True)

    def f(x: weft.Tensor) -> weft.Tensor:
        return x + weft.rand(2)  # drawn anew by each

    with pytest.raises(OnnxExporterError, match="what the model gives, got"):
        export(f, (X,), verify=True)


def test_verify_leaves_the_arguments_as_they_are() -> None:
    x = X.clone()
    export(lambda x: x.clone().mul_(2), (x,), verify=True)
    assert x.tolist() == X.tolist()


def test_optimize_unites_what_is_computed_twice() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        y = weft.exp(x) * weft.exp(x)
        if x.sum() > 0:
            y = y + weft.exp(x) + weft.rand(2) * 0 - weft.rand(2) * 0
        for i in range(x.shape[0]):
            y = y * 1.5 + x.exp() + i
        return y

    free = {"dynamic_axes": {"x": [0]}}
    plain, made = export(f, (X,), **free), export(f, (X,), optimize=True, **free)
    count = [str(m.model_proto).count("op_type") for m in (plain, made)]
    assert count[1] < count[0] - 5
    assert str(made.model_proto).count('"Exp"') == 1
    assert str(made.model_proto).count('"RandomUniform"') == 2
    for x in (X, -X, weft.ones(5, 2)):
        assert weft.allclose(made(x)[0], f(x))
        assert weft.allclose(plain(x)[0], f(x))


@pytest.mark.parametrize("way", ["export", "save"])
def test_weights_as_inputs_may_be_given(way: str, tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    path = str(tmp_path / "m.onnx")
    if way == "export":
        export(model, (X,), path, keep_initializers_as_inputs=True)
    else:
        export(model, (X,)).save(path, keep_initializers_as_inputs=True)
    session = onnxruntime.InferenceSession(path)
    assert {i.name for i in session.get_overridable_initializers()} == {"weight", "bias"}
    zeros = {"weight": model.weight.detach().numpy() * 0, "bias": model.bias.detach().numpy() * 0}
    assert not session.run(None, {"input": X.numpy(), **zeros})[0].any()


def test_custom_opsets_are_named_and_initializers_left_out(tmp_path: Path) -> None:
    made = export(nn.Linear(2, 2), (X,), custom_opsets={"my.own": 3})
    assert {o.domain: o.version for o in made.model_proto.opset_import}["my.own"] == 3
    made.save(tmp_path / "m.onnx", include_initializers=False)
    assert not onnx.load(str(tmp_path / "m.onnx")).graph.initializer
    assert len(made.model_proto.graph.initializer) == 2


def test_weights_are_applied_and_values_computed() -> None:
    first, second = nn.Linear(2, 3), nn.Linear(2, 3)
    made = export(nn.Sequential(first, nn.ReLU()), (X,))
    before = made(X)
    state = {f"0.{n}": t for n, t in second.state_dict().items()}
    made.apply_weights(state)
    assert weft.allclose(made(X)[0], second(X).relu())
    assert not weft.allclose(made(X)[0], before[0])
    assert weft.allclose(made.call_reference(X)[0], second(X).relu())
    names = [n.output[0] for n in made.model_proto.graph.node if n.op_type in ("Gemm", "Relu")]
    linear, relu = made.compute_values(names, (X,))
    assert weft.allclose(linear, second(X))
    assert weft.allclose(relu, second(X).relu())
    with pytest.warns(UserWarning, match="'other': not found"):
        made.apply_weights({"other": X})
    with pytest.raises(ValueError, match="expected '0.bias' of sizes"):
        made.apply_weights({"0.bias": X})
    with pytest.raises(ValueError, match="expected names of values, got 'other'"):
        made.compute_values(["other"], (X,))


def test_the_exported_program_is_kept() -> None:
    program = weft.export.export(nn.Linear(2, 2), (X,))
    made = export(program)
    assert isinstance(made, ONNXProgram)
    assert made.exported_program is program
    assert export(nn.ReLU(), (X,)).exported_program is None
    with pytest.raises(AttributeError, match="model_proto"):
        made.model  # noqa: B018
