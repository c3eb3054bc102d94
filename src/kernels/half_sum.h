/// Sums of float16 and bfloat16, in float.
#pragma once
#include "kernels/reduce.h"

namespace weft::kernels {

/// y = the sum of the halves at x along the axis, over `divisor`, as kernels/reduce.h says of floats.
void sum_halves(const void* x, bool bfloat16, float* y, Axis axis, double divisor);

}  // namespace weft::kernels
