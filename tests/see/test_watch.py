"""`weft.watch`: numbers of layers, and what is wrong with them."""

import gc
import math
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.see.watching import Flag, Numbers


def array(t: weft.Tensor) -> Any:
    return np.array(t.detach().tolist())


def small() -> nn.Sequential:
    weft.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def sgd(model: nn.Module, lr: float = 0.1) -> weft.optim.SGD:
    return weft.optim.SGD(model.parameters(), lr=lr)


def agrees(numbers: Numbers, values: Any) -> None:
    values = np.concatenate([np.ravel(v) for v in values])
    assert numbers.counted == len(values) and numbers.nan == numbers.inf == 0
    expected = values.mean(), values.std(), values.min(), values.max()
    found = numbers.mean, numbers.std, numbers.min, numbers.max
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


# ---- numbers


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("accumulate", ["backward each", "one backward"])
def test_numbers_are_numpys(passes: int, accumulate: str) -> None:
    model = small()
    optimizer = sgd(model)
    first = model[0]
    before = array(first.weight), array(first.bias)
    outputs = []
    handle = first.register_forward_hook(lambda m, a, o: outputs.append(array(o)))
    with weft.watch(model, every=1) as seen:
        losses = [model(weft.randn(5, 4)).square().mean() for _ in range(passes)]
        if accumulate == "one backward":
            weft.stack(losses).sum().backward()
        else:
            for loss in losses:
                loss.backward()
        grads = array(first.weight.grad), array(first.bias.grad)
        optimizer.step()
    handle.remove()
    (report,) = seen.reports
    layer = report["0"]
    assert (layer.type, layer.calls) == ("Linear", passes)
    agrees(layer.activations, outputs)
    agrees(layer.gradients, grads)
    agrees(layer.weights, [array(first.weight), array(first.bias)])
    norm = np.linalg.norm(np.concatenate([b.ravel() for b in before]))
    of_grads = np.linalg.norm(np.concatenate([g.ravel() for g in grads]))
    assert layer.gradient_ratio == pytest.approx(of_grads / norm, rel=1e-4)
    assert layer.update_ratio == pytest.approx(0.1 * of_grads / norm, rel=1e-3)
    assert layer.line.startswith("test_watch.py:") and [r.name for r in report.layers] == list(
        "012"
    )


def test_numbers_of_parts_are_those_of_the_whole() -> None:
    t = weft.randn(40, 10)
    whole, parts = Numbers(), Numbers()
    whole.add(t)
    for k in (0, 3, 10, 40):
        parts.add(t[k : {0: 3, 3: 10, 10: 40, 40: 40}[k]])
    for name in ("counted", "mean", "std", "min", "max"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-5)


def test_a_report_holds_its_layers() -> None:
    """`list(report)` and `in` asked for layer 0: KeyError."""
    model = small()
    with weft.watch(model) as seen:
        model(weft.ones(3, 4))
        report = seen.report()
    assert [layer.name for layer in report] == ["0", "1", "2"] and len(report) == 3
    assert "1" in report and "x" not in report and 0 not in report
    assert report["1"] in report


def test_only_steps_in_every_are_looked_at_and_others_have_no_hooks() -> None:
    model = small()
    optimizer = sgd(model)
    hooked = []
    with weft.watch(model, every=3, nan=False) as seen:
        for _ in range(7):
            hooked.append([bool(m._forward_hooks) for m in model])
            model(weft.randn(5, 4)).sum().backward()
            optimizer.step()
    assert [r.step for r in seen.reports] == [0, 3, 6]
    assert hooked == [[k % 3 == 0] * 3 for k in range(7)]
    assert not any(m._forward_hooks for m in model)


def test_it_changes_nothing() -> None:
    def trained(watched: bool) -> list[Any]:
        model = small()
        optimizer = weft.optim.Adam(model.parameters())
        weft.manual_seed(1)
        seen = weft.watch(model, every=2) if watched else None
        for _ in range(5):
            optimizer.zero_grad()
            model(weft.randn(5, 4)).square().mean().backward()
            optimizer.step()
        if seen is not None:
            seen.remove()
        return [p.tolist() for p in model.parameters()]

    assert trained(True) == trained(False)


def test_a_report_prints_and_gives_metrics() -> None:
    model = small()
    optimizer = sgd(model)
    with weft.watch(model) as seen:
        model(weft.randn(5, 4)).sum().backward()
        optimizer.step()
    text = str(seen.report())
    assert text.startswith("step 0\nlayer") and "Linear" in text and "test_watch.py:" in text
    metrics = seen.report().metrics()
    assert metrics["0/update_ratio"] == seen.report()["0"].update_ratio
    assert all(isinstance(v, float) and math.isfinite(v) for v in metrics.values())
    with pytest.raises(KeyError):
        seen.report()["9"]


# ---- shapes of models


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4)
        self.again = self.mix

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.again(self.mix(x).tanh()).sum()


class Tree(nn.Module):
    """Recursive: calls itself for each child."""

    def __init__(self) -> None:
        super().__init__()
        self.leaf, self.node = nn.Embedding(8, 4), nn.Linear(8, 4)

    def forward(self, tree: Any) -> weft.Tensor:
        if isinstance(tree, int):
            return self.leaf(weft.tensor(tree))
        return self.node(weft.cat([self(tree[0]), self(tree[1])])).tanh()


class Tuples(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, 4)
        self.scale = nn.Parameter(weft.ones(1))

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        out, _ = self.rnn(x)
        return (out * self.scale).sum()


TREES = [((1, 2), 3), (4, (5, (6, 7))), (0, 1), ((1, 1), (2, 2))]
MODELS: list[tuple[Callable[[], nn.Module], Callable[[Any], Any], dict[str, int]]] = [
    (Shared, lambda m: m(weft.randn(3, 4)), {"mix": 2}),
    (Tree, lambda m: sum(m(t).sum() for t in TREES), {"leaf": 13, "node": 9}),
    (Tuples, lambda m: m(weft.randn(3, 2, 4)), {"rnn": 1, "": 1}),
]


@pytest.mark.parametrize(("make", "loss_of", "calls"), MODELS, ids=["shared", "tree", "tuples"])
def test_calls_of_a_layer_count_together(make: Any, loss_of: Any, calls: dict[str, int]) -> None:
    model = make()
    optimizer = sgd(model)
    with weft.watch(model, every=1) as seen:
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
    for report in seen.reports:
        assert {layer.name: layer.calls for layer in report.layers} == calls
        for layer in report.layers:
            assert layer.activations.counted > 0 and layer.update_ratio > 0


@pytest.mark.parametrize("adaptive", [True, False])
def test_under_autobatch_numbers_are_those_of_the_loop(adaptive: bool) -> None:
    def found(batched: bool) -> Any:
        weft.manual_seed(0)
        model = Tree()
        optimizer = sgd(model)

        def loss_of(tree: Any) -> weft.Tensor:
            return model(tree).square().sum()

        run = weft.autobatch(loss_of, adaptive=adaptive) if batched else None
        with weft.watch(model, every=2) as seen:
            for _ in range(3):
                optimizer.zero_grad()
                losses = run(TREES) if run else [loss_of(t) for t in TREES]
                sum(losses).backward()
                optimizer.step()
        return seen.reports

    for a, b in zip(found(False), found(True), strict=True):
        assert a.step == b.step
        for name in ("leaf", "node"):
            p, q = a[name], b[name]
            assert (p.calls, p.activations.counted) == (q.calls, q.activations.counted)
            assert q.line.startswith("test_watch.py:")
            for what in ("activations", "gradients", "weights"):
                for number in ("mean", "std", "min", "max"):
                    found_by_loop = getattr(getattr(p, what), number)
                    assert getattr(getattr(q, what), number) == pytest.approx(
                        found_by_loop, rel=1e-4, abs=1e-6
                    )
            assert q.update_ratio == pytest.approx(p.update_ratio, rel=1e-3)


def test_watching_leaves_the_batches_as_they_are() -> None:
    model = Tree()
    run = weft.autobatch(lambda tree: model(tree).sum(), adaptive=False)

    def batches() -> str:
        with weft.explain() as report:
            sum(run(TREES)).backward()
        return str(report).partition(";")[0]

    alone = batches()
    with weft.watch(model, every=1, nan=False):
        assert batches() == alone and " calls ran as " in alone


def test_under_vmap_numbers_are_of_all_examples() -> None:
    model = small()
    optimizer = sgd(model)
    xs = weft.randn(40, 4)
    outputs = model[1](model[0](xs))
    with weft.watch(model, every=1) as seen:
        weft.func.vmap(lambda x: model(x).sum())(xs).sum().backward()
        optimizer.step()
    layer = seen.report()["1"]
    assert layer.calls == 1 and layer.dead == 0
    agrees(layer.activations, [array(outputs)])


def test_calls_without_gradients_do_not_count() -> None:
    model = small()
    optimizer = sgd(model)
    with weft.watch(model, every=1) as seen:
        with weft.no_grad():
            model(weft.full((5, 4), 1e6))
        model(weft.randn(5, 4)).sum().backward()
        optimizer.step()
    assert seen.report()["0"].calls == 1 and seen.report()["0"].activations.max < 100


# ---- steps


def test_several_optimizers_are_each_measured_and_one_is_counted() -> None:
    model = small()
    first, second = sgd(model[0], 0.1), sgd(model[2], 0.01)
    with weft.watch(model, every=2) as seen:
        for _ in range(4):
            model.zero_grad()
            model(weft.randn(5, 4)).square().mean().backward()
            first.step()
            second.step()
    assert [r.step for r in seen.reports] == [0, 2]
    for report in seen.reports:
        for name, lr in (("0", 0.1), ("2", 0.01)):
            layer = report[name]
            assert layer.update_ratio == pytest.approx(lr * layer.gradient_ratio, rel=1e-3)


def test_optimizers_of_other_models_do_not_count() -> None:
    model, other = small(), small()
    optimizer, others = sgd(model), sgd(other)
    with weft.watch(model, every=1) as seen:
        for _ in range(3):
            other(weft.randn(5, 4)).sum().backward()
            others.step()
            model(weft.randn(5, 4)).sum().backward()
        optimizer.step()
    (report,) = seen.reports
    assert report["0"].calls == 3


def test_steps_by_hand() -> None:
    model = small()
    with weft.watch(model, every=1) as seen:
        for _ in range(3):
            model.zero_grad()
            model(weft.randn(5, 4)).square().mean().backward()
            with weft.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
            seen.step()
    layers = [r["0"] for r in seen.reports]
    assert len(layers) == 3
    assert layers[1].update_ratio == pytest.approx(0.1 * layers[1].gradient_ratio, rel=1e-3)


def test_before_a_step_has_ended_the_report_is_of_what_ran() -> None:
    model = small()
    with weft.watch(model) as seen:
        model(weft.randn(5, 4))
        assert seen.report()["0"].calls == 1


def test_frozen_layers_have_no_ratio() -> None:
    model = small()
    model[0].requires_grad_(False)
    optimizer = weft.optim.SGD(model[2].parameters(), lr=0.1)
    with weft.watch(model, every=1) as seen:
        model(weft.randn(5, 4)).sum().backward()
        optimizer.step()
    assert math.isnan(seen.report()["0"].update_ratio) and seen.report()["2"].update_ratio > 0


def test_it_is_removed_and_holds_nothing() -> None:
    model = small()
    optimizer = sgd(model)
    seen = weft.watch(model, every=1)
    model(weft.randn(5, 4)).sum().backward()
    optimizer.step()
    seen.remove()
    seen.remove()
    assert not any(m._forward_hooks for m in model)
    model(weft.randn(5, 4)).sum().backward()
    optimizer.step()
    assert len(seen.reports) == 1 and weft._C._Log.running() is None
    gone = weakref.ref(model)
    del model, optimizer, seen
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: weft.watch(3), TypeError, r"\[watch\] expected a module, got int"),  # type: ignore[arg-type]
        (lambda: weft.watch(small(), every=0), ValueError, "every of at least 1, got 0"),
    ],
)
def test_refuses(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()
    assert weft._C._Log.running() is None


# ---- flags


def flags_of(model: nn.Module, steps: int = 1, **options: Any) -> list[Flag]:
    found: list[Flag] = []
    optimizer = sgd(model, 0.01)
    weft.manual_seed(2)
    with weft.watch(model, every=1, on_flag=found.append, **options) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            model(weft.randn(64, 8)).square().mean().backward()
            optimizer.step()
    assert seen.flags == found
    return found


def deep(act: Callable[[], nn.Module], layers: int = 8) -> nn.Sequential:
    weft.manual_seed(0)
    parts = [m for _ in range(layers) for m in (nn.Linear(8, 8), act())]
    return nn.Sequential(*parts, nn.Linear(8, 1))


def test_a_healthy_model_has_no_flags() -> None:
    assert flags_of(deep(nn.Tanh, 3), steps=5) == []


def test_a_vanishing_gradient_and_where_it_begins() -> None:
    (flag,) = flags_of(deep(nn.Sigmoid), steps=3)[:1]
    assert flag.kind == "vanishing gradient" and flag.line.startswith("test_watch.py:")
    assert 0 < int(flag.layer) < 14 and "layers" in flag.text


def test_an_exploding_gradient() -> None:
    model = deep(nn.Identity)
    with weft.no_grad():
        for p in model.parameters():
            p *= 20
    flags = flags_of(model)
    assert [f.kind for f in flags] == ["exploding gradient"]


def test_dead_units() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    with weft.no_grad():
        model[0].bias[:5] = -100
    (flag,) = [f for f in flags_of(model) if f.kind == "dead units"]
    assert (flag.layer, flag.text[:3]) == ("1", "62%")
    with weft.no_grad():
        model[0].bias[:5] = 0
    assert not [f for f in flags_of(model) if f.kind == "dead units"]


def test_dead_channels_of_pictures() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.act = nn.Conv2d(1, 4, 3), nn.ReLU()

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            return self.act(self.conv(x.view(-1, 1, 8, 8)))

    model = Net()
    with weft.no_grad():
        model.conv.bias[1:] = -100
    (flag,) = [f for f in flags_of(model) if f.kind == "dead units"]
    assert (flag.layer, flag.text[:3]) == ("act", "75%")


class Logs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 4)
        self.steps = 0

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        h = self.mix(x)
        self.steps += 1
        if self.steps == 3:
            h = (h - 1e9).log()  # the planted one
        return h.sum(1)


def planted_line() -> int:
    lines = open(__file__).read().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if "# the planted one" in line)


def test_the_first_nan_has_the_ops_line_in_a_step_that_is_not_looked_at() -> None:
    found: list[Flag] = []
    model = Logs()
    optimizer = sgd(model)
    with weft.watch(model, every=100, on_flag=found.append):
        for _ in range(5):
            optimizer.zero_grad()
            model(weft.ones(2, 8)).sum().backward()
            optimizer.step()
    (flag,) = found
    assert (flag.step, flag.kind, flag.layer) == (2, "nan", "")
    assert flag.line == f"test_watch.py:{planted_line()}" and flag.text.startswith("log of")


def test_without_the_search_a_nan_is_known_by_its_layer() -> None:
    flags = [f for f in flags_of(Logs(), steps=5, nan=False) if f.kind == "nan"]
    (flag,) = flags
    assert flag.layer == "mix"


def test_a_nan_that_backward_makes() -> None:
    found: list[Flag] = []
    model = nn.Linear(2, 1, bias=False)
    with weft.watch(model, on_flag=found.append):
        (model(weft.zeros(3, 2)).abs().sqrt() * 0).sum().backward()
    assert found[0].kind == "nan" and found[0].text.startswith("in backward, ")


def test_flags_are_warnings_once() -> None:
    model = deep(nn.Sigmoid)
    optimizer = sgd(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with weft.watch(model, every=1):
            for _ in range(3):
                optimizer.zero_grad()
                model(weft.randn(64, 8)).square().mean().backward()
                optimizer.step()
    texts = [str(w.message) for w in caught]
    assert texts and all(t.startswith("[watch] step ") for t in texts)
    assert len({t.split(":")[1] for t in texts}) == len(texts)
    assert all(w.filename == __file__ for w in caught)


def test_a_recording_in_it_has_its_times_and_none_of_its_own_events() -> None:
    model = small()
    optimizer = sgd(model)
    with weft.watch(model, every=1):
        with weft.record() as g:
            model(weft.randn(5, 4)).sum().backward()
            optimizer.step()
    ops = {e.name for e in g.calls if not e.backward}
    assert g.modules[0].time > 0
    assert not ops & {"clone", "sub", "abs", "mean", "std", "isnan"}


def test_another_optimizer_takes_the_place_of_the_first() -> None:
    """Steps of an optimizer that was made anew were never counted."""
    model = nn.Linear(2, 2)
    with weft.watch(model, every=1, nan=False) as seen:
        for _ in range(2):
            optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(4):
                model(weft.ones(1, 2)).sum().backward()
                optimizer.step()
    assert len(seen.reports) >= 7


def test_a_model_that_grows() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with weft.watch(model, every=1, nan=False) as seen:
        for _ in range(2):
            optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                model(weft.ones(1, 2)).sum().backward()
                optimizer.step()
            model.append(nn.Linear(2, 2))
    layer = seen.report()["1"]
    assert layer.gradient_ratio == layer.gradient_ratio and layer.update_ratio > 0


def test_a_copy_of_a_watched_model_is_a_model() -> None:
    """It had the hook, which did not know it: KeyError, also after the watch had ended."""
    import copy
    import pickle

    model = nn.Linear(2, 2)
    with weft.watch(model) as seen:
        target = copy.deepcopy(model)
        target(weft.ones(2))
    target(weft.ones(2))
    assert seen.report()[""].calls == 0
    pickle.loads(pickle.dumps(target))(weft.ones(2))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"every": 1.5}, TypeError),
        ({"every": True}, TypeError),
        ({"every": 0}, ValueError),
        ({"every": -1}, ValueError),
        ({"on_flag": 3}, TypeError),
    ],
)
def test_bad_arguments_watch_nothing(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^\[watch\] expected "):
        weft.watch(small(), **arguments)
    assert weft._C._Log.running() is None


def test_a_layer_that_is_not_called_is_listed_and_not_flagged() -> None:
    model = small()
    model.unused = nn.Linear(4, 4)
    model.forward = lambda x: model[2](model[1](model[0](x)))  # type: ignore[method-assign]
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    with weft.watch(model, on_flag=lambda flag: None) as seen:
        model(weft.randn(64, 4)).square().mean().backward()
        optimizer.step()
    assert seen.report()["unused"].calls == 0 and seen.flags == []
    assert "not called" in str(seen.report())
