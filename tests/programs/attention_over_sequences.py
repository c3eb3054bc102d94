"""A GRU encoder and a decoder with attention; packed sequences of unlike length."""

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

torch.manual_seed(2)
random.seed(2)
H, ML = 16, 6


class EncoderRNN(nn.Module):
    def __init__(self, n, h, dropout_p=0.1):
        super().__init__()
        self.embedding, self.gru, self.dropout = (
            nn.Embedding(n, h),
            nn.GRU(h, h, batch_first=True),
            nn.Dropout(dropout_p),
        )

    def forward(self, x):
        return self.gru(self.dropout(self.embedding(x)))


class BahdanauAttention(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.Wa, self.Ua, self.Va = nn.Linear(h, h), nn.Linear(h, h), nn.Linear(h, 1)

    def forward(self, query, keys):
        s = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        w = F.softmax(s, dim=-1)
        return torch.bmm(w, keys), w


class AttnDecoderRNN(nn.Module):
    def __init__(self, h, n):
        super().__init__()
        self.embedding, self.attention, self.gru = (
            nn.Embedding(n, h),
            BahdanauAttention(h),
            nn.GRU(2 * h, h, batch_first=True),
        )
        self.out, self.dropout = nn.Linear(h, n), nn.Dropout(0.1)

    def forward(self, eo, eh, target=None):
        inp = torch.empty(eo.size(0), 1, dtype=torch.long).fill_(0)
        hid = eh
        outs, atts = [], []
        for i in range(ML):
            emb = self.dropout(self.embedding(inp))
            q = hid.permute(1, 0, 2)
            c, w = self.attention(q, eo)
            o, hid = self.gru(torch.cat((emb, c), dim=2), hid)
            o = self.out(o)
            outs.append(o)
            atts.append(w)
            if target is not None:
                inp = target[:, i].unsqueeze(1)
            else:
                _, topi = o.topk(1)
                inp = topi.squeeze(-1).detach()
        return F.log_softmax(torch.cat(outs, dim=1), dim=-1), hid, torch.cat(atts, dim=1)


ids = np.random.RandomState(0).randint(2, 12, (40, ML)).astype(np.int32)
ds = TensorDataset(torch.LongTensor(ids), torch.LongTensor(ids[:, ::-1].copy()))
dl = DataLoader(ds, sampler=RandomSampler(ds), batch_size=8)
enc, dec = EncoderRNN(12, H), AttnDecoderRNN(H, 12)
eo_, do_ = optim.Adam(enc.parameters(), lr=0.01), optim.Adam(dec.parameters(), lr=0.01)
crit = nn.NLLLoss()
for epoch in range(3):
    total = 0
    for x, y in dl:
        eo_.zero_grad()
        do_.zero_grad()
        o, h = enc(x)
        out, _, _ = dec(o, h, y)
        loss = crit(out.view(-1, out.size(-1)), y.view(-1))
        loss.backward()
        eo_.step()
        do_.step()
        total += loss.item()
    print(epoch, "%.4f" % (total / len(dl)))
enc.eval()
dec.eval()
with torch.no_grad():
    o, h = enc(ds[0][0].unsqueeze(0))
    out, _, att = dec(o, h)
    print(out.topk(1)[1].squeeze(), att.shape, att.sum(-1))
# packed
lens = torch.tensor([3, 6, 2])
seqs = nn.utils.rnn.pad_sequence([torch.randn(n, 4) for n in lens], batch_first=True)
packed = nn.utils.rnn.pack_padded_sequence(seqs, lens.cpu(), batch_first=True, enforce_sorted=False)
rnn = nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True, proj_size=3)
po, (hn, cn) = rnn(packed)
u, ul = nn.utils.rnn.pad_packed_sequence(po, batch_first=True)
print(
    packed.batch_sizes,
    packed.sorted_indices,
    u.shape,
    ul,
    hn.shape,
    cn.shape,
    "%.4f" % u.sum().item(),
)
