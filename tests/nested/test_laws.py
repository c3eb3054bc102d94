"""A function of a nested tensor is the loop over its parts: values, and gradients."""

import copy
import pickle

import nested_samples as samples
import pytest

import weft
from weft.nn import functional as F

#: On a nested tensor and, by the same words, on each of its parts; `d` is a dim of both, counted
#: from the last.
OF_PARTS = [
    "x.cumsum(-2)", "x.softmax(-2)", "x.log_softmax(-2)", "x.cumprod(-2)", "x.flip(-2)",
    "x.sort(-2)[0]", "x.sort(-2)[1]", "x.argsort(-1)", "x.cummax(-2)[0]", "x.logcumsumexp(-2)",
    "F.normalize(x, dim=-1)", "F.normalize(x, dim=-2)", "x.topk(1, -2)[0]", "x.sort(-1)[0]",
    "x.sum(-2)", "x.mean(-2)", "x.amax(-2)", "x.max(-2)[1]", "x.prod(-2)", "x.logsumexp(-2)",
    "x.var(-2, correction=0)", "x.std(-1)", "x.norm(dim=-2)", "x.median(-2)[0]", "x.sum((-2, -1))",
    "x.mean((-2, -1))", "x.amax((-1, -2))", "x.sum(-2, keepdim=True)", "x.argmax(-2)",
    "x @ w", "F.softmin(x, -2)",
    "x.logsumexp(-1)", "x.diff(dim=-1)", "x.nansum(-2)", "x.count_nonzero(-2)",
    "F.glu(x[..., :2], -1)",
    "x.roll(1, -2)", "x.norm(dim=-1)",
]  # fmt: skip


def compared(expression, name):
    x = samples.made(weft, name)
    w = samples.numbers(weft, (3, 3), 40)
    leaves = [t.detach().clone().requires_grad_() for t in x.unbind()]
    nested = eval(expression, {"x": x, "F": F, "w": w})
    loop = [eval(expression, {"x": t, "F": F, "w": w}) for t in leaves]
    for a, b in zip(nested.unbind(), loop, strict=True):
        assert a.shape == b.shape
        assert weft.allclose(a.double(), b.double(), rtol=1e-12, atol=1e-12)
    if loop[0].requires_grad:
        values = nested.values() if nested.is_nested else nested
        (values.sin()).sum().backward()
        sum(t.sin().sum() for t in loop).backward()
        for a, b in zip(x.grad.unbind(), leaves, strict=True):
            assert weft.allclose(a, b.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["rows", "alike", "one"])
@pytest.mark.parametrize("expression", OF_PARTS)
def test_the_loop_over_parts(expression, name):
    if name == "one" and "[..., :2]" not in expression and "x[" in expression:
        pytest.skip("3 columns only")
    x = samples.made(weft, name)
    if x.shape[2] != 3 and " w" in expression:
        pytest.skip("w has 3 rows")
    compared(expression, name)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
def test_attention_is_that_of_each_part(causal, heads):
    shapes = [((2, 3), (3, 2)), ((4, 5), (1, 6)), ((3, 3), (3, 3))]
    lengths = [[a for a, _ in pair] for pair in shapes], [[b for _, b in pair] for pair in shapes]
    for queries, keys in zip(*lengths, strict=True):
        q = [samples.numbers(weft, (n, heads, 4), n).requires_grad_() for n in queries]
        k = [samples.numbers(weft, (n, heads, 4), n + 3).requires_grad_() for n in keys]
        v = [samples.numbers(weft, (n, heads, 5), n + 7).requires_grad_() for n in keys]
        nq, nk, nv = (
            weft.nested.as_nested_tensor(t, layout=weft.jagged).transpose(1, 2) for t in (q, k, v)
        )
        assert nk.shape[2] != nv.shape[2]  # other offsets, but as long
        out = F.scaled_dot_product_attention(nq, nk, nv, is_causal=causal)
        loop = [
            F.scaled_dot_product_attention(*(t.transpose(0, 1) for t in one), is_causal=causal)
            for one in zip(q, k, v, strict=True)
        ]
        got = weft.autograd.grad(out.values().sin().sum(), [*q, *k, *v])
        want = weft.autograd.grad(sum(t.sin().sum() for t in loop), [*q, *k, *v])
        for a, b in zip(out.unbind(), loop, strict=True):
            assert weft.equal(a, b)
        for a, b in zip(got, want, strict=True):
            assert weft.allclose(a, b, rtol=1e-10, atol=1e-10)


def test_attention_has_second_derivatives():
    lengths = weft.tensor([0, 2, 5])

    def f(q, k, v):
        nested = [
            weft.nested.nested_tensor_from_jagged(t, lengths).transpose(1, 2) for t in (q, k, v)
        ]
        return F.scaled_dot_product_attention(*nested).values()

    leaves = [samples.numbers(weft, (5, 1, 2), n).requires_grad_() for n in (1, 2, 3)]
    assert weft.autograd.gradgradcheck(f, leaves)


def test_attention_is_one_node():
    x = samples.made(weft, "heads").transpose(1, 2)
    with weft.record() as graph:
        F.scaled_dot_product_attention(x, x, x)
    names = [e.name for e in graph]
    assert sum("attention" in n for n in names) == 1, names


def test_heads_of_keys_serve_groups():
    q = [samples.numbers(weft, (n, 4, 2), n) for n in (2, 3)]
    k = [samples.numbers(weft, (n, 2, 2), n) for n in (2, 3)]
    nq, nk = (weft.nested.as_nested_tensor(t, layout=weft.jagged).transpose(1, 2) for t in (q, k))
    out = F.scaled_dot_product_attention(nq, nk, nk, enable_gqa=True)
    for a, b, c in zip(out.unbind(), q, k, strict=True):
        b, c = b.transpose(0, 1), c.transpose(0, 1)
        assert weft.allclose(a, F.scaled_dot_product_attention(b, c, c, enable_gqa=True))


def test_holes_are_no_part():
    values = weft.arange(12.0).view(6, 2).requires_grad_()
    offsets, lengths = weft.tensor([0, 2, 3, 6]), weft.tensor([1, 1, 2])
    x = weft.nested.nested_tensor_from_jagged(values, offsets, lengths)
    assert not x.is_contiguous() and x.contiguous().is_contiguous()
    assert x.numel() == 8
    assert weft.equal(x.sum(1), weft.stack([t.sum(0) for t in x.unbind()]))
    assert weft.equal(x.sum(), sum(t.sum() for t in x.unbind()))
    soft = x.softmax(1)
    for a, b in zip(soft.unbind(), x.unbind(), strict=True):
        assert weft.equal(a, b.softmax(0))
    x.sum(1).sum().backward()
    assert values.grad[:, 0].tolist() == [1, 0, 1, 1, 1, 0]
    target = x.detach() + 2
    assert F.mse_loss(x, target).item() == 4 and F.mse_loss(x, target, reduction="sum") == 32


def test_items_are_written_where_they_are_shown():
    x = samples.made(weft, "rows").detach()
    x[..., 1:] = 0.5
    x[:, :, 0] = x[:, :, 0] * 0
    x[1] = weft.ones(4, 3)
    assert [t.tolist() for t in x.unbind()] == [[[0, 0.5, 0.5]] * 2, [[1] * 3] * 4, [[0, 0.5, 0.5]]]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_losses_are_those_of_the_elements(loss, reduction):
    x = samples.made(weft, "rows")
    y = x.detach() * 0.5 + 1
    got = getattr(F, loss)(x, y, reduction=reduction)
    want = getattr(F, loss)(x.values(), y.values(), reduction=reduction)
    assert weft.equal(got.values() if reduction == "none" else got, want)
    got.sum().backward()
    assert x.grad.is_nested


# ---- gradients


def test_gradients_to_parts_and_to_values():
    a, b = weft.ones(2, 3, requires_grad=True), weft.zeros(4, 3, requires_grad=True)
    x = weft.nested.as_nested_tensor([a, b], layout=weft.jagged)
    assert not x.is_leaf
    (x * weft.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert a.grad.tolist() == [[1, 2, 3]] * 2 and b.grad.tolist() == [[1, 2, 3]] * 4
    values = weft.ones(3, 2, requires_grad=True)
    y = weft.nested.nested_tensor_from_jagged(values, weft.tensor([0, 1, 3]))
    y.sum(1).exp().sum().backward()
    assert weft.allclose(values.grad[0], weft.ones(2).exp())
    assert weft.allclose(values.grad[2], (weft.ones(2) * 2).exp())


def test_the_gradient_of_a_leaf_is_nested():
    x = samples.made(weft, "rows")
    (x * 2).sum().backward()
    assert x.grad.is_nested and x.grad is x.grad and x.grad.shape == x.shape
    x.grad.zero_()
    (x * 3).sum().backward()
    assert set(x.grad.values().reshape(-1).tolist()) == {3.0}
    (g,) = weft.autograd.grad((x * x).sum(), x)
    assert g.is_nested and weft.equal(g, x.detach() * 2)
    seen = []
    y = x * 1
    y.register_hook(lambda g: seen.append(g) or g * 2)
    y.sum().backward()
    assert seen[0].is_nested and set(x.grad.values().reshape(-1).tolist()) == {5.0}
    x.backward(x.detach())
    with pytest.raises(RuntimeError):
        x.backward()


def test_an_optimizer_steps_a_nested_leaf():
    x = samples.made(weft, "rows")
    start = x.detach().clone()
    weft.optim.SGD([x], lr=0.5).zero_grad()
    x.sum().backward()
    weft.optim.SGD([x], lr=0.5).step()
    assert weft.allclose(x.detach(), start - 0.5)


# ---- batches


def test_autobatch_over_the_parts_of_one():
    x = samples.made(weft, "rows")
    sums = weft.autobatch(lambda t: (t.sin() @ t.mT).sum())(x)
    assert weft.allclose(weft.stack(list(sums)), weft.stack([(t.sin() @ t.mT).sum() for t in x]))


def test_autobatch_of_code_that_makes_nested_tensors():
    def f(t):
        both = weft.nested.as_nested_tensor([t, t[:1]], layout=weft.jagged)
        return both.softmax(1).sum(1).sum() + (both * 2).sum()

    examples = [samples.numbers(weft, (n, 2), n) for n in (2, 3, 5)]
    got = weft.autobatch(f)(examples)
    for a, t in zip(got, examples, strict=True):
        assert weft.allclose(a, f(t))


# ---- copies, files


def alike(a, b):
    return (
        type(a) is type(b) and a.requires_grad == b.requires_grad and a.layout == b.layout
        and weft.equal(a.detach(), b.detach()) and a._ragged_idx == b._ragged_idx
    )  # fmt: skip


@pytest.mark.parametrize("name", samples.SHAPES)
def test_copies_and_files(name, tmp_path):
    x = samples.made(weft, name)
    assert alike(pickle.loads(pickle.dumps(x)), x)
    assert alike(copy.deepcopy(x), x) and alike(copy.copy(x), x)
    weft.save({"x": x}, tmp_path / "x.pt")
    back = weft.load(tmp_path / "x.pt")["x"]
    assert alike(back, x) and back._max_seqlen == x._max_seqlen
    with pytest.raises(RuntimeError, match="deepcopy protocol"):
        copy.deepcopy(x * 2)


def test_files_are_pytorchs(tmp_path):
    torch = pytest.importorskip("torch")
    weft.save(samples.made(weft, "rows"), tmp_path / "x.pt")
    back = torch.load(tmp_path / "x.pt")
    assert back.is_nested and back.offsets().tolist() == [0, 2, 6, 7]


def test_a_file_with_parts_outside_the_values_is_refused(tmp_path):
    x = samples.made(weft, "rows").detach()
    for wrong in ([0, 2, 6, 70], [0, 6, 2, 7], [-1, 2, 6, 7]):
        bad = weft.nested.nested_tensor_from_jagged(x.values(), weft.tensor(wrong))
        weft.save(bad, tmp_path / "x.pt")
        with pytest.raises(pickle.UnpicklingError, match="parts within the values"):
            weft.load(tmp_path / "x.pt")
