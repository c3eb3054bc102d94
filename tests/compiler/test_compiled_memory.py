"""A compiled step holds no more memory at any time than eager's, but for gradients of weights."""

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import _C, nn
from weft.nn import functional as F


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(128, 128) for _ in range(6)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + layer(x).relu()
        return x


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(64), nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        q, k, v = (part.transpose(0, 1) for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(0, 1))


def feed_forward() -> nn.Module:
    return nn.Sequential(
        *[
            nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 64))
            for _ in range(4)
        ]
    )


def convolutions() -> nn.Module:
    return nn.Sequential(
        *[
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
            for _ in range(4)
        ]
    )


def chain(x: Any) -> Any:
    for _ in range(5):
        x = (x * 1.1).sin() + x.tanh()
    return x


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "feed forward": (feed_forward, (256, 64)),
    "residual": (Residual, (512, 128)),
    "attention": (Attention, (128, 4, 64)),
    "convolutions": (convolutions, (2, 8, 64, 64)),
    "chain": (lambda: chain, (200, 200)),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_the_peak_of_a_step(name: str, grad: bool) -> None:
    def peak(compiled: bool) -> tuple[int, float]:
        make, shape = MODELS[name]
        weft.manual_seed(0)
        model = make()
        call = weft.compile(model) if compiled else model
        x = weft.randn(*shape, requires_grad=grad)
        for _ in range(4):
            if isinstance(model, nn.Module):
                model.zero_grad()
            x.grad = None
            _C._reset_peak_memory()
            before = _C._memory_stats()["current"]
            with weft.set_grad_enabled(grad):
                loss = call(x).square().mean()
                if grad:
                    loss.backward()
            most = _C._memory_stats()["peak"] - before
            value = loss.item()
            del loss
        return most, value

    of_eager, value = peak(False)
    of_compiled, found = peak(True)
    assert found == value
    assert of_compiled <= 1.05 * of_eager  # weights' gradients come at the end of a node's turn


def test_what_is_kept_goes_as_backward_goes() -> None:
    """And stays where the graph is to stay."""
    model = weft.compile(feed_forward())
    x = weft.randn(256, 64)
    for _ in range(3):
        model(x).sum().backward()
    out = model(x).sum()
    grads = []
    for retain in (True, True, False):
        model.zero_grad()
        out.backward(retain_graph=retain)
        grads.append([p.grad.tolist() for p in model.parameters()])
    assert grads[0] == grads[1] == grads[2]
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()
