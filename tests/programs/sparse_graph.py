"""A graph convolutional network over a sparse adjacency matrix, and a table of sparse gradients."""

import io

import torch
from torch import nn

torch.manual_seed(0)

# two rings of unlike size with one bridge
first, second = 6, 5
edges = [(i, (i + 1) % first) for i in range(first)]
edges += [(first + i, first + (i + 1) % second) for i in range(second)]
edges.append((0, first))
n = first + second
pairs = torch.tensor(edges + [(b, a) for a, b in edges] + [(i, i) for i in range(n)]).t()
adjacency = torch.sparse_coo_tensor(pairs, torch.ones(pairs.shape[1]), (n, n)).coalesce()
degree = torch.sparse.sum(adjacency, dim=1).to_dense()
rows, cols = adjacency.indices()
scaled = adjacency.values() / (degree[rows] * degree[cols]).sqrt()
A = torch.sparse_coo_tensor(adjacency.indices(), scaled, (n, n)).coalesce()
print(A._nnz(), A.is_coalesced(), A.layout, degree.tolist())


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = nn.Embedding(n, 4, sparse=True)
        self.inner = nn.Linear(4, 8)
        self.out = nn.Linear(8, 2)
        self.register_buffer("A", A)

    def forward(self):
        h = torch.relu(torch.sparse.mm(self.A, self.inner(self.names(torch.arange(n)))))
        return torch.sparse.mm(self.A, self.out(h))


net = GCN()
labels = torch.tensor([0] * first + [1] * second)
dense = torch.optim.SGD([*net.inner.parameters(), *net.out.parameters()], lr=0.5)
table = torch.optim.SparseAdam(net.names.parameters(), lr=0.05)
losses = []
for _ in range(60):
    dense.zero_grad()
    table.zero_grad()
    loss = nn.functional.cross_entropy(net(), labels)
    loss.backward()
    dense.step()
    table.step()
    losses.append(loss.item())
print(round(losses[0], 2), losses[-1] < 0.2, net.names.weight.grad.is_sparse)
print(net().argmax(1).tolist())

# gradients to the edges
w = torch.ones(A._nnz(), requires_grad=True)
x = torch.arange(float(2 * n)).reshape(n, 2)
torch.sparse.mm(torch.sparse_coo_tensor(A.indices(), w, (n, n)), x).sum().backward()
print(w.grad.tolist() == x.sum(1)[A.indices()[1]].tolist())

leaf = A.detach().clone().requires_grad_()
torch.sparse.mm(leaf, x).sum().backward()
print(leaf.grad.layout, leaf.grad._nnz())
attention = torch.sparse.softmax(A, dim=1)
print([round(v, 4) for v in torch.sparse.sum(attention, dim=1).to_dense().tolist()])

# the other layout
csr = A.to_sparse_csr()
print(csr.crow_indices().tolist(), csr.layout)
print(torch.allclose(csr @ x, A.to_dense() @ x), torch.allclose(A.t() @ x, A.to_dense().t() @ x))

# kept in a file
file = io.BytesIO()
torch.save(net.state_dict(), file)
file.seek(0)
again = GCN()
print(again.load_state_dict(torch.load(file)))
print(torch.equal(again(), net()))

small = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
print(small)
print(small.to_sparse_csr())
print((small * 2 + small).to_dense())
for f in (lambda: small + 1, lambda: small.exp(), lambda: small.to_sparse_csr().indices()):
    try:
        f()
    except (RuntimeError, NotImplementedError) as error:
        print(type(error).__name__)
