"""Optimizers and learning rate schedules: `weft.optim`.

>>> import weft
>>> net = weft.nn.Linear(2, 1)
>>> opt = weft.optim.Adam(net.parameters(), lr=1e-3)
>>> opt.zero_grad()
>>> net(weft.ones(1, 2)).sum().backward()
>>> opt.step()
"""

from weft.optim import lr_scheduler, optimizer
from weft.optim.adam import Adam
from weft.optim.adamw import AdamW
from weft.optim.optimizer import Optimizer
from weft.optim.sgd import SGD

__all__ = [
    "Optimizer",
    "SGD",
    "Adam",
    "AdamW",
    "lr_scheduler",
]
