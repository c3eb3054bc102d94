"""`Dim` and its like, under the path of PyTorch's file."""

from weft.export.dims import AdditionalInputs, Dim, ShapesCollection, dims

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims"]
