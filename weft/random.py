"""Seeds and states of the random generator: PyTorch's CPU numbers, bit for bit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from weft._C import Generator, Tensor, default_generator
from weft.base.device import device

__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed",
    "seed", "set_rng_state",
]  # fmt: skip


def manual_seed(seed: int) -> Generator:
    """Restarts the generator: the same seed gives PyTorch's numbers.

    >>> _ = weft.manual_seed(0)
    >>> weft.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Restarts the generator from the system's randomness and returns the seed.

    >>> weft.seed() == weft.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed the generator was last started from.

    >>> _ = weft.manual_seed(3)
    >>> weft.initial_seed()
    3
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The generator's state: [5056] uint8, the bytes of PyTorch's.

    >>> weft.get_rng_state().shape
    torch.Size([5056])
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Puts back a state that `get_rng_state` gave. Raises RuntimeError for anything else.

    A uint8 tensor [5056].

    >>> state = weft.get_rng_state()
    >>> a = weft.rand(2)
    >>> weft.set_rng_state(state)
    >>> weft.equal(a, weft.rand(2))
    True
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: object = None,
    enabled: bool = True,
    *,
    device_type: str | device = "cpu",
) -> Iterator[None]:
    """Draws inside the scope leave the generator outside as it was.

    Args:
        devices: other generators than the CPU's, of which there are none.
        enabled: whether it does.
        device_type: what kind of device those would be.

    >>> with weft.random.fork_rng():
    ...     _ = weft.rand(2)
    """
    device(device_type)
    state = default_generator.get_state()
    try:
        yield
    finally:
        if enabled:
            default_generator.set_state(state)
