"""Modules whose parts examples add, replace and take away, after they have read values: such a
change is one of what examples share, in the loop's order; modules of their own change freely."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn


class Net(nn.Module):
    def __init__(self, spare: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2)])
        self.named = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Tanh()})
        self.chain = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        self.register_buffer("state", weft.zeros(2))
        self.register_buffer("extra", None)
        self.scale = nn.Parameter(weft.ones(2))
        self.spare = [spare]  # not registered: layers made beforehand
        self.handles: list[Any] = []

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x).tanh()
        for layer in self.named.values():
            x = layer(x)
        x = self.chain(x) * self.scale + self.state
        return x if self.extra is None else x + self.extra


def halve(module: nn.Module, given: Any, out: Any) -> Any:
    return out * 0.5


CHANGES: dict[str, Callable[[Net, nn.Module, float], None]] = {
    "append": lambda net, new, v: net.layers.append(new) and None,
    "insert": lambda net, new, v: net.layers.insert(0, new),
    "replace an item": lambda net, new, v: len(net.layers) and net.layers.__setitem__(0, new),
    "delete an item": lambda net, new, v: net.layers.__delitem__(slice(1, None)),
    "pop": lambda net, new, v: len(net.layers) and net.layers.pop(0) and None,
    "add to a dict": lambda net, new, v: net.named.update({f"k{len(net.named)}": new}),
    "pop of a dict": lambda net, new, v: net.named and net.named.pop([*net.named][0]),
    "clear a dict": lambda net, new, v: net.named.clear(),
    "append to a chain": lambda net, new, v: net.chain.append(new) and None,
    "delete of a chain": lambda net, new, v: net.chain.__delitem__(0) if len(net.chain) else None,
    "module": lambda net, new, v: setattr(net, "chain", nn.Sequential(new)),
    "parameter": lambda net, new, v: setattr(net, "scale", nn.Parameter(weft.full((2,), v))),
    "register a parameter": lambda net, new, v: net.register_parameter(
        "scale", nn.Parameter(weft.full((2,), v))),
    "buffer": lambda net, new, v: setattr(net, "state", net.state + v),
    "register a buffer": lambda net, new, v: net.register_buffer("state", weft.full((2,), v)),
    "first buffer": lambda net, new, v: setattr(net, "extra", weft.full((2,), v)),
    "no buffer": lambda net, new, v: setattr(net, "extra", None),
    "hook": lambda net, new, v: net.handles.append(net.chain.register_forward_hook(halve)),
    "hook before": lambda net, new, v: net.handles.append(
        net.chain.register_forward_pre_hook(lambda m, given: (given[0] + 1,))),
    "remove a hook": lambda net, new, v: net.handles.pop().remove() if net.handles else None,
    "convert": lambda net, new, v: net.double() and net.float() and None,
}  # fmt: skip


def outcome(changes: list[str], batched: bool, seed: int) -> Any:
    weft.manual_seed(seed)
    net = Net([])
    rng = random.Random(seed)
    spare = [nn.Linear(2, 2) for _ in range(20)]
    xs = [weft.randn(2) for _ in range(8)]
    which = [rng.choice([None, *changes]) for _ in xs]

    def one(k: int) -> Any:
        y = net(xs[k])
        high = y.sum().item() > 0
        if (name := which[k]) is not None and (high or rng_free[k]):
            CHANGES[name](net, spare[k], y[0].item())
        return net(xs[k]).sum().detach() + y.sum().detach()

    rng_free = [rng.random() < 0.7 for _ in xs]
    runs = []
    for _ in range(2):
        keys = list(range(len(xs)))
        runs.append(weft.autobatch(one)(keys) if batched else [one(k) for k in keys])
    return [[round(v.item(), 4) for v in run] for run in runs], sorted(net.state_dict())


def same(changes: list[str], seed: int) -> None:
    """The loop's results, or a warning that an example came too late."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got = outcome(changes, True, seed)
    if not any("came too late" in str(w.message) for w in seen):
        assert got == outcome(changes, False, seed)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_shared_module_is_the_loops(name: str) -> None:
    for seed in range(4):
        same([name], seed)


@pytest.mark.parametrize("seed", range(20))
def test_random_changes(seed: int) -> None:
    same(random.Random(seed).sample(list(CHANGES), 4), seed)


def test_a_network_that_grows_by_a_ready_made_layer() -> None:
    """Other results from the third example on, without a warning."""
    weft.manual_seed(0)
    spare = [nn.Linear(2, 2) for _ in range(10)]
    xs = [weft.randn(2) for _ in range(10)]

    def runs(batched: bool) -> list[float]:
        layers = nn.ModuleList()

        def one(k: int) -> Any:
            h = xs[k]
            for layer in layers:
                h = layer(h).tanh()
            if h.sum().item() > -100:
                layers.append(spare[k])
            for layer in layers:
                h = layer(h).tanh()
            return h.sum()

        found = weft.autobatch(one)(range(10)) if batched else [one(k) for k in range(10)]
        return [round(v.item(), 5) for v in found]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert runs(True) == runs(False)


@pytest.mark.parametrize("make", ["new", "copy"])
def test_modules_of_an_example_change_freely(make: str) -> None:
    """They do not make the examples a plain loop."""
    shared = nn.Sequential(nn.Linear(2, 2))
    began: list[int] = []

    def one(k: int) -> Any:
        began.append(k)
        own = nn.Sequential() if make == "new" else copy.deepcopy(shared)
        x = weft.ones(2) * k
        if x.sum().item() >= 0:
            own.append(nn.Tanh())
            own.register_forward_hook(halve)
            own.register_buffer("b", x)
        began.append(k)
        return own(x).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = weft.autobatch(one)([0, 1, 2, 3])
    assert began == [0, 0, 1, 2, 3, 1, 2, 3]  # the first on probation, the others together
    assert [v.item() for v in found] == [one(k).item() for k in range(4)]
