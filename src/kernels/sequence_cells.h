/// One row of one step of the recurrent cells, forward and backward. sequence.h says what is kept.
#pragma once
#include "kernels/math.h"
#include "kernels/sequence.h"
#include "kernels/simd.h"

namespace weft::kernels {

/// Forward: `kept` holds the sums before the activations, for Gru those of the input alone, and
/// becomes what is kept; `share` is the state's (Gru), whose part of n has the bias `inside`.
template <class T>
struct Row {
    T* kept;
    const T *share, *bias, *inside;
    T *h, *c, *out;
};

/// Backward: g is the gradient of the state after; for Gru it becomes that part of the old state's
/// that does not come through the gates. dc is replaced by the old one's.
template <class T>
struct RowBack {
    const T *kept, *before, *c_before, *grad;
    T *g, *dc, *dx, *ds;
};

template <Cell cell>
struct Step;

template <>
struct Step<Cell::Tanh> {
    template <class T>
    WEFT_INLINE static void forward(int64_t d, Row<T> r) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j)
            r.out[j] = r.kept[j] = r.h[j] = math::tanh(r.kept[j] + r.bias[j]);
    }
    template <class T>
    WEFT_INLINE static T state(const T* kept, int64_t, int64_t j) {
        return kept[j];
    }
    template <class T>
    WEFT_INLINE static void backward(int64_t d, RowBack<T> r) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j)
            r.dx[j] = (r.g[j] + r.grad[j]) * (1 - r.kept[j] * r.kept[j]);
    }
};

template <>
struct Step<Cell::Relu> {
    template <class T>
    WEFT_INLINE static void forward(int64_t d, Row<T> r) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T v = r.kept[j] + r.bias[j];
            r.out[j] = r.kept[j] = r.h[j] = v <= 0 ? T(0) : v;  // NaN stays
        }
    }
    template <class T>
    WEFT_INLINE static T state(const T* kept, int64_t, int64_t j) {
        return kept[j];
    }
    template <class T>
    WEFT_INLINE static void backward(int64_t d, RowBack<T> r) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T g = r.g[j] + r.grad[j];
            r.dx[j] = r.kept[j] <= 0 ? T(0) : g;
        }
    }
};

template <>
struct Step<Cell::Gru> {
    template <class T>
    WEFT_INLINE static void forward(int64_t d, Row<T> row) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T share = row.share[2 * d + j] + row.inside[j];
            const T r = math::sigmoid(row.kept[j] + row.share[j] + row.bias[j]);
            const T z = math::sigmoid(row.kept[d + j] + row.share[d + j] + row.bias[d + j]);
            const T n = math::tanh(row.kept[2 * d + j] + row.bias[2 * d + j] + r * share);
            row.kept[j] = r;
            row.kept[d + j] = z;
            row.kept[2 * d + j] = n;
            row.kept[3 * d + j] = share;
            row.kept[4 * d + j] = row.out[j] = row.h[j] = n + z * (row.h[j] - n);
        }
    }
    template <class T>
    WEFT_INLINE static T state(const T* kept, int64_t d, int64_t j) {
        return kept[4 * d + j];
    }
    template <class T>
    WEFT_INLINE static void backward(int64_t d, RowBack<T> row) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T r = row.kept[j], z = row.kept[d + j], n = row.kept[2 * d + j];
            const T g = row.g[j] + row.grad[j];
            const T dn = g * (1 - z) * (1 - n * n);
            const T dz = g * (row.before[j] - n) * z * (1 - z);
            const T dr = dn * row.kept[3 * d + j] * r * (1 - r);
            row.dx[j] = row.ds[j] = dr;
            row.dx[d + j] = row.ds[d + j] = dz;
            row.dx[2 * d + j] = dn;
            row.ds[2 * d + j] = dn * r;
            row.g[j] = g * z;
        }
    }
};

template <>
struct Step<Cell::Lstm> {
    template <class T>
    WEFT_INLINE static void forward(int64_t d, Row<T> row) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T i = math::sigmoid(row.kept[j] + row.bias[j]);
            const T f = math::sigmoid(row.kept[d + j] + row.bias[d + j]);
            const T g = math::tanh(row.kept[2 * d + j] + row.bias[2 * d + j]);
            const T o = math::sigmoid(row.kept[3 * d + j] + row.bias[3 * d + j]);
            const T c = f * row.c[j] + i * g, t = math::tanh(c);
            row.kept[j] = i;
            row.kept[d + j] = f;
            row.kept[2 * d + j] = g;
            row.kept[3 * d + j] = o;
            row.kept[4 * d + j] = row.c[j] = c;
            row.kept[5 * d + j] = t;
            row.out[j] = row.h[j] = o * t;
        }
    }
    template <class T>
    WEFT_INLINE static T state(const T* kept, int64_t d, int64_t j) {
        return kept[3 * d + j] * kept[5 * d + j];
    }
    template <class T>
    WEFT_INLINE static void backward(int64_t d, RowBack<T> row) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T i = row.kept[j], f = row.kept[d + j], u = row.kept[2 * d + j];
            const T o = row.kept[3 * d + j], t = row.kept[5 * d + j], g = row.g[j] + row.grad[j];
            const T dc = row.dc[j] + g * o * (1 - t * t);
            row.dx[j] = dc * u * i * (1 - i);
            row.dx[d + j] = dc * row.c_before[j] * f * (1 - f);
            row.dx[2 * d + j] = dc * i * (1 - u * u);
            row.dx[3 * d + j] = g * t * o * (1 - o);
            row.dc[j] = dc * f;
        }
    }
};

}  // namespace weft::kernels
