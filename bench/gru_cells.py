"""A GRU cell over sequences of unlike length, one at a time: no padding, no packing."""

import random

import harness

DIM = 128


def training_step(torch):
    nn = torch.nn
    rng = random.Random(harness.SEED)
    sequences = [torch.randn(rng.randint(5, 40), 1, DIM) for _ in range(16)]
    cell = nn.GRUCell(DIM, DIM)

    def step():
        cell.zero_grad()
        loss = 0.0
        for sequence in sequences:
            h = None
            for x in sequence:
                h = cell(x, h)
            loss = loss + h.square().mean()
        loss.backward()
        return loss

    return step


ROWS = [harness.Row("GRU cell d=128, 16 sequences of 5-40, plain", training_step, ratio=5)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
