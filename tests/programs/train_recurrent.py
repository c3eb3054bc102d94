"""Sequences of unlike length through an embedding and recurrent cells, one at a time."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.cell = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}[kind](5, 6)
        self.out = nn.Linear(6, 2)

    def forward(self, tokens):
        state = None
        for token in tokens:
            state = self.cell(self.embed(token).unsqueeze(0), state)
        hidden = state[0] if isinstance(state, tuple) else state
        return self.out(hidden)


sequences = [[1, 2, 3], [4], [5, 6, 1, 2, 2], [3, 3], [6, 5, 4, 3, 2, 1, 0]]
labels = [len(s) % 2 for s in sequences]
for kind in ("gru", "lstm"):
    torch.manual_seed(13)
    model = Tagger(kind)
    print(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(10):
        losses = []
        for sequence, label in zip(sequences, labels):
            optimizer.zero_grad()
            loss = criterion(model(torch.tensor(sequence)), torch.tensor([label]))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        if epoch % 3 == 0:
            print(kind, epoch, [f"{loss:.3f}" for loss in losses])
    print([model(torch.tensor(s)).argmax().item() for s in sequences], labels)
    print({name: tuple(p.shape) for name, p in model.cell.named_parameters()})

torch.manual_seed(1)
cell = nn.LSTMCell(2, 3)
h, c = cell(torch.tensor([[1.0, -1.0]]))
print(h)
print(c)
print(cell(torch.tensor([[0.5, 0.5]]), (h, c))[0].detach())
