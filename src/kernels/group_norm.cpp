/// A group is contiguous, and all passes over it are made before the next one, so that all but the
/// first read a near cache. The weight's gradient is a sum over images of sums over each channel of
/// each image; those are what a group leaves behind.
#include "kernels/group_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/reduce.h"
#include "kernels/row_sums.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

template <class Body>
void for_groups(const Groups& n, const Body& body) {
    const int64_t work = std::max<int64_t>(1, n.size());
    parallel_for(n.images * n.groups, std::max<int64_t>(1, (1 << 15) / work),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) body(i);
                 });
}

template <class T>
struct GroupForward {
    const T *x, *gamma, *beta;
    double eps;
    T *y, *mean, *rstd;
};

template <class T>
struct ForwardGroup {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const GroupForward<T>* forward, Groups n, int64_t group) {
            const GroupForward<T> f = *forward;
            const int64_t first = group % n.groups * n.width();
            const T* __restrict x = f.x + group * n.size();
            T* __restrict y = f.y + group * n.size();
            stats(f, x, n.size(), group);
            const T mean = f.mean[group], rstd = f.rstd[group];
            const auto gamma = [&](int64_t c) { return f.gamma ? f.gamma[first + c] : T(1); };
            const auto beta = [&](int64_t c) { return f.beta ? f.beta[first + c] : T(0); };
            if (n.inner == 1) {
                for (int64_t c = 0; c < n.width(); ++c)
                    y[c] = (x[c] - mean) * (rstd * gamma(c)) + beta(c);
                return;
            }
            for (int64_t c = 0; c < n.width(); ++c, x += n.inner, y += n.inner) {
                const T scale = rstd * gamma(c), shift = beta(c);
                for (int64_t i = 0; i < n.inner; ++i) y[i] = (x[i] - mean) * scale + shift;
            }
        }
        WEFT_INLINE static void stats(const GroupForward<T>& f, const T* x, int64_t size,
                                      int64_t group) {
            const auto count = static_cast<double>(size);
            Total<T> total, spread[2];
            row_sum<T, Bytes>(x, size, &total);
            const T mean = static_cast<T>(total.get() / count);
            lane_sums<T, Bytes, 2>(
                size,
                [x, mean]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                    out[1] = vec::load<T, W>(x + i) - mean;
                    out[0] = out[1] * out[1];
                },
                spread);
            const double rest = spread[1].get() / count;  // mean is rounded
            const double variance = spread[0].get() / count - rest * rest;
            f.mean[group] = mean;
            f.rstd[group] = static_cast<T>(1 / std::sqrt(variance + f.eps));
        }
    };
};

template <class T>
struct GroupBackward {
    const T *dy, *x, *gamma, *mean, *rstd;
    T *dx, *by_gamma, *by_beta;  ///< the latter [images, channels]
};

template <class T>
struct BackwardGroup {
    /// The sums of dy and dy * (x - mean) over one channel.
    template <int Bytes>
    WEFT_INLINE static void sums(int64_t n, const T* dy, const T* x, T mean, Total<T>* totals) {
        lane_sums<T, Bytes, 2>(
            n,
            [dy, x, mean]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                out[0] = vec::load<T, W>(dy + i);
                out[1] = out[0] * (vec::load<T, W>(x + i) - mean);
            },
            totals);
    }

    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const GroupBackward<T>* backward, Groups n, int64_t group) {
            const GroupBackward<T> q = *backward;
            const int64_t at = group * n.size(), first = group % n.groups * n.width();
            const T mean = q.mean[group], rstd = q.rstd[group];
            const auto gamma = [&](int64_t c) { return q.gamma ? q.gamma[first + c] : T(1); };
            double plain = 0, product = 0;
            for (int64_t c = 0; c < n.width(); ++c) {
                Total<T> totals[2];
                sums<Bytes>(n.inner, q.dy + at + c * n.inner, q.x + at + c * n.inner, mean, totals);
                const double s = totals[0].get(), t = totals[1].get();
                plain += s * gamma(c);
                product += t * gamma(c);
                if (q.by_beta) q.by_beta[group * n.width() + c] = static_cast<T>(s);
                if (q.by_gamma) q.by_gamma[group * n.width() + c] = static_cast<T>(t * rstd);
            }
            if (!q.dx) return;
            const auto count = static_cast<double>(n.size());
            const double r = rstd;
            const T b = static_cast<T>(-r * r * r * product / count);
            const T shift = static_cast<T>(-r * plain / count);
            const T* __restrict dy = q.dy + at, * __restrict x = q.x + at;
            T* __restrict dx = q.dx + at;
            if (n.inner == 1) {
                for (int64_t c = 0; c < n.width(); ++c)
                    dx[c] = dy[c] * (rstd * gamma(c)) + ((x[c] - mean) * b + shift);
                return;
            }
            for (int64_t c = 0; c < n.width(); ++c, dy += n.inner, x += n.inner, dx += n.inner) {
                const T a = rstd * gamma(c);
                for (int64_t i = 0; i < n.inner; ++i)
                    dx[i] = dy[i] * a + ((x[i] - mean) * b + shift);
            }
        }
    };
};

}  // namespace

template <class T>
void group_norm(Groups n, const T* x, const T* gamma, const T* beta, double eps, T* y, T* mean,
                T* rstd) {
    const GroupForward<T> f{x, gamma, beta, eps, y, mean, rstd};
    for_groups(n, [&](int64_t i) { vec::per_width<ForwardGroup<T>::template Body>(&f, n, i); });
}

template <class T>
void group_norm_backward(Groups n, const T* dy, const T* x, const T* gamma, const T* mean,
                         const T* rstd, T* dx, T* dgamma, T* dbeta) {
    std::vector<T> sums((dgamma ? 1 : 0) * n.images * n.channels +
                        (dbeta ? 1 : 0) * n.images * n.channels);
    T* const by_gamma = dgamma ? sums.data() : nullptr;
    T* const by_beta = dbeta ? sums.data() + (dgamma ? n.images * n.channels : 0) : nullptr;
    const GroupBackward<T> q{dy, x, gamma, mean, rstd, dx, by_gamma, by_beta};
    for_groups(n, [&](int64_t i) { vec::per_width<BackwardGroup<T>::template Body>(&q, n, i); });
    if (dgamma) sum(by_gamma, dgamma, Axis{1, n.images, n.channels});
    if (dbeta) sum(by_beta, dbeta, Axis{1, n.images, n.channels});
}

#define WEFT_GROUP_NORM(T)                                                                         \
    template void group_norm<T>(Groups, const T*, const T*, const T*, double, T*, T*, T*);         \
    template void group_norm_backward<T>(Groups, const T*, const T*, const T*, const T*, const T*, \
                                         T*, T*, T*);
WEFT_GROUP_NORM(float)
WEFT_GROUP_NORM(double)
#undef WEFT_GROUP_NORM

}  // namespace weft::kernels
