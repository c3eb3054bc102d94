"""Networks as they are written in public, with sizes that are free: see test_onnx_networks.py."""

import math

import weft
from weft import nn

F = nn.functional


class Decoder(nn.Module):
    """Causal attention with a mask of padding, read in several ways."""

    def __init__(self) -> None:
        super().__init__()
        self.emb, self.pos = nn.Embedding(20, 8, padding_idx=0), nn.Embedding(16, 8)
        self.qkv, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)
        self.register_buffer("causal", weft.tril(weft.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, ids, mask):
        B, T = ids.size()
        if T > 16:
            raise ValueError("too long")
        x = self.emb(ids) + self.pos(weft.arange(T))
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.view(B, T, 2, -1).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(self.causal[:, :, :T, :T] == 0, float("-inf"))
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        y = (scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(B, T, -1)
        x = x + self.out(y)
        pooled = (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return {"last": x[:, [-1]], "pooled": pooled, "first": x[:, :1].squeeze(1)}


def for_decoder(batch, length):
    return weft.randint(0, 20, (batch, length)), (weft.rand(batch, length) > 0.3).long()


class Encoder(nn.Module):
    """Padding that stands behind, and padding that does not."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x, padding):
        y = self.encoder(x, src_key_padding_mask=padding)
        return y[:, -1], y.mean((1, 2))


def for_encoder(batch, length):
    padding = weft.arange(length)[None] >= weft.randint(1, length + 1, (batch, 1))
    return weft.randn(batch, length, 8), padding.flip(1) if batch % 2 else padding


class Conv(nn.Module):
    """Strides so wide that the example and twice its size have as many windows: one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 7, 4, 3), nn.BatchNorm2d(4)
        self.last = nn.AdaptiveMaxPool2d((1, 1))

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.norm(self.conv(x))), 3, 2, 1)
        rows = y.flatten(2).permute(0, 2, 1)
        up = F.interpolate(y, size=x.shape[2:], mode="bilinear")
        return rows, weft.as_tensor(rows.shape[1] * y.shape[2]), self.last(y).flatten(1), up


def for_conv(height, width):
    return (weft.randn(2, 3, height, width),)


class Tree(nn.Module):
    """Pairs of nodes in lists, as many as are known."""

    def __init__(self) -> None:
        super().__init__()
        self.join = nn.Linear(8, 4)

    def forward(self, x):
        nodes = [x[:, i].tanh() for i in range(5)]
        while len(nodes) > 1:
            above = []
            for i in range(0, len(nodes) - 1, 2):
                above.append(self.join(weft.cat([nodes[i], nodes[i + 1]], -1)))
            if len(nodes) % 2:
                above.append(nodes[-1])
            nodes = above
        return nodes[0]


def for_tree(batch, _):
    return (weft.randn(batch, 5, 4),)


class Levels(nn.Module):
    """The same level by level, of as many leaves as there are."""

    def __init__(self) -> None:
        super().__init__()
        self.join = nn.Linear(8, 4)

    def forward(self, x):
        while x.shape[0] > 1:
            if x.shape[0] % 2:
                x = weft.cat([x, x.new_zeros(1, x.shape[1])])
            x = self.join(x.view(x.shape[0] // 2, -1)).tanh()
        return x[0]


def for_levels(leaves, _):
    return (weft.randn(leaves, 4),)


#: A class, what makes its arguments of two sizes, dimensions that are free, the example's sizes.
NETWORKS = [
    (Decoder, for_decoder, ({0: "b", 1: "t"}, {0: "b", 1: "t"}), (2, 5)),
    (Encoder, for_encoder, ({0: "b", 1: "t"}, {0: "b", 1: "t"}), (2, 5)),
    (Conv, for_conv, ({2: "h", 3: "w"},), (4, 4)),
    (Tree, for_tree, ({0: "b"},), (3, 0)),
    (Levels, for_levels, ({0: "n"},), (5, 0)),
]
