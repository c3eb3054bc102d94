"""Recurrent layers: PyTorch's outputs, states, gradients and errors."""

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

KINDS = ["LSTM", "GRU", "RNN", "RNN relu"]


def layer(lib, kind, *args, dtype="float64", **options):
    """The same parameters in both libraries."""
    name, *relu = kind.split()
    if relu:
        options["nonlinearity"] = "relu"
    module = getattr(lib.nn, name)(*args, **options)
    rng = np.random.default_rng(1)
    for p in module.parameters():
        with lib.no_grad():
            p.copy_(lib.tensor(rng.normal(size=tuple(p.shape)).tolist()))
    return module.to(getattr(lib, dtype))


def numbers(lib, *shape, seed=0):
    values = np.random.default_rng(seed).normal(size=shape)
    return lib.tensor(values.tolist(), dtype=lib.float64).reshape(shape).requires_grad_()


def flat(value):
    if isinstance(value, tuple):
        return [t for part in value for t in flat(part)]
    return [] if value is None else [value]


def both(program, tolerance=1e-11):
    """A program gives tensors and leaves: what they hold, and the leaves' gradients, agree."""
    results = []
    for lib in (weft, torch):
        outputs, leaves = program(lib)
        outputs = [t for t in flat(outputs) if t.is_floating_point()]
        sum((t * numbers(lib, *t.shape, seed=7).detach()).sum() for t in outputs).backward()
        grads = [leaf.grad for leaf in leaves]
        results.append([t.detach().numpy() for t in [*outputs, *grads] if t is not None])
    assert len(results[0]) == len(results[1])
    for got, want in zip(*results):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


OPTIONS = [
    {}, {"bias": False}, {"batch_first": True}, {"num_layers": 2}, {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given_state", [False, True])
def test_equal_lengths(kind, options, given_state):
    def program(lib):
        m = layer(lib, kind, 3, 4, **options)
        x = numbers(lib, 5, 2, 3)
        layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        batch = 5 if options.get("batch_first") else 2
        states = [numbers(lib, layers, batch, 4, seed=s) for s in (3, 4)]
        hx = (tuple(states) if kind == "LSTM" else states[0]) if given_state else None
        return m(x, hx), [x, *states[: 2 if kind == "LSTM" else 1], *m.parameters()]

    both(program)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [[5, 3, 3, 1], [2, 4, 1]], ids=str)
def test_packed(kind, bidirectional, lengths):
    def program(lib):
        m = layer(lib, kind, 3, 4, num_layers=2, bidirectional=bidirectional)
        parts = [numbers(lib, n, 3, seed=n) for n in lengths]
        packed = lib.nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
        state = numbers(lib, 4 if bidirectional else 2, len(lengths), 4, seed=9)
        out, last = m(packed, (state, state * 2) if kind == "LSTM" else state)
        assert isinstance(out, lib.nn.utils.rnn.PackedSequence)
        return (out.data, last), [*parts, state, *m.parameters()]

    both(program)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_projections(options):
    def program(lib):
        m = layer(lib, "LSTM", 3, 5, proj_size=2, **options)
        x = numbers(lib, 4, 2, 3)
        return m(x), [x, *m.parameters()]

    both(program)


@pytest.mark.parametrize("kind", KINDS)
def test_one_sequence_and_no_sequence(kind):
    def program(lib):
        m = layer(lib, kind, 3, 4)
        x, none = numbers(lib, 5, 3), numbers(lib, 5, 0, 3)
        return (m(x), m(none)), [x, *m.parameters()]

    both(program)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_kernel_agrees_with_the_formula(kind, reverse):
    """With a graph of the backward pass the gradient is made of ops instead of the kernel."""

    def gradients(create_graph):
        m = layer(weft, kind, 3, 4, num_layers=2, bidirectional=reverse)
        x = numbers(weft, 5, 2, 3)
        loss = m(x)[0].square().sum()
        return weft.autograd.grad(loss, [x, *m.parameters()], create_graph=create_graph)

    for a, b in zip(gradients(False), gradients(True)):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)


# Sequences of blocks of steps; a step larger than a block; steps that fall short of a whole block.
LONG = [[40] * 5, [2] * 150, [90, 70, 33, 33, 2, 1]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", LONG, ids=["equal", "wide", "unlike"])
def test_many_rows(kind, lengths):
    """From some rows on the weights' gradients are summed block by block."""

    def program(lib):
        m = layer(lib, kind, 3, 4, bidirectional=True)
        with lib.no_grad():
            for p in m.parameters():
                p.mul_(0.3)  # else the states' gradients grow with the steps
        x = numbers(lib, len(lengths), max(lengths), 3)
        rnn = lib.nn.utils.rnn
        out, state = m(rnn.pack_padded_sequence(x, lengths, batch_first=True))
        return (rnn.pad_packed_sequence(out)[0], state), [x, *m.parameters()]

    both(program, 1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [5, 70])
def test_only_the_gradients_asked_for(kind, steps):
    """Any subset of the inputs gets the gradients that all of them get."""
    m = layer(weft, kind, 3, 4)
    x, h = numbers(weft, steps, 2, 3), numbers(weft, 1, 2, 4)
    leaves = [x, h, *m.parameters()]

    def gradients(some):
        for leaf in leaves:
            leaf.requires_grad_(any(leaf is t for t in some))
        state = (h, h.detach()) if kind == "LSTM" else h
        return weft.autograd.grad(m(x, state)[0].sum(), some)

    whole = gradients(leaves)
    for i in range(len(leaves)):
        for chosen in ([i], [k for k in range(len(leaves)) if k != i]):
            for got, k in zip(gradients([leaves[k] for k in chosen]), chosen):
                assert weft.equal(got, whole[k])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_on_any_number_of_threads(kind):
    before, results = weft.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            weft.set_num_threads(threads)
            m = layer(weft, kind, 64, 128, dtype="float32")
            x = numbers(weft, 6, 80, 64).detach().float().requires_grad_()
            out, state = m(x)
            grads = weft.autograd.grad(out.square().sum(), [x, *m.parameters()])
            results.append([out, *flat(state), *grads])
    finally:
        weft.set_num_threads(before)
    for other in results[1:]:
        assert all(weft.equal(a, b) for a, b in zip(results[0], other))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_recorded_gives_the_same_bits(kind):
    m, x = layer(weft, kind, 3, 4), numbers(weft, 70, 2, 3)
    recorded = m(x)
    with weft.no_grad():
        plain = m(x)
    assert all(weft.equal(a, b) for a, b in zip(flat(recorded), flat(plain)))


@pytest.mark.parametrize("kind", KINDS[:3])
def test_second_derivatives(kind):
    m = layer(weft, kind, 2, 2, bidirectional=True)
    x = numbers(weft, 3, 2, 2)
    assert weft.autograd.gradgradcheck(lambda t: m(t)[0], (x,))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_a_cell(kind):
    if kind == "RNN relu":
        cell = weft.nn.RNNCell(3, 4, nonlinearity="relu").double()
    else:
        cell = getattr(weft.nn, f"{kind}Cell")(3, 4).double()
    m = layer(weft, kind, 3, 4)
    for name, p in cell.named_parameters():
        p.data = getattr(m, f"{name}_l0").data
    x, state, outputs = numbers(weft, 6, 2, 3), None, []
    for step in x:
        state = cell(step, state)
        outputs.append(state[0] if kind == "LSTM" else state)
    np.testing.assert_allclose(
        m(x)[0].detach().numpy(), weft.stack(outputs).detach().numpy(), rtol=1e-12, atol=1e-14
    )


def test_the_same_seed_gives_the_same_layer_and_dropout():
    results = []
    for lib in (weft, torch):
        lib.manual_seed(3)
        m = lib.nn.LSTM(3, 4, num_layers=3, dropout=0.5, bidirectional=True)
        results.append(
            [p.detach().numpy() for p in m.parameters()]
            + [m(lib.ones(4, 2, 3))[0].detach().numpy()]
        )
    for got, want in zip(*results):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


REPRS = [
    {},
    {"num_layers": 2, "dropout": 0.5, "batch_first": True},
    {"bias": False, "bidirectional": True},
]


@pytest.mark.parametrize("options", REPRS, ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_repr_and_names(kind, options):
    ours, theirs = (getattr(lib.nn, kind)(3, 4, **options) for lib in (weft, torch))
    assert repr(ours) == repr(theirs)
    assert [(n, tuple(p.shape)) for n, p in ours.named_parameters()] == [
        (n, tuple(p.shape)) for n, p in theirs.named_parameters()
    ]
    assert len(ours.all_weights) == len(theirs.all_weights)


BAD = [
    lambda lib: lib.nn.RNN(3, 4, nonlinearity="x"),
    lambda lib: lib.nn.LSTM(3, 4, dropout=2),
    lambda lib: lib.nn.LSTM(3, 4, num_layers=0),
    lambda lib: lib.nn.GRU(3, 4, proj_size=2),
    lambda lib: lib.nn.LSTM(3, 4, proj_size=4),
    lambda lib: lib.nn.LSTM(3, 0),
    lambda lib: lib.nn.LSTM("a", 3),
    lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(2)),
    lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(2, 3, 3, 1)),
    lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(5, 2, 4)),
    lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(5, 2, 3), (lib.zeros(1, 3, 4), lib.zeros(1, 2, 4))),
    lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(5, 3), (lib.zeros(1, 1, 4), lib.zeros(1, 1, 4))),
    lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(5, 2, 3), (lib.zeros(1, 4), lib.zeros(1, 4))),
    lambda lib: lib.nn.GRU(3, 4)(lib.zeros(5, 2, 3), lib.zeros(1, 3, 4)),
    lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(0, 2, 3)),
    lambda lib: lib.nn.LSTM(3, 4)(lib.zeros(5, 2, 3, dtype=lib.float64)),
]


@pytest.mark.parametrize("program", BAD)
def test_bad_input(program):
    with pytest.raises(Exception) as expected:
        program(torch)
    with pytest.raises(expected.type):
        program(weft)
