"""What the examples take of scikit-learn, which has no types."""

from typing import Any

import numpy as np

class Digits:
    data: np.ndarray[Any, np.dtype[np.float64]]
    images: np.ndarray[Any, np.dtype[np.float64]]
    target: np.ndarray[Any, np.dtype[np.int64]]

def load_digits() -> Digits: ...
