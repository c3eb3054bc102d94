/// What the families that work along dims share: sets of dims, and contiguous memory seen as
/// [outer, n, inner] for the kernels of kernels/reduce.h.
#pragma once
#include "base/lock.h"
#include "kernels/reduce.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/table.h"

namespace weft::ops {

/// A set of dims, one bit each.
using DimMask = uint64_t;
static_assert(kMaxDims <= 64);

constexpr DimMask every_dim(int ndim) {
    return ndim == 64 ? ~DimMask{0} : (DimMask{1} << ndim) - 1;
}
/// The dims that an `int[]? dim` names. None and an empty list name all of them.
/// Throws Index for a dim out of range, Runtime for one named twice.
DimMask dim_mask(std::string_view who, const Value& dim, int ndim);
/// `shape` without the dims of `mask`, or with 1 in their place.
Dims reduced_shape(DimSpan shape, DimMask mask, bool keepdim);
/// Elements that are reduced to one.
int64_t count_over(DimSpan shape, DimMask mask);
/// Throws Index if a dim of `mask` has size 0 (for reductions that need an element).
void require_elements(std::string_view who, DimSpan shape, DimMask mask);

/// Contiguous memory of `shape` along one dim. A 0-d shape is one element.
kernels::Axis axis_along(DimSpan shape, int dim);
/// `x` along the dim that an attribute of `c` names.
kernels::Axis axis_of(const Call& c, const Tensor& x, int dim_slot = 0);

/// Reduces contiguous memory `from`, seen as `axis`, into contiguous memory `to`.
using ReduceStep = void (*)(const Tensor& from, const Tensor& to, kernels::Axis axis);
/// Runs `step` until the dims of `mask` are gone. Dims that do not lie together are reduced one run
/// after the other, so the reduction must be one that allows it: step(step(x)) over parts equals
/// step(x). Dense layouts are read where they lie; others are copied first.
void reduce(const Tensor& x, DimMask mask, const Tensor& out, ReduceStep step);

/// `x` as contiguous memory in which the dims of `mask` lie together, copied if they do not.
struct Folded {
    Tensor x;
    kernels::Axis axis;
};
Folded fold(const Tensor& x, DimMask mask);

/// The inverse of a reduction's shape: repeats `t` over the reduced dims of `shape` (a view).
Tensor spread(const Tensor& t, const Value& dim, bool keepdim, const Dims& shape);

/// `t` in another dtype, through the door.
inline Tensor cast(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : to(t, dtype); }

/// The dtype of an op with `dtype=None`: the one asked for, or the input's.
inline DType dtype_or_own(const Value& dtype, const Tensor& t) { return dtype.as_dtype(t.dtype()); }
inline Tensor in_dtype(const Tensor& t, DType dtype) {
    return t.dtype() == dtype ? t : as_dtype(t, dtype);
}

}  // namespace weft::ops
