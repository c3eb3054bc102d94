/// Singular values of small real matrices without vectors, by rotations.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/small_factor.h"

namespace weft::kernels::small {

/// Up to how many values rotations are faster than LAPACK.
inline constexpr int64_t kMostRotated = 4;

/// The singular values, descending, of A [m, n], one of which is at most kMostRotated and both at most 16;
/// false if A is not finite. Hestenes, "Inversion of matrices by biorthogonalization and related results",
/// 1958: rows (or columns, the fewer) are rotated in pairs until all are orthogonal.
template <class T>
WEFT_INLINE bool singular_values(int64_t m, int64_t n, const T* a, T* S) {
    const bool by_rows = m <= n;
    const int64_t k = by_rows ? m : n, length = by_rows ? n : m;
    double v[kMostRotated][16], most = 0;
    bool finite = true;
    for (int64_t i = 0; i < m * n; ++i) {
        const double size = std::fabs(static_cast<double>(a[i]));
        finite &= size <= 1.7976931348623157e308;
        most = size > most ? size : most;
    }
    if (!finite) return false;
    if (most == 0) return std::fill_n(S, k, static_cast<T>(0)), true;
    for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < length; ++j)
            v[i][j] = static_cast<double>(by_rows ? a[i * n + j] : a[j * n + i]) / most;
    constexpr int sweeps = 30;
    constexpr double small_enough = sizeof(T) == 4 ? 1e-9 : 1e-16;
    for (int sweep = 0, turned = 1; turned && sweep < sweeps; ++sweep) {
        turned = 0;
        for (int64_t p = 0; p < k; ++p)
            for (int64_t q = p + 1; q < k; ++q) {
                double pp = 0, qq = 0, pq = 0;
                for (int64_t j = 0; j < length; ++j) {
                    pp += v[p][j] * v[p][j];
                    qq += v[q][j] * v[q][j];
                    pq += v[p][j] * v[q][j];
                }
                if (!(pq * pq > small_enough * small_enough * pp * qq)) continue;
                turned = 1;
                const double zeta = (qq - pp) / (2 * pq);
                const double t =
                    std::copysign(1.0, zeta) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
                const double cosine = 1 / std::sqrt(1 + t * t), sine = cosine * t;
                for (int64_t j = 0; j < length; ++j) {
                    const double x = v[p][j], y = v[q][j];
                    v[p][j] = cosine * x - sine * y;
                    v[q][j] = sine * x + cosine * y;
                }
            }
    }
    double norms[kMostRotated];
    for (int64_t i = 0; i < k; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < length; ++j) sum += v[i][j] * v[i][j];
        norms[i] = std::sqrt(sum) * most;
    }
    for (int64_t i = 1; i < k; ++i)
        for (int64_t j = i; j > 0 && norms[j] > norms[j - 1]; --j)
            std::swap(norms[j], norms[j - 1]);
    for (int64_t i = 0; i < k; ++i) S[i] = static_cast<T>(norms[i]);
    return true;
}

}  // namespace weft::kernels::small
