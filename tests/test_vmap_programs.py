"""Random functions under vmap against the plain loop: views, writes, branches, inner transforms.

What a function reads, writes and captures is drawn with its calls. Values, gradients of examples,
gradients of the results to second order, Jacobians and what is left in captured tensors and inputs
must be the loop's; an error the loop's in type.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.base import mapping

F = weft.nn.functional


class State:
    """The values of one run, what is drawn for its next step, and what the function captures."""

    def __init__(self, values: Any, captured: Any, weight: Any) -> None:
        self.values, self.captured, self.weight = list(values), captured, weight

    def draw(self, numbers: list[int]) -> None:
        a, b, self.number = numbers
        self.x, y = self.values[a % len(self.values)], self.values[b % len(self.values)]
        if self.x.dim() > 4 or self.x.numel() > 200:
            self.x = self.x.reshape(-1)[:3]
        self.flat, self.y = self.x.reshape(-1), y.reshape(-1)
        self.dim = self.number % max(self.x.dim(), 1)


def written(t: Any, s: State) -> Any:
    t.select(s.dim, 0).mul_(s.y[0])
    return t


def without_graph(s: State) -> Any:
    with weft.no_grad():
        return s.x * 2


# A step gives a value or only writes. Those that read values come less often.
STEPS: dict[str, Callable[[State], Any]] = {
    "add": lambda s: s.x + s.y[0],
    "mul": lambda s: s.x * s.y[-1],
    "tanh": lambda s: weft.tanh(s.x),
    "sum": lambda s: s.x.sum(s.dim) if s.x.dim() else s.x.sum(),
    "select": lambda s: s.x.select(s.dim, -1) if s.x.dim() else None,
    "narrow": lambda s: s.x.narrow(s.dim, 0, max(1, s.x.shape[s.dim] - 1)) if s.x.dim() else None,
    "transpose": lambda s: s.x.transpose(0, -1) if s.x.dim() else None,
    "flatten": lambda s: s.x.reshape(-1),
    "unsqueeze": lambda s: s.x.unsqueeze(s.dim),
    "matmul": lambda s: s.flat[:2].unsqueeze(1) @ s.y[:2].unsqueeze(0),
    "add_": lambda s: s.x.add_(1.5) * 2 if s.number % 2 else s.x.clone().add_(s.y[0]),
    "mul_": lambda s: s.x.mul_(s.y[0]) * 1,
    "set": lambda s: s.x.__setitem__(0, s.y[0]) if s.x.dim() else None,
    "into a view": lambda s: written(s.x * 1, s) if s.x.dim() else None,
    "clone": lambda s: s.x.clone(),
    "detach": lambda s: s.x.detach(),
    "cat": lambda s: weft.cat([s.flat, s.y]),
    "stack": lambda s: weft.stack([s.x, s.x * 2], s.dim),
    "softmax": lambda s: F.softmax(s.x, s.dim) if s.x.dim() else None,
    "item": lambda s: s.x * s.y[0].item() if s.number % 3 == 0 else None,
    "branch": lambda s: (s.x * 2 if s.y[0] > 0 else s.x - 1) if s.number % 3 == 0 else None,
    "write around": lambda s: (
        s.captured.add_(s.flat[0].detach()) * 1 if s.number % 3 == 0 else None
    ),
    "read around": lambda s: s.x + s.captured.sum(),
    "where": lambda s: weft.where(s.x > 0, s.x, s.y[0]),
    "index": lambda s: s.flat[weft.tensor([0, -1])],
    "expand": lambda s: s.x.expand(2, *s.x.shape).sum(0),
    "max": lambda s: s.x.max(s.dim)[0] if s.x.dim() else None,
    "sort": lambda s: s.x.sort(s.dim)[0] if s.x.dim() else None,
    "cumsum": lambda s: s.x.cumsum(s.dim) if s.x.dim() else None,
    "linear": lambda s: F.linear(s.flat[:1], s.weight[:, :1], s.weight[:3, 0]),
    "zeros": lambda s: weft.zeros_like(s.x).add_(s.y[0]),
    "grad": lambda s: weft.func.grad(lambda q: (q.tanh() * s.y[0]).sum())(s.x),
    "vmap": lambda s: weft.vmap(lambda q: (q * s.y[0]).sum(), s.dim)(s.x) if s.x.dim() else None,
    "vjp": lambda s: weft.func.vjp(weft.sin, s.x)[1](s.x)[0],
    "jacrev": lambda s: weft.func.jacrev(lambda q: q.sin() * s.y[0])(s.flat[:2]),
    "norm": lambda s: s.x / (s.x.norm() + 1),
    "flip": lambda s: s.x.flip(s.dim) if s.x.dim() else None,
    "chunk": lambda s: s.x.chunk(2, s.dim)[0] if s.x.dim() else None,
    "conv": lambda s: F.conv1d(s.flat[None, None], s.weight[:1, :1, None]),
    "lookup": lambda s: s.weight[s.flat[:2].abs().long() % 3],
    "einsum": lambda s: weft.einsum("i,j->ij", s.flat[:2], s.y[:2]),
    "no_grad": without_graph,
    "constant": lambda s: weft.ones(2, dtype=weft.float64),
}


class Program:
    """A random function of one example with its inputs."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.steps = [
            (rng.choice(list(STEPS)), [rng.randrange(100) for _ in range(3)])
            for _ in range(rng.randint(2, 9))
        ]
        shapes = [rng.choice([(), (2,), (3,), (2, 3), (1, 2)]) for _ in range(rng.randint(1, 3))]
        self.dims = tuple(rng.choice([0, 0, None, -1]) if k else 0 for k in range(len(shapes)))
        size, self.seed, self.sizes = rng.randint(1, 3), seed, []
        for shape, dim in zip(shapes, self.dims, strict=True):
            at = 0 if dim == 0 else len(shape)
            self.sizes.append(shape if dim is None else (*shape[:at], size, *shape[at:]))

    def start(self) -> None:
        numbers = np.random.default_rng(self.seed)
        make = lambda size: weft.tensor(numbers.normal(size=size).tolist(), dtype=weft.float64)  # noqa: E731
        self.inputs = [make(size).reshape(size) for size in self.sizes]
        self.weight, self.captured = make((3, 3)), weft.zeros(2, dtype=weft.float64)

    def run(self, *values: Any) -> tuple[Any, ...]:
        state = State(values, self.captured, self.weight)
        for name, numbers in self.steps:
            state.draw(numbers)
            made = STEPS[name](state)
            if made is not None:
                state.values.append(made)
        return tuple(v * 1 for v in state.values[-2:])

    def apart(self, *values: Any) -> tuple[Any, ...]:
        return self.run(*(v * 1 for v in values))

    def values(self) -> list[Any]:
        return [*weft.vmap(self.run, self.dims)(*self.inputs), self.captured, *self.inputs]

    def gradients(self) -> list[Any]:
        every = tuple(range(len(self.inputs)))
        grad = weft.func.grad(lambda *v: sum(out.sum() for out in self.apart(*v)), every)
        return [*weft.vmap(grad, self.dims)(*self.inputs), self.captured]

    def graph(self) -> list[Any]:
        leaves = [t.requires_grad_() for t in (*self.inputs, self.weight)]
        out = list(weft.vmap(self.apart, self.dims)(*self.inputs))
        for _ in range(2):
            total = sum((t * t).sum() for t in out)
            if not total.requires_grad:
                break
            out += weft.autograd.grad(total, leaves, create_graph=True, materialize_grads=True)
        return out

    def jacobians(self) -> list[Any]:
        values = [
            t if d is None else t.select(d, 0)
            for t, d in zip(self.inputs, self.dims, strict=True)
        ]  # fmt: skip
        every = tuple(range(len(values)))
        found = [f(self.apart, every)(*values) for f in (weft.func.jacrev, weft.func.jacfwd)]
        return [t for rows in found for row in rows for t in row]


def outcome(program: Program, ask: str, at_once: bool) -> Any:
    mapping.enabled = at_once
    program.start()
    try:
        return getattr(program, ask)()
    except Exception as error:
        return error
    finally:
        mapping.enabled = True


@pytest.mark.parametrize("ask", ["values", "gradients", "graph", "jacobians"])
@pytest.mark.parametrize("part", range(4))
def test_vmap_is_the_loop(part: int, ask: str) -> None:
    ran = 0
    for seed in range(100 * part, 100 * part + 100):
        program = Program(seed)
        at_once, loop = outcome(program, ask, True), outcome(program, ask, False)
        told = (
            f"seed {seed}: {program.steps} of {program.sizes} by {program.dims}: {at_once}, {loop}"
        )
        if isinstance(loop, Exception) or isinstance(at_once, Exception):
            assert type(at_once) is type(loop), told
            continue
        ran += 1
        assert len(at_once) == len(loop), told
        for a, b in zip(at_once, loop, strict=True):
            assert a.shape == b.shape and a.requires_grad == b.requires_grad, told
            assert np.allclose(a.detach().numpy(), b.detach().numpy(), 1e-8, 1e-8, True), told
    assert ran > 50
