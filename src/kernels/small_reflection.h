/// One of Householder's reflections, by loops over the rows that it turns.
///
/// Bodies of per_isa (simd.h).
#pragma once
#include <limits>

#include "kernels/small_factor.h"

namespace weft::kernels::small {

/// The norm of a column's elements [from, m).
template <class T>
WEFT_INLINE lapack::Real<T> norm_below(int64_t from, int64_t m, int64_t n, const T* column) {
    auto squares = [&](double scale) __attribute__((always_inline)) {
        double sum = 0;
        for (int64_t i = from; i < m; ++i) {
            const double re = std::real(column[i * n]) * scale,
                         im = std::imag(column[i * n]) * scale;
            sum += re * re + im * im;
        }
        return sum;
    };
    const double sum = squares(1);
    if (sum > 1e-280 && sum < 1e280) return static_cast<lapack::Real<T>>(std::sqrt(sum));
    double most = 0;
    for (int64_t i = from; i < m; ++i)
        most = std::fmax(most, static_cast<double>(magnitude(column[i * n])));
    if (!(most > 0) || !(most < std::numeric_limits<double>::infinity()))
        return static_cast<lapack::Real<T>>(std::sqrt(sum));
    return static_cast<lapack::Real<T>>(std::sqrt(squares(1 / most)) * most);
}

/// x [m, columns], whose rows lie `step` apart, becomes (1 - factor v vᴴ) x for the v in a column of
/// `n` wide rows, whose first element is 1. `w`: room for `columns`.
template <class T>
WEFT_INLINE void reflect(int64_t m, int64_t n, const T* v, T factor, int64_t columns, int64_t step,
                         T* x, T* __restrict w) {
    for (int64_t j = 0; j < columns; ++j) w[j] = x[j];
    for (int64_t i = 1; i < m; ++i) {
        const T f = conjugate(v[i * n]);
        const T* __restrict row = x + i * step;
        for (int64_t j = 0; j < columns; ++j) w[j] += times(f, row[j]);
    }
    for (int64_t j = 0; j < columns; ++j) w[j] = times(factor, w[j]);
    for (int64_t j = 0; j < columns; ++j) x[j] -= w[j];
    for (int64_t i = 1; i < m; ++i) {
        const T f = v[i * n];
        T* __restrict row = x + i * step;
        for (int64_t j = 0; j < columns; ++j) row[j] -= times(f, w[j]);
    }
}

/// Makes the column of m numbers at `a`, one in each of `n` wide rows, beta and below it the vector of the
/// reflection 1 - tau v vᴴ whose adjoint turns it so, as LAPACK's larfg; turns `columns` beside it. tau.
template <class T>
WEFT_INLINE T reflect_column(int64_t m, int64_t n, int64_t columns, T* a, T* w) {
    using R = lapack::Real<T>;
    const R rest = norm_below(1, m, n, a);
    const T alpha = *a;
    if (rest == 0 && std::imag(alpha) == 0) return T(0);
    const R size = std::hypot(std::hypot(std::real(alpha), std::imag(alpha)), rest),
            beta = -std::copysign(size, std::real(alpha));
    const T tau = (T(beta) - alpha) / beta;
    const T scale = over(T(1), alpha - T(beta));
    for (int64_t i = 1; i < m; ++i) a[i * n] = times(a[i * n], scale);
    *a = T(beta);
    reflect(m, n, a, conjugate(tau), columns, n, a + 1, w);
    return tau;
}

}  // namespace weft::kernels::small
