/// Large float and double products in tiles of C that stay in registers, both operands packed.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// True where this processor has kernels for it: AVX2 with FMA, or AVX-512.
bool packed_gemm_ready();

/// C[m, n] = alpha * op(A)[m, k] * op(B)[k, n] + beta * C with gemm's contract, m, n, k >= 1.
/// Needs packed_gemm_ready(). The bits of an element of C depend on alpha, beta, k and its row of
/// A and column of B alone: not on m, n, the position or the number of threads.
template <class T>
void packed_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                 int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

}  // namespace weft::kernels
