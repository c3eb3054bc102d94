"""A small transformer over sequences of unlike length, as nested tensors, without padding."""

import io
import pickle

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def sequences(n):
    """Digits, and whether there are more high ones than low ones."""
    lengths = [3 + (5 * k) % 7 for k in range(n)]
    digits = [[(7 * k + 3 * i * i) % 10 for i in range(m)] for k, m in enumerate(lengths)]
    made = [torch.tensor(one) for one in digits]
    labels = torch.tensor([int((s > 4).sum() * 2 > len(s)) for s in made])
    return torch.nested.nested_tensor(made, layout=torch.jagged), labels


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.contiguous().unflatten(-1, [self.heads, 8]).transpose(1, 2) for t in (q, k, v))
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2, 3)
        x = x + self.out(seen)
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 16)
        self.blocks = nn.ModuleList([Block(16, 2), Block(16, 2)])
        self.head = nn.Linear(16, 2)

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x.to_padded_tensor(0.0).sum(dim=1) / tokens.offsets().diff().unsqueeze(1))


tokens, labels = sequences(24)
print(tokens.shape[0], tokens.layout, tokens.is_nested, tokens.offsets().diff().tolist())
net = Classifier()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
losses = []
for _ in range(30):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(tokens), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print([round(x, 3) for x in losses[:3]], losses[-1] < 0.4)
print((net(tokens).argmax(1) == labels).float().mean().item() > 0.8)

# the same, one sequence at a time
with torch.no_grad():
    whole = net(tokens)
    for k, one in enumerate(tokens.unbind()):
        alone = net(torch.nested.as_nested_tensor([one], layout=torch.jagged))
        assert torch.allclose(alone[0], whole[k], atol=1e-5)

# what it is made of
values = torch.arange(10.0).view(5, 2).requires_grad_()
x = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 5]), max_seqlen=3)
print(x.to_padded_tensor(-1.0).tolist())
scores = F.linear(x.detach() * torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), torch.ones(1, 2))
weights = scores.softmax(dim=1)
pooled = (x * weights).to_padded_tensor(0.0).sum(dim=1)
pooled.sum().backward()
print([[round(v, 4) for v in row] for row in pooled.tolist()])
print([[round(v, 4) for v in row] for row in values.grad.tolist()])
x = x.detach()
print(x.sum(dim=1).tolist(), x.mean(dim=1).tolist(), x.sum(dim=-1).unbind()[0].tolist())
print((x.max(dim=1).values - x.amin(dim=1)).tolist(), x.argmax(dim=1).tolist())
print([t.shape for t in x.unbind()], x[1, -1].tolist(), len(x), x.dim(), x.numel())
print(x.shape == (x + 1).shape, x.shape[1] == 3, x.size(-1))
for wrong in (
    lambda: x + torch.nested.nested_tensor([torch.ones(2, 2)] * 2, layout=torch.jagged),
    lambda: x.sum(dim=0), lambda: x.flatten(1, 2), lambda: x.transpose(0, 1),
    lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 2)], layout=torch.jagged),
    lambda: torch.nested.nested_tensor_from_jagged(values), lambda: x[1:], lambda: x.numpy(),
):  # fmt: skip
    try:
        wrong()
    except Exception as error:
        print(type(error).__name__)

buffer = io.BytesIO()
torch.save(torch.nested.nested_tensor([[1, 2], [3]], layout=torch.jagged)._values, buffer)
again = pickle.loads(pickle.dumps(x))
print(again.unbind()[0].tolist(), again.offsets().tolist())

# starts and lengths into a cache
cache = torch.arange(24).view(3, 8)
starts, lengths = torch.tensor([0, 1, 2]), torch.tensor([3, 1, 2])
rows = torch.nested.narrow(cache, 1, starts, lengths, layout=torch.jagged)
print([t.tolist() for t in rows.unbind()], rows.is_contiguous())
print([t.tolist() for t in torch.nested.masked_select(cache, cache % 3 == 0).unbind()])
