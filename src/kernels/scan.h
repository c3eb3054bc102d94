/// Linear recurrences along the axis of contiguous memory, see kernels/reduce.h. float and double.
#pragma once
#include "kernels/reduce.h"

namespace weft::kernels {

/// y[0] = b[0], y[i] = a[i] * y[i-1] + b[i]. a[0] is not read.
template <class T>
void linear_scan(const T* a, const T* b, T* y, Axis axis);

/// Its adjoint, from the end: y[n-1] = b[n-1], y[i] = a[i+1] * y[i+1] + b[i]. A null `a` means
/// ones: the sums of what follows.
template <class T>
void linear_scan_back(const T* a, const T* b, T* y, Axis axis);

/// y[i] is the product of all x along the axis but x[i]. Axis.n > 0.
template <class T>
void products_of_others(const T* x, T* y, Axis axis);

/// y[i] = x[i-1] and y[0] = first; with `back` y[i] = x[i+1] and y[n-1] = first.
template <class T>
void shift(const T* x, T* y, T first, bool back, Axis axis);

/// Running maxima (minima) and the last index of each; NaN wins. float, double, int64_t and bool.
template <class T>
void cummax(const T* x, T* y, int64_t* index, Axis axis);
template <class T>
void cummin(const T* x, T* y, int64_t* index, Axis axis);

/// Running log(sum(exp(x))). float and double.
template <class T>
void logcumsumexp(const T* x, T* y, Axis axis);

}  // namespace weft::kernels
