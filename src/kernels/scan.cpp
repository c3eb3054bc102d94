#include "kernels/scan.h"

#include <algorithm>

#include "base/parallel.h"

namespace weft::kernels {
namespace {

/// Calls `work(offset)` for the first element of every [n, inner] block.
template <class Work>
void for_blocks(Axis axis, Work&& work) {
    int64_t size = axis.n * axis.inner;
    if (size == 0) return;
    parallel_for(axis.outer, std::max<int64_t>(1, 8192 / size), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) work(o * size);
    });
}

}  // namespace

template <class T>
void linear_scan(const T* a, const T* b, T* y, Axis axis) {
    for_blocks(axis, [&](int64_t at) {
        std::copy_n(b + at, axis.inner, y + at);
        for (int64_t k = at + axis.inner, end = at + axis.n * axis.inner; k < end; ++k)
            y[k] = a[k] * y[k - axis.inner] + b[k];
    });
}

template <class T>
void linear_scan_back(const T* a, const T* b, T* y, Axis axis) {
    for_blocks(axis, [&](int64_t at) {
        int64_t last = at + (axis.n - 1) * axis.inner;
        std::copy_n(b + last, axis.inner, y + last);
        for (int64_t k = last - 1; k >= at; --k) {
            int64_t next = k + axis.inner;
            y[k] = (a ? a[next] * y[next] : y[next]) + b[k];
        }
    });
}

template <class T>
void shift(const T* x, T* y, T first, bool back, Axis axis) {
    for_blocks(axis, [&](int64_t at) {
        int64_t rest = (axis.n - 1) * axis.inner;
        std::copy_n(x + at + (back ? axis.inner : 0), rest, y + at + (back ? 0 : axis.inner));
        std::fill_n(y + at + (back ? rest : 0), axis.inner, first);
    });
}

#define WEFT_SCAN(T)                                              \
    template void linear_scan(const T*, const T*, T*, Axis);      \
    template void linear_scan_back(const T*, const T*, T*, Axis); \
    template void shift(const T*, T*, T, bool, Axis);
WEFT_SCAN(float)
WEFT_SCAN(double)
#undef WEFT_SCAN

}  // namespace weft::kernels
