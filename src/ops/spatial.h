/// What the families over images share: attributes with a number per spatial dim, unbatched inputs.
#pragma once
#include "base/lock.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/shape.h"

namespace weft::ops {

/// One number per spatial dim, as three: `fill` for the dims in front that are not there. A list
/// of one counts for each dim. Throws Runtime for another count, or a number below `least`.
struct Triple {
    int64_t v[3];
    int64_t operator[](int d) const { return v[d]; }
};
inline Triple triple(std::string_view who, std::string_view what, DimSpan list, int dims,
                     int64_t fill, int64_t least) {
    Triple out{{fill, fill, fill}};
    WEFT_EXPECT(list.size() == 1 || static_cast<int>(list.size()) == dims, Runtime, who,
                text(what, " to be one int or ", dims, " ints"), to_string(list));
    for (int d = 0; d < dims; ++d) {
        int64_t value = list[list.size() == 1 ? 0 : d];
        // so that a product of two of them fits
        WEFT_EXPECT(value >= least && value < (int64_t{1} << 31), Runtime, who,
                    text(what, " of at least ", least, " and less than 2**31"),
                    text(to_string(list), value >= least
                                              ? ""
                                              : text(least ? " (non-positive " : " (negative ",
                                                     what, " is not supported)")));
        out.v[3 - dims + d] = value;
    }
    return out;
}
/// The spatial sizes of `shape` (the last `dims`) as three.
inline Triple spatial_sizes(DimSpan shape, int dims) {
    Triple out{{1, 1, 1}};
    for (int d = 0; d < dims; ++d) out.v[3 - dims + d] = shape[shape.size() - dims + d];
    return out;
}

/// The dtypes of convolution and pooling, as PyTorch's.
struct ImageTypes {
    static constexpr bool has(DType t) {
        return is_floating(t) || category(t) == Category::Integer;
    }
    static constexpr std::string_view text = "a floating dtype or an integer one";
};

template <class T>
T* memory_or_null(const Tensor& t) {
    return t.defined() ? t.data<T>() : nullptr;
}

}  // namespace weft::ops
