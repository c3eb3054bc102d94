"""Checks of gradients leave the generator where PyTorch's leave it."""

import torch
from torch.autograd import gradcheck, gradgradcheck

torch.manual_seed(1)
x = torch.randn(3, dtype=torch.double, requires_grad=True)
y = torch.randn(5, 4, dtype=torch.double, requires_grad=True)
z = torch.randn(5, 4, dtype=torch.cdouble, requires_grad=True)


def two(a, b):
    return a.sum() * b, a * 2


forward = {"check_forward_ad": True}
both = forward | {"check_batched_forward_grad": True}
for check, function, inputs, asked in (
    (gradcheck, torch.sin, x, {}),
    (gradcheck, torch.sin, x, {"check_undefined_grad": False}),
    (gradcheck, torch.sin, x, {"fast_mode": True}),
    (gradcheck, torch.sin, x, {"check_batched_grad": True}),
    (gradcheck, two, (x, y), {"check_batched_grad": True}),
    (gradcheck, two, (x, y), forward | {"check_batched_grad": True}),
    (gradcheck, two, (x, y), both),
    (gradcheck, two, (x, y), both | {"check_batched_grad": True}),
    (gradcheck, two, (x, y), both | {"check_backward_ad": False}),
    (gradcheck, torch.exp, z, {"check_batched_grad": True}),
    (gradcheck, torch.exp, z, {"fast_mode": True}),
    (gradgradcheck, torch.sin, x, {}),
    (gradgradcheck, two, (x, y), {}),
    (gradgradcheck, two, (x, y), {"gen_non_contig_grad_outputs": True}),
    (gradgradcheck, two, (x, y), {"fast_mode": True}),
    (gradgradcheck, two, (x, y), {"check_batched_grad": True}),
    (gradgradcheck, two, (x, y), {"check_fwd_over_rev": True}),
    (gradgradcheck, torch.exp, z, {}),
):
    torch.manual_seed(0)
    print(check.__name__, asked, check(function, inputs, **asked), torch.rand(2))
