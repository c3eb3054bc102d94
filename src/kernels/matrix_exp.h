/// The exponential of square matrices, on raw pointers.
#pragma once
#include <cstdint>

#include "kernels/lapack.h"

namespace weft::kernels {

/// exp(A) of each of `count` row-major, dense matrices A [n, n]; T = float, double and the complex types of
/// both. Taylor polynomials in T's own precision, of a degree that A's norm chooses; a large A is halved before
/// and its exponential squared after (Bader, Blanes, Casas, "Computing the matrix exponential with an optimized
/// Taylor polynomial approximation", 2019). Each matrix has the bits that it has alone.
template <class T>
void matrix_exp(int64_t count, int64_t n, const T* a, T* out);

}  // namespace weft::kernels
