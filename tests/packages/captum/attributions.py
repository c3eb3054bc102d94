"""What a convolutional network looked at, by gradients, hooks, perturbations and a layer."""

import torch
import torch.nn as nn
from captum import attr

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.relu1, self.pool = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2)
        self.conv2, self.relu2, self.head = nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Linear(6, 3)

    def forward(self, x):
        x = self.relu2(self.conv2(self.pool(self.relu1(self.conv1(x)))))
        return self.head(x.mean((2, 3)))


net = Net().eval()
x = torch.rand(2, 1, 12, 12, requires_grad=True)
parts = (torch.arange(144).view(12, 12) // 36)[None]
found, delta = attr.IntegratedGradients(net).attribute(
    x, target=1, n_steps=8, return_convergence_delta=True
)
print(f"{found.sum().item():.4f}", delta.shape)
for method, how in (
    (attr.Saliency(net), {}), (attr.InputXGradient(net), {}), (attr.DeepLift(net), {}),
    (attr.GuidedBackprop(net), {}), (attr.Deconvolution(net), {}),
    (attr.GuidedGradCam(net, net.conv2), {}), (attr.LayerGradCam(net, net.conv2), {}),
    (attr.LayerConductance(net, net.conv2), {"n_steps": 4}),
    (attr.FeatureAblation(net), {"feature_mask": parts}),
    (attr.Occlusion(net), {"sliding_window_shapes": (1, 4, 4), "strides": (1, 4, 4)}),
    (attr.ShapleyValues(net), {"feature_mask": parts}),
    (attr.KernelShap(net), {"feature_mask": parts, "n_samples": 12}),
):  # fmt: skip
    torch.manual_seed(1)
    found = method.attribute(x, target=1, **how)
    print(type(method).__name__, tuple(found.shape), f"{found.double().norm().item():.3f}")
