/// Products of bfloat16 by the processor's instruction for them, vdpbf16ps: twice the multiply-adds
/// of float, on half of its bytes.
#pragma once
#include <cstdint>

#include "kernels/half.h"
#include "kernels/matmul.h"

namespace weft::kernels {

/// Whether this processor has it, and may use it.
bool bf16_gemm_ready();

/// C[m, n] = alpha * op(A)[m, k] * op(B)[k, n] + beta * D for each of `batch` products, m, n, k >= 1,
/// summed in float and rounded once. Matrices of a batch lie `step` elements apart, C densely; rows
/// of D, which is null for none, lie ldd apart. Same bits on any number of threads.
struct Bf16Product {
    Trans trans_a, trans_b;
    int64_t batch, m, n, k;
    float alpha;
    const BFloat16* a;
    int64_t lda, step_a;
    const BFloat16* b;
    int64_t ldb, step_b;
    float beta;
    const BFloat16* d;
    int64_t ldd;
    BFloat16* c;
};
void bf16_gemm(const Bf16Product& product);

}  // namespace weft::kernels
