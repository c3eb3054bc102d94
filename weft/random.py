"""Seeds and states of the random generator: PyTorch's CPU numbers, bit for bit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from weft import _C
from weft._C import Tensor

__all__ = [
    "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]  # fmt: skip


class _DefaultGenerator:
    """The generator all random ops draw from."""

    device = "cpu"

    def manual_seed(self, seed: int) -> _DefaultGenerator:
        """Restarts it from `seed`."""
        if not -0x8000000000000000 <= int(seed) <= 0xFFFFFFFFFFFFFFFF:
            raise RuntimeError(f"[manual_seed] expected a seed of 64 bits, got {seed}")
        _C._manual_seed(int(seed))
        return self

    def seed(self) -> int:
        """Restarts it from the system's randomness and returns the seed."""
        value = _C._entropy_seed()
        _C._manual_seed(value)
        return value

    def initial_seed(self) -> int:
        """The seed it was last started from."""
        return _C._initial_seed()

    def get_state(self) -> Tensor:
        """Its state, as `get_rng_state` gives it."""
        return get_rng_state()

    def set_state(self, state: Tensor) -> _DefaultGenerator:
        """Puts a state back."""
        set_rng_state(state)
        return self


default_generator = _DefaultGenerator()


def manual_seed(seed: int) -> _DefaultGenerator:
    """Restarts the generator: the same seed gives PyTorch's numbers.

    >>> _ = weft.manual_seed(0)
    >>> weft.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Restarts the generator from the system's randomness and returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed the generator was last started from."""
    return _C._initial_seed()


def get_rng_state() -> Tensor:
    """The generator's state: [5056] int64, a byte of PyTorch's state in each."""
    return _C.tensor(list(_C._get_rng_state()))


def set_rng_state(new_state: Tensor) -> None:
    """Puts back a state that `get_rng_state` gave. Raises RuntimeError for anything else."""
    values = new_state.tolist()
    if not all(0 <= v < 256 for v in values):
        raise RuntimeError("[set_rng_state] expected bytes from get_rng_state, got other numbers")
    _C._set_rng_state(bytes(values))


@contextlib.contextmanager
def fork_rng(devices: object = None, enabled: bool = True) -> Iterator[None]:
    """Draws inside the scope leave the generator outside as it was."""
    state = _C._get_rng_state()
    try:
        yield
    finally:
        if enabled:
            _C._set_rng_state(state)
