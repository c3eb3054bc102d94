"""In-place operations, views of one storage, and the graph they leave."""

import torch

x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
y = x * 1
row = y[0]
column = y[:, 1]
print(row, column)
row.mul_(10)
print(y)
print(column)
y[1, 2] = 0
y[:, 0] += 1
print(y)
y.sum().backward()
print(x.grad)

# Views of constants write through.
base = torch.arange(12)
table = base.view(3, 4)
table[1] = -1
table.t()[0] += 100
print(base)
print(table.t())
flat = table.reshape(-1)
flat[0] = 7
print(table[0, 0], table.t().is_contiguous(), flat.is_contiguous())
part = table[:, 1:3]
print(part, part.stride(), part.storage_offset())
part.zero_()
print(base)
print(part.contiguous().stride(), table.t().reshape(2, 6))

# The names of the nodes of common views.
w = torch.ones(2, 3, requires_grad=True)
for view in (
    w.view(3, 2),
    w.reshape(6),
    w.t(),
    w.transpose(0, 1),
    w.permute(1, 0),
    w[0],
    w[:, 1:],
    w.unsqueeze(0),
    w.unsqueeze(0).squeeze(0),
    w.expand(2, 2, 3),
    w.flatten(),
):
    print(view.grad_fn.__class__.__name__, tuple(view.shape))

# In-place forms return the tensor itself, and count.
z = torch.ones(3)
version = z._version
same = z.add_(1).mul_(2).sub_(0.5).div_(3).clamp_(max=1).fill_(4)
print(same is z, z, z._version - version)
z += 1
z -= 0.5
z *= 2
z /= 3
print(z)
with torch.no_grad():
    w.sub_(0.25)
print(w)
h = w * 2
h.relu_()
print(h.grad_fn.__class__.__name__)
h.sum().backward()
print(w.grad)
