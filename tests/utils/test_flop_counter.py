"""`FlopCounterMode` against PyTorch's: every op of the table, then programs and modules."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, needs_peer, ours

import weft
from weft.utils import flop_counter
from weft.utils.flop_counter import FlopCounterMode

# Public names of which PyTorch counts nothing, or gradients only.
UNCOUNTED = {"mv", "dot", "addmv", "addbmm", "vdot", "inner", "bilinear"}


def total(lib: Any, run: Callable[[], Any]) -> int:
    if lib is weft:
        counter: Any = FlopCounterMode(display=False)
    else:
        from torch.utils.flop_counter import FlopCounterMode as Peer

        counter = Peer(display=False)
    with counter:
        run()
    return int(counter.get_total_flops())


def forward_and_backward(lib: Any, f: Callable[..., Any], sample: str, grad: bool) -> int:
    inputs = Inputs(lib, "float32", sample, grad=grad)

    def run() -> None:
        results = [r for r in inputs.run(f, sample) if isinstance(r, lib.Tensor)]
        tracked = [r for r in results if r.requires_grad and not r.is_complex()]
        if tracked:
            lib.autograd.backward([r.sum() for r in tracked])

    return total(lib, run)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "sample"), CASES, ids=IDS)
def test_counts_of_every_op_are_pytorchs(torch: Any, name: str, sample: str) -> None:
    record = RECORDS[name]
    if name == "convolution" and sample.endswith(", 2)"):
        return  # with groups: below
    got = forward_and_backward(weft, ours(record), sample, record["differentiable"])
    # gradients by other formulas than PyTorch's
    other = "call" in record or name in ("linalg_qr", "linalg_householder_product")
    if got == 0 or other or record["public_name"] in UNCOUNTED:
        return
    f = needs_peer(torch, name)
    expected = forward_and_backward(torch, f, sample, record["differentiable"])
    assert got == expected or expected == 0, record["public_name"]


def test_the_ops_that_count() -> None:
    """Each kind of product, by hand; what is inside of a counted call does not count again."""
    t = weft.ones
    cases = {
        "mm": (lambda: t(2, 3) @ t(3, 4), 2 * 2 * 3 * 4),
        "bmm": (lambda: t(5, 2, 3) @ t(5, 3, 4), 2 * 5 * 2 * 3 * 4),
        "mv": (lambda: t(2, 3) @ t(3), 2 * 2 * 3),
        "dot": (lambda: t(3) @ t(3), 2 * 3),
        "addmm": (lambda: weft.addmm(t(4), t(2, 3), t(3, 4)), 2 * 2 * 3 * 4),
        "linear": (lambda: weft.nn.functional.linear(t(5, 2, 3), t(4, 3)), 2 * 5 * 2 * 3 * 4),
        "complex": (lambda: t(2, 3) * 1j @ (t(3, 4) * 1j), 2 * 2 * 3 * 4),
        "conv": (lambda: weft.conv2d(t(2, 4, 5, 6), t(6, 2, 3, 3), groups=2),
                 2 * 2 * 6 * 2 * 9 * 3 * 4),
        "nothing": (lambda: weft.relu(t(3) + 1).softmax(0), 0),
        "empty": (lambda: t(0, 3) @ t(3, 4), 0),
    }  # fmt: skip
    for name, (run, expected) in cases.items():
        assert total(weft, run) == expected, name


def test_attention_by_pytorchs_formula(torch: Any) -> None:
    """PyTorch counts its kernel for the CPU as nothing, that of accelerators by this formula."""
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    q, k, v = (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 7)
    tensors = [weft.ones(*s, requires_grad=True) for s in (q, k, v)]
    with FlopCounterMode(display=False) as counter:
        out = weft.nn.functional.scaled_dot_product_attention(*tensors)
        forward = counter.get_total_flops()
        out.sum().backward()
    assert forward == sdpa_flop_count(q, k, v)
    assert counter.get_total_flops() - forward == sdpa_backward_flop_count(out.shape, q, k, v)


OPS: dict[str, Callable[[Any], Any]] = {
    "a layer": lambda lib: lib.nn.Linear(4, 5)(track(lib, 3, 4)),
    "of one row": lambda lib: lib.nn.Linear(4, 5)(track(lib, 4)),
    "of more dimensions": lambda lib: lib.nn.Linear(4, 5)(track(lib, 2, 3, 4)),
    "without a bias": lambda lib: lib.nn.Linear(4, 5, bias=False)(track(lib, 2, 3, 4)),
    "matmul": lambda lib: track(lib, 2, 3, 4) @ track(lib, 4, 5),
    "bmm": lambda lib: lib.bmm(track(lib, 2, 3, 4), track(lib, 2, 4, 5)),
    "addmm": lambda lib: lib.addmm(track(lib, 3, 5), track(lib, 3, 4), track(lib, 4, 5)),
    "einsum": lambda lib: lib.einsum("bij,bjk->bik", track(lib, 2, 3, 4), track(lib, 2, 4, 5)),
    "convolution": lambda lib: lib.nn.Conv2d(3, 4, 3)(track(lib, 2, 3, 6, 6)),
    "transposed": lambda lib: lib.nn.ConvTranspose1d(3, 4, 3)(track(lib, 2, 3, 6)),
}


def track(lib: Any, *shape: int) -> Any:
    return lib.ones(*shape, requires_grad=True)


@pytest.mark.parametrize("name", OPS)
def test_ops_have_pytorchs_names(torch: Any, name: str) -> None:
    """Forward and backward, as the packets of `ops.aten`."""
    from torch.utils.flop_counter import FlopCounterMode as Peer

    found = []
    for lib, kind in ((weft, FlopCounterMode), (torch, Peer)):
        counter: Any = kind(display=False)
        with counter:
            OPS[name](lib).sum().backward()
        ops = counter.get_flop_counts()["Global"]
        assert all(getattr(lib.ops.aten, op.__name__) is op for op in ops)
        found.append({str(op): n for op, n in ops.items()})
    assert found[0] == found[1]


def test_kernels_that_aten_has_not_are_named() -> None:
    with FlopCounterMode(display=False) as counter:
        weft.nn.LSTM(3, 4)(weft.ones(5, 2, 3))
    assert list(counter.get_flop_counts()["Global"]) == ["_rnn_sequence"]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions(torch: Any, groups: int, transposed: bool) -> None:
    """The weight's gradient counts products within a group, PyTorch's formula all channels."""
    counts = []
    for lib in (weft, torch):
        kind = lib.nn.ConvTranspose2d if transposed else lib.nn.Conv2d
        layer = kind(4, 8, 3, padding=1, stride=2, groups=groups)
        x = lib.ones(2, 4, 7, 8, requires_grad=True)
        counts.append(total(lib, lambda f=layer, x=x: f(x).sum().backward()))
    one = 2 * 2 * (7 * 8 if transposed else 4 * 4) * 8 * 4 * 9 // groups
    assert counts[0] == 3 * one
    assert counts[1] == 2 * one + one * groups


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
def test_recurrent_layers(torch: Any, kind: str) -> None:
    """As PyTorch's, step by step, where the first state wants a gradient, which weft's kernel makes
    in any case. PyTorch counts its LSTM on the CPU as nothing."""
    counts = []
    for lib in (weft, torch):
        layer = getattr(lib.nn, kind)(3, 4, 2)
        x, h = lib.ones(5, 2, 3, requires_grad=True), lib.ones(2, 2, 4, requires_grad=True)
        counts.append(total(lib, lambda f=layer, x=x, h=h: f(x, h)[0].sum().backward()))
    assert counts[0] == counts[1] > 0


def test_an_lstm_over_few_and_over_many_rows() -> None:
    """The sums of the weights are one kernel from 64 rows on, and products of the engine below."""
    for steps in (3, 40):
        layer, x = weft.nn.LSTM(3, 4), weft.ones(steps, 2, 3, requires_grad=True)
        forward = 2 * steps * 2 * 16 * (3 + 4)
        with FlopCounterMode(display=False) as counter:
            out = layer(x)[0].sum()
            assert counter.get_total_flops() == forward
            out.backward()
        assert counter.get_total_flops() == 3 * forward


def models(lib: Any) -> dict[str, tuple[Any, Any]]:
    nn = lib.nn

    class Twice(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.last = nn.Sequential(nn.Linear(4, 2))

        def forward(self, x: Any) -> Any:
            return self.last(self.inner(self.inner(x).tanh()) @ lib.ones(4, 4))

    class Makes(nn.Module):  # type: ignore[misc, name-defined]
        """Calls a module that it does not hold, with one inside."""

        def forward(self, x: Any) -> Any:
            return nn.Sequential(nn.Linear(4, 2))(x)

    layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    images = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 2, 3, stride=2), nn.Flatten()
    )
    return {
        "layers": (layers, lib.ones(2, 8, requires_grad=True)),
        "images": (images, lib.ones(2, 3, 6, 6, requires_grad=True)),
        "twice": (Twice(), lib.ones(3, 4, requires_grad=True)),
        "makes": (Makes(), lib.ones(3, 4, requires_grad=True)),
    }


@pytest.mark.parametrize("name", ["layers", "images", "twice", "makes"])
def test_by_module_as_pytorch(torch: Any, name: str) -> None:
    """Forward and backward, of all modules round a call."""
    from torch.utils.flop_counter import FlopCounterMode as Peer

    found = []
    for lib, kind in ((weft, FlopCounterMode), (torch, Peer)):
        model, x = models(lib)[name]
        counter: Any = kind(display=False)
        with counter:
            model(x).sum().backward()
        counts = {m: sum(ops.values()) for m, ops in counter.get_flop_counts().items()}
        found.append({m: n for m, n in counts.items() if n})
    assert found[0] == found[1]


def test_a_gradient_within_forward_is_of_the_module() -> None:
    class Force(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.energy = weft.nn.Linear(3, 3, bias=False)

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            (g,) = weft.autograd.grad(self.energy(x).pow(2).sum(), x, create_graph=True)
            return g

    with FlopCounterMode(display=False) as counter:
        Force()(weft.ones(2, 3, requires_grad=True)).sum().backward()
    counts = counter.get_flop_counts()
    assert counts["Force"] == counts["Global"]
    assert sum(counts["Force.energy"].values()) == counter.get_total_flops()


def test_the_first_node_of_a_thread_has_its_forward_call() -> None:
    """Nodes are numbered from 0, which stood for none, so its gradients were of no module."""
    import threading

    counters = []

    def run() -> None:
        layer = weft.nn.Linear(2, 3)
        with FlopCounterMode(display=False) as counter:
            layer(weft.ones(4, 2)).sum().backward()
        counters.append(counter)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert counters[0].get_flop_counts()["Linear"] == {
        weft.ops.aten.addmm: 48,
        weft.ops.aten.mm: 48,
    }


def test_a_batch_counts_what_its_examples_are() -> None:
    """Kept calls of unlike rows run as parts of one call, whose record is derived."""
    w = weft.ones(3, 3, requires_grad=True)

    def loss(rows: int) -> weft.Tensor:
        x = weft.ones(rows, 3)
        return (x @ w).sum() + (x.t() @ x).sum()

    examples = list(range(1, 9))
    plain = total(weft, lambda: [loss(n) for n in examples])
    batched = total(weft, lambda: weft.autobatch(loss)(examples))
    assert plain == batched == sum(2 * n * 9 * 2 for n in examples)


def test_formulas_of_the_users() -> None:
    def each(shape: Any, out_shape: Any = None) -> int:
        assert shape == out_shape
        return 7

    def product(a: Any, b: Any, out_shape: Any = None) -> int:
        return 1000

    with FlopCounterMode(display=False, custom_mapping={weft.exp: each, "matmul": product}) as c:
        x = weft.ones(3, 3).exp()
        x @ x
        x.exp_()
    assert c.get_flop_counts() == {"Global": {weft.ops.aten.exp: 14, weft.ops.aten.matmul: 1000}}
    with pytest.raises(ValueError, match=r"expected an op, or its name, got 3"):
        FlopCounterMode(custom_mapping={3: each})


def test_register_flop_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flop_counter, "flop_registry", {})
    flop_counter.register_flop_formula([weft.sin, "cos"])(lambda shape, out_shape: shape[0])
    with FlopCounterMode(display=False) as counter:
        weft.ones(3).sin().cos()
    assert counter.get_total_flops() == 6
    with pytest.raises(RuntimeError, match="duplicate registrations for cos"):
        flop_counter.register_flop_formula(weft.cos)(lambda shape, out_shape: 1)
    with pytest.raises(ValueError, match="get_raw"):
        flop_counter.register_flop_formula(weft.cos, get_raw=True)


def test_the_table(torch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """PyTorch's: modules to a depth, and what is in none of them."""
    model, x = models(weft)["twice"]
    with FlopCounterMode(depth=1) as counter:
        model(x)
        weft.ones(100, 100) @ weft.ones(100, 100)
    printed = capsys.readouterr().out
    assert printed.rstrip("\n") == counter.get_table()
    assert [line.split()[0] for line in printed.splitlines()] == [
        "Module", "-" * 14, "Global", "-", "-", "Twice", "-", "-",
    ]  # fmt: skip
    assert "Twice.inner" in counter.get_table(2)
    assert "Twice.last.0" in counter.get_table(3)
    with FlopCounterMode(display=False) as empty:
        pass
    assert empty.get_table().splitlines()[2].split() == ["Global", "0", "0%"]
    assert empty.get_total_flops() == 0


def test_scopes() -> None:
    """Counts so far, a scope within another, within a recording, and after an error."""
    with weft.record() as g, FlopCounterMode(display=False) as outer:
        weft.ones(2, 2) @ weft.ones(2, 2)
        with pytest.raises(ZeroDivisionError), FlopCounterMode(display=False) as inner:
            weft.ones(2, 2) @ weft.ones(2, 2)
            raise ZeroDivisionError
        assert (inner.get_total_flops(), outer.get_total_flops()) == (16, 32)
    assert g.flops == 32
    with outer:
        pass
    assert outer.get_total_flops() == 0
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        FlopCounterMode(weft.nn.Linear(1, 1), display=False)
    assert "mods argument is not needed" in str(seen[0].message)
