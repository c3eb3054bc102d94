"""Masked tensors: gradients that are 0 beside those that are none, means of what counts."""

import warnings

import torch
from torch.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor
from torch.masked.maskedtensor.core import is_masked_tensor as the_same

warnings.filterwarnings("ignore", category=UserWarning)  # PyTorch's: it is a prototype

# what a branch that was not taken gives: nan from the dense ones, nothing from the masked ones
x = torch.tensor([-10.0, -5, 0, 5, 10, 50, 100], requires_grad=True)
torch.where(x < 0, torch.exp(x), torch.ones_like(x)).sum().backward()
print(x.grad)
x = torch.tensor([-10.0, -5, 0, 5, 10, 50, 100])
left = masked_tensor(x, x < 0, requires_grad=True)
right = masked_tensor(torch.ones_like(x), x >= 0, requires_grad=True)
y = torch.where(x < 0, torch.exp(left), right)
y.sum().backward()
print(y, left.grad, right.grad)

# 0/0 in backward
a = torch.tensor([1.0, 1.0], requires_grad=True)
divisor = torch.tensor([0.0, 1.0])
as_masked_tensor(a / divisor, divisor != 0).sum().backward()
print(a.grad)
b = masked_tensor(torch.tensor(1.0), torch.tensor(True), requires_grad=True)
(b * torch.tensor(3.0)).backward()
print(b.grad)

# means that skip nan
z = torch.tensor([float("nan"), 1.0, 2.0, float("nan")])
print(z.mean(), masked_tensor(z, ~torch.isnan(z)).mean())
data = torch.arange(12, dtype=torch.float).reshape(3, 4)
m = masked_tensor(data, data % 5 > 0)
print(m, m.sum(0), m.mean(1), m.amax(-1), m.prod(1), torch.argmin(m, dim=1), m.softmax(1))
print(
    m.to_tensor(-1), m[1:, ::2], m.transpose(0, 1), m.reshape(2, 6), m.unsqueeze(1).expand(3, 2, 4)
)
print(m > 4, (m + m * 2 - data) / 2, torch.stack([m, m]).sum((0, 2)))
for other in (masked_tensor(data, data > 3), m[0]):
    try:
        m + other
    except ValueError as error:
        print(type(error).__name__, "must match" in str(error))
print(isinstance(m, MaskedTensor), is_masked_tensor(m), the_same(data), type(m).__name__)

# weights of which some are kept: a few steps of gradient descent
torch.manual_seed(0)
w = masked_tensor(
    torch.full((4,), 0.5), torch.tensor([True, True, False, True]), requires_grad=True
)
for _ in range(3):
    w.grad = None
    loss = ((w * data - 1.0) ** 2).mean()
    loss.backward()
    w = masked_tensor((w - 0.01 * w.grad).get_data().detach(), w.get_mask(), requires_grad=True)
    print(loss, w)

# sparse data
sparse = m.to_sparse()
print(sparse, sparse.get_data(), sparse.layout, sparse.is_sparse_coo(), sparse.is_sparse)
print((sparse * 2 + sparse).to_dense(), sparse.sum(), sparse.amax(), sparse.sin().mean())
csr = m.to_sparse_csr()
print(csr.get_mask(), csr.is_sparse_csr(), csr.prod(), csr.to_dense())
