#include "kernels/resample.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

template <class T>
struct Forward {
    WEFT_INLINE static void run(const T* x, T* y, int64_t inner, const ResampleAxis* axis,
                                const T* weight) {
        const ResampleAxis a = *axis;
        for (int64_t i = 0; i < a.out; ++i) {
            T* __restrict to = y + i * inner;
            for (int64_t t = 0; t < a.taps; ++t) {
                const T w = weight[i * a.taps + t];
                const T* __restrict from = x + a.index[i * a.taps + t] * inner;
                if (t == 0)
                    for (int64_t j = 0; j < inner; ++j) to[j] = w * from[j];
                else if (w != 0)
                    for (int64_t j = 0; j < inner; ++j) to[j] += w * from[j];
            }
        }
    }
};

template <class T>
struct Backward {
    WEFT_INLINE static void run(const T* dy, T* dx, int64_t inner, const ResampleAxis* axis,
                                const T* weight) {
        const ResampleAxis a = *axis;
        for (int64_t i = 0; i < a.in * inner; ++i) dx[i] = 0;
        for (int64_t i = 0; i < a.out; ++i) {
            const T* __restrict from = dy + i * inner;
            for (int64_t t = 0; t < a.taps; ++t) {
                const T w = weight[i * a.taps + t];
                T* __restrict to = dx + a.index[i * a.taps + t] * inner;
                if (w != 0)
                    for (int64_t j = 0; j < inner; ++j) to[j] += w * from[j];
            }
        }
    }
};

template <template <class> class Body, class T>
void run(const T* from, T* to, int64_t from_size, int64_t to_size, int64_t outer, int64_t inner,
         const ResampleAxis& axis) {
    const std::vector<T> weight(axis.weight, axis.weight + axis.out * axis.taps);
    const int64_t work = std::max<int64_t>(1, axis.out * axis.taps * inner);
    parallel_for(outer, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o)
            per_isa<Body<T>>(from + o * from_size * inner, to + o * to_size * inner, inner, &axis,
                             weight.data());
    });
}

}  // namespace

template <class T>
void resample(const T* x, T* y, int64_t outer, int64_t inner, const ResampleAxis& a) {
    run<Forward, T>(x, y, a.in, a.out, outer, inner, a);
}

template <class T>
void resample_backward(const T* dy, T* dx, int64_t outer, int64_t inner, const ResampleAxis& a) {
    run<Backward, T>(dy, dx, a.out, a.in, outer, inner, a);
}

#define WEFT_RESAMPLE(T)                                                                \
    template void resample<T>(const T*, T*, int64_t, int64_t, const ResampleAxis&);     \
    template void resample_backward<T>(const T*, T*, int64_t, int64_t, const ResampleAxis&);
WEFT_RESAMPLE(float)
WEFT_RESAMPLE(double)
#undef WEFT_RESAMPLE

}  // namespace weft::kernels
