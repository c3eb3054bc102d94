/// The operations that reduce.cpp and axis_stats.cpp share, in the form of axis_work.h.
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/axis_work.h"
#include "kernels/row_sums.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace weft::kernels {

template <class T>
constexpr bool is_real = std::is_floating_point_v<T>;

template <class T>
struct RowSum {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const T* x, int64_t n, Total<T>* total) {
            row_sum<T, Bytes>(x, n, total);
        }
    };
};

struct WrappingSum {
    uint64_t value = 0;
    void join(const WrappingSum& other) { value += other.value; }
    int64_t get() const { return static_cast<int64_t>(value); }
};

/// How many of n bools are true, counted in bytes while these hold it.
struct CountRow {
    WEFT_INLINE static void run(const bool* x, int64_t n, WrappingSum* total) {
        constexpr int64_t lanes = 64, rounds = 255;
        const auto* at = reinterpret_cast<const uint8_t*>(x);
        int64_t i = 0;
        while (i + lanes <= n) {
            uint8_t sums[lanes] = {};
            for (int64_t r = 0; r < rounds && i + lanes <= n; ++r, i += lanes)
                for (int64_t j = 0; j < lanes; ++j) sums[j] += at[i + j];
            uint32_t sum = 0;
            for (int64_t j = 0; j < lanes; ++j) sum += sums[j];
            total->value += sum;
        }
        for (; i < n; ++i) total->value += at[i];
    }
};

template <class T>
struct SumOp {
    static constexpr bool counts = std::is_same_v<T, bool>, in_registers = !counts;
    /// A byte counts the rows of a block.
    using Lane = std::conditional_t<is_real<T>, T, std::conditional_t<counts, uint8_t, uint64_t>>;
    static_assert(rows_per_block <= 255);
    using Part = std::conditional_t<is_real<T>, Total<T>, WrappingSum>;
    static constexpr Lane start = 0;
    WEFT_INLINE static Lane merge(Lane acc, T x) {
        return static_cast<Lane>(acc + static_cast<Lane>(x));
    }
    WEFT_INLINE static void flush(Part& part, Lane acc) {
        if constexpr (is_real<T>) part.add(acc);
        else part.value += acc;
    }
    static void row(const T* x, int64_t n, Part* part) {
        if constexpr (is_real<T>) vec::per_width<RowSum<T>::template Body>(x, n, part);
        else if constexpr (counts) per_isa<CountRow>(x, n, part);
        else per_isa<PlainRow<SumOp, T>>(x, n, part);
    }
};

/// Fold with an operation of row_sums.h: a Part is one value.
template <class T, class Lanes>
struct RowFold {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const T* x, int64_t n, T* value) {
            *value = row_fold<Lanes, T, Bytes>(x, n, *value);
        }
    };
};

/// Max and Min, of which `Lanes` says which. A bool is taken as 0 or 1.
template <class T, class Lanes>
struct ExtremeOp {
    using Lane = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    using Limits = std::numeric_limits<Lane>;
    static constexpr bool largest = std::is_same_v<Lanes, MaxLanes>;
    static constexpr Lane start = is_real<T> ? (largest ? -Limits::infinity() : Limits::infinity())
                                             : (largest ? Limits::lowest() : Limits::max());
    struct Part {
        Lane value = start;
        WEFT_INLINE void join(const Part& other) { value = merge(value, other.value); }
    };
    WEFT_INLINE static Lane merge(Lane acc, Lane x) {
        Lanes::apply(acc, x);
        return acc;
    }
    WEFT_INLINE static void flush(Part& part, Lane acc) { part.value = merge(part.value, acc); }
    static void row(const T* x, int64_t n, Part* part) {
        if constexpr (is_real<T>)
            vec::per_width<RowFold<T, Lanes>::template Body>(x, n, &part->value);
        else per_isa<PlainRow<ExtremeOp, T>>(x, n, part);
    }
};

}  // namespace weft::kernels
