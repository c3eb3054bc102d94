"""`weft.summary`: counts that add up, shared and recursive modules, inputs of any structure."""

import dataclasses
from typing import Any

import pytest

import weft
from weft import nn
from weft.see import Summary
from weft.see.nested import tensors_in

MODELS: dict[str, Any] = {
    "mlp": lambda: (nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), weft.ones(2, 8)),
    "images": lambda: (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2)),
        weft.ones(2, 3, 6, 6),
    ),
    "transformer": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32), 2),
        weft.ones(5, 2, 16),
    ),
    "lstm": lambda: (nn.LSTM(3, 4, 2, bidirectional=True), weft.ones(5, 2, 3)),
    "one": lambda: (nn.Linear(3, 4), weft.ones(3)),
}


@pytest.mark.parametrize("name", MODELS)
def test_sums(name: str) -> None:
    """The root has all parameters; the rows of a table at any depth add up to the totals."""
    model, x = MODELS[name]()
    with weft.record() as g, weft.no_grad():
        model.eval()(x)
    for depth in (None, 0, 1, 2):
        s = weft.summary(model, x, depth=depth)
        assert s.parameters == sum(p.numel() for p in model.parameters())
        assert s.multiply_adds == g.flops // 2 > 0
        rows = str(s).splitlines()[2:]
        rows = rows[: next(i for i, row in enumerate(rows) if row.startswith("---"))]
        parameters, work = zip(*(r.replace("-", "0").split()[-2:] for r in rows), strict=True)
        assert sum(int(n.replace(",", "")) for n in parameters) == s.parameters
        assert sum(int(n.replace(",", "")) for n in work) == s.multiply_adds
        assert depth is None or all(r.index(r.strip()) <= 2 * depth for r in rows)


def test_a_module_in_several_places_has_its_parameters_once() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 4)
            self.a = nn.Sequential(self.body, nn.ReLU())
            self.b = nn.Sequential(nn.Tanh(), self.body)
            self.tied = nn.Linear(4, 4, bias=False)
            self.tied.weight = self.body.weight

        def forward(self, x: Any) -> Any:
            for _ in range(5):
                x = self.body(x)
            return self.tied(self.b(self.a(x)))

    s = weft.summary(Net(), weft.ones(2, 4))
    assert s.parameters == 20
    assert (s["body"].calls, s["body"].parameters, s["body"].shared) == (5, 20, False)
    assert s["body"].multiply_adds == 5 * 2 * 16
    assert (s["a.0"].calls, s["a.0"].parameters, s["a.0"].shared) == (1, 0, True)
    assert (s["b.1"].shared, s["tied"].shared, s["tied"].parameters) == (True, False, 0)
    assert s.multiply_adds == 8 * 2 * 16
    assert "×5" in str(s)
    assert str(s).count("shared") == 3  # two modules, and a layer whose parameter is tied


class Tree(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 4)
        self.leaf = nn.Embedding(5, 4)
        self.unused = nn.Linear(2, 2)

    def forward(self, tree: Any) -> Any:
        if isinstance(tree, tuple):
            return self.mix(weft.cat([self(tree[0]), self(tree[1])], -1)).tanh()
        return self.leaf(weft.tensor(tree))


def test_a_module_that_calls_itself_is_one_layer() -> None:
    s = weft.summary(Tree(), ((1, 2), (3, (4, 1))))
    assert [(layer.path, layer.calls) for layer in s.layers] == [("", 9), ("leaf", 5), ("mix", 4)]
    assert s["mix"].multiply_adds == 4 * 32 == s.multiply_adds
    assert s.parameters == 36 + 20 + 6  # that of a module that was not called is the holder's
    assert s.root.parameters - s["mix"].parameters - s["leaf"].parameters == 6


def test_shapes_of_unlike_calls() -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(3, 2)

        def forward(self, xs: Any) -> Any:
            return [self.f(x) for x in xs]

    s = weft.summary(Loop(), [weft.ones(4, 3), weft.ones(5, 3)])
    assert (s["f"].inputs, s["f"].outputs, s["f"].alike) == (((4, 3),), ((4, 2),), False)
    assert s.root.inputs == ((4, 3), (5, 3))
    assert "[4, 3] ..." in str(s)
    assert s["f"].bytes == (8 + 10) * 4


def test_inputs_of_any_structure() -> None:
    """Positional and keyword ones, dicts, lists and tuples, handed on as they are."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(3, 2)

        def forward(self, batch: Any, pair: Any = (), *, scale: Any = 1.0) -> Any:
            return {"out": self.f(batch["x"] + sum(pair)) * scale, "n": 3}

    x = weft.ones(4, 3)
    s = weft.summary(Net(), {"x": x}, (x, x), scale=weft.ones(2))
    assert s.root.inputs == ((4, 3), (4, 3), (4, 3), (2,))
    assert s.root.outputs == ((4, 2),)
    assert s.input_bytes == 3 * 48 + 8


def test_it_leaves_the_model_as_it_was() -> None:
    """Flags, buffers, hooks, gradients and the generator; also where the model raises."""
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3))
    model[2].eval()
    model[0].weight.requires_grad_(False)

    def state() -> list[Any]:
        return [
            [m.training for m in model.modules()],
            [b.tolist() for b in model.buffers()],
            [id(b) for b in model.buffers()],
            [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()],
            [p.grad for p in model.parameters()],
            weft.get_rng_state().tolist(),
            weft._C._Log.running(),
        ]

    before = state()
    modes: list[Any] = []
    watch = model.register_forward_pre_hook(lambda m, _: modes.append([m.training, m[2].training]))
    before = state()
    for mode in ("eval", "train", "same"):
        s = weft.summary(model, weft.ones(4, 3), mode=mode)
        assert state() == before
    assert modes == [[False, False], [True, True], [True, False]]
    assert (s.parameters, s.trainable) == (18, 15)
    assert "18, 3 of them fixed" in str(s)
    with pytest.raises(RuntimeError, match="linear|expected"):
        weft.summary(model, weft.ones(4, 5), mode="train")
    assert state() == before
    watch.remove()


def test_lazy_parameters_are_made() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    s = weft.summary(model, weft.ones(3, 2))
    assert s.parameters == 12 + 8
    assert s["0"].kind == "Linear"
    assert model(weft.ones(3, 2)).shape == (3, 4)


def test_bytes() -> None:
    s = weft.summary(nn.Sequential(nn.Linear(256, 512), nn.ReLU()), weft.ones(8, 256))
    assert s.parameter_bytes == 4 * (512 * 256 + 512)
    assert s.output_bytes == 2 * 8 * 512 * 4
    assert 8 * 512 * 4 <= s.peak_bytes <= 2 * 8 * 512 * 4


def test_within_a_recording() -> None:
    model = nn.Linear(2, 3)
    with weft.record() as g:
        weft.ones(2, 2) @ weft.ones(2, 2)
        s = weft.summary(model, weft.ones(4, 2))
    assert s.multiply_adds == 24
    assert g.flops == 16 + 48


def test_errors() -> None:
    with pytest.raises(TypeError, match=r"\[summary\] expected a module, got int"):
        weft.summary(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected mode"):
        weft.summary(nn.ReLU(), weft.ones(1), mode="off")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="depth"):
        weft.summary(nn.ReLU(), weft.ones(1), depth=-1)
    with pytest.raises(KeyError):
        weft.summary(nn.ReLU(), weft.ones(1))["no"]
    assert isinstance(weft.summary(nn.ReLU(), weft.ones(1)), Summary)


def test_tied_parameters_show_as_shared_and_count_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10)
            self.plain = nn.Linear(10, 10, bias=False)
            self.again = nn.Linear(10, 10, bias=False)
            self.head.weight = self.embedding.weight
            self.again.weight = self.plain.weight

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            y: weft.Tensor = self.again(self.plain(self.head(self.embedding(x))))
            return y

    found = weft.summary(Tied(), weft.tensor([1, 2]))
    cells = {row.split(":")[0].strip(): row for row in str(found).splitlines()}
    assert "  10 + shared  " in cells["head"] and "  40  " in cells["embedding"]
    assert "  shared  " in cells["again"] and "shared" not in cells["plain"]
    assert found.parameters == 40 + 10 + 100


def test_tensors_in_what_is_nested() -> None:
    """Modules take and give these; a list that holds itself ends."""

    @dataclasses.dataclass(slots=True)
    class Pair:
        first: Any
        second: Any

    x, y, z = (weft.ones(n) for n in (1, 2, 3))
    nest: list[Any] = [x, {"a": (y, 3), "b": Pair(z, None)}, Pair]
    assert [t.numel() for t in tensors_in(nest)] == [1, 2, 3]
    assert [t.numel() for t in tensors_in([x, (y,), z], depth=1)] == [1, 3]
    assert [t.numel() for t in tensors_in([[x, y, z], y], width=2)] == [1, 2, 2]
    ring: list[Any] = [x]
    ring.append(ring)
    assert {id(t) for t in tensors_in(ring)} == {id(x)}
