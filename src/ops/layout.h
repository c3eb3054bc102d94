/// How the result of several operands lies in memory.
#pragma once
#include "tensor/tensor.h"

namespace weft::ops {

/// Row-major strides of `shape`, its dims in the order in which they lie in the operands' memory, which
/// broadcast to it: the first operand that tells two dims apart orders them, as in PyTorch.
Dims strides_in_order(DimSpan shape, const Tensor* in, int inputs);

}  // namespace weft::ops
