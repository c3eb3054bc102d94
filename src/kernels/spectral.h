/// Eigenvalues and singular values of batches of matrices, by LAPACK; conventions as in factor.h.
#pragma once
#include <cstdint>

#include "kernels/lapack.h"

namespace weft::kernels {

/// Ascending eigenvalues of symmetric matrices, of which one triangle is read, and, unless `vectors` is
/// null, eigenvectors in columns. Returns the first matrix for which the iteration did not converge, and
/// LAPACK's code, or -1.
struct Unconverged {
    int64_t matrix = -1;
    int code = 0;
};
template <class T>
Unconverged eigh(int64_t count, int64_t n, bool upper, const T* a, lapack::Real<T>* values,
                 T* vectors);
/// Eigenvalues of any matrices, and, unless `vectors` is null, eigenvectors of norm 1 in columns.
template <class T>
Unconverged eig(int64_t count, int64_t n, const T* a, std::complex<lapack::Real<T>>* values,
                std::complex<lapack::Real<T>>* vectors);
/// A [m, n] = U diag(S) Vh, S descending. Unless U is null it is [m, u] and Vh [v, n]: u = v = min(m, n),
/// or with `full` m and n. Code -4: A is not finite.
template <class T>
Unconverged svd(int64_t count, int64_t m, int64_t n, bool full, const T* a, T* U,
                lapack::Real<T>* S, T* Vh);

}  // namespace weft::kernels
