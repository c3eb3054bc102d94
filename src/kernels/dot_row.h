/// The product that a layer on one sample is.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// c[n] = alpha * x[k] B^T + beta * d of floats or doubles, with the bits of `gemm_add` (of `gemm` where beta is 0). Those
/// come to one loop by way of their choices, which take longer than so small a product's half: here they are made once.
struct DotRow {
    int64_t n, k, lead_b;
    double alpha, beta;
    /// Null: it is none, or not for that loop alone.
    void (*kernel)(const DotRow&, void* c, const void* x, const void* b, const void* d) = nullptr;

    /// Fills `kernel` for the sizes and numbers that are there.
    template <class T>
    void find_kernel();
};

}  // namespace weft::kernels
