"""Optimizers and learning rate schedules: `weft.optim`.

>>> import weft
>>> net = weft.nn.Linear(2, 1)
>>> opt = weft.optim.Adam(net.parameters(), lr=1e-3)
>>> opt.zero_grad()
>>> net(weft.ones(1, 2)).sum().backward()
>>> opt.step()
"""

from weft.optim import _functional as _functional
from weft.optim import lr_scheduler, optimizer, swa_utils
from weft.optim.adadelta import Adadelta
from weft.optim.adafactor import Adafactor
from weft.optim.adagrad import Adagrad
from weft.optim.adam import Adam
from weft.optim.adamax import Adamax
from weft.optim.adamw import AdamW
from weft.optim.asgd import ASGD
from weft.optim.lbfgs import LBFGS
from weft.optim.muon import Muon
from weft.optim.nadam import NAdam
from weft.optim.optimizer import Optimizer
from weft.optim.radam import RAdam
from weft.optim.rmsprop import RMSprop
from weft.optim.rprop import Rprop
from weft.optim.sgd import SGD
from weft.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]
