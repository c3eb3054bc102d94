/// A channel is a row of `inner` elements in each image. All passes over it are made before the
/// next channel, so that all but the first read the second-level cache. Where rows are single
/// elements ([batch, channels]), strips of channels are done side by side.
#include "kernels/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "kernels/row_sums.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

constexpr int64_t strip = 64;

/// Runs `body(channel, count)`: one channel at a time, or strips of them if rows are one element.
template <class Body>
void for_channels(Channels n, const Body& body) {
    const int64_t step = n.inner == 1 ? strip : 1;
    const int64_t blocks = (n.channels + step - 1) / step;
    const int64_t work = std::max<int64_t>(1, n.batch * n.inner * step);
    parallel_for(blocks, std::max<int64_t>(1, (1 << 15) / work), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) body(i * step, std::min(step, n.channels - i * step));
    });
}

template <class T>
struct Forward {
    const T *x, *gamma, *beta;
    T *y, *mean, *rstd, *variance;
    double eps;
    bool own;
};

template <class T>
WEFT_INLINE void finish(const Forward<T>& f, int64_t c, double mean, double variance) {
    f.mean[c] = static_cast<T>(mean);
    f.rstd[c] = static_cast<T>(1 / std::sqrt(variance + f.eps));
    if (f.variance) f.variance[c] = static_cast<T>(variance);
}

/// One channel in rows.
template <class T>
struct ForwardRows {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const Forward<T>* forward, Channels n, int64_t c) {
            const Forward<T> f = *forward;
            if (f.own) stats(f, n, c);
            const T mean = f.mean[c], scale = f.rstd[c] * (f.gamma ? f.gamma[c] : T(1));
            const T shift = f.beta ? f.beta[c] : T(0);
            for (int64_t b = 0; b < n.batch; ++b) {
                const int64_t at = (b * n.channels + c) * n.inner;
                const T* __restrict x = f.x + at;
                T* __restrict y = f.y + at;
#pragma GCC unroll 1
                for (int64_t i = 0; i < n.inner; ++i) y[i] = (x[i] - mean) * scale + shift;
            }
        }
        WEFT_INLINE static void stats(const Forward<T>& f, Channels n, int64_t c) {
            const double count = static_cast<double>(n.batch * n.inner);
            Total<T> total, spread[2];
            for (int64_t b = 0; b < n.batch; ++b)
                row_sum<T, Bytes>(f.x + (b * n.channels + c) * n.inner, n.inner, &total);
            const T mean = static_cast<T>(total.get() / count);
            for (int64_t b = 0; b < n.batch; ++b) {
                const T* x = f.x + (b * n.channels + c) * n.inner;
                lane_sums<T, Bytes, 2>(
                    n.inner,
                    [x, mean]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                        out[1] = vec::load<T, W>(x + i) - mean;
                        out[0] = out[1] * out[1];
                    },
                    spread);
            }
            const double shift = spread[1].get() / count;
            finish(f, c, total.get() / count, spread[0].get() / count - shift * shift);
        }
    };
};

/// Channels [first, first + width) of single elements.
template <class T>
struct ForwardStrip {
    WEFT_INLINE static void run(const Forward<T>* forward, Channels n, int64_t first,
                                int64_t width) {
        const Forward<T> f = *forward;
        if (f.own) {
            double sum[strip], squares[strip];
            const double count = static_cast<double>(n.batch);
            for (int64_t j = 0; j < width; ++j) sum[j] = squares[j] = 0;
            for (int64_t b = 0; b < n.batch; ++b)
                for (int64_t j = 0; j < width; ++j) sum[j] += f.x[b * n.channels + first + j];
            for (int64_t j = 0; j < width; ++j) sum[j] /= count;
            for (int64_t b = 0; b < n.batch; ++b)
#pragma GCC unroll 1
                for (int64_t j = 0; j < width; ++j) {
                    const double d = f.x[b * n.channels + first + j] - sum[j];
                    squares[j] += d * d;
                }
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) finish(f, first + j, sum[j], squares[j] / count);
        }
        T scale[strip], shift[strip];
#pragma GCC unroll 1
        for (int64_t j = 0; j < width; ++j) {
            scale[j] = f.rstd[first + j] * (f.gamma ? f.gamma[first + j] : T(1));
            shift[j] = f.beta ? f.beta[first + j] : T(0);
        }
        for (int64_t b = 0; b < n.batch; ++b) {
            const int64_t at = b * n.channels + first;
            const T* __restrict x = f.x + at, * __restrict mean = f.mean + first;
            T* __restrict y = f.y + at;
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) y[j] = (x[j] - mean[j]) * scale[j] + shift[j];
        }
    }
};

template <class T>
struct Backward {
    const T *dy, *x, *gamma, *mean, *rstd;
    T *dx, *dgamma, *dbeta;
    bool own;
};

/// dx = dy * a + (x - mean) * b + c, with the sums s of dy and t of dy * (x - mean).
template <class T>
struct Slope {
    T a, b, c;
    WEFT_INLINE Slope(const Backward<T>& q, int64_t channel, double s, double t, double count) {
        const double r = q.rstd[channel], g = r * (q.gamma ? q.gamma[channel] : 1.0);
        a = static_cast<T>(g);
        b = static_cast<T>(q.own ? -g * r * r * t / count : 0.0);
        c = static_cast<T>(q.own ? -g * s / count : 0.0);
        if (q.dgamma) q.dgamma[channel] = static_cast<T>(t * r);
        if (q.dbeta) q.dbeta[channel] = static_cast<T>(s);
    }
};

template <class T>
struct BackwardRows {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const Backward<T>* backward, Channels n, int64_t c) {
            const Backward<T> q = *backward;
            const T mean = q.mean[c];
            Total<T> totals[2];
            for (int64_t b = 0; b < n.batch; ++b) {
                const int64_t at = (b * n.channels + c) * n.inner;
                const T *dy = q.dy + at, *x = q.x + at;
                lane_sums<T, Bytes, 2>(
                    n.inner,
                    [dy, x, mean]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                        out[0] = vec::load<T, W>(dy + i);
                        out[1] = out[0] * (vec::load<T, W>(x + i) - mean);
                    },
                    totals);
            }
            const Slope<T> s(q, c, totals[0].get(), totals[1].get(),
                             static_cast<double>(n.batch * n.inner));
            if (!q.dx) return;
            for (int64_t b = 0; b < n.batch; ++b) {
                const int64_t at = (b * n.channels + c) * n.inner;
                const T* __restrict dy = q.dy + at, * __restrict x = q.x + at;
                T* __restrict dx = q.dx + at;
#pragma GCC unroll 1
                for (int64_t i = 0; i < n.inner; ++i)
                    dx[i] = dy[i] * s.a + ((x[i] - mean) * s.b + s.c);
            }
        }
    };
};

template <class T>
struct BackwardStrip {
    WEFT_INLINE static void run(const Backward<T>* backward, Channels n, int64_t first,
                                int64_t width) {
        const Backward<T> q = *backward;
        double sum[strip], product[strip];
#pragma GCC unroll 1
        for (int64_t j = 0; j < width; ++j) sum[j] = product[j] = 0;
        const T* mean = q.mean + first;
        for (int64_t b = 0; b < n.batch; ++b) {
            const T *dy = q.dy + b * n.channels + first, *x = q.x + b * n.channels + first;
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) {
                sum[j] += dy[j];
                product[j] += static_cast<double>(dy[j]) * (x[j] - mean[j]);
            }
        }
        T a[strip], m[strip], c[strip];
#pragma GCC unroll 1
        for (int64_t j = 0; j < width; ++j) {
            const Slope<T> s(q, first + j, sum[j], product[j], static_cast<double>(n.batch));
            a[j] = s.a, m[j] = s.b, c[j] = s.c;
        }
        if (!q.dx) return;
        for (int64_t b = 0; b < n.batch; ++b) {
            const int64_t at = b * n.channels + first;
            const T* __restrict dy = q.dy + at, * __restrict x = q.x + at;
            T* __restrict dx = q.dx + at;
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j)
                dx[j] = dy[j] * a[j] + ((x[j] - mean[j]) * m[j] + c[j]);
        }
    }
};

}  // namespace

template <class T>
void batch_norm(Channels n, const T* x, const T* gamma, const T* beta, double eps,
                ChannelStats<T> stats, bool own, T* y) {
    const Forward<T> f{x, gamma, beta, y, stats.mean, stats.rstd, stats.variance, eps, own};
    for_channels(n, [&](int64_t c, int64_t width) {
        if (n.inner == 1) per_isa<ForwardStrip<T>>(&f, n, c, width);
        else vec::per_width<ForwardRows<T>::template Body>(&f, n, c);
    });
}

template <class T>
void batch_norm_backward(Channels n, const T* dy, const T* x, const T* gamma, const T* mean,
                         const T* rstd, bool own, T* dx, T* dgamma, T* dbeta) {
    const Backward<T> q{dy, x, gamma, mean, rstd, dx, dgamma, dbeta, own};
    for_channels(n, [&](int64_t c, int64_t width) {
        if (n.inner == 1) per_isa<BackwardStrip<T>>(&q, n, c, width);
        else vec::per_width<BackwardRows<T>::template Body>(&q, n, c);
    });
}

#define WEFT_BATCH_NORM(T)                                                                         \
    template void batch_norm<T>(Channels, const T*, const T*, const T*, double, ChannelStats<T>,   \
                                bool, T*);                                                         \
    template void batch_norm_backward<T>(Channels, const T*, const T*, const T*, const T*,         \
                                         const T*, bool, T*, T*, T*);
WEFT_BATCH_NORM(float)
WEFT_BATCH_NORM(double)
#undef WEFT_BATCH_NORM

}  // namespace weft::kernels
