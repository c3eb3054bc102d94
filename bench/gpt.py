"""A GPT of 4 layers on 12 x 64 tokens: a training step with AdamW."""

import math

import harness

LAYERS, DIM, HEADS, WORDS, BATCH, LENGTH = 4, 128, 4, 256, 12, 64


def model_of(torch, batch, length):
    nn, F = torch.nn, torch.nn.functional
    mask = torch.tensor([[0.0 if j <= i else -math.inf for j in range(length)]
                         for i in range(length)])  # fmt: skip

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
            self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
            self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

        def attend(self, x):
            parts = self.qkv(x).chunk(3, dim=-1)
            q, k, v = (
                part.reshape(batch, length, HEADS, DIM // HEADS).transpose(1, 2) for part in parts
            )
            scores = q @ k.transpose(-2, -1) * (DIM // HEADS) ** -0.5 + mask
            heads = F.softmax(scores, dim=-1) @ v
            return self.proj(heads.transpose(1, 2).reshape(batch, length, DIM))

        def forward(self, x):
            x = x + self.attend(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, DIM), nn.Embedding(LENGTH, DIM)
            self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
            self.norm, self.out = nn.LayerNorm(DIM), nn.Linear(DIM, WORDS)

        def forward(self, tokens):
            x = self.words(tokens) + self.places(torch.arange(length))
            return self.out(self.norm(self.blocks(x)))

    return GPT()


def forward(torch, batch, length):
    model = model_of(torch, batch, length)
    return model, torch.randint(0, WORDS, (batch, length))


def training_step(torch):
    F = torch.nn.functional
    model = model_of(torch, BATCH, LENGTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, WORDS, (BATCH, LENGTH))
    targets = torch.randint(0, WORDS, (BATCH * LENGTH,))

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).reshape(BATCH * LENGTH, WORDS), targets)
        loss.backward()
        optimizer.step()
        return loss

    step.model = model
    return step


ROWS = [harness.Row("GPT 4 layers d=128, 12 x 64 tokens, AdamW step", training_step, ratio=1.4)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
