/// Softmax and its relatives along any axis, layer_norm over rows.
///
/// Rows (inner == 1) are done one after the other, each in a few passes over the level-1 cache;
/// other axes in strips of columns side by side.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "kernels/axis_work.h"
#include "kernels/math.h"
#include "kernels/reduce.h"
#include "kernels/row_sums.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

/// Elements with an exponential each that one thread takes at a time.
constexpr int64_t exp_piece = 1 << 14;

/// Runs `rows(first, count)` over rows of n elements.
template <class Rows>
void for_rows(int64_t rows, int64_t n, const Rows& body) {
    const int64_t grain = std::max<int64_t>(1, exp_piece / std::max<int64_t>(1, n));
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

/// Runs `body(offset, width, column)` over strips of at most `strip` columns of {outer, n, inner};
/// `column` counts over all of [outer, inner].
template <class Body>
void for_strips(Axis a, const Body& body) {
    const int64_t strips = divide_up(a.inner, strip);
    const int64_t work = std::max<int64_t>(1, a.n * std::min(strip, a.inner));
    parallel_for(a.outer * strips, std::max<int64_t>(1, exp_piece / work),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                         const int64_t o = i / strips, first = i % strips * strip;
                         body(o * a.n * a.inner + first, std::min(strip, a.inner - first),
                              o * a.inner + first);
                     }
                 });
}

// ---------------------------------------------------------------------------------------------
// Softmax forward

/// Sum of exp(x - shift), through a buffer because the exponential is a plain loop and the sum is
/// not.
template <class T, int Bytes>
WEFT_INLINE double exp_sum(const T* x, int64_t n, T shift) {
    constexpr int64_t block = 512;
    T buffer[block];
    Total<T> total;
    for (int64_t first = 0; first < n; first += block) {
        const int64_t count = std::min(block, n - first);
#pragma GCC unroll 1
        for (int64_t i = 0; i < count; ++i) buffer[i] = math::exp(x[first + i] - shift);
        row_sum<T, Bytes>(buffer, count, &total);
    }
    return total.get();
}

enum class Kind : uint8_t { Softmax, LogSoftmax, LogSumExp };

/// What to subtract before exp: the maximum, but 0 for an infinite one where only the sum is asked
/// for, so that log(sum) is that infinity and not NaN.
template <class T, Kind kind>
WEFT_INLINE T shift_of(T largest) {
    const bool infinite = math::abs(largest) == std::numeric_limits<T>::infinity();
    return kind == Kind::LogSumExp && infinite ? T(0) : largest;
}

template <class T, Kind kind>
struct SoftmaxRows {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const T* x, T* y, int64_t rows, int64_t n) {
            for (int64_t r = 0; r < rows; ++r, x += n) {
                const T shift = shift_of<T, kind>(row_max<T, Bytes>(x, n));
                if constexpr (kind == Kind::Softmax) {
                    one(x, y + r * n, n, shift);
                } else {
                    const T log_sum = static_cast<T>(std::log(exp_sum<T, Bytes>(x, n, shift)));
                    if constexpr (kind == Kind::LogSumExp) {
                        y[r] = shift + log_sum;
                    } else {
                        T* to = y + r * n;
#pragma GCC ivdep
#pragma GCC unroll 1
                        for (int64_t i = 0; i < n; ++i) to[i] = (x[i] - shift) - log_sum;
                    }
                }
            }
        }
        WEFT_INLINE static void one(const T* x, T* y, int64_t n, T shift) {
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - shift);
            Total<T> total;
            row_sum<T, Bytes>(y, n, &total);
            const T scale = static_cast<T>(1 / total.get());
#pragma GCC unroll 1
            for (int64_t i = 0; i < n; ++i) y[i] *= scale;
        }
    };
};

template <class T, Kind kind>
struct SoftmaxStrip {
    WEFT_INLINE static void run(const T* x, T* y, int64_t n, int64_t stride, int64_t width) {
        T shift[strip], acc[strip];
        double total[strip];
        for (int64_t j = 0; j < width; ++j) shift[j] = -std::numeric_limits<T>::infinity();
        for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) {
                const T v = x[i * stride + j];
                const T larger = shift[j] >= v ? shift[j] : v;
                shift[j] = shift[j] != shift[j] ? shift[j] : larger;
            }
        for (int64_t j = 0; j < width; ++j) shift[j] = shift_of<T, kind>(shift[j]);
        for (int64_t j = 0; j < width; ++j) total[j] = 0;
        for (int64_t first = 0; first < n; first += rows_per_block) {
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) acc[j] = 0;
            const int64_t end = std::min(n, first + rows_per_block);
            for (int64_t i = first; i < end; ++i)
#pragma GCC ivdep
#pragma GCC unroll 1
                for (int64_t j = 0; j < width; ++j) {
                    const T e = math::exp(x[i * stride + j] - shift[j]);
                    if constexpr (kind == Kind::Softmax) y[i * stride + j] = e;
                    acc[j] += e;
                }
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) total[j] += acc[j];
        }
#pragma GCC unroll 1
        for (int64_t j = 0; j < width; ++j)
            acc[j] = static_cast<T>(kind == Kind::Softmax ? 1 / total[j] : math::log(total[j]));
        if constexpr (kind == Kind::LogSumExp) {
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) y[j] = shift[j] + acc[j];
            return;
        }
        for (int64_t i = 0; i < n; ++i)
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) {
                const int64_t at = i * stride + j;
                y[at] = kind == Kind::Softmax ? y[at] * acc[j] : (x[at] - shift[j]) - acc[j];
            }
    }
};

template <class T, Kind kind>
void softmax_like(const T* x, T* y, Axis a) {
    if (a.outer <= 0 || a.inner <= 0 || (a.n <= 0 && kind != Kind::LogSumExp)) return;
    const int64_t row_out = kind == Kind::LogSumExp ? 1 : a.n;
    if (a.inner == 1)
        return for_rows(a.outer, a.n, [&](int64_t first, int64_t rows) {
            vec::per_width<SoftmaxRows<T, kind>::template Body>(x + first * a.n,
                                                                y + first * row_out, rows, a.n);
        });
    for_strips(a, [&](int64_t at, int64_t width, int64_t column) {
        per_isa<SoftmaxStrip<T, kind>>(x + at, y + (kind == Kind::LogSumExp ? column : at), a.n,
                                       a.inner, width);
    });
}

// ---------------------------------------------------------------------------------------------
// Softmax backward

template <class T, bool log>
struct BackwardRows {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const T* y, const T* dy, T* dx, int64_t rows, int64_t n) {
            for (int64_t r = 0; r < rows; ++r, y += n, dy += n, dx += n) {
                Total<T> total;
                lane_sums<T, Bytes, 1>(
                    n,
                    [=]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                        out[0] = vec::load<T, W>(dy + i);
                        if constexpr (!log) out[0] *= vec::load<T, W>(y + i);
                    },
                    &total);
                const T sum = static_cast<T>(total.get());
#pragma GCC ivdep
#pragma GCC unroll 1
                for (int64_t i = 0; i < n; ++i)
                    dx[i] = log ? dy[i] - math::exp(y[i]) * sum : y[i] * (dy[i] - sum);
            }
        }
    };
};

template <class T, bool log>
struct BackwardStrip {
    WEFT_INLINE static void run(const T* y, const T* dy, T* dx, int64_t n, int64_t stride,
                                int64_t width) {
        T acc[strip];
        double total[strip];
        for (int64_t j = 0; j < width; ++j) total[j] = 0;
        for (int64_t first = 0; first < n; first += rows_per_block) {
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) acc[j] = 0;
            const int64_t end = std::min(n, first + rows_per_block);
            for (int64_t i = first; i < end; ++i)
#pragma GCC unroll 1
                for (int64_t j = 0; j < width; ++j)
                    acc[j] += log ? dy[i * stride + j] : y[i * stride + j] * dy[i * stride + j];
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) total[j] += acc[j];
        }
        for (int64_t j = 0; j < width; ++j) acc[j] = static_cast<T>(total[j]);
        for (int64_t i = 0; i < n; ++i)
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) {
                const int64_t at = i * stride + j;
                dx[at] = log ? dy[at] - math::exp(y[at]) * acc[j] : y[at] * (dy[at] - acc[j]);
            }
    }
};

template <class T, bool log>
void backward_like(const T* y, const T* dy, T* dx, Axis a) {
    if (a.outer <= 0 || a.inner <= 0 || a.n <= 0) return;
    if (a.inner == 1)
        return for_rows(a.outer, a.n, [&](int64_t first, int64_t rows) {
            const int64_t at = first * a.n;
            vec::per_width<BackwardRows<T, log>::template Body>(y + at, dy + at, dx + at, rows,
                                                                a.n);
        });
    for_strips(a, [&](int64_t at, int64_t width, int64_t) {
        per_isa<BackwardStrip<T, log>>(y + at, dy + at, dx + at, a.n, a.inner, width);
    });
}

// ---------------------------------------------------------------------------------------------
// Layer norm

template <class T>
struct LayerNormRows {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const T* x, const T* gamma, const T* beta, double eps, T* y,
                                    T* means, T* rstds, int64_t rows, int64_t n) {
            for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
                Total<T> total, spread[2];
                row_sum<T, Bytes>(x, n, &total);
                const double count = static_cast<double>(n);
                const T mean = static_cast<T>(total.get() / count);
                lane_sums<T, Bytes, 2>(
                    n,
                    [x, mean]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                        out[1] = vec::load<T, W>(x + i) - mean;
                        out[0] = out[1] * out[1];
                    },
                    spread);
                const double shift = spread[1].get() / count;
                const double variance = spread[0].get() / count - shift * shift;
                const T rstd = static_cast<T>(1 / std::sqrt(variance + eps));
                if (means) means[r] = mean;
                if (rstds) rstds[r] = rstd;
                scale(x, gamma, beta, y, n, mean, rstd);
            }
        }
        WEFT_INLINE static void scale(const T* x, const T* gamma, const T* beta, T* y, int64_t n,
                                      T mean, T rstd) {
            if (gamma && beta) {
#pragma GCC ivdep
#pragma GCC unroll 1
                for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
                return;
            }
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd;
            if (gamma)
#pragma GCC unroll 1
                for (int64_t i = 0; i < n; ++i) y[i] *= gamma[i];
            if (beta)
#pragma GCC unroll 1
                for (int64_t i = 0; i < n; ++i) y[i] += beta[i];
        }
    };
};

/// Pointers of one backward pass; `gamma`, `dx` and (both or none) `slopes` and `sums` may be null.
template <class T>
struct LayerNormGrads {
    const T *dy, *x, *gamma, *means, *rstds;
    T* dx;
    T *slopes, *sums;  // [n], to which dgamma's and dbeta's terms are added
    int64_t n;
};

/// With h = (x - mean) * rstd and g = dy * gamma: dx = rstd * (g - mean(g) - h * mean(g * h)),
/// dgamma = sum of dy * h and dbeta = sum of dy over the rows.
template <class T>
struct LayerNormBackward {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const LayerNormGrads<T>* grads, int64_t first, int64_t rows) {
            const LayerNormGrads<T> q = *grads;
            for (int64_t r = first; r < first + rows; ++r) {
                const T *dy = q.dy + r * q.n, *x = q.x + r * q.n;
                const T mean = q.means[r], rstd = q.rstds[r];
                if (q.slopes) {
#pragma GCC ivdep
                    for (int64_t i = 0; i < q.n; ++i) {
                        q.slopes[i] += dy[i] * ((x[i] - mean) * rstd);
                        q.sums[i] += dy[i];
                    }
                }
                if (q.dx) input(dy, x, q.gamma, mean, rstd, q.dx + r * q.n, q.n);
            }
        }
        WEFT_INLINE static void input(const T* dy, const T* x, const T* gamma, T mean, T rstd,
                                      T* dx, int64_t n) {
            Total<T> totals[2];
            lane_sums<T, Bytes, 2>(
                n,
                [dy, x, gamma, mean, rstd]<int W>(int64_t i, auto* out)
                    __attribute__((always_inline)) {
                        out[0] = vec::load<T, W>(dy + i);
                        if (gamma) out[0] *= vec::load<T, W>(gamma + i);
                        out[1] = out[0] * ((vec::load<T, W>(x + i) - mean) * rstd);
                    },
                totals);
            const T offset = static_cast<T>(totals[0].get() / static_cast<double>(n));
            const T slope = static_cast<T>(totals[1].get() / static_cast<double>(n));
            if (gamma) {
#pragma GCC ivdep
#pragma GCC unroll 1
                for (int64_t i = 0; i < n; ++i)
                    dx[i] = rstd * (dy[i] * gamma[i] - offset - (x[i] - mean) * rstd * slope);
            } else {
#pragma GCC ivdep
#pragma GCC unroll 1
                for (int64_t i = 0; i < n; ++i)
                    dx[i] = rstd * (dy[i] - offset - (x[i] - mean) * rstd * slope);
            }
        }
    };
};

/// The whole backward pass in one walk over the rows: at most 16 chunks of whole blocks, each with
/// its own sums; a block is summed in T and then added to the chunk's doubles.
template <class T>
void layer_norm_walk(LayerNormGrads<T> grads, T* dgamma, T* dbeta, int64_t rows) {
    const int64_t n = grads.n;
    const int64_t least = std::max(divide_up(rows, 16), exp_piece / n);
    const int64_t rows_per_chunk =
        divide_up(std::max<int64_t>(1, least), rows_per_block) * rows_per_block;
    const int64_t chunks = std::max<int64_t>(1, divide_up(rows, rows_per_chunk));
    std::vector<double> totals(chunks * 2 * n);
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
        std::vector<T> block(2 * n);
        LayerNormGrads<T> own = grads;
        own.slopes = block.data();
        own.sums = block.data() + n;
        for (int64_t c = begin; c < end; ++c) {
            const int64_t last = std::min(rows, (c + 1) * rows_per_chunk);
            for (int64_t r = c * rows_per_chunk; r < last; r += rows_per_block) {
                std::fill(block.begin(), block.end(), T(0));
                vec::per_width<LayerNormBackward<T>::template Body>(
                    &own, r, std::min(rows_per_block, last - r));
                for (int64_t j = 0; j < 2 * n; ++j) totals[c * 2 * n + j] += block[j];
            }
        }
    });
    for (int64_t j = 0; j < 2 * n; ++j) {
        double total = 0;
        for (int64_t c = 0; c < chunks; ++c) total += totals[c * 2 * n + j];
        T* const out = j < n ? dgamma : dbeta;
        if (out) out[j % n] = static_cast<T>(total);
    }
}

}  // namespace

template <class T>
void logsumexp(const T* x, T* y, Axis axis) {
    softmax_like<T, Kind::LogSumExp>(x, y, axis);
}

template <class T>
void softmax(const T* x, T* y, Axis axis) {
    softmax_like<T, Kind::Softmax>(x, y, axis);
}

template <class T>
void log_softmax(const T* x, T* y, Axis axis) {
    softmax_like<T, Kind::LogSoftmax>(x, y, axis);
}

template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, Axis axis) {
    backward_like<T, false>(y, dy, dx, axis);
}

template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, Axis axis) {
    backward_like<T, true>(y, dy, dx, axis);
}

template <class T>
void layer_norm(const T* x, const T* gamma, const T* beta, double eps, T* y, T* mean, T* rstd,
                int64_t rows, int64_t n) {
    if (rows <= 0) return;
    for_rows(rows, n, [&](int64_t first, int64_t count) {
        vec::per_width<LayerNormRows<T>::template Body>(
            x + first * n, gamma, beta, eps, y + first * n, mean ? mean + first : nullptr,
            rstd ? rstd + first : nullptr, count, n);
    });
}

template <class T>
void layer_norm_backward(const T* dy, const T* x, const T* gamma, const T* mean, const T* rstd,
                         T* dx, T* dgamma, T* dbeta, int64_t rows, int64_t n) {
    if (n <= 0) return;
    const LayerNormGrads<T> grads{dy, x, gamma, mean, rstd, dx, nullptr, nullptr, n};
    if (dgamma || dbeta) return layer_norm_walk(grads, dgamma, dbeta, rows);
    if (!dx || rows <= 0) return;
    for_rows(rows, n, [&](int64_t first, int64_t count) {
        vec::per_width<LayerNormBackward<T>::template Body>(&grads, first, count);
    });
}

#define WEFT_NORMALIZE(T)                                                                          \
    template void logsumexp(const T*, T*, Axis);                                                   \
    template void softmax(const T*, T*, Axis);                                                     \
    template void log_softmax(const T*, T*, Axis);                                                 \
    template void softmax_backward(const T*, const T*, T*, Axis);                                  \
    template void log_softmax_backward(const T*, const T*, T*, Axis);                              \
    template void layer_norm(const T*, const T*, const T*, double, T*, T*, T*, int64_t, int64_t);  \
    template void layer_norm_backward(const T*, const T*, const T*, const T*, const T*, T*, T*,    \
                                      T*, int64_t, int64_t);
WEFT_NORMALIZE(float)
WEFT_NORMALIZE(double)
#undef WEFT_NORMALIZE

}  // namespace weft::kernels
