"""What tests of programs ask: tensors for them, and whether tensors and containers are close."""

from weft.testing.comparison import assert_allclose, assert_close
from weft.testing.making import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
