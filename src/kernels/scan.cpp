#include "kernels/scan.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "base/parallel.h"
#include "kernels/complex.h"

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

namespace {

/// `wins(x, best)`: whether x replaces the best so far.
template <class T, class Wins>
void running_best(const T* x, T* y, int64_t* index, Axis axis, Wins wins) {
    if (axis.inner == 1)  // the best stays in registers
        return for_blocks(axis, [&](int64_t at) {
            T best = x[at];
            int64_t place = 0;
            for (int64_t i = 0; i < axis.n; ++i) {
                const T now = x[at + i];
                if (wins(now, best)) best = now, place = i;
                y[at + i] = best;
                index[at + i] = place;
            }
        });
    for_blocks(axis, [&](int64_t at) {
        std::copy_n(x + at, axis.inner, y + at);
        std::fill_n(index + at, axis.inner, 0);
        for (int64_t i = 1; i < axis.n; ++i) {
            for (int64_t j = 0; j < axis.inner; ++j) {
                int64_t k = at + i * axis.inner + j, before = k - axis.inner;
                bool won = wins(x[k], y[before]);
                y[k] = won ? x[k] : y[before];
                index[k] = won ? i : index[before];
            }
        }
    });
}

}  // namespace

template <class T>
void cummax(const T* x, T* y, int64_t* index, Axis axis) {
    running_best(x, y, index, axis, [](T a, T best) { return a >= best || a != a; });
}

template <class T>
void cummin(const T* x, T* y, int64_t* index, Axis axis) {
    running_best(x, y, index, axis, [](T a, T best) { return a <= best || a != a; });
}

template <class T>
void logcumsumexp(const T* x, T* y, Axis axis) {
    for_blocks(axis, [&](int64_t at) {
        std::copy_n(x + at, axis.inner, y + at);
        for (int64_t k = at + axis.inner, end = at + axis.n * axis.inner; k < end; ++k) {
            T a = x[k], b = y[k - axis.inner];
            if constexpr (is_complex_v<T>) {
                if (a.real() < b.real()) std::swap(a, b);
                bool infinite = std::isinf(a.real()) && (a.real() > 0 || a.real() == b.real());
                y[k] = infinite ? a : a + math::log1p(std::exp(b - a));
                continue;
            } else {
                T top = a > b || a != a ? a : b, low = a > b || a != a ? b : a;
                bool alike = top == low && std::isinf(top);  // their difference would be NaN
                y[k] = alike ? top : top + std::log1p(std::exp(low - top));
            }
        }
    });
}

#define WEFT_BEST(T)                                                                               \
    template void cummax(const T*, T*, int64_t*, Axis);                                            \
    template void cummin(const T*, T*, int64_t*, Axis);
WEFT_BEST(float)
WEFT_BEST(double)
WEFT_BEST(int64_t)
WEFT_BEST(bool)
#undef WEFT_BEST
template void logcumsumexp(const float*, float*, Axis);
template void logcumsumexp(const double*, double*, Axis);
template void logcumsumexp(const std::complex<float>*, std::complex<float>*, Axis);
template void logcumsumexp(const std::complex<double>*, std::complex<double>*, Axis);

#define WEFT_SCAN(T)                                                                               \
    template void linear_scan(const T*, const T*, T*, Axis);                                       \
    template void linear_scan_back(const T*, const T*, T*, Axis);                                  \
    template void shift(const T*, T*, T, bool, Axis);
WEFT_SCAN(float)
WEFT_SCAN(double)
WEFT_SCAN(std::complex<float>)
WEFT_SCAN(std::complex<double>)
#undef WEFT_SCAN

}  // namespace weft::kernels
