"""Every function that takes nested tensors gives what PyTorch's does, over a domain of tensors.

An expression is evaluated by both libraries: values, offsets, sizes, dtypes, and the gradient of
the nested operand. Where PyTorch has no function or no gradient of nested tensors
tests/nested/test_laws.py compares with the loop over parts.
"""

import nested_samples as samples
import pytest

import weft

torch = pytest.importorskip("torch")

EVERYWHERE = [
    "x", "x + 1", "2 - x", "x * x", "x / 2", "-x", "x.abs() + 1", "x ** 2", "x.sin()", "x.relu()",
    "x > 0", "x == x", "x.neg().exp()", "lib.where(x > 0, x, x * 0.1)", "x.clamp(-0.5, 0.5)",
    "x.masked_fill(x > 0, 7.0)", "lib.sigmoid(x)", "F.gelu(x)", "F.silu(x)", "x.float()",
    "x.to(lib.float32)", "x.double()", "x.detach()", "x.clone()", "x.contiguous()", "x.sum()",
    "x.mean()", "x.max()", "x.min()", "x.prod()", "lib.zeros_like(x)", "lib.ones_like(x)",
    "lib.full_like(x, 3.0)", "x.numel()", "x.dim()", "len(x)", "x.layout", "x.is_nested",
    "x.dtype", "x.requires_grad", "x.is_leaf", "x.size(0)", "x.shape[0]", "x.shape[-1] == 3",
    "x.is_contiguous()", "x.unbind()[0]", "x[-1]", "x.values()", "x.offsets()", "x.lengths()",
    "list(x)[0]", "x.unsqueeze(-1)", "x.isnan().any()",
    "lib.cos(x) * lib.sin(x)", "lib.add(x, x, alpha=2)", "lib.lerp(x, x * 2, 0.5)", "x.tanh()",
    "x.to_padded_tensor(0.5)", "lib.nested.to_padded_tensor(x, -1.0)", "x._max_seqlen",
    "x.nan_to_num()", "x.round()", "x.sign()", "x.logical_not()", "F.leaky_relu(x, 0.2)",
    "x.detach().zero_()", "x.detach().fill_(2.0)", "x.detach().add_(1)",
    "x.detach().mul_(x.detach())", "lib.empty_like(x).shape[0]", "x.all()", "x.any()",
]  # fmt: skip
ROWS = [
    "x.sum(-1)", "x.sum(1)", "x.mean(1)", "x.mean(-1)", "x.amax(1)", "x.amin(-1)", "x.max(1)",
    "x.max(-1)", "x.min(1)", "x.argmax(1)", "x.argmax(-1)", "x.argmin(1)", "x.prod(1)",
    "x.prod(-1)", "(x > 0).any(1)", "(x > 0).all(-1)", "x.sum((0, 1))", "x.mean((0, 1))",
    "x.sum(1, keepdim=True)", "x.sum(-1, keepdim=True)", "x.sum((0, 1), keepdim=True)",
    "x.softmax(1)", "x.softmax(-1)", "lib.softmax(x, dim=2)", "x.log_softmax(-1)",
    "F.linear(x, w)", "F.linear(x, w, w[:, 0])", "F.layer_norm(x, (3,))", "F.rms_norm(x, (3,))",
    "F.layer_norm(x, (3,), w[0], w[1])", "x @ w.t()", "x @ batch", "lib.bmm(x, batch)",
    "x.transpose(1, 2)", "x.transpose(1, 2).transpose(1, 2)", "x.transpose(1, 2) @ x",
    "w @ x.transpose(1, 2)", "x.permute(0, 2, 1)", "x.unflatten(-1, (3, 1))",
    "x.view(x.shape[0], -1, 3, 1)", "x.view(x.shape[0], x.shape[1], 1, 3)",
    "x.reshape(x.shape[0], -1, 1, 3).flatten(2, 3)", "x[..., 1:]",
    "x[1, 0]", "x[0][1]", "x.select(2, 1)", "x.narrow(2, 1, 2)", "lib.cat([x, x * 2], -1)",
    "lib.stack([x, x * 2], -1)", "lib.stack([x, x * 2], 2)", "x.chunk(3, -1)[1]",
    "x.split(2, -1)[0]", "lib.split(x, [1, 2], 2)[1]", "x.chunk(2, 0)[0]", "x + d", "d * x",
    "x + d.view(1, 1, 3)", "x + mean", "mean - x", "x + padded", "x.sum(-1) * 2",
    "x.expand(x.shape[0], -1, 3)", "x.unsqueeze(2).expand(-1, -1, 4, -1)", "x.mT",

    "x.to_padded_tensor(0.0, output_size=(x.shape[0], 6, 3))",
    "x.to_padded_tensor(0.0, output_size=(x.shape[0], 1, 3))",
    "lib.linalg.vector_norm(x.values(), dim=-1)", "x.transpose(1, 2).sum(1)",
    "x.transpose(1, 2).to_padded_tensor(0.0)", "x.transpose(1, 2).sum(2)", "x.transpose(1, 2)[0]",
    "x.view_as(x)", "x.movedim(1, 2)", "x.repeat_interleave(2, -1)", "x.tensor_split(3, -1)[1]",
    "written(x, (0, 1), 7.0)", "written(x, (-1,), 7.0)", "written(x, 0, 1.5)",
    "F.l1_loss(x, x * 2)",
    "x.transpose(1, 2) * 2", "x.transpose(1, 2).contiguous()", "x.transpose(1, 2).select(1, 0)",
]  # fmt: skip
HEADS = [
    "x.transpose(1, 2)", "F.scaled_dot_product_attention(y, y, y)",
    "F.scaled_dot_product_attention(y, y, y, scale=0.3)", "y.transpose(1, 2).flatten(2, 3)",
    "x.flatten(-2, -1)", "x.sum(-1)", "x.sum((2, 3))", "x.sum(1)", "x.mean(1)", "x @ w.t()",
    "x @ x.transpose(-1, -2)", "x.permute(0, 2, 1, 3)", "y.sum(2)", "y.softmax(-1)", "y[0]",
    "y.amax(2)", "x.select(2, 1)", "y.select(1, 1)", "y.unsqueeze(1)",
    "F.layer_norm(x, (2, 3))", "x.softmax(-1)", "y.to_padded_tensor(0.0)",
]  # fmt: skip
FLAT = ["x.sum(1)", "F.one_hot((x > 0).long(), 2)", "x.amax(1)", "x.mean(1)", "E(x.long().abs())",
        "lib.masked_select(x, x > 0)", "x.sum((0, 1))", "x + d[:1]"]  # fmt: skip
CALLS = (
    [(e, n) for e in EVERYWHERE for n in samples.SHAPES]
    + [(e, n) for e in ROWS for n in ("rows", "alike")]
    + [(e, "heads") for e in HEADS]
    + [(e, "flat") for e in FLAT]
)


MISSING = "no gradient in PyTorch"

#: Whose gradient in PyTorch 2.13 is that along another dimension, or ends the process.
WRONG = ("x.softmax(1)", "lib.split(x, [1, 2], 2)[1]")


def described(t):
    """What is compared of a result."""
    if isinstance(t, tuple) and not hasattr(t, "numel"):
        return [described(one) for one in t]
    if not hasattr(t, "is_nested"):
        return str(t)
    if not t.is_nested:
        return [tuple(t.shape), str(t.dtype), rounded(t)]
    sizes = [s if isinstance(s, int) else "j" for s in t.shape]
    whole = [rounded(one) for one in t.unbind()]
    counts = t.offsets().tolist() if t.lengths() is None else t.lengths().tolist()
    return [sizes, str(t.dtype), counts, whole]


def rounded(t):
    return [round(v, 9) for v in t.detach().double().reshape(-1).tolist()]


def outcome(lib, expression, name):
    """The result of the expression, and the gradient of what was summed of it."""
    x = samples.made(lib, name)
    here = {"lib": lib, "F": lib.nn.functional, "x": x}
    here["w"] = samples.numbers(lib, (3, 3), 40)
    here["d"] = samples.numbers(lib, (3,), 20)
    here["batch"] = samples.numbers(lib, (len(x), 3, 2), 10)
    here["mean"] = samples.numbers(lib, (len(x), 1, 3), 60)
    here["padded"] = samples.numbers(lib, (len(x), x._max_seqlen, 3), 70)
    here["written"] = written
    here["E"] = lambda i: lib.nn.functional.embedding(i, samples.numbers(lib, (5, 2)))
    if name == "heads":
        here["y"] = x.transpose(1, 2)
    found = eval(expression, here)
    if lib is torch and expression in WRONG:
        return described(found), MISSING
    return described(found), gradient(lib, found, x)


def written(x, key, value):
    x = x.detach()
    x[key] = value
    return x


def gradient(lib, found, x):
    if isinstance(found, tuple) and not hasattr(found, "numel"):
        found = found[0]
    if not hasattr(found, "requires_grad") or not found.requires_grad or found.is_leaf:
        return None
    values = found.values() if found.is_nested else found
    weights = samples.numbers(lib, tuple(values.shape), 30).to(values.dtype)
    try:
        (values * weights).sum().backward()
    except (NotImplementedError, RuntimeError, ValueError, AttributeError, IndexError):
        if lib is weft:
            raise
        return MISSING  # PyTorch has no gradient of many functions: tests/nested/test_laws.py
    return None if x.grad is None else described(x.grad)


@pytest.mark.parametrize(("expression", "name"), CALLS)
def test_as_pytorchs(expression, name):
    (value, gradient_), (want, wanted) = (outcome(lib, expression, name) for lib in (weft, torch))
    assert value == want
    if wanted is not MISSING:
        assert gradient_ == wanted
