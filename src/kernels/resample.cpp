#include "kernels/resample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

/// The sums of output i.
template <class T, class Sum>
WEFT_INLINE void sum_taps(const ResampleAxis& a, int64_t i, int64_t inner, const T* x,
                          const Sum* weight, Sum* __restrict to) {
    for (int64_t t = 0; t < a.taps; ++t) {
        const Sum w = weight[i * a.taps + t];
        const T* __restrict from = x + a.index[i * a.taps + t] * inner;
        if (t == 0)
            for (int64_t j = 0; j < inner; ++j) to[j] = w * from[j];
        else if (w != 0)
            for (int64_t j = 0; j < inner; ++j) to[j] += w * from[j];
    }
}

template <class T>
struct ResampleForward {
    WEFT_INLINE static void run(const T* x, T* y, int64_t inner, const ResampleAxis* axis,
                                const T* weight) {
        const ResampleAxis a = *axis;
        for (int64_t i = 0; i < a.out; ++i) sum_taps(a, i, inner, x, weight, y + i * inner);
    }
};

template <class T>
struct ResampleBackward {
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

/// Weights and places by tap, so that a loop runs along the outputs: y[i] is the sum over t of
/// weight[t * out + i] * x[at[t * out + i]]. For single elements, where the loops over `inner` have
/// one turn each. Missing taps have the weight 0.
template <class T>
struct ByTap {
    using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    int64_t out, taps = 0;
    bool complete = true;  ///< every output has a first tap
    std::vector<T> weight;
    std::vector<Place> at;

    struct Term {
        int64_t from;
        T weight;
    };
    explicit ByTap(const std::vector<std::vector<Term>>& terms)
        : out(static_cast<int64_t>(terms.size())) {
        for (const auto& sum : terms) {
            taps = std::max(taps, static_cast<int64_t>(sum.size()));
            complete &= !sum.empty();
        }
        weight.assign(taps * out, T(0));
        at.assign(taps * out, 0);
        for (int64_t i = 0; i < out; ++i)
            for (size_t t = 0; t < terms[i].size(); ++t) {
                weight[t * out + i] = terms[i][t].weight;
                at[t * out + i] = static_cast<Place>(terms[i][t].from);
            }
    }
    static ByTap forward(const ResampleAxis& a) {
        std::vector<std::vector<Term>> terms(a.out);
        each(a, [&](int64_t i, int64_t from, T w) { terms[i].push_back({from, w}); });
        return ByTap(terms);
    }
    static ByTap backward(const ResampleAxis& a) {
        std::vector<std::vector<Term>> terms(a.in);
        each(a, [&](int64_t i, int64_t from, T w) { terms[from].push_back({i, w}); });
        return ByTap(terms);
    }
    template <class Body>
    static void each(const ResampleAxis& a, const Body& body) {
        for (int64_t i = 0; i < a.out; ++i)
            for (int64_t t = 0; t < a.taps; ++t) {
                const T w = static_cast<T>(a.weight[i * a.taps + t]);
                if (t == 0 || w != 0) body(i, a.index[i * a.taps + t], w);
            }
    }
};

template <class T>
struct SumsByTap {
    WEFT_INLINE static void run(const ByTap<T>* table, const T* __restrict x, T* __restrict y) {
        const int64_t out = table->out;
        if (table->taps == 0)
            for (int64_t i = 0; i < out; ++i) y[i] = 0;
        for (int64_t t = 0; t < table->taps; ++t) {
            const T* __restrict weight = table->weight.data() + t * out;
            const auto* __restrict at = table->at.data() + t * out;
            if (t == 0 && table->complete)
                for (int64_t i = 0; i < out; ++i) y[i] = weight[i] * x[at[i]];
            else
                for (int64_t i = 0; i < out; ++i) {
                    const T part = weight[i] * x[at[i]];
                    y[i] = (t ? y[i] : T(0)) + (weight[i] != 0 ? part : T(0));
                }
        }
    }
};

template <class T>
void run_by_tap(const ByTap<T>& table, const T* from, T* to, int64_t from_size, int64_t outer) {
    const int64_t work = std::max<int64_t>(1, table.out * table.taps);
    parallel_for(outer, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o)
            per_isa<SumsByTap<T>>(&table, from + o * from_size, to + o * table.out);
    });
}

/// Whether ByTap's numbers suffice and its table pays.
bool by_tap(int64_t outer, int64_t inner, const ResampleAxis& a) {
    return inner == 1 && outer > 8 && std::max(a.in, a.out) < std::numeric_limits<int32_t>::max();
}

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

/// A byte from a sum with `bits` bits behind the point: rounded and clamped.
WEFT_INLINE uint8_t byte_of(int32_t sum, int bits) {
    return static_cast<uint8_t>(std::clamp((sum + (1 << (bits - 1))) >> bits, 0, 255));
}

struct ForwardBytes {
    WEFT_INLINE static void run(const uint8_t* x, uint8_t* y, int64_t inner,
                                const ResampleAxis* axis, const int32_t* weight, int bits,
                                int32_t* __restrict sums) {
        const ResampleAxis a = *axis;
        for (int64_t i = 0; i < a.out; ++i) {
            sum_taps(a, i, inner, x, weight, sums);
            uint8_t* __restrict to = y + i * inner;
            for (int64_t j = 0; j < inner; ++j) to[j] = byte_of(sums[j], bits);
        }
    }
};

/// By tap, of a row that is widened first: processors gather no bytes.
struct BytesByTap {
    WEFT_INLINE static void run(const ByTap<int32_t>* table, const uint8_t* __restrict x,
                                uint8_t* __restrict y, int64_t in, int bits,
                                int32_t* __restrict row, int32_t* __restrict sums) {
        for (int64_t i = 0; i < in; ++i) row[i] = x[i];
        SumsByTap<int32_t>::run(table, row, sums);
        for (int64_t i = 0; i < table->out; ++i) y[i] = byte_of(sums[i], bits);
    }
};

}  // namespace

void resample_bytes(const uint8_t* x, uint8_t* y, int64_t outer, int64_t inner,
                    const ResampleAxis& a) {
    const int64_t count = a.out * a.taps;
    std::vector<double> whole(a.weight, a.weight + count);
    for (int64_t k = count - 1; k > 0; --k)  // taps beyond the edge are its pixel's
        if (k % a.taps && a.index[k] == a.index[k - 1]) whole[k - 1] += whole[k], whole[k] = 0;
    const double largest = *std::max_element(whole.begin(), whole.end());
    int bits = 1;
    while (bits < 22 && std::floor(largest * (int64_t{2} << bits) + 0.5) < (1 << 15)) ++bits;
    for (double& w : whole) w = std::round(w * (1 << bits));

    const std::vector<int32_t> weight(whole.begin(), whole.end());
    const ResampleAxis axis{a.in, a.out, a.taps, a.index, whole.data()};
    const auto table = inner == 1 ? ByTap<int32_t>::forward(axis) : ByTap<int32_t>({});
    const int64_t work = std::max<int64_t>(1, count * inner);
    parallel_for(outer, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) {
        std::vector<int32_t> row(inner == 1 ? a.in : 0), sums(inner == 1 ? a.out : inner);
        for (int64_t o = begin; o < end; ++o) {
            const uint8_t* from = x + o * a.in * inner;
            uint8_t* to = y + o * a.out * inner;
            if (inner == 1)
                per_isa<BytesByTap>(&table, from, to, a.in, bits, row.data(), sums.data());
            else per_isa<ForwardBytes>(from, to, inner, &axis, weight.data(), bits, sums.data());
        }
    });
}

template <class T>
void resample(const T* x, T* y, int64_t outer, int64_t inner, const ResampleAxis& a) {
    if (by_tap(outer, inner, a)) return run_by_tap(ByTap<T>::forward(a), x, y, a.in, outer);
    run<ResampleForward, T>(x, y, a.in, a.out, outer, inner, a);
}

template <class T>
void resample_backward(const T* dy, T* dx, int64_t outer, int64_t inner, const ResampleAxis& a) {
    if (by_tap(outer, inner, a)) return run_by_tap(ByTap<T>::backward(a), dy, dx, a.out, outer);
    run<ResampleBackward, T>(dy, dx, a.out, a.in, outer, inner, a);
}

#define WEFT_RESAMPLE(T)                                                                           \
    template void resample<T>(const T*, T*, int64_t, int64_t, const ResampleAxis&);                \
    template void resample_backward<T>(const T*, T*, int64_t, int64_t, const ResampleAxis&);
WEFT_RESAMPLE(float)
WEFT_RESAMPLE(double)
#undef WEFT_RESAMPLE

}  // namespace weft::kernels
