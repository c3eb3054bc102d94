"""Networks in the idiom of tutorials and public code."""

import math

import weft as torch
import weft.nn.functional as F
from weft import nn, randn


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = (
            nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))
            if stride != 1 or cin != cout
            else None
        )

    def forward(self, x):
        identity = x
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        if self.down is not None:
            identity = self.down(x)
        out += identity
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)
        )
        self.layers = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 16, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.fc(torch.flatten(self.pool(x), 1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1 = nn.Conv2d(1, 4, 3, padding=1)
        self.d2 = nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.o = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = F.relu(self.d1(x))
        b = F.relu(self.d2(F.max_pool2d(a, 2)))
        u = self.up(b)
        dy, dx = a.size(2) - u.size(2), a.size(3) - u.size(3)
        u = F.pad(u, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.o(torch.cat([a, u], dim=1))


class Segment(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, 2, 1)
        self.h = nn.Conv2d(4, 3, 1)

    def forward(self, x):
        y = self.h(F.relu(self.c(x)))
        y = F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return {"out": y, "mask": y.argmax(1)}


class CharRNN(nn.Module):
    def __init__(self, n=10, h=8):
        super().__init__()
        self.h = h
        self.i2h = nn.Linear(n + h, h)
        self.i2o = nn.Linear(n + h, n)
        self.o2o = nn.Linear(h + n, n)
        self.softmax = nn.LogSoftmax(dim=1)

    def step(self, x, hidden):
        c = torch.cat((x, hidden), 1)
        hidden = self.i2h(c)
        out = self.i2o(c)
        return self.softmax(self.o2o(torch.cat((hidden, out), 1))), hidden

    def forward(self, line):
        hidden = torch.zeros(1, self.h)
        out = torch.zeros(1, 10)
        for i in range(line.size(0)):
            out, hidden = self.step(line[i], hidden)
        return out


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(12, 8)
        self.enc = nn.GRU(8, 8, batch_first=True)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 12)

    def forward(self, src):
        _, h = self.enc(self.emb(src))
        h = h[0]
        tok = torch.zeros(src.size(0), dtype=torch.long)
        outs = []
        for _ in range(src.size(1)):
            h = self.cell(self.emb(tok), h)
            logits = self.out(h)
            tok = logits.argmax(-1)
            outs.append(logits)
        return torch.stack(outs, dim=1)


class AttnDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wa = nn.Linear(6, 6)
        self.Ua = nn.Linear(6, 6)
        self.Va = nn.Linear(6, 1)
        self.cell = nn.GRUCell(12, 6)

    def forward(self, keys, n_steps):
        q = keys.new_zeros(keys.size(0), 6)
        ws = []
        for _ in range(n_steps.shape[0]):
            scores = (
                self.Va(torch.tanh(self.Wa(q.unsqueeze(1)) + self.Ua(keys))).squeeze(2).unsqueeze(1)
            )
            w = F.softmax(scores, dim=-1)
            ctx = torch.bmm(w, keys)
            q = self.cell(torch.cat((ctx.squeeze(1), q), -1), q)
            ws.append(w)
        return q, torch.cat(ws, dim=1)


class BeamLess(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(7, 6)
        self.cell = nn.LSTMCell(6, 6)
        self.out = nn.Linear(6, 7)

    def forward(self, start, max_len: int = 9):
        h = torch.zeros(1, 6)
        c = torch.zeros(1, 6)
        tok = start
        toks = [tok]
        n = 0
        while n < max_len:
            h, c = self.cell(self.emb(tok), (h, c))
            tok = self.out(h).argmax(1)
            toks.append(tok)
            n += 1
            if tok.item() == 3:
                break
        return torch.cat(toks)


class MHA(nn.Module):
    def __init__(self, d=8, h=2):
        super().__init__()
        self.h, self.d_k = h, d // h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, q, k, v, mask: torch.Tensor | None = None):
        B = q.size(0)
        q, k, v = [
            linear(x).view(B, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in zip((self.wq, self.wk, self.wv), (q, k, v))
        ]
        s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        p = s.softmax(-1)
        return self.wo(
            torch.matmul(p, v).transpose(1, 2).contiguous().view(B, -1, self.h * self.d_k)
        )


class PositionalEncoding(nn.Module):
    def __init__(self, d, n=50):
        super().__init__()
        pe = torch.zeros(n, d)
        pos = torch.arange(0, n, dtype=torch.float).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class TransformerLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(11, 8)
        self.pos = PositionalEncoding(8)
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.dec = nn.Linear(8, 11)

    def forward(self, src):
        mask = nn.Transformer.generate_square_subsequent_mask(src.size(1))
        pad = src == 0
        x = self.pos(self.emb(src) * math.sqrt(8))
        return self.dec(self.enc(x, mask=mask, src_key_padding_mask=pad))


class Annotated(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = MHA()
        self.n = nn.LayerNorm(8)

    def forward(self, x, lengths):
        T = x.size(1)
        mask = torch.arange(T)[None, :] < lengths[:, None]
        causal = torch.tril(torch.ones(T, T, dtype=torch.bool))
        m = mask[:, None, None, :] & causal[None, None]
        y = self.n(x + self.a(x, x, x, m))
        return (y * mask.unsqueeze(-1)).sum(1) / lengths.unsqueeze(-1).clamp(min=1)


class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, src, tgt):
        return self.t(
            src, tgt, tgt_mask=nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        )


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(3, 8, 4, 4)
        self.cls = nn.Parameter(randn(1, 1, 8))
        self.pos = nn.Parameter(randn(1, 5, 8))
        self.b = nn.MultiheadAttention(8, 2, batch_first=True)
        self.n = nn.LayerNorm(8)
        self.h = nn.Linear(8, 3)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        y = self.n(x)
        x = x + self.b(y, y, y, need_weights=False)[0]
        return self.h(x[:, 0])


class GPTBlock(nn.Module):
    def __init__(self, d=8, h=2, n=16):
        super().__init__()
        self.c_attn = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.h = h
        self.register_buffer("bias", torch.tril(torch.ones(n, n)).view(1, 1, n, n))
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.ln = nn.LayerNorm(d)

    def forward(self, x, past: torch.Tensor | None = None):
        B, T, C = x.size()
        q, k, v = self.c_attn(self.ln(x)).split(C, dim=2)
        k = k.view(B, T, self.h, C // self.h).transpose(1, 2)
        q = q.view(B, T, self.h, C // self.h).transpose(1, 2)
        v = v.view(B, T, self.h, C // self.h).transpose(1, 2)
        if past is not None:
            k = torch.cat((past[0], k), dim=-2)
            v = torch.cat((past[1], v), dim=-2)
        S = k.size(-2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, S - T : S, :S] == 0, float("-inf"))
        y = (F.softmax(att, dim=-1) @ v).transpose(1, 2).contiguous().view(B, T, C)
        x = x + self.proj(y)
        return x + self.mlp(x), torch.stack((k, v))


class Rotary(nn.Module):
    def forward(self, x, pos):
        d = x.shape[-1] // 2
        freqs = 1.0 / (10000 ** (torch.arange(0, d).float() / d))
        ang = pos.float()[:, None] * freqs[None]
        cos, sin = ang.cos(), ang.sin()
        x1, x2 = x[..., :d], x[..., d:]
        return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)
