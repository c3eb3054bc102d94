"""Which kernels `scaled_dot_product_attention` may use. weft has one, by blocks, for every call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """PyTorch's kernels by name. FLASH_ATTENTION is nearest to weft's own.

    >>> weft.nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """A scope for attention by some of PyTorch's kernels, which differ in speed, not in meaning.

    weft's one kernel serves in their place: the scope checks its arguments, and changes nothing.

    Raises: AssertionError for what is no SDPBackend.

    >>> with weft.nn.attention.sdpa_kernel(weft.nn.attention.SDPBackend.MATH):
    ...     x = weft.ones(1, 2, 4)
    ...     weft.nn.functional.scaled_dot_product_attention(x, x, x).shape
    torch.Size([1, 2, 4])
    """
    given = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(given, (list, tuple)) or not all(isinstance(b, SDPBackend) for b in given):
        raise AssertionError(
            f"[sdpa_kernel] expected an SDPBackend or a list of them, got {backends!r} (Backend "
            "must be an instance of SDPBackend or a list of SDPBackend instances)"
        )
    yield
