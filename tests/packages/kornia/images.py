"""Images turned, warped, blurred and changed by chance, their features, a turn that is learned."""

import kornia
import torch
from kornia import augmentation, feature, filters, geometry

torch.manual_seed(0)
images = torch.rand(2, 3, 24, 20)
grey, points = images[:, :1], torch.rand(1, 9, 2)


def show(name, found):
    for i, part in enumerate(found if isinstance(found, (tuple, list)) else [found]):
        print(name, i, tuple(part.shape), f"{part.double().abs().mean().item():.5f}")


turn = torch.tensor([30.0, 10.0])
moved = torch.tensor([[[1.0, 0.1, 2.0], [0.0, 1.1, 3.0]]]).expand(2, 2, 3)
show("rotate", geometry.rotate(images, turn))
show("warp", geometry.warp_affine(images, moved, (16, 18), padding_mode="reflection"))
show("homography", geometry.find_homography_dlt(points, points * 2 + 0.1))
show("axis", geometry.conversions.axis_angle_to_rotation_matrix(torch.rand(2, 3)))
show("softmax", geometry.subpix.spatial_softmax2d(grey))
show("canny", filters.canny(images))
show("blur", filters.gaussian_blur2d(images, (5, 3), (1.0, 2.0)))
show("median", filters.median_blur(images, (3, 3)))
show("sift", feature.SIFTDescriptor(16)(torch.rand(3, 1, 16, 16)))
show("harris", feature.harris_response(grey))
show("lab", kornia.color.rgb_to_lab(images))
show("ssim", kornia.metrics.ssim(images, images.flip(0), 5))

for chance in (
    augmentation.RandomResizedCrop((8, 8)), augmentation.RandomPerspective(p=1.0),
    augmentation.RandomRotation(30.0, p=1.0), augmentation.RandomElasticTransform(p=1.0),
    augmentation.RandomMotionBlur(3, 35.0, 0.5, p=1.0), augmentation.RandomErasing(p=1.0),
    augmentation.ColorJiggle(0.1, 0.2, 0.3, 0.1, p=1.0), augmentation.RandomEqualize(p=1.0),
):  # fmt: skip
    show(type(chance).__name__, chance(images))
both = augmentation.AugmentationSequential(
    augmentation.RandomAffine(30.0, (0.1, 0.1), p=1.0), augmentation.RandomHorizontalFlip(p=1.0),
    data_keys=["input", "mask", "keypoints"],
)  # fmt: skip
show("sequence", both(images, grey.round(), torch.rand(2, 5, 2) * 20))

angle = torch.zeros(2, requires_grad=True)
goal = geometry.rotate(images, torch.tensor([12.0, -8.0]))
optimizer = torch.optim.Adam([angle], 1.0)
for _ in range(12):
    optimizer.zero_grad()
    loss = (geometry.rotate(images, angle) - goal).square().mean()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
