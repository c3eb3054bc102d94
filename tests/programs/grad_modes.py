"""no_grad, enable_grad, detach, clone, requires_grad_ and what each leaves in the graph."""

import torch

w = torch.tensor([1.0, -2.0], requires_grad=True)
print(torch.is_grad_enabled())
with torch.no_grad():
    y = w * 2
    print(y, y.requires_grad, torch.is_grad_enabled())
    with torch.enable_grad():
        print(w * 3)
    with torch.set_grad_enabled(True):
        print(w * 4)
print(w * 5)


@torch.no_grad()
def frozen(x):
    return x * 6


print(frozen(w))
with torch.inference_mode():
    print(w * 7)

d = w.detach()
d[0] = 9
print(w, d, d.requires_grad)
c = w.clone()
print(c, c.is_leaf)
loss = (w * w.detach()).sum() + (w.clone() ** 2).sum()
print(loss)
loss.backward()
print(w.grad)
w.grad.zero_()
print(w.grad)
w.grad = None
print(w.grad)

v = torch.zeros(2)
print(v.requires_grad, v.is_leaf, v.grad_fn)
v.requires_grad_()
print(v)
print((v + 1).requires_grad, (v + 1).is_leaf)

# A few steps of gradient descent by hand.
w = torch.tensor([3.0, -4.0], requires_grad=True)
for step in range(4):
    loss = (w**2).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.25 * w.grad
    w.grad.zero_()
    print(step, loss, w)
gradients = torch.autograd.grad((w * 2).sum() + w[0] ** 3, [w])
print(gradients)
print(w.data, w.detach().numpy())
print(torch.where(w > 0, w, torch.zeros(2)), (w > 0).float())
