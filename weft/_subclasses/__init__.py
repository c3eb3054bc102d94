"""PyTorch's tensors without values, by name: weft traces with values, and has none."""

from weft._subclasses import fake_tensor as fake_tensor
from weft._subclasses.fake_tensor import FakeTensor as FakeTensor
from weft._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode", "fake_tensor"]
