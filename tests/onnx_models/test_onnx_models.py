"""Whole models in ONNX, run by ONNX Runtime on other sizes and values, and loaded again."""

import copy
import io
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft
from weft import nn

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from weft.onnx import export  # noqa: E402

onnxruntime.set_default_logger_severity(4)


def tensors(v: Any) -> list[weft.Tensor]:
    if isinstance(v, weft.Tensor):
        return [v]
    return [t for part in v for t in tensors(part)] if isinstance(v, (tuple, list)) else []


def agrees(model: Any, made: Any, calls: list[tuple[Any, ...]]) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    for args in calls:
        fed = {i.name: t.numpy() for i, t in zip(session.get_inputs(), tensors(args), strict=True)}
        with weft.no_grad():
            out = model(*args)
        expected = list(out) if isinstance(out, (tuple, list)) else [out]
        for a, b in zip(session.run(None, fed), expected, strict=True):
            b = b.numpy() if isinstance(b, weft.Tensor) else np.array(b)
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, 1e-4, 1e-5)


class GRULoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRUCell(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        h, hs = weft.zeros(x.shape[0], 4), []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            hs.append(h)
        return self.out(weft.stack(hs, 1)), h


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
        self.gru, self.rnn = nn.GRU(8, 5), nn.RNN(5, 2)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, k = self.gru(y)
        return self.rnn(z)[0], h, c, k


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(20, 16), nn.Parameter(weft.randn(16, 16) * 0.1)
        layer = dict(dim_feedforward=32, batch_first=True, dropout=0.0, norm_first=True)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, **layer) for _ in range(2))
        self.head = nn.Linear(16, 20)

    def forward(self, i):
        n = i.shape[1]
        x = self.token(i) + self.place[:n]
        mask = weft.triu(weft.full((n, n), float("-inf")), 1)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


class Greedy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = GPT()

    def forward(self, i):
        while i.shape[1] < 10:
            i = weft.cat([i, self.model(i)[:, -1].argmax(-1, keepdim=True)], 1)
        return i


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.norm = nn.Linear(4, 12), nn.RMSNorm(4)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (
            p.reshape(b, t, 2, 2).transpose(1, 2) for p in self.wide(self.norm(x)).chunk(3, -1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).reshape(b, t, 4)


def branch(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 2
    return y + 1


def returns(x):
    if x.sum() > 0:
        return x * 2
    if x.sum() < -10:
        x = x + 5
    return x - 2


def halvings(x):
    steps = 0
    while x.abs().max() > 1:
        x, steps = x / 2, steps + 1
    return x, steps


def early_exit(x, limit):
    total = weft.zeros(3)
    for row in x:
        total = total + row
        if total.sum() > limit:
            break
    return total


def writes(x):
    out = weft.zeros(x.shape[0], 3)
    for t in range(x.shape[0]):
        out[t] = x[t].cumsum(0)
    out[:, 0] += 1
    first = out[0]
    out[out > 3] = 0
    first.mul_(2)
    return out, first


def sizes(x):
    n = x.shape[0]
    pad = (4 - n % 4) % 4
    y = nn.functional.pad(x, (0, 0, 0, pad))
    half = max(n // 2, 1)
    return y.reshape(-1, 4, x.shape[1]).mean(1), x[:half], weft.arange(n) / n


def nested(x):
    total = weft.zeros(())
    for t in range(x.shape[0]):
        for k in range(t):
            if x[t, 0] > x[k, 0]:
                total = total + x[t, 0]
    return total


def numbers(x, y):
    return x.clamp(max=y.max()), weft.full((2, x.shape[0]), y[0].item()), x + int(y.sum()) // 2


def checked(x):
    if x.shape[0] > 1000:
        raise ValueError("too many")
    return x + 1


def masked(x):
    rows = x[x[:, 0] > 0]
    return x[x > 0], rows, rows + 1, x[:, weft.tensor([True, False])], rows.shape[0]


def in_place():
    layers = nn.Sequential(
        nn.Linear(3, 4), nn.ReLU(inplace=True), nn.SiLU(inplace=True), nn.ReLU6(inplace=True),
        nn.LeakyReLU(0.1, inplace=True), nn.ELU(inplace=True), nn.Hardswish(inplace=True),
    )  # fmt: skip

    def f(x):
        y = layers(x)
        before = y[0]
        nn.functional.relu(y, inplace=True)
        weft.sigmoid_(y[:, 1])
        return y, before

    return f


def until(x):
    k = 0
    while True:
        x, k = x + 1, k + 1
        if x.sum() > 10:
            break
    return x, k


def attributes(x):
    """`is_cpu` was refused: it was in no list of attributes that are known."""
    plain = x.is_cpu and not (x.is_cuda or x.is_mps or x.is_sparse or x.requires_grad)
    scale = x.itemsize if plain and x.is_leaf and x.grad is None else x.ndim
    return x.mT * scale, x.data.to(x.dtype).T.real * x.ndim


class Case(NamedTuple):
    model: Any
    args: tuple[Any, ...]
    more: list[tuple[Any, ...]]
    free: Any = None
    has: str = ""
    opset: int = 21


R = weft.randn
CASES = {
    "mlp": lambda: Case(
        nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)),
        (R(4, 3),), [(R(7, 3),)], {"input": {0: "n"}},
    ),
    "cnn": lambda: Case(
        nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64, 5), nn.LogSoftmax(1),
        ),
        (R(2, 1, 8, 8),), [(R(5, 1, 8, 8),)], {"input": {0: "n"}},
    ),
    "gpt": lambda: Case(
        GPT(), (weft.randint(20, (2, 6)),), [(weft.randint(20, (3, 11)),)], {"i": {0: "b", 1: "t"}}
    ),
    "greedy": lambda: Case(
        Greedy(), (weft.randint(20, (2, 6)),), [(weft.randint(20, (2, 3)),)], {"i": {1: "t"}},
        "Loop",
    ),
    "attention 21": lambda: Case(
        Attention(), (R(2, 5, 4),), [(R(3, 7, 4),)], {"x": {0: "b", 1: "t"}}
    ),
    "attention 23": lambda: Case(
        Attention(), (R(2, 5, 4),), [(R(3, 7, 4),)], {"x": {0: "b", 1: "t"}}, "Attention", 23
    ),
    "gru loop": lambda: Case(
        GRULoop(), (R(2, 5, 3),), [(R(3, 9, 3),), (R(2, 1, 3),)], {"x": {0: "n", 1: "t"}}, "Loop"
    ),
    "gru loop of one length": lambda: Case(GRULoop(), (R(2, 5, 3),), [], None, "Loop"),
    "layers": lambda: Case(
        Recurrent(), (R(2, 5, 3),), [(R(3, 7, 3),)], {"x": {0: "b", 1: "t"}}, "LSTM"
    ),
    "branch": lambda: Case(branch, (R(3).abs(),), [(-R(3).abs(),)], None, "If"),
    "returns": lambda: Case(
        returns, (weft.ones(3),), [(-weft.ones(3),), (-20 * weft.ones(3),)], None, "If"
    ),
    "halvings": lambda: Case(
        halvings, (weft.tensor([3.0, -20.0]),), [(weft.ones(2) / 2,), (R(2) * 100,)], None, "Loop"
    ),
    "early exit": lambda: Case(
        early_exit, (weft.ones(6, 3), weft.tensor(7.0)),
        [(weft.ones(9, 3), weft.tensor(100.0)), (weft.ones(9, 3), weft.tensor(1.0))],
        {"x": {0: "t"}}, "Loop",
    ),
    "writes": lambda: Case(writes, (weft.ones(4, 3),), [(R(6, 3),)], {"x": {0: "t"}}, "Loop"),
    "sizes": lambda: Case(sizes, (R(6, 3),), [(R(9, 3),), (R(1, 3),)], {"x": {0: "n"}}),
    "nested": lambda: Case(nested, (R(4, 2),), [(R(7, 2),)], {"x": {0: "n"}}, "Loop"),
    "numbers": lambda: Case(
        numbers, (R(4, 2), weft.tensor([0.5, 3.0])), [(R(7, 2), weft.tensor([1.5, 0.0]))],
        {"x": {0: "n"}},
    ),
    "checked": lambda: Case(checked, (R(4, 2),), [(R(7, 2),)], {"x": {0: "n"}}),
    "masked": lambda: Case(
        masked, (weft.tensor([[1.0, -2], [-3, 4], [5, 6]]),), [(R(7, 2),), (-R(3, 2).abs(),)],
        {"x": {0: "n"}},
    ),
    "until": lambda: Case(until, (R(2),), [(R(2) - 20,), (R(2) + 20,)], None, "Loop"),
    "attributes": lambda: Case(attributes, (R(4, 3),), [(R(7, 3),)], {"x": {0: "n"}}),
    "in place": lambda: Case(in_place(), (R(4, 3),), [(R(7, 3),)], {"x": {0: "n"}}),
}  # fmt: skip


def kinds_in(graph: Any) -> list[str]:
    """The operators of a graph, and of those within."""
    inner = [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
    return [n.op_type for n in graph.node] + [kind for g in inner for kind in kinds_in(g)]


@pytest.mark.parametrize("name", CASES)
def test_models_run_elsewhere(name: str) -> None:
    weft.manual_seed(0)
    model, args, more, free, has, opset = CASES[name]()
    if isinstance(model, nn.Module):
        model.eval()
    made = export(model, args, dynamic_axes=free, opset=opset)
    kinds = kinds_in(made.graph)
    assert not has or has in kinds, kinds
    if has not in ("If", "LSTM", "Attention"):  # these stand in an If, for a batch of none
        assert "If" not in [n.op_type for n in made.graph.node]
    agrees(model, made, [args, *more])


def same(found: Any, expected: Any) -> None:
    for a, b in zip(flat(found), flat(expected), strict=True):
        a, b = (t.detach().numpy() if isinstance(t, weft.Tensor) else np.array(t) for t in (a, b))
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def test_an_attribute_that_goes_by_a_free_size_is_refused() -> None:
    def bytes_of(x: Any) -> Any:
        return x + x.nbytes

    agrees(bytes_of, export(bytes_of, (R(4, 3),)), [(R(4, 3),)])
    with pytest.raises(RuntimeError, match="the attribute 'nbytes' of a tensor"):
        export(bytes_of, (R(4, 3),), dynamic_axes={"x": {0: "n"}})


def flat(v: Any) -> list[Any]:
    return list(v) if isinstance(v, (tuple, list)) else [v]


def scripted(model: nn.Module) -> Any:
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(model), file)
    file.seek(0)
    return weft.jit.load(file)


LOADED = {
    "as it is": lambda model: model,
    "compiled": weft.compile,
    "saved": scripted,
    "copied": copy.deepcopy,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("name", CASES)
def test_models_come_back(name: str) -> None:
    weft.manual_seed(0)
    model, args, more, free, _, opset = CASES[name]()
    if isinstance(model, nn.Module):
        model.eval()
    loaded = weft.onnx.load(export(model, args, dynamic_axes=free, opset=opset))
    for way in LOADED.values():
        made = way(loaded)
        for _ in range(3):  # stretches of compiled ones are there from the second run on
            for call in (args, *more):
                with weft.no_grad():
                    same(made(*tensors(call)), model(*call))
    batched = weft.autobatch(loaded)
    with weft.no_grad():
        for call in (args, *more):
            rows = batched(*([t, t, t] for t in tensors(call)))
            for row in rows:
                same(row, model(*call))


TRAINS = ("mlp", "cnn", "gpt", "attention 21", "attention 23", "gru loop", "layers")


@pytest.mark.parametrize("name", TRAINS)
def test_models_that_come_back_train_alike(name: str) -> None:
    weft.manual_seed(0)
    model, args, _, free, _, opset = CASES[name]()
    model.eval()
    loaded = weft.onnx.load(export(model, args, dynamic_axes=free, opset=opset))
    norms = []
    for each in (model, loaded):
        loss = sum((t * t).sum() for t in flat(each(*args)))
        loss.backward()
        norms.append(sum((p.grad * p.grad).sum() for p in each.parameters() if p.grad is not None))
    assert abs(norms[0] - norms[1]) < 1e-3 * norms[0]
    assert all(p.grad is not None for p in loaded.parameters())


def test_what_came_back_goes_out_again() -> None:
    model = CASES["cnn"]().model.eval()
    loaded = weft.onnx.load(export(model, R(2, 1, 8, 8)))
    again = export(loaded, R(2, 1, 8, 8))
    agrees(model, again, [(R(2, 1, 8, 8),)])
