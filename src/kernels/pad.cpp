#include "kernels/pad.h"

#include <algorithm>
#include <complex>

#include "base/parallel.h"

namespace weft::kernels {
namespace {

/// Runs `row(output row, input row)` over the rows of each plane.
template <class Y, class X, class Row>
void for_padded_rows(Y* y, X* x, int64_t planes, const PadAxis (&a)[3], const Row& row) {
    const int64_t in = a[0].in * a[1].in * a[2].in, out = a[0].out * a[1].out * a[2].out;
    const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, out));
    parallel_for(planes, grain, [&](int64_t begin, int64_t end) {
        Y* to = y + begin * out;
        for (int64_t p = begin; p < end; ++p)
            for (int64_t d = 0; d < a[0].out; ++d)
                for (int64_t h = 0; h < a[1].out; ++h, to += a[2].out)
                    row(to, x + p * in + (a[0].from(d) * a[1].in + a[1].from(h)) * a[2].in);
    });
}

}  // namespace

template <class T>
void pad(const T* x, T* y, int64_t planes, const PadAxis (&axes)[3]) {
    const PadAxis& a = axes[2];
    for_padded_rows(y, x, planes, axes, [&](T* to, const T* from) {
        for (int64_t i = 0; i < a.first; ++i) to[i] = from[a.from(i)];
        std::copy_n(from + a.start, a.last - a.first, to + a.first);
        for (int64_t i = a.last; i < a.out; ++i) to[i] = from[a.from(i)];
    });
}

template <class T>
void pad_backward(const T* dy, T* dx, int64_t planes, const PadAxis (&axes)[3]) {
    const PadAxis& a = axes[2];
    std::fill_n(dx, planes * axes[0].in * axes[1].in * a.in, T(0));
    for_padded_rows(dy, dx, planes, axes, [&](const T* from, T* to) {
        for (int64_t i = 0; i < a.first; ++i) to[a.from(i)] += from[i];
        for (int64_t i = a.first; i < a.last; ++i) to[a.start + i - a.first] += from[i];
        for (int64_t i = a.last; i < a.out; ++i) to[a.from(i)] += from[i];
    });
}

#define WEFT_PAD(T) template void pad<T>(const T*, T*, int64_t, const PadAxis(&)[3]);
WEFT_PAD(uint8_t)
WEFT_PAD(uint16_t)
WEFT_PAD(uint32_t)
WEFT_PAD(uint64_t)
WEFT_PAD(std::complex<double>)
#undef WEFT_PAD
#define WEFT_PAD_BACKWARD(T)                                                                       \
    template void pad_backward<T>(const T*, T*, int64_t, const PadAxis(&)[3]);
WEFT_PAD_BACKWARD(float)
WEFT_PAD_BACKWARD(double)
WEFT_PAD_BACKWARD(std::complex<float>)
WEFT_PAD_BACKWARD(std::complex<double>)
#undef WEFT_PAD_BACKWARD

}  // namespace weft::kernels
