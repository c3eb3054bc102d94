"""The Transformer from its parts: masks, label smoothing, a warm-up, greedy decoding."""

import copy
import math

import torch
import torch.nn as nn
from torch.nn.functional import log_softmax, pad
from torch.optim.lr_scheduler import LambdaLR


def clones(m, N):
    return nn.ModuleList([copy.deepcopy(m) for _ in range(N)])


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2, self.eps = (
            nn.Parameter(torch.ones(features)),
            nn.Parameter(torch.zeros(features)),
            eps,
        )

    def forward(self, x):
        return (
            self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps)
            + self.b_2
        )


class Sub(nn.Module):
    def __init__(self, size, p):
        super().__init__()
        self.norm, self.dropout = LayerNorm(size), nn.Dropout(p)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


def attention(q, k, v, mask=None, dropout=None):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p = scores.softmax(dim=-1)
    if dropout is not None:
        p = dropout(p)
    return torch.matmul(p, v), p


class MHA(nn.Module):
    def __init__(self, h, d, dropout=0.1):
        super().__init__()
        self.d_k, self.h, self.linears, self.attn, self.dropout = (
            d // h,
            h,
            clones(nn.Linear(d, d), 4),
            None,
            nn.Dropout(dropout),
        )

    def forward(self, q, k, v, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        n = q.size(0)
        q, k, v = [
            lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (q, k, v))
        ]
        x, self.attn = attention(q, k, v, mask, self.dropout)
        return self.linears[-1](x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))


class Layer(nn.Module):
    def __init__(self, d, h, ff, p, cross):
        super().__init__()
        self.attn, self.cross = MHA(h, d), MHA(h, d) if cross else None
        self.ff = nn.Sequential(nn.Linear(d, ff), nn.ReLU(), nn.Dropout(p), nn.Linear(ff, d))
        self.sub = clones(Sub(d, p), 3 if cross else 2)

    def forward(self, x, mask, mem=None, src_mask=None):
        x = self.sub[0](x, lambda x: self.attn(x, x, x, mask))
        if self.cross is not None:
            x = self.sub[1](x, lambda x: self.cross(x, mem, mem, src_mask))
        return self.sub[-1](x, self.ff)


def subsequent_mask(size):
    return torch.triu(torch.ones((1, size, size)), diagonal=1).type(torch.uint8) == 0


class Model(nn.Module):
    def __init__(self, V, N=2, d=16, ff=32, h=4, p=0.1):
        super().__init__()
        self.d = d
        self.emb = nn.ModuleList([nn.Embedding(V, d), nn.Embedding(V, d)])
        self.enc, self.dec, self.norm = (
            clones(Layer(d, h, ff, p, False), N),
            clones(Layer(d, h, ff, p, True), N),
            clones(LayerNorm(d), 2),
        )
        self.gen = nn.Linear(d, V)
        for q in self.parameters():
            if q.dim() > 1:
                nn.init.xavier_uniform_(q)

    def encode(self, src, m):
        x = self.emb[0](src) * math.sqrt(self.d)
        for layer in self.enc:
            x = layer(x, m)
        return self.norm[0](x)

    def decode(self, mem, sm, tgt, tm):
        x = self.emb[1](tgt) * math.sqrt(self.d)
        for layer in self.dec:
            x = layer(x, tm, mem, sm)
        return self.norm[1](x)


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.pi, self.c, self.s, self.size = padding_idx, 1 - smoothing, smoothing, size

    def forward(self, x, target):
        d = x.data.clone()
        d.fill_(self.s / (self.size - 2))
        d.scatter_(1, target.data.unsqueeze(1), self.c)
        d[:, self.pi] = 0
        mask = torch.nonzero(target.data == self.pi)
        if mask.dim() > 0:
            d.index_fill_(0, mask.squeeze(), 0.0)
        return self.criterion(x, d.clone().detach())


torch.manual_seed(0)
V = 11
model = Model(V)
crit = LabelSmoothing(V, 0, 0.1)
opt = torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.9, 0.98), eps=1e-9)
sch = LambdaLR(opt, lambda s: 16**-0.5 * min(max(s, 1) ** -0.5, max(s, 1) * 40**-1.5))
for e in range(5):
    data = torch.randint(1, V, size=(8, 6))
    data[:, 0] = 1
    data[0, 4:] = 0
    src = data.requires_grad_(False).clone().detach()
    tgt = src.clone()
    sm = (src != 0).unsqueeze(-2)
    t, ty = tgt[:, :-1], tgt[:, 1:]
    tm = (t != 0).unsqueeze(-2)
    tm = tm & subsequent_mask(t.size(-1)).type_as(tm.data)
    out = log_softmax(model.gen(model.decode(model.encode(src, sm), sm, t, tm)), dim=-1)
    n = (ty != 0).data.sum()
    loss = crit(out.contiguous().view(-1, V), ty.contiguous().view(-1)) / n
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    sch.step()
    print(e, "%.4f" % loss.item(), "%.2e" % opt.param_groups[0]["lr"], n)
model.eval()
src = torch.LongTensor([[1, 2, 3, 4, 5]])
m = torch.ones(1, 1, 5)
mem = model.encode(src, m)
ys = torch.zeros(1, 1).fill_(1).type_as(src.data)
for _i in range(4):
    prob = model.gen(model.decode(mem, m, ys, subsequent_mask(ys.size(1)).type_as(src.data))[:, -1])
    _, w = torch.max(prob, dim=1)
    ys = torch.cat([ys, torch.zeros(1, 1).type_as(src.data).fill_(w.data[0])], dim=1)
print(ys, pad(ys, (0, 2), value=9), model.enc[0].attn.attn.shape)
