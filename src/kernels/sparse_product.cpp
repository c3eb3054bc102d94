#include "kernels/sparse_product.h"

#include "base/parallel.h"
#include "kernels/row_sums.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

/// Columns [begin, end) of the product: threads share the columns, so that each sum has its order.
template <class T>
struct AddRows {
    WEFT_INLINE static void run(const Places* places, const T* values, const T* dense,
                                int64_t width, int64_t begin, int64_t end, T* out) {
        for (int64_t e = 0; e < places->count; ++e) {
            const T by = values[e];
            const T* from = dense + places->cols[e] * width;
            T* to = out + places->rows[e] * width;
#pragma GCC ivdep
            for (int64_t i = begin; i < end; ++i) to[i] += by * from[i];
        }
    }
};

template <class T>
struct Dots {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const Places* places, const T* left, const T* right,
                                    int64_t width, int64_t begin, int64_t end, T* out) {
            for (int64_t e = begin; e < end; ++e) {
                const T *a = left + places->rows[e] * width, *b = right + places->cols[e] * width;
                Total<T> total;
                lane_sums<T, Bytes, 1>(
                    width,
                    [a, b]<int W>(int64_t i, auto* to) __attribute__((always_inline)) {
                        to[0] = vec::load<T, W>(a + i);
                        to[0] *= vec::load<T, W>(b + i);
                    },
                    &total);
                out[e] = static_cast<T>(total.get());
            }
        }
    };
};

}  // namespace

template <class T>
void sparse_product(const Places& places, const T* values, const T* dense, int64_t width, T* out) {
    parallel_for(width, 64, [&](int64_t begin, int64_t end) {
        per_isa<AddRows<T>>(&places, values, dense, width, begin, end, out);
    });
}

template <class T>
void sparse_dots(const Places& places, const T* a, const T* b, int64_t width, T* out) {
    parallel_for(places.count, 256, [&](int64_t begin, int64_t end) {
        vec::per_width<Dots<T>::template Body>(&places, a, b, width, begin, end, out);
    });
}

#define WEFT_SPARSE(T)                                                                             \
    template void sparse_product<T>(const Places&, const T*, const T*, int64_t, T*);               \
    template void sparse_dots<T>(const Places&, const T*, const T*, int64_t, T*);
WEFT_SPARSE(float)
WEFT_SPARSE(double)
#undef WEFT_SPARSE

}  // namespace weft::kernels
