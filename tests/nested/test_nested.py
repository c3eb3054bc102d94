"""Nested tensors as objects: sizes, texts, errors, layers, what others make of them."""

import nested_samples as samples
import pytest

import weft
from weft.nn import functional as F
from weft.nn.utils import rnn

torch = pytest.importorskip("torch")


# ---- sizes

SIZES = [
    "j == j", "j == 5", "j != 3", "j > 1", "j >= 2", "j < 3", "j > 2", "j * 2", "2 * j",
    "j * 3 * 2",
    "j == (x + 1).shape[1]", "j == y.shape[1]", "j + 1", "int(j)", "j < j", "j >= j", "j <= 4",
    "isinstance(j, int)", "isinstance(j, lib.SymInt)", "x.shape == (x * 2).shape", "x.shape[0]",
    "x.shape == y.shape", "x.size() == x.shape", "x.size(-1)", "x.size(7)", "x.stride()[1:]",
    "tuple(x.shape)[::2]", "len(x.shape)", "x.shape[2:]", "hash(j) == hash(j)", "bool(j)",
]  # fmt: skip


def told(lib, expression):
    """The text of what an expression gives, numbers of ragged sizes apart, or its error's type."""
    x, y = samples.made(lib, "rows"), samples.made(lib, "rows")
    here = {"lib": lib, "x": x, "y": y, "j": x.shape[1]}
    try:
        found = repr(eval(expression, here))
    except Exception as error:
        return type(error)
    return found.replace(repr(x.shape[1]), "j")


@pytest.mark.parametrize("expression", SIZES)
def test_sizes(expression):
    if expression == "j + 1":  # PyTorch's AttributeError of its own parts
        with pytest.raises(TypeError):
            told_error = samples.made(weft, "rows").shape[1] + 1
            assert told_error
        return
    assert told(weft, expression) == told(torch, expression)


@pytest.mark.parametrize("name", samples.SHAPES)
@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_texts(name, layout):
    def text(lib):
        parts = [t.float() for t in samples.parts(lib, name)]
        plain = lib.nested.nested_tensor(parts, layout=getattr(lib, layout))
        leaf = lib.nested.nested_tensor(parts, layout=getattr(lib, layout), requires_grad=True)
        found = repr(plain) + repr(leaf)
        if layout == "jagged":
            for x in (plain, leaf):
                found = found.replace(repr(x.shape[x._ragged_idx]), "j")
        return found

    assert text(weft) == text(torch)


# ---- errors

ERRORS = [
    "x + z", "x * lib.ones(7, 3)", "x + lib.ones(2, 3, 4, 5, 6)", "x + lib.ones(5, 1, 3)",
    "x.sum(0)", "x.mean(0)", "x.amax(0)", "x.flatten(1, 2)", "x.flatten()", "x.transpose(0, 1)",
    "x.permute(1, 0, 2)", "x.permute(0, 1)", "x.view(3, 7, 3)", "x.view(-1)", "x.view(7, 3)",
    "x[1:]", "x[:, 0]", "x[:, 1:]", "x.select(1, 0)", "x.narrow(1, 0, 1)", "x.split(1, 1)",
    "x.chunk(2, 1)", "lib.cat([x, x])", "lib.cat([x, x], 1)",
    "lib.stack([x, x])", "lib.stack([x, z], -1)", "x.unsqueeze(0)", "x.squeeze(0)", "x.squeeze(1)",
    "x.unbind(1)", "x.sum(3)", "x.softmax(0)", "x.log_softmax(0)", "x.tolist()", "x.numpy()",
    "x.item()", "x @ x", "x @ lib.ones(5, 2)", "x @ lib.ones(3)", "lib.bmm(x, lib.ones(3, 2))",
    "F.linear(x, lib.ones(2, 5))", "F.linear(x.transpose(1, 2), lib.ones(2, 3))",
    "F.rms_norm(x, (7, 3))", "F.layer_norm(x, (3, 3, 3))", "lib.linalg.inv(x)", "lib.fft.fft(x)",
    "x.index_select(0, lib.tensor([0]))", "x.gather(1, x.long())",
    "F.scaled_dot_product_attention(x, x, lib.ones(3, 2, 3))", "x.copy_(z)", "x.expand(2, 2, 2)",
    "F.scaled_dot_product_attention(x, x, x, attn_mask=lib.ones(3, 3))", "x + x.shape[1]",
    "lib.nested.nested_tensor([], layout=lib.jagged)",
    "lib.nested.nested_tensor([1.0, 2.0], layout=lib.jagged)",
    "lib.nested.nested_tensor([lib.ones(2), lib.ones(2, 2)], layout=lib.jagged)",
    "lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(3, 2)], layout=lib.jagged)",
    "lib.nested.nested_tensor([lib.ones(2), lib.ones(2).long()], layout=lib.jagged)",
    "lib.nested.nested_tensor([lib.ones(2)], layout=lib.sparse_coo)",
    "lib.nested.as_nested_tensor(3)", "lib.nested.as_nested_tensor(lib.ones(3), layout=lib.jagged)",
    "lib.nested.as_nested_tensor(x)", "lib.nested.nested_tensor_from_jagged(lib.ones(3))",
    "lib.nested.nested_tensor_from_jagged(lib.ones(3), lib.tensor([0, 3]), jagged_dim=0)",
    "lib.nested.nested_tensor_from_jagged(lib.ones(3), lib.tensor([[0, 3]]))",
    "lib.nested.nested_tensor_from_jagged(lib.ones(3), lib.tensor([0, 3]), lib.tensor([1, 2]))",
    "lib.nested.narrow(lib.ones(2, 3), 0, 0, 1, layout=lib.jagged)",
    "lib.nested.narrow(lib.ones(2, 3), 1, 0.5, 1, layout=lib.jagged)",
    "lib.nested.narrow(lib.ones(2, 3), 1, lib.tensor([0, 1, 2]), 1, layout=lib.jagged)",
    "lib.nested.narrow(lib.ones(2, 3), 1, lib.tensor([0, 1]), 1)",
    "s.shape", "s.size(1)", "s.offsets()", "x.backward()", "holes.to_padded_tensor(0.0)",
    "x.detach().masked_select(x.detach() > 0)", "lib.nested.to_padded_tensor(lib.ones(2), 0.0)",
]  # fmt: skip


def raised(lib, expression):
    x, z = samples.made(lib, "rows"), samples.made(lib, "rows")
    s = lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(1, 3)])
    holes = lib.nested.nested_tensor_from_jagged(
        lib.ones(6, 2), lib.tensor([0, 2, 6]), lib.tensor([1, 2])
    )
    here = {"lib": lib, "x": x, "z": z, "s": s, "F": lib.nn.functional, "holes": holes}
    try:
        eval(expression, here)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("expression", ERRORS)
def test_errors_are_of_pytorchs_types(expression):
    want, error = raised(torch, expression), raised(weft, expression)
    assert want is not None, "PyTorch takes it"
    assert type(error) is type(want), (error, want)


SENTENCES = [
    "x + z", "x.sum(0)", "x.flatten(1, 2)", "x.transpose(0, 1)", "x[1:]", "lib.cat([x, x])",
    "lib.stack([x, z], -1)", "x.unbind(1)", "s.size(1)", "x.numpy()", "x + lib.ones(2, 3, 4, 5, 6)",
    "F.scaled_dot_product_attention(x, x, lib.ones(3, 2, 3))", "holes.to_padded_tensor(0.0)",
    "lib.nested.nested_tensor([], layout=lib.jagged)", "lib.nested.as_nested_tensor(3)",
    "lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(3, 2)], layout=lib.jagged)",
    "lib.nested.nested_tensor_from_jagged(lib.ones(3))",
    "lib.nested.narrow(lib.ones(2, 3), 0, 0, 1, layout=lib.jagged)",
]  # fmt: skip


@pytest.mark.parametrize("expression", SENTENCES)
def test_errors_say_pytorchs_sentences(expression):
    def words(text):
        import re

        text = re.sub(r"\bj\d+\b", "j", str(text))
        return re.findall(r"[A-Za-z_]{3,}", text)

    want, got = words(raised(torch, expression)), words(raised(weft, expression))
    known = set(got)
    assert sum(w in known for w in want) >= 0.8 * len(want), (want, got)


def test_what_is_wrong_changes_nothing():
    x, z = samples.made(weft, "rows").detach(), samples.made(weft, "rows").detach()
    before = x.values().clone()
    for wrong in (lambda: x.add_(z), lambda: x.copy_(samples.made(weft, "columns"))):
        with pytest.raises(RuntimeError):
            wrong()
    assert weft.equal(x.values(), before)


def test_dense_rows_are_not_taken_for_those_of_all_parts():
    # a dense operand of as many rows as all parts have together was added row by row
    y = samples.made(weft, "heads").transpose(1, 2)
    rows = y.values().shape[1]
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
        y + weft.ones(rows, 3)
    assert (y + weft.ones(1, 3)).shape == (y + weft.ones(3)).shape == y.shape


def test_numpy_does_not_take_the_values_for_the_tensor():
    import numpy as np

    x = samples.made(weft, "rows").detach()
    for take in (np.asarray, np.array, lambda t: t.numpy(), weft.from_dlpack):
        with pytest.raises((RuntimeError, NotImplementedError)):
            take(x)
    with pytest.raises(BufferError):
        memoryview(x)
    assert np.asarray(x.values()).shape == (7, 3)


def test_a_parameter_is_dense():
    with pytest.raises(NotImplementedError, match="register_buffer"):
        weft.nn.Parameter(samples.made(weft, "rows"))
    module = weft.nn.Module()
    module.register_buffer("x", samples.made(weft, "rows").detach())
    assert module.state_dict()["x"].is_nested


# ---- layers


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_multihead_attention_is_that_of_each_sequence(bias, same):
    weft.manual_seed(0)
    widths = {} if same else {"kdim": 4, "vdim": 2}
    layer = weft.nn.MultiheadAttention(6, 2, bias=bias, batch_first=True, **widths).double()
    q = [samples.numbers(weft, (n, 6), n).requires_grad_() for n in (2, 4, 1)]
    k = q if same else [samples.numbers(weft, (n, 4), n) for n in (3, 2, 2)]
    v = q if same else [samples.numbers(weft, (n, 2), n) for n in (3, 2, 2)]
    make = lambda ts: weft.nested.as_nested_tensor(ts, layout=weft.jagged)  # noqa: E731
    nq = make(q)
    nk, nv = (nq, nq) if same else (make(k), make(v))
    out, weights = layer(nq, nk, nv)
    for i, one in enumerate(zip(q, k, v, strict=True)):
        want, seen = layer(*(t.unsqueeze(0) for t in one))
        assert weft.allclose(out[i], want[0], atol=1e-12)
        rows, cols = seen.shape[1:]
        assert weft.allclose(weights[i, :rows, :cols], seen[0], atol=1e-12)
        assert not weights[i, rows:].any() and not weights[i, :, cols:].any()
    grads = weft.autograd.grad(layer(nq, nk, nv, need_weights=False)[0].values().sin().sum(), q)
    loop = sum(
        layer(*(t.unsqueeze(0) for t in one))[0].sin().sum() for one in zip(q, k, v, strict=True)
    )
    for a, b in zip(grads, weft.autograd.grad(loop, q), strict=True):
        assert weft.allclose(a, b, atol=1e-10)


def test_multihead_attention_refuses_masks():
    layer = weft.nn.MultiheadAttention(3, 1, batch_first=True).double()
    x = samples.made(weft, "rows")
    for wrong in (
        {"key_padding_mask": weft.zeros(3, 4, dtype=weft.bool)}, {"attn_mask": weft.zeros(4, 4)},
    ):  # fmt: skip
        with pytest.raises(AssertionError, match="fast path was not hit because"):
            layer(x, x, x, **wrong)
    with pytest.raises(AssertionError, match="batch_first was not True"):
        weft.nn.MultiheadAttention(3, 1)(x, x, x)


def encoder(lib, **options):
    lib.manual_seed(0)
    layer = lib.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    return lib.nn.TransformerEncoder(layer, 2, **options)


def test_an_encoder_takes_nested_tensors_and_trains():
    net = encoder(weft)
    parts = [samples.numbers(weft, (n, 8), n).float() for n in (3, 5)]
    out = net(weft.nested.nested_tensor(parts, layout=weft.jagged))
    for a, b in zip(out.unbind(), parts, strict=True):
        assert weft.allclose(a, net(b.unsqueeze(0))[0], atol=1e-5)
    out.values().sum().backward()
    assert all(p.grad is not None for p in net.parameters())


@pytest.mark.parametrize(
    "case", ["ends", "ends, added", "norm", "gaps", "gaps, unchecked", "all of one", "training",
             "off", "none hidden"]
)  # fmt: skip
def test_an_encoder_gives_zeros_for_padding_where_pytorchs_does(case):
    hidden = {"gaps": [[0, 1, 0, 0], [0, 0, 0, 0]], "all of one": [[0, 0, 0, 0], [0, 1, 1, 1]]}
    rows = hidden.get(case.partition(",")[0], [[0, 0, 1, 1], [0, 0, 0, 1]])
    rows = [[0] * 4] * 2 if case == "none hidden" else rows

    def run(lib):
        options = {"norm": lib.nn.LayerNorm(8)} if case == "norm" else {}
        options |= {"mask_check": False} if "unchecked" in case else {}
        net = encoder(lib, enable_nested_tensor=case != "off", **options)
        net.train(case == "training")
        mask = lib.tensor(rows, dtype=lib.bool)
        if "added" in case:
            mask = lib.zeros(2, 4).masked_fill(mask, float("-inf"))
        x = samples.numbers(lib, (2, 4, 8)).float()
        with lib.no_grad():
            return net(x, src_key_padding_mask=mask)

    got, want = run(weft), run(torch)
    if case == "gaps, unchecked":  # PyTorch takes the first elements then
        assert got.shape == tuple(want.shape)
        return
    assert weft.allclose(got, weft.tensor(want.tolist()), atol=1e-5)


def test_packing_and_padding():
    x = samples.made(weft, "rows").detach()
    parts = list(x)
    packed = rnn.pack_sequence(x, enforce_sorted=False)
    want = rnn.pack_sequence(parts, enforce_sorted=False)
    assert weft.equal(packed.data, want.data) and weft.equal(packed.batch_sizes, want.batch_sizes)
    assert weft.equal(rnn.pad_sequence(x), rnn.pad_sequence(parts))
    lstm = weft.nn.LSTM(3, 2).double()
    assert lstm(packed)[0].data.shape == (7, 2)


def test_autocast_and_checkpoint():
    x = samples.made(weft, "rows")
    with weft.autocast("cpu", dtype=weft.bfloat16):
        y = x.detach().float()
        assert F.linear(y, weft.ones(2, 3)).dtype is weft.bfloat16
        assert (y @ weft.ones(3, 3, 2)).dtype is weft.bfloat16
    from weft.utils.checkpoint import checkpoint

    checkpoint(lambda t: (t * 2).softmax(1), x, use_reentrant=False).values().sum().backward()
    assert x.grad.is_nested


def test_compile_takes_them():
    f = weft.compile(lambda t: (t * 2).sum(1))
    x = samples.made(weft, "rows")
    assert weft.equal(f(x), (x * 2).sum(1)) and weft.equal(f(x), (x * 2).sum(1))


def test_pytorchs_path_has_the_class():
    from weft.nested._internal.nested_tensor import NestedTensor, jagged_from_list

    x, offsets = jagged_from_list([weft.ones(2), weft.ones(1)], None)
    assert isinstance(x, NestedTensor) and offsets.tolist() == [0, 2, 3]
    again = NestedTensor(weft.ones(3), weft.tensor([0, 1, 3]))
    assert [t.shape[0] for t in again.unbind()] == [1, 2]
    known = {"max_seqlen": weft.empty(2, 0)}
    last = NestedTensor(
        weft.ones(4, 3), weft.tensor([0, 1, 3]), requires_grad=True, _ragged_idx=2,
        _metadata_cache=known,
    )  # fmt: skip
    assert last.requires_grad and last._ragged_idx == 2 and last._maybe_max_seqlen == 2
    with pytest.raises(TypeError, match="ragged"):
        NestedTensor(weft.ones(3), weft.tensor([0, 1, 3]), ragged=1)
