"""Every record that has a form in ONNX: its samples as a model, run by ONNX Runtime, and loaded.

`NOT_RUN` are samples that have no form, with the reason, `PLACES` records whose places are free
among equal values.
"""

import ast
from typing import Any

import numpy as np
import pytest
from op_samples import Inputs
from record_runs import NOT_RUN, RECORDS, UNSET, entered, name_of

import weft

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from weft.onnx.builder import Builder  # noqa: E402
from weft.onnx.errors import NotOnnx  # noqa: E402
from weft.onnx.graph import Model, Value  # noqa: E402
from weft.onnx.model import model_of  # noqa: E402
from weft.onnx.records import (  # noqa: E402
    _CONSTANTS,
    _HELPERS,
    _functions,
    has_form,
    params_of,
)
from weft.onnx.values import Held  # noqa: E402
from weft.onnx.walk import Walk  # noqa: E402

onnxruntime.set_default_logger_severity(4)
MAPPED = [n for n, r in RECORDS.items() if has_form(r)]
# Samples of records that have none of their own: they are made by other ops, or write in place.
MORE = {
    "_prelu_kernel": ["f(T(2, 3), T(1, 3))"],
    "scaled_mul": ["f(T(2, 3), T(3), 2.0)"],
    "_times": ["f(T(2, 3), 3)", "f(I(4), 2)"],
    "scaled_div": ["f(T(2, 3), T(3, lo=0.5), 2.0)"],
    "_constant_in": ["f(T(3), T(2))"],
    "_to_copy": ["f(T(2, 3), dtype=weft.int64)", "f(I(4), dtype=weft.float32)"],
    "to": ["f(T(2, 3), weft.int64)", "f(B(3), weft.float32)"],
    "_lstm_cell": ["f(T(2, 3), T(2, 4), T(2, 4), T(16, 3), T(16, 4), T(16), T(16))"],
    "_repeat_index": ["f(weft.tensor([1, 2, 0]), 3)"],
    "_diagonal_copy": ["f(T(3, 3))"],
    "_wrap_index": ["f(I(4) - 3, 5)"],
    "_one_hot_open": ["f(I(4), 5)"],
    "_pad_places": ["f(T(1, 2, 4), [1, 2], 'reflect')", "f(T(1, 2, 4), [1, 2], 'circular')"],
    "_adaptive_avg_pool1d": ["f(T(2, 3, 7), [3])"],
    "_adaptive_avg_pool2d": ["f(T(2, 3, 7, 4), [3, 2])"],
    "_adaptive_avg_pool3d": ["f(T(2, 3, 4, 4, 5), [3, 2, 2])"],
    "uniform": ["f(T(3, 4))", "f(T(2), 1, 2)"],
    "normal.fill": ["f(T(3, 4))"],
    "random": ["f(T(3, 4))", "f(I(4))"],
    "random.to": ["f(I(4), 7)"],
    "random.from": ["f(I(4), 2, 7)"],
    "exponential": ["f(T(3, 4), 2.0)"],
    "cauchy": ["f(T(3, 4))"],
    "log_normal": ["f(T(3, 4))"],
    "geometric": ["f(T(3, 4), 0.3)"],
    "bernoulli.tensor": ["f(T(3, 4), T(3, 4, lo=0, hi=1))"],
}
PLACES = {"kthvalue"}


def run_samples(record: dict[str, Any], samples: list[str], opset: int, free: bool = False) -> None:
    model = Model(opset)
    g = Builder(model)
    walk = Walk({"functions": [], "objects": [], "entries": {}}, {}, model)
    made: list[tuple[Value, weft.Tensor]] = []
    outs: list[tuple[str, Held]] = []
    name = name_of(record)
    for sample in samples:

        def f(*args: Any, **words: Any) -> Any:
            args = [entered(a, model, made, free) for a in args]
            words = {k: entered(v, model, made, free) for k, v in words.items()}
            return walk.call_op(name, args, words)

        result = Inputs(weft, "float32", sample).run(f, sample)
        outs += [(sample, out) for out in result]
    shown = [(v, [f"{v.name}_{d}" if free else n for d, n in enumerate(t.shape)]) for v, t in made]
    written = model_of(g, shown, [out for _, out in outs], None, opset)
    onnx.checker.check_model(written)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(written.SerializeToString(), options)
    got = session.run(None, {v.name: t.numpy() for v, t in made})
    with weft.no_grad():
        loaded = weft.onnx.load(written)(*(t for _, t in made))
    loaded = loaded if isinstance(loaded, tuple) else (loaded,)
    for k, (found, again, (sample, out)) in enumerate(zip(got, loaded, outs, strict=True)):
        expected = out.examples[0].detach().numpy()
        assert found.shape == expected.shape, sample
        assert found.dtype == expected.dtype, sample
        assert again.shape == expected.shape and again.dtype == out.examples[0].dtype, sample
        free_places = record["name"] in PLACES and k % 2
        if not (record["random"] or record["public_name"] in UNSET or free_places):
            for way in (found, again.detach().numpy()):
                np.testing.assert_allclose(
                    way, expected, 2e-4, 2e-5, equal_nan=True, err_msg=sample
                )


@pytest.mark.parametrize("name", MAPPED)
def test_samples_give_the_same_in_onnx_runtime(name: str) -> None:
    samples = [*RECORDS[name]["samples"], *MORE.get(name, [])]
    samples = [s for s in samples if (name, s) not in NOT_RUN]
    if name.startswith("conv_transpose"):  # refused: output_padding is not below the stride
        samples = [s for s in samples if "dilation=2, output_padding=1" not in s]
    if not samples:
        pytest.skip("no samples")
    run_samples(RECORDS[name], samples, 21)


@pytest.mark.parametrize("name", [n for n in MAPPED if RECORDS[n]["number_self"]])
def test_what_takes_a_number_first_does_so_in_models(name: str) -> None:
    """A list of the exporter's said which do: `floor_divide(7, x)` was none of its forms."""
    tensor = "I(4)" if name.startswith("bitwise") else "T(2, 3, lo=1.5)"
    run_samples(RECORDS[name], [f"f(3, {tensor})"], 21)


@pytest.mark.parametrize("name", ["scaled_dot_product_attention", "rms_norm"])
def test_samples_of_what_opset_23_has(name: str) -> None:
    samples = [s for s in RECORDS[name]["samples"] if "T(1, 1, 0, 4)" not in s]  # ORT wants rows
    run_samples(RECORDS[name], samples, 23)


# Records whose result's layout is free where the sizes of their tensors are: these shape a model.
FREE = (
    "add", "mul", "where", "clamp", "flatten", "transpose", "permute", "unsqueeze", "select",
    "slice", "cat", "stack", "roll", "repeat_interleave", "expand_as", "tril", "diagonal",
    "diag_embed", "index_select", "gather", "scatter", "index_put", "take", "embedding",
    "zeros_like", "sum.dim", "mean.dim", "var", "std", "max.dim", "argmax", "sort", "cumsum",
    "cumprod", "softmax", "layer_norm", "linear", "matmul", "addmm", "gru_cell", "mse_loss",
    "cross_entropy", "constant_pad_nd", "pixel_shuffle", "scaled_dot_product_attention",
    "masked_fill", "nonzero",
)  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_free_sizes_stay_free(name: str) -> None:
    for sample in RECORDS[name]["samples"]:
        try:
            run_samples(RECORDS[name], [sample], 21, free=True)
        except NotOnnx as error:  # this call of it wants a size
            assert "only a run knows" in str(error) or "are free" in str(error), sample


def test_every_op_of_programs_says_its_form() -> None:
    """An expression, a function or a reason, and one of them alone."""
    silent = []
    for name, r in RECORDS.items():
        ways = [bool(r["onnx"]), name in _functions(), bool(r["no_onnx"])]
        assert sum(ways) < 2, name
        if r["in_packages"] and not any(ways):
            silent.append(name)
    assert silent == []
    assert set(_functions()) <= set(RECORDS)
    public = [r for r in RECORDS.values() if r["in_packages"]]
    print(f"{sum(map(has_form, public))} of {len(public)} ops of programs have a form in ONNX")


@pytest.mark.parametrize("name", [n for n in MAPPED if RECORDS[n]["onnx"]])
def test_expressions_name_parameters_and_operators(name: str) -> None:
    record = RECORDS[name]
    params = {p.name for p in params_of(record["schema"])}
    known = {*params, *_HELPERS, *_CONSTANTS, "result"}
    for node in ast.walk(ast.parse(record["onnx"], mode="eval")):
        if isinstance(node, ast.Name) and node.id not in known:
            assert onnx.defs.has(node.id), node.id


def test_what_has_no_form_is_refused_with_the_reason() -> None:
    model = Model(21)
    x = Held(Value(model, "x", weft.float32, (3,)), (weft.ones(3), weft.ones(3)))
    Builder(model)
    walk = Walk({"functions": [], "objects": [], "entries": {}}, {}, model)
    with pytest.raises(NotOnnx, match="a call of lgamma: no logarithm of the gamma function"):
        walk.call_op("lgamma", [x], {})
