"""A program with types, which mypy reads strictly (`make lint`) and test_types.py runs.

`assert_type` says what an editor shows; each `type: ignore` is a call that has to be refused, which
mypy reports as unused if it is not.
"""

from collections.abc import Callable, Iterator
from typing import assert_type

import weft
import weft.nn.functional as F
from weft import Tensor, nn


def operators(a: Tensor, b: Tensor) -> None:
    assert_type(a + b, Tensor)
    assert_type(2 * a - 1.5, Tensor)
    assert_type(1 / a, Tensor)
    assert_type(2**a, Tensor)
    assert_type(a @ b.T, Tensor)
    assert_type(-a, Tensor)
    assert_type(a < b, Tensor)
    assert_type(a == 1, Tensor)
    assert_type(~(a > 0), Tensor)
    assert_type(a[0], Tensor)
    assert_type(a[:, None, ..., -1], Tensor)
    assert_type(len(a), int)
    assert_type(list(a), list[Tensor])
    assert_type(float(a.sum()), float)
    assert_type(abs(a), Tensor)
    a[0] = 1.0
    a += b
    assert_type(a, Tensor)


def functions(x: Tensor) -> None:
    assert_type(weft.randn(2, 3), Tensor)
    assert_type(weft.randn((2, 3), dtype=weft.float64, requires_grad=True), Tensor)
    assert_type(weft.zeros(2, device="cpu"), Tensor)
    assert_type(x.view(2, -1), Tensor)
    assert_type(x.view([2, -1]), Tensor)
    assert_type(x.permute(1, 0).reshape(-1), Tensor)
    assert_type(x.max(), Tensor)
    values, _ = x.max(0)
    assert_type(values, Tensor)
    assert_type(x.sort(dim=1).indices, Tensor)
    assert_type(x.topk(1).values, Tensor)
    assert_type(x.sum(0, keepdim=True), Tensor)
    assert_type(x.split(1), tuple[Tensor, ...])
    assert_type(x.shape, weft.Size)
    assert_type(x.shape[0], int)
    assert_type(x.size(0), int)
    assert_type(x.dtype, weft.dtype)
    assert_type(x.device, weft.device)
    assert_type(x.requires_grad, bool)
    assert_type(x.clamp(min=0), Tensor)
    assert_type(x.add_(1), Tensor)
    assert_type(x.to(weft.float64).float(), Tensor)
    assert_type(weft.where(x > 0, x, 0), Tensor)
    assert_type(weft.where(x > 0), tuple[Tensor, ...])
    assert_type(weft.quantile(x, 0.5), Tensor)
    assert_type(weft.quantile(x, 0.5, out=weft.empty(())), Tensor)
    assert_type(x.quantile(0.5), Tensor)
    assert_type(weft.cat([x, x], dim=0, out=weft.empty(0)), Tensor)
    assert_type(weft.einsum("ij->ji", x), Tensor)
    assert_type(weft.linalg.svd(x).S, Tensor)
    assert_type(weft.fft.fft(x), Tensor)
    assert_type(F.relu(x), Tensor)


def modules(x: Tensor) -> None:
    """A call of a Module is one of its `forward`."""
    assert_type(nn.Linear(3, 4)(x), Tensor)
    assert_type(nn.ReLU()(x), Tensor)
    assert_type(Net()(x), Tensor)
    assert_type(nn.Linear(3, 4)(input=x).relu(), Tensor)
    loss = weft.tensor(0.0, requires_grad=True)
    assert_type(weft.autograd.grad(loss, [loss]), tuple[Tensor, ...])
    assert_type(weft.autograd.grad(loss, [x], allow_unused=True), tuple[Tensor | None, ...])


@weft.autobatch
def halves(x: Tensor) -> Tensor:
    return x / 2


def batches(x: Tensor) -> None:
    assert_type(halves([x, x]), list[Tensor])
    assert_type(weft.autobatch.enabled, bool)


def refused(x: Tensor) -> Iterator[Callable[[], object]]:
    """Calls that raise, and that a type checker refuses."""
    yield lambda: weft.relu("x")  # type: ignore[arg-type]
    yield lambda: x.view("x")  # type: ignore[arg-type]
    yield lambda: x.no_such_method()  # type: ignore[attr-defined]
    yield lambda: weft.no_such_function(x)  # type: ignore[attr-defined]
    yield lambda: weft.quantile(x)  # type: ignore[call-overload]
    yield lambda: x + "a"  # type: ignore[operator]
    yield lambda: nn.Linear(3, 4)(x, 1)  # type: ignore[call-arg]
    yield lambda: Net()("x")  # type: ignore[arg-type]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        self.scale = nn.Parameter(weft.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out * self.scale


@weft.no_grad()
def evaluate(net: Net, x: Tensor) -> float:
    return float(net(x).mean())


@weft.no_grad
def evaluate_too(net: Net, x: Tensor) -> float:
    return float(net(x).mean())


def train(steps: int) -> float:
    net = Net()
    optimizer = weft.optim.Adam(net.parameters(), lr=0.01)
    x, y = weft.randn(8, 3), weft.randn(8, 1)
    loss = weft.tensor(0.0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
    assert_type(evaluate(net, x), float)
    assert_type(evaluate_too(net, x), float)
    state = net.state_dict()
    net.load_state_dict(state)
    return loss.item()


if __name__ == "__main__":
    operators(weft.ones(2, 3), weft.ones(2, 3))
    functions(weft.randn(2, 3))
    modules(weft.randn(2, 3, requires_grad=True))
    batches(weft.ones(3))
    for call in refused(weft.ones(2, 3)):
        try:
            call()
        except (TypeError, AttributeError):
            continue
        raise AssertionError("a refused call ran")
    print(train(2))
