#include "kernels/margin.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/row_sums.h"

namespace weft::kernels {
namespace {

/// Adds the sum of max(0, x[i] + shift)^Power.
template <class T, int Power>
struct Hinges {
    template <int Widest>
    struct Body {
        WEFT_INLINE static void run(const T* x, int64_t n, T shift, Total<T>* total) {
            constexpr int Bytes = Widest > 32 ? 32 : Widest;  // as in row_fold
            lane_sums<T, Bytes, 1>(
                n,
                [x, shift]<int W>(int64_t i, auto* out) __attribute__((always_inline)) {
                    const typename vec::Simd<T, W>::Vector v = vec::load<T, W>(x + i) + shift,
                                                           zero{};
                    out[0] = v > zero ? v : zero;
                    if constexpr (Power == 2) out[0] *= out[0];
                },
                total);
        }
    };
};

}  // namespace

template <class T>
void multi_margin(int64_t rows, int64_t classes, const T* x, const int64_t* target, int power,
                  T margin, T* y) {
    const auto add = [&](const T* at, int64_t n, T shift, Total<T>* total) {
        if (power == 1) vec::per_width<Hinges<T, 1>::template Body>(at, n, shift, total);
        else vec::per_width<Hinges<T, 2>::template Body>(at, n, shift, total);
    };
    const int64_t grain = std::max<int64_t>(1, (1 << 14) / classes);
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const T* row = x + i * classes;
            const int64_t own = target[i];
            Total<T> total;
            add(row, own, margin - row[own], &total);
            add(row + own + 1, classes - own - 1, margin - row[own], &total);
            y[i] = static_cast<T>(total.get() / static_cast<double>(classes));
        }
    });
}

template void multi_margin(int64_t, int64_t, const float*, const int64_t*, int, float, float*);
template void multi_margin(int64_t, int64_t, const double*, const int64_t*, int, double, double*);

}  // namespace weft::kernels
