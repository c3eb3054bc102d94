#include "kernels/pool.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

/// Elements that one thread takes at a time, about.
constexpr int64_t piece = 1 << 15;

template <class Body>
void for_planes(const PoolShape& s, const Body& body) {
    const int64_t grain = std::max<int64_t>(1, piece / std::max<int64_t>(1, s.in_size()));
    parallel_for(s.planes, grain, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) body(p);
    });
}

/// Calls `window(output index, d, h, w)` for every output of a plane.
template <class Window>
WEFT_INLINE void for_windows(const PoolShape& s, const Window& window) {
    int64_t o = 0;
    for (int64_t d = 0; d < s.axis[0].out; ++d)
        for (int64_t h = 0; h < s.axis[1].out; ++h)
            for (int64_t w = 0; w < s.axis[2].out; ++w) window(o++, d, h, w);
}

/// Calls `each(input index)` for the places of one window, in memory order.
template <class Each>
WEFT_INLINE void for_places(const PoolShape& s, int64_t d, int64_t h, int64_t w, const Each& each) {
    const PoolAxis *a = s.axis, *b = s.axis + 1, *c = s.axis + 2;
    for (int64_t i = a->begin[d]; i < a->end[d]; i += a->step)
        for (int64_t j = b->begin[h]; j < b->end[h]; j += b->step) {
            const int64_t row = (i * b->in + j) * c->in;
            for (int64_t k = c->begin[w]; k < c->end[w]; k += c->step) each(row + k);
        }
}

/// The place of the largest value of a window.
template <class T>
WEFT_INLINE int64_t largest(const PoolShape& s, const T* x, int64_t d, int64_t h, int64_t w) {
    int64_t best = (s.axis[0].begin[d] * s.axis[1].in + s.axis[1].begin[h]) * s.axis[2].in +
                   s.axis[2].begin[w];
    T value = x[best];
    for_places(s, d, h, w, [&](int64_t i) {
        if (x[i] > value || x[i] != x[i]) value = x[i], best = i;
    });
    return best;
}

/// Windows of 2 x 2 side by side: one row of outputs from two rows of inputs.
template <class T>
WEFT_INLINE T larger(T a, T b) {
    return b > a || b != b ? b : a;
}
template <class T>
struct MaxOfPairs {
    WEFT_INLINE static void run(const T* __restrict x, T* __restrict y, int64_t rows, int64_t out,
                                int64_t width, int64_t step) {
        for (int64_t r = 0; r < rows; ++r, x += step, y += out) {
            const T* below = x + width;
            for (int64_t i = 0; i < out; ++i)
                y[i] = larger(larger(larger(x[2 * i], x[2 * i + 1]), below[2 * i]),
                              below[2 * i + 1]);
        }
    }
};
/// `odd`: a last column that belongs to no window.
template <class T>
struct MaxOfPairsBackward {
    WEFT_INLINE static void run(const T* __restrict x, const T* __restrict dy, T* __restrict dx,
                                int64_t rows, int64_t out, int64_t width, bool odd) {
        for (int64_t r = 0; r < rows; ++r, x += 2 * width, dx += 2 * width, dy += out) {
            const T* below = x + width;
            T* dbelow = dx + width;
            for (int64_t i = 0; i < out; ++i) {
                const T a = x[2 * i], b = x[2 * i + 1], c = below[2 * i], d = below[2 * i + 1];
                const T g = dy[i];
                const bool second = (b > a) | (b != b);
                const T ab = second ? b : a;
                const bool third = (c > ab) | (c != c);
                const T abc = third ? c : ab;
                const bool fourth = (d > abc) | (d != d);
                const T upper = third | fourth ? T(0) : g, lower = fourth ? T(0) : g;
                dx[2 * i] = second ? T(0) : upper;
                dx[2 * i + 1] = second ? upper : T(0);
                dbelow[2 * i] = third ? lower : T(0);
                dbelow[2 * i + 1] = fourth ? g : T(0);
            }
            if (odd) dx[width - 1] = dbelow[width - 1] = 0;
        }
    }
};

bool pairs(const PoolShape& s) {
    return s.axis[0].in == 1 && s.axis[0].out == 1 && s.axis[1].pairs && s.axis[2].pairs;
}

}  // namespace

template <class T>
void max_pool(const PoolShape& s, const T* x, T* y, int64_t* index) {
    const int64_t in = s.in_size(), out = s.out_size(), width = s.axis[2].in;
    const bool fast = pairs(s) && !index;
    for_planes(s, [&](int64_t p) {
        const T* from = x + p * in;
        T* to = y + p * out;
        if (fast)
            return per_isa<MaxOfPairs<T>>(from, to, s.axis[1].out, s.axis[2].out, width,
                                          2 * width);
        for_windows(s, [&](int64_t o, int64_t d, int64_t h, int64_t w) {
            const int64_t best = largest(s, from, d, h, w);
            to[o] = from[best];
            if (index) index[p * out + o] = best;
        });
    });
}

template <class T>
void max_pool_backward(const PoolShape& s, const T* x, const T* dy, T* dx) {
    const int64_t in = s.in_size(), out = s.out_size(), width = s.axis[2].in;
    const bool fast = pairs(s);
    for_planes(s, [&](int64_t p) {
        const T *from = x + p * in, *grad = dy + p * out;
        T* to = dx + p * in;
        if (fast) {
            per_isa<MaxOfPairsBackward<T>>(from, grad, to, s.axis[1].out, s.axis[2].out, width,
                                           width % 2 == 1);
            std::fill(to + 2 * s.axis[1].out * width, to + in, T(0));
            return;
        }
        std::fill_n(to, in, T(0));
        for_windows(s, [&](int64_t o, int64_t d, int64_t h, int64_t w) {
            to[largest(s, from, d, h, w)] += grad[o];
        });
    });
}

namespace {

template <class T>
WEFT_INLINE T divisor(const PoolShape& s, int64_t d, int64_t h, int64_t w) {
    return static_cast<T>(s.divisor ? s.divisor
                                    : s.axis[0].count[d] * s.axis[1].count[h] * s.axis[2].count[w]);
}

}  // namespace

template <class T>
void avg_pool(const PoolShape& s, const T* x, T* y) {
    const int64_t in = s.in_size(), out = s.out_size();
    for_planes(s, [&](int64_t p) {
        for_windows(s, [&](int64_t o, int64_t d, int64_t h, int64_t w) {
            T sum = 0;
            for_places(s, d, h, w, [&](int64_t i) { sum += x[p * in + i]; });
            y[p * out + o] = sum / divisor<T>(s, d, h, w);
        });
    });
}

template <class T>
void avg_pool_backward(const PoolShape& s, const T* dy, T* dx) {
    const int64_t in = s.in_size(), out = s.out_size();
    for_planes(s, [&](int64_t p) {
        T* to = dx + p * in;
        std::fill_n(to, in, T(0));
        for_windows(s, [&](int64_t o, int64_t d, int64_t h, int64_t w) {
            const T share = dy[p * out + o] / divisor<T>(s, d, h, w);
            for_places(s, d, h, w, [&](int64_t i) { to[i] += share; });
        });
    });
}

#define WEFT_POOL(T)                                                            \
    template void max_pool<T>(const PoolShape&, const T*, T*, int64_t*);        \
    template void max_pool_backward<T>(const PoolShape&, const T*, const T*, T*); \
    template void avg_pool<T>(const PoolShape&, const T*, T*);                  \
    template void avg_pool_backward<T>(const PoolShape&, const T*, T*);
WEFT_POOL(float)
WEFT_POOL(double)
#undef WEFT_POOL

}  // namespace weft::kernels
