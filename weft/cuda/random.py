"""Random numbers of a GPU: there is no generator to seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft._C import Tensor
from weft.base.absent import raises

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip

get_rng_state = initial_seed = raises(AssertionError, "Torch not compiled with CUDA enabled")


def manual_seed(seed: int) -> None:
    """Nothing to seed without a GPU; `weft.manual_seed` seeds the CPU's generator."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed without a GPU."""


def seed() -> None:
    """Nothing to seed without a GPU."""


def seed_all() -> None:
    """Nothing to seed without a GPU."""


def get_rng_state_all() -> list[Tensor]:
    """No states: there are no GPUs."""
    return []


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Nothing to set without a GPU."""


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Nothing to set for no GPUs. AssertionError for the state of one."""
    for _ in new_states:
        raise AssertionError(
            "[set_rng_state_all] expected no states, got one (Torch not compiled with CUDA enabled)"
        )
