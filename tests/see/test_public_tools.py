"""What public programs that draw the autograd graph ask of tensors and nodes, and such programs."""

import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from op_samples import CASES, RECORDS, Inputs, needs_peer, ours
from test_programs import RUN_WITH_WEFT

import weft

OPS = [
    name
    for name, record in RECORDS.items()
    if record["differentiable"] and record["samples"] and (record["function"] or record["method"])
]


def saved(node: Any) -> dict[str, Any]:
    return {name: getattr(node, name) for name in dir(node) if name.startswith("_saved_")}


def nodes_of(lib: Any, f: Any, sample: str) -> list[Any]:
    outputs = Inputs(lib, "float64", sample, grad=True).run(f, sample)
    return [node for t in outputs if (node := getattr(t, "grad_fn", None)) is not None]


SAVED = (weft.Tensor, int, float, complex, str, weft.dtype, type(None))


@pytest.mark.parametrize("op", OPS)
def test_all_that_a_node_lists_can_be_read(op: str) -> None:
    record = RECORDS[op]
    for name, sample in CASES:
        if name != op:
            continue
        for node in nodes_of(weft, ours(record), sample):
            for value in saved(node).values():
                parts = value if isinstance(value, tuple) else (value,)
                assert type(value) is not weft.Size
                assert all(isinstance(part, SAVED) for part in parts), type(value)
                for part in parts:
                    if isinstance(part, weft.Tensor):
                        assert part.numel() == np.array(part.tolist()).size
            with pytest.raises(AttributeError):
                node._saved_nothing_of_this_name  # noqa: B018


# By (node, attribute): what PyTorch keeps otherwise, for reasons of its own.
OTHERWISE = {
    ("NllLoss2DBackward0", "_saved_target"),  # it adds a dimension
}
# Of which no tensor is saved by both under one name.
NONE_IN_COMMON = set(
    """
    neg sign floor ceil trunc frac round add sub rsub lerp.Scalar floor_divide view expand
    transpose t permute squeeze squeeze.dim squeeze.dims unsqueeze select split split.sizes
    split_with_sizes unbind diagonal unfold as_strided cat stack clone fill linear flip roll
    repeat tril triu diag_embed normal.tensors normal.mean normal.std bernoulli bernoulli.p sum
    sum.dim mean mean.dim cumsum view_as_complex complex rad2deg deg2rad heaviside constant_pad_nd
    max_pool1d max_pool2d max_pool3d avg_pool1d adaptive_max_pool1d pixel_shuffle pixel_unshuffle
    channel_shuffle poisson binomial
    """.split()
)
UNLIKE = {("BernoulliBackward2", "NotImplemented")}


@pytest.mark.parametrize("op", OPS)
def test_tensors_saved_under_pytorchs_names_are_pytorchs(torch: Any, op: str) -> None:
    record = RECORDS[op]
    f, compared = needs_peer(torch, op), 0
    for name, sample in CASES:
        if name != op:
            continue
        for node, peer in zip(nodes_of(weft, ours(record), sample), nodes_of(torch, f, sample)):
            kinds = type(node).__name__, type(peer).__name__
            assert kinds[0] == kinds[1] or kinds in UNLIKE
            if kinds in UNLIKE:
                continue
            theirs = saved(peer)
            for attribute, value in saved(node).items():
                other = theirs.get(attribute)
                if not torch.is_tensor(other) or not isinstance(value, weft.Tensor):
                    continue
                if (type(node).__name__, attribute) in OTHERWISE:
                    continue
                compared += 1
                np.testing.assert_allclose(
                    np.array(value.tolist()), np.array(other.tolist()), rtol=1e-6, atol=1e-9
                )
    assert (compared == 0) == (op in NONE_IN_COMMON)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("x * 2", ["other", "self"]),
        ("x * x", ["other", "self"]),
        ("x.tanh()", ["result"]),
        ("x.softmax(0)", ["dim", "dtype", "result"]),
        ("x.max(0).values", ["dim", "indices", "keepdim"]),
        ("weft.cat([x, x])", ["dim"]),
        ("x[weft.tensor([0, 1])]", ["indices"]),
    ],
)
def test_names_follow_from_the_record(call: str, expected: list[str]) -> None:
    x = weft.ones(2, 2, requires_grad=True)
    node = eval(call, {"x": x, "weft": weft}).grad_fn
    assert [name.removeprefix("_saved_") for name in saved(node)] == expected


def test_values_that_a_node_did_not_need_are_none_and_lists_are_tuples() -> None:
    x = weft.ones(2, 2, requires_grad=True)
    assert (x * 2).grad_fn._saved_self is None
    assert (x * 2).grad_fn._saved_other.item() == 2
    (rows,) = x[weft.tensor([0, 1])].grad_fn._saved_indices
    assert rows.tolist() == [0, 1]


def test_what_backward_freed_raises(torch: Any) -> None:
    for lib in (weft, torch):
        x = lib.ones(2, requires_grad=True)
        y = x * x
        y.sum().backward()
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            y.grad_fn._saved_self  # noqa: B018


def test_a_leafs_node_and_a_functions_list_what_they_have() -> None:
    class Twice(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            ctx.note = "a note"
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g * 2

    x = weft.ones(2, requires_grad=True)
    node = Twice.apply(x).grad_fn
    assert {"saved_tensors", "note", "next_functions"} <= set(dir(node))
    leaf = node.next_functions[0][0]
    assert "variable" in dir(leaf) and leaf.variable is x
    assert node.requires_grad and leaf.requires_grad


VIEWS = """x; x.view(4); x[0]; x.t(); x.reshape(4); x.view(4)[1:]; x.chunk(2)[0]
x.expand(3, 2, 2)
x.narrow(0, 0, 1); x.squeeze(); x.flatten(); x.detach(); x.data; x.view(4).detach(); x + 1
x.clone(); x.contiguous(); x.detach().view(4); x.double()""".replace("\n", ";").split(";")


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("text", [t.strip() for t in VIEWS])
def test_views_are_known_as_pytorchs(torch: Any, text: str, requires_grad: bool) -> None:
    def seen(lib: Any) -> Any:
        x = lib.ones(2, 2, requires_grad=requires_grad)
        y = eval(text, {"x": x})
        return y._is_view(), y._base is x, y._base is None

    assert seen(weft) == seen(torch)


# ---- programs

DRAW = """
import torch
from torch.autograd import Function
from torchviz import make_dot

class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]

w, b = torch.ones(2, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
h = (w * w + b).tanh()
y = Square.apply(h)[0] * h.exp()
print(make_dot((y, y.view(2, 3)), {"w": w, "b": b}, show_saved=True).source)
"""

SUMMARY = """
import torch
from torchinfo import summary

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 4)
        self.out = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    def forward(self, xs):
        h = torch.zeros(xs.shape[0], 4)
        for x in xs.unbind(1):
            h = self.cell(x, h)
        return self.out(h)

columns = ("input_size", "output_size", "num_params", "mult_adds")
print(summary(Tied(), input_size=(3, 5, 4), depth=3, col_names=columns, verbose=0))
conv = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten())
print(summary(conv, input_size=(2, 1, 8, 8), col_names=columns, verbose=0))
"""


def printed(tmp_path: Any, program: str, launcher: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", launcher, str(path)],
        capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


RUN = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"


def numbered(source: str) -> str:
    """The addresses of a drawing, by the order in which they come."""
    numbers: dict[str, str] = {}
    return re.sub(r"\d{9,}", lambda m: numbers.setdefault(m[0], f"n{len(numbers)}"), source)


def test_torchviz_draws_what_it_draws_of_pytorch(torch: Any, tmp_path: Any) -> None:
    pytest.importorskip("torchviz")
    drawn = printed(tmp_path, DRAW, RUN_WITH_WEFT)
    assert numbered(drawn) == numbered(printed(tmp_path, DRAW, RUN))
    assert "_is_view" not in drawn and drawn.count("orange") >= 5


def test_torchviz_shows_the_attributes(tmp_path: Any) -> None:
    pytest.importorskip("torchviz")
    program = """
import torch
from torchviz import make_dot
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Softmax(1))
print(make_dot(model(torch.ones(2, 3)), dict(model.named_parameters()), show_attrs=True).source)
"""
    drawn = printed(tmp_path, program, RUN_WITH_WEFT)
    assert re.search(r"SoftmaxBackward0\n-+\ndim +: +1", drawn), drawn
    assert re.search(r"input *: +\[saved tensor\]", drawn) and "0.bias\n (4)" in drawn


def test_torchinfo_says_what_it_says_of_pytorch(torch: Any, tmp_path: Any) -> None:
    pytest.importorskip("torchinfo")
    text = printed(tmp_path, SUMMARY, RUN_WITH_WEFT)
    assert text == printed(tmp_path, SUMMARY, RUN)
    assert "GRUCell" in text and "Total params" in text


def test_no_plain_module_is_a_scripted_one() -> None:
    for scripted in (weft.jit.ScriptModule, weft.jit.ScriptFunction):
        assert not isinstance(weft.nn.Linear(1, 1), scripted)


def test_the_size_of_a_storage_counts_its_memory() -> None:
    storage = weft.ones(1000).untyped_storage()
    assert sys.getsizeof(storage) >= 4000 + object.__sizeof__(storage)
