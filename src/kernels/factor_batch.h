/// What the kernels of factor.h share: the work of a batch in parts, scratch memory, transposes.
#pragma once
#include <algorithm>
#include <memory>

#include "base/parallel.h"
#include "kernels/factor.h"
#include "kernels/small_factor.h"

namespace weft::kernels::batch {

/// Runs body(begin, end) over ranges of a batch of which each takes about `flops`.
template <class Body>
void for_each(int64_t count, int64_t flops, const Body& body) {
    constexpr int64_t worth = 200000;  // a thread's turn
    parallel_for(count, std::max<int64_t>(1, worth / (flops + 100)), body);
}

/// Room for n elements, without values.
template <class T>
std::unique_ptr<T[]> room(int64_t n) {
    return std::make_unique_for_overwrite<T[]>(static_cast<size_t>(n));
}

/// to [cols, rows] = from [rows, cols] transposed.
template <class T>
void transpose(int64_t rows, int64_t cols, const T* from, int64_t from_step, T* to,
               int64_t to_step) {
    constexpr int64_t block = 16;
    for (int64_t i0 = 0; i0 < rows; i0 += block)
        for (int64_t j0 = 0; j0 < cols; j0 += block) {
            const int64_t i1 = std::min(rows, i0 + block), j1 = std::min(cols, j0 + block);
            for (int64_t j = j0; j < j1; ++j)
                for (int64_t i = i0; i < i1; ++i) to[j * to_step + i] = from[i * from_step + j];
        }
}
template <class T>
void transpose(int64_t rows, int64_t cols, const T* from, T* to) {
    transpose(rows, cols, from, cols, to, rows);
}

/// The X with A X = B, or Aᵀ X = B, in the place of B [n, k] of few columns: in blocks, by our products.
/// float and double.
template <class T>
void solve_few(Triangle of, bool transposed, int64_t n, int64_t k, const T* a, T* x);

/// The X with X T = B in the place of B [k, n], row-major, for a triangle T of the row-major `a` [n, n],
/// or of its transpose or adjoint, as BLAS calls them for the column-major matrix that it sees.
template <class T>
void solve_right(char triangle, char trans, char diagonal, int64_t k, int64_t n, const T* a, T* x) {
    const auto rows = lapack::size(n), columns = lapack::size(k);
    const T one(1);
    if constexpr (!lapack::is_complex<T>) {
        // BLAS: (512, 2) 73 us against 21, (512, 16) 94 against 88, but (64, 16) 3.5 against 6.9
        if (k > 1 && k <= 16 && 16 * k <= n)
            return solve_few({triangle == 'L', diagonal == 'U'}, trans != 'N', n, k, a, x);
    }
    // A vector: op(T)ᵀ x = b. Only for reals is the transpose of every op one.
    if (k == 1 && !lapack::is_complex<T>) {
        const char other = trans == 'N' ? 'T' : 'N';
        return lapack::call<T>(lapack::Routine::Trsv, triangle, other, diagonal, rows, a, rows, x,
                               BlasInt{1});
    }
    lapack::call<T>(lapack::Routine::Trsm, 'R', triangle, trans, diagonal, columns, rows, &one, a,
                    rows, x, columns);
}

#define WEFT_EACH_FACTOR_TYPE(X) X(float) X(double) X(std::complex<float>) X(std::complex<double>)

}  // namespace weft::kernels::batch
