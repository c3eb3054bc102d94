"""Models in the idiom of tutorials and public code, with arguments, other sizes and free ones."""

from typing import Any, NamedTuple

from public_networks import (
    MHA,
    Annotated,
    AttnDecoder,
    BeamLess,
    CharRNN,
    Enc,
    GPTBlock,
    ResNet,
    Rotary,
    Segment,
    Seq2Seq,
    TransformerLM,
    UNet,
    ViT,
)

import weft as torch
import weft.nn.functional as F
from weft import nn, randn
from weft.vision import ops


class Case(NamedTuple):
    """A model, its example arguments, arguments of other sizes, and what is free."""

    model: Any
    args: Any
    more: Any
    free: Any


def boxes(n):
    low = torch.rand(n, 2) * 10
    return torch.cat([low, low + torch.rand(n, 2) * 5 + 0.1], 1)


def detect(boxes, scores):
    keep = scores > 0.3
    boxes, scores = boxes[keep], scores[keep]
    idx = ops.nms(boxes, scores, 0.5)
    return boxes[idx], scores[idx]


def detect_classes(logits, deltas):
    probs = logits.softmax(-1)[:, 1:]
    scores, labels = probs.max(1)
    b = torch.cat(
        [deltas[:, :2] - deltas[:, 2:].abs() / 2, deltas[:, :2] + deltas[:, 2:].abs() / 2], 1
    ).clamp(0, 10)
    b = ops.clip_boxes_to_image(b, (10, 10))
    good = ops.remove_small_boxes(b, 0.05)
    b, scores, labels = b[good], scores[good], labels[good]
    k = ops.batched_nms(b, scores, labels, 0.4)
    return {"boxes": b[k], "labels": labels[k], "scores": scores[k]}


def topk_post(scores):
    n = min(scores.shape[1], 4)
    v, i = scores.sigmoid().flatten(1).topk(n)
    return v, i // 2, i % 2


def anchors(feat):
    h, w = feat.shape[-2:]
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    g = torch.stack((xs, ys), 2).view(1, 1, h, w, 2).float()
    y = feat.view(feat.shape[0], 2, 3, h, w).permute(0, 1, 3, 4, 2)
    xy = (y[..., :2].sigmoid() + g) * 8
    return torch.cat((xy, y[..., 2:]), -1).reshape(feat.shape[0], -1, 3)


def ifs(x, flag):
    if flag.item():
        y = x.relu()
        if y.mean() > 0.5:
            y = y / y.max()
        else:
            y = y * 2
    elif x.min() < -1:
        y = x.clamp(min=-1)
    else:
        y = x
    return y


def lists(x):
    rows: list[torch.Tensor] = []
    for i in range(x.size(0)):
        acc = torch.zeros(3)
        for j in range(x.size(1)):
            if x[i, j].sum() > 0:
                acc = acc + x[i, j]
        rows.append(acc)
    return torch.stack(rows)


class Out(NamedTuple):
    logits: torch.Tensor
    hidden: torch.Tensor


class DictModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 4)

    def forward(self, batch: dict[str, torch.Tensor]):
        x = self.l(batch["x"])
        if "mask" in batch:
            x = x * batch["mask"].unsqueeze(-1)
        return {"pooled": x.mean(0), "all": {"x": x, "n": x.shape[0] * torch.ones(1)}}


class TupleModel(nn.Module):
    def forward(self, x):
        return Out(x * 2, x.sum(-1))


class OptModel(nn.Module):
    def forward(
        self,
        x,
        bias: torch.Tensor | None = None,
        scale: float = 2.0,
        names: list[str] | None = None,
    ):
        y = x * scale
        if bias is not None:
            y = y + bias
        if names is not None and "neg" in names:
            y = -y
        return y


def indexing(x, idx):
    n = x.shape[0]
    a = x[idx]
    b = x[torch.arange(n), idx % x.shape[1]]
    c = x[:, ::2]
    d = x[..., None, -1]
    e = x[-1:, 1:-1]
    f = x[idx[:, None], torch.tensor([0, 2])]
    g = x[x[:, 0] > 0][:, 1]
    return (
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        x[None, ..., 0],
        x.flip(0)[idx],
        torch.where(x > 0, x, torch.zeros_like(x)),
    )


def inplace_masks(x):
    y = x.clone()
    y[y < 0] = 0
    y[:, 1] *= 3
    y[::2] += 1
    y[0, :2] = torch.tensor([7.0, 8.0])
    m = torch.zeros_like(y, dtype=torch.bool)
    m[:, 0] = True
    y.masked_fill_(m, -1)
    z = torch.zeros(x.shape[0], 5)
    z[:, : x.shape[1]] = y
    z.scatter_(1, torch.zeros(x.shape[0], 1, dtype=torch.long), 9.0)
    z.index_fill_(1, torch.tensor([4]), 2.0)
    return z, y.add_(1).mul_(2)


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 4)

    def forward(self, x, edges):
        h = self.l(x)
        src, dst = edges[0], edges[1]
        out = torch.zeros_like(h).index_add(0, dst, h[src])
        deg = torch.zeros(x.size(0)).scatter_add(0, dst, torch.ones(dst.size(0))).clamp(min=1)
        return out / deg[:, None]


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Linear(6, 8)
        self.m = nn.Linear(8, 2)
        self.v = nn.Linear(8, 2)
        self.d = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6), nn.Sigmoid())

    def forward(self, x):
        h = F.relu(self.e(x.view(-1, 6)))
        mu, lv = self.m(h), self.v(h)
        z = mu + torch.exp(0.5 * lv) * 0.1
        return self.d(z), mu, lv


class TCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.cs = nn.ModuleList(
            nn.Conv1d(2, 2, 3, padding=2 * 2**i, dilation=2**i) for i in range(3)
        )

    def forward(self, x):
        for i, c in enumerate(self.cs):
            x = F.relu(c(x)[:, :, : -2 * 2**i]) + x
        return x.amax(-1)


class Pack(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x, lengths):
        y, (h, c) = self.l(x)
        last = y[torch.arange(x.size(0)), lengths - 1]
        return last


def newton(x):
    y = x.clone().abs() + 1
    i = 0
    while (y * y - x.abs()).abs().max() > 1e-4 and i < 50:
        y = 0.5 * (y + x.abs() / y)
        i += 1
    return y, i


def collatz(n):
    steps = torch.zeros_like(n)
    while (n > 1).any():
        even = n % 2 == 0
        n = torch.where(n <= 1, n, torch.where(even, n // 2, 3 * n + 1))
        steps = steps + (n >= 1).long()
        if steps.max() > 200:
            return n, steps
    return n, steps


def viterbi(emit, trans):
    score = emit[0]
    back = []
    for t in range(1, emit.size(0)):
        s = score.unsqueeze(1) + trans
        score, ix = s.max(0)
        score = score + emit[t]
        back.append(ix)
    return score.max(), torch.stack(back), score.argmax()


def ctc_greedy(logits):
    best = logits.argmax(-1)
    best = torch.unique_consecutive(best)
    return best[best != 0]


def whiten(x):
    x = x - x.mean(0, keepdim=True)
    std = x.std(0, unbiased=False)
    return (
        x / (std + 1e-5),
        x.var(0),
        torch.linalg.norm(x, dim=1),
        x.median(0).values,
        x.sort(0).values[0],
    )


def einsums(a, b):
    return (
        torch.einsum("bij,bjk->bik", a, b),
        torch.einsum("bij->bi", a),
        torch.einsum("bij,bij->b", a, a),
        a @ b,
    )


def losses(x, y):
    return (
        F.cross_entropy(x, y),
        F.nll_loss(F.log_softmax(x, 1), y, reduction="none"),
        F.one_hot(y, 4).float().sum(0),
        (x.argmax(1) == y).float().mean(),
    )


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Linear(3, 3)
        self.e = nn.ModuleList(nn.Linear(3, 2) for _ in range(3))

    def forward(self, x):
        w, i = torch.topk(self.g(x).softmax(-1), 2)
        out = torch.zeros(x.shape[0], 2)
        for k, e in enumerate(self.e):
            rows, slot = torch.where(i == k)
            out[rows] += w[rows, slot, None] * e(x[rows])
        return out


class WaveGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(2, 4, 3, padding="same")

    def forward(self, x):
        a, b = self.c(x).chunk(2, 1)
        return F.glu(torch.cat([torch.tanh(a), b], 1), 1)


def strides(x):
    w = x.unfold(1, 3, 1)
    return (
        w.mean(-1),
        x.reshape(x.shape[0], -1, 2).transpose(1, 2),
        torch.roll(x, 1, 0),
        x.cumsum(1)[:, -1:],
        x.repeat(1, 2),
        torch.tile(x, (2, 1)),
    )


def early(x, thr: float = 0.5):
    for i in range(x.shape[0]):
        if x[i].max() > thr:
            return x[i], torch.tensor(i)
    return torch.zeros(x.shape[1]), torch.tensor(-1)


def pow_iter(a):
    v = torch.ones(a.shape[0]) / a.shape[0] ** 0.5
    for _ in range(5):
        v = a @ v
        v = v / v.norm()
    return v, v @ a @ v


def softnms(boxes, scores):
    scores = scores.clone()
    for i in range(scores.shape[0]):
        iou = ops.box_iou(boxes, boxes[i : i + 1])[:, 0]
        later = torch.arange(scores.shape[0]) > i
        scores = torch.where(later & (iou > 0.3), scores * (1 - iou), scores)
    return scores


N = {0: "n"}
CASES = {
    "resnet": lambda: Case(
        ResNet(), (randn(2, 3, 32, 32),), [(randn(3, 3, 32, 32),), (randn(1, 3, 32, 32),)], {"x": N}
    ),
    "unet": lambda: Case(
        UNet(),
        (randn(1, 1, 8, 8),),
        [(randn(2, 1, 10, 14),), (randn(2, 1, 9, 11),)],
        {"x": {0: "n", 2: "h", 3: "w"}},
    ),
    "segment": lambda: Case(
        Segment(), (randn(1, 3, 8, 8),), [(randn(2, 3, 10, 14),)], {"x": {0: "n", 2: "h", 3: "w"}}
    ),
    "charrnn": lambda: Case(
        CharRNN(), (randn(4, 1, 10),), [(randn(7, 1, 10),), (randn(1, 1, 10),)], {"line": N}
    ),
    "seq2seq": lambda: Case(
        Seq2Seq(),
        (torch.randint(0, 12, (2, 5)),),
        [(torch.randint(0, 12, (3, 7)),)],
        {"src": {0: "b", 1: "t"}},
    ),
    "attndec": lambda: Case(
        AttnDecoder(),
        (randn(2, 5, 6), randn(3)),
        [(randn(3, 4, 6), randn(5))],
        {"keys": {0: "b", 1: "t"}, "n_steps": N},
    ),
    "greedy": lambda: Case(
        BeamLess(), (torch.tensor([1]),), [(torch.tensor([k]),) for k in range(7)], None
    ),
    "mha mask": lambda: Case(
        MHA(),
        (randn(2, 4, 8), randn(2, 5, 8), randn(2, 5, 8), (randn(2, 1, 4, 5) > 0).long()),
        [(randn(3, 2, 8), randn(3, 6, 8), randn(3, 6, 8), (randn(3, 1, 2, 6) > 0).long())],
        {
            "q": {0: "b", 1: "t"},
            "k": {0: "b", 1: "s"},
            "v": {0: "b", 1: "s"},
            "mask": {0: "b", 2: "t", 3: "s"},
        },
    ),
    "mha none": lambda: Case(
        MHA(),
        (randn(2, 4, 8), randn(2, 5, 8), randn(2, 5, 8)),
        [(randn(3, 2, 8), randn(3, 6, 8), randn(3, 6, 8))],
        {"q": {0: "b", 1: "t"}, "k": {0: "b", 1: "s"}, "v": {0: "b", 1: "s"}},
    ),
    "transformer lm": lambda: Case(
        TransformerLM(),
        (torch.tensor([[1, 2, 3, 4, 0], [5, 6, 7, 0, 0]]),),
        [(torch.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]]),)],
        {"src": {0: "b", 1: "t"}},
    ),
    "lengths": lambda: Case(
        Annotated(),
        (randn(2, 5, 8), torch.tensor([5, 3])),
        [(randn(3, 7, 8), torch.tensor([7, 1, 4]))],
        {"x": {0: "b", 1: "t"}, "lengths": {0: "b"}},
    ),
    "transformer": lambda: Case(
        Enc(),
        (randn(2, 5, 8), randn(2, 4, 8)),
        [(randn(3, 6, 8), randn(3, 2, 8))],
        {"src": {0: "b", 1: "s"}, "tgt": {0: "b", 1: "t"}},
    ),
    "vit": lambda: Case(ViT(), (randn(2, 3, 8, 8),), [(randn(4, 3, 8, 8),)], {"x": N}),
    "gpt no past": lambda: Case(
        GPTBlock(), (randn(2, 5, 8),), [(randn(1, 9, 8),)], {"x": {0: "b", 1: "t"}}
    ),
    "gpt past": lambda: Case(
        GPTBlock(),
        (randn(2, 1, 8), randn(2, 2, 2, 5, 4)),
        [(randn(3, 2, 8), randn(2, 3, 2, 7, 4))],
        {"x": {0: "b", 1: "t"}, "past": {1: "b", 3: "s"}},
    ),
    "rotary": lambda: Case(
        Rotary(),
        (randn(5, 8), torch.arange(5)),
        [(randn(9, 8), torch.arange(9))],
        {"x": N, "pos": N},
    ),
    "detect": lambda: Case(
        detect,
        (boxes(8), torch.rand(8)),
        [(boxes(20), torch.rand(20)), (boxes(5), torch.zeros(5))],
        {"boxes": N, "scores": N},
    ),
    "detect classes": lambda: Case(
        detect_classes,
        (randn(8, 4), randn(8, 4) * 3 + 4),
        [(randn(15, 4), randn(15, 4) * 3 + 4)],
        {"logits": N, "deltas": N},
    ),
    "topk post": lambda: Case(
        topk_post,
        (randn(2, 3, 2),),
        [(randn(5, 6, 2),), (randn(1, 4, 2),)],
        {"scores": {0: "b", 1: "n"}},
    ),
    "anchors": lambda: Case(
        anchors, (randn(2, 6, 4, 5),), [(randn(1, 6, 3, 7),)], {"feat": {0: "b", 2: "h", 3: "w"}}
    ),
    "ifs": lambda: Case(
        ifs,
        (randn(4), torch.tensor(True)),
        [
            (randn(4) * 5, torch.tensor(False)),
            (randn(4).abs(), torch.tensor(False)),
            (randn(4).abs() * 9, torch.tensor(True)),
            (randn(4), torch.tensor(True)),
        ],
        None,
    ),
    "lists": lambda: Case(lists, (randn(3, 4, 3),), [(randn(5, 2, 3),)], {"x": {0: "n", 1: "m"}}),
    "dict": lambda: Case(
        DictModel(),
        ({"x": randn(4, 3), "mask": randn(4)},),
        [({"x": randn(6, 3), "mask": randn(6)},)],
        {"batch_x": N, "batch_mask": N},
    ),
    "tuple": lambda: Case(TupleModel(), (randn(4, 3),), [(randn(6, 3),)], {"x": N}),
    "optional": lambda: Case(
        OptModel(), (randn(4, 3), None, 3.0, ["neg"]), [(randn(6, 3), None, 3.0, ["neg"])], {"x": N}
    ),
    "optional bias": lambda: Case(
        OptModel(), (randn(4, 3), randn(3)), [(randn(6, 3), randn(3))], {"x": N}
    ),
    "indexing": lambda: Case(
        indexing,
        (randn(4, 6), torch.tensor([3, 1, 0, 2])),
        [(randn(7, 6), torch.tensor([6, 1, 0, 2, 5, 3, -1]))],
        {"x": N, "idx": N},
    ),
    "inplace": lambda: Case(
        inplace_masks, (randn(4, 3),), [(randn(7, 3),), (randn(1, 3),)], {"x": N}
    ),
    "gnn": lambda: Case(
        GNN(),
        (randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 2, 2, 0]])),
        [(randn(6, 3), torch.randint(0, 6, (2, 9)))],
        {"x": N, "edges": {1: "e"}},
    ),
    "vae": lambda: Case(VAE(), (randn(3, 2, 3),), [(randn(5, 2, 3),)], {"x": N}),
    "tcn": lambda: Case(TCN(), (randn(2, 2, 9),), [(randn(3, 2, 12),)], {"x": {0: "b", 2: "t"}}),
    "lstm last": lambda: Case(
        Pack(),
        (randn(2, 5, 3), torch.tensor([5, 2])),
        [(randn(3, 7, 3), torch.tensor([1, 7, 3]))],
        {"x": {0: "b", 1: "t"}, "lengths": {0: "b"}},
    ),
    "newton": lambda: Case(
        newton, (torch.tensor([4.0, 9.0]),), [(torch.tensor([1e3, 2.0]),), (torch.zeros(2),)], None
    ),
    "collatz": lambda: Case(
        collatz, (torch.tensor([6, 7]),), [(torch.tensor([27, 1, 9]),)], {"n": N}
    ),
    "viterbi": lambda: Case(
        viterbi,
        (randn(5, 3), randn(3, 3)),
        [(randn(8, 3), randn(3, 3)), (randn(2, 3), randn(3, 3))],
        {"emit": N},
    ),
    "ctc": lambda: Case(ctc_greedy, (randn(6, 4),), [(randn(12, 4),)], {"logits": N}),
    "whiten": lambda: Case(whiten, (randn(5, 3),), [(randn(9, 3),)], {"x": N}),
    "losses": lambda: Case(
        losses,
        (randn(5, 4), torch.randint(0, 4, (5,))),
        [(randn(9, 4), torch.randint(0, 4, (9,)))],
        {"x": N, "y": N},
    ),
    "moe": lambda: Case(MoE(), (randn(5, 3),), [(randn(9, 3),), (randn(1, 3),)], {"x": N}),
    "gate": lambda: Case(
        WaveGate(), (randn(2, 2, 6),), [(randn(3, 2, 9),)], {"x": {0: "b", 2: "t"}}
    ),
    "strides": lambda: Case(strides, (randn(2, 6),), [(randn(3, 6),)], {"x": N}),
    "strides of any width": lambda: Case(
        strides, (randn(2, 6),), [(randn(3, 8),)], {"x": {0: "n", 1: "m"}}
    ),
    "early": lambda: Case(early, (randn(4, 3),), [(randn(6, 3) * 0.1,), (randn(6, 3),)], {"x": N}),
    "power": lambda: Case(pow_iter, (randn(3, 3),), [(randn(5, 5),)], {"a": {0: "n", 1: "n"}}),
    "softnms": lambda: Case(
        softnms, (boxes(5), torch.rand(5)), [(boxes(9), torch.rand(9))], {"boxes": N, "scores": N}
    ),
}
