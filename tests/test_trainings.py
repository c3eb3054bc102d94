"""The same seed trains to the same loss curve as PyTorch: 50 steps, 1e-4 relative.

Data, first parameters, dropout and noise come from each library's own generator, so a curve agrees
only if random numbers, layers, gradients and optimizer all do.
"""

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")

STEPS = 50


def train(lib, model, optimizer, loss_of):
    losses = []
    for _ in range(STEPS):

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
    return losses


def regression(lib):
    x, y = lib.randn(32, 5), lib.rand(32, 1)
    model = lib.nn.Sequential(lib.nn.Linear(5, 16), lib.nn.Tanh(), lib.nn.Linear(16, 1))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    return train(lib, model, optimizer, lambda m: lib.nn.functional.mse_loss(m(x), y))


def dropout_classifier(lib):
    x, y = lib.randn(32, 8), lib.randint(0, 4, (32,))
    model = lib.nn.Sequential(
        lib.nn.Linear(8, 32), lib.nn.GELU(), lib.nn.Dropout(0.3), lib.nn.Linear(32, 4)
    )
    optimizer = lib.optim.Adam(model.parameters(), lr=3e-3, weight_decay=0.01)
    return train(lib, model, optimizer, lambda m: lib.nn.functional.cross_entropy(m(x), y))


def convolutions(lib):
    nn = lib.nn
    x, y = lib.randn(8, 1, 12, 12), lib.randint(0, 3, (8,))
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, stride=2),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 3),
    )
    optimizer = lib.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)
    return train(lib, model, optimizer, lambda m: nn.functional.cross_entropy(m(x), y))


def recurrent(lib):
    class Tagger(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = lib.nn.Embedding(20, 8)
            self.lstm = lib.nn.LSTM(8, 8, num_layers=2, bidirectional=True, dropout=0.2)
            self.out = lib.nn.Linear(16, 5)

        def forward(self, x):
            return self.out(self.lstm(self.words(x))[0])

    x, y = lib.randint(0, 20, (7, 6)), lib.randint(0, 5, (7, 6))
    model = Tagger()
    optimizer = lib.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.5)
    return train(
        lib,
        model,
        optimizer,
        lambda m: lib.nn.functional.cross_entropy(m(x).reshape(-1, 5), y.reshape(-1)),
    )


def gated_and_clipped(lib):
    x, y = lib.randn(9, 4, 3), lib.randn(4, 8)
    model = lib.nn.GRU(3, 8)
    optimizer = lib.optim.Adagrad(model.parameters(), lr=0.02)

    def loss_of(m):
        return lib.nn.functional.smooth_l1_loss(m(x)[1][0], y)

    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        lib.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.item())
    return losses


def transformer(lib):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = lib.nn.Embedding(12, 16)
            layer = lib.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
            self.encoder = lib.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.out = lib.nn.Linear(16, 12)

        def forward(self, x):
            return self.out(self.encoder(self.words(x)))

    x = lib.randint(0, 12, (4, 9))
    model = Model()
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
    return train(
        lib,
        model,
        optimizer,
        lambda m: lib.nn.functional.cross_entropy(
            m(x[:, :-1]).reshape(-1, 12), x[:, 1:].reshape(-1)
        ),
    )


def variational(lib):
    F = lib.nn.functional
    x = lib.rand(16, 10)
    encode, decode = lib.nn.Linear(10, 6), lib.nn.Linear(3, 10)
    model = lib.nn.ModuleList([encode, decode])

    def loss_of(_):
        mean, log_var = encode(x).chunk(2, -1)
        code = mean + (0.5 * log_var).exp() * lib.randn_like(mean)
        image = F.binary_cross_entropy_with_logits(decode(code), x, reduction="sum")
        return (image + 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum()) / 16

    return train(lib, model, lib.optim.Adamax(model.parameters(), lr=2e-3), loss_of)


def scheduled(lib):
    x, y = lib.randn(24, 6), lib.randint(0, 2, (24,)).float()
    model = lib.nn.Sequential(
        lib.nn.Linear(6, 12), lib.nn.LayerNorm(12), lib.nn.ELU(), lib.nn.Linear(12, 1)
    )
    optimizer = lib.optim.NAdam(model.parameters(), lr=5e-3)
    schedule = lib.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = lib.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def batches_of_a_loader(lib):
    data = lib.utils.data
    x, y = lib.randn(40, 5), lib.randint(0, 3, (40,))
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=8, shuffle=True)
    model = lib.nn.Sequential(lib.nn.Linear(5, 10), lib.nn.Softplus(), lib.nn.Linear(10, 3))
    optimizer = lib.optim.RAdam(model.parameters(), lr=5e-3)
    losses = []
    while len(losses) < STEPS:
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = lib.nn.functional.cross_entropy(model(inputs), targets, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def second_order(lib):
    """A gradient penalty: the loss contains a gradient."""
    F = lib.nn.functional
    x, y = lib.randn(16, 4), lib.randn(16, 1)
    model = lib.nn.Sequential(lib.nn.Linear(4, 12), lib.nn.Tanh(), lib.nn.Linear(12, 1))

    def loss_of(m):
        inputs = x.clone().requires_grad_()
        out = m(inputs)
        (slope,) = lib.autograd.grad(out.sum(), inputs, create_graph=True)
        return F.mse_loss(out, y) + 0.1 * slope.square().sum(1).mean()

    return train(lib, model, lib.optim.Adadelta(model.parameters(), lr=0.5), loss_of)


def quasi_newton(lib):
    x, y = lib.randn(20, 3), lib.randn(20, 1)
    model = lib.nn.Linear(3, 1)
    optimizer = lib.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3, history_size=5)
    return train(lib, model, optimizer, lambda m: lib.nn.functional.mse_loss(m(x), y))


TRAININGS = [
    regression, dropout_classifier, convolutions, recurrent, gated_and_clipped, transformer,
    variational, scheduled, batches_of_a_loader, second_order, quasi_newton,
]  # fmt: skip


@pytest.mark.parametrize("training", TRAININGS, ids=lambda f: f.__name__)
def test_the_loss_curve_is_pytorchs(training):
    curves = []
    for lib in (weft, torch):
        lib.manual_seed(11)
        curves.append(training(lib))
    np.testing.assert_allclose(*curves, rtol=1e-4)
    assert min(curves[0][-5:]) < curves[0][0]
