/// A piece of the halves at a time becomes floats in the first-level cache, for the bodies that sum those.
#include "kernels/half_sum.h"

#include "kernels/half_loops.h"
#include "kernels/reduce_ops.h"

namespace weft::kernels {
namespace {

using Op = SumOp<float>;
using Part = Op::Part;

/// What is converted at once: so much of a row, or so many columns of a block of rows.
constexpr int64_t columns = 128, row_piece = rows_per_block * columns;

/// to[r * columns + j] = from[r * stride + j] for j < width; one row may be of any width.
template <class H>
struct Widen {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(float* to, const H* from, int64_t rows, int64_t stride,
                                    int64_t width) {
#pragma GCC unroll 1
            for (int64_t r = 0; r < rows; ++r, to += columns, from += stride) {
                int64_t j = 0;
#if WEFT_VECTOR_ASM
                if constexpr (Bytes > 16) {
                    constexpr int64_t lanes = Bytes / 4;
                    for (; j + lanes <= width; j += lanes)
                        detail::load_halves<Bytes>(to + j, from + j);
                }
#endif
                for (; j < width; ++j) to[j] = static_cast<float>(from[j]);
            }
        }
    };
};

template <class H>
void sum_of(const H* x, float* y, Axis a, double divisor) {
    if (a.outer <= 0 || a.inner <= 0) return;
    const auto widen = [](float* to, const H* from, int64_t rows, int64_t stride, int64_t width) {
        vec::per_width<Widen<H>::template Body>(to, from, rows, stride, width);
    };
    const auto emit = [y, divisor](int64_t first, int64_t count, const Part* parts) {
        for (int64_t i = 0; i < count; ++i)
            y[first + i] = static_cast<float>(parts[i].get() / divisor);
    };
    if (a.inner == 1)
        return over_rows<Part>(
            a,
            [x, widen](int64_t at, int64_t count, Part* part) {
                alignas(64) float floats[row_piece];
                for (int64_t i = 0; i < count; i += row_piece) {
                    const int64_t n = std::min(row_piece, count - i);
                    widen(floats, x + at + i, 1, 0, n);
                    Op::row(floats, n, part);
                }
            },
            emit);
    over_columns<Part>(
        a, true,
        [x, widen](int64_t at, int64_t rows, int64_t stride, int64_t width, int64_t, Part* parts) {
            alignas(64) float floats[row_piece];
            for (int64_t i = 0; i < rows; i += rows_per_block)
                for (int64_t j = 0; j < width; j += columns) {
                    const int64_t n = std::min(rows_per_block, rows - i);
                    const int64_t count = std::min(columns, width - j);
                    widen(floats, x + at + i * stride + j, n, stride, count);
                    per_isa<Strip<Op, float>, const float*>(floats, n, columns, count, parts + j);
                }
        },
        emit);
}

}  // namespace

void sum_halves(const void* x, bool bfloat16, float* y, Axis axis, double divisor) {
    if (bfloat16) sum_of(static_cast<const BFloat16*>(x), y, axis, divisor);
    else sum_of(static_cast<const Half*>(x), y, axis, divisor);
}

}  // namespace weft::kernels
