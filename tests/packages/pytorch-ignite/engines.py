"""Engines: a supervised trainer and evaluator, metrics, handlers, checkpoints, going on."""

import tempfile

import torch
from ignite.contrib.handlers import ProgressBar
from ignite.engine import (
    Engine,
    Events,
    create_supervised_evaluator,
    create_supervised_trainer,
)
from ignite.handlers import (
    Checkpoint,
    CosineAnnealingScheduler,
    DiskSaver,
    EarlyStopping,
    EMAHandler,
    FastaiLRFinder,
    LRScheduler,
    TerminateOnNan,
    Timer,
    create_lr_scheduler_with_warmup,
    global_step_from_engine,
)
from ignite.metrics import (
    Accuracy,
    ConfusionMatrix,
    Fbeta,
    Loss,
    MeanSquaredError,
    Precision,
    Recall,
    RunningAverage,
    TopKCategoricalAccuracy,
)
from ignite.utils import manual_seed, setup_logger, to_onehot
from torch.utils.data import DataLoader, TensorDataset

manual_seed(0)
x = torch.randn(120, 5)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
train = DataLoader(TensorDataset(x[:90], y[:90]), 10, shuffle=True)
test = DataLoader(TensorDataset(x[90:], y[90:]), 15)
model = torch.nn.Sequential(torch.nn.Linear(5, 12), torch.nn.ReLU(), torch.nn.Linear(12, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
criterion = torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, optimizer, criterion, gradient_accumulation_steps=1)
precision, recall = Precision(average=False), Recall(average=False)
metrics = {
    "accuracy": Accuracy(), "loss": Loss(criterion), "top2": TopKCategoricalAccuracy(2),
    "matrix": ConfusionMatrix(3), "precision": precision, "recall": recall,
    "f1": Fbeta(1, average=True, precision=precision, recall=recall),
    "mean_f": (precision * recall * 2 / (precision + recall)).mean(),
}  # fmt: skip
evaluator = create_supervised_evaluator(model, metrics=metrics)
RunningAverage(output_transform=lambda loss: loss).attach(trainer, "running")
trainer.logger = setup_logger("trainer", level=40)
timer = Timer(average=True)
timer.attach(trainer)
trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    found = evaluator.run(test).metrics
    print(engine.state.epoch, f"{engine.state.metrics['running']:.4f} {found['loss']:.4f}")
    print([f"{found[name]:.3f}" for name in ("accuracy", "top2", "f1", "mean_f")])
    print(found["matrix"].tolist(), [f"{p:.3f}" for p in found["precision"].tolist()])


@trainer.on(Events.ITERATION_COMPLETED(every=9))
def told(engine):
    print("iteration", engine.state.iteration, f"{optimizer.param_groups[0]['lr']:.4f}")


folder = tempfile.mkdtemp()
parts = {"model": model, "optimizer": optimizer, "trainer": trainer}
saver = Checkpoint(
    parts, DiskSaver(folder, require_empty=False), n_saved=2, score_name="accuracy",
    score_function=lambda engine: engine.state.metrics["accuracy"],
    global_step_transform=global_step_from_engine(trainer),
)  # fmt: skip
evaluator.add_event_handler(Events.COMPLETED, saver)
stopping = EarlyStopping(5, lambda engine: -engine.state.metrics["loss"], trainer)
evaluator.add_event_handler(Events.COMPLETED, stopping)
average = EMAHandler(model, momentum=0.1)
average.attach(trainer, name="ema", event=Events.ITERATION_COMPLETED)
schedule = create_lr_scheduler_with_warmup(
    torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95), 0.001, 9, warmup_end_value=0.02
)
trainer.add_event_handler(Events.ITERATION_STARTED, schedule)
state = trainer.run(train, max_epochs=4)
print(state.epoch, state.iteration, f"{average.ema_model[0].weight.norm():.4f}")

before = [p.detach().clone() for p in model.parameters()]
kept = torch.load(saver.last_checkpoint, weights_only=False)
print(sorted(kept), "checkpoint_4" in str(saver.last_checkpoint))
with torch.no_grad():
    for p in model.parameters():
        p.zero_()
Checkpoint.load_objects(to_load=parts, checkpoint=kept)
print(f"{sum(p.abs().sum() for p in model.parameters()):.2f}", trainer.state.epoch)


def step(engine, batch):
    return model(batch[0]), torch.nn.functional.one_hot(batch[1], 3).float()


plain = Engine(step)
MeanSquaredError().attach(plain, "mse")
CosineAnnealingScheduler(optimizer, "lr", 0.1, 0.01, 3)
LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1))
ProgressBar().attach(plain)
print(f"{plain.run(test).metrics['mse']:.4f}", to_onehot(torch.tensor([0, 2]), 3).tolist())

finder = FastaiLRFinder()
kept = {"model": model, "optimizer": optimizer}
with finder.attach(trainer, kept, end_lr=1.0, num_iter=20) as found:
    found.run(train)
print(len(finder.get_results()["lr"]))
