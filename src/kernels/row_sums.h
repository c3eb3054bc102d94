/// Sums and folds of one contiguous row, for the bodies of reduce.cpp and normalize.cpp.
///
/// Note [Accuracy of sums]
/// Up to 64 vectors are summed in lanes and folded as a tree: about 20 roundings deep. Each such
/// block then goes into a `Total`, which adds no error that would show: a double for floats, a
/// compensated sum (Neumaier 1974) for doubles. This beats pairwise summation.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/simd.h"
#include "kernels/vector.h"

namespace weft::kernels {

template <class T>
struct Total {
    double value = 0;
    WEFT_INLINE void add(double x) { value += x; }
    WEFT_INLINE void join(const Total& other) { value += other.value; }
    WEFT_INLINE double get() const { return value; }
};

template <>
struct Total<double> {
    double value = 0, lost = 0;
    WEFT_INLINE void add(double x) {
        const double sum = value + x;
        lost += std::fabs(value) >= std::fabs(x) ? (value - sum) + x : (x - sum) + value;
        value = sum;
    }
    WEFT_INLINE void join(const Total& other) {
        add(other.value);
        lost += other.lost;
    }
    /// `lost` is NaN once the sum is infinite.
    WEFT_INLINE double get() const { return std::isfinite(value) ? value + lost : value; }
};

/// Op::apply(a, b) on vectors and elements: a becomes a op b.
struct AddLanes {
    static constexpr bool compares = false;
    template <class V>
    WEFT_INLINE static void apply(V& a, const V& b) {
        a += b;
    }
};
struct MultiplyLanes {
    static constexpr bool compares = false;
    template <class V>
    WEFT_INLINE static void apply(V& a, const V& b) {
        a *= b;
    }
};
/// A NaN wins.
struct MaxLanes {
    static constexpr bool compares = true;
    template <class V>
    WEFT_INLINE static void apply(V& a, const V& b) {
        const V larger = a >= b ? a : b;
        a = a != a ? a : larger;
    }
};
struct MinLanes {
    static constexpr bool compares = true;
    template <class V>
    WEFT_INLINE static void apply(V& a, const V& b) {
        const V smaller = a <= b ? a : b;
        a = a != a ? a : smaller;
    }
};

/// All lanes of v, upper half onto lower half until one is left.
template <class Op, class T, int Bytes>
WEFT_INLINE T fold_lanes(const typename vec::Simd<T, Bytes>::Vector& v) {
    if constexpr (vec::Simd<T, Bytes>::lanes == 1) {
        return v;
    } else {
        typename vec::Simd<T, Bytes / 2>::Vector lower, upper;
        vec::halves<T, Bytes>(v, lower, upper);
        Op::apply(lower, upper);
        return fold_lanes<Op, T, Bytes / 2>(lower);
    }
}

/// What is left of a row after whole vectors: one narrower vector of each width that fits.
template <class T, int Bytes, int K, class Term>
WEFT_INLINE void sum_tail(int64_t i, int64_t n, const Term& term, T* sums) {
    if (i + vec::Simd<T, Bytes>::lanes <= n) {
        typename vec::Simd<T, Bytes>::Vector t[K];
        term.template operator()<Bytes>(i, t);
        for (int k = 0; k < K; ++k) sums[k] += fold_lanes<AddLanes, T, Bytes>(t[k]);
        i += vec::Simd<T, Bytes>::lanes;
    }
    if constexpr (Bytes > static_cast<int>(sizeof(T))) sum_tail<T, Bytes / 2, K>(i, n, term, sums);
}

/// Adds K sums over i < n to `totals`. `term.operator()<W>(i, out)` gives the K vectors of W bytes
/// (or elements, where W is one) that begin at i.
template <class T, int Bytes, int K, class Term, class Sum>
WEFT_INLINE void lane_sums(int64_t n, const Term& term, Sum* totals) {
    using V = typename vec::Simd<T, Bytes>::Vector;
    constexpr int lanes = vec::Simd<T, Bytes>::lanes, unroll = K == 1 ? 4 : 2, rounds = 64 / unroll;
    int64_t i = 0;
    while (i + lanes <= n) {
        V acc[K][unroll] = {};
        for (int round = 0; round < rounds && i + unroll * lanes <= n; ++round) {
#pragma GCC unroll 4
            for (int u = 0; u < unroll; ++u, i += lanes) {
                V t[K];
                term.template operator()<Bytes>(i, t);
                for (int k = 0; k < K; ++k) acc[k][u] += t[k];
            }
        }
        if (i + unroll * lanes > n)
            for (; i + lanes <= n; i += lanes) {
                V t[K];
                term.template operator()<Bytes>(i, t);
                for (int k = 0; k < K; ++k) acc[k][0] += t[k];
            }
        for (int k = 0; k < K; ++k) {
            V sum = acc[k][0] + acc[k][1];
            if constexpr (unroll == 4) sum += acc[k][2] + acc[k][3];
            totals[k].add(fold_lanes<AddLanes, T, Bytes>(sum));
        }
    }
    T sums[K] = {};
    if constexpr (lanes > 1) sum_tail<T, Bytes / 2, K>(i, n, term, sums);
    for (int k = 0; k < K; ++k) totals[k].add(sums[k]);
}

/// The plain sum of a row.
template <class T, int Bytes>
WEFT_INLINE void row_sum(const T* x, int64_t n, Total<T>* total) {
    lane_sums<T, Bytes, 1>(
        n,
        [x]<int W>(int64_t i, auto* out)
            __attribute__((always_inline)) { out[0] = vec::load<T, W>(x + i); },
        total);
}

/// `start` op x[0] op ... op x[n-1], in lanes: for operations whose order does not matter, or whose
/// rounding is relative.
template <class Op, class T, int Widest>
WEFT_INLINE T row_fold(const T* x, int64_t n, T start) {
    // GCC 12 takes selections between 64-byte vectors apart into elements.
    constexpr int Bytes = Op::compares && Widest > 32 ? 32 : Widest;
    using V = typename vec::Simd<T, Bytes>::Vector;
    constexpr int lanes = vec::Simd<T, Bytes>::lanes, unroll = 4;
    int64_t i = 0;
    if (n >= lanes) {
        const V first = start - V{};
        V acc[unroll] = {first, first, first, first};
        for (; i + unroll * lanes <= n; i += unroll * lanes)
#pragma GCC unroll 4
            for (int u = 0; u < unroll; ++u) {
                const V v = vec::load<T, Bytes>(x + i + u * lanes);
                Op::apply(acc[u], v);
            }
        for (; i + lanes <= n; i += lanes) {
            const V v = vec::load<T, Bytes>(x + i);
            Op::apply(acc[0], v);
        }
        Op::apply(acc[0], acc[1]);
        Op::apply(acc[2], acc[3]);
        Op::apply(acc[0], acc[2]);
        start = fold_lanes<Op, T, Bytes>(acc[0]);
    }
    for (; i < n; ++i) {
        const T v = x[i];
        Op::apply(start, v);
        vec::opaque(i);
    }
    return start;
}

/// The largest element; a NaN wins; -infinity for an empty row.
template <class T, int Bytes>
WEFT_INLINE T row_max(const T* x, int64_t n) {
    return row_fold<MaxLanes, T, Bytes>(x, n, -std::numeric_limits<T>::infinity());
}

}  // namespace weft::kernels
