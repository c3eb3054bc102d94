"""A graph network is trained; layers, batches of graphs, pooling, a sparse adjacency matrix."""

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric import nn as gnn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import add_self_loops, degree, scatter, softmax, to_dense_adj

torch.manual_seed(0)
n = 30
graph = Data(x=torch.randn(n, 8), edge_index=torch.randint(0, n, (2, 90)), y=torch.arange(n) % 3)
graph = T.Compose([T.ToUndirected(), T.NormalizeFeatures()])(graph)
print(graph, graph.is_undirected(), graph.has_self_loops())


class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = gnn.GCNConv(8, 16), gnn.GCNConv(16, 3)

    def forward(self, data):
        x = F.dropout(self.first(data.x, data.edge_index).relu(), training=self.training)
        return self.second(x, data.edge_index).log_softmax(1)


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(5):
    optimizer.zero_grad()
    loss = F.nll_loss(model(graph), graph.y)
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f}")

for layer in (
    gnn.GATConv(8, 4, heads=2), gnn.GATv2Conv(8, 4), gnn.SAGEConv(8, 4), gnn.SAGEConv(8, 4, "max"),
    gnn.GINConv(torch.nn.Linear(8, 4)), gnn.ChebConv(8, 4, K=3), gnn.TransformerConv(8, 4),
    gnn.TAGConv(8, 4), gnn.EdgeConv(torch.nn.Linear(16, 4)),
):  # fmt: skip
    out = layer(graph.x, graph.edge_index)
    out.square().sum().backward()
    size = sum(p.grad.norm().item() for p in layer.parameters() if p.grad is not None)
    print(type(layer).__name__, tuple(out.shape), f"{out.sum().item():.3f} {size:.3f}")


class Normalized(gnn.MessagePassing):
    def __init__(self):
        super().__init__(aggr="add")

    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(edge_index, num_nodes=len(x))
        norm = degree(edge_index[1], len(x), dtype=x.dtype).rsqrt()
        return self.propagate(edge_index, x=x, norm=norm[edge_index[0]] * norm[edge_index[1]])

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


print(f"{Normalized()(graph.x, graph.edge_index).sum().item():.3f}")
graphs = [Data(x=torch.randn(k, 8), edge_index=torch.randint(0, k, (2, 3 * k))) for k in (5, 7, 4)]
batch = next(iter(DataLoader(graphs, batch_size=3)))
pool = gnn.TopKPooling(8, ratio=0.7)
x, edges, _, which, _, _ = pool(batch.x, batch.edge_index, None, batch.batch)
pooled = torch.cat([gnn.global_mean_pool(x, which), gnn.global_max_pool(x, which)], 1)
print(batch, batch[1], tuple(pooled.shape), f"{pooled.sum().item():.3f}")
print(to_dense_adj(batch.edge_index, batch.batch).shape, batch.ptr.tolist())
places = torch.tensor([0, 0, 1, 1, 1])
print(softmax(torch.arange(5.0), places), scatter(torch.arange(5.0), places, reduce="mean"))
adjacency = torch.sparse_coo_tensor(graph.edge_index, torch.ones(graph.num_edges), (n, n))
layer = gnn.GCNConv(8, 4)
print(f"{layer(graph.x, adjacency.coalesce().to_sparse_csr()).sum().item():.3f}")
