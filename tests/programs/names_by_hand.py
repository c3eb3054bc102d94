"""Names by characters: counts, then a network whose gradients are also computed by hand."""

import torch
import torch.nn.functional as F

words = ["emma", "olivia", "ava", "isabella", "sophia", "mia", "amelia", "harper", "evelyn"]
chars = sorted(list(set("".join(words))))
stoi = {s: i + 1 for i, s in enumerate(chars)}
stoi["."] = 0
itos = {i: s for s, i in stoi.items()}
N = torch.zeros((len(stoi), len(stoi)), dtype=torch.int32)
for w in words:
    for a, b in zip("." + w, w + "."):
        N[stoi[a], stoi[b]] += 1
P = (N + 1).float()
P /= P.sum(1, keepdims=True)
g = torch.Generator().manual_seed(2147483647)
for _ in range(3):
    out, ix = [], 0
    while True:
        ix = torch.multinomial(P[ix], num_samples=1, replacement=True, generator=g).item()
        out.append(itos[ix])
        if ix == 0:
            break
    print("".join(out))
X, Y = [], []
for w in words:
    context = [0] * 3
    for ch in w + ".":
        X.append(context)
        Y.append(stoi[ch])
        context = context[1:] + [stoi[ch]]
X, Y = torch.tensor(X), torch.tensor(Y)
V = len(stoi)
C = torch.randn((V, 4), generator=g)
W1 = torch.randn((12, 20), generator=g) * (5 / 3) / ((12) ** 0.5)
b1 = torch.randn(20, generator=g) * 0.01
W2 = torch.randn((20, V), generator=g) * 0.01
b2 = torch.randn(V, generator=g) * 0
bngain, bnbias = torch.ones((1, 20)), torch.zeros((1, 20))
params = [C, W1, b1, W2, b2, bngain, bnbias]
for p in params:
    p.requires_grad = True


def cmp(s, dt, t):
    torch.all(dt == t.grad).item()
    app = torch.allclose(dt, t.grad, atol=1e-6)
    print(f"{s:10s} | approximate: {str(app):5s}")


for i in range(3):
    ix = torch.randint(0, X.shape[0], (16,), generator=g)
    emb = C[X[ix]]
    embcat = emb.view(emb.shape[0], -1)
    hpre = embcat @ W1 + b1
    bnm, bnv = hpre.mean(0, keepdim=True), hpre.var(0, keepdim=True, unbiased=True)
    h = torch.tanh(bngain * (hpre - bnm) * (bnv + 1e-5) ** -0.5 + bnbias)
    logits = h @ W2 + b2
    lm = logits.max(1, keepdim=True).values
    counts = (logits - lm).exp()
    probs = counts * counts.sum(1, keepdims=True) ** -1
    loss = -probs.log()[range(16), Y[ix]].mean()
    for p in params:
        p.grad = None
    for t in (logits, h, hpre, embcat, emb):
        t.retain_grad()
    loss.backward()
    for p in params:
        p.data += -0.1 * p.grad
    print(i, "%.4f" % loss.item())
dlogits = F.softmax(logits, 1)
dlogits[range(16), Y[ix]] -= 1
dlogits /= 16
cmp("logits", dlogits, logits)
cmp("h", dlogits @ W2.T, h)
dC = torch.zeros_like(C)
for k in range(X[ix].shape[0]):
    for j in range(3):
        dC[X[ix][k, j]] += emb.grad[k, j]
cmp("C", dC, C)
dC2 = torch.zeros_like(C)
dC2.index_add_(0, X[ix].view(-1), emb.grad.view(-1, 4))
cmp("C", dC2, C)
print(
    (h.abs() > 0.99).float().mean(),
    h.view(-1).tolist()[0].__round__(3),
    torch.histogram(h.detach(), 5).hist,
    torch.histc(h.detach(), bins=4),
)
print(
    F.one_hot(X[:2], num_classes=V).float().shape,
    C.data.std(0),
    W1.grad.abs().mean() / W1.data.abs().mean(),
)
