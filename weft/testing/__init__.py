"""What tests of programs ask: whether tensors, numbers and containers of them are close."""

from weft.testing.comparison import assert_allclose, assert_close

__all__ = ["assert_allclose", "assert_close"]
