// The largest and smallest numbers of the dtypes, as ops compare their arguments with them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tensor/dtype.h"

namespace weft::ops {

/// The largest and the smallest number of an integer dtype or bool that an int64 holds.
inline int64_t largest_of(DType t) {
    if (t == DType::Bool) return 1;
    int bits = 8 * item_size(t) + is_unsigned(t);
    bits = std::min(bits, 64);  // more in uint64 and in complex128, whose parts are drawn
    return std::numeric_limits<int64_t>::max() >> (64 - bits);
}
inline int64_t smallest_of(DType t) {
    return t == DType::Bool || is_unsigned(t) ? 0 : -largest_of(t) - 1;
}

/// The largest finite number of a floating dtype; any other dtype has that of float64, which its
/// numbers are compared in.
constexpr double largest_floating(DType t) {
    switch (t) {
        case DType::Float16:
            return 65504;
        case DType::BFloat16:
            return 0x1.fep127;
        case DType::Float8E4M3FN:
            return 448;
        case DType::Float8E4M3FNUZ:
            return 240;
        case DType::Float8E5M2:
        case DType::Float8E5M2FNUZ:
            return 57344;
        case DType::Float8E8M0FNU:
            return 0x1p127;
        case DType::Float32:
            return std::numeric_limits<float>::max();
        default:
            return std::numeric_limits<double>::max();
    }
}

}  // namespace weft::ops
