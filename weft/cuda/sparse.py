"""Types of sparse tensors on a GPU: no tensor is of one, and making one raises."""

from weft.cuda.types import typed

__all__ = [
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip

BFloat16Tensor = typed("sparse.BFloat16Tensor")
ByteTensor = typed("sparse.ByteTensor")
CharTensor = typed("sparse.CharTensor")
DoubleTensor = typed("sparse.DoubleTensor")
FloatTensor = typed("sparse.FloatTensor")
HalfTensor = typed("sparse.HalfTensor")
IntTensor = typed("sparse.IntTensor")
LongTensor = typed("sparse.LongTensor")
ShortTensor = typed("sparse.ShortTensor")
