"""A U-Net for pictures with circles: transforms, a loader, Dice, sliding windows, more networks."""

import numpy as np
import torch
from monai import transforms as mt
from monai.data import CacheDataset, DataLoader, create_test_image_2d, decollate_batch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, DiceLoss, FocalLoss, TverskyLoss
from monai.metrics import DiceMetric, HausdorffDistanceMetric
from monai.networks import nets
from monai.utils import set_determinism

set_determinism(0)
made = [
    create_test_image_2d(64, 64, 3, rad_max=10, num_seg_classes=1,
                         random_state=np.random.RandomState(k)) for k in range(4)
]  # fmt: skip
pairs = [{"image": a[None].astype("float32"), "mask": b[None].astype("float32")} for a, b in made]
keys = ["image", "mask"]
transform = mt.Compose([
    mt.EnsureTyped(keys), mt.ScaleIntensityd("image"), mt.RandFlipd(keys, prob=0.5),
    mt.RandSpatialCropd(keys, (32, 32), random_size=False), mt.RandRotate90d(keys, prob=0.5),
])  # fmt: skip
transform.set_random_state(0)
loader = DataLoader(CacheDataset(pairs, transform, progress=False), batch_size=2)
net = nets.UNet(2, 1, 1, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)
optimizer, criterion = torch.optim.Adam(net.parameters(), 1e-2), DiceLoss(sigmoid=True)
for batch in loader:
    optimizer.zero_grad()
    loss = criterion(net(batch["image"]), batch["mask"])
    loss.backward()
    optimizer.step()
    print(type(batch["image"]).__name__, tuple(batch["image"].shape), f"{loss.item():.3f}")
net.eval()
images, masks = (torch.as_tensor(np.stack([p[k] for p in pairs])) for k in keys)
with torch.no_grad():
    out = sliding_window_inference(images, (32, 32), 4, net, overlap=0.25)
print(tuple(out.shape), f"{out.mean().item():.3f}")
post, dice = mt.Compose([mt.Activations(sigmoid=True), mt.AsDiscrete(threshold=0.5)]), DiceMetric()
dice(y_pred=[post(o) for o in decollate_batch(out)], y=masks)
print(f"{dice.aggregate().item():.2f}")
y, p = torch.randint(0, 2, (2, 3, 8, 8)).float(), torch.randn(2, 3, 8, 8, requires_grad=True)
for criterion in (DiceCELoss(softmax=True), FocalLoss(), TverskyLoss(softmax=True)):
    print(type(criterion).__name__, f"{criterion(p, y).item():.4f}")
distance = HausdorffDistanceMetric(include_background=True)
distance(y_pred=(p.detach() > 0).float(), y=y)
print(f"{distance.aggregate().item():.4f}")
for made in (
    nets.BasicUNet(2, 1, 2, (4, 4, 8, 8, 16, 4)), nets.AutoEncoder(2, 1, 1, (4, 8), (2, 2)),
    nets.AttentionUnet(2, 1, 2, (4, 8), (2,)),
):  # fmt: skip
    print(type(made).__name__, tuple(made(torch.rand(1, 1, 64, 64)).shape))
