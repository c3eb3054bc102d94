/// What gather, scatter and scatter_reduce share. See Note [Lines] in kernels/index.h.
#pragma once
#include "ops/functions.h"
#include "ops/indexing.h"

namespace weft::ops {

/// PyTorch's words for an index that is larger than `limit`, which is src's where `dim` is -1.
inline std::string too_large(const Call& c, const Tensor& index, DimSpan limit, int dim, int at) {
    if (c.op->name == "gather")
        return text("Size does not match at dimension ", at, " expected index ",
                    to_string(index.shape()), " to be no larger than self ", to_string(limit),
                    " apart from dimension ", dim);
    const int along = wrap_dim(c.name(), c.attr(0).as_int(), c.in[0].ndim());
    const std::string of_src =
        c.inputs > 2 ? text(" and to be no larger size than src ", to_string(c.in[2].shape())) : "";
    return text("Expected index ", to_string(index.shape()), " to be no larger than self ",
                to_string(c.in[0].shape()), " apart from dimension ", along, of_src);
}

/// index must have self's number of dimensions (0-d counts as 1) and fit in `limit` but along dim.
inline void check_index(const Call& c, const Tensor& index, DimSpan limit, int dim,
                        std::string_view of) {
    bool fits = index.dtype() == DType::Int64 || index.dtype() == DType::Int32 ||
                (index.numel() == 0 && category(index.dtype()) == Category::Integer);
    WEFT_EXPECT(
        fits, Runtime, c.name(), "integers",
        text(name(index.dtype()), " (", c.name(), "(): Expected dtype int32/int64 for index)"));
    if (index.numel() == 0) return;
    int n = std::max<int>(static_cast<int>(limit.size()), 1);
    WEFT_EXPECT(std::max(index.ndim(), 1) == n, Runtime, c.name(),
                text("an index of ", limit.size(), " dimensions"),
                text(index.ndim(), " (Index tensor must have the same number of dimensions as ",
                     of == "src"              ? of
                     : c.op->name == "gather" ? "input"
                                              : "self",
                     " tensor)"));
    for (int d = 0; d < index.ndim() && !limit.empty(); ++d)
        WEFT_EXPECT(d == dim || index.size(d) <= limit[d], Runtime, c.name(),
                    text("an index within ", of),
                    text("size ", index.size(d), " (", too_large(c, index, limit, dim, d), ")"));
}

inline int checked_dim(const Call& c) {
    return wrap_dim(c.name(), c.attr(0).as_int(), c.in[0].ndim());
}

/// The kernels' view of an indexed tensor and the other side, all of at least one dimension.
struct LinesOf {
    LinesOf(const Call& c, const Tensor& index_, const Tensor& indexed_, const Tensor& other_,
            int dim)
        : index(at_least_1d(dense_index(index_))), indexed(at_least_1d(indexed_)),
          other(at_least_1d(other_)), strides(indexed.strides()) {
        lines = {index.shape(), {}, strides[dim], other.strides()};
        strides[dim] = 0;
        lines.strides = strides;
        require_inside(c.name(), ErrorKind::Runtime, index, 0, indexed.size(dim), dim);
    }
    LinesOf(const LinesOf&) = delete;
    const int64_t* at() const { return index.data<int64_t>(); }

    Tensor index, indexed, other;
    Dims strides;
    kernels::Lines lines;
};

}  // namespace weft::ops
