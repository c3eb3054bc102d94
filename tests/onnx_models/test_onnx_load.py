"""Models of others: what their graphs become, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402

from weft.onnx import OnnxModule, Unsupported, load  # noqa: E402
from weft.onnx.graph import KIND  # noqa: E402
from weft.onnx.operators.table import FUNCTIONS, OPERATORS  # noqa: E402


def model(graph: str, opset: int = 21, functions: str = "", version: int = 10) -> Any:
    """A model of the text of its graph."""
    opsets = f'"" : {opset}' + (', "own" : 1' if functions else "")
    text = f"<ir_version: {version}, opset_import: [{opsets}]>\n{graph}\n{functions}"
    return parser.parse_model(text)


def call(graph: str, *args: Any, **words: Any) -> Any:
    made = load(model(graph, **words))
    return made(*(weft.tensor(a) for a in args))


LOOP = """
main (int64 n, float[2] x) => (float[2] last, float[k, 2] all) {
    yes = Constant <value = bool {1}> ()
    last, all = Loop (n, yes, x) <body = b (int64 i, bool going, float[2] h)
        => (bool next, float[2] h2, float[2] row) {
        two = Constant <value = float {2.0}> ()
        limit = Constant <value = float {100.0}> ()
        h2 = Mul (h, two)
        row = Identity (h)
        top = ReduceMax <keepdims = 0> (h2)
        next = Less (top, limit)
    }>
}"""


def test_a_loop_is_a_for_with_a_break() -> None:
    made = load(model(LOOP))
    assert "for i in range(int(n)):" in made.code and "break" in made.code
    last, rows = made(weft.tensor(3), weft.tensor([1.0, -2.0]))
    assert last.tolist() == [8.0, -16.0] and rows.tolist() == [[1, -2], [2, -4], [4, -8]]
    last, rows = made(weft.tensor(50), weft.tensor([1.0, -2.0]))
    assert last.tolist() == [128.0, -256.0] and len(rows) == 7
    last, rows = made(weft.tensor(0), weft.tensor([1.0, -2.0]))  # no turns: rows of the size told
    assert last.tolist() == [1.0, -2.0] and rows.shape == (0, 2)


WHILE = """
main (float x, bool c) => (float y, int64 turns) {
    none = Constant <value = int64 {0}> ()
    y, turns = Loop (, c, x, none) <body = b (int64 i, bool going, float h, int64 k)
        => (bool next, float h2, int64 k2) {
        half = Constant <value = float {0.5}> ()
        one = Constant <value = int64 {1}> ()
        h2 = Mul (h, half)
        k2 = Add (k, one)
        next = Greater (h2, one_f)
    }>
}"""


def test_a_loop_over_values_is_a_while_and_counts_in_numbers() -> None:
    text = WHILE.replace(
        "(float y, int64 turns) {", "(float y, int64 turns)\n<float one_f = {1}> {"
    )
    made = load(model(text))
    assert "while" in made.code and "+ 1" in made.code
    y, turns = made(weft.tensor(20.0), weft.tensor(True))
    assert (y.item(), turns.item(), turns.dtype) == (0.625, 5, weft.int64)
    y, turns = made(weft.tensor(20.0), weft.tensor(False))
    assert (y.item(), turns.item()) == (20.0, 0)


def test_a_branch_takes_values_from_around_it() -> None:
    graph = """
    main (float[n] x) => (float[n] y) {
        zero = Constant <value = float {0.0}> ()
        total = ReduceSum <keepdims = 0> (x)
        up = Greater (total, zero)
        y = If (up) <
            then_branch = a () => (float[n] p) { p = Add (x, total) },
            else_branch = b () => (float[n] q) { q = Neg (x) }
        >
    }"""
    assert call(graph, [1.0, 2.0]).tolist() == [4.0, 5.0]
    assert call(graph, [-1.0, -2.0]).tolist() == [1.0, 2.0]


def test_sizes_are_numbers_of_python() -> None:
    graph = """
    main (float[a, b, c] x) => (float[d, c] y) {
        s = Shape (x)
        zero = Constant <value = int64 {0}> ()
        n = Gather (s, zero)
        first = Constant <value = int64[1] {1}> ()
        second = Constant <value = int64[1] {2}> ()
        m = Slice (s, first, second)
        axes = Constant <value = int64[1] {0}> ()
        wide = Unsqueeze (n, axes)
        rows = Mul (wide, m)
        rest = Constant <value = int64[1] {-1}> ()
        shape = Concat <axis = 0> (rows, rest)
        y = Reshape (x, shape)
    }"""
    made = load(model(graph))
    assert "torch.tensor" not in made.code and "tolist" not in made.code
    assert made(weft.zeros(2, 3, 4)).shape == (6, 4)


def test_functions_of_a_model_are_functions() -> None:
    graph = """
    main (float[n] x) => (float[n] y) {
        a = own.Scaled <by = 3.0> (x)
        b = own.Scaled <by = 3.0> (a)
        y = own.Scaled (b)
    }"""
    functions = """
    <domain: "own", opset_import: ["" : 21]>
    Scaled <by: float = 2.0> (x) => (y) {
        k = Constant <value_float: float = @by> ()
        y = Mul (x, k)
    }"""
    made = load(model(graph, functions=functions))
    assert made.code.count("def ") == 3  # one for each attribute, and forward
    assert made(weft.tensor([1.0])).tolist() == [18.0]


def test_operators_of_the_standard_s_own_text() -> None:
    """AffineGrid is not in the table: the standard says it by other operators."""
    assert "AffineGrid" not in OPERATORS
    graph = """
    main (float[2, 2, 3] t) => (float[2, 2, 2, 2] g) {
        size = Constant <value = int64[4] {2, 1, 2, 2}> ()
        g = AffineGrid <align_corners = 1> (t, size)
    }"""
    theta = weft.randn(2, 2, 3)
    expected = weft.nn.functional.affine_grid(theta, [2, 1, 2, 2], align_corners=True)
    made = load(model(graph))
    assert weft.allclose(made(theta), expected, atol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_other_sizes_as_onnx_runtime_has_them(mode: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    x = np.random.RandomState(0).randn(1, 1, 5, 6).astype(np.float32)
    for scale in (0.6, 1.7, 2):
        for place in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
            for near in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
                graph = f"""
                main (float[1, 1, 5, 6] x) => (float[1, 1, h, w] y)
                <float[4] s = {{1, 1, {scale}, {scale}}}> {{
                    y = Resize <mode = "{mode}", nearest_mode = "{near}",
                        coordinate_transformation_mode = "{place}"> (x, , s)
                }}"""
                made = model(graph)
                session = runtime.InferenceSession(made.SerializeToString())
                (expected,) = session.run(None, {"x": x})
                found = load(made)(weft.tensor(x)).numpy()
                np.testing.assert_allclose(found, expected, 1e-4, 1e-5, err_msg=graph)


def test_optional_inputs_and_sequences() -> None:
    graph = """
    main (float[n] x) => (float[m] y) {
        s = SequenceConstruct (x, x)
        t = Neg (x)
        u = SequenceInsert (s, t)
        y = ConcatFromSequence <axis = 0> (u)
    }"""
    assert call(graph, [1.0, 2.0]).tolist() == [1, 2, 1, 2, -1, -2]


def test_scan_over_rows_and_backwards() -> None:
    graph = """
    main (float[2] h, float[t, 2] x) => (float[2] last, float[t, 2] all) {
        last, all = Scan <num_scan_inputs = 1, scan_input_directions = [1],
            body = b (float[2] s, float[2] row) => (float[2] s2, float[2] out) {
                s2 = Add (s, row)
                out = Identity (s2)
            }> (h, x)
    }"""
    last, rows = call(graph, [0.0, 0.0], [[1.0, 2.0], [3.0, 4.0]])
    assert last.tolist() == [4.0, 6.0] and rows.tolist() == [[3.0, 4.0], [4.0, 6.0]]


def test_weights_have_their_names() -> None:
    names = ["layer.0.weight", "layer.0", "forward", "a b", "x/y:0", "steps", "self"]
    nodes, last = [], "x"
    for k, name in enumerate(names):
        nodes.append(helper.make_node("Add", [last, name], [f"y{k}"]))
        last = f"y{k}"
    weights = [numpy_helper.from_array(np.full(2, 2.0**k, np.float32), n)
               for k, n in enumerate(names)]  # fmt: skip
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info("x", 1, [2])], [info(last, 1, [2])], weights
    )  # fmt: skip
    made = load(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    )
    assert list(made.state_dict()) == [
        "layer.0.weight", "layer_0_2", "forward_", "a b", "x/y:0", "steps", "self",
    ] or set(made.state_dict()) >= {"layer.0.weight", "a b", "x/y:0", "steps"}  # fmt: skip
    assert len(list(made.parameters())) == len(names)
    assert made(weft.zeros(2)).tolist() == [127.0, 127.0]


def test_what_is_no_parameter() -> None:
    graph = """
    main (float[n, 2, 3] x) => (float[n, 2, 3] y)
    <float[2] scale = {1, 1}, float[2] bias = {0, 0}, float[2] mean = {0, 1}, float[2] var = {1, 4},
     float eps = {0.5}, int64[3] shape = {0, 2, 3}> {
        a = BatchNormalization (x, scale, bias, mean, var)
        b = Add (a, eps)
        y = Reshape (b, shape)
    }"""
    made = load(model(graph))
    assert [n for n, _ in made.named_parameters()] == ["scale", "bias"]
    assert [n for n, _ in made.named_buffers()] == ["mean", "var", "eps"]
    assert "[0, 2, 3]" in made.code


def test_what_the_file_says_of_a_weight_counts() -> None:
    """As PyTorch's exporter writes it: of values, or of the tensors themselves."""
    graph = """
    main (float[2] x) => (float[2] y) <float[2] a = {1, 1}, float[2] b = {2, 2},
     float[2] c = {3, 3}, int64[2] steps = {1, 1}> {
        u = Add (x, a)
        v = Add (u, b)
        w = Add (v, c)
        s = Cast <to = 1> (steps)
        y = Add (w, s)
    }"""
    made = model(graph)
    for name, kind in (("a", "PARAMETER"), ("b", "BUFFER"), ("steps", "PARAMETER")):
        info = helper.make_tensor_value_info(name, 1 if name != "steps" else 7, [2])
        info.metadata_props.add(key=KIND, value=kind)
        made.graph.value_info.append(info)
    made.graph.initializer[2].metadata_props.add(key=KIND, value="CONSTANT_TENSOR")
    loaded = load(made)
    assert [(n, p.requires_grad) for n, p in loaded.named_parameters()] == [
        ("a", True), ("steps", False),
    ]  # fmt: skip
    assert [n for n, _ in loaded.named_buffers()] == ["b", "c"]
    assert loaded(weft.zeros(2)).tolist() == [7.0, 7.0]


def test_remainders_of_sizes() -> None:
    """A number of Python's on both sides, and what rounds towards zero."""
    graph = """
    main (float[n] x) => (int64 a, int64 b, int64 c) {
        n = Size (x)
        k = Constant <value = int64 {-4}> ()
        a = Mod (n, k)
        b = Mod <fmod = 1> (n, k)
        c = Pow (n, n)
    }"""
    assert [int(v) for v in load(model(graph))(weft.zeros(3))] == [-1, 3, 27]


def test_nothing_of_a_file_s_names_is_code() -> None:
    odd = ['x"); import os #', "a\nb = 1", "self", "def", "torch", "ünïcode", "1", "", "None"]
    for name in odd[:-2]:
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("Neg", [name], ["out"], name=name)], name,
            [info(name, 1, [1])], [info("out", 1, [1])],
        )  # fmt: skip
        made = load(helper.make_model(graph, ir_version=10))
        assert made(weft.ones(1)).item() == -1.0
        assert made.input_names == [name] and "import" not in made.code.split("(")[0]
        assert made.code.count("\n") == 3


def test_arguments_go_by_name_and_the_module_shows_itself() -> None:
    made = load(model("main (float[1] x, float[1] y) => (float[1] z) { z = Sub (x, y) }"))
    assert isinstance(made, OnnxModule)
    assert made(y=weft.ones(1), x=weft.zeros(1)).item() == -1.0
    assert repr(made) == "OnnxModule(x, y -> z)"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        made(weft.ones(1))


def test_values_go_after_their_last_use() -> None:
    text = "main (float[1] x) => (float[1] z) { y = Neg (x)\n w = Abs (y)\n z = Add (w, w)\n }"
    assert "; del y" in load(model(text)).code


def test_files_and_weights_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    layer = weft.nn.Linear(40, 40)
    weft.onnx.export(layer, (weft.ones(1, 40),), path, external_data=True)
    x = weft.randn(2, 40)[:1]
    assert weft.allclose(load(path)(x), layer(x), atol=1e-6)
    with open(path, "rb") as file:
        raw = file.read()
    with pytest.raises(ValueError, match=r"weights are in other files .* Hint: give the path"):
        load(raw)
    away = tmp_path / "inner"
    away.mkdir()
    bad = onnx.ModelProto()
    bad.ParseFromString(raw)
    for t in bad.graph.initializer:
        for entry in t.external_data:
            if entry.key == "location":
                entry.value = "../model.onnx.data"
    (away / "model.onnx").write_bytes(bad.SerializeToString())
    with pytest.raises(ValueError, match="weights that cannot be read|onnx.checker refuses"):
        load(away / "model.onnx")


BAD: list[tuple[Any, type[Exception], str]] = [
    (b"", ValueError, "0 bytes without a graph"),
    (b"\x00\x01junk", ValueError, "expected an ONNX model, got 6 bytes"),
    (3, TypeError, "a path, bytes, a file or a ModelProto, got int"),
    ("nowhere.onnx", FileNotFoundError, "nowhere.onnx"),
    (onnx.ModelProto(), ValueError, "onnx.checker refuses"),
    (model("main (float[1] x) => (float[1] y) { y = Neg (z) }"), ValueError, "checker refuses"),
    (model("main (float[1] x) => (float[1] y) { y = own.Odd (x) }"), ValueError, "own"),
    (model("main (float[1] x) => (float[1] y) { y = Neg <q = 1> (x) }"), ValueError, "q"),
    (
        model(
            "main (float[1] x) => (float[1] y) { y = own.F (x) }",
            functions='<domain: "own", opset_import: ["" : 21, "own" : 1]>'
            " F (x) => (y) { y = own.F (x) }",
        ),
        ValueError, "functions that do not call themselves|checker refuses",
    ),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(BAD)))
def test_bad_files(k: int) -> None:
    given, kind, says = BAD[k]
    with pytest.raises(kind, match=says):
        load(given)


def test_a_file_cut_anywhere_is_refused_or_runs() -> None:
    raw = weft.onnx.export(weft.nn.Linear(3, 2), (weft.ones(1, 3),)).SerializeToString()
    for n in range(0, len(raw), 7):
        try:
            load(raw[:n])
        except (ValueError, Unsupported):
            continue


def test_names_that_are_no_text_and_tensors_that_are_too_large() -> None:
    raw = model("main (float[1] naame) => (float[1] y) { y = Neg (naame) }").SerializeToString()
    with pytest.raises(ValueError, match="names that are not UTF-8"):
        load(raw.replace(b"naame", b"na\xff\xfee"))
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    places = numpy_helper.from_array(np.zeros((1, 2), np.int64))
    sparse = helper.make_sparse_tensor(values, places, [2**20, 2**20])
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"])], "g", [], [info("y", 1, ["a", "b"])],
        sparse_initializer=[sparse],
    )  # fmt: skip
    with pytest.raises(Unsupported, match="tensor 'w': sparse, with 1099511627776 places"):
        load(helper.make_model(graph, ir_version=10))


def test_all_that_is_not_offered_is_told_at_once() -> None:
    graph = """
    main (string[n] s, float[n] x) => (float[n] y, float[n] z) {
        y = Resize <mode = "odd"> (x, , x)
        z = own.Odd (x)
    }"""
    made = model(graph)
    made.opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(Unsupported) as caught:
        load(made)
    assert caught.value.found == [
        "input 's': the type STRING",
        "Resize (of ['y']): the mode 'odd'",
        "own.Odd (of ['z']): no operator of ONNX in own",
    ]
    assert str(caught.value).startswith(
        "[onnx.load] expected a model of what weft has of ONNX, got\n"
    )


def test_newer_operators_than_the_table_knows_are_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr("weft.onnx.source.NEWEST", 12)
    with pytest.raises(Unsupported, match="its version 13, which is newer than 12"):
        load(model("main (float[1] x) => (float[1] y) { y = Exp (x) }"))


def test_the_table_takes_what_the_standard_gives() -> None:
    """Each entry takes all inputs and attributes of the newest schema, but for some of a reason."""
    missing = set()
    for name, entry in OPERATORS.items():
        schema = onnx.defs.get_schema(name, 28, "") if onnx.defs.has(name) else None
        if schema is None or schema.deprecated or "{" in entry.call:
            continue
        missing |= {f"{name}.{a}" for a in schema.attributes if a not in entry.attributes}
        assert entry.rest or len(entry.inputs) >= len(schema.inputs), name
        assert entry.call.removeprefix("ops.") in FUNCTIONS
    # local windows go by the standard's own text
    assert missing <= {"Attention.left_window_size", "Attention.right_window_size"}


def test_types_of_the_file_are_kept() -> None:
    for elem in (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.INT8):
        weight = helper.make_tensor("w", elem, [2], [1, 2])
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["y"])], "g",
            [info("x", elem, [2])], [info("y", elem, [2])], [weight],
        )  # fmt: skip
        made = load(helper.make_model(graph, ir_version=10))
        (w,) = made.state_dict().values()
        assert made(w).tolist() == [2, 4] and made(w).dtype == w.dtype
