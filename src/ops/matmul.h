/// Products of strided matrices, shared by the product ops.
#pragma once
#include "tensor/tensor.h"

namespace weft::ops {

/// out[m, n] = alpha * a[m, k] b[k, n] + beta * out, all 2-D of one dtype; `out` contiguous.
/// Transposed operands are read in place; other layouts are copied first.
void gemm_into(const Tensor& out, const Tensor& a, const Tensor& b, double alpha, double beta);

}  // namespace weft::ops
