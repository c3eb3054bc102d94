/// Shapes, strides and broadcasting; no data.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/small_vector.h"

namespace weft {

using Dims = SmallVector<int64_t, 6>;
using DimSpan = std::span<const int64_t>;

inline constexpr int kMaxDims = 64;

std::string to_string(DimSpan dims);  // "[2, 3]"

/// Product of the sizes. Throws if it (times `item` bytes) does not fit in 63 bits.
int64_t count_elements(std::string_view op, DimSpan shape, int64_t item = 1);

/// Row-major strides of a dense tensor.
Dims contiguous_strides(DimSpan shape);
bool is_contiguous(DimSpan shape, DimSpan strides);
/// No two indices share an element and there is no gap (a permutation of a dense layout).
bool is_dense(DimSpan shape, DimSpan strides);
/// The first dim along which every index shows the same element, as expand() makes them; -1: none.
int repeated_dim(DimSpan shape, DimSpan strides);

/// PyTorch's broadcasting. Throws Runtime with both shapes.
Dims broadcast(std::string_view op, DimSpan a, DimSpan b);

/// A dim in [-n, n) as one in [0, n); a 0-d tensor counts as one dim. Throws Index.
int wrap_dim(std::string_view op, int64_t dim, int n);

inline bool equal(DimSpan a, DimSpan b) {
    if (a.size() != b.size()) return false;
    for (size_t d = 0; d < a.size(); ++d)  // few: std::equal's call of memcmp takes longer
        if (a[d] != b[d]) return false;
    return true;
}

}  // namespace weft
