"""A training loop with Accelerator: accumulation, clipping, schedule, metrics, kept states."""

import os
import tempfile

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import ProjectConfiguration, gather_object, set_seed
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
x = torch.randn(96, 8)
y = (x[:, :3].sum(1) > 0).long()
train = DataLoader(TensorDataset(x[:72], y[:72]), batch_size=8, shuffle=True)
test = DataLoader(TensorDataset(x[72:], y[72:]), batch_size=10)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 20)

folder = tempfile.mkdtemp()
accelerator = Accelerator(
    gradient_accumulation_steps=2, cpu=True,
    project_config=ProjectConfiguration(folder, automatic_checkpoint_naming=True, total_limit=2),
    dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
)  # fmt: skip
print(accelerator.device, accelerator.num_processes, accelerator.is_main_process)
print(accelerator.distributed_type, accelerator.mixed_precision)
model, optimizer, train, test, schedule = accelerator.prepare(
    model, optimizer, train, test, schedule
)
for _ in range(3):
    total = 0.0
    for inputs, labels in train:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        total += loss.item()
    accelerator.save_state()
    right = []
    model.eval()
    for inputs, labels in test:
        with torch.no_grad():
            guess = model(inputs).argmax(-1)
        guess, labels = accelerator.gather_for_metrics((guess, labels))
        right += (guess == labels).tolist()
    model.train()
    rate = schedule.get_last_lr()[0]
    accelerator.print(f"{total / len(train):.4f} {norm:.4f} {rate:.5f}", sum(right), len(right))
print(sorted(os.listdir(os.path.join(folder, "checkpoints"))))
before = [p.detach().clone() for p in model.parameters()]
with torch.no_grad():
    for p in model.parameters():
        p.zero_()
accelerator.load_state(os.path.join(folder, "checkpoints", "checkpoint_2"))
same = all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
print(same, f"{torch.rand(1).item():.4f}")
skipped = accelerator.skip_first_batches(train, 7)
print(len(list(skipped)), len(train))
plain = accelerator.unwrap_model(model)
accelerator.save_model(plain, folder)
print(sorted(name for name in os.listdir(folder) if name != "checkpoints"))
print(gather_object([1, "two"]), accelerator.reduce(torch.ones(2), "mean").tolist())
accelerator.wait_for_everyone()
accelerator.end_training()
