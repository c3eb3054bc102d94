"""A classifier as scikit-learn has them: fit, callbacks, predict, pickle, a grid, a pipeline."""

import pickle

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from skorch.callbacks import EpochScoring, GradientNormClipping, LRScheduler
from torch import nn

X, y = make_classification(200, 20, n_informative=10, random_state=0)
X, y = X.astype(np.float32), y.astype(np.int64)


class Net(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.hidden, self.out = nn.Linear(20, width), nn.Linear(width, 2)
        self.dropout = nn.Dropout(0.5)

    def forward(self, X):
        return self.out(self.dropout(self.hidden(X).relu())).softmax(-1)


torch.manual_seed(0)
steps = LRScheduler(torch.optim.lr_scheduler.StepLR, step_size=2)
callbacks = [steps, EpochScoring("roc_auc", lower_is_better=False), GradientNormClipping(1.0)]
net = NeuralNetClassifier(
    Net, max_epochs=3, lr=0.1, iterator_train__shuffle=True, verbose=0, callbacks=callbacks
)
net.fit(X, y)
print([f"{loss:.3f}" for loss in net.history[:, "train_loss"]])
print(net.predict_proba(X[:2]).round(3), f"{net.score(X, y):.3f}")
assert np.array_equal(pickle.loads(pickle.dumps(net)).predict(X), net.predict(X))
print(net)
torch.manual_seed(1)
plain = NeuralNetClassifier(Net, verbose=0, train_split=False, max_epochs=2)
grid = {"lr": [0.01, 0.1], "module__width": [5, 10]}
search = GridSearchCV(plain, grid, refit=False, cv=2, scoring="accuracy").fit(X, y)
print(search.best_params_, f"{search.best_score_:.3f}")
pipeline = Pipeline([("scale", StandardScaler()), ("net", plain)]).fit(X, y)
print(pipeline.predict_proba(X[:1]).round(3))
