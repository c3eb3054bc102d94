/// What the families about layout share: sizes, strides and views.
#pragma once
#include "ops/table.h"

namespace weft::ops {

/// `size` with its -1 filled in. Throws Runtime if it does not describe `numel` elements.
Dims infer_size(std::string_view who, DimSpan size, int64_t numel);
/// Strides under which memory laid out as (shape, strides) reads as `target`, the same elements in
/// the same order. False where no strides do: then the elements have to be copied.
bool view_strides(DimSpan shape, DimSpan strides, DimSpan target, Dims& out);
/// The strides of a dense tensor that is walked in the same memory order as `t`: its own strides
/// if it is dense. (PyTorch's preserve_format.)
Dims dense_strides(const Tensor& t);
/// A tensor to be allocated, shaped and ordered as `t`.
Tensor preserved_layout(const Tensor& t, DType dtype);
/// Shape rule: as input 0, in its memory order.
inline void self_shape(Call& c) { c.add(preserved_layout(c.in[0], c.in[0].dtype())); }
/// The same in the dtype of an attribute.
template <int DTypeSlot>
void like_shape(Call& c) {
    c.add(preserved_layout(c.in[0], c.attr(DTypeSlot).as_dtype(c.in[0].dtype())));
}

/// Start and count of `x[start:end:step]` over `size` elements, by Python's rule; None as undefined
/// values. Throws Runtime for a step below 1.
struct Slice {
    int64_t start, count;
};
Slice slice_span(std::string_view who, int64_t size, const Value& start, const Value& end,
                 int64_t step);
/// `index` in [-size, size) as one in [0, size). Throws Index.
int64_t wrap_index(std::string_view who, int64_t index, int dim, int64_t size);

/// Sums and products of sizes as a user may give them. Throw Runtime beyond 63 bits.
int64_t size_sum(std::string_view who, int64_t a, int64_t b);
int64_t size_product(std::string_view who, int64_t a, int64_t b);
/// A size by a formula whose steps may leave 63 bits.
int64_t size_of(std::string_view who, __int128 exact);
/// The stride of every `step`-th of `count` positions: that of one or none is not used, and may not
/// fit.
int64_t stepped_stride(int64_t stride, int64_t step, int64_t count);
/// Throws Runtime for more parts of one tensor than anyone can hold in a tuple.
void check_parts(std::string_view who, int64_t parts);

/// The kernel of ops that only look differently at the same memory.
/// Of ops whose results are memory as it is: a view, or what nobody has written.
inline void no_kernel(Call&) {}
/// Sizes without `dim`.
Dims without(DimSpan dims, int dim);

/// Shape rules of view ops: adds a view of input 0.
inline void add_view(Call& c, DimSpan shape, DimSpan strides, int64_t offset = 0) {
    c.add_view(Tensor::layout(c.in[0].dtype(), shape, strides), offset);
}
/// The record of a view op: one gradient, which reads the attributes only.
OpBuilder view_op(Table& t, std::string_view schema, void (*shape)(Call&), GradRule grad,
                  std::source_location where = std::source_location::current());

}  // namespace weft::ops
