"""A character GPT learns Python from the text of its standard library.

The decoder is GPT-2's (Radford et al. 2019) with a pre-norm Transformer and causal attention. The
last tenth of the text is held out. Reported: bits per character there, beside those of the
characters' frequencies alone, 2.43 and 4.42; a sample.
"""

import argparse
import math
import pathlib
import sysconfig

from tqdm import tqdm

import weft
from weft import Tensor, nn
from weft.nn import functional as F


def read_text(size: int) -> str:
    """The first `size` characters of the standard library's modules, ASCII only."""
    text = ""
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_text(encoding="utf-8", errors="ignore").encode("ascii", "ignore").decode()
        if len(text) >= size:
            break
    return text[:size]


class Block(nn.Module):
    """Causal attention and a feed-forward block, each added to its input."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.project = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.wide = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        shape = (batch, length, self.heads, dim // self.heads)
        q, k, v = (t.reshape(shape).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project(y.transpose(1, 2).reshape(batch, length, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        x = x + self.wide(self.norm2(x))
        return x


class GPT(nn.Module):
    """Scores of the next character, (batch, length, characters), for (batch, length) of indices."""

    def __init__(self, characters: int, length: int, dim: int, heads: int, layers: int) -> None:
        super().__init__()
        self.length = length
        self.characters = nn.Embedding(characters, dim)
        self.places = nn.Embedding(length, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.norm, self.out = nn.LayerNorm(dim), nn.Linear(dim, characters)

    def forward(self, x: Tensor) -> Tensor:
        x = self.characters(x) + self.places(weft.arange(x.shape[1]))
        return self.out(self.norm(self.blocks(x)))

    def continue_text(self, x: Tensor, count: int) -> Tensor:
        for _ in range(count):
            scores = self(x[:, -self.length :])[:, -1]
            x = weft.cat([x, weft.multinomial(scores.softmax(-1), 1)], dim=1)
        return x


def windows(data: Tensor, starts: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets."""
    at = starts.unsqueeze(1) + weft.arange(length)
    return data[at], data[at + 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--text", type=int, default=1_000_000, help="characters of text")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    weft.manual_seed(args.seed)
    text = read_text(args.text)
    alphabet = sorted(set(text))
    index = {c: i for i, c in enumerate(alphabet)}
    data = weft.tensor([index[c] for c in text])
    train, test = data[: len(data) * 9 // 10], data[len(data) * 9 // 10 :]
    model = GPT(len(alphabet), args.length, args.dim, 4, args.layers)
    optimizer = weft.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = weft.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    for _ in (progress := tqdm(range(args.steps), unit=" steps")):
        starts = weft.randint(0, len(train) - args.length, (16,))
        x, y = windows(train, starts, args.length)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        progress.set_postfix(bits=f"{loss.item() / math.log(2):.2f}")
    with weft.no_grad():
        x, y = windows(test, weft.arange(0, len(test) - args.length - 1, args.length), args.length)
        bits = F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() / math.log(2)
        counts = weft.bincount(train, minlength=len(alphabet)) + 1
        alone = -(counts / counts.sum()).log2()[test].mean().item()
        sample: list[int] = model.continue_text(data[:1].unsqueeze(0), 200)[0].tolist()
    print("".join(alphabet[i] for i in sample))
    print(f"{bits:.2f} bits per character on unseen text, {alone:.2f} by frequency alone")


if __name__ == "__main__":
    main()
