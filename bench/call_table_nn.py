"""The calls of layers, losses, sequences, optimizers and whole programs, for `call_table.py`."""

from call_family import Family, lines

CONVOLUTIONS = Family(
    "conv",
    "n, c, k = s; l = randn(n, c, k * k); x = randn(n, c, k, k)\n"
    "v = randn(1, c, k // 2, k // 2, 8); w1 = randn(c, c, 3); w5 = randn(c, c, 5)\n"
    "w = randn(2 * c, c, 3, 3); p = randn(2 * c, c, 1, 1)\n"
    "d = randn(c, 1, 3, 3); d1 = randn(c, 1, 5); g = randn(c, c // 4, 3, 3); b = randn(2 * c)\n"
    "w3 = randn(c, c, 3, 3, 3); t = randn(c, c // 2, 3, 3); t4 = randn(c, c, 4, 4)\n"
    "t1 = randn(c, c, 4); t3 = randn(c, 4, 2, 2, 2); w7 = randn(c, c, 7, 7)\n"
    "r = randn(n, 3, k, k); r7 = randn(c, 3, 7, 7); xl = x.to(memory_format=torch.channels_last)",
    ((1, 4, 8), (8, 32, 32)),
    lines("""
        F.conv1d(l, w1)
        F.conv1d(l, w5, padding=2)
        F.conv1d(l, w1, stride=2)
        F.conv1d(l, w1, dilation=4)
        F.conv1d(l, d1, groups=c)
        F.conv2d(x, w, b, padding=1)
        F.conv2d(x, w, b, stride=2, padding=1)
        F.conv2d(x, w, dilation=2)
        F.conv2d(x, w7, padding=3)
        F.conv2d(x, p)
        F.conv2d(x, d, padding=1, groups=c)
        F.conv2d(x, g, padding=1, groups=4)
        F.conv2d(r, r7, stride=2, padding=3)
        F.conv2d(xl, w, b, padding=1)
        F.conv3d(v, w3, padding=1)
        F.conv_transpose1d(l, t1, stride=2, padding=1)
        F.conv_transpose2d(x, t)
        F.conv_transpose2d(x, t4, stride=2, padding=1)
        F.conv_transpose2d(x, d, groups=c, stride=2)
        F.conv_transpose3d(v, t3, stride=2)
    """),
    lines("""
        F.conv1d(l, w1)
        F.conv1d(l, d1, groups=c)
        F.conv2d(x, w, b, padding=1)
        F.conv2d(x, w, b, stride=2, padding=1)
        F.conv2d(x, p)
        F.conv2d(x, d, padding=1, groups=c)
        F.conv2d(x, g, padding=1, groups=4)
        F.conv3d(v, w3, padding=1)
        F.conv_transpose1d(l, t1, stride=2, padding=1)
        F.conv_transpose2d(x, t4, stride=2, padding=1)
    """),
)

SPATIAL = Family(
    "spatial",
    "n, c, k = s; l = randn(n, c, k * k); x = randn(n, c, k, k); v = randn(1, c, k, k, 8)\n"
    "g = rand(n, k, k, 2) * 2 - 1; th = randn(n, 2, 3); u = randn(n, c * 9, k * k)\n"
    "xl = x.to(memory_format=torch.channels_last)",
    ((1, 4, 8), (8, 32, 32)),
    lines("""
        F.max_pool1d(l, 2)
        F.max_pool2d(x, 2)
        F.max_pool2d(x, 3, 2, 1)
        F.max_pool2d(xl, 2)
        F.max_pool2d(x, 2, return_indices=True)
        F.max_pool3d(v, 2)
        F.avg_pool1d(l, 2)
        F.avg_pool2d(x, 2)
        F.avg_pool2d(x, 3, 1, 1)
        F.avg_pool3d(v, 2)
        F.lp_pool2d(x, 2, 2)
        F.adaptive_avg_pool2d(x, 1)
        F.adaptive_avg_pool2d(x, 7)
        F.adaptive_max_pool2d(x, 4)
        F.interpolate(x, scale_factor=2)
        F.interpolate(x, scale_factor=2, mode='bilinear')
        F.interpolate(x, scale_factor=2, mode='bicubic')
        F.interpolate(x, scale_factor=0.5, mode='bilinear', antialias=True)
        F.interpolate(x, scale_factor=0.5, mode='area')
        F.interpolate(l, scale_factor=2, mode='linear')
        F.interpolate(v, scale_factor=2, mode='trilinear')
        F.grid_sample(x, g, align_corners=False)
        F.grid_sample(x, g, mode='nearest', align_corners=False)
        F.grid_sample(x, g, mode='bicubic', align_corners=False)
        F.grid_sample(x, g, padding_mode='border', align_corners=True)
        F.affine_grid(th, x.shape, align_corners=False)
        F.unfold(x, 3, padding=1)
        F.fold(u, (k, k), 3, padding=1)
        F.pixel_unshuffle(x, 2)
    """),
    lines("""
        F.max_pool2d(x, 2)
        F.avg_pool2d(x, 2)
        F.adaptive_avg_pool2d(x, 1)
        F.interpolate(x, scale_factor=2)
        F.interpolate(x, scale_factor=2, mode='bilinear')
        F.grid_sample(x, g, align_corners=False)
        F.unfold(x, 3, padding=1)
        F.fold(u, (k, k), 3, padding=1)
    """),
)

NORMS = Family(
    "norm",
    "n, c, k = s; x = randn(n, c, k, k); w = rand(c); b = randn(c); r = randn(c), rand(c)\n"
    "y = randn(n * k, 4 * c); lw = rand(4 * c); lb = randn(4 * c)",
    ((2, 8, 4), (8, 64, 32)),
    lines("""
        F.batch_norm(x, *r, w, b)
        F.batch_norm(x, *r, w, b, training=True)
        F.layer_norm(y, (4 * c,), lw, lb)
        F.group_norm(x, 4, w, b)
        F.instance_norm(x)
        F.rms_norm(y, (4 * c,), lw)
        F.local_response_norm(x, 3)
        F.normalize(y)
        F.softmax(y, 1)
        F.softmax(y, 0)
        F.softmax(x, 1)
        F.log_softmax(y, 1)
        F.gumbel_softmax(y)
        F.softmin(y, 1)
        F.glu(y)
        F.cosine_similarity(y, y.flip(0))
    """),
    lines("""
        F.batch_norm(x, *r, w, b, training=True)
        F.layer_norm(y, (4 * c,), lw, lb)
        F.group_norm(x, 4, w, b)
        F.instance_norm(x)
        F.rms_norm(y, (4 * c,), lw)
        F.softmax(y, 1)
        F.log_softmax(y, 1)
        F.softmax(x, 1)
        F.glu(y)
    """),
)

LOSSES = Family(
    "loss",
    "n, c = s; x = randn(n, c); y = randn(n, c); t = torch.randint(c, (n,)); p = rand(n, c)\n"
    "q = F.softmax(y, 1); z = randn(n, c); e = (y > 0).float() * 2 - 1; o = torch.ones(n)\n"
    "lp = F.log_softmax(randn(50, n // 8, c), 2); ct = torch.randint(1, c, (n // 8, 20))\n"
    "il = torch.full((n // 8,), 50); tl = torch.full((n // 8,), 20)",
    ((16, 10), (1024, 1000)),
    lines("""
        F.cross_entropy(x, t)
        F.cross_entropy(x, t, label_smoothing=0.1)
        F.cross_entropy(x, q)
        F.nll_loss(x, t)
        F.mse_loss(x, y)
        F.l1_loss(x, y)
        F.smooth_l1_loss(x, y)
        F.huber_loss(x, y)
        F.binary_cross_entropy(p, q)
        F.binary_cross_entropy_with_logits(x, p)
        F.kl_div(x, q, reduction='batchmean')
        F.hinge_embedding_loss(x, e)
        F.margin_ranking_loss(x, y, e)
        F.soft_margin_loss(x, e)
        F.triplet_margin_loss(x, y, z)
        F.cosine_embedding_loss(x, y, o)
        F.multi_margin_loss(x, t)
        F.poisson_nll_loss(x, p)
        F.gaussian_nll_loss(x, y, p + 0.1)
        F.ctc_loss(lp, ct, il, tl)
    """),
    lines("""
        F.cross_entropy(x, t)
        F.mse_loss(x, y)
        F.l1_loss(x, y)
        F.smooth_l1_loss(x, y)
        F.binary_cross_entropy_with_logits(x, p)
        F.kl_div(x, q, reduction='batchmean')
        F.ctc_loss(lp, ct, il, tl)
    """),
)

SEQUENCES = Family(
    "sequence",
    "n, l, d = s; w = randn(1000, d); i = torch.randint(1000, (n, l)); x = randn(n, l, d)\n"
    "q = randn(n, 4, l, d // 4); k = randn(n, 4, l, d // 4); v = randn(n, 4, l, d // 4)\n"
    "b = randn(l, l); h = randn(n, d); c = randn(n, d); m = torch.ones(l, l).tril() > 0\n"
    "rnn = nn.RNN(d, d, batch_first=True); gru = nn.GRU(d, d, batch_first=True)\n"
    "lstm = nn.LSTM(d, d, batch_first=True); bi = nn.LSTM(d, d, 2, bidirectional=True)\n"
    "lc = nn.LSTMCell(d, d); gc = nn.GRUCell(d, d); mha = nn.MultiheadAttention(d, 4)\n"
    "enc = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True)",
    ((2, 8, 16), (8, 128, 128)),
    lines("""
        F.embedding(i, w)
        F.embedding_bag(i, w)
        F.embedding_bag(i, w, mode='max')
        F.scaled_dot_product_attention(q, k, v)
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
        F.scaled_dot_product_attention(q, k, v, attn_mask=b)
        F.scaled_dot_product_attention(q, k, v, attn_mask=m)
        mha(x, x, x)[0]
        mha(x, x, x, need_weights=False)[0]
        enc(x)
        rnn(x)
        gru(x)
        lstm(x)
        bi(x)[0]
        lc(h, (h, c))
        gc(h, c)
    """),
    lines("""
        F.embedding(i, w)
        F.embedding_bag(i, w)
        F.scaled_dot_product_attention(q, k, v)
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mha(x, x, x)[0]
        enc(x)
        rnn(x)[0]
        gru(x)[0]
        lstm(x)[0]
        lc(h, (h, c))[0]
        gc(h, c)
    """),
)

MODEL = (
    "n, c = s; ps = [randn(n, n).requires_grad_() for _ in range(8)]\n"
    "for p in ps: p.grad = randn(n, n)\n"
)

OPTIMIZERS = tuple(
    Family(
        "optimizer",
        f"{MODEL}o = torch.optim.{text}",
        ((8, 1), (256, 1)),
        (f"o.step() or ps[0]  # {text}",),
    )
    for text in lines("""
        SGD(ps, 0.01)
        SGD(ps, 0.01, foreach=True)
        SGD(ps, 0.01, foreach=False)
        SGD(ps, 0.01, momentum=0.9)
        SGD(ps, 0.01, momentum=0.9, nesterov=True, weight_decay=1e-4)
        Adam(ps, 0.01)
        Adam(ps, 0.01, foreach=True)
        Adam(ps, 0.01, foreach=False)
        AdamW(ps, 0.01)
        AdamW(ps, 0.01, amsgrad=True)
        RMSprop(ps, 0.01)
        Adagrad(ps, 0.01)
        NAdam(ps, 0.01)
        Adadelta(ps)
    """)
)

PROGRAMS = Family(
    "program",
    "import io, copy\n"
    "n, c = s; x = randn(n, c); t = torch.randint(10, (n,))\n"
    "model = nn.Sequential(nn.Linear(c, c), nn.ReLU(), nn.Linear(c, c), nn.Linear(c, 10))\n"
    "data = torch.utils.data.TensorDataset(x, t); D = torch.utils.data.DataLoader\n"
    "plain = D(data, batch_size=16); shuffled = D(data, batch_size=16, shuffle=True)\n"
    "sd = {k: v.clone() for k, v in model.state_dict().items()}; f = io.BytesIO()\n"
    "torch.save(sd, f); saved = f.getvalue(); ps = list(model.parameters())\n"
    "for p in ps: p.grad = torch.ones_like(p)\n"
    "opt = torch.optim.Adam(ps); vec = nn.utils.parameters_to_vector(ps).detach()",
    ((64, 16), (512, 256)),
    lines("""
        [b for b in plain][-1]
        [b for b in shuffled][-1]
        torch.save(x, io.BytesIO())
        torch.save(sd, io.BytesIO())
        torch.load(io.BytesIO(saved))
        list(model.state_dict().values())
        model.load_state_dict(sd) and ps[0]
        copy.deepcopy(model)(x)
        nn.utils.clip_grad_norm_(ps, 1e9)
        opt.zero_grad(set_to_none=False) or ps[0].grad
        nn.utils.vector_to_parameters(vec, ps) or ps[0]
        nn.utils.parameters_to_vector(ps)
        model(x)
        torch.vmap(lambda r: (r * r).sum())(x)
        torch.func.grad(lambda r: (r * r).sum())(x)
        nn.Linear(c, c)(x).shape
        list(model.parameters())[0]
        repr(model)
        str(x)
    """),
    lines("""
        model(x)
        F.cross_entropy(model(x), t)
    """),
)

FAMILIES = (
    CONVOLUTIONS, SPATIAL, NORMS, LOSSES, SEQUENCES, *OPTIMIZERS, PROGRAMS,
)  # fmt: skip
