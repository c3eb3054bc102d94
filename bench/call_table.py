"""The calls on tensors that `bench/calls.py` measures.

Those of layers are in `call_table_nn.py`, of linear algebra and spectra in `call_table_linalg.py`.
"""

import call_table_linalg
import call_table_nn
from call_family import Family, lines

SQUARES = (8, 8), (1000, 1000)

POINTWISE = Family(
    "pointwise",
    "x = randn(*s); y = rand(*s) + 0.5; z = randn(*s); b = x > 0; c = y[:1]; d = y[:, :1]",
    SQUARES,
    lines("""
        x.abs()
        -x
        x.exp()
        y.log()
        y.log1p()
        x.expm1()
        y.sqrt()
        y.rsqrt()
        y.reciprocal()
        x.sin()
        x.cos()
        x.tan()
        x.atan()
        x.tanh()
        x.sigmoid()
        x.erf()
        x.floor()
        x.round()
        x.sign()
        x.clamp(-1, 1)
        x ** 2
        y ** 1.5
        y.lgamma()
        y.digamma()
        torch.relu(x)
        F.leaky_relu(x)
        F.gelu(x)
        F.gelu(x, approximate='tanh')
        F.silu(x)
        F.mish(x)
        F.elu(x)
        F.softplus(x)
        F.hardswish(x)
        x + y
        x - y
        x * y
        x / y
        x + 1
        2 * x
        x + c
        x * d
        x.t() + y
        y ** z
        torch.maximum(x, y)
        torch.atan2(x, y)
        torch.fmod(x, y)
        torch.remainder(x, y)
        x // y
        torch.hypot(x, y)
        torch.logaddexp(x, y)
        x.mul_(1.0)
        torch.add(x, y, alpha=2)
        torch.add(x, y, out=z)
        torch.where(b, x, y)
        torch.addcmul(x, y, y)
        torch.addcdiv(x, z, y)
        torch.lerp(x, y, 0.3)
        x.nan_to_num()
        torch.isfinite(x)
    """),
    lines("""
        x.exp()
        x.tanh()
        x.sigmoid()
        torch.relu(x)
        F.gelu(x)
        F.silu(x)
        F.softplus(x)
        x * y
        x / y
        x + c
        x * d
        x ** 2
        torch.where(b, x, y)
        torch.maximum(x, y)
    """),
)

COMPARISONS = Family(
    "comparison",
    "x = randn(*s); y = randn(*s); a = x > 0; b = y > 0; i = (x * 10).long(); w = x.clone()",
    SQUARES,
    lines("""
        x < y
        x == y
        x >= 0
        i == 3
        a & b
        ~a
        torch.logical_or(a, b)
        torch.isclose(x, y)
        torch.allclose(x, w)
        torch.equal(x, w)
    """),
)

COPIES = Family(
    "copy",
    "x = randn(*s); y = randn(*s); i = (x * 10).long(); h = x.half(); b = x.bfloat16()\n"
    "k = x > 0; m = randn(4, 3, s[0] // 4, s[1] // 4); l = m.to(memory_format=torch.channels_last)",
    SQUARES,
    lines("""
        x.clone()
        x.double()
        x.half()
        x.bfloat16()
        x.long()
        x.int()
        x.bool()
        x.to(torch.uint8)
        x.to(torch.complex64)
        i.float()
        h.float()
        b.float()
        k.float()
        x.t().contiguous()
        x[:, ::2].clone()
        x[::2].clone()
        y.copy_(x)
        y.copy_(x.t())
        y.zero_()
        m.to(memory_format=torch.channels_last)
        l.contiguous()
        m.permute(2, 0, 3, 1).contiguous()
        x.t().reshape(-1)
        x.tolist()
        x.numpy()
    """),
)

REDUCTIONS = Family(
    "reduction",
    "x = randn(*s); y = rand(*s) + 0.5; b = x > 9; i = (x * 10).long(); r = randn(s[0], 4, s[1])",
    SQUARES,
    lines("""
        x.sum()
        x.sum(0)
        x.sum(1)
        x.t().sum(0)
        r.sum(1)
        r.sum((0, 2))
        i.sum()
        i.sum(0)
        b.sum()
        x.mean()
        x.mean(1)
        x.var()
        x.var(0)
        x.std(1)
        torch.var_mean(x, 1)
        x.max()
        x.max(0)
        x.max(1)
        x.amax(0)
        x.amin(1)
        x.aminmax()
        x.argmax()
        x.argmax(0)
        x.argmin(1)
        b.any()
        b.any(1)
        b.all(0)
        y.prod()
        y.prod(1)
        x.logsumexp(0)
        x.logsumexp(1)
        x.median()
        x.median(1)
        x.nanmedian()
        x.quantile(torch.tensor(0.3), 1)
        x.norm()
        x.norm(dim=1)
        x.norm(1, 0)
        torch.linalg.vector_norm(x, 3, dim=1)
        x.nansum()
        x.count_nonzero()
        x.cumsum(0)
        x.cumsum(1)
        y.cumprod(1)
        x.cummax(1)
        x.logcumsumexp(1)
        x.diff()
        torch.trapezoid(x)
        torch.dist(x, y)
        torch.cdist(x, y)
    """),
    lines("""
        x.sum()
        x.sum(1)
        x.mean(0)
        x.var(1)
        x.amax(1)
        x.max(1)[0]
        x.logsumexp(1)
        x.norm()
        y.prod(1)
        x.cumsum(1)
    """),
)

ORDER = Family(
    "order",
    "x = randn(*s); f = x.reshape(-1); v = f.sort()[0]; i = (f * 100).long()\n"
    "n = i - i.min(); q = randn(*s)",
    ((8, 8), (300, 1000)),
    lines("""
        x.sort()[0]
        x.sort(0)[0]
        f.sort()[0]
        f.argsort(descending=True, stable=True)
        i.sort(stable=True)
        x.topk(4)
        f.topk(4)
        x.kthvalue(3)
        f.unique()
        i.unique()
        i.unique(return_inverse=True, return_counts=True)
        i.unique_consecutive()
        torch.searchsorted(v, q)
        torch.bucketize(q, v[:64])
        n.bincount()
        f.histc(50)
        torch.isin(i, i[:20])
        torch.msort(x)
    """),
    lines("""
        x.sort()[0]
        x.topk(4)[0]
    """),
)

INDEXING = Family(
    "index",
    "x = randn(*s); y = randn(*s); b = x > 0; i = torch.randint(s[0], (s[0],))\n"
    "g = torch.randint(s[0], s); f = torch.randint(s[0] * s[1], (s[0],)); z = torch.zeros(*s)\n"
    "w = randn(*s); r = torch.randperm(s[0])",
    SQUARES,
    lines("""
        x[3]
        x[:, 2:5]
        x[..., None]
        x[i]
        x[:, i]
        x[i, i]
        x[b]
        x.index_select(0, i)
        x.index_select(1, i)
        x.gather(0, g)
        x.gather(1, g)
        x.take(f)
        torch.take_along_dim(x, g, 1)
        z.scatter(1, g, 1.0)
        z.scatter_add(0, g, x)
        z.scatter_add(1, g, x)
        z.scatter_reduce(1, g, x, 'amax')
        z.index_add(0, i, x)
        z.index_copy(0, r, x)
        z.index_fill(0, i, 2.0)
        z.index_put((i,), x, accumulate=True)
        x.masked_select(b)
        x.masked_fill(b, 0.0)
        w.masked_scatter(b, y)
        w.__setitem__(b, 1.0) or w
        w.__setitem__(3, 1.0) or w
        w.__setitem__((slice(None), 1), 2.0) or w
        w.__setitem__(r, x) or w
        b.nonzero()
        x.tril()
        x.triu(1)
        x.diagonal()
        torch.diag(x[0])
        x[0, 0].item()
    """),
    lines("""
        x[i]
        x[:, 2:5]
        x.index_select(0, i)
        x.gather(1, g)
        z.scatter_add(1, g, x)
        z.index_add(0, i, x)
        x.masked_fill(b, 0.0)
        x[b]
    """),
)

SHAPES = Family(
    "shape",
    "x = randn(*s); y = randn(*s); m = randn(2, 3, s[0] // 2, s[1] // 4)\n"
    "i = torch.randint(10, (s[0],)); n = s[0]; v = randn(s[0]); c = randn(2, 12, n // 4, n // 4)",
    SQUARES,
    lines("""
        torch.cat([x, y])
        torch.cat([x, y], 1)
        torch.stack([x, y])
        torch.stack([x, y], -1)
        torch.cat([x[:, :3], y[:, 3:5]], 1)
        F.pad(x, (1, 2))
        F.pad(x, (1, 2, 3, 4))
        F.pad(m, (1, 1, 1, 1), 'reflect')
        F.pad(m, (2, 2, 2, 2), 'replicate')
        F.pad(m, (1, 1, 1, 1), 'circular')
        x.roll(3, 1)
        x.roll((1, 2), (0, 1))
        x.flip(0)
        x.flip(1)
        x.rot90()
        x.repeat(2, 2)
        x.tile(2)
        x.repeat_interleave(2, 0)
        x.repeat_interleave(2, 1)
        x.chunk(4)
        x.split(2, 1)[1]
        x.unbind()[1]
        x[:1].expand(n, -1).contiguous()
        torch.meshgrid(v, v, indexing='ij')[1].contiguous()
        torch.cartesian_prod(v[:50], v[:50])
        F.one_hot(i, 10)
        torch.arange(n)
        torch.zeros(n, n)
        torch.ones(n, n)
        torch.full((n, n), 2.5)
        torch.eye(n)
        torch.linspace(0, 1, n)
        torch.empty(n, n).shape
        torch.zeros_like(x)
        torch.tensor([1.0, 2.0, 3.0])
        x.view(-1)
        x.transpose(0, 1)
        x.unsqueeze(0)
        x.unfold(1, 4, 2)
        x.movedim(0, 1)
        torch.kron(x[:30, :30], y[:30, :30])
        torch.block_diag(x, y)
        torch.combinations(v[:40])
        torch.outer(v, v)
        F.pixel_shuffle(c, 2)
    """),
    lines("""
        torch.cat([x, y], 1)
        torch.stack([x, y])
        F.pad(x, (1, 2))
        x.roll(3, 1)
        x.repeat(2, 2)
    """),
)

PRODUCTS = Family(
    "product",
    "n = s[0]; a = randn(n, n); b = randn(n, n); v = randn(n); u = randn(n); t = randn(4 * n, 8)\n"
    "w = randn(8, 4 * n); p = randn(8, n, n // 2); q = randn(8, n // 2, n); l = randn(n)\n"
    "e = randn(4, n // 4, n // 4, 4); x3 = randn(4, n // 4, n)",
    ((16,), (256,)),
    lines("""
        a @ b
        a.t() @ b
        a @ b.t()
        a.t() @ b.t()
        a @ v
        a.t() @ v
        v @ a
        v @ u
        t @ w
        w @ t
        t @ b[:8]
        a[:1] @ b
        a[:5] @ b
        p @ q
        p.mT @ q.mT
        torch.bmm(p, q)
        p @ a[: n // 2]
        torch.addmm(a, a, b)
        torch.addmm(v, a, b, beta=0.5)
        torch.addmv(v, a, u)
        torch.addr(a, v, u)
        torch.baddbmm(p @ q, p, q)
        F.linear(a, b, v)
        F.linear(x3, b, v)
        F.bilinear(a[:8, :8], b[:8, :8], randn(4, 8, 8))
        torch.einsum('ij,jk->ik', a, b)
        torch.einsum('bij,bjk->bik', p, q)
        torch.einsum('bijh,bjkh->bikh', e, e)
        torch.einsum('ij,ij->i', a, b)
        torch.tensordot(a, b, 1)
        torch.linalg.multi_dot([a, b, a])
        torch.matrix_power(a * 0.1, 5)
        torch.chain_matmul(a, b)
    """),
    lines("""
        a @ b
        a @ v
        p @ q
        t @ w
        torch.addmm(a, a, b)
        F.linear(a, b, v)
        F.linear(x3, b, v)
        torch.einsum('bij,bjk->bik', p, q)
    """),
)

DRAWS = Family(
    "random",
    "x = randn(*s); p = rand(*s); n = s[0]; y = torch.empty(*s); r = randn(2, s[0], 8, 8)",
    SQUARES,
    lines("""
        F.dropout(x)
        F.dropout2d(r)
        torch.rand(n, n)
        torch.randn(n, n)
        torch.randint(100, (n, n))
        torch.randperm(n)
        torch.bernoulli(p)
        torch.multinomial(p[0], 5)
        torch.multinomial(p[0], 500, replacement=True)
        torch.normal(x, p)
        y.uniform_(-1, 1)
        y.normal_()
        y.exponential_()
        torch.poisson(p)
        torch.rand_like(x)
        nn.init.xavier_uniform_(y)
        nn.init.kaiming_normal_(y)
    """),
    lines("F.dropout(x)"),
)


def of_dtype(name, given, more=""):
    """The main calls on operands of another dtype."""
    return Family(
        name,
        given + "\ne = randn(2, 8, 16, 16).to(x.dtype); k = randn(8, 8, 3, 3).to(x.dtype)",
        ((16,), (256,)),
        lines("""
            x + y
            x * y
            x + 1
            x.abs()
            x.sum()
            x.sum(0)
            x @ y
            x.t().contiguous()
            torch.cat([x, y], 1)
            x[2:5]
            x == y
        """)
        + lines(more),
    )


NARROW = """
    x.mean(1)
    F.linear(x, y, v)
    p @ q
    x @ v
    x.exp()
    x.tanh()
    x.sigmoid()
    torch.relu(x)
    F.gelu(x)
    F.softmax(x, 1)
    F.layer_norm(x, x.shape[1:])
    x.max(1)
    torch.where(x > 0, x, y)
    x / y
    x.float()
    F.conv2d(e, k, padding=1)
    F.scaled_dot_product_attention(p, p, p)
    x.mul_(1.0)
    torch.addcmul(x, y, y)
    x + v
    x.cumsum(1)
"""

DTYPES = (
    of_dtype(
        "bfloat16",
        "n = s[0]; x = randn(n, n).bfloat16(); y = (rand(n, n) + 0.5).bfloat16()\n"
        "v = randn(n).bfloat16(); p = randn(4, n, n // 4).bfloat16(); q = p.mT.contiguous()",
        NARROW,
    ),
    of_dtype(
        "float16",
        "n = s[0]; x = randn(n, n).half(); y = (rand(n, n) + 0.5).half()\n"
        "v = randn(n).half(); p = randn(4, n, n // 4).half(); q = p.mT.contiguous()",
        NARROW,
    ),
    of_dtype(
        "float64",
        "n = s[0]; x = randn(n, n).double(); y = (rand(n, n) + 0.5).double()\n"
        "v = randn(n).double(); p = randn(4, n, n // 4).double(); q = p.mT.contiguous()",
        NARROW,
    ),
    of_dtype(
        "int64",
        "n = s[0]; x = torch.randint(-9, 9, (n, n)); y = torch.randint(1, 9, (n, n))",
        """
            x // y
            x % y
            x.max(1)
            x.cumsum(1)
            x << 2
            x & y
            torch.gcd(x, y)
            x.float()
            x.sort(stable=True)
        """,
    ),
    of_dtype(
        "complex64",
        "n = s[0]; x = torch.complex(randn(n, n), randn(n, n))\n"
        "y = torch.complex(randn(n, n), rand(n, n))",
        """
            x.mean(1)
            x.conj() * y
            x / y
            x.exp()
            x.angle()
            x.real + y.imag
            torch.view_as_real(x)
            torch.polar(x.abs(), x.angle())
        """,
    ),
)

FAMILIES = (
    POINTWISE, COMPARISONS, COPIES, REDUCTIONS, ORDER, INDEXING, SHAPES, PRODUCTS, DRAWS,
    *DTYPES, *call_table_nn.FAMILIES, *call_table_linalg.FAMILIES,
)  # fmt: skip
