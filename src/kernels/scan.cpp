#include "kernels/scan.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

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

/// Rows one after the other, of which `carry` goes from element to element: start(first place), then
/// next(place, carry), and y[place] = value(carry, place). Four rows in step, so that one need not
/// wait for another's sum; for float it is a double, as cumsum's.
template <class T, class Start, class Next, class Value = std::identity>
void along_rows(T* y, Axis axis, bool back, const Start& start, const Next& next,
                const Value& value = {}) {
    using A = std::conditional_t<std::is_same_v<T, float>, double, T>;
    const int64_t n = axis.n, step = back ? -1 : 1;
    if (n == 0) return;
    const auto of = [&](A carry, int64_t at) {
        if constexpr (std::is_same_v<Value, std::identity>) return carry;
        else return value(carry, at);
    };
    const auto rows = [&]<int count>(int64_t first) {
        A carry[count];
        int64_t at = first * n + (back ? n - 1 : 0);
        for (int r = 0; r < count; ++r) {
            carry[r] = A(start(at + r * n));
            y[at + r * n] = static_cast<T>(of(carry[r], at + r * n));
        }
        for (int64_t i = 1; i < n; ++i) {
            at += step;
            for (int r = 0; r < count; ++r) {
                carry[r] = next(at + r * n, carry[r]);
                y[at + r * n] = static_cast<T>(of(carry[r], at + r * n));
            }
        }
    };
    parallel_for(axis.outer, std::max<int64_t>(1, 8192 / n), [&](int64_t begin, int64_t end) {
        int64_t o = begin;
        for (; o + 4 <= end; o += 4) rows.template operator()<4>(o);
        for (; o < end; ++o) rows.template operator()<1>(o);
    });
}

}  // namespace

template <class T>
void linear_scan(const T* a, const T* b, T* y, Axis axis) {
    const auto start = [b](int64_t k) { return b[k]; };
    if (axis.inner == 1)
        return along_rows(y, axis, false, start,
                          [&]<class A>(int64_t k, A y) { return A(a[k]) * y + A(b[k]); });
    for_blocks(axis, [&](int64_t at) {
        std::copy_n(b + at, axis.inner, y + at);
        for (int64_t k = at + axis.inner, end = at + axis.n * axis.inner; k < end; ++k)
            y[k] = a[k] * y[k - axis.inner] + b[k];
    });
}

template <class T>
void linear_scan_back(const T* a, const T* b, T* y, Axis axis) {
    const auto start = [b](int64_t k) { return b[k]; };
    if (axis.inner == 1 && a)
        return along_rows(y, axis, true, start,
                          [&]<class A>(int64_t k, A y) { return A(a[k + 1]) * y + A(b[k]); });
    if (axis.inner == 1)
        return along_rows(y, axis, true, start,
                          [&]<class A>(int64_t k, A y) { return y + A(b[k]); });
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
void products_of_others(const T* x, T* y, Axis axis) {
    const auto one = [](int64_t) { return T(1); };
    if (axis.inner == 1) {
        along_rows(y, axis, false, one, [x]<class A>(int64_t k, A c) { return c * A(x[k - 1]); });
        return along_rows(
            y, axis, true, one, [x]<class A>(int64_t k, A c) { return c * A(x[k + 1]); },
            [y]<class A>(A c, int64_t k) { return A(y[k]) * c; });
    }
    for_blocks(axis, [&](int64_t at) {
        std::vector<T> after(axis.inner, T(1));
        std::fill_n(y + at, axis.inner, T(1));
        const int64_t last = at + (axis.n - 1) * axis.inner;
        for (int64_t k = at; k < last; ++k) y[k + axis.inner] = times(y[k], x[k]);
        for (int64_t row = last; row >= at; row -= axis.inner)
            for (int64_t j = 0; j < axis.inner; ++j) {
                y[row + j] = times(y[row + j], after[j]);
                after[j] = times(after[j], x[row + j]);
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
    template void products_of_others(const T*, T*, Axis);                                          \
    template void shift(const T*, T*, T, bool, Axis);
WEFT_SCAN(float)
WEFT_SCAN(double)
WEFT_SCAN(std::complex<float>)
WEFT_SCAN(std::complex<double>)
#undef WEFT_SCAN

}  // namespace weft::kernels
