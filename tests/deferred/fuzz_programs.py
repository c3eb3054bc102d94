"""Random dynamic programs of one example, as Python source.

A program is `def program(e, w, log)`: an example (unlike sizes), shared weights, a list to append
to. Its variables have symbolic shapes, in which "n" is the example's own length, so that nearly
every program is valid. Values stay moderate (each variable carries a bound), and nothing hangs on
equality of rounded numbers: thresholds are odd, and ties of orders are broken by a ramp.
"""

import random
from dataclasses import dataclass, field

SHAPES = {(): "e.s", (4,): "e.y", (3,): "e.y[:3]", ("n",): "e.x[:, 1]", ("n", 4): "e.x",
          ("n", 3): "e.x[:, 1:]", (2, 4): "e.z", (4, 4): "w.a"}  # fmt: skip
LIMIT = 30.0  # a larger bound is squashed first

# Format and bound from the operand's bound; any shape.
UNARY = [
    ("{0}.tanh()", lambda b: 1), ("{0}.sigmoid()", lambda b: 1), ("weft.sin({0})", lambda b: 1),
    ("({0} - 0.13).relu()", lambda b: b + 1), ("({0} + 0.11).abs()", lambda b: b + 1),
    ("{0}.tanh().exp()", lambda b: 3), ("({0}.square() + 1).log()", lambda b: 2 * b),
    ("F.gelu({0})", lambda b: b), ("F.silu({0})", lambda b: b),
    ("F.softplus({0})", lambda b: b + 1),
    ("F.elu({0} - 0.17)", lambda b: b + 1), ("({0}.square() + 0.5).sqrt()", lambda b: b + 1),
    ("-{0}", lambda b: b), ("{0} * 0.7", lambda b: b), ("1.5 - {0}", lambda b: b + 2),
    ("{0} / 3", lambda b: b), ("{0}.clamp(-0.7, 0.9)", lambda b: 1), ("{0}.clone()", lambda b: b),
    ("weft.where({0} > 0.21, {0}, {0} * 0.3)", lambda b: b), ("{0}.detach()", lambda b: b),
    ("{0}.masked_fill({0} > 0.43, 0.5)", lambda b: b + 1), ("{0}.contiguous()", lambda b: b),
    ("({0} > 0.23).double()", lambda b: 1), ("({0} > 0.29).float().double() * 2", lambda b: 2),
    ("({0} > 0.19).int() * {0}", lambda b: b), ("{0} * {0}.mean().item()", lambda b: b * b),
    ("{0} + float({0}.sum() > 0.37)", lambda b: b + 1), ("{0} - e.k", lambda b: b + 4),
    ("weft.zeros_like({0}) + {0}.sum() * 0.1", lambda b: 2 * b),
    ("weft.full_like({0}, 0.5) * {0}", lambda b: b), ("{0}.unsqueeze(0).squeeze(0)", lambda b: b),
    ("{0}.unsqueeze(-1).expand(*{0}.shape, 2).sum(-1)", lambda b: 2 * b),
    ("weft.stack([{0}, {0}.tanh()]).mean(0)", lambda b: b + 1),
    ("{0}.reshape(-1).view({0}.shape)", lambda b: b), ("{0}.view_as({0}) + 1", lambda b: b + 1),
    ("weft.tensor({0}.detach().tolist(), dtype=weft.float64)", lambda b: b),
    ("cube({0} * 0.3)", lambda b: b * b * b / 9), ("hooked({0})", lambda b: b),
    ("checkpoint(lambda t: t.tanh() * w.y[0], {0})", lambda b: 2),
    ("({0}.float() * 0.5 + 1).double()", lambda b: b + 1), ("{0}.bfloat16().double()", lambda b: b),
    ("({0}.half() * 2).double()", lambda b: 2 * b), ("({0} * 10.3).long().double() / 7",
    lambda b: 2 * b), ("(({0} > 0.1) & ({0} < 0.91)).to(weft.uint8) * {0}", lambda b: b),
    ("weft.complex({0} + 0.3, {0} * 0.5 - 0.7).real", lambda b: b + 1),
    ("weft.view_as_real(weft.complex({0}, {0}) * 2).sum(-1)", lambda b: 4 * b),
    ("({0} * 3).to(weft.int16).clamp(-9, 9).double()", lambda b: 9),
    ("{0}.detach().clone().requires_grad_().detach() + {0}", lambda b: 2 * b),
    ("({0}.data * 2)", lambda b: 2 * b), ("{0} * (0.3 * e.k)", lambda b: b),
    ("{0} / (len(e.x) + 1)", lambda b: b), ("e.k * 0.37 - {0}", lambda b: b + 2),
    ("weft.where({0} > 0.017 + 0.1 * e.k, {0}, e.k * 0.5)", lambda b: b + 2),
    ("{0} * w.a[e.k, e.k % 2]", lambda b: b), ("{0} - w.b_bias[e.k % 3]", lambda b: b + 1),
    ("{0} + w.e[e.k][e.k].detach() * w.e[e.words[0], e.k]", lambda b: b + 1),
    ("{0} * (e.tags[:1] * e.k).sum()", lambda b: 9 * b), ("{0} / w.e.shape[e.k % 2]", lambda b: b),
    ("{0} + w.embed.weight[e.k, :1]", lambda b: b + 1),
    ("weft.where({0} > 0.13, {0}, {0}.sum() * 0.1)", lambda b: 2 * b),
    ("{0} * ({0} > 0.27).sum() / 9", lambda b: 2 * b), ("{0} * ({0} > 0.33).any()", lambda b: b),
    ("{0} + ({0} < 0.41).all() * 0.7", lambda b: b + 1),
    ("{0} - {0}.count_nonzero() * 0.1", lambda b: b + 2),
    ("({0}.square() + 0.5) ** (0.25 * e.k)", lambda b: b * b + 1),
    ("{0}.clamp(-0.31 * e.k, 0.57 + e.k)", lambda b: b + 1), ("{0} - {0}.mean(0)", lambda b: 2 * b),
    ("F.leaky_relu({0} - 0.07, 0.1 * e.k)", lambda b: b + 1), ("{0} * {0}.sum()", lambda b: b * 99),
]  # fmt: skip

# Two operands that broadcast.
BINARY = [
    ("{0} + {1}", lambda a, b: a + b), ("{0} - {1}", lambda a, b: a + b),
    ("{0} * {1}", lambda a, b: a * b), ("{0} / ({1}.square() + 1)", lambda a, b: a),
    ("weft.maximum({0}, {1} + 0.05)", lambda a, b: a + b),
    ("{1} * 2 + {0}", lambda a, b: a + 2 * b),
    ("weft.minimum({0} - 0.03, {1})", lambda a, b: a + b),
    ("{0}.add({1}, alpha=2)", lambda a, b: a + 2 * b),
    ("weft.where({0} > {1} + 0.07, {0}, {1})", lambda a, b: a + b),
    ("weft.addcmul({0}, {0}, {1}, value=0.5)", lambda a, b: a * (1 + b)),
    ("weft.lerp({0}, {1} + {0} * 0, 0.3)", lambda a, b: a + b),
]  # fmt: skip

# Format, operand shapes, result's shape, bound.
SHAPED = [
    ("{0} @ w.a", ["*4"], "*4", 4), ("F.linear({0}, w.b, w.b_bias)", ["*4"], "*3", 4),
    ("F.linear({0}, w.c)", ["*3"], "*4", 4), ("w.linear({0})", ["*4"], "*4", 4),
    ("{0} @ {1}", [(4,), (4,)], (), 16), ("{0} @ {1}", [("n", 4), (4,)], ("n",), 16),
    ("{0}.t() @ {1}.tanh() / len(e.x)", [("n", 4), ("n", 4)], (4, 4), 4),
    ("{0} @ {1}.tanh()", ["*4", (4, 4)], "*4", 4), ("weft.outer({0}, {1}.tanh())",
    [(4,), (4,)], (4, 4), 1), ("weft.mv({0}, {1}.tanh())", [(2, 4), (4,)], (2,), 4),
    ("({0} @ {0}.t()).softmax(-1) @ {1}", [("n", 4), ("n", 4)], ("n", 4), 1),
    ("weft.einsum('ij,kj->ik', {0}, w.b)", [("n", 4)], ("n", 3), 4),
    ("weft.einsum('ij,jk->ik', {0}, w.a)", [("n", 4)], ("n", 4), 4),
    ("weft.einsum('i,ij->j', {0}.tanh(), {1})", [("n",), ("n", 4)], (4,), 5),
    ("F.bilinear({0}, {1}.tanh(), w.a.view(1, 4, 4)).squeeze(-1)", [("n", 4), ("n", 4)], ("n",), 9),
    ("{0}[weft.arange(len(e.tags)), e.tags]", [("n", 4)], ("n",), 1),
    ("w.e[e.tags, e.tags - 4]", [], ("n",), 2), ("{0}[:, [0, 2, -1]]", [("n", 4)], ("n", 3), 1),
    ("F.binary_cross_entropy_with_logits({0}, {1}.sigmoid(), pos_weight=w.y.detach().exp(), "
    "reduction='sum')", [("n", 4), ("n", 4)], (), 9), ("F.cross_entropy({0}, e.tags, "
    "None if e.k else {1}.detach().square(), reduction='sum')", [("n", 4), (4,)], (), 9),
    ("({0}.unsqueeze(1) @ {1}.tanh()).squeeze(1)", [("n", 4), (4, 4)], ("n", 4), 4),
    ("w.gru({0}, {1}.tanh())", ["*4", "=0"], "*4", 1),
    ("w.lstm({0}, ({1}.tanh(), {1}))[0]", ["*4", "=0"], "*4", 1),
    ("weft.cat(w.lstm({0}, ({0}, {1})), -1)[..., 2:6]", ["*4", "=0"], "*4", 1),
    ("w.experts[int(({1} + w.ramp).argmax())]({0})", ["*4", (4,)], "*4", 4),
    ("w.norm({0})", ["*4"], "*4", 3), ("F.layer_norm({0}, (4,), w.y, None, 0.1)", ["*4"], "*4", 3),
    ("F.softmax({0}, -1)", ["*4"], "*4", 1), ("{0}.log_softmax(-1)", ["*4"], "*4", 3),
    ("F.softmax({0}, 0)", [("n", 4)], ("n", 4), 1), ("{0}.logsumexp(-1)", ["*4"], "*", 3),
    ("{0}.sum(0)", [("n", 4)], (4,), 5), ("{0}.mean(0)", [("n", 3)], (3,), 1),
    ("{0}.sum(-1)", ["*4"], "*", 4), ("{0}.mean(-1, keepdim=True) + {0}", ["*4"], "*4", 2),
    ("{0}.var(-1)", ["*4"], "*", 9), ("{0}.tanh().prod(-1)", ["*4"], "*", 1),
    ("{0}.sum()", ["any"], (), 9), ("{0}.mean()", ["any"], (), 1), ("({0} + 0.1).norm()",
    ["any"], (), 9), ("{0}.cumsum(0)", [("n", 4)], ("n", 4), 5),
    ("({0} + w.ramp).max(-1).values", ["*4"], "*", 2), ("({0} + w.ramp).amin(-1)", ["*4"], "*", 2),
    ("({0} + w.ramp).sort(-1)[0]", ["*4"], "*4", 2), ("{0}.max(0)[0]", [("n", 4)], (4,), 1),
    ("({0} + w.ramp).topk(3).values", [(4,)], (3,), 2), ("{0}[0]", [("n", 4)], (4,), 1),
    ("{0}[-1]", [("n", 3)], (3,), 1), ("{0}[:, 1]", [("n", 4)], ("n",), 1),
    ("{0}[..., :3]", ["*4"], "*3", 1), ("{0}[..., 1:]", ["*4"], "*3", 1),
    ("{0}[e.i]", [("n", 4)], (4,), 1), ("{0}[e.pick]", [("n", 4)], (2, 4), 1),
    ("{0}[:, e.tags[:1]].squeeze(1)", [(2, 4)], (2,), 1), ("{0}[weft.tensor(e.i)]",
    [("n", 4)], (4,), 1), ("{0}.index_select(0, e.pick)", [("n", 4)], (2, 4), 1),
    ("{0}[{0}[:, 0] > 0.31].sum(0)", [("n", 4)], (4,), 5), ("{0}.gather(1, e.tags.unsqueeze(1))"
    ".squeeze(1)", [("n", 4)], ("n",), 1), ("{0}.narrow(-1, 1, 3)", ["*4"], "*3", 1),
    ("{0}[int(e.tags[0])]", [(4,)], (), 1), ("{0}[e.tags]", [(4,)], ("n",), 1),
    ("F.embedding(e.tags, w.e)", [], ("n", 4), 2), ("w.e[e.tags]", [], ("n", 4), 2),
    ("w.embed(weft.tensor(e.words))", [], ("n", 4), 2), ("w.embed(weft.tensor([e.words[0]]))[0]",
    [], (4,), 2), ("w.e[e.words[-1]]", [], (4,), 2), ("w.embed(({0} + w.ramp).argmax(-1))",
    ["*4"], "*4", 2), ("F.one_hot(({0} + w.ramp).argmax(-1), 4).double()", ["*4"], "*4", 1),
    ("weft.zeros(4, 4, dtype=weft.float64).index_add(0, e.tags, {0})", [("n", 4)], (4, 4), 5),
    ("weft.cat({0}.chunk(2, -1)[::-1], -1)", ["*4"], "*4", 1),
    ("weft.cat({0}.split([1, 3], -1), -1)", ["*4"], "*4", 1),
    ("weft.cat([{0}, {1}])[-2:]", [("n", 4), (2, 4)], (2, 4), 1),
    ("weft.cat([{0}, {1}]).sum(0)", [("n", 4), (2, 4)], (4,), 7),
    ("weft.cat([{0}, {1}], 1)[:, 2:6]", [("n", 4), ("n", 3)], ("n", 4), 1),
    ("weft.stack([{0}, {1}])", [(4,), (4,)], (2, 4), 1), ("weft.stack(list({0}))", [(2, 4)],
    (2, 4), 1), ("weft.stack({0}.unbind(0)[::-1])", [("n", 4)], ("n", 4), 1),
    ("{0}.view(-1, 2, 2).transpose(1, 2).reshape(-1, 4)", [("n", 4)], ("n", 4), 1),
    ("{0}.contiguous().view(4, 2).t()", [(2, 4)], (2, 4), 1), ("{0}.flip(0)", [("n", 4)],
    ("n", 4), 1), ("{0}.t().contiguous().t()", [("n", 4)], ("n", 4), 1), ("{0}.unsqueeze(0)"
    ".expand(2, 4)", [(4,)], (2, 4), 1), ("{0}.repeat(2, 1)", [(4,)], (2, 4), 1),
    ("{0}.unsqueeze(1) * {1}", [("n",), (4,)], ("n", 4), 9), ("{0}.diagonal()", [(4, 4)], (4,), 1),
    ("F.cross_entropy({0}, e.tags)", [("n", 4)], (), 3), ("F.cross_entropy({0}, e.tags, "
    "reduction='none')", [("n", 4)], ("n",), 3), ("F.cross_entropy({0}, e.tags[0])", [(4,)], (), 3),
    ("F.nll_loss({0}.log_softmax(-1), e.tags, reduction='sum')", [("n", 4)], (), 9),
    ("F.mse_loss({0}, {1})", ["*4", "=0"], (), 9), ("F.binary_cross_entropy_with_logits({0}, "
    "{1}.sigmoid())", [("n",), ("n",)], (), 3),
    ("F.rms_norm({0}, (4,), w.y, 0.1)", ["*4"], "*4", 3),
    ("weft.tensor([float({0}.sum()), e.k, 0.5, -1.0], dtype=weft.float64)", ["any"], (4,), 9),
    ("e.tags.double()", [], ("n",), 3),
    ("(e.tags * 2 + 1).to(weft.float32).double()", [], ("n",), 7),
    ("{0} + w.e[e.words[0]]", ["*4"], "*4", 1), ("w.e[e.k] * {0} + w.e[e.words[-1]]", ["*4"], "*4",
    2), ("{0} * w.linear.weight[e.k]", ["*4"], "*4", 1), ("F.linear({0}, {1}.tanh(), {1}[0])",
    ["*4", (4, 4)], "*4", 5), ("{0} @ w.y", [("n", 4)], ("n",), 4), ("{0} @ w.e[e.k]", [(2, 4)],
    (2,), 4), ("F.linear({0}, {1}.tanh()).repeat(*[1] * ({0}.dim() - 1), 2)",
    ["*4", (2, 4)], "*4", 4),
    ("w.hooked({0})", ["*4"], "*4", 1), ("sum(inner(lambda r: (r @ w.a).tanh() if r.sum() > 0.17 "
    "else r * 0.5, {0}))", [("n", 4)], (4,), 9), ("weft.stack(inner(lambda r: w.linear(r) + {1}, "
    "{0}))", [(2, 4), (4,)], (2, 4), 4), ("inner(lambda r: r * {0}.sum(), [w.y, e.y])[1]",
    ["any"], (4,), 9), ("w.memo.setdefault((e.k, weft.is_grad_enabled()), w.linear(w.y * e.k))",
    [], (4,), 4), ("max({0}.unbind(0), key=lambda t: t.sum().item())", [(2, 4)], (4,), 1),
    ("({0} + w.ramp).argsort(-1).double()", ["*4"], "*4", 3), ("({0} + w.ramp).sort(-1, "
    "descending=True).values", ["*4"], "*4", 2), ("w.embed(({0} + w.ramp).topk(2).indices)",
    [(4,)], (2, 4), 2), ("F.embedding(e.tags[:0], w.e).sum(0)", [], (4,), 1),
    ("weft.cat([{0}[:0], {1}])", [("n", 4), (2, 4)], (2, 4), 1), ("weft.nn.utils.rnn.pad_sequence("
    "[{0}, {1}])[:2].sum(1)", [("n", 4), (2, 4)], (2, 4), 2),
    ("{0} * {0}[:, :1].sigmoid()", [("n", 4)], ("n", 4), 1), ("{0} * {1}.tanh().unsqueeze(1)",
    [("n", 4), ("n",)], ("n", 4), 1), ("{0} - {0}.mean(0, keepdim=True)", [("n", 4)], ("n", 4), 2),
    ("{0} / ({0}.norm(dim=1, keepdim=True) + 1)", [("n", 4)], ("n", 4), 1),
    ("F.normalize({0} + 0.3, dim=0, eps=0.517)", [("n", 4)], ("n", 4), 1),
    ("{0} * {1} + {0}[:, :1]", [("n", 4), (4,)], ("n", 4), 31),
    ("weft.addcmul({0}, {0}[:, 1:2], {1})", [("n", 4), (4,)], ("n", 4), 31),
    ("weft.outer({0}, {1}).tanh()", [("n",), (4,)], ("n", 4), 1),
    ("{0}.logsumexp(0)", [("n", 4)], (4,), 3), ("{0}.amax(0)", [("n", 4)], (4,), 1),
    ("{0}.var(0, correction=0)", [("n", 4)], (4,), 30), ("{0}.tanh().prod(0)", [("n", 3)], (3,), 1),
    ("{0}.log_softmax(0).exp()", [("n", 4)], ("n", 4), 1), ("({0} + 0.1).norm(dim=0)", [("n", 4)],
    (4,), 9), ("{0}.min(0).indices.double() * {1}", [("n", 4), (4,)], (4,), 9),
    ("{0}.argmax() * {1}", [("n", 4), (4,)], (4,), 30), ("weft.zeros(4, 4, dtype=weft.float64)."
    "scatter_add(0, e.tags.unsqueeze(1).expand(-1, 4), {0})", [("n", 4)], (4, 4), 5),
    ("{0}.tanh().cumprod(0)", [("n", 4)], ("n", 4), 1), ("{0}.logcumsumexp(0)", [("n", 4)],
    ("n", 4), 3), ("{0}.roll(1, 0)", [("n", 4)], ("n", 4), 1), ("F.pad({0}, (0, 0, 1, 2))[1:-2]",
    [("n", 4)], ("n", 4), 1), ("F.pad({0}, (0, 0, 2, 0), value=0.3)[:2]", [("n", 4)], (2, 4), 1),
    ("weft.cdist({0}, {1} + 0.7).sum(1)", [("n", 4), (2, 4)], ("n",), 9),
    ("({0} + w.ramp).topk(1, 0).values[0]", [("n", 4)], (4,), 2), ("{0}.sort(0).values", [("n", 4)],
    ("n", 4), 1), ("{0}.median(0).values", [("n", 4)], (4,), 1), ("{0}.t() @ {0}.tanh()",
    [("n", 4)], (4, 4), 6), ("({0} @ {1}.t()).softmax(0).t() @ {0}", [("n", 4), (2, 4)], (2, 4), 6),
    ("F.conv1d({0}.t(), w.e[:9].reshape(3, 4, 3), w.b_bias, padding=1).t()", [("n", 4)], ("n", 3),
    13), ("F.max_pool1d({0}.t(), 2, 1, 1)[:, 1:].t()", [("n", 4)], ("n", 4), 1),
    ("F.scaled_dot_product_attention({0} * 0.3, {0}, {1})", [("n", 4), ("n", 4)], ("n", 4), 1),
    ("F.scaled_dot_product_attention({0}, {1}, {1})", [(2, 4), ("n", 4)], (2, 4), 1),
    ("sum({0}.unbind())", [("n", 4)], (4,), 5), ("{0}.bool().any().double()", ["any"], (), 1),
]  # fmt: skip

RANDOM = [
    ("F.dropout({0}, 0.3)", ["any"], "=", 2), ("{0} + weft.randn({0}.shape).double() * 0.1",
    ["any"], "=", 2), ("{0} * weft.rand_like({0})", ["any"], "=", 1),
    ("weft.bernoulli({0}.detach().sigmoid()) * {0}", ["any"], "=", 1),
    ("w.e[weft.randint(0, 10, (2,))]", [], (2, 4), 2), ("weft.rand(4, dtype=weft.float64)", [],
    (4,), 1), ("weft.randn(len(e.x), dtype=weft.float64)", [], ("n",), 3),
    ("{0}[weft.randperm(len(e.x))]", [("n", 4)], ("n", 4), 1), ("w.drop({0})", ["*4"], "*4", 2),
]  # fmt: skip

# In-place writes to a tensor that no saved value depends on.
WRITES = [
    "{0}.add_({1})", "{0} += {1}", "{0}.mul_(0.5)", "{0} *= -1.5", "{0}.copy_({1})", "{0}.sub_(1)",
    "{0}[0] = {1}[0]", "{0}[-1] = 0.25", "{0}[:1].add_(1)", "{0}[0] += {1}[-1]", "{0}.zero_()",
    "{0}.flatten()[1:].mul_(0.7)", "{0}[...].fill_(0.3)", "{0}.t().add_(0.1)", "{0}[1:] -= {1}[1:]",
    "{0}.masked_fill_({1} > 0.33, 0.1)", "{0} *= e.k * 0.3", "{0}.add_(e.k, alpha=0.2)",
    "{0} -= w.e.detach()[e.k, :1]", "{0}.add_({0})", "{0}[0].copy_({1}[-1] * 2)",
    "{0}.detach().mul_(0.5)", "{0}.data.add_(0.25)", "{0}.clone().add_(1)", "{0}.t()[0] *= 0.5",
    "{0}.detach()[0] += {1}.detach()[0]", "{0}[:, ::2] = 0.75", "{0}[{1} > 0.41] = 0.2",
    "weft.add({0}.detach(), 1, out={0}.detach())",
]  # fmt: skip
READS = ["{0} + 1", "{0}.sum(0)", "{0} * 0.5", "weft.cat([{0}, {0}])", "{0}[0] * 2", "{0}.clone()",
         "-{0}", "{0}.mean()", "{0}.reshape(-1)"]  # fmt: skip

# In-place changes of layout or memory; of values that may be in the graph, then of others.
LAYOUTS = [
    "{0}.t_()", "{0}.transpose_(0, 1)", "{0}.swapaxes_(-1, 0)", "{0}.unsqueeze_(0)",
    "{0}.unsqueeze_(1).squeeze_(1)", "{0}.squeeze_()", "{0}.as_strided_((2,), (1,), 1)",
    "{0}.t_().t_()", "{0}.t_().mul_(0.5)", "{0}.data = {1}.detach() * 2",
]  # fmt: skip
MEMORY = [
    "{0}.resize_({0}.shape)", "{0}.resize_({0}.numel())", "{0}.resize_({0}.numel() // 2, 2)",
    "{0}.resize_({0}.numel() // 3, 3).t_()", "{0}.data = {0}.data.t()", "{0}.data = {0}.data[:1]",
    "{0}.set_({1}.detach())", "{0}.set_({1}.detach().t())", "{0}.detach_()", "{0}.resize_(0)",
    "{0}.set_({1}.detach().clone()).mul_(2)",
]  # fmt: skip
# A value, what saves it, and a write that backward does not forgive.
SAVED = ["{0} * w.y", "({0} * w.y).tanh()", "({0} @ w.a).sigmoid()", "{0} + w.y", "{0} * 1",
         "({0} * w.y).exp().tanh()"]  # fmt: skip
SAVES = ["{0} * {0}", "{0}.square() + 1", "{0} @ w.a", "{0}.tanh().exp() * {0}", "{0} * w.a[e.k]",
         "F.softmax({0}, -1) * {0}", "{0}[:1] * {0}[-1:]", "{0} + 1", "w.linear({0})", "{0} / 2",
         "{0}.view(-1).sin()", "{0}.t() @ {0}", "F.layer_norm({0}, (4,), w.y)"]  # fmt: skip
SPOILS = ["{0} += 1", "{0}.mul_(0.5)", "{0}[0] = 0.3", "{0}.view(-1).add_(1)", "{0}.zero_()",
          "{0} *= {1}", "{0}.detach().add_(0.1)", "{0}[:1] -= {1}[-1:]",
          "{0}.copy_({1})"]  # fmt: skip

RAISES = [
    "raise ValueError(f'k {e.k}')", "e.x.view(7, 13)", "e.x[99]", "e.x @ w.b", "w.b @ e.y[:3]",
    "log.append([][e.k])", "raise Odd(e.k, 'b')", "assert e.y.sum() > 99, f'{e.y.sum() > 99}'",
    "next(iter([]))", "raise KeyError(e.k) from ValueError('cause')", "log.append(e.k / 0)",
    "e.missing", "inner(lambda r: r @ w.b, e.x)",
    "F.linear(e.y, e.x[:1, :3])", "e.y.sum(5)", "e.y.item()",
]  # fmt: skip
LATE_RAISES = ["w.e[weft.tensor([e.k + 97])]", "F.embedding(e.tags + 55, w.e)",
               "F.cross_entropy(e.x, e.tags + 9)", "e.x.index_select(0, e.tags + 77)"]  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What programs may contain. `late` errors are found only when the values are known."""

    random: bool = True
    inplace: bool = True
    errors: bool = True
    late: bool = True
    planted: bool = True  # in some programs, values that are written after they were saved
    size: int = 12


@dataclass
class Block:
    """A line and the lines below it, or with no lines a plain line."""

    line: str
    body: list["Block"] = field(default_factory=list)


@dataclass(frozen=True)
class Var:
    name: str
    shape: tuple
    bound: float


def source(blocks, indent=0):
    """Python source of a list of blocks."""
    lines = []
    for block in blocks:
        lines.append("    " * indent + block.line)
        if block.line.endswith(":"):
            lines.append(source(block.body or [Block("pass")], indent + 1))
    return "\n".join(lines)


def broadcast(a, b):
    """The symbolic shape of a broadcast, or None."""
    short, long = sorted((a, b), key=len)
    return long if long[len(long) - len(short) :] == short else None


class Maker:
    """Draws one program."""

    def __init__(self, rng, options):
        self.rng, self.options = rng, options
        self.variables = [Var(text, shape, 3.0) for shape, text in SHAPES.items()]
        self.count, self.functions, self.quiet = 0, [], 0
        self.random = options.random and rng.random() < 0.3
        raising = rng.random()
        self.raises = RAISES if options.errors and raising < 0.12 else []
        self.spoils = options.planted and options.inplace and rng.random() < 0.1
        self.late = options.late and not self.random and raising > 0.97
        if self.late:
            self.raises = LATE_RAISES

    def name(self, letter="v"):
        self.count += 1
        return f"{letter}{self.count}"

    def pick(self, accepts=lambda shape: True):
        """A variable whose shape is accepted, recent ones more often."""
        found = [v for v in self.variables if accepts(v.shape)]
        return found[max(int(self.rng.random() * len(found)) for _ in range(3))]

    def use(self, var):
        """An expression for a variable, squashed if it may be large."""
        return (var.name, var.bound) if var.bound <= LIMIT else (f"{var.name}.tanh()", 1.0)

    def expression(self):
        """A new expression: text, shape, bound."""
        rng, kind = self.rng, self.rng.random()
        if self.random and kind > 0.92:
            return self.shaped(rng.choice(RANDOM))
        if kind < 0.2:
            text, bound = rng.choice(UNARY)
            var = self.pick()
            name, size = self.use(var)
            return text.format(name), var.shape, bound(size)
        if kind < 0.4:
            text, bound = rng.choice(BINARY)
            a = self.pick()
            b = self.pick(lambda s: broadcast(a.shape, s) is not None)
            (first, size_a), (second, size_b) = self.use(a), self.use(b)
            shape = broadcast(a.shape, b.shape)
            return text.format(first, second), shape, bound(max(size_a, 1), max(size_b, 1))
        if kind < 0.46 and self.functions:
            name, shape, result = rng.choice(self.functions)
            return f"{name}({self.use(self.pick(lambda s: s == shape))[0]})", result, LIMIT
        return self.shaped(rng.choice(SHAPED))

    def shaped(self, rule):
        text, wanted, result, factor = rule
        operands, rest, whole = [], None, None
        for want in wanted:
            if want == "any":
                var = self.pick(len)
                whole = var.shape
            elif want == "=0":
                var = self.pick(lambda s: s == operands[0].shape)
            elif isinstance(want, str):
                last = int(want[1])
                var = self.pick(lambda s: s and s[-1] == last and len(s) < 3)
                rest = var.shape[:-1]
            else:
                var = self.pick(lambda s: s == want)
            operands.append(var)
        if result == "=":
            result = whole
        elif isinstance(result, str):
            result = rest + tuple(int(d) for d in result[1:])
        uses = [self.use(var) for var in operands]
        bound = factor * max([size for _, size in uses], default=1.0)
        return text.format(*(name for name, _ in uses)), result, bound

    def assign(self):
        text, shape, bound = self.expression()
        if shape not in SHAPES:
            text, shape, bound = f"({text}).sum()", (), 9 * bound
        self.variables.append(Var(self.name(), shape, bound))
        return [Block(f"{self.variables[-1].name} = {text}")]

    def condition(self):
        rng, scalar = self.rng, self.use(self.pick())[0]
        at = round(rng.uniform(-0.5, 0.5), 3) or 0.1
        return rng.choice([
            f"{scalar}.sum() > {at}", f"{scalar}.mean().item() < {at}", f"e.k > {rng.randrange(4)}",
            f"bool(({scalar} > {at}).any())", f"float({scalar}.sum()) > {at}", "len(e.x) > 2",
            f"{scalar}.sum() > {at} and e.k < 3", f"({scalar}.abs().amax() + 0.01 > 1.01)",
            f"int(e.tags[0]) == {rng.randrange(4)}",
        ])  # fmt: skip

    def block(self, size, result=None, shape=None):
        """Statements in a scope of their own, the last one assigning to `result`."""
        known, functions = len(self.variables), len(self.functions)
        body = self.statements(size)
        bound = 0.0
        if result is not None:
            name, bound = self.use(self.pick(lambda s: s == shape))
            body.append(Block(f"{result} = {name} * 1.0"))
        del self.variables[known:], self.functions[functions:]
        return body, bound

    def statements(self, size):
        blocks = []
        while size > 0:
            kind = self.rng.random()
            if kind < 0.72 or size < 3:
                blocks += self.assign()
                size -= 1
            else:
                kinds = [self.branch, self.loop, self.rows, self.write, self.note, self.muted,
                         self.function, self.tree, self.caught, self.scope,
                         self.generator, self.finally_, self.grad, self.backward,
                         self.layout, self.spoil]  # fmt: skip
                weights = [4, 2, 2, 3 * self.options.inplace, 2, 1, 1, 1, 1, 1, 1, not self.late]
                weights += [0.3 * (not self.quiet), 0.5 * (not self.quiet and not self.late)]
                weights += [1.5 * self.options.inplace, 2 * self.spoils]
                blocks += self.rng.choices(kinds, weights)[0](size // 2)
                size -= 3
        return blocks

    def branch(self, size):
        shape, result = self.rng.choice(list(SHAPES)), self.name()
        condition = self.condition()
        (yes, a), (no, b) = (self.block(size // 2, result, shape) for _ in range(2))
        self.variables.append(Var(result, shape, max(a, b)))
        return [Block(f"if {condition}:", yes), Block("else:", no)]

    def loop(self, size):
        """A loop that changes a variable, as long as its value says or for a given count."""
        start = self.pick()
        name, count, turn = self.name(), self.name("k"), self.name("i")
        self.variables.append(Var(name, start.shape, 1.0))
        body, _ = self.block(size // 2, name, start.shape)
        body.append(Block(f"{name} = {name}.tanh() * 0.9"))
        first = [Block(f"{name} = {self.use(start)[0]}.tanh()")]
        if self.rng.random() < 0.5:
            times = self.rng.choice(["e.k", "int(e.tags[0])", "len(e.words)", "2"])
            return [*first, Block(f"for {turn} in range({times}):", body)]
        body.append(Block(f"{count} += 1"))
        at = round(self.rng.uniform(-0.3, 0.6), 3)
        header = f"while {name}.sum() > {at} and {count} < 4:"
        return [*first, Block(f"{count} = 0"), Block(header, body)]

    def rows(self, size):
        """A recurrence over rows, collected in a list."""
        rows, row, state = self.pick(lambda s: s == ("n", 4)), self.name("r"), self.name("h")
        found, new = self.name("l"), self.name()
        start = self.use(self.pick(lambda s: s == (4,)))[0]
        at = len(self.variables)
        self.variables += [Var(row, (4,), 3.0), Var(state, (4,), 1.0)]
        body, _ = self.block(size // 2, state, (4,))
        del self.variables[at:]
        cell = self.rng.choice([f"w.gru({row}, {state})", f"({state} @ w.a + {row}).tanh()",
                                f"{state}.tanh()"])  # fmt: skip
        body += [Block(f"{state} = {cell}"), Block(f"{found}.append({state})")]
        self.variables.append(Var(new, ("n", 4), 1.0))
        return [
            Block(f"{found}, {state} = [], {start}"),
            Block(f"for {row} in {self.use(rows)[0]}:", body),
            Block(f"{new} = weft.stack({found})"),
        ]

    def write(self, size):
        """A fresh tensor, read and written in turns, also through views."""
        rng = self.rng
        base = self.pick(lambda s: len(s) == 2)
        other = self.use(self.pick(lambda s: s == base.shape))[0]
        name, view = self.name(), self.name()
        blocks = [Block(f"{name} = {self.use(base)[0]}.clone()")]
        aliased = rng.random() < 0.4
        if aliased:
            blocks.append(Block(f"{view} = {name}[:2]"))
        read = []
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.5:
                read.append(self.name())
                target = view if aliased and rng.random() < 0.5 else name
                blocks.append(Block(f"{read[-1]} = {rng.choice(READS).format(target)}"))
            if aliased and rng.random() < 0.4:
                blocks.append(Block(f"{view}.mul_(0.5)"))
            else:
                blocks.append(Block(rng.choice(WRITES).format(name, other)))
        if rng.random() < 0.3:
            blocks.append(Block(f"{name}.tanh_()"))
        result = self.name()
        parts = " + ".join([f"{name}.sum()", *(f"{r}.sum()" for r in read)])
        blocks.append(Block(f"{result} = ({parts}) * 0.1 + 0.37"))
        self.variables += [Var(name, base.shape, LIMIT + 1), Var(result, (), LIMIT + 1)]
        return blocks

    def layout(self, size):
        """A fresh tensor that is read, gets another layout or memory, and is read again."""
        rng = self.rng
        base = self.pick(lambda s: len(s) == 2)
        other = self.use(self.pick(lambda s: s == base.shape))[0]
        name, view = self.name(), self.name()
        text = rng.choice(["{0}.clone()", "{0} * 0.9", "{0} + 0.1"]).format(self.use(base)[0])
        apart = rng.random() < 0.4
        blocks = [Block(f"{name} = ({text}).detach()" if apart else f"{name} = {text}")]
        read = []
        if rng.random() < 0.4:
            read.append(view)
            blocks.append(Block(f"{view} = {name}{rng.choice(['[:1]', '.t()', '[:, 1]', '[0]'])}"))
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.7:
                read.append(self.name())
                blocks.append(Block(f"{read[-1]} = {rng.choice(READS).format(name)}"))
            if rng.random() < 0.2:
                blocks.append(Block(f"log.append({name}.sum().item())"))
        change = rng.choice([*LAYOUTS, *MEMORY] if apart else LAYOUTS)
        blocks.append(Block(change.format(name, other)))
        result = self.name()
        parts = " + ".join([f"{name}.sum()", *(f"{r}.sum()" for r in read)])
        blocks.append(Block(f"{result} = ({parts}) * 0.1 + 0.37"))
        self.variables.append(Var(result, (), LIMIT + 1))
        return blocks

    def spoil(self, size):
        """A value that is written after it was saved: the loop raises in backward."""
        rng = self.rng
        base = self.pick(lambda s: len(s) == 2 and s[-1] == 4)
        other = self.use(self.pick(lambda s: s == base.shape))[0]
        name, saver, result = self.name(), self.name(), self.name()
        blocks = [
            Block(f"{name} = {rng.choice(SAVED).format(self.use(base)[0])}"),
            Block(f"{saver} = {rng.choice(SAVES).format(name)}"),
        ]
        if rng.random() < 0.3:
            blocks.append(Block(f"log.append({name}.sum().item())"))
        spoil = Block(rng.choice(SPOILS).format(name, other))
        blocks.append(Block("if e.k == 1:", [spoil]) if rng.random() < 0.5 else spoil)
        blocks.append(Block(f"{result} = ({saver}.sum() + {name}.sum()) * 0.1"))
        self.variables.append(Var(result, (), LIMIT + 1))
        return blocks

    def note(self, size):
        name = self.use(self.pick())[0]
        what = self.rng.choice([f"{name}.sum().item()", f"({name} > 0.27).sum().item()", "e.k",
                                f"{name}.detach()", f"tuple({name}.shape)", f"{name}.tolist()",
                                f"f'{{float({name}.sum()) > 0.1}}'"])  # fmt: skip
        return [Block(f"log.append({what})")]

    def muted(self, size):
        shape, result = self.rng.choice(list(SHAPES)), self.name()
        self.quiet += 1
        body, bound = self.block(size // 2, result, shape)
        self.quiet -= 1
        self.variables.append(Var(result, shape, bound))
        return [Block("with weft.no_grad():", body)]

    def function(self, size):
        """A nested function, perhaps recursive on its value."""
        name, taken, value = self.name("f"), self.name("a"), self.name()
        shape, result = self.rng.choice(list(SHAPES)), self.rng.choice(list(SHAPES))
        at = len(self.variables)
        self.variables.append(Var(taken, shape, LIMIT))
        body, _ = self.block(size // 2 + 1, value, result)
        del self.variables[at:]
        head = f"def {name}({taken}):"
        if shape == result and self.rng.random() < 0.5:
            head = f"def {name}({taken}, depth=0):"
            body.append(Block(f"if depth < 2 and {value}.sum() > 0.13:", [
                Block(f"return {name}({value}.tanh(), depth + 1)")
            ]))  # fmt: skip
        body.append(Block(f"return {value}.tanh()"))
        self.functions.append((name, shape, result))
        return [Block(head, body)]

    def tree(self, size):
        """Recursion over the example's tree."""
        name, result = self.name("t"), self.name()
        merge = self.rng.choice([
            "w.linear(l + r).tanh()", "weft.cat([l, r])[2:6].tanh() @ w.a", "w.gru(l, r)",
            "(l if l.sum() > r.sum() + 0.01 else r) * 0.9", "weft.stack([l, r]).sum(0).tanh()",
        ])  # fmt: skip
        self.variables.append(Var(result, (4,), 9.0))
        body = [
            Block("if isinstance(node, int):", [Block("return w.embed(weft.tensor(node))")]),
            Block(f"l, r = {name}(node[0]), {name}(node[1])"),
            Block(f"return {merge}"),
        ]
        return [Block(f"def {name}(node):", body), Block(f"{result} = {name}(e.tree)")]

    def caught(self, size):
        """An error that the program itself catches."""
        result = self.name()
        var = self.pick()
        self.variables.append(Var(result, var.shape, var.bound))
        wrong = self.rng.choice(["e.x.view(7, 13)", "e.x[99]", "e.x @ w.b", "e.y.sum(5)"])
        return [
            Block("try:", [Block(f"{result} = {wrong} if e.k % 2 else {var.name} * 0.5")]),
            Block("except (RuntimeError, IndexError) as error:", [
                Block("log.append(type(error).__name__)"), Block(f"{result} = -{var.name}")
            ]),
        ]  # fmt: skip

    def scope(self, size):
        """Statements in a scope that ends before their values are used."""
        shape, result = self.rng.choice(list(SHAPES)), self.name()
        body, bound = self.block(size // 2, result, shape)
        self.variables.append(Var(result, shape, bound))
        return [Block(f"with {self.rng.choice(['deferred()', 'weft.enable_grad()'])}:", body)]

    def generator(self, size):
        """Rows from a generator that reads values."""
        name, row, result = self.name("g"), self.name("r"), self.name()
        rows = self.use(self.pick(lambda s: s == ("n", 4)))[0]
        at, value = len(self.variables), self.name()
        self.variables.append(Var(row, (4,), 3.0))
        body, _ = self.block(size // 2, value, (4,))
        del self.variables[at:]
        body.append(Block(f"yield {value}.tanh() if {value}.sum() > 0.19 else {row}.tanh()"))
        self.variables.append(Var(result, ("n", 4), 1.0))
        return [
            Block(f"def {name}():", [Block(f"for {row} in {rows}:", body)]),
            Block(f"{result} = weft.stack(list({name}()))"),
        ]

    def finally_(self, size):
        """A read on the way out."""
        shape, result = self.rng.choice(list(SHAPES)), self.name()
        read = f"log.append({self.use(self.pick())[0]}.sum().item())"
        body, bound = self.block(size // 2, result, shape)
        self.variables.append(Var(result, shape, bound))
        return [Block("try:", body), Block("finally:", [Block(read)])]

    def backward(self, size):
        """A pass of its own, which adds to the gradients of shared weights."""
        var, result, leaf = self.pick(lambda s: s and s[-1] == 4), self.name(), self.name()
        self.variables.append(Var(result, var.shape, LIMIT + 1))
        cell = self.rng.choice(["{0} @ w.a", "w.linear({0})", "{0} * w.y", "cube({0})"])
        return [
            Block(f"{leaf} = {self.use(var)[0]}.detach().clone().requires_grad_()"),
            Block(f"({cell.format(leaf)}).sin().sum().backward()"),
            Block(f"{result} = {leaf}.grad * 0.5"),
        ]

    def grad(self, size):
        """A gradient taken inside."""
        var, result, leaf = self.pick(), self.name(), self.name()
        self.variables.append(Var(result, var.shape, LIMIT + 1))
        return [
            Block(f"{leaf} = {self.use(var)[0]}.detach().requires_grad_()"),
            Block(f"{result} = weft.autograd.grad(({leaf}.sin() * {leaf}).sum(), {leaf})[0]"),
        ]

    def program(self):
        """The program's body."""
        body = self.statements(self.options.size)
        ends = [self.rng.choice(self.raises)] if self.raises else []
        ends += ["return e.x.sum() * e.y"] * (self.rng.random() < 0.1)
        for end in ends:
            at = self.rng.randrange(len(body) + 1)
            while at < len(body) and body[at].line.split()[0] in ("else:", "except", "finally:"):
                at += 1
            condition = self.rng.choice(["e.k == 1", "e.k > 1", "len(e.x) > 3", "e.s > 0.3"])
            body.insert(at, Block(f"if {condition}:", [Block(end)]))
        names = [self.pick().name for _ in range(self.rng.randint(2, 6))]
        first = f"({names[0]})"
        body.append(Block("return " + self.rng.choice([
            first, "{" + ", ".join(f"{n!r}: {n}" for n in names) + "}", f"({', '.join(names)},)",
            f"[{first}, {names[-1]}.sum().item()]", f"{first}.sum()",
            f"({first}, (e.k, [{names[-1]}]))",
        ])))  # fmt: skip
        return body


def draw(seed, options=Options()):  # noqa: B008
    """Blocks of the function `program(e, w, log)`."""
    maker = Maker(random.Random(seed), options)
    return [Block("def program(e, w, log):", maker.program())]


def draw_data(seed, empty=0.05):
    """Plain numbers of one to six examples of unlike size; a share of them is of size 0."""
    rng = random.Random(f"data {seed}")

    def numbers(*shape):
        if not shape:
            return round(rng.gauss(0, 1), 7)
        return [numbers(*shape[1:]) for _ in range(shape[0])]

    def tree(depth):
        if depth == 0 or rng.random() < 0.3:
            return rng.randrange(10)
        return tree(depth - 1), tree(depth - 1)

    found = []
    for _ in range(rng.randint(1, 6)):
        n = 0 if rng.random() < empty else rng.randint(1, 5)
        found.append({
            "x": numbers(n, 4), "y": numbers(4), "z": numbers(2, 4), "s": numbers(),
            "tags": [rng.randrange(4) for _ in range(n)], "i": rng.randrange(max(n, 1)),
            "pick": [rng.randrange(max(n, 1)), rng.randrange(max(n, 1))], "k": rng.randrange(4),
            "words": [rng.randrange(10) for _ in range(n or 1)], "tree": tree(3),
        })  # fmt: skip
    return found
