#include "kernels/scan.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "kernels/complex.h"

namespace weft::kernels {
namespace {

/// Calls `work(offset)` for the first element of every [n, inner] block.
template <class Work>
void for_scan_blocks(Axis axis, Work&& work) {
    int64_t size = axis.n * axis.inner;
    if (size == 0) return;
    parallel_for(axis.outer, std::max<int64_t>(1, 8192 / size), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) work(o * size);
    });
}

/// Rows one after the other, of which a carry goes from place to place: y[k] = next(k, carry), from
/// y[first] = start(first). Four rows in step, so that one need not wait for another's sum; for float
/// the carry is a double, as cumsum's.
template <class T, class Start, class Next>
void along_rows(T* y, Axis axis, bool back, const Start& start, const Next& next) {
    using A = std::conditional_t<std::is_same_v<T, float>, double, T>;
    const int64_t n = axis.n, step = back ? -1 : 1;
    if (n == 0) return;
    parallel_for(axis.outer, std::max<int64_t>(4, 8192 / n), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; o += 4) {
            int64_t at[4];
            A carry[4];
            // behind the last row the last once more, which is not to be written again
            const int64_t rows = end - o;
            for (int r = 0; r < 4; ++r) {
                at[r] = std::min(o + r, end - 1) * n + (back ? n - 1 : 0);
                carry[r] = start(at[r], y + at[r]);
            }
            for (int64_t i = 1; i < n; ++i)
                for (int r = 0; r < 4; ++r) {
                    at[r] += step;
                    carry[r] = next(at[r], carry[r], y + at[r], r < rows);
                }
        }
    });
}

/// The recurrence of both ways: y[k] = a[k + ahead] * y[k - step] + b[k]; a null a means ones.
template <class T>
void scan_rows(const T* a, const T* b, T* y, Axis axis, bool back) {
    const auto start = [b](int64_t k, T* y) { return *y = b[k]; };
    const int64_t ahead = back ? 1 : 0;
    if (!a)
        return along_rows(y, axis, back, start, [b]<class A>(int64_t k, A carry, T* y, bool) {
            carry += b[k];
            *y = static_cast<T>(carry);
            return carry;
        });
    along_rows(y, axis, back, start, [a, b, ahead]<class A>(int64_t k, A carry, T* y, bool) {
        carry = a[k + ahead] * carry + b[k];
        *y = static_cast<T>(carry);
        return carry;
    });
}

}  // namespace

template <class T>
void linear_scan(const T* a, const T* b, T* y, Axis axis) {
    if constexpr (!is_complex_v<T>)
        if (axis.inner == 1) return scan_rows(a, b, y, axis, false);
    for_scan_blocks(axis, [&](int64_t at) {
        std::copy_n(b + at, axis.inner, y + at);
        for (int64_t k = at + axis.inner, end = at + axis.n * axis.inner; k < end; ++k)
            y[k] = a[k] * y[k - axis.inner] + b[k];
    });
}

template <class T>
void linear_scan_back(const T* a, const T* b, T* y, Axis axis) {
    if constexpr (!is_complex_v<T>)
        if (axis.inner == 1) return scan_rows(a, b, y, axis, true);
    for_scan_blocks(axis, [&](int64_t at) {
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
    std::fill_n(y, axis.outer * axis.n * axis.inner, T(1));
    if constexpr (!is_complex_v<T>)
        if (axis.inner == 1) {
            for (const bool back : {false, true})
                along_rows(
                    y, axis, back, [](int64_t, T*) { return T(1); },
                    [before = x + (back ? 1 : -1)]<class A>(int64_t k, A carry, T* y, bool writes) {
                        carry *= before[k];
                        if (writes) *y = static_cast<T>(*y * carry);
                        return carry;
                    });
            return;
        }
    for_scan_blocks(axis, [&](int64_t at) {
        std::vector<T> after(axis.inner, T(1));
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
    for_scan_blocks(axis, [&](int64_t at) {
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
        return for_scan_blocks(axis, [&](int64_t at) {
            T best = x[at];
            int64_t place = 0;
            for (int64_t i = 0; i < axis.n; ++i) {
                const T now = x[at + i];
                if (wins(now, best)) best = now, place = i;
                y[at + i] = best;
                index[at + i] = place;
            }
        });
    for_scan_blocks(axis, [&](int64_t at) {
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

namespace {

/// log(e^a + e^b)
template <class T>
T log_of_sum(T a, T b) {
    T top = a > b || a != a ? a : b, low = a > b || a != a ? b : a;
    bool alike = top == low && std::isinf(top);  // their difference would be NaN
    return alike ? top : top + std::log1p(std::exp(low - top));
}

}  // namespace

template <class T>
void logcumsumexp(const T* x, T* y, Axis axis) {
    if constexpr (!is_complex_v<T>)
        if (axis.inner == 1)
            return along_rows(
                y, axis, false, [x](int64_t k, T* y) { return *y = x[k]; },
                [x]<class A>(int64_t k, A carry, T* y, bool writes) {
                    const T sum = log_of_sum(x[k], static_cast<T>(carry));
                    if (writes) *y = sum;
                    return static_cast<A>(sum);
                });
    for_scan_blocks(axis, [&](int64_t at) {
        std::copy_n(x + at, axis.inner, y + at);
        for (int64_t k = at + axis.inner, end = at + axis.n * axis.inner; k < end; ++k) {
            T a = x[k], b = y[k - axis.inner];
            if constexpr (is_complex_v<T>) {
                if (a.real() < b.real()) std::swap(a, b);
                bool infinite = std::isinf(a.real()) && (a.real() > 0 || a.real() == b.real());
                y[k] = infinite ? a : a + math::log1p(std::exp(b - a));
                continue;
            } else {
                y[k] = log_of_sum(a, b);
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
