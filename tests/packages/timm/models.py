"""Models of images with their first weights; a training step with mixup, average and schedule."""

import numpy as np
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import ModelEmaV2, dispatch_clip_grad

for name in (
    "resnet18", "mobilenetv3_small_050", "efficientnet_lite0", "convnext_atto", "regnetx_002",
    "mobilevit_xxs", "ghostnet_050", "vit_tiny_patch16_224",
):  # fmt: skip
    torch.manual_seed(0)
    size = {"img_size": 64} if name.startswith("vit") else {}
    model = timm.create_model(name, num_classes=5, **size).eval()
    with torch.no_grad():
        out = model(torch.randn(1, 3, 64, 64))
    print(name, sum(p.numel() for p in model.parameters()), f"{out.double().norm().item():.3f}")

torch.manual_seed(0)
np.random.seed(0)
model = timm.create_model("resnet10t", num_classes=5, drop_path_rate=0.1)
optimizer = create_optimizer_v2(model, "adamw", lr=1e-3, weight_decay=0.05)
schedule, _ = create_scheduler_v2(optimizer, num_epochs=5)
average, mixup = ModelEmaV2(model, decay=0.9), Mixup(mixup_alpha=0.8, num_classes=5)
for step in range(2):
    x, y = mixup(torch.randn(4, 3, 32, 32), torch.randint(0, 5, (4,)))
    loss = SoftTargetCrossEntropy()(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    dispatch_clip_grad(model.parameters(), 1.0)
    optimizer.step()
    average.update(model)
    schedule.step(step + 1)
    print(f"{loss.item():.2f} {optimizer.param_groups[0]['lr']:.6f}")
features = timm.create_model("resnet18", features_only=True)
print([tuple(f.shape) for f in features(torch.randn(1, 3, 64, 64))])
for name in ("sgd", "nadamw", "lamb", "lion", "adopt", "adafactor", "radabelief", "muon"):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = create_optimizer_v2(net, name, lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    print(name, f"{sum(p.double().norm().item() for p in net.parameters()):.4f}")
