/// Factors of small row-major matrices, where a call of LAPACK takes longer than the arithmetic.
///
/// Bodies of per_isa (simd.h). `N` is an int64_t, or a constant that the compiler unrolls by.
#pragma once
#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/complex.h"
#include "kernels/lapack.h"
#include "kernels/simd.h"

namespace weft::kernels::small {

/// Runs Body for this processor; for complex numbers as it is, which keeps the library small.
template <class Body, class T, class... Args>
void run(Args... args) {
    if constexpr (lapack::is_complex<T>) Body::run(args...);
    else per_isa<Body>(args...);
}

/// Calls body(n) with a constant up to 4, of reals.
template <class T, class Body>
WEFT_INLINE void with_size(int64_t n, const Body& body) {
    if constexpr (lapack::is_complex<T>) return body(n);
    switch (n) {
        case 1:
            return body(std::integral_constant<int64_t, 1>());
        case 2:
            return body(std::integral_constant<int64_t, 2>());
        case 3:
            return body(std::integral_constant<int64_t, 3>());
        case 4:
            return body(std::integral_constant<int64_t, 4>());
        default:
            return body(n);
    }
}

template <class T>
WEFT_INLINE T conjugate(T x) {
    if constexpr (lapack::is_complex<T>) return {x.real(), -x.imag()};
    else return x;
}
/// What LAPACK chooses pivots by.
template <class T>
WEFT_INLINE lapack::Real<T> magnitude(T x) {
    if constexpr (lapack::is_complex<T>) return std::fabs(x.real()) + std::fabs(x.imag());
    else return std::fabs(x);
}

/// to[j] -= f * from[j]
template <class T, class N>
WEFT_INLINE void subtract(T* __restrict to, T f, const T* __restrict from, N n) {
    for (int64_t j = 0; j < n; ++j) to[j] -= times(f, from[j]);
}
template <class T, class N>
WEFT_INLINE void swap_rows(T* a, T* b, N n) {
    for (int64_t j = 0; j < n; ++j) std::swap(a[j], b[j]);
}

/// A = P L U in the place of A [m, n]; row i was swapped with row pivots[i] - 1. The first column
/// without a pivot, from 1, or 0.
template <class T, class M, class N>
WEFT_INLINE int32_t lu(M m, N n, T* a, int32_t* pivots) {
    int32_t none = 0;
    for (int64_t k = 0; k < (m < n ? m : n); ++k) {
        int64_t p = k;
        lapack::Real<T> most = magnitude(a[k * n + k]);
        for (int64_t i = k + 1; i < m; ++i) {
            const lapack::Real<T> size = magnitude(a[i * n + k]);
            const bool more = size > most;
            most = more ? size : most;
            p = more ? i : p;
        }
        pivots[k] = static_cast<int32_t>(p + 1);
        T* row = a + k * n;
        if (p != k) swap_rows(row, a + p * n, n);
        if (row[k] == T(0)) {
            none = none ? none : static_cast<int32_t>(k + 1);
            continue;
        }
        for (int64_t i = k + 1; i < m; ++i) {
            T* below = a + i * n;
            const T f = over(below[k], row[k]);
            below[k] = f;
            for (int64_t j = k + 1; j < n; ++j) below[j] -= times(f, row[j]);
        }
    }
    return none;
}

template <class T, class N, class K>
WEFT_INLINE void swap_back(N n, K k, const int32_t* pivots, T* x) {
    for (int64_t i = n - 1; i >= 0; --i)
        if (pivots[i] != i + 1) swap_rows(x + i * k, x + (pivots[i] - 1) * k, k);
}
template <class T, class N, class K>
WEFT_INLINE void swap_all(N n, K k, const int32_t* pivots, T* x) {
    for (int64_t i = 0; i < n; ++i)
        if (pivots[i] != i + 1) swap_rows(x + i * k, x + (pivots[i] - 1) * k, k);
}

/// The X with op(A) X = B in the place of B [n, k], for a triangle of A.
template <bool Upper, bool Unit, bool Adjoint, class T, class N, class K>
WEFT_INLINE void triangle(N n, K k, const T* a, T* x) {
    constexpr bool down = Upper == Adjoint;  // the first row is known first
    for (int64_t s = 0; s < n; ++s) {
        const int64_t i = down ? s : n - 1 - s;
        T* row = x + i * k;
        for (int64_t j = down ? 0 : i + 1; j < (down ? i : static_cast<int64_t>(n)); ++j)
            subtract(row, Adjoint ? conjugate(a[j * n + i]) : a[i * n + j], x + j * k, k);
        if constexpr (!Unit) {
            const T d = Adjoint ? conjugate(a[i * n + i]) : a[i * n + i];
            for (int64_t j = 0; j < k; ++j) row[j] = over(row[j], d);
        }
    }
}

/// The lower factor in the place of A [n, n], of which the lower triangle is read; zeros above. The
/// order of the first minor that fails, or 0; then rows from there on are zero.
template <class T, class N>
WEFT_INLINE int32_t cholesky(N n, T* a) {
    int32_t failed = 0;
    for (int64_t i = 0; i < n; ++i) {
        T* row = a + i * n;
        for (int64_t j = 0; j <= i; ++j) {
            const T* other = a + j * n;
            T sum = row[j];
            for (int64_t p = 0; p < j; ++p) sum -= times(row[p], conjugate(other[p]));
            if (j < i) {
                row[j] = over(sum, other[j]);
                continue;
            }
            const lapack::Real<T> d = std::real(sum);
            if (!(d > 0) && !failed) failed = static_cast<int32_t>(i + 1);
            row[i] = T(std::sqrt(d));
        }
        for (int64_t j = i + 1; j < n; ++j) row[j] = T(0);
        if (failed) break;
    }
    if (failed)
        for (int64_t i = (failed - 1) * n; i < n * n; ++i) a[i] = T(0);
    return failed;
}

}  // namespace weft::kernels::small
