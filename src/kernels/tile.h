/// What register tiles of products share: multiply-adds and broadcasts that stay as written, and
/// the packing of an operand into panels.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/parallel.h"
#include "kernels/small_gemm.h"
#include "kernels/vector.h"

namespace weft::kernels {

/// Assembly, because GCC folds loads into the multiply-adds and moves them about, which costs a
/// tenth.
template <class T, class V>
WEFT_INLINE void multiply_add(V& acc, const V& x, const V& y) {
#if WEFT_VECTOR_ASM
    if constexpr (sizeof(V) >= 32) {
        if constexpr (sizeof(T) == 4)
            asm volatile("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y));
        else asm volatile("vfmadd231pd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y));
        return;
    }
#endif
    acc += x * y;
}
template <class T, class V>
WEFT_INLINE void broadcast(V& out, const T& x) {
#if WEFT_VECTOR_ASM
    if constexpr (sizeof(V) >= 32) {
        if constexpr (sizeof(T) == 4) asm volatile("vbroadcastss %1, %0" : "=v"(out) : "m"(x));
        else asm volatile("vbroadcastsd %1, %0" : "=v"(out) : "m"(x));
        return;
    }
#endif
    out = x - V{};
}

/// A panel to be packed: element (p, j), p < k and j < cols, of a matrix whose rows or columns are
/// contiguous, goes to out[p * width + j]. Columns up to `width` repeat the last one.
template <class T>
struct Panel {
    const T* from;
    int64_t ld;
    bool transposed;  ///< (p, j) lies at from[j * ld + p], else at from[p * ld + j]
    int64_t k, cols, width;
    T scale;
    T* out;

    /// Steps [p, p + n) alone.
    WEFT_INLINE Panel steps(int64_t p, int64_t n) const {
        Panel part = *this;
        part.from += transposed ? p : p * ld;
        part.out += p * width;
        part.k = n;
        return part;
    }
};

/// `Bytes` divide a row of the packed panel.
template <class T, int Bytes>
WEFT_INLINE void pack(const Panel<T>& q) {
    using namespace vec;
    constexpr int lanes = Simd<T, Bytes>::lanes;
    if (q.transposed) {
        small::pack_transposed<T, Bytes>(q.from, q.ld, q.k, q.cols, q.width, q.out);
    } else if (q.cols == q.width) {
        for (int64_t p = 0; p < q.k; ++p)
            for (int64_t j = 0; j < q.width; j += lanes)
                store<T, Bytes>(q.out + p * q.width + j, load<T, Bytes>(q.from + p * q.ld + j));
    } else {
        for (int64_t p = 0; p < q.k; ++p)
            for (int64_t j = 0; j < q.width; ++j)
                q.out[p * q.width + j] = q.from[p * q.ld + std::min(j, q.cols - 1)];
    }
    if (q.scale != T(1))
        for (int64_t t = 0; t < q.k * q.width; ++t) q.out[t] *= q.scale;
}

/// Size of near-equal parts of n, as few as `most` per part allows, multiples of `unit`.
inline int64_t part_size(int64_t n, int64_t most, int64_t unit) {
    const int64_t parts = (n + most - 1) / most;
    return ((n + parts - 1) / parts + unit - 1) / unit * unit;
}

/// C[m, n] = alpha * op(A) * op(B) + beta * C, as gemm says; with beta 1, `d` may stand for C there.
template <class T>
struct Product {
    bool trans_a, trans_b;
    int64_t m, n, k;
    T alpha;
    const T* a;
    int64_t lda;
    const T* b;
    int64_t ldb;
    T beta;
    T* c;
    int64_t ldc;
    const T* d = nullptr;
    int64_t ldd = 0;
    const T* e = nullptr;  ///< added to what comes of that (panel_gemm alone)
    int64_t lde = 0;
};

/// Memory for packed operands, one per thread, kept; defined in packed_gemm.cpp.
inline constexpr int64_t product_workspace_bytes = int64_t{2} << 20;
char* product_workspace();

/// Multiply-adds from which on the pool is used: about 30 us, against 5 us to wake it.
inline constexpr double parallel_work = 1 << 22;

/// Runs `one(part)` for the parts of a product, one for each thread of the pool: the grid that
/// reads least of A and B. For kernels whose bits do not depend on the cut.
template <class T, class One>
void over_grid(const Product<T>& q, const One& one) {
    constexpr int64_t row_unit = 24, column_unit = 64;
    const int64_t pieces = 1.0 * q.m * q.n * q.k < parallel_work ? 1 : get_num_threads();
    int64_t rows = pieces, columns = 1;
    for (int64_t across = 2; across <= pieces; ++across)
        if (pieces % across == 0 &&
            q.m * across / pieces + q.n / across < q.m / rows + q.n / columns) {
            rows = pieces / across;
            columns = across;
        }
    const int64_t row_units = (q.m + row_unit - 1) / row_unit;
    const int64_t column_units = (q.n + column_unit - 1) / column_unit;
    rows = std::min(rows, row_units);
    columns = std::min(columns, column_units);
    parallel_for(rows * columns, 1, [&](int64_t begin, int64_t end) {
        for (int64_t index = begin; index < end; ++index) {
            const int64_t r = index / columns, s = index % columns;
            const int64_t i = r * row_units / rows * row_unit;
            const int64_t j = s * column_units / columns * column_unit;
            Product<T> part = q;
            part.m = std::min(q.m, (r + 1) * row_units / rows * row_unit) - i;
            part.n = std::min(q.n, (s + 1) * column_units / columns * column_unit) - j;
            part.a += i * (q.trans_a ? 1 : q.lda);
            part.b += j * (q.trans_b ? q.ldb : 1);
            part.c += i * q.ldc + j;
            if (part.d) part.d += i * q.ldd + j;
            if (part.e) part.e += i * q.lde + j;
            one(part);
        }
    });
}

}  // namespace weft::kernels
