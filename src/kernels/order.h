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

/// The k largest or smallest in order, 0 <= k <= n; outputs are [outer, k, inner].
template <class T>
void topk(const T* x, T* values, int64_t* indices, int64_t k, bool largest, Axis axis);

/// The lower median, or the first NaN, and where it is; n >= 1. `indices` may be null.
template <class T>
void median(const T* x, T* values, int64_t* indices, Axis axis);

/// y[o, j, i] = x[o, index[o, j, i], i], with index and y [outer, k, inner].
template <class T>
void pick_along(const T* x, const int64_t* index, T* y, int64_t k, Axis axis);

/// The inverse: y[o, index[o, j, i], i] = x[o, j, i], 0 elsewhere. Indices of a row are distinct.
template <class T>
void place_along(const T* x, const int64_t* index, T* y, int64_t k, Axis axis);

}  // namespace weft::kernels
