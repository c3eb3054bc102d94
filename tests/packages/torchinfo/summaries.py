"""Summaries of a convolutional network and of a transformer: shapes, parameters, multiply-adds."""

import torch
import torch.nn as nn
from torchinfo import summary


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        )  # fmt: skip
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.rnn = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.out = nn.Linear(32, 5)

    def forward(self, words):
        return self.out(self.rnn(self.embed(words))[0])


columns = ("input_size", "output_size", "num_params", "params_percent", "mult_adds", "trainable")
print(summary(Net(), input_size=(2, 1, 28, 28), col_names=columns, depth=3, verbose=0))
words = torch.randint(0, 50, (2, 7))
stats = summary(Tagger(), input_data=words, col_names=columns, verbose=0)
print(stats)
print(stats.total_params, stats.trainable_params, stats.total_mult_adds)
layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
print(summary(model.train(), input_size=(2, 5, 16), row_settings=("var_names", "depth"), verbose=0))
print(summary(Net(), input_size=(1, 1, 8, 8), device="cpu", mode="eval", verbose=0))
