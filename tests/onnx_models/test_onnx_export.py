"""Calls of `weft.onnx.export`: arguments, names, files, what is refused; and what comes back."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from test_onnx_models import GRULoop, agrees, branch, checked, halvings, same  # noqa: E402

from weft.onnx import NotOnnx, export  # noqa: E402

R = weft.randn


def test_files_names_and_the_other_signature(tmp_path: Path) -> None:
    model, path = nn.Linear(3, 2), tmp_path / "linear.onnx"
    x = R(4, 3)
    weft.onnx.export(
        model, (x,), str(path), input_names=["x"], output_names=["y"], opset_version=21,
        dynamic_shapes={"input": {0: "n"}},
    )  # fmt: skip
    session = onnxruntime.InferenceSession(str(path))
    assert [i.name for i in session.get_inputs()] == ["x"]
    assert [o.name for o in session.get_outputs()] == ["y"]
    assert session.get_inputs()[0].shape == ["n", 3]
    big = tmp_path / "big.onnx"
    export(nn.Linear(100, 100), R(1, 100), path=big, external_data=True)
    assert big.stat().st_size < 3000 and (tmp_path / "big.onnx.data").stat().st_size >= 40000
    onnxruntime.InferenceSession(str(big))


def test_weights_are_written_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(30, 16)

        def forward(self, i):
            return nn.functional.linear(self.token(i), self.token.weight)

    made = export(Tied(), weft.randint(30, (4,)))
    assert [t.name for t in made.graph.initializer] == ["token.weight"]


def test_compiled_and_scripted_models() -> None:
    x = weft.tensor([3.0, -20.0])
    agrees(halvings, export(weft.compile(halvings), x), [(x,)])
    agrees(branch, export(weft.jit.script(branch), x), [(x,)])


def recursion(x):
    return x if x.sum() > 0 else recursion(x + 1)


def grows_one_way(x):
    found = []
    for t in range(x.shape[0]):
        if x[t] > 0:
            found.append(x[t])
    return weft.stack(found)


def by_size(x):
    return x.unbind(0)


def by_chunks(x):
    return x.chunk(2)[0]


def repeated_subscripts(x):
    """The line was one of weft's own."""
    return weft.einsum("...ii->...i", x.reshape(-1, 1).expand(x.shape[0], 3))


def gamma(x):
    return weft.lgamma(x)


def either(x):
    return None if x.sum() > 0 else x


def catches(x):
    try:
        if x.sum() > 0:
            raise ValueError("too large")
        y = x * 2
    except ValueError:
        y = x * 10
    return y


def catches_and_returns(x):
    try:
        return checked(x) if x.shape[0] > 9 else small(x)
    except ValueError:
        return x * 10


def small(x):
    if x.sum() > 0:
        raise ValueError("too large")
    return x


FREE = {"dynamic_axes": {"x": {0: "n"}}}
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (recursion, {}, "recursion: .*, which calls itself"),
    (grows_one_way, FREE, "a list that grows on one way"),
    (by_size, FREE, r"(how many tensors unbind gives|how many parts there are)"),
    (by_chunks, FREE, "chunk: how many parts there are"),
    (repeated_subscripts, FREE, "an exception under a condition that only a run knows"),
    (gamma, {}, "a call of lgamma: no logarithm of the gamma function"),
    (either, {}, "left unlike: None and a tensor"),
    (catches, {}, "an exception under a condition .*, within a try with except"),
    (catches_and_returns, {}, "an exception under a condition .*, within a try with except"),
]


@pytest.mark.parametrize(("f", "words", "says"), REFUSED)
def test_what_has_no_form_is_refused_by_line(f: Any, words: dict[str, Any], says: str) -> None:
    with pytest.raises(NotOnnx, match=says) as caught:
        export(f, weft.ones(3), **words)
    assert f"{Path(__file__).name}:" in str(caught.value)


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"opset": 9}, ValueError, "an opset of 16 to 23, got 9"),
    ({"opset": 21, "opset_version": 23}, ValueError, "opset=21 and opset_version=23"),
    ({"opset": 0}, ValueError, "an opset of 16 to 23, got 0"),
    ({"export_params": False}, ValueError, "export_params=True"),
    ({"training": "TRAINING"}, ValueError, "eval mode"),
    ({"dynamic_axes": {"x": {5: "n"}}}, ValueError, "a dimension of 'x'"),
    ({"dynamic_shapes": {"y": {0: "n"}}}, ValueError, "got 'y'"),
    ({"input_names": ["a", "b"]}, ValueError, "1 input_names, got 2"),
    ({"output_names": ["a", "b"]}, ValueError, "1 output_names, got 2"),
    ({"output_names": ["x"]}, ValueError, "output_names that no other .* 'x', which is an input's"),
    ({"output_names": ["a", "a"]}, ValueError, "output_names that .* 'a', which is there twice"),
    ({"dynamic_axes": {"x": {0: "n"}}, "dynamic_shapes": {"x": {0: "n"}}}, ValueError, "got both"),
    ({"args": ({"y": weft.ones(3)},)}, NotOnnx, "the argument 'x' is a dict: .* as kwargs"),
    ({"args": (np.ones(3),)}, TypeError, "tensors among the arguments, got ndarray as 'x'"),
    ({"kwargs": {"z": 1}}, TypeError, "example arguments of the model"),
]


@pytest.mark.parametrize(("words", "kind", "says"), WRONG)
def test_wrong_calls(words: dict[str, Any], kind: type[Exception], says: str) -> None:
    def f(x):
        return x + 1

    with pytest.raises(kind, match=says):
        export(f, **{"args": (weft.ones(3),), **words})


class Several(nn.Module):
    def forward(self, *a):
        return a[0] * 2, a[1] + 1


AUTO, DYNAMIC, STATIC = weft.export.Dim.AUTO, weft.export.Dim.DYNAMIC, weft.export.Dim.STATIC
UNNAMED: list[tuple[Any, list[list[Any]]]] = [
    (({0: AUTO}, {0: AUTO, 1: DYNAMIC(max=9)}), [["s0", 2], ["s1", "s2"]]),
    (({0: AUTO}, {0: "s0", 1: STATIC}), [["s1", 2], ["s0", 2]]),
    (({0: AUTO, 1: STATIC}, None), [["s0", 2], [3, 2]]),
    ((({0: AUTO}, {1: AUTO}),), [["s0", 2], [3, "s1"]]),
    ({"a": ({0: AUTO}, None)}, [["s0", 2], [3, 2]]),
]


@pytest.mark.parametrize(("shapes", "names"), UNNAMED)
def test_sizes_without_names_are_each_one_of_its_own(shapes: Any, names: list[list[Any]]) -> None:
    """All were one size, "Dim.AUTO", and so was a STATIC one."""
    made = export(Several(), (R(3, 2), R(3, 2)), dynamic_shapes=shapes).model_proto
    dims = [i.type.tensor_type.shape.dim for i in made.graph.input]
    assert [[d.dim_param or d.dim_value for d in each] for each in dims] == names
    sizes = [[n if isinstance(n, int) else 4 + k for n in each] for k, each in enumerate(names)]
    agrees(Several(), made, [(R(3, 2), R(3, 2)), tuple(R(*each) for each in sizes)])
    model = weft.export.export(Several(), (R(3, 2), R(3, 2)), dynamic_shapes=(({0: AUTO}, None),))
    assert export(model).model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "s0"


AS_TORCH = """
import runpy, sys
import weft, weft.nn.functional
for name, module in list(sys.modules.items()):
    if name == "weft" or name.startswith("weft."):
        sys.modules["torch" + name.removeprefix("weft")] = module
runpy.run_path(sys.argv[1], run_name="__main__")
"""
PRINTED = """\
ONNXProgram True
['x'] (1, 10)
['image'] ['scores']
['batch', 1, 32, 32]
(3, 10)
['batch_size', 1, 32, 32] batch_size
(2, 10)
['If', 'Identity']
True
tensor([3., 3.])
['x', 'y'] tensor([2., 2.])
NotOnnx True
"""


def test_a_script_written_as_the_tutorials_runs() -> None:
    script = Path(__file__).with_name("tutorial.py")
    done = subprocess.run(
        [sys.executable, "-c", AS_TORCH, str(script)], capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.stderr) == (PRINTED, "")


def test_programs_of_files_and_exported_ones(tmp_path: Path) -> None:
    weft.jit.script(GRULoop()).save(tmp_path / "gru.weft")
    program = weft.jit.load(tmp_path / "gru.weft")
    x = R(2, 5, 3)
    agrees(program, export(program, x, dynamic_axes={"x": {1: "t"}}), [(x,), (R(2, 9, 3),)])
    n = weft.export.Dim("n", max=9)
    exported = weft.export.export(nn.Linear(3, 2), (R(4, 3),), dynamic_shapes=({0: n},))
    made = export(exported)
    assert made(R(7, 3))[0].shape == (7, 2)
    with pytest.raises(TypeError, match="example arguments"):
        made()
    kept = tmp_path / "linear.weft"
    weft.export.save(exported, kept)
    agrees(exported.module(), export(weft.export.load(kept)), [(R(6, 3),)])  # its own example
    agrees(exported.module(), export(weft.export.load(kept), R(4, 3)), [(R(6, 3),)])
    twice = weft.export.export(Sums(), (R(2), R(4)), dynamic_shapes=({0: n}, {0: 2 * n}))
    with pytest.raises(NotOnnx, match="follows from another"):
        export(twice)


class Added(nn.Module):
    def forward(self, x, y, scale=2):
        return x + y * scale


class Passes(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Added()

    def forward(self, *args, **kwargs):
        layer = self.inner if args[0].sum() > 0 else weft.mul
        return layer(*args, **kwargs).sum()


def test_arguments_that_are_passed_on_and_functions_that_values_choose() -> None:
    x, y = R(2, 3), R(2, 3)
    model = Passes()
    agrees(model, export(model, (x, y)), [(x.abs(), y), (-x.abs(), y)])
    agrees(einsums, export(einsums, (x, y), dynamic_axes={"x": {0: "n"}}), [(R(5, 3), y)])


def einsums(x, y):
    return weft.einsum("nd,md->nm", x, y), weft.einsum("nd,kd,md->nkm", x, y, y)


class Sums(nn.Module):
    def forward(self, x, y):
        return x + y[::2]


class Kinds(nn.Module):
    """Every kind of tensor that a program has."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.register_buffer("places", weft.arange(6.0).reshape(2, 3))
        self.register_buffer("steps", weft.tensor([3, 4]))
        self.own = nn.Parameter(weft.tensor(2.5))
        self.plain = weft.tensor([[1.0, -1.0, 0.5]])

    def forward(self, x):
        y = self.norm(self.linear(x) + self.places + self.plain) * self.own
        return y.clamp(-1.5, 1.5) + weft.tensor([0.25, 0.5, 0.75]) + self.steps.sum()


def test_weights_come_back_as_what_they_were() -> None:
    model = Kinds().eval()
    made = export(model, (weft.randn(2, 3),))
    names = {n for n, _ in (*model.named_parameters(), *model.named_buffers())}
    initializers = {t.name for t in made.model_proto.graph.initializer}
    assert initializers == names - {"norm.num_batches_tracked"} | {"constant.0"}
    for saved in (made, jit_saved(model)):
        loaded = weft.onnx.load(saved)
        assert {n for n, _ in loaded.named_parameters()} == dict(model.named_parameters()).keys()
        assert {n for n, _ in loaded.named_buffers()} >= {"places", "steps", "constant.0"}
        same(loaded(weft.ones(2, 3)), model(weft.ones(2, 3)))
        missing = loaded.load_state_dict(model.state_dict(), strict=False)
        assert missing.missing_keys == ["constant.0"]


def jit_saved(model: nn.Module) -> Any:
    """The same by way of a saved program."""
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(model), file)
    file.seek(0)
    return export(weft.jit.load(file), (weft.randn(2, 3),))


def determinants(x):
    sign, size = weft.linalg.slogdet(x)
    return weft.linalg.det(x), sign, size


def test_ops_of_libraries() -> None:
    """Those that ONNX has."""
    made = export(determinants, (weft.randn(4, 3, 3),), dynamic_axes={"x": {0: "n"}})
    agrees(determinants, made.model_proto, [(weft.randn(2, 3, 3),), (weft.randn(5, 3, 3),)])
    with pytest.raises(NotOnnx, match="a call of linalg_eigh: no eigenvalues"):
        export(eigenvalues, (weft.eye(3),))


def eigenvalues(x):
    return weft.linalg.eigh(x)[0]


def test_a_program_of_an_older_version_is_refused() -> None:
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(nn.ReLU()), file)
    file.seek(0)
    program = weft.jit.load(file)
    older = program._json.replace('"relu":1', '"relu":0')
    program.__dict__["_json"] = older
    with pytest.raises(NotOnnx, match="relu as its version 0 has it.*save the program anew"):
        export(program, (weft.ones(2),))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", weft.tensor(0))

    def forward(self, x: Any) -> Any:
        self.n = self.n + 1
        return x * self.n


def test_a_buffer_that_is_set_is_refused_by_line() -> None:
    """It ended in an AttributeError of the walk."""
    with pytest.raises(NotOnnx, match="Counting.forward: .*test_onnx_export.py:.*attribute 'n'"):
        export(Counting(), (weft.ones(3),))


def test_names_of_inputs_differ() -> None:
    """The second one was written under another name."""
    with pytest.raises(ValueError, match="input_names that differ, got 'a' twice"):
        export(lambda a, b: a - b, (weft.ones(1), weft.ones(1)), input_names=["a", "a"])


def test_max_of_known_values_has_a_default() -> None:
    """It was a TypeError of the walk's own method."""

    def longest(x: Any, sizes: list[int]) -> Any:
        return x + max(sizes, default=3) + min([2, 5], default=0)

    for sizes in ([], [4, 7]):
        x = weft.ones(2)
        agrees(lambda x: longest(x, sizes), export(longest, (x, sizes)), [(x,)])
