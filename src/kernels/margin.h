/// The multi-class margin loss over raw memory. float and double.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// y[i] = the sum over c != target[i] of max(0, margin - x[i, target[i]] + x[i, c])^power / classes.
/// NaN counts as 0. power 1 or 2; all targets are classes.
template <class T>
void multi_margin(int64_t rows, int64_t classes, const T* x, const int64_t* target, int power,
                  T margin, T* y);

}  // namespace weft::kernels
