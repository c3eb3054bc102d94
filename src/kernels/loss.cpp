#include "kernels/loss.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/math_exp.h"

namespace weft::kernels {
namespace {

constexpr int64_t kLossBlock = 4096;
constexpr int64_t kChunk = 16 * kLossBlock;  ///< elements per slot of a parallel sum
constexpr int kOperands = 6;

struct Operands {
    char* at[kOperands];
    Operands(char* const* p, const int64_t* strides, int count, int64_t offset) {
        for (int k = 0; k < count; ++k) at[k] = p[k] + strides[k] * offset;
    }
};

template <class T>
double sum_chunk(MapLoop loop, const void* f, char* const* p, const int64_t* strides, int operands,
                 int64_t begin, int64_t end) {
    T block[kLossBlock];
    double total = 0;
    for (int64_t at = begin; at < end; at += kLossBlock) {
        int64_t n = std::min(kLossBlock, end - at);
        Operands here(p, strides, operands, at);
        here.at[0] = reinterpret_cast<char*>(block);
        loop(f, here.at, strides, n);
        T part;
        sum(block, &part, Axis{1, n, 1});
        total += static_cast<double>(part);
    }
    return total;
}

}  // namespace

template <class T>
double map_sum(MapLoop loop, const void* f, char* const* p, const int64_t* strides, int operands,
               int64_t n) {
    if (n <= kChunk) return sum_chunk<T>(loop, f, p, strides, operands, 0, n);
    std::vector<double> slots((n + kChunk - 1) / kChunk);
    parallel_for(static_cast<int64_t>(slots.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
            slots[k] = sum_chunk<T>(loop, f, p, strides, operands, k * kChunk,
                                    std::min(n, (k + 1) * kChunk));
    });
    double total = 0;
    for (double part : slots) total += part;
    return total;
}

void map_flat(MapLoop loop, const void* f, char* const* p, const int64_t* strides, int operands,
              int64_t n) {
    parallel_for(n, 32768, [&](int64_t begin, int64_t end) {
        loop(f, Operands(p, strides, operands, begin).at, strides, end - begin);
    });
}

const int64_t* bad_target(Targets t, int64_t count, int64_t classes) {
    auto is_bad = [&](int64_t c) {
        return static_cast<uint64_t>(c) >= static_cast<uint64_t>(classes) && c != t.ignore;
    };
    int64_t bad = 0;
    for (int64_t k = 0; k < count; ++k) bad += is_bad(t.target[k]);
    return bad ? std::find_if(t.target, t.target + count, is_bad) : nullptr;
}

template <class T>
double total_weight(Targets t, const T* weight, int64_t count) {
    double total = 0;
    for (int64_t k = 0; k < count; ++k)
        if (t.target[k] != t.ignore)
            total += weight ? static_cast<double>(weight[t.target[k]]) : 1.0;
    return total;
}

namespace {

/// Calls `each(k, o, i, c, w)` for every target that counts: its place in the targets, the two
/// parts of that place, its class and weight.
template <class T, class Each>
WEFT_INLINE void for_targets(Targets t, const T* weight, Axis axis, Each&& each) {
    for (int64_t o = 0, k = 0; o < axis.outer; ++o)
        for (int64_t i = 0; i < axis.inner; ++i, ++k) {
            int64_t c = t.target[k];
            if (c != t.ignore) each(k, o, i, c, weight ? weight[c] : T{1});
        }
}

int64_t loss_place(Axis axis, int64_t o, int64_t c, int64_t i) {
    return (o * axis.n + c) * axis.inner + i;
}

}  // namespace

template <class T>
void nll(const T* x, Targets t, const T* weight, T* y, Axis axis) {
    std::fill_n(y, axis.outer * axis.inner, T{0});
    for_targets(t, weight, axis, [&](int64_t k, int64_t o, int64_t i, int64_t c, T w) {
        y[k] = -w * x[loss_place(axis, o, c, i)];
    });
}

template <class T>
void nll_backward(const T* dy, int64_t dy_stride, Targets t, const T* weight, T scale, T* dx,
                  Axis axis) {
    std::memset(static_cast<void*>(dx), 0, sizeof(T) * axis.outer * axis.n * axis.inner);
    for_targets(t, weight, axis, [&](int64_t k, int64_t o, int64_t i, int64_t c, T w) {
        dx[loss_place(axis, o, c, i)] = -w * scale * dy[k * dy_stride];
    });
}

template <class T>
void cross_entropy(const T* x, const T* lse, Targets t, const T* weight, T* y, Axis axis) {
    std::fill_n(y, axis.outer * axis.inner, T{0});
    for_targets(t, weight, axis, [&](int64_t k, int64_t o, int64_t i, int64_t c, T w) {
        y[k] = w * (lse[k] - x[loss_place(axis, o, c, i)]);
    });
}

namespace {

/// d * (exp(x - lse)) over outer rows [begin, end); d and lse vary along inner.
template <class T>
struct ScaledSoftmax {
    WEFT_INLINE static void run(const T* x, const T* lse, const T* d, T* dx, Axis axis,
                                int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o)
            for (int64_t c = 0; c < axis.n; ++c) {
                const T* from = x + (o * axis.n + c) * axis.inner;
                T* to = dx + (o * axis.n + c) * axis.inner;
                for (int64_t i = 0; i < axis.inner; ++i) {
                    T factor = d[o * axis.inner + i];
                    T p = math::exp(from[i] - lse[o * axis.inner + i]);
                    to[i] = factor == T{0} ? T{0} : factor * p;
                }
            }
    }
};
/// The same where a row of classes lies densely (inner is 1).
template <class T>
struct ScaledSoftmaxRows {
    WEFT_INLINE static void run(const T* x, const T* lse, const T* d, T* dx, Axis axis,
                                int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
            const T *from = x + o * axis.n, shift = lse[o], factor = d[o];
            T* to = dx + o * axis.n;
            if (factor == T{0}) {
                std::memset(static_cast<void*>(to), 0, sizeof(T) * axis.n);
                continue;
            }
            for (int64_t c = 0; c < axis.n; ++c) to[c] = factor * math::exp(from[c] - shift);
        }
    }
};

}  // namespace

template <class T>
void cross_entropy_backward(const T* dy, int64_t dy_stride, const T* x, const T* lse, Targets t,
                            const T* weight, T scale, T* dx, Axis axis) {
    constexpr int64_t kFew = 64;
    const int64_t count = axis.outer * axis.inner;
    T few[kFew];
    std::vector<T> many(count > kFew ? count : 0);
    T* d = count > kFew ? many.data() : few;
    std::fill_n(d, count, T{0});
    for_targets(t, weight, axis, [&](int64_t k, int64_t, int64_t, int64_t, T w) {
        d[k] = w * scale * dy[k * dy_stride];
    });
    int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(axis.n * axis.inner, 1));
    parallel_for(axis.outer, grain, [&](int64_t begin, int64_t end) {
        if (axis.inner == 1)
            per_isa<ScaledSoftmaxRows<T>>(x, lse, static_cast<const T*>(d), dx, axis, begin, end);
        else per_isa<ScaledSoftmax<T>>(x, lse, static_cast<const T*>(d), dx, axis, begin, end);
    });
    for_targets(t, weight, axis, [&](int64_t k, int64_t o, int64_t i, int64_t c, T) {
        dx[loss_place(axis, o, c, i)] -= d[k];
    });
}

#define WEFT_LOSS(T)                                                                               \
    template double map_sum<T>(MapLoop, const void*, char* const*, const int64_t*, int, int64_t);  \
    template double total_weight(Targets, const T*, int64_t);                                      \
    template void nll(const T*, Targets, const T*, T*, Axis);                                      \
    template void nll_backward(const T*, int64_t, Targets, const T*, T, T*, Axis);                 \
    template void cross_entropy(const T*, const T*, Targets, const T*, T*, Axis);                  \
    template void cross_entropy_backward(const T*, int64_t, const T*, const T*, Targets, const T*, \
                                         T, T*, Axis);
WEFT_LOSS(float)
WEFT_LOSS(double)
#undef WEFT_LOSS

}  // namespace weft::kernels
