/// b is transposed first, so that the distances of one row of a to many of b are made side by side,
/// in vectors, for any width.
#include "kernels/distance.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "kernels/math.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

/// Rows of b side by side.
constexpr int64_t strip = 64;
/// Differences that one thread takes at a time: about 20 microseconds.
constexpr int64_t grain_work = 1 << 16;

template <Metric p, class T>
WEFT_INLINE T added(T sum, T d) {
    if constexpr (p == Metric::Two) return sum + d * d;
    const T size = math::abs(d);
    if constexpr (p == Metric::One) return sum + size;
    return size > sum || size != size ? size : sum;
}

/// The share of one difference in the gradient g of its distance (over the distance, for Two).
template <Metric p, class T>
WEFT_INLINE T slope(T d, T g, T distance) {
    if constexpr (p == Metric::Two) return g * d;
    const T signed_g = d > 0 ? g : d < 0 ? -g : T(0);
    if constexpr (p == Metric::One) return signed_g;
    return math::abs(d) == distance ? signed_g : T(0);
}

/// Calls body(first, count) for strips of [0, n), with a count that the compiler knows for whole ones.
template <class Body>
WEFT_INLINE void for_strips(int64_t n, const Body& body) {
    int64_t j = 0;
    for (; j + strip <= n; j += strip) body(j, std::integral_constant<int64_t, strip>());
    if (j < n) body(j, n - j);
}

/// Some rows of a against columns of bt [width, others].
template <Metric p, class T>
struct Forward {
    WEFT_INLINE static void run(int64_t rows, int64_t others, int64_t width, const T* a,
                                const T* bt, T* y) {
        for (int64_t i = 0; i < rows; ++i, a += width, y += others)
            for_strips(others, [=](int64_t first, auto count) __attribute__((always_inline)) {
                T sums[strip] = {};
                for (int64_t m = 0; m < width; ++m) {
                    const T x = a[m];
                    const T* __restrict b = bt + m * others + first;
                    for (int64_t j = 0; j < count; ++j) sums[j] = added<p>(sums[j], x - b[j]);
                }
                T* __restrict to = y + first;
                for (int64_t j = 0; j < count; ++j)
                    to[j] = p == Metric::Two ? std::sqrt(sums[j]) : sums[j];
            });
    }
};

/// Columns [first, last) of a and b: those of da, and rows of dbt [width, others].
template <Metric p, class T>
struct Backward {
    WEFT_INLINE static void run(const PairSizes* sizes, int64_t begin, int64_t end, const T* g,
                                const T* a, const T* bt, const T* y, T* da, T* dbt) {
        const PairSizes n = *sizes;
        for (int64_t i = 0; i < n.rows; ++i, g += n.others, y += n.others)
            for (int64_t m = begin; m < end; ++m) {
                const T x = a[i * n.width + m];
                T sums[strip] = {};
                for_strips(n.others, [&, x, m](int64_t first,
                                               auto count) __attribute__((always_inline)) {
                    const T* __restrict b = bt + m * n.others + first, * __restrict grad = g + first, * __restrict size = y + first;
                    T* __restrict db = dbt + m * n.others + first;
                    for (int64_t j = 0; j < count; ++j) {
                        const T t = slope<p>(x - b[j], grad[j], size[j]);
                        sums[j] += t;
                        db[j] -= t;
                    }
                });
                for (int64_t half = strip / 2; half > 0; half /= 2)
                    for (int64_t j = 0; j < half; ++j) sums[j] += sums[j + half];
                da[i * n.width + m] = sums[0];
            }
    }
};

/// dy / y where that is not 0, else 0.
template <class T>
struct Quotients {
    WEFT_INLINE static void run(int64_t n, const T* dy, const T* y, T* out) {
        for (int64_t i = 0; i < n; ++i) out[i] = y[i] == 0 ? T(0) : dy[i] / y[i];
    }
};

template <class T>
void transpose(int64_t rows, int64_t cols, const T* from, T* to) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) to[j * rows + i] = from[i * cols + j];
}

template <Metric p, class T>
void forward(const PairSizes& n, const T* a, const T* b, T* y) {
    const std::unique_ptr<T[]> bt(new T[n.others * n.width]);
    const int64_t grain =
        std::max<int64_t>(1, grain_work / std::max<int64_t>(1, n.others * n.width));
    for (int64_t k = 0; k < n.batch; ++k) {
        transpose(n.others, n.width, b + k * n.others * n.width, bt.get());
        parallel_for(n.rows, grain, [&](int64_t begin, int64_t end) {
            const int64_t row = k * n.rows + begin;
            per_isa<Forward<p, T>>(end - begin, n.others, n.width, a + row * n.width,
                                   static_cast<const T*>(bt.get()), y + row * n.others);
        });
    }
}

template <Metric p, class T>
void backward(const PairSizes& n, const T* dy, const T* a, const T* b, const T* y, T* da, T* db) {
    const std::unique_ptr<T[]> bt(new T[n.others * n.width]), dbt(new T[n.others * n.width]),
        quotients(new T[p == Metric::Two ? n.rows * n.others : 0]);
    const int64_t grain =
        std::max<int64_t>(1, grain_work / std::max<int64_t>(1, n.rows * n.others));
    for (int64_t k = 0; k < n.batch; ++k) {
        const T *g = dy + k * n.rows * n.others, *size = y + k * n.rows * n.others;
        transpose(n.others, n.width, b + k * n.others * n.width, bt.get());
        std::fill_n(dbt.get(), n.others * n.width, T(0));
        if (p == Metric::Two) {
            per_isa<Quotients<T>>(n.rows * n.others, g, size, quotients.get());
            g = quotients.get();
        }
        parallel_for(n.width, grain, [&](int64_t begin, int64_t end) {
            per_isa<Backward<p, T>>(&n, begin, end, g, a + k * n.rows * n.width,
                                    static_cast<const T*>(bt.get()), size,
                                    da + k * n.rows * n.width, dbt.get());
        });
        transpose(n.width, n.others, static_cast<const T*>(dbt.get()), db + k * n.others * n.width);
    }
}

/// Calls f.template operator()<p>().
template <class F>
void with_metric(Metric p, const F& f) {
    switch (p) {
        case Metric::One:
            return f.template operator()<Metric::One>();
        case Metric::Two:
            return f.template operator()<Metric::Two>();
        case Metric::Max:
            return f.template operator()<Metric::Max>();
    }
}

}  // namespace

template <class T>
void distances(Metric p, const PairSizes& n, const T* a, const T* b, T* y) {
    with_metric(p, [&]<Metric metric>() { forward<metric>(n, a, b, y); });
}

template <class T>
void distances_backward(Metric p, const PairSizes& n, const T* dy, const T* a, const T* b,
                        const T* y, T* da, T* db) {
    with_metric(p, [&]<Metric metric>() { backward<metric>(n, dy, a, b, y, da, db); });
}

#define WEFT_DISTANCE(T)                                                                           \
    template void distances<T>(Metric, const PairSizes&, const T*, const T*, T*);                  \
    template void distances_backward<T>(Metric, const PairSizes&, const T*, const T*, const T*,    \
                                        const T*, T*, T*);
WEFT_DISTANCE(float)
WEFT_DISTANCE(double)
#undef WEFT_DISTANCE

}  // namespace weft::kernels
