"""What the laws over the table share: samples as calls of either library, and PyTorch's functions.

A sample is a call as Python text: `f` is the op, T(*sizes, lo=, hi=) a float tensor, I(*sizes,
high=) int64, B(*sizes) bool.
"""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft import _C, _library_ops

RECORDS = {r["name"]: r for r in _library_ops.records()}
CASES = [(name, sample) for name, r in RECORDS.items() for sample in r["samples"]]
IDS = [f"{name}-{sample}" for name, sample in CASES]


class Inputs:
    """The T, I and B of a sample for one library; the same numbers for every library."""

    def __init__(
        self, lib: Any, dtype: str, sample: str, *, grad: bool = False, strided: bool = False
    ) -> None:
        self.lib, self.dtype, self.grad, self.strided = lib, dtype, grad, strided
        self.rng = np.random.default_rng(zlib.crc32(sample.encode()))
        self.leaves: list[Any] = []
        self.made: list[Any] = []

    def _tensor(self, values: Any, dtype: str) -> Any:
        kind = getattr(self.lib, dtype)
        values = np.asarray(values)
        if self.strided and values.ndim:
            wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
            wide[..., ::2] = values
            t = self.lib.tensor(wide.tolist(), dtype=kind).reshape(wide.shape)[..., ::2]
        else:
            t = self.lib.tensor(values.tolist(), dtype=kind).reshape(values.shape)
        self.made.append(t)
        return t

    def T(self, *sizes: int, lo: float = -2, hi: float = 2) -> Any:
        t = self._tensor(self.rng.uniform(lo, hi, sizes), self.dtype).detach()
        if self.grad:
            self.leaves.append(t.requires_grad_())
        return t

    def I(self, *sizes: int, high: int = 5) -> Any:  # noqa: E743
        return self._tensor(self.rng.integers(0, high, sizes), "int64")

    def B(self, *sizes: int) -> Any:
        return self._tensor(self.rng.random(sizes) < 0.5, "bool")

    def run(self, f: Callable[..., Any], sample: str) -> list[Any]:
        names = {"f": f, "T": self.T, "I": self.I, "B": self.B, "weft": self.lib, "torch": self.lib}
        self.lib.manual_seed(7)
        return flat(eval(sample, names))  # noqa: S307


def flat(out: Any) -> list[Any]:
    return [t for part in out for t in flat(part)] if isinstance(out, (tuple, list)) else [out]


def ours(record: dict[str, Any]) -> Callable[..., Any]:
    """The op as Python sees it."""
    return record["call"] if "call" in record else getattr(_C.ops, record["public_name"])


def peer(torch: Any, record: dict[str, Any]) -> Callable[..., Any] | None:
    """PyTorch's function of the same public name."""
    name = record["public_name"]
    if "call" in record:  # a library's op stands behind a public function of its own checks
        home, _, name = name.rpartition(".")
        return getattr(getattr(torch, home, torch), name, None)
    if name.startswith("special_"):
        return getattr(torch.special, name.removeprefix("special_"))
    if name.startswith("linalg_"):
        return getattr(torch.linalg, name.removeprefix("linalg_"), None)
    homes = [torch, torch.nn.functional, torch.Tensor, torch.linalg]
    if "str reduction" in record["schema"]:  # torch.kl_div and its like take reduction as a number
        homes = [torch.nn.functional]
    if not record["function"] and record["method"]:
        homes = [torch.Tensor]
    return next((getattr(home, name) for home in homes if hasattr(home, name)), None)


def needs_peer(torch: Any, name: str) -> Callable[..., Any]:
    f = peer(torch, RECORDS[name])
    if f is None or name in NO_PEER:
        pytest.skip("no function of this name and signature in PyTorch")
    return f


# Records whose public name PyTorch has with another signature, and what weft does on purpose.
NO_PEER = {
    "_softmax_backward_data",  # PyTorch's takes the input's dtype as well
    "_log_softmax_backward_data",
    "index_put.plain",  # values before indices
    "index",  # torch.Tensor.index is not callable like this; see tests/tensor/test_tensor.py
    "gru_cell",  # without biases PyTorch's function cannot be called with two weights alone
}
