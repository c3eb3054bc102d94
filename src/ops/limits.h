// The largest and smallest numbers of the dtypes, as ops compare their arguments with them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tensor/dtype.h"

namespace weft::ops {

/// The largest and the smallest number of an integer dtype or bool.
inline int64_t largest_of(DType t) {
    if (t == DType::Bool) return 1;
    if (t == DType::UInt8) return 255;
    int bits = std::min(8 * item_size(t), 64);  // more in complex128, whose parts are drawn
    return std::numeric_limits<int64_t>::max() >> (64 - bits);
}
inline int64_t smallest_of(DType t) {
    return t == DType::Bool || t == DType::UInt8 ? 0 : -largest_of(t) - 1;
}

/// The largest finite number of a floating dtype; any other dtype has that of float64, which its
/// numbers are compared in.
constexpr double largest_floating(DType t) {
    switch (t) {
        case DType::Float16:
            return 65504;
        case DType::BFloat16:
            return 0x1.fep127;
        case DType::Float32:
            return std::numeric_limits<float>::max();
        default:
            return std::numeric_limits<double>::max();
    }
}

}  // namespace weft::ops
