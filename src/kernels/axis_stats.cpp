/// Along an axis, more than one pass or more than one result: variance, argmax and argmin, running
/// sums and products.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "kernels/axis_work.h"
#include "kernels/reduce.h"
#include "kernels/reduce_ops.h"
#include "kernels/row_sums.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

// ---------------------------------------------------------------------------------------------
// Variance

/// Sum of (x - mean)^2, and of x - mean to take back what rounding the mean to T did.
template <class T>
struct Spread {
    Total<T> squares, deviations;
    void join(const Spread& other) {
        squares.join(other.squares);
        deviations.join(other.deviations);
    }
    double spread(int64_t n) const {
        const double rest = deviations.get() * deviations.get() / static_cast<double>(n);
        return squares.get() - rest;
    }
};

template <class T>
struct RowSpread {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const T* x, int64_t n, T mean, Spread<T>* spread) {
            Total<T> totals[2];
            lane_sums<T, Bytes, 2>(
                n,
                [x, mean]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                    out[1] = vec::load<T, W>(x + i) - mean;
                    out[0] = out[1] * out[1];
                },
                totals);
            spread->squares = totals[0];
            spread->deviations = totals[1];
        }
    };
};

template <class T>
struct StripSpread {
    WEFT_INLINE static void run(const T* x, int64_t rows, int64_t stride, int64_t width,
                                const T* mean, Spread<T>* parts) {
        for (int64_t first = 0; first < rows; first += rows_per_block) {
            T squares[strip], deviations[strip];
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) squares[j] = deviations[j] = 0;
            const int64_t end = std::min(rows, first + rows_per_block);
            for (int64_t i = first; i < end; ++i) {
                const T* from = x + i * stride;
#pragma GCC unroll 1
                for (int64_t j = 0; j < width; ++j) {
                    const T d = from[j] - mean[j];
                    squares[j] += d * d;
                    deviations[j] += d;
                }
            }
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) {
                parts[j].squares.add(squares[j]);
                parts[j].deviations.add(deviations[j]);
                vec::opaque(j);
            }
        }
    }
};

// ---------------------------------------------------------------------------------------------
// Argmax and argmin

template <class T, bool Largest>
WEFT_INLINE bool better(T x, T best) {
    return (Largest ? x > best : x < best) | ((x != x) & (best == best));
}

/// Index of the first element equal to `value` (the first NaN if it is one) in a row that has it:
/// first its block, as four vectors say it in lanes as wide as the elements.
template <class T>
struct FindFirst {
    WEFT_INLINE static void run(const T* x, int64_t n, T value, int64_t* index) {
        using Lane = std::conditional_t<sizeof(T) == 8, uint64_t,
                                        std::conditional_t<sizeof(T) == 4, uint32_t, uint8_t>>;
        constexpr int64_t block = sizeof(T) == 8 ? 32 : 64;
        int64_t i = 0;
        if (value != value) {
            while (i < n && x[i] == x[i]) ++i;
            *index = i;
            return;
        }
        for (; i + block <= n; i += block) {
            Lane hit = 0;
            for (int64_t j = i; j < i + block; ++j) hit |= x[j] == value ? Lane{1} : Lane{0};
            if (hit) break;
        }
        while (i < n && x[i] != value) ++i;
        *index = i;
    }
};

template <class T, bool Largest>
struct StripArg {
    WEFT_INLINE static void run(const T* x, int64_t n, int64_t stride, int64_t width, T* value,
                                int64_t* index) {
        using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
        Index at[strip];
#pragma GCC unroll 1
        for (int64_t j = 0; j < width; ++j) {
            value[j] = x[j];
            at[j] = 0;
        }
        for (int64_t i = 1; i < n; ++i) {
            const T* from = x + i * stride;
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) {
                const bool take = better<T, Largest>(from[j], value[j]);
                value[j] = take ? from[j] : value[j];
                at[j] = take ? static_cast<Index>(i) : at[j];
            }
        }
#pragma GCC unroll 1
        for (int64_t j = 0; j < width; ++j) index[j] = at[j];
    }
};

template <class T, bool Largest>
void arg_extreme(const T* x, T* value, int64_t* index, Axis a) {
    if (a.n <= 0 || a.outer <= 0 || a.inner <= 0) return;
    using Op = ExtremeOp<T, std::conditional_t<Largest, MaxLanes, MinLanes>>;
    using Part = typename Op::Part;
    if (a.inner == 1)
        return over_rows<Part>(
            a, [x](int64_t at, int64_t count, Part* part) { Op::row(x + at, count, part); },
            [=](int64_t first, int64_t count, const Part* parts) {
                for (int64_t o = first; o < first + count; ++o) {
                    const T best = static_cast<T>(parts[o - first].value);
                    if (value) value[o] = best;
                    if (index) per_isa<FindFirst<T>>(x + o * a.n, a.n, best, index + o);
                }
            });
    const int64_t strips = divide_up(a.inner, strip), work = a.n * std::min(strip, a.inner);
    parallel_for(a.outer * strips, std::max<int64_t>(1, piece / work),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                         const int64_t first = i % strips * strip, o = i / strips;
                         const int64_t width = std::min(strip, a.inner - first);
                         T best[strip];
                         int64_t at[strip];
                         per_isa<StripArg<T, Largest>>(x + o * a.n * a.inner + first, a.n, a.inner,
                                                       width, best, at);
                         const int64_t out = o * a.inner + first;
                         if (value) std::copy_n(best, width, value + out);
                         if (index) std::copy_n(at, width, index + out);
                     }
                 });
}

// ---------------------------------------------------------------------------------------------
// Scans

struct RunningSum {
    template <class A>
    WEFT_INLINE static A apply(A acc, A x) {
        return acc + x;
    }
};
struct RunningProduct {
    template <class A>
    WEFT_INLINE static A apply(A acc, A x) {
        return acc * x;
    }
};

/// `width` columns side by side, in double for floating types and modulo 2^64 for the others.
template <class Op, class T>
struct Scan {
    WEFT_INLINE static void run(const T* x, SumOf<T>* y, int64_t n, int64_t stride, int64_t width) {
        using A = std::conditional_t<is_real<T>, double, uint64_t>;
        constexpr A start = std::is_same_v<Op, RunningProduct>;
        A acc[strip];
        for (int64_t j = 0; j < width; ++j) acc[j] = start;
        for (int64_t i = 0; i < n; ++i) {
            const T* from = x + i * stride;
            SumOf<T>* to = y + i * stride;
#pragma GCC ivdep
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) {
                acc[j] = Op::apply(acc[j], static_cast<A>(from[j]));
                to[j] = static_cast<SumOf<T>>(acc[j]);
            }
        }
    }
};

/// Rows of n, of which two floating ones go in step: neither waits for the other's sum.
template <class Op, class T, int Rows>
struct ScanRows {
    WEFT_INLINE static void run(const T* x, SumOf<T>* y, int64_t n) {
        using A = std::conditional_t<is_real<T>, double, uint64_t>;
        constexpr A start = std::is_same_v<Op, RunningProduct>;
        A acc[Rows];
        for (A& one : acc) one = start;
#pragma GCC unroll 1
        for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 2
            for (int r = 0; r < Rows; ++r) {
                acc[r] = Op::apply(acc[r], static_cast<A>(x[i + r * n]));
                y[i + r * n] = static_cast<SumOf<T>>(acc[r]);
                vec::opaque(i);
            }
    }
};

template <class Op, class T>
void scan_rows(const T* x, SumOf<T>* y, Axis a) {
    constexpr int together = is_real<T> ? 2 : 1;
    parallel_for(a.outer, std::max<int64_t>(1, piece / 4 / a.n), [&](int64_t begin, int64_t end) {
        int64_t o = begin;
        for (; o + together <= end; o += together)
            per_isa<ScanRows<Op, T, together>>(x + o * a.n, y + o * a.n, a.n);
        for (; o < end; ++o) per_isa<ScanRows<Op, T, 1>>(x + o * a.n, y + o * a.n, a.n);
    });
}

template <class Op, class T>
void scan(const T* x, SumOf<T>* y, Axis a) {
    if (a.n <= 0 || a.outer <= 0 || a.inner <= 0) return;
    if (a.inner == 1) return scan_rows<Op>(x, y, a);
    const int64_t strips = divide_up(a.inner, strip), work = a.n * std::min(strip, a.inner);
    parallel_for(a.outer * strips, std::max<int64_t>(1, piece / 4 / work),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                         const int64_t first = i % strips * strip;
                         const int64_t at = i / strips * a.n * a.inner + first;
                         per_isa<Scan<Op, T>>(x + at, y + at, a.n, a.inner,
                                              std::min(strip, a.inner - first));
                     }
                 });
}

}  // namespace

/// Mean and sum of (x - mean)^2 in double, by Welford's updates: for elements whose sum or squares
/// leave the range of T.
template <class T>
struct Careful {
    double mean = 0, squares = 0;
    Careful(const T* x, int64_t n, int64_t stride) {
        for (int64_t i = 0; i < n && mean == mean; ++i) {
            const auto value = static_cast<double>(x[i * stride]);
            const double off = value - mean;
            mean += off / static_cast<double>(i + 1);
            squares += off * (value - mean);
        }
    }
};

template <class T>
void var(const T* x, T* average, T* variance, double correction, Axis a, bool root) {
    if (a.outer <= 0 || a.inner <= 0) return;
    if (a.n <= 0) {
        mean(x, variance, a);
        if (average) mean(x, average, a);
        return;
    }
    std::vector<T> own(average ? 0 : a.outer * a.inner);
    T* const means = average ? average : own.data();
    // A row that fits the cache has its mean taken right before its spread.
    const bool short_rows = a.inner == 1 && a.n < piece;
    if (!short_rows) mean(x, means, a);
    const double freedom = std::max(0.0, static_cast<double>(a.n) - correction);
    // Below it a square of T has lost digits, which the root would show.
    const double least =
        root ? std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon() : 0;
    const auto emit = [&](int64_t first, int64_t count, const Spread<T>* parts) {
        for (int64_t at = first; at < first + count; ++at) {
            double spread = parts[at - first].spread(a.n);
            if (!(spread >= least && spread < std::numeric_limits<double>::infinity()))
                [[unlikely]] {
                const Careful<T> c(x + at / a.inner * a.n * a.inner + at % a.inner, a.n, a.inner);
                if (!std::isfinite(means[at])) means[at] = static_cast<T>(c.mean);
                spread = c.squares;
            }
            const double variance_of = spread / freedom;
            variance[at] = static_cast<T>(root ? std::sqrt(variance_of) : variance_of);
        }
    };
    if (a.inner == 1)
        return over_rows<Spread<T>>(
            a,
            [&](int64_t at, int64_t count, Spread<T>* spread) {
                T& mean = means[at / a.n];
                if (short_rows) {
                    Total<T> total;
                    SumOp<T>::row(x + at, count, &total);
                    mean = static_cast<T>(total.get() / static_cast<double>(a.n));
                }
                vec::per_width<RowSpread<T>::template Body>(x + at, count, mean, spread);
            },
            emit);
    over_columns<Spread<T>>(
        a, false,
        [&](int64_t at, int64_t rows, int64_t stride, int64_t width, int64_t column,
            Spread<T>* parts) {
            const int64_t outer = (at - column) / (a.n * a.inner);
            per_isa<StripSpread<T>>(x + at, rows, stride, width, means + outer * a.inner + column,
                                    parts);
        },
        emit);
}

template <class T>
void argmax(const T* x, T* value, int64_t* index, Axis axis) {
    arg_extreme<T, true>(x, value, index, axis);
}

template <class T>
void argmin(const T* x, T* value, int64_t* index, Axis axis) {
    arg_extreme<T, false>(x, value, index, axis);
}

template <class T>
void cumsum(const T* x, SumOf<T>* y, Axis axis) {
    scan<RunningSum>(x, y, axis);
}

template <class T>
void cumprod(const T* x, SumOf<T>* y, Axis axis) {
    scan<RunningProduct>(x, y, axis);
}

template void var(const float*, float*, float*, double, Axis, bool);
template void var(const double*, double*, double*, double, Axis, bool);

#define WEFT_AXIS(T)                                                                               \
    template void argmax(const T*, T*, int64_t*, Axis);                                            \
    template void argmin(const T*, T*, int64_t*, Axis);                                            \
    template void cumsum(const T*, SumOf<T>*, Axis);                                               \
    template void cumprod(const T*, SumOf<T>*, Axis);
WEFT_AXIS(float)
WEFT_AXIS(double)
WEFT_AXIS(int64_t)
WEFT_AXIS(bool)
#undef WEFT_AXIS

}  // namespace weft::kernels
