"""Trainer: fit, validate, test, predict; callbacks, loggers, checkpoints, going on from one."""

import os

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
    ModelSummary,
    StochasticWeightAveraging,
    Timer,
)
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


class Data(L.LightningDataModule):
    def prepare_data(self):
        self.prepared = True

    def setup(self, stage):
        draw = torch.Generator().manual_seed(0)
        x = torch.randn(160, 6, generator=draw)
        y = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 1).long()
        self.parts = torch.utils.data.random_split(
            TensorDataset(x, y), [96, 32, 32], torch.Generator().manual_seed(1)
        )

    def train_dataloader(self):
        return DataLoader(self.parts[0], batch_size=16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.parts[1], batch_size=16)

    def test_dataloader(self):
        return DataLoader(self.parts[2], batch_size=16)

    def predict_dataloader(self):
        return self.test_dataloader()


class Classifier(L.LightningModule):
    def __init__(self, width=16, lr=2e-2):
        super().__init__()
        self.save_hyperparameters()
        self.example_input_array = torch.zeros(2, 6)
        self.body = torch.nn.Sequential(
            torch.nn.Linear(6, width), torch.nn.ReLU(), torch.nn.Dropout(0.1),
            torch.nn.Linear(width, 3),
        )  # fmt: skip
        self.accuracy = MulticlassAccuracy(3, average="micro")

    def forward(self, x):
        return self.body(x)

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        logits = self(x)
        self.accuracy(logits, y)
        self.log_dict({"val_loss": F.cross_entropy(logits, y), "val_accuracy": self.accuracy})

    def test_step(self, batch, index):
        x, y = batch
        self.accuracy(self(x), y)
        self.log("test_accuracy", self.accuracy)

    def predict_step(self, batch, index):
        return self(batch[0]).argmax(-1)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        scheduled = {"scheduler": schedule, "interval": "epoch"}
        return {"optimizer": optimizer, "lr_scheduler": scheduled}


class Seen(Callback):
    def __init__(self):
        self.events = []

    def on_train_epoch_end(self, trainer, module):
        loss = trainer.callback_metrics["train_loss_epoch"]
        self.events.append(f"{trainer.current_epoch} {loss:.3f}")

    def state_dict(self):
        return {"events": self.events}

    def load_state_dict(self, state):
        self.events = list(state["events"])


def trainer(**more):
    settings = dict(
        accelerator="cpu", devices=1, deterministic=True, enable_progress_bar=False,
        log_every_n_steps=2, default_root_dir="out", enable_model_summary=False,
    )  # fmt: skip
    return L.Trainer(**{**settings, **more})


def shown(metrics):
    print({name: f"{float(value):.3f}" for name, value in sorted(metrics.items())})


L.seed_everything(3, workers=True)
model, data = Classifier(), Data()
best = ModelCheckpoint(monitor="val_loss", filename="best", save_last=True)
seen = Seen()
fit = trainer(
    max_epochs=4,
    callbacks=[best, seen, LearningRateMonitor(), EarlyStopping("val_loss", patience=3)],
    logger=[CSVLogger("out", name="csv"), TensorBoardLogger("out", name="board")],
    gradient_clip_val=1.0, accumulate_grad_batches=2, num_sanity_val_steps=1,
)  # fmt: skip
fit.fit(model, data)
print(seen.events, fit.global_step)
shown(fit.callback_metrics)
shown(fit.validate(model, data, verbose=False)[0])
shown(fit.test(model, data, verbose=False)[0])
print(torch.cat(fit.predict(model, data)).tolist())
print(os.path.basename(best.best_model_path), os.path.basename(best.last_model_path))
print(f"{best.best_model_score:.3f}", len(open("out/csv/version_0/metrics.csv").readlines()))
print(sorted(os.listdir("out/board/version_0"))[-1])

again = Classifier.load_from_checkpoint(best.best_model_path)
print(again.hparams, again.training, again.device)
kept = torch.load(best.last_model_path, weights_only=True)
print(sorted(kept), kept["epoch"], kept["global_step"])

L.seed_everything(3)
first = trainer(max_epochs=2, logger=False, callbacks=[ModelCheckpoint("out/part", save_last=True)])
first.fit(Classifier(), data)
L.seed_everything(9)
rest, go_on = Classifier(), Seen()
second = trainer(max_epochs=4, logger=False, callbacks=[go_on])
second.fit(rest, data, ckpt_path="out/part/last.ckpt")
print(second.current_epoch, second.global_step, go_on.events)

L.seed_everything(5)
averaged = trainer(
    max_epochs=4, logger=False, enable_checkpointing=False,
    callbacks=[StochasticWeightAveraging(1e-2, swa_epoch_start=2), Timer(), ModelSummary(2)],
)  # fmt: skip
averaged.fit(Classifier(8), data)
shown(averaged.callback_metrics)
quick = trainer(fast_dev_run=True, precision="bf16-mixed")
quick.fit(Classifier(), data)
limited = trainer(max_steps=5, limit_val_batches=1, val_check_interval=3, logger=False,
                  enable_checkpointing=False)  # fmt: skip
limited.fit(Classifier(), data)
print(limited.global_step)


class ByHand(Classifier):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        loss = F.cross_entropy(self(batch[0]), batch[1])
        optimizer.zero_grad()
        self.manual_backward(loss)
        self.clip_gradients(optimizer, gradient_clip_val=0.5)
        optimizer.step()
        self.log("loss", loss)


L.seed_everything(6)
hands = trainer(max_epochs=1, logger=False, enable_checkpointing=False, profiler="simple")
hands.fit(ByHand(), data)
shown({"loss": hands.callback_metrics["loss"]})
