"""Points that fill a cube more evenly than random ones: `weft.quasirandom.SobolEngine`.

The direction numbers are those of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better
two-dimensional projections" (2008), from the table that SciPy carries.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import weft
from weft import Tensor

__all__ = ["SobolEngine"]

_BITS = 30


@cache
def _table() -> tuple[Any, Any]:
    """Polynomials and initial direction numbers, a row for each dimension."""
    import numpy as np
    import scipy.stats

    folder = os.path.dirname(scipy.stats.__file__)
    with np.load(os.path.join(folder, "_sobol_direction_numbers.npz")) as kept:
        return kept["poly"], kept["vinit"]


def _directions(dimension: int) -> Any:
    """[dimension, 30] int64: v[d, j] is what bit j of a point's number adds to coordinate d."""
    import numpy as np

    polynomials, initial = (rows[:dimension].astype(np.int64) for rows in _table())
    degrees = np.floor(np.log2(np.maximum(polynomials, 1))).astype(np.int64)
    m = np.ones((dimension, _BITS), dtype=np.int64)
    for degree in range(1, int(degrees.max()) + 1):
        rows = np.flatnonzero(degrees == degree)
        coefficients, row = polynomials[rows], m[rows]
        row[:, :degree] = initial[rows, :degree]
        for j in range(degree, _BITS):
            row[:, j] = row[:, j - degree]
            for k in range(degree):
                wanted = coefficients >> (degree - 1 - k) & 1
                row[:, j] ^= wanted * (row[:, j - k - 1] << (k + 1))
        m[rows] = row
    return m << np.arange(_BITS - 1, -1, -1)


class SobolEngine:
    """Draws the points of a Sobol sequence one after the other.

    Args:
        dimension: of the points, up to 21201.
        scramble: mix them by random matrices and a random shift (Owen; Matoušek).
        seed: of that mixing; None takes another each time.

    Raises: ValueError for a dimension out of range.

    >>> weft.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self._v = _directions(dimension)
        self._shift: Any = self._v[:, 0] * 0
        if scramble:
            self._scramble()
        self.reset()

    def _scramble(self) -> None:
        import numpy as np

        generator = None
        if self.seed is not None:
            generator = weft.Generator()
            generator.manual_seed(self.seed)
        size = (self.dimension, _BITS)
        shift = weft.randint(2, size, generator=generator).numpy()
        mixing = weft.randint(2, (*size, _BITS), generator=generator).tril().numpy()
        powers = 1 << np.arange(_BITS, dtype=np.int64)
        self._shift = shift @ powers
        # Row p of the mixing gives bit 29 - p of a direction number: a sum of its bits, modulo 2.
        bits = self._v[:, :, None] >> np.arange(_BITS) & 1
        rows = mixing.copy()
        rows[:, np.arange(_BITS), np.arange(_BITS)] = 1
        mixed = bits[:, :, ::-1] @ rows.transpose(0, 2, 1) % 2
        self._v = mixed @ powers[::-1]

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `n` points, (n, dimension) in [0, 1)."""
        import numpy as np

        numbers = np.arange(self.num_generated, self.num_generated + n, dtype=np.int64)
        steps = np.zeros((n, self.dimension), dtype=np.int64)
        if n:
            steps[0] = self._point(self.num_generated)
            # From one point to the next one bit of the Gray code changes: the lowest zero bit.
            lowest = ~numbers[:-1] & (numbers[:-1] + 1)
            steps[1:] = self._v.T[np.log2(lowest).astype(np.int64)]
            steps = np.bitwise_xor.accumulate(steps, axis=0)
        self.num_generated += n
        kind = weft.get_default_dtype() if dtype is None else dtype
        points: Tensor = weft.from_numpy(steps).to(kind) / 2**_BITS
        if out is None:
            return points
        return out.resize_(points.shape).copy_(points)

    def _point(self, number: int) -> Any:
        import numpy as np

        gray = number ^ (number >> 1)
        chosen = [j for j in range(_BITS) if gray >> j & 1]
        return np.bitwise_xor.reduce(self._v[:, chosen], axis=1, initial=0) ^ self._shift

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2**m points. ValueError where the count of all drawn is then no power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please "
                "use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Starts again with the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves the next `n` points out."""
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"SobolEngine({', '.join(parts)})"
