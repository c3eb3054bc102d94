/// Least squares by LAPACK; conventions as in factor.h.
#pragma once
#include <cstdint>

#include "kernels/lapack.h"

namespace weft::kernels {

/// QR, for full rank; QR with pivots; the SVD by division, or plainly. As PyTorch names them.
enum class LeastSquares : uint8_t { Gels, Gelsy, Gelsd, Gelss };

struct LeastSquaresSizes {
    int64_t count, m, n, k;
};
/// The X [n, k] of least norm among those with the least A X - B, for A [m, n] and B [m, k]. rank counts
/// the columns (or singular values S, for the last two ways) above rcond times the greatest; null with
/// Gels. Returns the first matrix that failed, or -1.
template <class T>
int64_t least_squares(LeastSquares way, LeastSquaresSizes sizes, double rcond, const T* a,
                      const T* b, T* x, int64_t* rank, lapack::Real<T>* S);

}  // namespace weft::kernels
