"""Metrics of classes, numbers, images, texts and retrieval; collections; one of the program's."""

import pickle

import torch
import torchmetrics as tm
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure
from torchmetrics.retrieval import RetrievalMAP
from torchmetrics.text import BLEUScore, WordErrorRate

torch.manual_seed(0)
scores, target = torch.randn(50, 4).softmax(1), torch.randint(0, 4, (50,))
task = {"task": "multiclass", "num_classes": 4}
kinds = (tm.Accuracy, tm.F1Score, tm.AUROC, tm.ConfusionMatrix, tm.CalibrationError, tm.CohenKappa)
metrics = tm.MetricCollection([kind(**task) for kind in kinds])
metrics.update(scores, target)
print({name: value.tolist() for name, value in metrics.compute().items()})
x, y = torch.randn(40), torch.randn(40)
for metric in (tm.MeanSquaredError(), tm.R2Score(), tm.PearsonCorrCoef(), tm.SpearmanCorrCoef()):
    print(type(metric).__name__, f"{metric(x, y).item():.4f}")
image, other = torch.rand(1, 3, 32, 32), torch.rand(1, 3, 32, 32)
print(f"{PeakSignalNoiseRatio(data_range=1.0)(image, other).item():.4f}")
print(f"{StructuralSimilarityIndexMeasure(data_range=1.0)(image, other).item():.4f}")
print(f"{BLEUScore()(['the cat is on the mat'], [['a cat is on the mat']]).item():.4f}")
print(WordErrorRate()(["a b c"], ["a c"]))
print(RetrievalMAP()(x.sigmoid(), y > 0, indexes=torch.arange(40) // 20))


class Share(tm.Metric):
    def __init__(self):
        super().__init__()
        self.add_state("hits", default=torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("seen", default=[], dist_reduce_fx="cat")

    def update(self, guess, target):
        self.hits += (guess == target).sum()
        self.seen.append(guess)

    def compute(self):
        return self.hits / torch.cat(self.seen).numel()


share = Share()
print(share(target, target.flip(0)), pickle.loads(pickle.dumps(share)).compute(), share)
