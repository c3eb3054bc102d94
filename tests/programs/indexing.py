"""Reading and writing by index, joining and splitting."""

import torch

t = torch.arange(24.0).view(2, 3, 4)
print(t[0], t[1, 2], t[-1, -1, -1], t[0, 1, 2].item())
print(t[:, 1], t[..., 0], t[0, :, 1:3], t[:, ::2, ::3])
print(t[None].shape, t[:, None].shape, t[..., None].shape)
index = torch.tensor([2, 0])
print(t[:, index], t[0, index, index], t[0][[1, 1]])
mask = t > 20
print(t[mask], mask.sum(), mask.any(), (~mask)[0].all())
print(t[0, 0][torch.tensor([True, False, True, False])])

w = torch.zeros(3, 4)
w[0] = 1
w[1, 2:] = torch.tensor([5.0, 6.0])
w[2] = torch.arange(4)
w[:, 0] -= 3
w[w > 4] = -1
w[[0, 2], [1, 3]] = torch.tensor([10.0, 20.0])
print(w)

x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
y = x[1:] * x[:-1]
print(y, x[2], x[torch.tensor([0, 0, 3])])
(y.sum() + x[[0, 0, 3]].sum() + x[x > 2.5].prod()).backward()
print(x.grad)
buffer = torch.zeros(4)
for i in range(4):
    buffer[i] = x[i] * i
print(buffer)
x.grad = None
buffer.sum().backward()
print(x.grad)

a, b = torch.ones(2, 2, requires_grad=True), torch.zeros(1, 2)
print(torch.cat([a, b]), torch.cat([a, a], dim=1).shape)
print(torch.stack([a[0], a[1], b[0]]), torch.stack([a, a], dim=-1).shape)
parts = torch.arange(10).split([2, 3, 5])
print(parts, torch.arange(6).chunk(3), torch.arange(4).view(2, 2).unbind(1))
print(t.gather(2, torch.tensor([[[0], [1], [2]], [[3], [2], [1]]])).squeeze(-1))
print(torch.index_select(w, 1, torch.tensor([3, 0])))
print(torch.zeros(2, 3).scatter_(1, torch.tensor([[0], [2]]), 1.0))
print(t.transpose(0, 2)[1], t.flatten(1).shape, t.reshape(4, -1).shape)
print(t.max(), t.argmax(), t.max(dim=0).values, t[0].min(dim=1).indices)
values, order = torch.tensor([3.0, 1.0, 2.0]).sort(descending=True)
print(values, order, torch.tensor([0.5, 2.5, 1.5]).topk(2).indices)
print(torch.nonzero(torch.tensor([0, 1, 0, 2])), torch.where(w[2] > 0))
print(torch.tril(torch.ones(3, 3)), torch.eye(2, 3), torch.roll(torch.arange(4), 1))
for row in torch.tensor([[1, 2], [3, 4]]):
    print(row.tolist(), [int(v) for v in row])
