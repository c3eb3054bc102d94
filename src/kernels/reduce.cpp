/// Reductions with one pass: operations in the form of axis_work.h, then the interface.
#include "kernels/reduce.h"

#include <cmath>
#include <limits>

#include "kernels/axis_work.h"
#include "kernels/reduce_ops.h"
#include "kernels/row_sums.h"

namespace weft::kernels {
namespace {

template <class Lane>
struct Product {
    Lane value = 1;
    void join(const Product& other) { value *= other.value; }
};
template <class T>
struct ProdOp {
    using Lane = std::conditional_t<is_real<T>, T, uint64_t>;
    using Part = Product<Lane>;
    static constexpr Lane start = 1;
    WEFT_INLINE static Lane merge(Lane acc, T x) { return acc * static_cast<Lane>(x); }
    WEFT_INLINE static void flush(Part& part, Lane acc) { part.value *= acc; }
    static void row(const T* x, int64_t n, Part* part) {
        if constexpr (is_real<T>)
            vec::per_width<RowFold<T, MultiplyLanes>::template Body>(x, n, &part->value);
        else per_isa<PlainRow<ProdOp, T>>(x, n, part);
    }
};

/// Any and All over "is nonzero".
template <bool Every>
struct Truth {
    uint8_t value = Every;
    void join(const Truth& other) { value = Every ? value & other.value : value | other.value; }
};
template <class T, bool Every>
struct TruthOp {
    using Lane = uint8_t;
    using Part = Truth<Every>;
    static constexpr Lane start = Every;
    WEFT_INLINE static Lane merge(Lane acc, T x) {
        const Lane truth = x != T(0);
        return Every ? acc & truth : acc | truth;
    }
    WEFT_INLINE static void flush(Part& part, Lane acc) { part.join({acc}); }
    static void row(const T* x, int64_t n, Part* part) {
        per_isa<PlainRow<TruthOp, T>>(x, n, part);
    }
};

/// Sums of what is not NaN.
template <class T>
struct RowNumbers {
    template <int Widest>
    struct Body {
        WEFT_INLINE static void run(const T* x, int64_t n, Total<T>* total) {
            constexpr int Bytes = Widest > 32 ? 32 : Widest;  // as in row_fold
            lane_sums<T, Bytes, 1>(
                n,
                [x]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                    const typename vec::Simd<T, W>::Vector v = vec::load<T, W>(x + i), zero{};
                    out[0] = v == v ? v : zero;
                },
                total);
        }
    };
};

template <class T>
struct NumbersOp {
    using Lane = T;
    using Part = Total<T>;
    static constexpr Lane start = 0;
    WEFT_INLINE static Lane merge(Lane acc, T x) { return acc + (x == x ? x : T(0)); }
    WEFT_INLINE static void flush(Part& part, Lane acc) { part.add(acc); }
    static void row(const T* x, int64_t n, Part* part) {
        vec::per_width<RowNumbers<T>::template Body>(x, n, part);
    }
};

/// Squares are exact in double for float.
template <class T>
struct RowSquares {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const T* x, int64_t n, Total<T>* total) {
            lane_sums<double, Bytes, 1>(
                n,
                [x]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                    constexpr int bytes = W / static_cast<int>(sizeof(double) / sizeof(T));
                    const typename vec::Simd<T, bytes>::Vector v = vec::load<T, bytes>(x + i);
                    if constexpr (W == sizeof(double)) {
                        out[0] = static_cast<double>(v) * v;
                    } else {
                        using V = typename vec::Simd<double, W>::Vector;
                        const V wide = __builtin_convertvector(v, V);
                        out[0] = wide * wide;
                    }
                },
                total);
        }
    };
};

template <class T>
struct SquaresOp {
    using Lane = double;
    using Part = Total<T>;
    static constexpr Lane start = 0;
    WEFT_INLINE static Lane merge(Lane acc, T x) { return acc + static_cast<double>(x) * x; }
    WEFT_INLINE static void flush(Part& part, Lane acc) { part.add(acc); }
    static void row(const T* x, int64_t n, Part* part) {
        vec::per_width<RowSquares<T>::template Body>(x, n, part);
    }
};

/// Two columns, as the parts of complex numbers are: every other lane is of one column.
template <class T>
struct PairTotal {
    Total<T> at[2];
    void join(const PairTotal& other) {
        for (int j = 0; j < 2; ++j) at[j].join(other.at[j]);
    }
};
template <class T>
struct RowPairs {
    template <int Bytes>
    WEFT_INLINE static void add(const typename vec::Simd<T, Bytes>::Vector& v,
                                PairTotal<T>* total) {
        if constexpr (vec::Simd<T, Bytes>::lanes == 2) {
            for (int j = 0; j < 2; ++j) total->at[j].add(v[j]);
        } else {
            typename vec::Simd<T, Bytes / 2>::Vector lower, upper;
            vec::halves<T, Bytes>(v, lower, upper);
            lower += upper;
            add<Bytes / 2>(lower, total);
        }
    }
    /// n elements: n / 2 of each column. Blocks as Note [Accuracy of sums] has them.
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const T* x, int64_t n, PairTotal<T>* total) {
            using V = typename vec::Simd<T, Bytes>::Vector;
            constexpr int lanes = vec::Simd<T, Bytes>::lanes, unroll = 4;
            int64_t i = 0;
            while (i + unroll * lanes <= n) {
                V acc[unroll] = {};
                for (int round = 0; round < 16 && i + unroll * lanes <= n; ++round)
#pragma GCC unroll 4
                    for (int u = 0; u < unroll; ++u, i += lanes)
                        acc[u] += vec::load<T, Bytes>(x + i);
                const V sum = (acc[0] + acc[1]) + (acc[2] + acc[3]);
                add<Bytes>(sum, total);
            }
            T rest[2] = {};
#pragma GCC unroll 1
            for (; i < n; i += 2)
                for (int j = 0; j < 2; ++j) rest[j] += x[i + j];
            for (int j = 0; j < 2; ++j) total->at[j].add(rest[j]);
        }
    };
};
/// y[o, j] = the sum of x[o, :, j], over `divisor`, of two columns.
template <class T>
void sum_pairs(const T* x, T* y, Axis axis, double divisor) {
    over_rows<PairTotal<T>>(
        {axis.outer, 2 * axis.n, 1},
        [x](int64_t at, int64_t n, PairTotal<T>* part) {
            vec::per_width<RowPairs<T>::template Body>(x + at, n, part);
        },
        [y, divisor](int64_t first, int64_t count, const PairTotal<T>* parts) {
            for (int64_t i = 0; i < 2 * count; ++i)
                y[2 * first + i] = static_cast<T>(parts[i / 2].at[i % 2].get() / divisor);
        });
}

/// Few wide rows, whose sum needs no Part: y[j] = the sum of x[i, j], over `divisor`.
template <class T>
struct FewRows {
    WEFT_INLINE static void run(const T* x, T* y, int64_t n, int64_t stride, int64_t width,
                                double divisor) {
        T acc[strip];
#pragma GCC unroll 1
        for (int64_t j = 0; j < width; ++j) acc[j] = T(0) + x[j];
        for (int64_t i = 1; i < n; ++i) {
            x += stride;
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) acc[j] += x[j];
        }
        if (divisor == 1) {
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) y[j] = acc[j];
        } else {
#pragma GCC unroll 1
            for (int64_t j = 0; j < width; ++j) y[j] = static_cast<T>(acc[j] / divisor);
        }
    }
};
/// y = the sum of x along the axis, over `divisor`, where it is of a kind that needs less than others;
/// false: it is none.
template <class T>
bool sum_special(const T* x, T* y, Axis axis, double divisor) {
    if (axis.inner == 2) {
        sum_pairs(x, y, axis, divisor);
        return true;
    }
    if (axis.n < 1 || axis.n > rows_per_block || axis.inner < narrow) return false;
    const int64_t strips = divide_up(axis.inner, strip);
    const int64_t grain = std::max<int64_t>(1, piece / (strip * (axis.n + 1)));
    parallel_for(axis.outer * strips, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t o = i / strips, column = i % strips * strip;
            per_isa<FewRows<T>>(x + o * axis.n * axis.inner + column, y + o * axis.inner + column,
                                axis.n, axis.inner, std::min(strip, axis.inner - column), divisor);
        }
    });
    return true;
}

/// For a Part that is one value of the result.
template <class Op, class T, class Out>
void reduce_values(const T* x, Out* y, Axis axis) {
    using Part = typename Op::Part;
    reduce_with<Op>(x, axis, [y](int64_t first, int64_t count, const Part* parts) {
        for (int64_t i = 0; i < count; ++i) y[first + i] = static_cast<Out>(parts[i].value);
    });
}

}  // namespace

template <class T>
void sum(const T* x, SumOf<T>* y, Axis axis) {
    using Part = typename SumOp<T>::Part;
    if constexpr (is_real<T>)
        if (sum_special(x, y, axis, 1)) return;
    reduce_with<SumOp<T>>(x, axis, [y](int64_t first, int64_t count, const Part* parts) {
        for (int64_t i = 0; i < count; ++i) y[first + i] = static_cast<SumOf<T>>(parts[i].get());
    });
}

template <class T>
void nansum(const T* x, T* y, Axis axis) {
    reduce_with<NumbersOp<T>>(x, axis, [y](int64_t first, int64_t count, const Total<T>* parts) {
        for (int64_t i = 0; i < count; ++i) y[first + i] = static_cast<T>(parts[i].get());
    });
}

template <class T>
void prod(const T* x, SumOf<T>* y, Axis axis) {
    using Op = std::conditional_t<std::is_same_v<T, bool>, TruthOp<T, true>, ProdOp<T>>;
    using Part = typename Op::Part;
    reduce_with<Op>(x, axis, [y](int64_t first, int64_t count, const Part* parts) {
        for (int64_t i = 0; i < count; ++i) y[first + i] = static_cast<SumOf<T>>(parts[i].value);
    });
}

template <class T>
void mean(const T* x, T* y, Axis axis) {
    using Part = typename SumOp<T>::Part;
    const double n = static_cast<double>(axis.n);
    if (sum_special(x, y, axis, n)) return;
    reduce_with<SumOp<T>>(x, axis, [y, n](int64_t first, int64_t count, const Part* parts) {
        for (int64_t i = 0; i < count; ++i) y[first + i] = static_cast<T>(parts[i].get() / n);
    });
}

template <class T>
void max(const T* x, T* y, Axis axis) {
    if (axis.n > 0) reduce_values<ExtremeOp<T, MaxLanes>>(x, y, axis);
}

template <class T>
void min(const T* x, T* y, Axis axis) {
    if (axis.n > 0) reduce_values<ExtremeOp<T, MinLanes>>(x, y, axis);
}

template <>
void max(const bool* x, bool* y, Axis axis) {
    if (axis.n > 0) any(x, y, axis);
}

template <>
void min(const bool* x, bool* y, Axis axis) {
    if (axis.n > 0) all(x, y, axis);
}

template <class T>
void any(const T* x, bool* y, Axis axis) {
    reduce_values<TruthOp<T, false>>(x, y, axis);
}

template <class T>
void all(const T* x, bool* y, Axis axis) {
    reduce_values<TruthOp<T, true>>(x, y, axis);
}

template <class T>
void norm2(const T* x, T* y, Axis axis) {
    reduce_with<SquaresOp<T>>(x, axis, [y](int64_t first, int64_t count, const Total<T>* parts) {
        for (int64_t i = 0; i < count; ++i)
            y[first + i] = static_cast<T>(std::sqrt(parts[i].get()));
    });
}

#define WEFT_REDUCE(T)                                                                             \
    template void sum(const T*, SumOf<T>*, Axis);                                                  \
    template void prod(const T*, SumOf<T>*, Axis);                                                 \
    template void any(const T*, bool*, Axis);                                                      \
    template void all(const T*, bool*, Axis);
WEFT_REDUCE(float)
WEFT_REDUCE(double)
WEFT_REDUCE(int64_t)
WEFT_REDUCE(bool)
#undef WEFT_REDUCE

template void max(const float*, float*, Axis);
template void max(const double*, double*, Axis);
template void max(const int64_t*, int64_t*, Axis);
template void min(const float*, float*, Axis);
template void min(const double*, double*, Axis);
template void min(const int64_t*, int64_t*, Axis);

#define WEFT_REDUCE_REAL(T)                                                                        \
    template void nansum(const T*, T*, Axis);                                                      \
    template void mean(const T*, T*, Axis);                                                        \
    template void norm2(const T*, T*, Axis);
WEFT_REDUCE_REAL(float)
WEFT_REDUCE_REAL(double)
#undef WEFT_REDUCE_REAL

}  // namespace weft::kernels
