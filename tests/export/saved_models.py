"""Programs as people write them, for test_saving.py: attention, caches, experts, beam search, and
what Python has for numbers, texts, containers, classes and exceptions."""

import dataclasses
import math
from typing import NamedTuple

import weft as torch
import weft.nn.functional as F
from weft import Tensor, nn

torch.manual_seed(0)
CASES = []


def case(*args_list):
    def deco(f):
        CASES.append((f, args_list))
        return f

    return deco


class CausalAttn(nn.Module):
    def __init__(s, d=8, h=2, n=16):
        super().__init__()
        s.qkv = nn.Linear(d, 3 * d)
        s.o = nn.Linear(d, d)
        s.h = h
        s.register_buffer("mask", torch.tril(torch.ones(n, n)).view(1, 1, n, n))

    def forward(s, x):
        B, T, C = x.size()
        q, k, v = s.qkv(x).split(C, dim=2)
        k = k.view(B, T, s.h, C // s.h).transpose(1, 2)
        q = q.view(B, T, s.h, C // s.h).transpose(1, 2)
        v = v.view(B, T, s.h, C // s.h).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(s.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = att @ v
        return s.o(y.transpose(1, 2).contiguous().view(B, T, C))


class GPT(nn.Module):
    def __init__(s, V=11, d=8, L=2):
        super().__init__()
        s.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(V, d),
                wpe=nn.Embedding(16, d),
                drop=nn.Dropout(0.0),
                h=nn.ModuleList([CausalAttn() for _ in range(L)]),
                ln_f=nn.LayerNorm(d),
            )
        )
        s.lm_head = nn.Linear(d, V, bias=False)

    def forward(s, idx, targets=None):
        b, t = idx.size()
        assert t <= 16, f"Cannot forward sequence of length {t}"
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = s.transformer.drop(s.transformer.wte(idx) + s.transformer.wpe(pos))
        for block in s.transformer.h:
            x = x + block(x)
        x = s.transformer.ln_f(x)
        if targets is not None:
            logits = s.lm_head(x)
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        else:
            logits = s.lm_head(x[:, [-1], :])
            loss = None
        return logits, loss

    @torch.no_grad()
    def generate(s, idx, n: int, temperature: float = 1.0, top_k=None):
        for _ in range(n):
            cond = idx if idx.size(1) <= 16 else idx[:, -16:]
            logits, _ = s(cond)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            probs = F.softmax(logits, dim=-1)
            nxt = torch.multinomial(probs, num_samples=1)
            idx = torch.cat((idx, nxt), dim=1)
        return idx


g = GPT().eval()
TEXT = torch.tensor([[1, 2, 3], [4, 5, 6]])
CASES.append((g, [(TEXT,), (TEXT, TEXT), (torch.zeros(1, 17, dtype=torch.long),)]))
CASES.append((g.generate, [(TEXT, 4), (TEXT, 3, 0.7, 2)]))


class RNNEnc(nn.Module):
    def __init__(s):
        super().__init__()
        s.cell = nn.GRUCell(3, 4)
        s.out = nn.Linear(4, 2)

    def forward(s, xs, h=None):
        outs = []
        if h is None:
            h = xs[0].new_zeros(xs[0].shape[0], 4)
        for t, x in enumerate(xs):
            h = s.cell(x, h)
            if t % 2:
                outs.append(s.out(h))
        return (torch.stack(outs) if len(outs) > 0 else None), h


CASES.append(
    (RNNEnc(), [([torch.randn(2, 3)] * 3,), ([torch.randn(2, 3)],), (torch.randn(4, 2, 3),)])
)


class ResBlock(nn.Module):
    expansion = 1

    def __init__(s, i, o, stride=1):
        super().__init__()
        s.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        s.bn1 = nn.BatchNorm2d(o)
        s.relu = nn.ReLU(inplace=True)
        s.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        s.bn2 = nn.BatchNorm2d(o)
        s.downsample = (
            None
            if stride == 1 and i == o
            else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
        )

    def forward(s, x):
        identity = x
        out = s.relu(s.bn1(s.conv1(x)))
        out = s.bn2(s.conv2(out))
        if s.downsample is not None:
            identity = s.downsample(x)
        out += identity
        return s.relu(out)


class ResNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.layer = nn.Sequential(ResBlock(3, 4), ResBlock(4, 8, 2))
        s.pool = nn.AdaptiveAvgPool2d((1, 1))
        s.fc = nn.Linear(8, 3)

    def _forward_impl(s, x):
        x = s.pool(s.layer(x))
        x = torch.flatten(x, 1)
        return s.fc(x)

    def forward(s, x):
        return s._forward_impl(x)


CASES.append((ResNet().eval(), [(torch.randn(2, 3, 8, 8),), (torch.randn(1, 3, 4, 4),)]))


class MoE(nn.Module):
    def __init__(s):
        super().__init__()
        s.gate = nn.Linear(4, 3)
        s.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3))

    def forward(s, x):
        w, i = s.gate(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for e in range(len(s.experts)):
            for k in range(2):
                m = i[:, k] == e
                if m.any():
                    out[m] += w[m, k, None] * s.experts[e](x[m])
        return out


CASES.append((MoE(), [(torch.randn(5, 4),), (torch.randn(1, 4),)]))


class Beam(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(6, 4)
        s.c = nn.LSTMCell(4, 4)
        s.o = nn.Linear(4, 6)

    def forward(s, start: int, width: int = 2, steps: int = 3):
        beams = [(0.0, [start], (torch.zeros(1, 4), torch.zeros(1, 4)))]
        done = []
        for _ in range(steps):
            new = []
            for score, toks, (h, c) in beams:
                if toks[-1] == 0:
                    done.append((score, toks))
                    continue
                h2, c2 = s.c(s.e(torch.tensor([toks[-1]])), (h, c))
                lp = F.log_softmax(s.o(h2), dim=-1)[0]
                v, ix = lp.topk(width)
                for j in range(width):
                    new.append((score + v[j].item(), toks + [int(ix[j])], (h2, c2)))
            if not new:
                break
            new.sort(key=lambda b: b[0], reverse=True)
            beams = new[:width]
        return [(round(b[0], 4), b[1]) for b in beams], len(done)


CASES.append((Beam(), [(1,), (2, 3, 4)]))


class VAE(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Linear(4, 4)
        s.d = nn.Linear(2, 4)

    def forward(s, x):
        mu, lv = s.e(x).chunk(2, dim=1)
        std = torch.exp(0.5 * lv)
        eps = torch.randn_like(std)
        z = mu + eps * std
        r = torch.sigmoid(s.d(z))
        kl = -0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
        return r, kl, F.binary_cross_entropy(r, torch.sigmoid(x), reduction="sum")


CASES.append((VAE(), [(torch.randn(3, 4),)]))


@case((torch.randn(4, 4),), (torch.randn(3, 5),))
def matrix_stuff(x):
    u = x @ x.T + torch.eye(x.size(0))
    i, j = torch.where(x > 0)
    y = x @ x.T
    z = x.clone()
    z[x < 0] = 0
    z[..., 0] = 1
    return (
        u,
        i,
        j,
        y,
        z,
        x.sort(descending=True)[0],
        x.argmax(),
        torch.linalg.norm(x),
        x.std(),
        x.var(dim=0, keepdim=True),
        x.cumsum(0),
        x.flip(0),
        torch.where(x > 0, x, -x),
    )


@case(([3, 1, 2], {"a": 1}), ([], {}))
def containers(xs, d):
    ys = sorted(xs)
    s = sum(xs)
    m = max(xs) if xs else -1
    c = {}
    for x in xs:
        c[x] = c.get(x, 0) + 1
    pairs = [(k, v) for k, v in c.items() if v > 0]
    d2 = {**d, "b": 2}
    st = "/".join([str(x) for x in xs])
    a, *b = xs + [1, 2]
    return (
        ys,
        s,
        m,
        pairs,
        d2,
        st,
        a,
        b,
        list(zip(xs, ys)),
        list(enumerate(xs)),
        [*reversed(xs)],
        all(x > 0 for x in xs),
        len(st),
        not xs,
        xs == ys,
        xs[:2],
        tuple(xs),
    )


@case((10,), (1,), (0,))
def ints(n):
    a, b = 0, 1
    out = []
    while a < n:
        out.append(a)
        a, b = b, a + b
    return (
        out,
        n // 3,
        n % 3,
        -n // 3,
        -n % 3,
        n**2,
        n / 4,
        divmod(n, 3),
        n << 2,
        n & 3,
        n | 4,
        n ^ 5,
        ~n,
        abs(-n),
        round(n / 3, 2),
        float(n),
        str(n),
        bool(n),
        2**-1,
        7.5 // 2,
        7.5 % 2,
        int(7.9),
        int(-7.9),
        round(2.5),
        round(3.5),
        min(n, 3),
        max(n, 3, 5),
    )


@case((torch.randn(3),))
def closures(x):
    k = 2

    def f(y, z=3):
        return y * k + z

    def g(h, *a):
        return h(*a)

    fs = [lambda t: t + 1, lambda t: t * 2]
    return f(x), g(f, x), g(f, x, 4), [h(x) for h in fs]


@case((torch.randn(2, 3), "relu"), (torch.randn(2, 3), "tanh"), (torch.randn(2, 3), "none"))
def dispatch(x, name):
    acts = {"relu": F.relu, "tanh": torch.tanh}
    if name not in acts:
        raise KeyError(name)
    return acts[name](x)


@case((torch.tensor([3.0, -1.0]),), (torch.tensor([0.5, 0.2]),))
def early(x):
    for i in range(5):
        if x.max() > 2**i:
            x = x / 2
        elif x.min() < -1:
            return x, "neg", i
        else:
            break
    else:
        return x, "never", -1
    return x, "done", i


class Base(nn.Module):
    factor = 2

    def __init__(s):
        super().__init__()
        s.lin = nn.Linear(3, 3)

    def forward(s, x):
        return s.lin(x) * s.factor


class Derived(Base):
    def __init__(s):
        super().__init__()
        s.ps = nn.ParameterList([nn.Parameter(torch.randn(3)) for _ in range(2)])
        s.pd = nn.ParameterDict({"a": nn.Parameter(torch.ones(3))})
        s.register_buffer("maybe", None)
        s.act = F.gelu
        s.cfg = {"n": 2, "names": ["a", "b"]}

    @property
    def double(s):
        return s.factor * 2

    @staticmethod
    def st(x):
        return x + 1

    @classmethod
    def cl(cls, x):
        return x * cls.factor

    def forward(s, x, *, flag: bool = False):
        y = super().forward(x)
        for p in s.ps:
            y = y + p
        for _, v in s.pd.items():
            y = y * v
        if s.maybe is None:
            y = s.act(y)
        if hasattr(s, "nothing"):
            y = y * 100
        for i, n in enumerate(s.cfg["names"]):
            if n == "b":
                y = y + i * s.cfg["n"]
        return s.st(s.cl(y)) * s.double if flag else y


CASES.append((Derived(), [(torch.randn(2, 3),)]))


class Cache(nn.Module):
    def __init__(s):
        super().__init__()
        s.k = nn.Linear(2, 2)
        s.cache = None
        s.hist = []

    def forward(s, x):
        k = s.k(x)
        if s.cache is None:
            s.cache = k
        else:
            s.cache = torch.cat([s.cache, k], dim=0)
        return s.cache.sum(), s.cache.shape[0]


CASES.append((Cache(), [(torch.ones(1, 2),), (torch.ones(1, 2),), (torch.ones(2, 2),)]))


class Cfg:
    def __init__(s, n, p):
        s.n = n
        s.p = p


class WithCfg(nn.Module):
    def __init__(s):
        super().__init__()
        s.cfg = Cfg(3, 0.1)
        s.blocks = nn.ModuleDict({"enc": nn.Linear(2, 2), "dec": nn.Linear(2, 2)})

    def forward(s, x, which="enc"):
        if s.cfg.n > 2:
            x = x * s.cfg.p
        x = s.blocks["enc"](x)
        if "dec" in s.blocks:
            x = s.blocks["dec"](x)
        for name, b in s.blocks.items():
            x = b(x) if name == which else x
        return x, [n for n, _ in s.blocks.named_children()]


CASES.append(
    (WithCfg(), [(torch.randn(1, 2),), (torch.randn(1, 2), "dec"), (torch.randn(1, 2), "q")])
)


@dataclasses.dataclass
class Out:
    logits: Tensor
    loss: Tensor | None = None
    extra: list = dataclasses.field(default_factory=list)


class WithOut(nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.Linear(2, 3)

    def forward(s, x, y: Tensor | None = None) -> Out:
        o = Out(logits=s.l(x))
        if y is not None:
            o.loss = F.cross_entropy(o.logits, y)
        o.extra.append(x.shape[0])
        return o.logits, o.loss, o.extra


CASES.append((WithOut(), [(torch.randn(2, 2),), (torch.randn(2, 2), torch.tensor([0, 2]))]))
PI = math.pi


@case((torch.randn(2, 5),), (torch.zeros(0, 5),))
def shapes(x):
    B, L = x.shape
    *lead, last = x.shape
    y = x.reshape(*x.shape[:-1], last, 1).squeeze(-1)
    z = x.unfold(1, 2, 1) if L > 2 else x
    a = x[::2]
    b = x[:, 1::2]
    c = x[..., -1]
    d = x[:, None, :]
    e = x.flip(-1)[..., :3]
    f = torch.full((B, 2), float("inf"))
    g = torch.arange(B * L).view(B, L) % 3
    h = x.new_tensor([1.0, 2.0])
    k = torch.tensor([[1, 2], [3, 4]], dtype=torch.float64)
    n = x.numel() if 0 < B <= 3 else -1
    return (
        y,
        z,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        k,
        n,
        lead,
        tuple(x.size()),
        x.dim(),
        x.shape == torch.Size([2, 5]),
        PI * x,
        x.dtype == torch.float32,
        x.T,
        x.mT,
    )


@case((torch.tensor([3.0, 1.0, 2.0]), 3), (torch.tensor([5.0]), 1))
def numbers(x, n):
    i = int(x.argmax())
    v = x[i].item()
    s = float(x.sum())
    xs = x.tolist()
    if (m := len(xs)) > 2:
        v = v * m
    t = 0
    while True:
        t += 1
        if t >= n:
            break
    r = [t if t % 2 else -t for t in range(n)]
    q = {k: v * 2 for k, v in zip("abc", xs)}
    w = sum([a * b for a, b in zip(xs, r)])
    return (
        i,
        v,
        s,
        xs,
        t,
        r,
        q,
        w,
        max(xs),
        min(r),
        sorted(xs, reverse=True),
        round(s, 1),
        f"{s:.2f} {i:>3d} {xs!r}",
        abs(-s),
        s // 2,
        s % 2,
        -7 // 2,
        -7 % 3,
        2**n,
        bool(n),
        str(n) + "x",
        [*xs, *r],
        n in r,
        xs.index(max(xs)),
        xs.count(1.0),
        (n,) * 2,
        [0] * n,
        xs + r,
        not xs,
        None,
        ... is None,
    )


@case((torch.randn(2, 3),))
def inplace(x):
    y = x.clone()
    y.add_(1).mul_(2)
    y[0] = 0
    y[:, 1] += 5
    y[y > 3] = 3
    z = torch.zeros_like(x)
    z.copy_(y)
    z.clamp_(min=0)
    w = torch.empty(2, 3).fill_(7)
    w.index_fill_(1, torch.tensor([0]), -1)
    v = torch.zeros(2, 3).scatter_(1, torch.tensor([[0], [2]]), 1.0)
    u = x.clone()
    u.zero_()
    u.masked_fill_(x > 0, 1)
    return y, z, w, v, u, x


@case((torch.randn(4), 2), (torch.randn(4), 7))
def errors(x, n):
    try:
        if n > 5:
            raise ValueError(f"bad {n}")
        y = x.view(n, n)
    except ValueError as e:
        return "value", str(e), e.args
    except (RuntimeError, TypeError):
        y = x
    else:
        y = y + 1
    finally:
        x = x * 0
    try:
        {}["k"]
    except KeyError as e:
        k = repr(e)
    try:
        [1][n]
    except IndexError as e:
        k += str(e)
    try:
        int("z")
    except ValueError as e:
        k += type(e).__name__
    return y, k, x


@case(
    (torch.tensor([2.0, 0.0, -1.0]),),
)
def nested(x):
    def outer(a):
        b = a + 1

        def inner(c):
            return b * c

        return inner(a)

    def rec(n):
        return 1 if n <= 0 else n + rec(n - 1)

    def vararg(*a, k=2, **kw):
        return len(a) + k + sum(kw.values())

    return (
        outer(x),
        rec(5),
        vararg(1, 2, z=4),
        (lambda *a: a)(1, 2),
        [f(3) for f in (abs, float, str)],
    )


@case(([(1, "a"), (2, "b")],))
def strings(ps):
    s = ",".join(f"{n}={c}" for n, c in ps)
    parts = s.split(",")
    return (
        s,
        parts,
        s.upper(),
        s.replace("a", "x"),
        s.startswith("1"),
        s.find("b"),
        len(s),
        s[::-1],
        "b" in s,
        s * 2,
        [c for c in s if c.isdigit()],
        "%d-%s" % (3, "q"),
        f"{1}:{2}",
        s.strip("1"),
        sorted(parts, key=len),
        "x" < "y",
        ord("a") if True else 0,
    )


class P(NamedTuple):
    a: Tensor
    b: int = 3


@case((P(torch.ones(2)),), (P(torch.ones(2), 5),))
def nt(p: P):
    a, b = p
    q = p._replace(b=b + 1)
    return (
        p.a + b,
        q.b,
        p[0],
        len(p),
        isinstance(p, P),
        isinstance(p, tuple),
        q,
        P(a),
        [x for x in p][1],
    )


@case(
    (torch.randn(3, 4), torch.tensor([3, 2, 1])),
)
def packed(x, lens):
    mask = torch.arange(x.size(1))[None, :] < lens[:, None]
    s = (x * mask).sum(1) / lens
    idx = mask.nonzero()
    rows = [x[i, : int(n)] for i, n in enumerate(lens)]
    p = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return (
        s,
        idx,
        rows,
        p,
        x.gather(1, (lens - 1).unsqueeze(1)),
        torch.stack([r.mean() for r in rows]),
        mask.any(1).all(),
        torch.cat(rows).shape,
        lens.max().item(),
        [int(v) for v in lens],
        x.masked_select(mask),
    )


@case(
    (torch.randn(2, 6, 4),),
)
def conv_stuff(x):
    c = F.conv1d(x, torch.ones(3, 6, 2))
    p = F.max_pool1d(x, 2)
    i = F.interpolate(x, scale_factor=2.0)
    pd = F.pad(x, (1, 1))
    o = F.one_hot(torch.tensor([0, 2]), 3)
    n = F.normalize(x, dim=1)
    d = F.dropout(x, 0.5, training=False)
    ln = F.layer_norm(x, (4,))
    g = F.glu(x, 1)
    e = F.embedding(torch.tensor([1]), x[0])
    s = F.scaled_dot_product_attention(x, x, x)
    m = F.mse_loss(x, x * 2)
    cs = F.cosine_similarity(x, x + 1, dim=-1)
    return c, p, i, pd, o, n, d, ln, g, e, s, m, cs


@case(
    (torch.randn(3),),
)
def rands(x):
    return (
        torch.rand(2),
        torch.randn_like(x),
        torch.randint(0, 5, (3,)),
        torch.randperm(4),
        torch.bernoulli(torch.full((3,), 0.5)),
        torch.normal(0.0, 1.0, (2,)),
        x.uniform_(),
        torch.multinomial(torch.ones(3), 2),
    )


@case(
    (torch.randn(4, 4, dtype=torch.float64),),
)
def dtypes(x):
    return (
        x.float(),
        x.to(torch.int32),
        x.half().dtype == torch.float16,
        x.bool(),
        x.long() % 3,
        x.to(torch.bfloat16).float(),
        torch.complex(x, x).abs(),
        x.to(dtype=torch.float32),
        x.type(torch.float32),
        (x > 0).int(),
        torch.promote_types(x.dtype, torch.float32) == x.dtype,
        x.is_floating_point(),
        torch.finfo(torch.float32).eps if False else 0,
    )
