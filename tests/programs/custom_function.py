"""Functions with a backward of their own."""

import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        print("backward of Square at", x.tolist())
        return grad * 2 * x


class ScaleBy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, label):
        ctx.factor = factor
        ctx.label = label
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        print("backward of", ctx.label, ctx.needs_input_grad)
        return grad * ctx.factor, None, None


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class SumAndProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a + b, a * b

    @staticmethod
    def backward(ctx, grad_sum, grad_product):
        a, b = ctx.saved_tensors
        return grad_sum + grad_product * b, grad_sum + grad_product * a


x = torch.tensor([1.0, 2.0, -3.0], requires_grad=True)
y = Square.apply(x)
print(y)
y.sum().backward()
print(x.grad)

x.grad = None
y = ScaleBy.apply(Square.apply(x), 3.0, "scale by three")
print(y, y.grad_fn.__class__.__name__)
y.backward(torch.tensor([1.0, 10.0, 100.0]))
print(x.grad)

x = torch.tensor([0.3, 1.7], requires_grad=True)
y = StraightThrough.apply(x * 2)
print(y)
(y * y).sum().backward()
print(x.grad)

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
total, product = SumAndProduct.apply(a, b)
print(total, product)
(total.sum() + 2 * product.sum()).backward()
print(a.grad, b.grad)
total, product = SumAndProduct.apply(a, b)
(da,) = torch.autograd.grad(product.sum(), a)
print(da)

# Twice differentiable, as backward is made of operations itself.
x = torch.tensor(3.0, requires_grad=True)
(g,) = torch.autograd.grad(Square.apply(x) * x, x, create_graph=True)
(h,) = torch.autograd.grad(g, x)
print(g.item(), h)
with torch.no_grad():
    print(Square.apply(x))
