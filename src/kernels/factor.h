/// Factors of batches of matrices, and systems solved by them, on raw pointers: T = float, double and
/// the complex types of both.
///
/// Matrices are row-major and dense, `count` of them behind each other; results never overlap operands.
/// Small ones run on loops of ours (small_factor.h), all others in LAPACK (lapack.h), one after the
/// other or on the threads of the pool: bits do not depend on the number of threads.
#pragma once
#include <cstdint>

#include "kernels/lapack.h"

namespace weft::kernels {

/// What X[i] is solved by: A[of[i]], or A[i] where `of` is null.
struct Systems {
    int64_t count;  ///< of X
    const int64_t* of;
    int64_t matrices;  ///< of A

    int64_t matrix(int64_t i) const { return of ? of[i] : i; }
};

/// A = P L U [m, n] in one matrix; row i was swapped with row pivots[i] - 1, in order. info: the first
/// zero pivot, from 1, or 0.
template <class T>
void lu_factor(int64_t count, int64_t m, int64_t n, const T* a, T* lu, int32_t* pivots,
               int32_t* info);
/// The X with A X = B, or Aᴴ X = B, in the place of B [n, k], for factors of A.
template <class T>
void lu_solve(Systems s, int64_t n, int64_t k, bool adjoint, const T* lu, const int32_t* pivots,
              T* x);
/// The X with A X = B in the place of B [n, k]; nan for a singular A, of which info has the first zero
/// pivot, from 1.
template <class T>
void solve(Systems s, int64_t n, int64_t k, const T* a, T* x, int32_t* info);
/// The inverse; nan for a singular A, of which info has the first zero pivot, from 1.
template <class T>
void inverse(int64_t count, int64_t n, const T* a, T* x, int32_t* info);
/// The determinant, or with `logs` its sign and the logarithm of its magnitude.
template <class T>
void determinant(int64_t count, int64_t n, const T* a, T* det, lapack::Real<T>* logs);

/// A = L Lᴴ, or with `upper` Uᴴ U, of which that triangle is read; zeros in the other one. info: the
/// order of the first minor that is not positive, or 0; then rows (columns of U) from there on are 0.
template <class T>
void cholesky(int64_t count, int64_t n, bool upper, const T* a, T* factor, int32_t* info);
/// The X with A X = B in the place of B [n, k], for the factor of A.
template <class T>
void cholesky_solve(Systems s, int64_t n, int64_t k, bool upper, const T* factor, T* x);

struct Triangle {
    bool upper, unit;
};
/// The X with A X = B in the place of B [n, k].
template <class T>
void triangular_solve(Systems s, int64_t n, int64_t k, Triangle of, const T* a, T* x);

/// A = L D Lᵀ, or with `hermitian` L D Lᴴ, of which the lower triangle is read, in one matrix, with the
/// swaps as LAPACK's sytrf names them. info: the first zero of D, from 1, or 0.
template <class T>
void ldl_factor(int64_t count, int64_t n, bool hermitian, const T* a, T* ld, int32_t* pivots,
                int32_t* info);
/// The X with A X = B in the place of B [n, k], for those factors of A.
template <class T>
void ldl_solve(Systems s, int64_t n, int64_t k, bool hermitian, const T* ld, const int32_t* pivots,
               T* x);

/// R above the vectors of Householder's reflections 1 - tau v vᴴ [m, n], and their tau [min(m, n)].
template <class T>
void qr_factor(int64_t count, int64_t m, int64_t n, const T* a, T* qr, T* tau);
/// The first `columns` (at least k, at most m) columns of the product of the k reflections whose vectors
/// are in A [m, n].
template <class T>
void reflections_product(int64_t count, int64_t m, int64_t n, int64_t k, const T* a, const T* tau,
                         int64_t columns, T* q);
/// A = Q R with Q [m, columns], unless null, and R [rows, n].
template <class T>
void qr(int64_t count, int64_t m, int64_t n, int64_t columns, int64_t rows, const T* a, T* q, T* r);

}  // namespace weft::kernels
