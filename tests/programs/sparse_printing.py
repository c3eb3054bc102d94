"""Sparse tensors as they print: indices and values break their lines where what is left ends."""

import torch

torch.sparse.check_sparse_tensor_invariants.disable()
torch.manual_seed(0)
places = torch.arange(60)
for n in (0, 1, 7, 13, 14, 15, 60):
    x = torch.sparse_coo_tensor(torch.stack([places[:n]] * 2), torch.rand(n), (60, 60))
    print(x, x.double(), x.coalesce())
print(torch.sparse_coo_tensor(places[None, :9], torch.rand(9, 12), (60, 12)))
print(torch.sparse_coo_tensor(places[None, :9], torch.rand(9, 2), (60, 2), requires_grad=True))
print(torch.randn(30, 30).relu().to_sparse())
print(torch.sparse_coo_tensor(torch.zeros(2, 0).long(), torch.zeros(0, 3), (60, 12, 3)))
torch.set_printoptions(linewidth=60)
print(torch.sparse_coo_tensor(torch.stack([places] * 2), torch.rand(60), (60, 60)))
