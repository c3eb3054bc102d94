"""A GPT in the way of nanoGPT: groups of parameters, accumulated gradients, a checkpoint, top-k."""

import inspect
import math
import os
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F


class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


@dataclass
class GPTConfig:
    block_size: int = 16
    vocab_size: int = 32
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 24
    dropout: float = 0.1
    bias: bool = False


class Attn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_attn = nn.Linear(c.n_embd, 3 * c.n_embd, bias=c.bias)
        self.c_proj = nn.Linear(c.n_embd, c.n_embd, bias=c.bias)
        self.n_head, self.n_embd, self.dropout = c.n_head, c.n_embd, c.dropout
        self.attn_dropout = nn.Dropout(c.dropout)
        self.flash = hasattr(torch.nn.functional, "scaled_dot_product_attention")
        self.register_buffer(
            "bias",
            torch.tril(torch.ones(c.block_size, c.block_size)).view(
                1, 1, c.block_size, c.block_size
            ),
        )

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k, q, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (k, q, v))
        if self.flash and not self.training:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = (
            LayerNorm(c.n_embd, c.bias),
            Attn(c),
            LayerNorm(c.n_embd, c.bias),
        )
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(c.n_embd, 4 * c.n_embd),
                c_proj=nn.Linear(4 * c.n_embd, c.n_embd),
                act=nn.GELU(approximate="tanh"),
            )
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        m = self.mlp
        return x + m.c_proj(m.act(m.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                drop=nn.Dropout(config.dropout),
                h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                ln_f=LayerNorm(config.n_embd, bias=config.bias),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for pn, p in self.named_parameters():
            if pn.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))
        print("number of parameters: %.2fK" % (sum(p.numel() for p in self.parameters()) / 1e3,))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx, targets=None):
        b, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is not None:
            logits = self.lm_head(x)
            return logits, F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        return self.lm_head(x[:, [-1], :]), None

    def configure_optimizers(self, weight_decay, lr, betas, device_type):
        pd = {pn: p for pn, p in self.named_parameters() if p.requires_grad}
        groups = [
            {"params": [p for p in pd.values() if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in pd.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        use_fused = (
            "fused" in inspect.signature(torch.optim.AdamW).parameters and device_type == "cuda"
        )
        print(
            f"using fused AdamW: {use_fused}",
            [len(g["params"]) for g in groups],
            "fused" in inspect.signature(torch.optim.AdamW).parameters,
        )
        return torch.optim.AdamW(
            groups, lr=lr, betas=betas, **(dict(fused=True) if use_fused else dict())
        )

    @torch.no_grad()
    def generate(self, idx, n, temperature=1.0, top_k=None):
        for _ in range(n):
            logits, _ = self(idx[:, -self.config.block_size :])
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            idx = torch.cat(
                (idx, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1
            )
        return idx


torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
ctx = nullcontext()
folder = tempfile.mkdtemp()
data = np.random.RandomState(0).randint(0, 32, 500).astype(np.uint16)
data.tofile(os.path.join(folder, "train.bin"))


def get_batch():
    d = np.memmap(os.path.join(folder, "train.bin"), dtype=np.uint16, mode="r")
    ix = torch.randint(len(d) - 16, (4,))
    x = torch.stack([torch.from_numpy((d[i : i + 16]).astype(np.int64)) for i in ix])
    return x, torch.stack([torch.from_numpy((d[i + 1 : i + 17]).astype(np.int64)) for i in ix])


model = GPT(GPTConfig())
scaler = torch.amp.GradScaler("cpu", enabled=False)
optimizer = model.configure_optimizers(1e-1, 1e-3, (0.9, 0.95), "cpu")
for it in range(5):
    for _micro in range(2):
        X, Y = get_batch()
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {it}: loss {loss.item() * 2:.4f}")
ck = {
    "model": model.state_dict(),
    "optimizer": optimizer.state_dict(),
    "model_args": vars(model.config),
    "iter": it,
}
torch.save(ck, os.path.join(folder, "ckpt.pt"))
ck = torch.load(os.path.join(folder, "ckpt.pt"), map_location="cpu")
sd = ck["model"]
for k, _v in list(sd.items()):
    if k.startswith("_orig_mod."):
        sd[k[10:]] = sd.pop(k)
m2 = GPT(GPTConfig(**ck["model_args"]))
print(m2.load_state_dict(sd))
m2.eval()
print(m2.generate(torch.zeros(1, 1, dtype=torch.long), 20, 0.8, 10)[0].tolist())
