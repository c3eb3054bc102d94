"""Which warnings programs get: their classes, how often, and how they begin."""

import warnings

import torch


def given(what, call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    for w in caught:
        told = str(w.message)
        own = told[:48] if told.startswith("Sparse inv") else told.partition(" (Triggered")[0]
        print(what, w.category.__name__, own)


def plain(x):
    return x + 1


for name in ("cuda", "cpu"):
    older = getattr(torch, name).amp
    given(name, older.GradScaler)
    given(name, lambda of=older: of.GradScaler(enabled=False))
    given(name, older.autocast)
    given(name, lambda of=older: of.autocast(enabled=False))
    given(name, lambda of=older: of.autocast()(plain)(torch.ones(1)))
    given(name, lambda of=name: torch.amp.GradScaler(of))
    given(name, lambda of=name: torch.amp.autocast(of))
given("forward", lambda: torch.cuda.amp.custom_fwd(plain))
given("forward of a dtype", lambda: torch.cuda.amp.custom_fwd(cast_inputs=torch.float32))
given("backward", lambda: torch.cuda.amp.custom_bwd(plain))
given("type", lambda: torch.set_default_tensor_type(torch.FloatTensor))
given("grid", lambda: torch.nn.functional.affine_grid(torch.ones(1, 2, 3), (1, 1, 1, 2), True))
given("sparse", lambda: torch.ones(2).to_sparse())
given("opted out", lambda: torch.sparse_coo_tensor([[0]], [1.0], (1,), check_invariants=False))
for _ in range(2):
    given("indices", lambda: torch.sparse_coo_tensor([[0]], [1.0], (1,)))
    given("size", lambda: torch.sparse_coo_tensor((1,)))
print(torch.sparse.check_sparse_tensor_invariants.is_enabled())
x, ones = torch.arange(16.0), torch.ones(4)
for _ in range(2):
    given("qr", lambda: torch.qr(torch.eye(2)))
    given("no window", lambda: torch.stft(x, 4, return_complex=True))
    given("real", lambda: x.stft(4, window=ones, return_complex=False))
    given("weight norm", lambda: torch.nn.utils.weight_norm(torch.nn.Linear(2, 2)))
    given("clip", lambda: torch.nn.utils.clip_grad_norm(torch.nn.Parameter(x), 1.0))
