"""Convolutions over a sparse normalised graph, and attention over its edges."""

import torch
import torch.nn.functional as F
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, i, o, bias=True):
        super().__init__()
        self.kernel = nn.Parameter(torch.Tensor(i, o))
        nn.init.xavier_normal_(self.kernel)
        if bias:
            self.bias = nn.Parameter(torch.Tensor(o))
            nn.init.zeros_(self.bias)
        else:
            self.register_parameter("bias", None)

    def forward(self, x, adj):
        support = torch.mm(x, self.kernel)
        out = torch.spmm(adj, support)
        return out + self.bias if self.bias is not None else out

    def __repr__(self):
        return (
            self.__class__.__name__
            + " ("
            + str(self.kernel.shape[0])
            + " -> "
            + str(self.kernel.shape[1])
            + ")"
        )


class GraphAttentionLayer(nn.Module):
    def __init__(self, i, o, n_heads, concat=False, dropout=0.4, slope=0.2):
        super().__init__()
        self.n_heads, self.concat, self.dropout = n_heads, concat, dropout
        self.n_hidden = o // n_heads if concat else o
        self.W = nn.Parameter(torch.empty(size=(i, self.n_hidden * n_heads)))
        self.a = nn.Parameter(torch.empty(size=(n_heads, 2 * self.n_hidden, 1)))
        self.leakyrelu = nn.LeakyReLU(slope)
        self.softmax = nn.Softmax(dim=1)
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)

    def forward(self, h, adj):
        n = h.shape[0]
        h_t = F.dropout(torch.mm(h, self.W), self.dropout, training=self.training)
        h_t = h_t.view(n, self.n_heads, self.n_hidden).permute(1, 0, 2)
        s = torch.matmul(h_t, self.a[:, : self.n_hidden, :])
        t = torch.matmul(h_t, self.a[:, self.n_hidden :, :])
        e = self.leakyrelu(s + t.mT)
        mask = -9e16 * torch.ones_like(e)
        att = F.softmax(torch.where(adj > 0, e, mask), dim=-1)
        out = torch.matmul(F.dropout(att, self.dropout, training=self.training), h_t)
        return out.permute(1, 0, 2).contiguous().view(n, -1) if self.concat else out.mean(dim=0)


torch.manual_seed(13)
N = 30
edges = torch.randint(0, N, (2, 80))
A = torch.sparse_coo_tensor(edges, torch.ones(80), (N, N)).coalesce()
A = A + A.t()
A = A.to_dense().clamp(max=1) + torch.eye(N)
D = A.sum(1).pow(-0.5)
adj = (D[:, None] * A * D[None]).to_sparse_coo()
print(adj._nnz(), adj.is_coalesced(), adj.shape)
feats, labels = torch.randn(N, 12), torch.randint(0, 3, (N,))
idx = torch.randperm(N)
tr, te = idx[:20], idx[20:]


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1, self.gc2 = GraphConv(12, 16), GraphConv(16, 3, bias=False)

    def forward(self, x, adj):
        x = F.dropout(F.relu(self.gc1(x, adj)), 0.5, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.g1 = GraphAttentionLayer(12, 16, 4, concat=True)
        self.g2 = GraphAttentionLayer(16, 3, 1)

    def forward(self, x, adj):
        return F.log_softmax(self.g2(F.elu(self.g1(x, adj)), adj), dim=1)


for model, a in ((GCN(), adj), (GAT(), adj.to_dense())):
    print(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(5):
        model.train()
        opt.zero_grad()
        out = model(feats, a)
        loss = F.nll_loss(out[tr], labels[tr])
        loss.backward()
        opt.step()
        print(epoch, "%.3f" % loss.item())
    model.eval()
    print((model(feats, a)[te].argmax(1) == labels[te]).double().mean())
