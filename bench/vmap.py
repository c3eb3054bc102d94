"""Functions of one example over a batch: per-sample gradients, Jacobians, Hessians, plain calls."""

import functools

import harness


def of_samples(torch, loss, params, batch):
    """The gradients of each sample's loss."""
    step = torch.func.vmap(torch.func.grad(loss), (None, *[0] * len(batch)))

    def run():
        return step(params, *batch)[0]

    return run


def mlp(torch, batch):
    linear, loss_of = torch.nn.functional.linear, torch.nn.functional.cross_entropy
    params = [
        torch.randn(64, 32) * 0.1,
        torch.zeros(64),
        torch.randn(10, 64) * 0.1,
        torch.zeros(10),
    ]

    def loss(p, x, y):
        return loss_of(linear(torch.tanh(linear(x, p[0], p[1])), p[2], p[3])[None], y[None])

    samples = torch.randn(batch, 32), torch.randint(0, 10, (batch,))
    return of_samples(torch, loss, params, samples)


def conv_net(torch, batch):
    F = torch.nn.functional
    params = [
        torch.randn(8, 1, 3, 3) * 0.1, torch.zeros(8), torch.randn(16, 8, 3, 3) * 0.1,
        torch.zeros(16), torch.randn(10, 16) * 0.1, torch.zeros(10),
    ]  # fmt: skip

    def loss(p, x, y):
        h = F.max_pool2d(F.relu(F.conv2d(x[None], p[0], p[1], padding=1)), 2)
        h = F.relu(F.conv2d(h, p[2], p[3], padding=1)).mean((2, 3))
        return F.cross_entropy(F.linear(h, p[4], p[5]), y[None])

    samples = torch.randn(batch, 1, 8, 8), torch.randint(0, 10, (batch,))
    return of_samples(torch, loss, params, samples)


def rnn(torch, batch):
    linear = torch.nn.functional.linear
    params = [torch.randn(32, 16) * 0.1, torch.randn(32, 32) * 0.1, torch.zeros(32)]

    def loss(p, x):
        h = torch.zeros(32)
        for k in range(10):
            h = torch.tanh(linear(x[k], p[0], p[2]) + linear(h, p[1]))
        return (h**2).sum()

    return of_samples(torch, loss, params, (torch.randn(batch, 10, 16),))


def jacobian(torch, of):
    x, weight = torch.randn(32), torch.randn(32, 32) * 0.1
    step = getattr(torch.func, of)(lambda x: torch.tanh(weight @ torch.tanh(weight @ x)))
    return lambda: step(x)


def logistic_hessian(torch, size):
    x, y, w = torch.randn(100, size), torch.randint(0, 2, (100,)).float(), torch.randn(size)
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    step = torch.func.hessian(lambda w: loss(x @ w, y))
    return lambda: step(w)


def mlp_hessian(torch):
    x, p = torch.randn(20, 16), torch.randn(16 * 3 + 3) * 0.3

    def loss(p):
        return (torch.tanh(x @ p[:48].view(16, 3)) @ p[48:]).pow(2).mean()

    step = torch.func.hessian(loss)
    return lambda: step(p)


def plain(torch, op, *shape):
    x = torch.randn(64, *shape)
    step = torch.func.vmap(getattr(torch, op))
    return lambda: step(x, x)


ROWS = [
    *(
        harness.Row(
            f"gradients of {batch} samples, {name}", functools.partial(make, batch=batch), ratio=1
        )
        for name, make in (("MLP 32-64-10", mlp), ("conv net", conv_net), ("RNN, 10 steps", rnn))
        for batch in (8, 64, 256)
    ),
    harness.Row("jacrev, MLP 32-32-32", functools.partial(jacobian, of="jacrev"), ratio=1),
    harness.Row("jacfwd, MLP 32-32-32", functools.partial(jacobian, of="jacfwd"), ratio=1),
    *(
        harness.Row(
            f"hessian, logistic regression of {size} weights",
            functools.partial(logistic_hessian, size=size),
            ratio=1,
        )
        for size in (16, 64)
    ),
    harness.Row("hessian, MLP of 51 weights", mlp_hessian, ratio=1),
    harness.Row("vmap of dot, 64 of 32", lambda torch: plain(torch, "dot", 32), ratio=1),
    harness.Row("vmap of mm, 64 of 16 x 16", lambda torch: plain(torch, "mm", 16, 16), ratio=1),
]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)
