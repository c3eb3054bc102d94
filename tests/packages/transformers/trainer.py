"""Trainer: train, evaluate, predict, go on from a checkpoint, callbacks."""

import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)


class Pairs(torch.utils.data.Dataset):
    """Whether the first word is a large one."""

    def __init__(self, count, seed):
        draw = np.random.default_rng(seed)
        self.words = draw.integers(3, 23, (count, 2))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, k):
        a, b = self.words[k]
        return {"input_ids": [1, int(a), int(b), 2], "labels": int(a > 12)}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def model():
    set_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=24, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
            intermediate_size=48, max_position_embeddings=8,
        )
    )  # fmt: skip


class Seen(TrainerCallback):
    def __init__(self):
        self.events = []

    def on_epoch_end(self, args, state, control, **kwargs):
        self.events.append(("epoch", round(state.epoch, 2)))

    def on_save(self, args, state, control, **kwargs):
        self.events.append(("save", state.global_step))


def trainer(**more):
    arguments = TrainingArguments(
        output_dir="out", num_train_epochs=2, per_device_train_batch_size=16, learning_rate=5e-3,
        per_device_eval_batch_size=32, eval_strategy="epoch", save_strategy="epoch",
        logging_steps=10, report_to=[], warmup_steps=5, weight_decay=0.01, seed=1,
        lr_scheduler_type="cosine", disable_tqdm=True, use_cpu=True, **more,
    )  # fmt: skip
    made = Trainer(
        model=model(), args=arguments, train_dataset=Pairs(480, 0), eval_dataset=Pairs(96, 1),
        compute_metrics=accuracy,
    )  # fmt: skip
    made.remove_callback(PrinterCallback)  # which prints times
    return made


def timeless(metrics):
    return {
        key: f"{value:.3f}" for key, value in sorted(metrics.items())
        if not key.endswith(("runtime", "per_second", "flos"))
    }  # fmt: skip


whole = trainer(gradient_accumulation_steps=2)
seen = Seen()
whole.add_callback(seen)
result = whole.train()
print(seen.events, result.global_step)
for entry in whole.state.log_history:
    print(timeless(entry))
prediction = whole.predict(Pairs(40, 2))
print(prediction.predictions.shape, timeless(prediction.metrics))
weights = [p.detach().clone() for p in whole.model.parameters()]

again = trainer(gradient_accumulation_steps=2)
again.train(resume_from_checkpoint="out/checkpoint-15")
apart = max((a - b).abs().max().item() for a, b in zip(weights, again.model.parameters()))
print("the same after resuming:", apart < 1e-6, again.state.global_step)

again = trainer(metric_for_best_model="accuracy", load_best_model_at_end=True, max_grad_norm=0.5,
                optim="sgd", save_total_limit=1, label_smoothing_factor=0.1)  # fmt: skip
again.add_callback(EarlyStoppingCallback(1))
print(again.train().global_step, again.state.best_model_checkpoint is not None)
again.save_model("final")
print(timeless(again.evaluate()))
