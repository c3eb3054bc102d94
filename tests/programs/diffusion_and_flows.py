"""Denoising diffusion with a small U-net, and a flow of coupling layers."""

import math

import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def cosine_beta_schedule(T, s=0.008):
    x = torch.linspace(0, T, T + 1)
    ac = torch.cos(((x / T) + s) / (1 + s) * torch.pi * 0.5) ** 2
    ac = ac / ac[0]
    return torch.clip(1 - (ac[1:] / ac[:-1]), 0.0001, 0.9999)


T = 20
betas = cosine_beta_schedule(T)
alphas = 1.0 - betas
ac = torch.cumprod(alphas, axis=0)
acp = F.pad(ac[:-1], (1, 0), value=1.0)
pv = betas * (1.0 - acp) / (1.0 - ac)


def extract(a, t, s):
    return a.gather(-1, t.cpu()).reshape(t.shape[0], *((1,) * (len(s) - 1))).to(t.device)


class Sin(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.d = d

    def forward(self, t):
        h = self.d // 2
        e = torch.exp(torch.arange(h) * -(math.log(10000) / (h - 1)))
        e = t[:, None] * e[None, :]
        return torch.cat((e.sin(), e.cos()), dim=-1)


class WSConv(nn.Conv2d):
    def forward(self, x):
        w = self.weight
        mean = w.mean(dim=(1, 2, 3), keepdim=True)
        var = torch.var(w, dim=[1, 2, 3], unbiased=False, keepdim=True)
        return F.conv2d(
            x,
            (w - mean) * (var + 1e-5).rsqrt(),
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
        )


class LinAttn(nn.Module):
    def __init__(self, d, heads=2, dh=4):
        super().__init__()
        self.h = heads
        self.qkv = nn.Conv2d(d, heads * dh * 3, 1, bias=False)
        self.out = nn.Sequential(nn.Conv2d(heads * dh, d, 1), nn.GroupNorm(1, d))

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, self.h, -1, h * w) for t in self.qkv(x).chunk(3, dim=1))
        q, k = q.softmax(dim=-2), k.softmax(dim=-1)
        ctx = torch.einsum("b h d n, b h e n -> b h d e", k, v)
        return self.out(torch.einsum("b h d e, b h d n -> b h e n", ctx, q).reshape(b, -1, h, w))


class Unet(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.init, self.time = (
            nn.Conv2d(1, d, 7, padding=3),
            nn.Sequential(Sin(d), nn.Linear(d, d * 2), nn.GELU(), nn.Linear(d * 2, d * 2)),
        )
        self.down, self.norm, self.attn, self.up, self.final = (
            WSConv(d, d, 4, 2, 1),
            nn.GroupNorm(4, d),
            LinAttn(d),
            nn.ConvTranspose2d(d, d, 4, 2, 1),
            nn.Conv2d(2 * d, 1, 1),
        )

    def forward(self, x, t):
        x = self.init(x)
        r = x.clone()
        s, b = self.time(t)[:, :, None, None].chunk(2, dim=1)
        x = F.silu(self.norm(self.down(x)) * (s + 1) + b)
        x = self.attn(x) + x
        return self.final(torch.cat((self.up(x), r), dim=1))


m = Unet()
opt = torch.optim.Adam(m.parameters(), 1e-3)
for _i in range(3):
    x0 = torch.rand(4, 1, 8, 8) * 2 - 1
    t = torch.randint(0, T, (4,)).long()
    n = torch.randn_like(x0)
    xt = extract(ac.sqrt(), t, x0.shape) * x0 + extract((1 - ac).sqrt(), t, x0.shape) * n
    loss = F.smooth_l1_loss(n, m(xt, t))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("%.4f" % loss.item())


@torch.inference_mode()
def sample():
    img = torch.randn(2, 1, 8, 8)
    for i in reversed(range(0, T)):
        t = torch.full((2,), i, dtype=torch.long)
        mean = extract(alphas.rsqrt(), t, img.shape) * (
            img - extract(betas, t, img.shape) * m(img, t) / extract((1 - ac).sqrt(), t, img.shape)
        )
        img = (
            mean if i == 0 else mean + torch.sqrt(extract(pv, t, img.shape)) * torch.randn_like(img)
        )
    return img


print("%.3f" % sample().std().item())


class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s, self.t = (
            nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2), *a)
            for a in ((nn.Tanh(),), ())
        )

    def f(self, x):
        xm = self.mask * x
        s, t = self.s(xm) * (1 - self.mask), self.t(xm) * (1 - self.mask)
        return (1 - self.mask) * (x - t) * (-s).exp() + xm, -s.sum(1)


fl = nn.ModuleList(Coupling(torch.tensor(v).float()) for v in ([0, 1], [1, 0], [0, 1]))
prior = D.MultivariateNormal(torch.zeros(2), torch.eye(2))
opt = torch.optim.Adam([p for p in fl.parameters() if p.requires_grad], 1e-2)
x = D.MixtureSameFamily(
    D.Categorical(torch.ones(2)),
    D.Independent(D.Normal(torch.tensor([[-2.0, 0], [2, 0]]), torch.ones(2, 2) * 0.4), 1),
).sample((64,))
for _i in range(3):
    z, ld = x, 0
    for layer in fl:
        z, d = layer.f(z)
        ld = ld + d
    loss = -(prior.log_prob(z) + ld).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("%.4f" % loss.item())
td = D.TransformedDistribution(
    prior.expand((3,)), [D.transforms.AffineTransform(1.0, 2.0, event_dim=1), D.TanhTransform()]
)
y = td.rsample()
print(
    y, td.log_prob(y), D.kl_divergence(prior, D.MultivariateNormal(torch.ones(2), 2 * torch.eye(2)))
)
