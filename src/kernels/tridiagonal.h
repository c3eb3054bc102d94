/// Symmetric real matrices made tridiagonal, where they are too small for LAPACK's blocks.
///
/// Bodies of per_isa (simd.h).
#pragma once
#include "kernels/small_reflection.h"

namespace weft::kernels::small {

/// A [n, n], with both triangles, becomes Q T Qᵀ: d [n] is T's diagonal, e [n - 1] what lies beside it. Row k of A
/// keeps, from k + 2 on, the vector of reflection k behind its one; tau [n - 1] its factor. `w`: room for n.
/// LAPACK's sytd2 of the lower triangle; squares of A's elements have to be numbers of T.
template <class T>
struct Tridiagonal {
    WEFT_INLINE static void run(int64_t n, T* a, T* d, T* e, T* tau, T* __restrict w) {
        for (int64_t k = 0; k + 1 < n; ++k) {
            T* __restrict v = a + k * n + k + 1;
            T* rest = v + n;
            const int64_t size = n - k - 1;
            T below = 0;
            for (int64_t j = 1; j < size; ++j) below += v[j] * v[j];
            d[k] = a[k * n + k];
            e[k] = *v;
            tau[k] = 0;
            if (below == 0) continue;
            const T beta = -std::copysign(std::sqrt(*v * *v + below), *v);
            const T scale = 1 / (*v - beta);
            e[k] = beta;
            tau[k] = (beta - *v) / beta;
            *v = 1;
            for (int64_t j = 1; j < size; ++j) v[j] *= scale;
            for (int64_t j = 0; j < size; ++j) w[j] = 0;
            for (int64_t i = 0; i < size; ++i) subtract(w, -tau[k] * v[i], rest + i * n, size);
            T along = 0;
            for (int64_t j = 0; j < size; ++j) along += w[j] * v[j];
            subtract(w, tau[k] * along / 2, v, size);
            for (int64_t i = 0; i < size; ++i) {
                T* __restrict row = rest + i * n;
                const T f = v[i], g = w[i];
                for (int64_t j = 0; j < size; ++j) row[j] -= f * w[j] + g * v[j];
            }
        }
        d[n - 1] = a[n * n - 1];
    }
};

/// Z [n, n] becomes Q Z for the Q that `Tridiagonal` left in A.
template <class T>
struct FromTridiagonal {
    WEFT_INLINE static void run(int64_t n, const T* a, const T* tau, T* z, T* w) {
        for (int64_t k = n - 2; k >= 0; --k)
            if (tau[k] != 0)
                reflect(n - k - 1, int64_t{1}, a + k * n + k + 1, tau[k], n, n, z + (k + 1) * n, w);
    }
};

}  // namespace weft::kernels::small
