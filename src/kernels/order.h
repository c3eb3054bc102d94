/// Sorting and selection along an axis, and moving elements to and from the places it finds.
///
/// Contiguous memory seen as [outer, n, inner], see kernels/reduce.h. Order is that of numbers with
/// -0 == 0 and NaN greater than everything; equal elements keep their order. float, double, int64_t
/// and bool.
#pragma once
#include "kernels/reduce.h"

namespace weft::kernels {

/// Either output may be null.
template <class T>
void sort(const T* x, T* values, int64_t* indices, bool descending, Axis axis);

/// The k largest or smallest, 0 <= k <= n; outputs are [outer, k, inner]. Which of equal elements
/// are taken, in which order, and the order of all without `sorted`, is what the standard library's
/// selection leaves: PyTorch's choice.
template <class T>
void topk(const T* x, T* values, int64_t* indices, int64_t k, bool largest, bool sorted, Axis axis);

/// The lower median, or the first NaN, and where it is; n >= 1. `indices` may be null.
/// With `skip_nan` that of what is not NaN, if anything is not.
template <class T>
void median(const T* x, T* values, int64_t* indices, bool skip_nan, Axis axis);

/// The element that sorting would put at k, and where it is: of equal elements PyTorch's.
template <class T>
void kth(const T* x, T* values, int64_t* indices, int64_t k, Axis axis);

/// y[o, j, i] = x[o, index[o, j, i], i], with index and y [outer, k, inner].
template <class T>
void pick_along(const T* x, const int64_t* index, T* y, int64_t k, Axis axis);

/// The inverse: y[o, index[o, j, i], i] = x[o, j, i], 0 elsewhere. Indices of a row are distinct.
template <class T>
void place_along(const T* x, const int64_t* index, T* y, int64_t k, Axis axis);

}  // namespace weft::kernels
