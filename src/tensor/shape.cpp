#include "tensor/shape.h"

#include <algorithm>
#include <numeric>

namespace weft {

std::string to_string(DimSpan dims) {
    std::string out = "[";
    for (size_t i = 0; i < dims.size(); ++i) {
        if (i) out += ", ";
        out += std::to_string(dims[i]);
    }
    return out + "]";
}

int64_t count_elements(std::string_view op, DimSpan shape, int64_t item) {
    int64_t count = 1;
    bool overflow = false;
    bool empty = false;
    for (int64_t size : shape) {
        WEFT_EXPECT(size >= 0, Runtime, op, "sizes of at least 0",
                    text(size, " (Trying to create tensor with negative dimension ", size, ": ",
                         to_string(shape), ")"));
        if (size == 0) {
            empty = true;
            continue;
        }
        overflow |= __builtin_mul_overflow(count, size, &count);
    }
    if (empty) return 0;
    int64_t bytes;
    overflow |= __builtin_mul_overflow(count, item, &bytes);
    WEFT_EXPECT(!overflow, Runtime, op,
                item > 1 ? "a tensor of less than 2**63 bytes" : "less than 2**63 elements",
                text("sizes ", to_string(shape),
                     item > 1 ? " (Storage size calculation overflowed)"
                              : " (numel: integer multiplication overflow)"));
    return count;
}

Dims contiguous_strides(DimSpan shape) {
    Dims strides(static_cast<int>(shape.size()));
    int64_t step = 1;
    for (int d = strides.size() - 1; d >= 0; --d) {
        strides[d] = step;
        bool overflow = __builtin_mul_overflow(step, std::max<int64_t>(shape[d], 1), &step);
        WEFT_EXPECT(!overflow || d == 0, Runtime, "tensor", "strides of less than 2**63",
                    text("sizes ", to_string(shape), " (Stride calculation overflowed)"));
    }
    return strides;
}

bool is_contiguous(DimSpan shape, DimSpan strides) {
    int64_t step = 1;
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
        if (shape[d] == 0) return true;
        if (shape[d] != 1 && strides[d] != step) {
            // an empty tensor is contiguous whatever its strides
            return std::find(shape.begin(), shape.end(), 0) != shape.end();
        }
        step *= shape[d];
    }
    return true;
}

bool is_dense(DimSpan shape, DimSpan strides) {
    Dims order(static_cast<int>(shape.size()));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return strides[a] < strides[b]; });
    int64_t step = 1;
    for (int64_t d : order) {
        if (shape[d] == 0) return true;
        if (shape[d] == 1) continue;
        if (strides[d] != step) return false;
        step *= shape[d];
    }
    return true;
}

int repeated_dim(DimSpan shape, DimSpan strides) {
    for (size_t d = 0; d < shape.size(); ++d)
        if (strides[d] == 0 && shape[d] > 1) return static_cast<int>(d);
    return -1;
}

Dims broadcast(std::string_view op, DimSpan a, DimSpan b) {
    const DimSpan& big = a.size() >= b.size() ? a : b;
    const DimSpan& small = a.size() >= b.size() ? b : a;
    Dims out(big);
    size_t shift = big.size() - small.size();
    for (size_t i = small.size(); i-- > 0;) {
        int64_t x = big[shift + i], y = small[i];
        WEFT_EXPECT(x == y || x == 1 || y == 1, Runtime, op,
                    "shapes that broadcast (equal sizes or 1, counted from the right)",
                    text(to_string(a), " and ", to_string(b), " (The size of tensor a (",
                         a.size() >= b.size() ? x : y, ") must match the size of tensor b (",
                         a.size() >= b.size() ? y : x, ") at non-singleton dimension ", shift + i,
                         ")"));
        out[static_cast<int>(shift + i)] = x == 1 ? y : x;
    }
    return out;
}

int wrap_dim(std::string_view op, int64_t dim, int n) {
    int range = std::max(n, 1);
    WEFT_EXPECT(dim >= -range && dim < range, Index, op, "a dim that the tensor has",
                text(dim, " (Dimension out of range (expected to be in range of [", -range, ", ",
                     range - 1, "], but got ", dim, "))"));
    return static_cast<int>(dim < 0 ? dim + range : dim);
}

}  // namespace weft
